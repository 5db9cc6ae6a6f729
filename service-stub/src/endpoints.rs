//! The endpoints of the API, each declared once: route, access, request and replies. The server's routes, the check of tokens, the
//! check of media types and the description of the API derive from this table.
//!
//! Types of parameters and replies are written as `string`, `uuid`, `time`, `int`, `number`, `bool`, `any`, `@model`, `[list]`,
//! `{map}` or `=one|of|these`; `!` behind a parameter's name marks what is required.

use crate::auth::{Access, Credential as C};
use crate::handlers::{
    Handler, agent, catalogues, cluster_settings, clusters, controller, day2, downloads, events, host_settings, hosts,
    infra_envs, install_config, lifecycle, manifests, new_cluster, operators, presigned, replies, support_levels,
    validations,
};
use crate::http::{Refusal, body::BodyShape, negotiate::Exchange};
use crate::logs;
use crate::service::Service;
use crate::steps::MAX_LONG_OUTPUT_BYTES;
use axum::{
    http::{Method, StatusCode},
    routing::{MethodRouter, get as get_route, post as post_route},
};
use kernel::order;
use std::sync::{Arc, LazyLock};

/// Many times the size of any settings.
pub(crate) const DEFAULT_BODY_BYTES: usize = 1 << 20;
/// Bodies that hold an Ignition config in a text field, quoted.
const IGNITION_BODY_BYTES: usize = 2 << 20;
/// Room for the longest accepted output as a text in a document.
const REPLY_BODY_BYTES: usize = 2 * MAX_LONG_OUTPUT_BYTES;

/// Only a user's token.
pub const USER: &[C] = &[C::User];
const USER_AGENT: &[C] = &[C::User, C::Agent];
pub(crate) const AGENT: &[C] = &[C::Agent];
pub(crate) const IMAGE: &[C] = &[C::User, C::Agent, C::Url, C::ImageHeader, C::ImageUrl];

/// How a request is handled.
#[derive(Clone, Copy)]
pub enum Run {
    /// By a handler that gets the whole body.
    Handler(Handler),
    /// By a handler that streams.
    Streamed(fn() -> MethodRouter<Arc<Service>>),
}

/// The kind of a request's body.
#[derive(Clone, Copy)]
pub enum Body {
    None,
    Text,
    Object(&'static BodyShape),
    File,
}

/// An endpoint that is served.
pub struct Endpoint {
    pub method: Method,
    /// Path below the API's base.
    pub path: &'static str,
    pub(crate) access: Access,
    pub run: Run,
    pub exchange: Exchange,
    /// The longest accepted body, bytes.
    pub(crate) body_limit: usize,
    /// Parameters of the query: names and types.
    pub query: &'static str,
    pub body: Body,
    /// Successful replies: status and type, empty if without a body.
    pub replies: Vec<(u16, &'static str)>,
    /// Error statuses besides those of every endpoint.
    pub(crate) refusals: &'static [u16],
}

impl Endpoint {
    fn new(method: Method, path: &'static str, run: Run) -> Self {
        Self {
            method,
            path,
            access: Access::One(USER),
            run,
            exchange: Exchange::DOCUMENTS,
            body_limit: DEFAULT_BODY_BYTES,
            query: "",
            body: Body::None,
            replies: Vec::new(),
            refusals: &[],
        }
    }

    /// Accepts these credentials in place of a user's token.
    fn access(self, credentials: &'static [C]) -> Self {
        Self { access: Access::One(credentials), ..self }
    }

    fn query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    fn takes(self, shape: &'static BodyShape) -> Self {
        Self { body: Body::Object(shape), ..self }
    }

    fn takes_text(self) -> Self {
        Self { body: Body::Text, ..self }
    }

    fn takes_file(self) -> Self {
        Self { body: Body::File, exchange: Exchange::UPLOAD, ..self }
    }

    fn body_limit(self, body_limit: usize) -> Self {
        Self { body_limit, ..self }
    }

    fn gives(mut self, status: u16, kind: &'static str) -> Self {
        self.replies.push((status, kind));
        self
    }

    fn gives_file(self) -> Self {
        Self { exchange: Exchange::FILE, ..self.gives(200, "string") }
    }

    fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }
}

fn get(path: &'static str, run: Handler) -> Endpoint {
    Endpoint::new(Method::GET, path, Run::Handler(run))
}

fn post(path: &'static str, run: Handler) -> Endpoint {
    Endpoint::new(Method::POST, path, Run::Handler(run))
}

fn put(path: &'static str, run: Handler) -> Endpoint {
    Endpoint::new(Method::PUT, path, Run::Handler(run))
}

fn patch(path: &'static str, run: Handler) -> Endpoint {
    Endpoint::new(Method::PATCH, path, Run::Handler(run))
}

fn delete(path: &'static str, run: Handler) -> Endpoint {
    Endpoint::new(Method::DELETE, path, Run::Handler(run))
}

// The published API has presigned addresses of a cluster's credentials and manifests, but no way to present their tokens there; here
// `api_key` is.
pub static ENDPOINTS: LazyLock<Vec<Endpoint>> = LazyLock::new(|| {
    vec![
        post("/v2/clusters", new_cluster::create).takes(&new_cluster::BODY).gives(201, "@cluster"),
        get("/v2/clusters", clusters::list).access(&[C::User, C::Watcher]).query("openshift_cluster_id:uuid ams_subscription_ids:[string] with_hosts:bool owner:string").gives(200, "[@cluster]"),
        get("/v2/clusters/{cluster_id}", clusters::get).access(&[C::User, C::Agent, C::Watcher]).query("exclude-hosts:bool").gives(200, "@cluster"),
        delete("/v2/clusters/{cluster_id}", clusters::delete).gives(204, "").refuses(&[409]),
        patch("/v2/clusters/{cluster_id}", cluster_settings::update).takes(&cluster_settings::BODY).gives(201, "@cluster").refuses(&[409]),
        put("/v2/clusters/{cluster_id}/progress", controller::progress).access(AGENT).takes(&controller::PROGRESS).gives(200, ""),
        get("/v2/clusters/{cluster_id}/hosts", clusters::hosts).access(USER_AGENT).query("role:=master|arbiter|worker|auto-assign status:string with-inventory:bool with-connectivity:bool").gives(200, "[@host]"),
        get("/v2/clusters/{cluster_id}/supported-platforms", support_levels::supported_platforms).gives(200, "[@platform_type]"),
        post("/v2/infra-envs", infra_envs::create).takes(&infra_envs::NEW_INFRA_ENV).body_limit(IGNITION_BODY_BYTES).gives(201, "@infra-env").refuses(&[409]),
        get("/v2/infra-envs", infra_envs::list).access(&[C::User, C::Watcher]).query("cluster_id:uuid owner:string").gives(200, "[@infra-env]"),
        get("/v2/infra-envs/{infra_env_id}", infra_envs::get).access(IMAGE).gives(200, "@infra-env"),
        patch("/v2/infra-envs/{infra_env_id}", infra_envs::update).takes(&infra_envs::CHANGED_INFRA_ENV).body_limit(IGNITION_BODY_BYTES).gives(201, "@infra-env").refuses(&[409]),
        delete("/v2/infra-envs/{infra_env_id}", infra_envs::delete).gives(204, "").refuses(&[409]),
        get("/v2/infra-envs/{infra_env_id}/downloads/image-url", downloads::image_url).gives(200, "@presigned-url"),
        post("/v2/infra-envs/{infra_env_id}/hosts", agent::register).access(AGENT).takes(&agent::NEW_HOST).gives(201, "@host_registration_response").refuses(&[409]),
        get("/v2/infra-envs/{infra_env_id}/hosts", hosts::list).access(USER_AGENT).gives(200, "[@host]"),
        get("/v2/infra-envs/{infra_env_id}/hosts/{host_id}", hosts::get).gives(200, "@host"),
        patch("/v2/infra-envs/{infra_env_id}/hosts/{host_id}", host_settings::update).takes(&host_settings::BODY).gives(201, "@host").refuses(&[409]),
        delete("/v2/infra-envs/{infra_env_id}/hosts/{host_id}", hosts::delete).gives(204, ""),
        get("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", agent::instructions).access(AGENT).query("timestamp:int").gives(200, "@steps"),
        post("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", replies::reply).access(AGENT).takes(&replies::BODY).body_limit(REPLY_BODY_BYTES).gives(204, ""),
        put("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/progress", agent::progress).access(AGENT).takes(&agent::PROGRESS).gives(200, ""),
        post("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/bind", lifecycle::bind).takes(&lifecycle::BIND).gives(200, "@host"),
        post("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/unbind", lifecycle::unbind).gives(200, "@host").refuses(&[409]),
        patch("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/reset-validation/{validation_id}", validations::reset).gives(200, "@host").refuses(&[409]),
        post("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/reset", lifecycle::reset).gives(200, "@host").refuses(&[409]),
        post("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/actions/install", lifecycle::install).gives(202, "@host").refuses(&[409]),
        patch("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/installer-args", hosts::set_installer_args).takes(&hosts::INSTALLER_ARGS).gives(201, "@host").refuses(&[409]),
        get("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/ignition", hosts::get_ignition).gives(200, "@host-ignition-params"),
        patch("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/ignition", hosts::set_ignition).takes(&hosts::HOST_IGNITION).body_limit(IGNITION_BODY_BYTES).gives(201, ""),
        get("/v2/infra-envs/{infra_env_id}/downloads/files", downloads::infra_env_file).access(IMAGE).query("file_name!:=discovery.ign|ipxe-script|static-network-config mac:string ipxe_script_type:=discovery-image-always|boot-order-control discovery_iso_type:=full-iso|minimal-iso|disconnected-iso").gives_file().refuses(&[409]),
        get("/v2/infra-envs/{infra_env_id}/downloads/files-presigned", presigned::infra_env_files).query("file_name!:=discovery.ign|ipxe-script ipxe_script_type:=discovery-image-always|boot-order-control").gives(200, "@presigned-url"),
        put("/v2/infra-envs/{infra_env_id}/hosts/{host_id}/logs-progress", agent::logs_progress).access(AGENT).takes(&agent::LOGS_PROGRESS).gives(204, "").refuses(&[409]),
        post("/v2/infra-envs/{infra_env_id}/regenerate-signing-key", infra_envs::regenerate_signing_key).gives(204, ""),
        get("/v2/clusters/default-config", catalogues::default_config).gives(200, "@cluster_default_config"),
        get("/v2/clusters/{cluster_id}/downloads/credentials-presigned", presigned::credentials).query("file_name!:=kubeadmin-password|kubeconfig|kubeconfig-noingress").gives(200, "@presigned-url").refuses(&[409]),
        get("/v2/clusters/{cluster_id}/credentials", downloads::console).gives(200, "@credentials").refuses(&[409]),
        get("/v2/clusters/{cluster_id}/downloads/files", downloads::cluster_file).access(&[C::User, C::Agent, C::Url]).query("file_name!:=bootstrap.ign|master.ign|metadata.json|worker.ign|install-config.yaml|custom_manifests.json|custom_manifests.yaml|arbiter.ign").gives_file().refuses(&[409]),
        get("/v2/clusters/{cluster_id}/downloads/credentials", downloads::credentials).access(&[C::User, C::Agent, C::Url]).query("file_name!:=kubeadmin-password|kubeconfig|kubeconfig-noingress").gives_file().refuses(&[409]),
        get("/v2/clusters/{cluster_id}/downloads/files-presigned", presigned::cluster_files).query("file_name!:=bootstrap.ign|master.ign|metadata.json|worker.ign|install-config.yaml|logs|manifests logs_type:=host|controller|all host_id:uuid additional_name:string").gives(200, "@presigned-url").refuses(&[409]),
        get("/v2/infra-envs/{infra_env_id}/downloads/minimal-initrd", downloads::minimal_initrd).access(&[C::User, C::Url, C::ImageHeader]).gives_file().gives(204, "").refuses(&[409]),
        get("/v2/clusters/{cluster_id}/install-config", install_config::get).gives(200, "string"),
        patch("/v2/clusters/{cluster_id}/install-config", install_config::update).takes_text().gives(201, ""),
        get("/v2/domains", catalogues::none).gives(200, "[any]"),
        post("/v2/clusters/{cluster_id}/actions/install", clusters::install).gives(202, "@cluster").refuses(&[409]),
        post("/v2/clusters/{cluster_id}/actions/cancel", clusters::cancel).gives(202, "@cluster").refuses(&[409]),
        post("/v2/clusters/{cluster_id}/actions/reset", clusters::reset).gives(202, "@cluster").refuses(&[409]),
        post("/v2/clusters/{cluster_id}/actions/allow-add-workers", day2::allow_add_hosts).gives(202, "@cluster").refuses(&[409]),
        post("/v2/clusters/{cluster_id}/actions/allow-add-hosts", day2::allow_add_hosts).gives(202, "@cluster").refuses(&[409]),
        get("/v2/clusters/{cluster_id}/preflight-requirements", validations::preflight).gives(200, "@preflight-hardware-requirements"),
        get("/v2/supported-operators/{operator_name}", operators::properties).gives(200, "[any]"),
        get("/v2/supported-operators", operators::supported).gives(200, "[string]"),
        get("/v2/operators/bundles", operators::bundles).query("openshift_version:string cpu_architecture:=x86_64|aarch64|arm64|ppc64le|s390x|multi platform_type:=baremetal|none|nutanix|vsphere|external external_platform_name:string feature_ids:[string]").gives(200, "[any]"),
        get("/v2/operators/bundles/{id}", operators::bundle).query("feature_ids:[string]").gives(200, "any"),
        post("/v2/clusters/{cluster_id}/uploads/ingress-cert", controller::ingress_cert).access(AGENT).takes_text().gives(201, ""),
        post("/v2/clusters/{cluster_id}/actions/complete-installation", controller::complete).access(AGENT).takes(&controller::COMPLETION).gives(202, "@cluster").refuses(&[409]),
        put("/v2/clusters/{cluster_id}/logs-progress", clusters::logs_progress).access(AGENT).takes(&agent::LOGS_PROGRESS).gives(204, "").refuses(&[409]),
        get("/v2/clusters/{cluster_id}/manifests", manifests::list).query("include_system_generated:bool").gives(200, "[@manifest]").refuses(&[409, 422]),
        post("/v2/clusters/{cluster_id}/manifests", manifests::create).takes(&manifests::NEW_MANIFEST).body_limit(IGNITION_BODY_BYTES).gives(201, "@manifest").refuses(&[409, 422]),
        patch("/v2/clusters/{cluster_id}/manifests", manifests::update).takes(&manifests::CHANGED_MANIFEST).body_limit(IGNITION_BODY_BYTES).gives(200, "@manifest").refuses(&[409, 422]),
        delete("/v2/clusters/{cluster_id}/manifests", manifests::delete).query("folder:=manifests|openshift file_name!:string").gives(200, "").refuses(&[409, 422]),
        get("/v2/component-versions", catalogues::component_versions).gives(200, "@list-versions"),
        get("/v2/openshift-versions", catalogues::openshift_versions).query("version:string only_latest:bool").gives(200, "{@openshift-version}"),
        get("/v2/offline-openshift-versions", catalogues::offline_openshift_versions).query("version:string only_latest:bool").gives(200, "{@openshift-version}"),
        get("/v2/release-sources", catalogues::release_sources).gives(200, "[any]"),
        get("/v2/clusters/{cluster_id}/manifests/files", manifests::file).access(&[C::User, C::Url]).query("folder:=manifests|openshift file_name!:string").gives_file().refuses(&[409, 422]),
        Endpoint::new(Method::GET, "/v2/clusters/{cluster_id}/logs", Run::Streamed(|| get_route(logs::download))).access(&[C::User, C::Url]).query("logs_type:=host|controller|all host_id:uuid").gives_file().refuses(&[409]),
        Endpoint::new(Method::POST, "/v2/clusters/{cluster_id}/logs", Run::Streamed(|| post_route(logs::upload))).access(AGENT).query("logs_type!:=host|controller infra_env_id:uuid host_id:uuid").takes_file().gives(204, "").refuses(&[409]),
        get("/v2/clusters/{cluster_id}/monitored-operators", controller::operators).access(USER_AGENT).query("operator_name:string").gives(200, "[@monitored-operator]"),
        put("/v2/clusters/{cluster_id}/monitored-operators", controller::set_operator).access(AGENT).takes(&controller::OPERATOR).gives(200, "").refuses(&[409]),
        get("/v2/infra-env/{infra_env_id}/hosts/{host_id}/downloads/ignition", downloads::host_ignition).access(USER_AGENT).gives_file().refuses(&[409]),
        get("/v2/events", events::list).access(&[C::User, C::Url, C::Watcher]).query("cluster_id:uuid host_id:uuid host_ids:[uuid] infra_env_id:uuid limit:int offset:int order:=ascending|descending severities:[=info|warning|error|critical] message:string deleted_hosts:bool cluster_level:bool categories:[string]").gives(200, "[@event]"),
        post("/v2/events", events::create).access(AGENT).takes(&events::BODY).gives(201, "").refuses(&[409]),
        get("/v2/support-levels/features", support_levels::features).query("openshift_version!:string cpu_architecture:=x86_64|aarch64|arm64|ppc64le|s390x|multi platform_type:=baremetal|none|nutanix|vsphere|external external_platform_name:string").gives(200, "any"),
        get("/v2/support-levels/features/detailed", support_levels::detailed_features).query("openshift_version!:string cpu_architecture:=x86_64|arm64|ppc64le|s390x|multi platform_type:=baremetal|none|nutanix|vsphere|external external_platform_name:string").gives(200, "any"),
        get("/v2/support-levels/architectures", support_levels::architectures).query("openshift_version!:string").gives(200, "any"),
        post("/v2/clusters/import", day2::import).takes(&day2::IMPORT).gives(201, "@cluster"),
        post("/v2/clusters/disconnected", day2::disconnected).takes(&day2::DISCONNECTED).gives(201, "@cluster"),
        get("/v2/clusters/{cluster_id}/ignored-validations", validations::ignored).gives(200, "@ignored-validations"),
        put("/v2/clusters/{cluster_id}/ignored-validations", validations::set_ignored).takes(&validations::IGNORED).gives(201, "@ignored-validations"),
        get("/v2/clusters/{cluster_id}/ui-settings", cluster_settings::ui_settings).gives(200, "string"),
        put("/v2/clusters/{cluster_id}/ui-settings", cluster_settings::set_ui_settings).takes_text().gives(200, "string"),
    ]
});

/// The endpoint with this declared path. HEAD finds the endpoint of GET.
pub fn find(method: &Method, path: &str) -> Option<&'static Endpoint> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    ENDPOINTS.iter().find(|endpoint| endpoint.method == method && endpoint.path == path)
}

/// Refuses a request that no endpoint serves: with 405 if an endpoint has the path, else with 404.
pub(crate) fn refuse(method: &Method, full_path: &str) -> Refusal {
    let Some(path) = full_path.strip_prefix(api::API_PATH) else { return Refusal::unknown_path(full_path) };
    let fitting = ENDPOINTS.iter().filter(|endpoint| matches(endpoint.path, path));
    let mut allowed: Vec<&str> = fitting.map(|endpoint| endpoint.method.as_str()).collect();
    if allowed.is_empty() {
        return Refusal::unknown_path(full_path);
    }
    order::sort(&mut allowed);
    allowed.dedup();
    let message = format!("method {method} is not allowed, but [{}] are", allowed.join(","));
    Refusal::Request(StatusCode::METHOD_NOT_ALLOWED, message)
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

    #[test]
    fn refusals_tell_unknown_from_unserved() {
        let status = |method, path: &str| match refuse(&method, &format!("{}{path}", api::API_PATH)) {
            Refusal::Request(status, _) | Refusal::Application(status, _) => status,
        };
        assert_eq!(status(Method::GET, "/v2/nothing"), StatusCode::NOT_FOUND);
        let put = refuse(&Method::PUT, &format!("{}/v2/infra-envs", api::API_PATH));
        let message = "method PUT is not allowed, but [GET,POST] are".to_owned();
        assert_eq!(put, Refusal::Request(StatusCode::METHOD_NOT_ALLOWED, message));
    }
}
