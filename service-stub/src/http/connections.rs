//! Accepts connections, and limits their number and idle time.

use super::limits::{Limits, MAX_HEADER_BYTES, MAX_HEADERS, READ_BUFFER_BYTES};
use super::stall::Impatient;
use axum::Router;
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{io, net::IpAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// The answer to connections beyond the limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 70\r\n\
    X-Content-Type-Options: nosniff\r\nConnection: close\r\nRetry-After: 5\r\n\r\n\
    {\"code\":503,\"message\":\"too many connections at once: try again later\"}";
/// Pause before accepting again when the system is out of file descriptors.
const BREATH: Duration = Duration::from_millis(100);
/// Minimum time between log lines about refused connections.
const QUIET: Duration = Duration::from_secs(60);

/// The address a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub IpAddr);

/// Serves until `stopped`, then lets requests in progress finish.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut open = JoinSet::new();
    let mut turned_away = TurnedAway::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            // An error means that the sender is gone: stop as well.
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, open = open.len(), "cannot accept a connection");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        // Ended ones no longer count.
        while open.try_join_next().is_some() {}
        if open.len() >= limits.connections {
            turned_away.note(limits.connections);
            // It fits the buffer of a new connection, or is lost: we do not wait. A client that expects TLS could not read it, so that
            // one gets nothing.
            if tls.is_none() {
                let _ = stream.try_write(FULL);
            }
            continue;
        }
        // Answers are small and sent whole: Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let peer = Peer(peer.ip().to_canonical());
        open.spawn(connection(stream, peer, router.clone(), limits.clone(), tls.clone(), stopped.clone()));
    }
    drop(listener);
    while open.join_next().await.is_some() {}
    Ok(())
}

/// Whether an error concerns one connection only, not the listener.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ConnectionRefused | K::ConnectionAborted | K::ConnectionReset | K::Interrupted)
}

#[derive(Default)]
struct TurnedAway {
    count: u64,
    last_warning: Option<tokio::time::Instant>,
}

impl TurnedAway {
    fn note(&mut self, bound: usize) {
        self.count += 1;
        if self.last_warning.is_none_or(|last_warning| last_warning.elapsed() >= QUIET) {
            tracing::warn!(
                bound,
                turned_away = self.count,
                "too many connections: further ones get 503 and are closed"
            );
            self.last_warning = Some(tokio::time::Instant::now());
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    stopped: watch::Receiver<bool>,
) {
    let stream = Impatient::new(stream, limits.stall);
    let Some(tls) = tls else { return http(stream, peer, router, &limits, stopped).await };
    match tokio::time::timeout(limits.handshake, tls.accept(stream)).await {
        Ok(Ok(stream)) => http(stream, peer, router, &limits, stopped).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    router: Router,
    limits: &Limits,
    mut stopped: watch::Receiver<bool>,
) {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_header_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .max_buf_size(READ_BUFFER_BYTES);
    let routed = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        routed.call(request)
    });
    let serving = protocol.serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
    let early = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = stop => None,
    };
    let ended = match early {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
