//! The HTTP server: it listens, and ticks.

use crate::http::work::blocking;
use crate::http::{Refusal, connections};
use crate::payload;
pub use crate::routes::router;
use crate::service::Service;
use crate::store::backup;
use axum::{
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, runtime, time::Instant};
use tokio_rustls::TlsAcceptor;

/// Threads for handlers and for reading files. Those that write wait for the disk together; more of them than this gain
/// nothing, and the allocator keeps memory for each.
const BLOCKING_THREADS: usize = 32;
/// Connections that wait to be taken.
const ACCEPT_QUEUE: i32 = 4096;
/// A stopping server waits so long for answers on their way.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(5);

/// The runtime to serve on: one thread for all connections, and so many for what blocks.
pub fn runtime() -> std::io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()
}

/// Listens on `address`. A fleet that comes back all at once waits here to be taken; the system may make the queue shorter
/// (net.core.somaxconn).
pub fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_QUEUE)?;
    Ok(socket.into())
}

/// Takes all file descriptors the system gives this process: how many there were, and how many there are.
pub fn raise_descriptors() -> std::io::Result<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // What can't be raised is used as it is.
    Ok((soft, if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }))
}

/// Where requests come in.
pub struct Listeners {
    /// Everything.
    pub main: TcpListener,
    pub tls: Option<TlsAcceptor>,
    /// What firmware fetches that knows no certificate: the boot script and what it names. All else is not here.
    pub plain: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(main: TcpListener) -> Self {
        Self { main, tls: None, plain: None }
    }
}

/// Lets through what the plain port serves beside HTTPS (docs/compatibility.md#rest-api).
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

/// Serves until `stop` completes, then for at most `STOP_GRACE` what is on its way.
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
            // Somebody still downloads an image: it can ask for the rest later.
            Err(_) => {
                server.abort();
                Ok(Ok(()))
            }
        },
    };
    let (ticked, read, backed_up) = (ticker.await, reader.await, backups.await);
    finished.map_err(std::io::Error::other)??;
    ticked.and(read).and(backed_up).map_err(std::io::Error::other)
}

/// Makes backups for who asks by the socket in the state directory, one at a time.
async fn back_up(service: Arc<Service>, mut stopped: tokio::sync::watch::Receiver<bool>) {
    let directory = service.store.directory().to_owned();
    let listener = backup::listen(&directory).and_then(|listener| {
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    });
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "no backups can be made while the service runs"),
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
            tracing::error!(?refusal, "bringing clusters and hosts to rest failed");
        }
        match due {
            None => return,
            Some(true) => refresh_at = Instant::now() + service.settings.monitor_interval,
            // As long as it took, so that requests get their half of the time, and what they change is judged once.
            Some(false) => tokio::time::sleep(began.elapsed()).await,
        }
    }
}
