//! Which credentials each endpoint takes (docs/compatibility.md#authentication).

use Credential as C;
use axum::http::Method;

/// Where a token comes in, and what kind of token that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// `X-Secret-Key`: an agent's.
    Agent,
    /// `Authorization: Bearer`, or the password of `Basic` as browsers send it: a user's.
    User,
    /// `Watcher-Authorization`: a watcher's.
    Watcher,
    /// `Authorization: Bearer`, a watcher's: programs that collect counts can often send no other header.
    WatcherBearer,
    /// Query `api_key`: a presigned address's.
    Url,
    /// `Image-Token`: an image's.
    ImageHeader,
    /// Query `image_token`: an image's.
    ImageUrl,
    /// The first part of the path behind `/bytoken` or `/byapikey`: an image's.
    Path,
}

/// What an endpoint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// One of these.
    One(&'static [Credential]),
}

const USER: &[Credential] = &[C::User];
const USER_AGENT: &[Credential] = &[C::User, C::Agent];
const AGENT: &[Credential] = &[C::Agent];
const IMAGE: &[Credential] = &[C::User, C::Agent, C::Url, C::ImageHeader, C::ImageUrl];

/// Endpoints of the API, below its base, that take something else than a user's token. The published API has presigned addresses of
/// a cluster's credentials and manifests, but no way to present their tokens there; here `api_key` is.
#[rustfmt::skip]
const TABLE: &[(&str, &str, &[Credential])] = &[
    ("GET", "/v2/clusters", &[C::User, C::Watcher]),
    ("GET", "/v2/clusters/{cluster_id}", &[C::User, C::Agent, C::Watcher]),
    ("PUT", "/v2/clusters/{cluster_id}/progress", AGENT),
    ("GET", "/v2/clusters/{cluster_id}/hosts", USER_AGENT),
    ("GET", "/v2/clusters/{cluster_id}/downloads/files", &[C::User, C::Agent, C::Url]),
    ("GET", "/v2/clusters/{cluster_id}/downloads/credentials", &[C::User, C::Agent, C::Url]),
    ("POST", "/v2/clusters/{cluster_id}/uploads/ingress-cert", AGENT),
    ("POST", "/v2/clusters/{cluster_id}/actions/complete-installation", AGENT),
    ("PUT", "/v2/clusters/{cluster_id}/logs-progress", AGENT),
    ("GET", "/v2/clusters/{cluster_id}/manifests/files", &[C::User, C::Url]),
    ("GET", "/v2/clusters/{cluster_id}/logs", &[C::User, C::Url]),
    ("POST", "/v2/clusters/{cluster_id}/logs", AGENT),
    ("GET", "/v2/clusters/{cluster_id}/monitored-operators", USER_AGENT),
    ("PUT", "/v2/clusters/{cluster_id}/monitored-operators", AGENT),
    ("GET", "/v2/infra-envs", &[C::User, C::Watcher]),
    ("GET", "/v2/infra-envs/{infra_env_id}", IMAGE),
    ("GET", "/v2/infra-envs/{infra_env_id}/downloads/files", IMAGE),
    ("GET", "/v2/infra-envs/{infra_env_id}/downloads/minimal-initrd", &[C::User, C::Url, C::ImageHeader]),
    ("GET", "/v2/infra-envs/{infra_env_id}/hosts", USER_AGENT),
    ("POST", "/v2/infra-envs/{infra_env_id}/hosts", AGENT),
    ("GET", "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", AGENT),
    ("POST", "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", AGENT),
    ("PUT", "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/progress", AGENT),
    ("PUT", "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/logs-progress", AGENT),
    ("GET", "/v2/infra-env/{infra_env_id}/hosts/{host_id}/downloads/ignition", USER_AGENT),
    ("GET", "/v2/events", &[C::User, C::Url, C::Watcher]),
    ("POST", "/v2/events", AGENT),
];

/// What an endpoint asks for, by its pattern. One that nobody thought of asks for a user's token.
pub fn of(method: &Method, pattern: &str) -> Access {
    if let Some(path) = pattern.strip_prefix(api::API_PATH) {
        if matches!(path, "/openapi" | "/v2/openapi" | "/swagger.json") {
            return Access::Open;
        }
        let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
        let found = TABLE.iter().find(|(own, known, _)| *own == method && *known == path);
        return Access::One(found.map_or(USER, |(_, _, credentials)| credentials));
    }
    let under = |prefix: &str| pattern.starts_with(prefix);
    match pattern {
        // Ids are no secret: what they name takes a token.
        "/health" | "/ready" | "/landfall/rendezvous" => Access::Open,
        "/metrics" => Access::One(&[C::User, C::Watcher, C::WatcherBearer]),
        // Kernels, images and programs are nobody's secret, and firmware that fetches them has no token.
        _ if under("/boot-artifacts/") => Access::Open,
        _ if under("/images/") || under("/byid/") => Access::One(IMAGE),
        _ if under("/bytoken/") || under("/byapikey/") => Access::One(&[C::Path]),
        _ if under("/landfall/config/") => Access::One(AGENT),
        _ => Access::One(USER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers;

    #[test]
    fn every_line_is_a_published_endpoint() {
        let known: Vec<(String, String)> =
            handlers::published().map(|(method, path)| (method.to_string(), path.to_owned())).collect();
        for (method, path, _) in TABLE {
            assert!(known.contains(&((*method).to_owned(), (*path).to_owned())), "{method} {path}");
        }
    }

    #[test]
    fn what_is_not_listed_is_for_users() {
        let api = |method: Method, path: &str| of(&method, &format!("{}{path}", api::API_PATH));
        assert_eq!(api(Method::DELETE, "/v2/clusters/{cluster_id}"), Access::One(USER));
        assert_eq!(api(Method::GET, "/v2/something-new"), Access::One(USER));
        assert_eq!(api(Method::HEAD, "/v2/infra-envs/{infra_env_id}/hosts"), Access::One(USER_AGENT));
        assert_eq!(of(&Method::GET, "/"), Access::One(USER));
        assert_eq!(of(&Method::GET, "/boot-artifacts/os/{file}"), Access::Open);
        assert_eq!(of(&Method::GET, "/health"), Access::Open);
    }
}
