//! GET /landfall/clusters/{id}/digests and /landfall/infra-envs/{id}/digests: tells those who know a secret whether a record has it.

use crate::find::{find_cluster, find_infra_env};
use crate::http::{Answer, Call, Refusal};
use crate::service::Service;
use api::Secret;
use axum::http::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Where the answer has [`digest`] of the pull secret; null where the record has none.
pub(crate) const PULL_SECRET: &str = "pull_secret";

/// SHA-256 of a record's id and its pull secret, hexadecimal.
pub(crate) fn digest(id: &str, secret: &str) -> String {
    let digest = Sha256::digest(format!("landfall pull secret\0{id}\0{secret}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn of_cluster(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_cluster(&service.store.model(), call.cluster_id()?)?;
    Ok(answer(&record.cluster.id.to_string(), &record.pull_secret))
}

pub(crate) fn of_infra_env(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    Ok(answer(&record.infra_env.id.to_string(), &record.pull_secret))
}

fn answer(id: &str, secret: &Secret) -> Answer {
    let own = if secret.is_empty() { Value::Null } else { digest(id, secret.expose()).into() };
    Answer::json(StatusCode::OK, &json!({PULL_SECRET: own}))
}
