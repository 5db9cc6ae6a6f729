//! Good boots of an infra-env.

use crate::find::{find_host, find_infra_env};
use crate::http::{Answer, Call, Refusal};
use crate::model::{HostRecord, InfraEnvRecord};
use crate::pass;
use crate::service::Service;
use crate::store::Change;
use api::InfraEnvId;
use attestation::boot::differences;
use axum::http::StatusCode;
use serde_json::json;

/// Images and models that one infra-env boots.
const MAX_GOOD: usize = 64;

/// POST /landfall/hosts/{infra_env_id}/{host_id}/good-boot: what the host booted is good, for all hosts of its infra-env.
pub(crate) fn record(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let recorded = service.change(call.request_id(), |change| {
        let record = find_host(change.model(), key)?;
        let attestation = record.attestation.clone().unwrap_or_default();
        let boot = attestation.boot.ok_or_else(|| {
            let why = attestation.fault.unwrap_or_else(|| "its agent has not answered, or `landfall serve` runs without --attest".to_owned());
            Refusal::conflict(format!("host {} has not proven what it booted: {why}", record.name_or_id()))
        })?;
        let mut infra_env = InfraEnvRecord::clone(find_infra_env(change.model(), key.infra_env)?.as_ref());
        let is_known = infra_env.good_boots.iter().any(|good| differences(good, &boot).is_empty());
        if !is_known {
            if infra_env.good_boots.len() >= MAX_GOOD {
                return Err(Refusal::conflict(format!(
                    "infra_env {} has {MAX_GOOD} good boots, the maximum: remove them with `landfall host attest HOST --clear`",
                    key.infra_env
                )));
            }
            infra_env.good_boots.push(boot);
            change.put_infra_env(infra_env.clone());
            settle(service, change, key.infra_env);
        }
        Ok(json!({"infra_env_id": key.infra_env, "good_boots": infra_env.good_boots.len(), "is_new": !is_known}))
    })?;
    Ok(Answer::json(StatusCode::OK, &recorded))
}

/// DELETE of the same: no boot is good, nor the first one of any host.
pub(crate) fn clear(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    service.change(call.request_id(), |change| {
        find_host(change.model(), key)?;
        let mut infra_env = InfraEnvRecord::clone(find_infra_env(change.model(), key.infra_env)?.as_ref());
        infra_env.good_boots.clear();
        change.put_infra_env(infra_env);
        for record in change.model().hosts_of_infra_env(key.infra_env) {
            let mut record = HostRecord::clone(&record);
            let first = record.attestation.as_mut().and_then(|attestation| attestation.first_boot.take());
            if first.is_some() {
                change.put_host(record);
            }
        }
        settle(service, change, key.infra_env);
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

/// Its hosts are judged anew.
fn settle(service: &Service, change: &mut Change, id: InfraEnvId) {
    let mut clusters: Vec<_> = change
        .model()
        .hosts_of_infra_env(id)
        .iter()
        .map(|record: &std::sync::Arc<HostRecord>| record.host.cluster_id)
        .collect();
    clusters.sort();
    clusters.dedup();
    for cluster in clusters {
        pass::settle_soon(&service.rules(), change, cluster);
    }
}
