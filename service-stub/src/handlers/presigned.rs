//! Addresses that need nothing but themselves. Without authentication that is every address: nothing is signed, and
//! nothing expires. With it each has a token that opens this one address.

use super::{find_cluster, find_infra_env};
use crate::http::{Answer, Call, Refusal};
use crate::model::InfraEnvRecord;
use crate::service::Service;
use api::ClusterId;
use axum::http::StatusCode;
use serde_json::json;

fn of_cluster(service: &Service, id: ClusterId, path: &str) -> Result<Answer, Refusal> {
    answer(service, None, Some(id), path)
}

fn answer(
    service: &Service,
    infra_env: Option<&InfraEnvRecord>,
    cluster: Option<ClusterId>,
    path: &str,
) -> Result<Answer, Refusal> {
    let path = format!("{}{path}", api::API_PATH);
    let (path, expires_at) = service.settings.auth.presigned(&path, infra_env, cluster);
    let url = format!("{}{path}", service.settings.url);
    Ok(Answer::json(StatusCode::OK, &json!({"url": url, "expires_at": expires_at})))
}

/// GET /v2/infra-envs/{id}/downloads/files-presigned.
pub fn infra_env_files(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    let name = call.query_one_of("file_name", &["discovery.ign", "ipxe-script"])?;
    let kinds = ["discovery-image-always", "boot-order-control"];
    let kind = call.query("ipxe_script_type").map(|_| call.query_one_of("ipxe_script_type", &kinds)).transpose()?;
    let record = find_infra_env(&service.store.model(), id)?;
    let kind = kind.filter(|_| name == "ipxe-script").map(|kind| format!("&ipxe_script_type={kind}"));
    let kind = kind.unwrap_or_default();
    answer(service, Some(&record), None, &format!("/v2/infra-envs/{id}/downloads/files?file_name={name}{kind}"))
}

/// GET /v2/clusters/{id}/downloads/credentials-presigned.
pub fn credentials(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let name = call.query_one_of("file_name", &super::downloads::CREDENTIALS)?;
    let state = find_cluster(&service.store.model(), id)?.state;
    if !state.files_available() {
        return Err(Refusal::conflict(format!("{name} is there once cluster {id} is being installed; it is {state}")));
    }
    of_cluster(service, id, &format!("/v2/clusters/{id}/downloads/credentials?file_name={name}"))
}

/// GET /v2/clusters/{id}/downloads/files-presigned.
pub fn cluster_files(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    const NAMES: [&str; 7] =
        ["bootstrap.ign", "master.ign", "metadata.json", "worker.ign", "install-config.yaml", "logs", "manifests"];
    let id = call.cluster_id()?;
    let name = call.query_one_of("file_name", &NAMES)?;
    let kinds = ["host", "controller", "all"];
    let kind = call.query("logs_type").map(|_| call.query_one_of("logs_type", &kinds)).transpose()?;
    let host = call.query_uuid("host_id")?;
    let state = find_cluster(&service.store.model(), id)?.state;
    match name {
        "logs" => {
            let kind = kind.unwrap_or("all");
            let host = host.map(|host| format!("&host_id={host}")).unwrap_or_default();
            of_cluster(service, id, &format!("/v2/clusters/{id}/logs?logs_type={kind}{host}"))
        }
        "manifests" => {
            let wanted = call.query("additional_name").unwrap_or_default();
            let (folder, file) = wanted.split_once('/').unwrap_or(("manifests", wanted));
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if !matches!(folder, "manifests" | "openshift") || file.is_empty() || !file.chars().all(plain) {
                return Err(Refusal::bad_request("additional_name in query must be FOLDER/FILE of a manifest"));
            }
            of_cluster(service, id, &format!("/v2/clusters/{id}/manifests/files?folder={folder}&file_name={file}"))
        }
        _ if !state.files_available() => {
            Err(Refusal::conflict(format!("{name} is there once cluster {id} is being installed; it is {state}")))
        }
        _ => of_cluster(service, id, &format!("/v2/clusters/{id}/downloads/files?file_name={name}")),
    }
}
