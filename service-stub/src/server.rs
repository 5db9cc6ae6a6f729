//! The HTTP server: routes, what every request goes through, and the ticking refresh.

use crate::auth;
use crate::handlers::{self, DEFAULT_BODY_BYTES, Handler, counts, downloads};
use crate::http::call::{caller_of, watches};
use crate::http::limits::{self, Kind, LARGE_BODY_BYTES, Limits};
use crate::http::work::{blocking, in_time, next_piece};
use crate::http::{Answer, Call, Refusal, connections, connections::Peer, negotiate::Resumed};
use crate::images;
use crate::logs;
use crate::openapi;
use crate::page;
use crate::payload;
use crate::rendezvous;
use crate::service::Service;
use crate::store::backup;
use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, RawPathParams, Request, State},
    http::{HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodFilter, get, on, post},
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket},
    runtime,
    sync::OwnedSemaphorePermit,
    time::Instant,
};
use tokio_rustls::TlsAcceptor;

/// Threads for handlers and for reading files. Those that write wait for the disk together; more of them than this gain
/// nothing, and the allocator keeps memory for each.
const BLOCKING_THREADS: usize = 32;
/// Connections that wait to be taken.
const ACCEPT_QUEUE: u32 = 4096;
/// What comes behind a refusal is taken for so long.
const LINGER: Duration = Duration::from_secs(1);
/// A stopping server waits so long for answers on their way.
pub const STOP_GRACE: Duration = Duration::from_secs(5);

type Shared = State<Arc<Service>>;

pub fn router(service: Arc<Service>) -> Router {
    service.share();
    let mut api = Router::new();
    for endpoint in handlers::ENDPOINTS {
        let (run, limit) = (endpoint.run, endpoint.body_limit);
        let handler = move |State(service): Shared, params: RawPathParams, request: Request| {
            handle(service, run, limit, params, request)
        };
        // Every method in the table has a filter; another would be a typing error there, found by the first test.
        let filter = MethodFilter::try_from(endpoint.method.clone()).unwrap_or(MethodFilter::TRACE);
        api = api.route(endpoint.path, on(filter, handler));
    }
    let api = api
        .route("/v2/clusters/{cluster_id}/logs", post(logs::upload).get(logs::download))
        .route_layer(middleware::from_fn_with_state(service.clone(), negotiate));
    let plain = |run: Handler| {
        get(move |State(service): Shared, params: RawPathParams, request: Request| {
            handle(service, run, DEFAULT_BODY_BYTES, params, request)
        })
    };
    Router::new()
        .nest(api::API_PATH, api)
        .route("/landfall/rendezvous", plain(rendezvous::tell))
        .route(&format!("{}/openapi", api::API_PATH), plain(openapi::show))
        .route(&format!("{}/v2/openapi", api::API_PATH), plain(openapi::show))
        .route(&format!("{}/swagger.json", api::API_PATH), plain(openapi::show_swagger))
        .route("/health", plain(health))
        .route("/metrics", plain(counts::show))
        .route("/ready", get(ready))
        .route("/images/{infra_env_id}", get(images::by_id))
        .route("/images/{infra_env_id}/{artifact}", get(images::artifact))
        .route("/byid/{infra_env_id}/{version}/{arch}/full.iso", get(images::short))
        .route("/byid/{infra_env_id}/{version}/{arch}/minimal.iso", get(images::short))
        .route("/boot-artifacts/landfall", get(images::agent))
        .route("/boot-artifacts/{artifact}", get(images::of_iso))
        .route("/boot-artifacts/os/{file}", get(images::os))
        .route("/landfall/config/{role}", plain(downloads::role_config))
        .route("/bytoken/{token}/{version}/{arch}/full.iso", get(images::short))
        .route("/bytoken/{token}/{version}/{arch}/minimal.iso", get(images::short))
        .route("/byapikey/{token}/{version}/{arch}/full.iso", get(images::short))
        .route("/byapikey/{token}/{version}/{arch}/minimal.iso", get(images::short))
        .merge(page::routes())
        .route_layer(middleware::from_fn_with_state(service.clone(), auth::check::authorize))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(middleware::from_fn_with_state(service.clone(), admit))
        .with_state(service)
}

/// What every request goes through: it must be one that can be looked at, and waits until there is a place for it.
async fn admit(State(service): Shared, request: Request, next: Next) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    if let Err(refusal) = service.settings.hosts.check(uri, headers).and_then(|()| limits::check(uri, headers)) {
        return refusal.into_response();
    }
    let place = match service.gates.enter(Kind::of(request.method(), request.uri().path())).await {
        Ok(place) => place,
        Err(refusal) => return refusal.into_response(),
    };
    // Where a chunked body ends is what two programs in a row may disagree about: nothing is read after one.
    let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    service.metrics.note(method.as_str(), route, response.status().as_u16(), begun.elapsed());
    let mut response = service.gates.hold(response, place);
    if chunked {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Holds request and answer to the media types that their endpoint declares.
async fn negotiate(State(service): Shared, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().and_then(|path| path.as_str().strip_prefix(api::API_PATH));
    let Some(exchange) = route.and_then(|path| handlers::exchange(request.method(), path)) else {
        return next.run(request).await;
    };
    let (parts, mut body) = request.into_parts();
    let limits = &service.settings.limits;
    // Only its first piece tells whether a chunked body is empty.
    let first = match parts.headers.contains_key(header::TRANSFER_ENCODING) {
        true => next_piece(&mut body, limits).await,
        false => Ok(None),
    };
    let checked = first.and_then(|first| {
        exchange.check(&parts.headers, first.is_some() || !body.is_end_stream())?;
        Ok(first)
    });
    match checked {
        Ok(first) => exchange.label(next.run(Request::from_parts(parts, Resumed::body(first, body))).await),
        Err(refusal) => {
            linger(&mut body, limits).await;
            refusal.into_response()
        }
    }
}

/// GET /health: 500 when the refresh stands still (service contract §1.1).
fn health(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    match service.stands_still() {
        None => Ok(Answer::empty(StatusCode::OK)),
        Some(seconds) => {
            let reason = format!("no refresh has begun for {seconds} s: restart the service and keep its log");
            Err(Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason))
        }
    }
}

async fn ready() -> StatusCode {
    StatusCode::OK
}

async fn unknown(method: Method, uri: Uri) -> Refusal {
    handlers::refuse(&method, uri.path())
}

/// Runs a handler off the async threads, with its body read and bounded.
async fn handle(
    service: Arc<Service>,
    run: Handler,
    body_limit: usize,
    params: RawPathParams,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let call = async {
        let query = Call::parse_query(&parts.uri)?;
        let (body, large) = read_body(&service, body, body_limit).await?;
        let place = (large, service.gates.parser(body.len()).await?);
        let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok::<_, Refusal>((
            Call {
                path,
                query,
                headers: parts.headers,
                body,
                caller: caller_of(&parts.extensions),
                watches: watches(&parts.extensions),
                peer: parts.extensions.get().map(|Peer(address)| *address),
            },
            place,
        ))
    };
    let answer = match call.await {
        Ok((call, place)) => {
            let bound = service.settings.limits.work;
            let work = blocking(move || {
                // Held by the work, which goes on when its client is gone.
                let _place = place;
                run(&service, &call).map(|answer| answer.packed_for(&call.headers))
            });
            tokio::time::timeout(bound, work).await.unwrap_or_else(|_| {
                let message = "the request took too long: it may be carried out all the same".to_owned();
                Err(Refusal::Request(StatusCode::SERVICE_UNAVAILABLE, message))
            })
        }
        Err(refusal) => Err(refusal),
    };
    let answer = answer.unwrap_or_else(Answer::from);
    let response = answer.into_response();
    tracing::debug!(method = %parts.method, path = parts.uri.path(), status = response.status().as_u16(), "answered");
    response
}

/// A body, and the place that a large one takes.
type Taken = (Bytes, Option<OwnedSemaphorePermit>);

async fn read_body(service: &Service, mut body: Body, limit: usize) -> Result<Taken, Refusal> {
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes");
        Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    let limits = &service.settings.limits;
    let read = in_time(limits.body, async {
        let (mut bytes, mut place) = (Vec::new(), None);
        while let Some(piece) = next_piece(&mut body, limits).await? {
            let length = bytes.len().saturating_add(piece.len());
            if length > limit {
                return Err(too_large());
            }
            if length > LARGE_BODY_BYTES && place.is_none() {
                place = Some(service.gates.large_body().await?);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok((bytes.into(), place))
    })
    .await;
    if read.is_err() {
        linger(&mut body, limits).await;
    }
    read
}

/// Takes the rest of a refused request: a connection that closes under what is still coming may take the refusal with it.
async fn linger(body: &mut Body, limits: &Limits) {
    let rest = async {
        while next_piece(body, limits).await?.is_some() {}
        Ok(())
    };
    let _ = in_time(LINGER, rest).await;
}

/// The runtime to serve on: one thread for all connections, and so many for what blocks.
pub fn runtime() -> std::io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()
}

/// Listens on `address`. A fleet that comes back all at once waits here to be taken; the system may make the queue shorter
/// (net.core.somaxconn).
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(ACCEPT_QUEUE)
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

/// Lets through what the plain port serves beside HTTPS (service contract §1.1, §8.1).
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

/// Serves until `stop` completes, then for at most [`STOP_GRACE`] what is on its way.
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
