//! Checks the token of every request before anything else in it.

use super::token::{self, Claims, Scheme, TokenError};
use super::{Access, Auth, Caller, Credential, Watches};
use crate::http::{Call, Refusal, call};
use crate::model::Model;
use crate::routes;
use crate::service::Service;
use api::{ClusterId, InfraEnvId, Timestamp};
use axum::{
    extract::{MatchedPath, RawPathParams, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::sync::Arc;

/// Passes a request on with its [`Caller`] as an extension, or answers 401, 403, or 404 for what another caller owns.
pub async fn authorize(
    State(service): State<Arc<Service>>,
    matched: MatchedPath,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let path: Vec<(&str, &str)> = params.iter().collect();
    match caller(&service, matched.as_str(), &path, &parts) {
        Ok((caller, watches)) => {
            parts.extensions.insert(caller);
            if watches {
                parts.extensions.insert(Watches);
            }
            next.run(Request::from_parts(parts, body)).await
        }
        Err(refusal) => {
            let asks = matches!(refusal, Refusal::Request(StatusCode::UNAUTHORIZED, _));
            let mut response = refusal.into_response();
            if asks {
                // Browsers prompt their user only for schemes they know.
                let page = !matched.as_str().starts_with(api::API_PATH);
                let scheme = if page { "Basic realm=\"landfall\", charset=\"UTF-8\"" } else { "Bearer" };
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
            }
            response
        }
    }
}

/// The caller, and whether it may only read.
fn caller(service: &Service, pattern: &str, path: &[(&str, &str)], parts: &Parts) -> Result<(Caller, bool), Refusal> {
    let query = Call::parse_query(&parts.uri)?;
    let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let Auth::Local(key) = &service.settings.auth else {
        same_site(&parts.method, &parts.headers)?;
        return Ok((Caller::Everyone, false));
    };
    let Access::One(credentials) = routes::access(&parts.method, pattern) else {
        return Ok((Caller::Everyone, false));
    };
    let shown = credentials.iter().filter_map(|kind| Some((*kind, credential(*kind, path, &query, &parts.headers)?)));
    let mut refused = Refusal::Request(StatusCode::UNAUTHORIZED, missing(credentials));
    let now = Timestamp::now().unix_seconds();
    let model = service.store.model();
    for (kind, text) in shown {
        let checked = token::verify(key, &text, now)
            .map_err(|error: TokenError| error.to_string())
            .and_then(|claims| of_claims(&claims, kind, &parts.uri, &model));
        match checked {
            Ok(caller) => {
                if kind == Credential::User && !is_bearer(&parts.headers) {
                    same_site(&parts.method, &parts.headers)?;
                }
                within(caller, &model, pattern, path, &query, &parts.method)?;
                return Ok((caller, matches!(kind, Credential::Watcher | Credential::WatcherBearer)));
            }
            Err(message) => refused = Refusal::Request(StatusCode::UNAUTHORIZED, message),
        }
    }
    Err(refused)
}

/// The token in the place `kind` names, if any.
fn credential(kind: Credential, path: &[(&str, &str)], query: &[(&str, &str)], headers: &HeaderMap) -> Option<String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let of = |list: &[(&str, &str)], wanted: &str| {
        list.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
    };
    let bearer = |text: &str| text.strip_prefix("Bearer ").unwrap_or(text).trim().to_owned();
    match kind {
        Credential::Agent => header("x-secret-key").map(str::to_owned),
        Credential::User | Credential::WatcherBearer => match header("authorization")?.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim().to_owned()),
            Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
                let pair = String::from_utf8(STANDARD.decode(pair.trim()).ok()?).ok()?;
                pair.split_once(':').map(|(_, password)| password.to_owned())
            }
            _ => None,
        },
        Credential::Watcher => header("watcher-authorization").map(bearer),
        Credential::Url => of(query, "api_key"),
        Credential::ImageHeader => header("image-token").map(bearer),
        Credential::ImageUrl => of(query, "image_token"),
        Credential::Path => of(path, "token"),
    }
    .filter(|token| !token.is_empty())
}

/// Path and query of a presigned address, as they were signed: without the token, and without the MAC address that a boot
/// loader adds to say which machine it runs on.
fn unsigned(uri: &Uri) -> String {
    let added = |part: &&str| !part.starts_with("api_key=") && !part.starts_with("mac=");
    let query: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(added).collect();
    let query = query.join("&");
    if query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) }
}

fn is_bearer(headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
}

fn missing(credentials: &[Credential]) -> String {
    let places = credentials.iter().map(|kind| match kind {
        Credential::Agent => "X-Secret-Key",
        Credential::User => "Authorization: Bearer",
        Credential::Watcher => "Watcher-Authorization",
        Credential::WatcherBearer => "the same with a watcher's token",
        Credential::Url => "query api_key",
        Credential::ImageHeader => "Image-Token",
        Credential::ImageUrl => "query image_token",
        Credential::Path => "the path",
    });
    format!("a token is required in one of: {}", places.collect::<Vec<_>>().join(", "))
}

/// The caller with a token of these claims in the place `kind` names, or why it is refused there.
fn of_claims(claims: &Claims, kind: Credential, uri: &Uri, model: &Model) -> Result<Caller, String> {
    let wanted: &[Scheme] = match kind {
        Credential::Agent => &[Scheme::AgentAuth],
        Credential::User => &[Scheme::UserAuth],
        Credential::Watcher | Credential::WatcherBearer => &[Scheme::WatcherAuth],
        Credential::Url => &[Scheme::UrlAuth],
        Credential::ImageHeader | Credential::ImageUrl | Credential::Path => &[Scheme::ImageAuth],
    };
    if !wanted.contains(&claims.auth_scheme) {
        return Err("the token is for another purpose".to_owned());
    }
    if claims.auth_scheme == Scheme::UrlAuth && claims.url.as_deref() != Some(&unsigned(uri)) {
        return Err("the token is for another address".to_owned());
    }
    let caller = match (claims.infra_env_id, claims.cluster_id, claims.auth_scheme) {
        (Some(id), None, _) => Caller::InfraEnv(id),
        (None, Some(id), _) => Caller::Cluster(id),
        (None, None, Scheme::UserAuth | Scheme::WatcherAuth) => Caller::Everyone,
        _ => return Err("the token is for no infra-env and no cluster, or for both".to_owned()),
    };
    let Caller::InfraEnv(id) = caller else { return Ok(caller) };
    let withdrawn = match (model.infra_envs.get(&id), &claims.signing_key, claims.auth_scheme) {
        (Some(record), _, Scheme::AgentAuth) => record.key_generation != claims.key_generation,
        (Some(record), Some(key), _) => record.signing_key != *key,
        (None, key, _) => key.is_some(),
        (Some(_), None, _) => false,
    };
    if withdrawn { Err("the token was withdrawn".to_owned()) } else { Ok(caller) }
}

/// All that path and query name must be visible to the caller.
fn within(
    caller: Caller,
    model: &Model,
    pattern: &str,
    path: &[(&str, &str)],
    query: &[(&str, &str)],
    method: &Method,
) -> Result<(), Refusal> {
    if caller == Caller::Everyone {
        return Ok(());
    }
    let mut named = false;
    for (list, place) in [(path, "path"), (query, "query")] {
        for (name, value) in list.iter().filter(|(_, value)| !value.is_empty()) {
            let (infra_env, cluster) = match *name {
                "infra_env_id" => (Some(InfraEnvId(call::uuid(name, place, value)?)), None),
                "cluster_id" => (None, Some(ClusterId(call::uuid(name, place, value)?))),
                _ => continue,
            };
            caller.check(model, infra_env, cluster)?;
            named |= place == "path";
        }
    }
    // Creating a cluster or infra-env, or moving a host into another, exceeds the token's scope.
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let own_events = pattern.ends_with("/v2/events");
    // Metrics cover everything.
    if (reads || named || own_events) && !pattern.ends_with("/actions/bind") && pattern != "/metrics" {
        return Ok(());
    }
    Err(Refusal::Request(StatusCode::FORBIDDEN, "the token is for one infra-env or cluster only".to_owned()))
}

/// Refuses requests that another site's page makes a browser send: the browser would add its user's credentials, or need none.
/// Programs other than browsers send neither header.
fn same_site(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text("host").unwrap_or_default();
    let origin = text("origin").is_none_or(|origin| origin.split_once("://").is_some_and(|(_, own)| own == host));
    if site && origin {
        return Ok(());
    }
    Err(Refusal::Request(StatusCode::FORBIDDEN, "refused: the request comes from another site's page".to_owned()))
}
