//! Routes, and the layers around them.

use crate::attest::handlers as attest;
use crate::auth::{self, Access, Credential as C};
use crate::certify::handlers as certify;
use crate::endpoints::{self, AGENT, DEFAULT_BODY_BYTES, ENDPOINTS, IMAGE, Run, USER};
use crate::handlers::{Handler, catalogues, counts, digests, downloads, plans};
use crate::http::call::{caller, watches};
use crate::http::cors;
use crate::http::limits::{self, Kind};
use crate::http::work::{blocking, next_piece, read_body};
use crate::http::{Answer, Call, Refusal, connections::Peer, negotiate::Resumed, unread};
use crate::images;
use crate::openapi;
use crate::page;
use crate::rendezvous;
use crate::service::Service;
use axum::{
    Router,
    body::HttpBody,
    extract::{MatchedPath, RawPathParams, Request, State},
    http::{HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, get, on},
};
use std::sync::Arc;
use tokio::time::Instant;

/// A plan with all that it names, as JSON.
const PLAN_BODY_BYTES: usize = ::certify::plan::MAX_BYTES;

type Shared = State<Arc<Service>>;

/// A route other than the API's endpoints.
struct Route {
    base: &'static str,
    path: &'static str,
    access: Access,
    make: fn() -> MethodRouter<Arc<Service>>,
}

const fn route(path: &'static str, access: Access, make: fn() -> MethodRouter<Arc<Service>>) -> Route {
    Route { base: "", path, access, make }
}

const fn description(path: &'static str, make: fn() -> MethodRouter<Arc<Service>>) -> Route {
    Route { base: api::API_PATH, ..route(path, Access::Open, make) }
}

/// Ids are not secret: access to what they name needs a token. Kernels, images and programs are not secret either, and firmware
/// that fetches them has no token.
#[rustfmt::skip]
const ROUTES: &[Route] = &[
    description("/openapi", || plain(openapi::show)),
    description("/v2/openapi", || plain(openapi::show)),
    description("/swagger.json", || plain(openapi::show_swagger)),
    route("/landfall/rendezvous", Access::Open, || plain(rendezvous::tell)),
    route("/landfall/os-images", Access::One(&[C::User, C::Watcher]), || plain(catalogues::os_images)),
    route("/landfall/hosts/{infra_env_id}/{host_id}/good-boot", Access::One(USER), || {
        limited(MethodFilter::POST, attest::record, DEFAULT_BODY_BYTES)
            .merge(limited(MethodFilter::DELETE, attest::clear, DEFAULT_BODY_BYTES))
    }),
    route("/landfall/clusters/{cluster_id}/digests", Access::One(USER), || plain(digests::of_cluster)),
    route("/landfall/infra-envs/{infra_env_id}/digests", Access::One(USER), || plain(digests::of_infra_env)),
    route("/landfall/infra-envs/{infra_env_id}/plan", Access::One(USER), || {
        plain(plans::get).merge(limited(MethodFilter::PUT, plans::set, PLAN_BODY_BYTES))
    }),
    route("/landfall/certify/runs", Access::One(USER), || {
        plain(certify::list).merge(limited(MethodFilter::POST, certify::create, PLAN_BODY_BYTES))
    }),
    route("/landfall/certify/runs/{run}", Access::One(USER), || plain(certify::show)),
    route("/landfall/certify/runs/{run}/actions/cancel", Access::One(USER), || {
        limited(MethodFilter::POST, certify::cancel, DEFAULT_BODY_BYTES)
    }),
    route("/landfall/certify/runs/{run}/files/{serial}/{file}", Access::One(USER), || plain(certify::file)),
    route("/landfall/certify/serials/{serial}", Access::One(USER), || plain(certify::history)),
    route("/landfall/config/{role}", Access::One(AGENT), || plain(downloads::role_config)),
    route("/health", Access::Open, || plain(health)),
    route("/ready", Access::Open, || get(ready)),
    route("/live", Access::Open, || get(ready)),
    route("/metrics", Access::One(&[C::User, C::Watcher, C::WatcherBearer]), || plain(counts::show)),
    route("/images/{infra_env_id}", Access::One(IMAGE), || get(images::by_id)),
    route("/images/{infra_env_id}/pxe-initrd", Access::One(IMAGE), || get(images::initrd)),
    route("/images/{infra_env_id}/s390x-initrd-addrsize", Access::One(IMAGE), || get(images::addrsize)),
    route("/byid/{infra_env_id}/{version}/{arch}/full.iso", Access::One(IMAGE), || get(images::short)),
    route("/byid/{infra_env_id}/{version}/{arch}/minimal.iso", Access::One(IMAGE), || get(images::short)),
    route("/byid/{infra_env_id}/{version}/{arch}/disconnected.iso", Access::One(IMAGE), || get(images::short)),
    route("/bytoken/{token}/{version}/{arch}/full.iso", Access::One(&[C::Path]), || get(images::short)),
    route("/bytoken/{token}/{version}/{arch}/minimal.iso", Access::One(&[C::Path]), || get(images::short)),
    route("/bytoken/{token}/{version}/{arch}/disconnected.iso", Access::One(&[C::Path]), || get(images::short)),
    route("/byapikey/{token}/{version}/{arch}/full.iso", Access::One(&[C::Path]), || get(images::short)),
    route("/byapikey/{token}/{version}/{arch}/minimal.iso", Access::One(&[C::Path]), || get(images::short)),
    route("/byapikey/{token}/{version}/{arch}/disconnected.iso", Access::One(&[C::Path]), || get(images::short)),
    route("/boot-artifacts/landfall", Access::Open, || get(images::agent)),
    route("/boot-artifacts/{artifact}", Access::Open, || get(images::iso_artifact)),
    route("/boot-artifacts/os/{file}", Access::Open, || get(images::os)),
];

/// The access that a route declares, by its pattern. A route without a declaration needs a user's token, as the page does.
pub(crate) fn access(method: &Method, pattern: &str) -> Access {
    let endpoint = pattern.strip_prefix(api::API_PATH).and_then(|path| endpoints::find(method, path));
    let fits = |route: &&Route| pattern.strip_prefix(route.base) == Some(route.path);
    let other = || ROUTES.iter().find(fits).map_or(Access::One(USER), |route| route.access);
    endpoint.map_or_else(other, |endpoint| endpoint.access)
}

fn plain(run: Handler) -> MethodRouter<Arc<Service>> {
    limited(MethodFilter::GET, run, DEFAULT_BODY_BYTES)
}

fn limited(filter: MethodFilter, run: Handler, body_limit: usize) -> MethodRouter<Arc<Service>> {
    on(filter, move |State(service): Shared, params: RawPathParams, request: Request| {
        handle(service, run, body_limit, params, request)
    })
}

pub fn router(service: Arc<Service>) -> Router {
    service.share();
    let mut api = Router::new();
    for endpoint in ENDPOINTS.iter() {
        // Every method in the table has a filter; another would be a typo there, which the first test finds.
        let filter = MethodFilter::try_from(endpoint.method.clone()).unwrap_or(MethodFilter::TRACE);
        let route = match endpoint.run {
            Run::Handler(run) => limited(filter, run, endpoint.body_limit),
            Run::Streamed(make) => make(),
        };
        api = api.route(endpoint.path, route);
    }
    let api = api.route_layer(middleware::from_fn_with_state(service.clone(), negotiate));
    let mut all = Router::new().nest(api::API_PATH, api);
    for route in ROUTES {
        all = all.route(&format!("{}{}", route.base, route.path), (route.make)());
    }
    let all = all
        .merge(page::routes())
        .route_layer(middleware::from_fn_with_state(service.clone(), auth::check::authorize))
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(service.clone(), share))
        .layer(middleware::from_fn_with_state(service.clone(), admit))
        .layer(middleware::from_fn_with_state(service.clone(), finish))
        .with_state(service);
    // Around a router that finds nothing itself: layers of the one that finds routes would come too late.
    Router::new().fallback_service(all).layer(middleware::map_request(|mut request: Request| async {
        if let Some(uri) = without_empty_parts(request.uri()) {
            *request.uri_mut() = uri;
        }
        request
    }))
}

/// The address without those slashes of the API's path that do not count, if it has any (docs/compatibility.md#rest-api).
fn without_empty_parts(uri: &Uri) -> Option<Uri> {
    let path = uri.path().strip_prefix(api::API_PATH)?;
    if !path.starts_with('/') || !path.contains("//") && !path.ends_with('/') {
        return None;
    }
    let mut target = api::API_PATH.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        target.push('/');
        target.push_str(part);
    }
    if let Some(query) = uri.query() {
        target.push('?');
        target.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// The outermost layer: delays an answer until the request's body is read.
async fn finish(State(service): Shared, request: Request, next: Next) -> Response {
    let (request, unread) = unread::watch(request);
    let mut response = next.run(request).await;
    unread.discard(&service.settings.limits, &mut response).await;
    response
}

/// Checks host name and size of a request, then waits for a free place.
async fn admit(State(service): Shared, request: Request, next: Next) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    if let Err(refusal) = service.settings.hosts.check(uri, headers).and_then(|()| limits::check(uri, headers)) {
        return refusal.into_response();
    }
    let place = match service.gates.enter(Kind::classify(request.method(), request.uri().path())).await {
        Ok(place) => place,
        Err(refusal) => return refusal.into_response(),
    };
    // A proxy and we may disagree about the end of a chunked body (request smuggling): the connection is closed after one.
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

/// Enforces the media types that the endpoint declares.
async fn negotiate(State(service): Shared, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().and_then(|path| path.as_str().strip_prefix(api::API_PATH));
    let Some(endpoint) = route.and_then(|path| endpoints::find(request.method(), path)) else {
        return next.run(request).await;
    };
    let exchange = endpoint.exchange;
    let (parts, mut body) = request.into_parts();
    let limits = &service.settings.limits;
    // Only the first piece shows whether a chunked body is empty.
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
        Err(refusal) => refusal.into_response(),
    }
}

/// GET /health: 500 if the refresh has stalled (docs/compatibility.md#rest-api).
fn health(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    match service.stands_still() {
        None => Ok(Answer::empty(StatusCode::OK)),
        Some(seconds) => {
            let reason = format!("the refresh has stalled for {seconds} s: restart the service and save its log");
            Err(Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason))
        }
    }
}

async fn ready() -> StatusCode {
    StatusCode::OK
}

/// Lets web pages of other origins read what they may.
async fn share(State(service): Shared, request: Request, next: Next) -> Response {
    let origins = &service.settings.allowed_origins;
    let Some(origin) = cors::allowed(request.uri().path(), request.headers(), origins) else {
        return next.run(request).await;
    };
    match cors::is_preflight(request.method(), request.headers()) {
        true => cors::preflight(origin),
        false => cors::allow(next.run(request).await, origin),
    }
}

/// A path that exists, for other methods. Those that it has are in the header `Allow`, which the router adds.
async fn other_method(method: Method, uri: Uri) -> Refusal {
    match uri.path().starts_with(api::API_PATH) {
        true => endpoints::refuse(&method, uri.path()),
        false => Refusal::Request(StatusCode::METHOD_NOT_ALLOWED, format!("method {method} is not allowed")),
    }
}

async fn unknown(method: Method, uri: Uri) -> Refusal {
    endpoints::refuse(&method, uri.path())
}

/// Reads the body within its limit, and runs a handler off the async threads.
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
        let (body, large) = read_body(&service.gates, &service.settings.limits, body, body_limit).await?;
        let place = (large, service.gates.parser(body.len()).await?);
        let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok::<_, Refusal>((
            Call {
                path,
                query,
                headers: parts.headers,
                body,
                caller: caller(&parts.extensions),
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
                // Held by the work, which continues when its client is gone.
                let _place = place;
                run(&service, &call).map(|answer| answer.packed_for(&call.headers))
            });
            tokio::time::timeout(bound, work).await.unwrap_or_else(|_| {
                let message = "the request took too long: it may still be carried out".to_owned();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_that_repeat_or_end_the_apis_path_do_not_count() {
        let cleaned = |text: &str| without_empty_parts(&text.parse().unwrap()).map(|uri| uri.to_string());
        for (given, clean) in [
            ("/api/assisted-install/v2/clusters/", "/api/assisted-install/v2/clusters"),
            ("/api/assisted-install//v2//clusters///?a=b//c/", "/api/assisted-install/v2/clusters?a=b//c/"),
            ("http://h:1/api/assisted-install/v2/clusters/", "http://h:1/api/assisted-install/v2/clusters"),
            ("/api/assisted-install/", "/api/assisted-install"),
        ] {
            assert_eq!(cleaned(given).as_deref(), Some(clean));
        }
        for other in ["/api/assisted-install/v2/clusters?a=/", "/api/assisted-installer//x/", "/images//x/", "/", "*"] {
            assert_eq!(cleaned(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_declared_is_for_users() {
        let api = |method: Method, path: &str| access(&method, &format!("{}{path}", api::API_PATH));
        assert_eq!(api(Method::DELETE, "/v2/clusters/{cluster_id}"), Access::One(USER));
        assert_eq!(api(Method::GET, "/v2/something-new"), Access::One(USER));
        assert_eq!(api(Method::HEAD, "/v2/infra-envs/{infra_env_id}/hosts"), Access::One(&[C::User, C::Agent]));
        assert_eq!(access(&Method::GET, "/"), Access::One(USER));
        assert_eq!(access(&Method::GET, "/boot-artifacts/os/{file}"), Access::Open);
        assert_eq!(access(&Method::GET, "/health"), Access::Open);
    }
}
