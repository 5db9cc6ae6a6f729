//! Addresses that need nothing but themselves. Without authentication that is every address: nothing is signed, and
//! nothing expires. With it each has a token that opens this one address.

use crate::find::find_infra_env;
use crate::http::{Answer, Call, Refusal};
use crate::model::InfraEnvRecord;
use crate::service::Service;
use axum::http::StatusCode;
use serde_json::json;

fn answer(service: &Service, infra_env: &InfraEnvRecord, path: &str) -> Result<Answer, Refusal> {
    let path = format!("{}{path}", api::API_PATH);
    let (path, expires_at) = service.settings.auth.presigned(&path, Some(infra_env), None);
    let url = format!("{}{path}", service.settings.url);
    Ok(Answer::json(StatusCode::OK, &json!({"url": url, "expires_at": expires_at})))
}

/// GET /v2/infra-envs/{id}/downloads/files-presigned.
pub(crate) fn infra_env_files(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    let name = call.query_one_of("file_name", &["discovery.ign", "ipxe-script"])?;
    let kinds = ["discovery-image-always", "boot-order-control"];
    let kind = call.query("ipxe_script_type").map(|_| call.query_one_of("ipxe_script_type", &kinds)).transpose()?;
    let record = find_infra_env(&service.store.model(), id)?;
    let kind = kind.filter(|_| name == "ipxe-script").map(|kind| format!("&ipxe_script_type={kind}"));
    let kind = kind.unwrap_or_default();
    answer(service, &record, &format!("/v2/infra-envs/{id}/downloads/files?file_name={name}{kind}"))
}

/// Only an object store gives addresses of its files that need no token, and the files here are in a directory.
fn no_object_store() -> Result<Answer, Refusal> {
    Err(Refusal::invalid("Failed to generate presigned URL: invalid backend"))
}

/// GET /v2/clusters/{id}/downloads/credentials-presigned.
pub(crate) fn credentials(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    call.cluster_id()?;
    call.query_one_of("file_name", &super::downloads::CREDENTIALS)?;
    no_object_store()
}

/// GET /v2/clusters/{id}/downloads/files-presigned.
pub(crate) fn cluster_files(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    const NAMES: [&str; 7] =
        ["bootstrap.ign", "master.ign", "metadata.json", "worker.ign", "install-config.yaml", "logs", "manifests"];
    call.cluster_id()?;
    call.query_one_of("file_name", &NAMES)?;
    call.query_uuid("host_id")?;
    if call.query("logs_type").is_some() {
        call.query_one_of("logs_type", &["host", "controller", "all"])?;
    }
    no_object_store()
}
