//! The effects of transitions on records besides the state, as named in the tables, one arm for each.

use crate::events::{self, Kind, kinds};
use crate::machine_networks;
use crate::model::{ClusterRecord, DAY2_CLUSTER, HostRecord};
use crate::state::{
    cluster::{Effect as ClusterEffect, FinalizingStage, Preparation},
    host::Effect as HostEffect,
    limits,
};
use crate::store::Change;
use api::{ClusterProgressInfo, Timestamp};
use serde_json::{Value, json};

/// A stage's clock restarts at most this often, seconds.
const EXTEND_EVERY: i64 = 60;

/// Applies an effect to a host that is being changed. `cluster` is its current or future cluster. Returns whether it changed
/// anything.
pub(crate) fn on_host(
    change: &mut Change,
    record: &mut HostRecord,
    cluster: Option<&ClusterRecord>,
    effect: HostEffect,
) -> bool {
    let now = change.now;
    match effect {
        HostEffect::FullReset => {
            record.reset();
            record.host.kind = cluster.map_or(crate::model::DAY1_HOST, ClusterRecord::host_kind).to_owned();
        }
        HostEffect::RestartPreparation => return restart_preparation(change, record),
        HostEffect::ClearImages => record.texts.images_status = None,
        HostEffect::ClearLogs => record.clear_logs(),
        HostEffect::LeaveCluster => record.leave(),
        HostEffect::JoinCluster => {
            if let Some(cluster) = cluster {
                record.leave();
                record.join(cluster);
            }
        }
        HostEffect::MediaLost => {
            record.host.media_status = "disconnected".to_owned();
            tell(change, record, kinds::HOST_MEDIA_DISCONNECTED);
        }
        HostEffect::ConnectionTimedOut => record.host.connection_timed_out = true,
        HostEffect::Reconnected => record.host.connection_timed_out = false,
        HostEffect::StageTimedOut => {
            let Some(progress) = &mut record.host.progress else { return false };
            progress.stage_timed_out = true;
            let stage = progress.current_stage;
            let single_node = cluster.is_some_and(ClusterRecord::single_node);
            let minutes = stage.map_or(0, |stage| limits::stage(stage, single_node) / 60);
            let details = json!({"stage": stage, "minutes": minutes});
            events::host(change, record, kinds::HOST_STAGE_TIMED_OUT, details);
        }
        HostEffect::ExtendStage => {
            let Some(progress) = &mut record.host.progress else { return false };
            if now.seconds_since(progress.stage_updated_at) < EXTEND_EVERY {
                return false;
            }
            progress.stage_updated_at = now;
            record.host.stage_updated_at = now;
        }
        HostEffect::LogsTimedOut => record.host.logs_info = "timeout".to_owned(),
        HostEffect::TellCancelled => tell(change, record, kinds::HOST_INSTALLATION_CANCELLED),
        HostEffect::TellReset => tell(change, record, kinds::HOST_INSTALLATION_RESET),
        HostEffect::TellStarted => tell(change, record, kinds::HOST_INSTALLATION_STARTED),
        HostEffect::TellBound => tell(change, record, kinds::HOST_BIND_SUCCEEDED),
        HostEffect::TellUnbound => tell(change, record, kinds::HOST_UNBIND_SUCCEEDED),
    }
    true
}

fn tell(change: &mut Change, record: &HostRecord, kind: Kind) {
    events::host(change, record, kind, Value::Null);
}

fn tell_cluster(change: &mut Change, record: &ClusterRecord, kind: Kind) {
    events::cluster(change, record, kind, Value::Null);
}

fn restart_preparation(change: &mut Change, record: &HostRecord) -> bool {
    let cluster = record.host.cluster_id.and_then(|id| change.model().clusters.get(&id).cloned());
    let Some(cluster) = cluster.filter(|cluster| cluster.course.preparation != Preparation::NotStarted) else {
        return false;
    };
    let mut cluster = ClusterRecord::clone(&cluster);
    cluster.course.preparation = Preparation::NotStarted;
    change.put_cluster(cluster);
    true
}

/// Applies an effect to a cluster that is being changed. Its hosts are left to the caller.
pub(crate) fn on_cluster(change: &mut Change, record: &mut ClusterRecord, effect: ClusterEffect) {
    use ClusterEffect as E;
    let info = record.cluster.status_info.clone();
    match effect {
        E::Start => {
            record.cluster.install_started_at = change.now;
            record.cluster.install_completed_at = Timestamp::ZERO;
            record.course.begin();
            record.cluster.progress = None;
        }
        E::Complete => record.cluster.install_completed_at = change.now,
        E::EachHost(_) => {}
        E::Clear => {
            record.course.clear();
            record.cluster.progress = None;
            record.cluster.controller_logs_collected_at = Timestamp::ZERO;
            record.cluster.controller_logs_started_at = Timestamp::ZERO;
            record.settings.remove("logs_info");
            if record.single_node() {
                record.cluster.api_vips.clear();
                record.cluster.ingress_vips.clear();
            }
        }
        E::AddHosts => {
            let cluster = &mut record.cluster;
            cluster.kind = DAY2_CLUSTER.to_owned();
            record.course.api_vip_dns_name = format!("api.{}.{}", cluster.name, cluster.base_dns_domain);
        }
        E::Prepared => {
            record.course.preparation = Preparation::Success;
            record.course.preparation_reason.clear();
        }
        E::PreparationFailed => {
            // What made files says more than that there are none.
            if record.course.preparation != Preparation::Failed {
                record.course.preparation = Preparation::Failed;
                record.course.preparation_reason = info;
            }
        }
        E::SingleNodeVips => single_node_vips(change, record),
        E::StageTimedOut => {
            record.cluster.progress.get_or_insert_with(ClusterProgressInfo::default).finalizing_stage_timed_out = true;
            let course = &record.course;
            let limit = |stage| course.finalizing_limits.stage(stage, course.soft_timeouts, course.olm_timeout());
            let minutes = course.finalizing_stage.map_or(0, |stage| limit(stage) / 60);
            let stage = course.finalizing_stage.map_or("", FinalizingStage::as_str);
            let details = json!({"stage": stage, "minutes": minutes});
            events::cluster(change, record, kinds::FINALIZING_STAGE_TIMED_OUT, details);
        }
        E::LogsTimedOut => drop(record.settings.insert("logs_info".to_owned(), Value::from("timeout"))),
        E::TellStarted => {
            let ignored = record.ignored_validations.as_ref();
            if ignored.is_some_and(|ignored| !ignored.host.is_empty() || !ignored.cluster.is_empty()) {
                tell_cluster(change, record, kinds::VALIDATIONS_IGNORED);
            }
        }
        E::TellCancelled => tell_cluster(change, record, kinds::CLUSTER_INSTALLATION_CANCELED),
        E::TellReset => tell_cluster(change, record, kinds::CLUSTER_INSTALLATION_RESET),
        E::TellPreparingTimedOut => {
            events::cluster(change, record, kinds::INSTALLATION_PREPARING_TIMED_OUT, json!({"reason": info}));
        }
        E::TellFailed => {
            events::cluster(change, record, kinds::CLUSTER_INSTALLATION_FAILED, json!({"failure_reason": info}));
        }
        E::TellCompleted => tell_cluster(change, record, kinds::CLUSTER_INSTALLATION_COMPLETED),
        E::TellDegraded => {
            let failed = record.course.operators.iter().filter(|operator| !operator.name.is_empty());
            let failed = failed.filter(|operator| operator.status == Some(crate::course::OperatorStatus::Failed));
            let names = failed.map(|operator| operator.name.as_str()).collect::<Vec<_>>().join(", ");
            // The real service's text.
            let details = json!({"failed_operators": format!(". Failed OLM operators: {names}")});
            events::cluster(change, record, kinds::CLUSTER_DEGRADED_OLM_OPERATORS_FAILED, details);
        }
    }
}

/// A single node's address in the machine network.
fn single_node_vips(change: &Change, record: &mut ClusterRecord) {
    if !record.single_node() {
        return;
    }
    let hosts = change.model().hosts_of_cluster(record.cluster.id);
    let Some(address) = machine_networks::own_address(record, &hosts) else { return };
    let vips = vec![json!({"cluster_id": record.cluster.id, "ip": address})];
    record.cluster.api_vips.clone_from(&vips);
    record.cluster.ingress_vips = vips;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use crate::state::ClusterState;
    use crate::store::{EventQuery, Store, StoreError};
    use api::{Cluster, ClusterId, HostId, HostProgressInfo, HostRole, HostStage, InfraEnvId, MachineNetwork, Secret};

    fn changing<T>(work: impl FnOnce(&mut Change) -> T) -> (T, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let mut names = Vec::new();
        let done = store.change("", |change| {
            let done = work(change);
            Ok::<_, StoreError>(done)
        });
        let all = EventQuery { limit: usize::MAX, ..EventQuery::default() };
        names.extend(store.events(&all).unwrap().events.into_iter().map(|event| event.name));
        (done.unwrap(), names)
    }

    fn host() -> HostRecord {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        HostRecord::new(key, None, Timestamp::now())
    }

    fn cluster(kind: &str, masters: u32) -> ClusterRecord {
        let cluster =
            Cluster { id: ClusterId::random(), kind: kind.into(), control_plane_count: masters, ..Cluster::default() };
        ClusterRecord::new(ClusterState::Ready, cluster, Secret::default())
    }

    #[test]
    fn joining_and_leaving() {
        let (_, names) = changing(|change| {
            let day2 = cluster(DAY2_CLUSTER, 0);
            let mut record = host();
            on_host(change, &mut record, Some(&day2), HostEffect::JoinCluster);
            assert_eq!((record.host.cluster_id, record.host.role), (Some(day2.cluster.id), HostRole::Worker));
            assert!(record.day2());
            record.texts.node_labels = Some("{}".into());
            on_host(change, &mut record, Some(&day2), HostEffect::FullReset);
            let texts = record.texts.published().map(|(name, _)| name).collect::<Vec<_>>();
            assert_eq!(texts, ["machine_config_pool_name", "node_labels"], "what users set stays");
            on_host(change, &mut record, Some(&day2), HostEffect::TellUnbound);
            on_host(change, &mut record, Some(&day2), HostEffect::LeaveCluster);
            assert_eq!((record.host.cluster_id, record.host.role, record.day2()), (None, HostRole::AutoAssign, false));
            let single = cluster("Cluster", 1);
            on_host(change, &mut record, Some(&single), HostEffect::JoinCluster);
            assert_eq!((record.host.role, record.day2()), (HostRole::Master, false));
        });
        assert_eq!(names, ["host_unbind_succeeded"]);
    }

    #[test]
    fn stages_that_take_long() {
        let (_, names) = changing(|change| {
            let mut record = host();
            assert!(!on_host(change, &mut record, None, HostEffect::StageTimedOut), "no stage, no flag");
            let old = Timestamp::from_unix_seconds(change.now.unix_seconds() - EXTEND_EVERY);
            let stage = Some(HostStage::Joined);
            record.host.progress =
                Some(HostProgressInfo { current_stage: stage, stage_updated_at: old, ..HostProgressInfo::default() });
            assert!(on_host(change, &mut record, None, HostEffect::StageTimedOut));
            assert!(on_host(change, &mut record, None, HostEffect::ExtendStage));
            assert!(!on_host(change, &mut record, None, HostEffect::ExtendStage), "once a minute");
            assert!(record.host.progress.as_ref().is_some_and(|progress| progress.stage_timed_out));
            on_host(change, &mut record, None, HostEffect::MediaLost);
            assert!(!record.media_connected());
        });
        assert_eq!(names, ["host_stage_timed_out", "host_media_disconnected"]);
    }

    #[test]
    fn a_single_node_answers_for_itself() {
        changing(|change| {
            let mut single = cluster("Cluster", 1);
            let network = MachineNetwork { cidr: "10.0.0.0/24".into(), cluster_id: None };
            single.cluster.machine_networks = vec![network];
            let mut record = host();
            record.host.cluster_id = Some(single.cluster.id);
            let nic = json!({"name": "eth0", "ipv4_addresses": ["192.0.2.1/24", "10.0.0.7/24"]});
            record.set_inventory(json!({"interfaces": [nic]}).to_string());
            change.put_host(record);
            on_cluster(change, &mut single, ClusterEffect::SingleNodeVips);
            assert_eq!(single.cluster.api_vips[0]["ip"], "10.0.0.7");
            on_cluster(change, &mut single, ClusterEffect::Clear);
            assert!(single.cluster.api_vips.is_empty() && single.cluster.ingress_vips.is_empty());
        });
    }
}
