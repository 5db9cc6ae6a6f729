//! The HTTP server: routes, bounds, and the ticking refresh.

use crate::handlers::{self, DEFAULT_BODY_BYTES, Handler, downloads};
use crate::http::{Answer, Call, Refusal};
use crate::images;
use crate::logs;
use crate::service::Service;
use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{RawPathParams, Request, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{MethodFilter, get, on, post},
};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::{net::TcpListener, time::Instant};

/// The next piece of a body must come in this time.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two refreshes.
const REFRESH: Duration = Duration::from_secs(4);
/// A stopping server waits so long for answers on their way.
pub const STOP_GRACE: Duration = Duration::from_secs(5);

type Shared = State<Arc<Service>>;

/// All routes.
pub fn router(service: Arc<Service>) -> Router {
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
    let api = api.route("/v2/clusters/{cluster_id}/logs", post(logs::upload).get(logs::download));
    let role_config: Handler = downloads::role_config;
    let role_config = move |State(service): Shared, params: RawPathParams, request: Request| {
        handle(service, role_config, DEFAULT_BODY_BYTES, params, request)
    };
    Router::new()
        .nest(api::API_PATH, api)
        .route("/health", get(ready))
        .route("/ready", get(ready))
        .route("/images/{infra_env_id}", get(images::by_id))
        .route("/images/{infra_env_id}/{artifact}", get(images::artifact))
        .route("/byid/{infra_env_id}/{version}/{arch}/full.iso", get(images::short))
        .route("/boot-artifacts/landfall", get(images::agent))
        .route("/boot-artifacts/os/{file}", get(images::os))
        .route("/landfall/config/{role}", get(role_config))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(service)
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
        let body = read_body(body, body_limit).await?;
        let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok::<_, Refusal>(Call { path, query, headers: parts.headers, body })
    };
    let answer = match call.await {
        Ok(call) => blocking(move || run(&service, &call)).await,
        Err(refusal) => Err(refusal),
    };
    let answer = answer.unwrap_or_else(Answer::from);
    let response = answer.into_response();
    tracing::debug!(method = %parts.method, path = parts.uri.path(), status = response.status().as_u16(), "answered");
    response
}

/// Runs blocking work; a panic in it is a 500, not a dead server.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Refusal::internal(&error)))
}

/// The next piece of a body; none at its end.
pub async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match tokio::time::timeout(BODY_TIMEOUT, frame).await {
            Err(_) => {
                return Err(Refusal::Request(StatusCode::REQUEST_TIMEOUT, "the body stopped coming".to_owned()));
            }
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(Refusal::bad_request(format!("the body can't be read: {error}"))),
            // Trailers carry nothing for us.
            Ok(Some(Ok(frame))) => {
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

async fn read_body(mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes");
        Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(piece) = next_piece(&mut body).await? {
        if bytes.len().saturating_add(piece.len()) > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.into())
}

/// Path and query of a request that streams, as handlers see them.
pub fn call_of(params: &RawPathParams, uri: &Uri, headers: HeaderMap) -> Result<Call, Refusal> {
    let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Call { path, query: Call::parse_query(uri)?, headers, body: Bytes::new() })
}

/// Serves until `stop` completes, then for at most [`STOP_GRACE`] what is on its way.
pub async fn run(
    service: Arc<Service>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (stopping, stopped) = tokio::sync::watch::channel(false);
    let ticker = tokio::spawn(tick(service.clone(), stopped.clone()));
    let mut graceful = stopped.clone();
    let shutdown = async move {
        // An error means that the sender is gone, which is a stop as well.
        let _ = graceful.wait_for(|stop| *stop).await;
    };
    let server = axum::serve(listener, router(service)).with_graceful_shutdown(shutdown);
    let mut server = tokio::spawn(server.into_future());
    let early = tokio::select! {
        finished = &mut server => Some(finished),
        () = stop => None,
    };
    let _ = stopping.send(true);
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
    let ticked = ticker.await;
    finished.map_err(std::io::Error::other)??;
    ticked.map_err(std::io::Error::other)
}

use std::future::IntoFuture;

async fn tick(service: Arc<Service>, mut stopped: tokio::sync::watch::Receiver<bool>) {
    let mut refresh_at = Instant::now() + REFRESH;
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
            Some(true) => refresh_at = Instant::now() + REFRESH,
            // As long as it took, so that requests get their half of the time, and what they change is judged once.
            Some(false) => tokio::time::sleep(began.elapsed()).await,
        }
    }
}
