//! What each endpoint does. Handlers are plain blocking functions: the server runs them off its async threads.

pub mod agent;
pub mod catalogues;
mod cluster_networks;
pub mod cluster_settings;
pub mod clusters;
pub mod controller;
pub mod counts;
pub mod day2;
pub mod downloads;
pub mod events;
pub mod host_settings;
pub mod hosts;
pub mod infra_env_settings;
pub mod infra_envs;
pub mod install_config;
pub mod lifecycle;
mod lists;
pub mod manifests;
pub mod models;
pub mod new_cluster;
pub mod operators;
pub mod presigned;
pub mod replies;
#[cfg(test)]
mod settings_tests;
pub mod shapes;
pub mod support_levels;
pub mod validations;

use crate::http::{Answer, Call, Refusal, negotiate::Exchange};
use crate::service::Service;
use crate::steps::MAX_LONG_OUTPUT_BYTES;
use axum::http::Method;

pub type Handler = fn(&Service, &Call) -> Result<Answer, Refusal>;

/// An endpoint that is served.
pub struct Endpoint {
    pub method: Method,
    /// Path below the API's base.
    pub path: &'static str,
    pub run: Handler,
    /// A larger body is refused, in bytes.
    pub body_limit: usize,
    /// Media types.
    pub exchange: Exchange,
}

/// What settings fit into many times over.
pub const DEFAULT_BODY_BYTES: usize = 1 << 20;
/// Bodies that hold an Ignition config in a text field, quoted.
const IGNITION_BODY_BYTES: usize = 2 << 20;
/// What the longest output that is kept takes as a text in a document.
const REPLY_BODY_BYTES: usize = 2 * MAX_LONG_OUTPUT_BYTES;

const fn endpoint(method: Method, path: &'static str, run: Handler) -> Endpoint {
    sized(method, path, run, DEFAULT_BODY_BYTES)
}

const fn sized(method: Method, path: &'static str, run: Handler, body_limit: usize) -> Endpoint {
    Endpoint { method, path, run, body_limit, exchange: Exchange::DOCUMENTS }
}

const fn file(path: &'static str, run: Handler) -> Endpoint {
    Endpoint { method: Method::GET, path, run, body_limit: DEFAULT_BODY_BYTES, exchange: Exchange::FILE }
}

/// Every endpoint whose body is a document.
#[rustfmt::skip]
pub const ENDPOINTS: &[Endpoint] = &[
    endpoint(Method::POST, "/v2/clusters", new_cluster::create),
    endpoint(Method::GET, "/v2/clusters", clusters::list),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}", clusters::get),
    endpoint(Method::GET, "/v2/clusters/default-config", catalogues::default_config),
    endpoint(Method::PATCH, "/v2/clusters/{cluster_id}", cluster_settings::update),
    endpoint(Method::DELETE, "/v2/clusters/{cluster_id}", clusters::delete),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/supported-platforms", support_levels::supported_platforms),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/ui-settings", cluster_settings::ui_settings),
    endpoint(Method::PUT, "/v2/clusters/{cluster_id}/ui-settings", cluster_settings::set_ui_settings),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/install-config", install_config::get),
    endpoint(Method::PATCH, "/v2/clusters/{cluster_id}/install-config", install_config::update),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/preflight-requirements", validations::preflight),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/manifests", manifests::list),
    sized(Method::POST, "/v2/clusters/{cluster_id}/manifests", manifests::create, IGNITION_BODY_BYTES),
    sized(Method::PATCH, "/v2/clusters/{cluster_id}/manifests", manifests::update, IGNITION_BODY_BYTES),
    endpoint(Method::DELETE, "/v2/clusters/{cluster_id}/manifests", manifests::delete),
    file("/v2/clusters/{cluster_id}/manifests/files", manifests::file),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/hosts", clusters::hosts),
    endpoint(Method::POST, "/v2/clusters/{cluster_id}/actions/install", clusters::install),
    endpoint(Method::POST, "/v2/clusters/{cluster_id}/actions/cancel", clusters::cancel),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/ignored-validations", validations::ignored),
    endpoint(Method::PUT, "/v2/clusters/{cluster_id}/ignored-validations", validations::set_ignored),
    endpoint(Method::PATCH, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/reset-validation/{validation_id}", validations::reset),
    endpoint(Method::POST, "/v2/clusters/{cluster_id}/actions/reset", clusters::reset),
    endpoint(Method::PUT, "/v2/clusters/{cluster_id}/progress", controller::progress),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/monitored-operators", controller::operators),
    endpoint(Method::PUT, "/v2/clusters/{cluster_id}/monitored-operators", controller::set_operator),
    endpoint(Method::POST, "/v2/clusters/{cluster_id}/uploads/ingress-cert", controller::ingress_cert),
    endpoint(Method::POST, "/v2/clusters/{cluster_id}/actions/complete-installation", controller::complete),
    endpoint(Method::POST, "/v2/clusters/{cluster_id}/actions/allow-add-hosts", day2::allow_add_hosts),
    endpoint(Method::POST, "/v2/clusters/{cluster_id}/actions/allow-add-workers", day2::allow_add_hosts),
    endpoint(Method::POST, "/v2/clusters/import", day2::import),
    endpoint(Method::POST, "/v2/clusters/disconnected", day2::disconnected),
    endpoint(Method::POST, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/bind", lifecycle::bind),
    endpoint(Method::POST, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/unbind", lifecycle::unbind),
    endpoint(Method::POST, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/reset", lifecycle::reset),
    endpoint(Method::POST, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/install", lifecycle::install),
    file("/v2/clusters/{cluster_id}/downloads/files", downloads::cluster_file),
    file("/v2/clusters/{cluster_id}/downloads/credentials", downloads::credentials),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/downloads/credentials-presigned", presigned::credentials),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/downloads/files-presigned", presigned::cluster_files),
    endpoint(Method::GET, "/v2/clusters/{cluster_id}/credentials", downloads::console),
    sized(Method::POST, "/v2/infra-envs", infra_envs::create, IGNITION_BODY_BYTES),
    endpoint(Method::GET, "/v2/infra-envs", infra_envs::list),
    endpoint(Method::GET, "/v2/infra-envs/{infra_env_id}", infra_envs::get),
    sized(Method::PATCH, "/v2/infra-envs/{infra_env_id}", infra_envs::update, IGNITION_BODY_BYTES),
    endpoint(Method::DELETE, "/v2/infra-envs/{infra_env_id}", infra_envs::delete),
    endpoint(Method::GET, "/v2/infra-envs/{infra_env_id}/downloads/files-presigned", presigned::infra_env_files),
    endpoint(Method::POST, "/v2/infra-envs/{infra_env_id}/regenerate-signing-key", infra_envs::regenerate_signing_key),
    file("/v2/infra-envs/{infra_env_id}/downloads/files", downloads::infra_env_file),
    endpoint(Method::GET, "/v2/infra-envs/{infra_env_id}/downloads/image-url", downloads::image_url),
    file("/v2/infra-envs/{infra_env_id}/downloads/minimal-initrd", downloads::minimal_initrd),
    endpoint(Method::GET, "/v2/infra-envs/{infra_env_id}/hosts", hosts::list),
    endpoint(Method::POST, "/v2/infra-envs/{infra_env_id}/hosts", agent::register),
    endpoint(Method::GET, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}", hosts::get),
    endpoint(Method::PATCH, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}", host_settings::update),
    endpoint(Method::DELETE, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}", hosts::delete),
    endpoint(Method::GET, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/ignition", hosts::get_ignition),
    sized(Method::PATCH, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/ignition", hosts::set_ignition, IGNITION_BODY_BYTES),
    endpoint(Method::PATCH, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/installer-args", hosts::set_installer_args),
    endpoint(Method::GET, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", agent::instructions),
    sized(Method::POST, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", replies::reply, REPLY_BODY_BYTES),
    endpoint(Method::PUT, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/progress", agent::progress),
    endpoint(Method::PUT, "/v2/infra-envs/{infra_env_id}/hosts/{host_id}/logs-progress", agent::logs_progress),
    endpoint(Method::PUT, "/v2/clusters/{cluster_id}/logs-progress", clusters::logs_progress),
    file("/v2/infra-env/{infra_env_id}/hosts/{host_id}/downloads/ignition", downloads::host_ignition),
    endpoint(Method::GET, "/v2/component-versions", catalogues::component_versions),
    endpoint(Method::GET, "/v2/openshift-versions", catalogues::openshift_versions),
    endpoint(Method::GET, "/v2/release-sources", catalogues::none),
    endpoint(Method::GET, "/v2/supported-operators", operators::supported),
    endpoint(Method::GET, "/v2/supported-operators/{operator_name}", operators::properties),
    endpoint(Method::GET, "/v2/operators/bundles", operators::bundles),
    endpoint(Method::GET, "/v2/operators/bundles/{id}", operators::bundle),
    endpoint(Method::GET, "/v2/domains", catalogues::none),
    endpoint(Method::GET, "/v2/support-levels/features", support_levels::features),
    endpoint(Method::GET, "/v2/support-levels/features/detailed", support_levels::detailed_features),
    endpoint(Method::GET, "/v2/support-levels/architectures", support_levels::architectures),
    endpoint(Method::GET, "/v2/events", events::list),
    endpoint(Method::POST, "/v2/events", events::create),
];

/// Endpoints that stream; the server wires them itself.
pub const STREAMED: &[(Method, &str, Exchange)] = &[
    (Method::POST, "/v2/clusters/{cluster_id}/logs", Exchange::UPLOAD),
    (Method::GET, "/v2/clusters/{cluster_id}/logs", Exchange::FILE),
];

/// Endpoints of the published API that this service doesn't have.
#[rustfmt::skip]
pub const NOT_HERE: &[(Method, &str)] = &[
];

/// All endpoints that are served.
pub fn served() -> impl Iterator<Item = (&'static Method, &'static str, Exchange)> {
    let plain = ENDPOINTS.iter().map(|endpoint| (&endpoint.method, endpoint.path, endpoint.exchange));
    plain.chain(STREAMED.iter().map(|(method, path, exchange)| (method, *path, *exchange)))
}

/// The media types of an endpoint by its path below the API's base; a file's head is asked for as the file is.
pub fn exchange(method: &Method, path: &str) -> Option<Exchange> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    served().find(|(own, pattern, _)| (*own, *pattern) == (method, path)).map(|(.., exchange)| exchange)
}

/// All endpoints of the published API.
pub fn contract() -> impl Iterator<Item = (&'static Method, &'static str)> {
    let served = served().map(|(method, path, _)| (method, path));
    served.chain(NOT_HERE.iter().map(|(method, path)| (method, *path)))
}

/// Refuses what no endpoint takes: with 501 where the contract has it, 405 where it has the path, else 404. `path` is
/// below the API's base.
pub fn refuse(method: &Method, full_path: &str) -> Refusal {
    let Some(path) = full_path.strip_prefix(api::API_PATH) else { return Refusal::unknown_path(full_path) };
    let mut allowed: Vec<&str> =
        contract().filter(|(_, pattern)| matches(pattern, path)).map(|(method, _)| method.as_str()).collect();
    if NOT_HERE.iter().any(|(own, pattern)| own == method && matches(pattern, path)) {
        return Refusal::not_implemented(&format!("{method} {full_path}"));
    }
    if allowed.is_empty() {
        return Refusal::unknown_path(full_path);
    }
    allowed.sort_unstable();
    allowed.dedup();
    let message = format!("method {method} is not allowed, but [{}] are", allowed.join(","));
    Refusal::Request(axum::http::StatusCode::METHOD_NOT_ALLOWED, message)
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(own), Some(given)) if own == given || own.starts_with('{') && !given.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn what_is_not_here_is_in_the_documentation() {
        let text = include_str!("../../../docs/service.md");
        let rows =
            text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(endpoint, _)| endpoint);
        let mut documented: Vec<&str> = rows.filter(|endpoint| endpoint.contains(" /v2/")).collect();
        let mut own: Vec<String> = NOT_HERE.iter().map(|(method, path)| format!("{method} {path}")).collect();
        documented.sort_unstable();
        own.sort_unstable();
        assert_eq!(documented, own);
    }

    #[test]
    fn refusals_tell_unknown_from_unserved() {
        let status = |method, path: &str| match refuse(&method, &format!("{}{path}", api::API_PATH)) {
            Refusal::Request(status, _) | Refusal::Application(status, _) => status,
        };
        assert_eq!(status(Method::GET, "/v2/nothing"), StatusCode::NOT_FOUND);
        assert_eq!(status(Method::GET, "/v2/clusters/"), StatusCode::NOT_FOUND);
        let put = refuse(&Method::PUT, &format!("{}/v2/infra-envs", api::API_PATH));
        let message = "method PUT is not allowed, but [GET,POST] are".to_owned();
        assert_eq!(put, Refusal::Request(StatusCode::METHOD_NOT_ALLOWED, message));
    }
}
