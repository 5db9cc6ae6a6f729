//! Records by their ids.

use crate::http::Refusal;
use crate::model::{ClusterRecord, HostKey, HostRecord, InfraEnvRecord, Model};
use api::{ClusterId, InfraEnvId};
use std::sync::Arc;

/// A cluster; refused if it does not exist.
pub(crate) fn find_cluster(model: &Model, id: ClusterId) -> Result<Arc<ClusterRecord>, Refusal> {
    model.clusters.get(&id).cloned().ok_or_else(|| Refusal::not_found(format!("cluster {id} was not found")))
}

/// An infra-env; refused if it does not exist.
pub(crate) fn find_infra_env(model: &Model, id: InfraEnvId) -> Result<Arc<InfraEnvRecord>, Refusal> {
    model.infra_envs.get(&id).cloned().ok_or_else(|| Refusal::not_found(format!("infra_env {id} was not found")))
}

/// A host; refused in the real service's words if it does not exist.
pub(crate) fn find_host(model: &Model, key: HostKey) -> Result<Arc<HostRecord>, Refusal> {
    model.hosts.get(&key).cloned().ok_or_else(|| {
        let HostKey { host, infra_env } = key;
        Refusal::not_found(format!("failed to get host {host} in infra_env {infra_env}: record not found"))
    })
}
