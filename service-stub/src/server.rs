//! The HTTP server, and its timers.

use crate::http::work::blocking;
use crate::http::{Refusal, connections};
use crate::iso_store;
use crate::payload;
pub use crate::routes::router;
use crate::service::Service;
use crate::store::backup;
use axum::{
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use kernel::Cancel;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, runtime, time::Instant};
use tokio_rustls::TlsAcceptor;

/// Threads for handlers and for reading files. Writers share disk syncs, so more threads gain nothing, and the allocator
/// retains memory for each.
const BLOCKING_THREADS: usize = 32;
/// Backlog of connections to accept.
const ACCEPT_QUEUE: i32 = 4096;
/// Time that a stopping server gives to answers in progress.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(5);

/// The runtime: one thread for all connections, and a pool for blocking work.
pub fn runtime() -> std::io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()
}

/// Listens on `address`. A fleet that reconnects all at once queues here; the system may shorten the queue (net.core.somaxconn).
pub fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_QUEUE)?;
    Ok(socket.into())
}

/// Raises the limit of file descriptors to the maximum; returns the old and the new limit.
pub fn raise_descriptors() -> std::io::Result<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // If it can't be raised, it stays as it is.
    Ok((soft, if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }))
}

/// What a listener serves.
pub struct Listeners {
    /// Everything.
    pub main: TcpListener,
    pub tls: Option<TlsAcceptor>,
    /// Only the boot script and its files, for firmware without our certificate.
    pub plain: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(main: TcpListener) -> Self {
        Self { main, tls: None, plain: None }
    }
}

/// Passes the requests that the plain port serves beside HTTPS (docs/compatibility.md#rest-api).
async fn only_boot(request: Request, next: Next) -> Response {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let script = path.starts_with(api::API_PATH)
        && path.ends_with("/downloads/files")
        && query.split('&').any(|part| part == "file_name=ipxe-script");
    let initrd = path.starts_with("/images/") && path.ends_with("/pxe-initrd");
    if script || initrd || path.starts_with("/boot-artifacts/") {
        return next.run(request).await;
    }
    Refusal::unknown_path(path).into_response()
}

/// Serves until `stop` completes, then finishes answers in progress for at most `STOP_GRACE`.
pub async fn run(
    service: Arc<Service>,
    listeners: impl Into<Listeners>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let renewing = service.clone();
    blocking(move || Ok(renewing.renew_tokens()?))
        .await
        .map_err(|refusal| std::io::Error::other(format!("{refusal:?}")))?;
    let (stopping, stopped) = (service.stopping.clone(), service.stopping.subscribe());
    let ticker = tokio::spawn(tick(service.clone(), stopped.clone()));
    let reader = tokio::spawn(payload::keep_reading(service.clone(), stopped.clone()));
    let getter = tokio::spawn(fetch(service.clone(), stopped.clone()));
    let backups = tokio::spawn(back_up(service.clone(), stopped.clone()));
    let limits = service.settings.limits.clone();
    let Listeners { main, tls, plain } = listeners.into();
    let everything = router(service);
    let boot = plain.map(|plain| {
        let router = everything.clone().layer(middleware::from_fn(only_boot));
        connections::serve(plain, router, limits.clone(), None, stopped.clone())
    });
    let main = connections::serve(main, everything, limits, tls, stopped);
    let mut server = tokio::spawn(async {
        match boot {
            Some(boot) => tokio::try_join!(main, boot).map(drop),
            None => main.await,
        }
    });
    let early = tokio::select! {
        finished = &mut server => Some(finished),
        () = stop => None,
    };
    stopping.send_replace(true);
    let finished = match early {
        Some(finished) => finished,
        None => match tokio::time::timeout(STOP_GRACE, &mut server).await {
            Ok(finished) => finished,
            // A client is still downloading an image: it can resume later.
            Err(_) => {
                server.abort();
                Ok(Ok(()))
            }
        },
    };
    let (ticked, read, backed_up, got) = (ticker.await, reader.await, backups.await, getter.await);
    finished.map_err(std::io::Error::other)??;
    ticked.and(read).and(backed_up).and(got).map_err(std::io::Error::other)
}

/// Downloads the ISOs of OS images, and fetches lists of releases, until the service stops.
async fn fetch(service: Arc<Service>, mut stopped: tokio::sync::watch::Receiver<bool>) {
    let cancel = Cancel::default();
    for _ in 0..iso_store::AT_ONCE.min(service.iso_store.len()) {
        let (service, cancel) = (service.clone(), cancel.clone());
        tokio::task::spawn_blocking(move || service.iso_store.work(&cancel));
    }
    if !service.settings.release_sources.is_empty() {
        let cancel = cancel.clone();
        tokio::task::spawn_blocking(move || service.fetch_releases(&cancel));
    }
    let _ = stopped.wait_for(|stop| *stop).await;
    // A read from a silent server ends with the process.
    cancel.cancel();
}

/// Sends backups to clients of the socket in the state directory, one at a time.
async fn back_up(service: Arc<Service>, mut stopped: tokio::sync::watch::Receiver<bool>) {
    let directory = service.store.directory().to_owned();
    let listener = backup::listen(&directory).and_then(|listener| {
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    });
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "backups are not possible while the service runs"),
    };
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.and_then(|(stream, _)| stream.into_std()),
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        let working = service.clone();
        match stream {
            Ok(stream) => tokio::select! {
                _ = blocking(move || { backup::serve(&working.store, stream); Ok(()) }) => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            },
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn tick(service: Arc<Service>, mut stopped: tokio::sync::watch::Receiver<bool>) {
    let mut refresh_at = Instant::now() + service.settings.monitor_interval;
    loop {
        let due = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => None,
            () = tokio::time::sleep_until(refresh_at) => Some(true),
            () = service.unsettled.noted() => Some(false),
        };
        let began = Instant::now();
        let working = service.clone();
        let done = blocking(move || {
            let settled = if due == Some(false) { working.settle() } else { working.refresh() };
            settled.map_err(Refusal::from)
        });
        if let Err(refusal) = done.await {
            tracing::error!(?refusal, "cannot update the states of clusters and hosts");
        }
        match due {
            None => return,
            Some(true) => refresh_at = Instant::now() + service.settings.monitor_interval,
            // A pause as long as the pass took leaves half of the time to requests, and batches their changes.
            Some(false) => tokio::time::sleep(began.elapsed()).await,
        }
    }
}
