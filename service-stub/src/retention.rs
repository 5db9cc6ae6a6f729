//! What nobody has to do with any more goes (docs/compatibility.md#cluster-clocks). Whatever is deleted here is gone at once, so there is
//! nothing that would be deleted for good later.

use crate::events::{self, kinds};
use crate::handlers::clusters;
use crate::model::{ClusterRecord, HostKey, HostRecord, Presence};
use crate::service::Service;
use crate::state::ClusterState;
use crate::store::StoreError;
use api::{ClusterId, InfraEnvId, Timestamp};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// How long clusters and infra-envs stay that nobody touches, seconds; for ever without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention(pub Option<i64>);

impl std::str::FromStr for Retention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err("it is no time like 480h or 20d, and not 'never'".to_owned()),
        };
        let number: i64 = number.parse().map_err(|_| "its number is none, or too large".to_owned())?;
        number.checked_mul(seconds).filter(|s| *s > 0).map(|s| Self(Some(s))).ok_or_else(|| "it is no time".to_owned())
    }
}

impl Retention {
    /// Seconds between two looks.
    pub fn interval(self) -> Option<i64> {
        self.0.map(|limit| limit.min(3600))
    }
}

/// Removes clusters, then infra-envs, that nobody has touched for too long, with their hosts. `up_s` is how long the service
/// has been running, by a clock that nobody sets: time that it was down does not count, nor time that passed on paper only.
pub fn sweep(service: &Service, up_s: i64) -> Result<(), StoreError> {
    let Some(limit) = service.settings.retention.0.filter(|limit| up_s >= *limit) else { return Ok(()) };
    let presences = service.store.presences();
    let stale = |last: Timestamp| Timestamp::now().seconds_since(last) >= limit;
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

/// Nothing is on its way.
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
            tracing::info!(cluster = %id, name = record.cluster.name, limit_s = limit, "a cluster nobody touches is removed");
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
        tracing::info!(infra_env = %id, "an infra-env nobody touches is removed");
        events::infra_env(change, &record, kinds::INFRA_ENV_DEREGISTERED);
        change.remove_infra_env(id);
        Ok::<_, StoreError>(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let read = |text: &str| text.parse::<Retention>();
        assert_eq!(read("never"), Ok(Retention(None)));
        let seconds = [("30s", 30), ("5m", 300), ("480h", 1_728_000), ("20d", 1_728_000)];
        assert!(seconds.iter().all(|(text, seconds)| read(text) == Ok(Retention(Some(*seconds)))));
        for bad in ["", "20", "d", "0h", "-1h", "1w", "9223372036854775807d"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
