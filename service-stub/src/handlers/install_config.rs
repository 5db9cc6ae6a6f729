//! The install configuration of a cluster, as `openshift-install` takes it.

use crate::events::{self, kinds};
use crate::find::find_cluster;
use crate::http::{Answer, Call, Refusal};
use crate::install_config;
use crate::model::ClusterRecord;
use crate::service::Service;
use api::Secret;
use axum::http::StatusCode;
use serde_json::{Map, Value};

/// Longest override, bytes.
const MAX_OVERRIDE_BYTES: usize = 64 << 10;

/// What an install configuration may hold at its top.
const FIELDS: [&str; 22] = [
    "additionalTrustBundle",
    "additionalTrustBundlePolicy",
    "apiVersion",
    "arbiter",
    "baseDomain",
    "bootstrapInPlace",
    "capabilities",
    "compute",
    "controlPlane",
    "cpuPartitioningMode",
    "featureGates",
    "featureSet",
    "fips",
    "imageContentSources",
    "imageDigestSources",
    "metadata",
    "networking",
    "osImageStream",
    "platform",
    "proxy",
    "pullSecret",
    "sshKey",
];

/// GET /v2/clusters/{id}/install-config: YAML, as a JSON text, with the pull secret: for users alone, who may set it as well.
pub(crate) fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_cluster(&model, call.cluster_id()?)?;
    let text = install_config::text(&record, &model).map_err(|error| Refusal::internal(&error))?;
    Ok(Answer::json(StatusCode::OK, &text))
}

/// PATCH /v2/clusters/{id}/install-config: a JSON text of a JSON object that is merged over it.
pub(crate) fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let text = call.json_text("installConfigParams")?;
    if text.len() > MAX_OVERRIDE_BYTES {
        return Err(Refusal::invalid(format!("the override is longer than {MAX_OVERRIDE_BYTES} bytes")));
    }
    check(&text)?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        if !record.state.accepts_hosts() {
            return Err(Refusal::invalid(format!(
                "cluster {id} is in status {}: its install configuration can't change any more",
                record.state
            )));
        }
        record.cluster.install_config_overrides = Secret::new(text);
        events::cluster(change, &record, kinds::INSTALL_CONFIG_APPLIED, Value::Null);
        change.put_cluster(record);
        Ok(Answer::empty(StatusCode::CREATED))
    })
}

/// An override is empty, or an object of known fields.
fn check(text: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Ok(());
    }
    let fields: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        // Its text may hold a password: only the place is named.
        let (line, column) = (error.line(), error.column());
        Refusal::invalid(format!("the override is not a JSON object: see line {line} column {column}"))
    })?;
    match fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        Some(unknown) => Err(Refusal::invalid(format!("json: unknown field {unknown:?}"))),
        None => Ok(()),
    }
}
