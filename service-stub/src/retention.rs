//! Removes untouched records (docs/compatibility.md#cluster-clocks). Deletion is immediate, so nothing is left to purge later.

pub use crate::settings::Retention;

use crate::events::{self, kinds};
use crate::handlers::clusters;
use crate::model::{ClusterRecord, HostKey, HostRecord, Presence};
use crate::service::Service;
use crate::state::ClusterState;
use crate::store::StoreError;
use api::{ClusterId, InfraEnvId, Timestamp};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Removes clusters, then infra-envs, untouched for too long by `now`, with their hosts. `up_s` is the service's uptime by the
/// monotonic clock: neither downtime nor a change of the clock counts.
pub fn sweep(service: &Service, now: Timestamp, up_s: i64) -> Result<(), StoreError> {
    let Some(limit) = service.settings.retention.0.filter(|limit| up_s >= *limit) else { return Ok(()) };
    let presences = service.store.presences().all();
    let stale = |last: Timestamp| now.seconds_since(last) >= limit;
    let model = service.store.model();
    let clusters: Vec<ClusterId> = model
        .clusters
        .values()
        .filter(|record| {
            idle(record.state) && stale(touched(record, &model.hosts_of_cluster(record.cluster.id), &presences))
        })
        .map(|record| record.cluster.id)
        .collect();
    for id in clusters {
        remove_cluster(service, id, limit)?;
    }
    let model = service.store.model();
    for record in model.infra_envs.values() {
        let hosts = model.hosts_of_infra_env(record.infra_env.id);
        let bound = record.infra_env.cluster_id.is_some() || hosts.iter().any(|host| host.host.cluster_id.is_some());
        let last = hosts.iter().map(|host| heard(host, &presences)).max().unwrap_or_default();
        if !bound && stale(last.max(record.infra_env.updated_at)) {
            remove_infra_env(service, record.infra_env.id)?;
        }
    }
    Ok(())
}

/// Nothing is in progress.
fn idle(state: ClusterState) -> bool {
    use ClusterState as S;
    !matches!(state, S::PreparingForInstallation | S::Installing | S::InstallingPendingUserAction | S::Finalizing)
}

fn heard(host: &HostRecord, presences: &BTreeMap<HostKey, Presence>) -> Timestamp {
    let presence = presences.get(&host.key()).copied().unwrap_or_default();
    host.host.updated_at.max(presence.checked_in_at)
}

fn touched(record: &ClusterRecord, hosts: &[Arc<HostRecord>], presences: &BTreeMap<HostKey, Presence>) -> Timestamp {
    let hosts = hosts.iter().map(|host| heard(host, presences)).max();
    record.cluster.updated_at.max(hosts.unwrap_or_default())
}

fn remove_cluster(service: &Service, id: ClusterId, limit: i64) -> Result<(), StoreError> {
    service.store.change("", |change| {
        if let Some(record) = change.model().clusters.get(&id).cloned() {
            tracing::info!(cluster = %id, name = record.cluster.name, limit_s = limit, "removing an untouched cluster");
            events::cluster(change, &record, kinds::AFTER_INACTIVITY_CLUSTER_DEREGISTERED, Value::Null);
            clusters::remove(service, change, &record);
        }
        Ok::<_, StoreError>(())
    })?;
    clusters::forget(service, id);
    Ok(())
}

fn remove_infra_env(service: &Service, id: InfraEnvId) -> Result<(), StoreError> {
    service.store.change("", |change| {
        let Some(record) = change.model().infra_envs.get(&id).cloned() else { return Ok(()) };
        for host in change.model().hosts_of_infra_env(id) {
            change.remove_host(host.key());
        }
        tracing::info!(infra_env = %id, "removing an untouched infra-env");
        events::infra_env(change, &record, kinds::INFRA_ENV_DEREGISTERED);
        change.remove_infra_env(id);
        Ok::<_, StoreError>(())
    })
}
