//! Configs and addresses of files; the files themselves stream elsewhere.

use super::{agent, find_cluster, find_host, find_infra_env, infra_envs};
use crate::documents;
use crate::http::{Answer, Call, Refusal, range};
use crate::model::HostKey;
use crate::service::Service;
use api::{HostId, HostStage, Timestamp};
use axum::http::{StatusCode, header};
use serde_json::json;

const CLUSTER_FILES: [&str; 8] = [
    "bootstrap.ign",
    "master.ign",
    "metadata.json",
    "worker.ign",
    "install-config.yaml",
    "custom_manifests.json",
    "custom_manifests.yaml",
    "arbiter.ign",
];

/// GET /v2/infra-envs/{id}/downloads/files.
pub fn infra_env_file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    let name = call.query_one_of("file_name", &["discovery.ign", "ipxe-script", "static-network-config"])?;
    let record = find_infra_env(&service.store.model(), id)?;
    if name != "discovery.ign" {
        return Err(Refusal::not_implemented(&format!("file_name={name}")));
    }
    let modified = range::date_of(record.infra_env.updated_at);
    Ok(Answer::file(name, documents::discovery(service, &record)?).with(header::LAST_MODIFIED, &modified))
}

/// GET /v2/infra-envs/{id}/downloads/image-url.
pub fn image_url(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    let document = json!({"url": infra_envs::image_url(service, &record.infra_env), "expires_at": Timestamp::ZERO});
    Ok(Answer::json(StatusCode::OK, &document))
}

/// GET /v2/clusters/{id}/downloads/files. Install-time files come from a control plane's own tools; there are none here.
pub fn cluster_file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let name = call.query_one_of("file_name", &CLUSTER_FILES)?;
    find_cluster(&service.store.model(), id)?;
    Err(Refusal::not_implemented(&format!("file_name={name}")))
}

/// GET /v2/infra-env/{id}/hosts/{id}/downloads/ignition (the singular is the contract's).
pub fn host_ignition(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let model = service.store.model();
    let record = find_host(&model, key)?;
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let allowed = cluster.is_some_and(|cluster| cluster.state.files_available());
    if !allowed {
        let state = cluster.map_or("none", |cluster| cluster.state.as_str());
        return Err(Refusal::conflict(format!(
            "the config of host {} can be downloaded once its cluster is being installed; its status is {state}",
            key.host
        )));
    }
    let name = format!("{}-{}.ign", record.effective_role(), key.host);
    Ok(Answer::file(&name, documents::installed_host(service, &model, &record)?))
}

/// GET /landfall/config/{role}: what the pointer in a host's config leads to.
///
/// Nobody but Ignition fetches it, and only on the first boot from the installed disk: so it tells that a host has
/// rebooted, as the log of a control plane's config server does.
pub fn role_config(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let role = call.path("role");
    if !matches!(role, "master" | "worker") {
        return Err(Refusal::unknown_path(&format!("/landfall/config/{role}")));
    }
    let host = call.query_uuid("host")?.map(HostId);
    let agent = call.header(&header::USER_AGENT);
    if let Some(host) = host.filter(|_| agent.starts_with("Ignition/")) {
        let model = service.store.model();
        let rebooting = |key: &&HostKey| key.host == host && model.hosts[*key].stage() == Some(HostStage::Rebooting);
        for key in model.hosts.keys().filter(rebooting) {
            service
                .change(call.request_id(), |change| agent::report(service, change, *key, HostStage::Configuring, ""))?;
        }
    }
    Ok(Answer::json(StatusCode::OK, &documents::role_config(role)))
}
