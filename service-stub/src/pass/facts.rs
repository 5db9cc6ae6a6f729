//! What the transitions of hosts and clusters depend on, read from their records.

use super::rules::Rules;
use crate::check::disks;
use crate::model::{ClusterRecord, HostRecord};
use crate::state::{
    ClusterState, cluster as cluster_state, cluster::FinalizingStage, host as host_state, host::DiskNames, limits,
    progress,
};
use crate::store::Change;
use api::{ClusterProgressInfo, HostRole, HostStage, StageList, Timestamp};
use serde_json::Value;
use std::sync::Arc;

/// What a host's transitions depend on, but for its checks and its peers.
pub(super) fn host_facts(
    change: &Change,
    record: &HostRecord,
    cluster: Option<&ClusterRecord>,
    started: Timestamp,
) -> host_state::Facts {
    let host = &record.host;
    let age = |then| since(change.now, then, started);
    let logs_moved = host.logs_started_at.max(host.logs_collected_at);
    host_state::Facts {
        stage: record.stage(),
        day2: record.day2(),
        cluster: cluster.map(|cluster| cluster.state),
        soft_timeouts: cluster.is_some_and(|cluster| cluster.course.soft_timeouts),
        role_set: host.role != HostRole::AutoAssign,
        in_state: age(host.status_updated_at),
        in_stage: age(host.stage_updated_at),
        single_node: cluster.is_some_and(ClusterRecord::single_node),
        logs_overdue: limits::logs_overdue(
            &host.logs_info,
            age(host.logs_started_at),
            age(logs_moved),
            limits::HOST_LOGS,
        ),
        stage_flagged: host.progress.as_ref().is_some_and(|progress| progress.stage_timed_out),
        connection_flagged: host.connection_timed_out,
        disk: disk_names(record),
        info: record.host.status_info.clone(),
        ..host_state::Facts::default()
    }
}

/// Time limits do not run while the service is down: no host could report.
fn since(now: Timestamp, then: Timestamp, started: Timestamp) -> i64 {
    now.seconds_since(then.max(started))
}

/// What a cluster's transitions depend on, but for its checks.
pub(super) fn cluster_facts(rules: &Rules, change: &Change, record: &ClusterRecord) -> cluster_state::Facts {
    let (cluster, course) = (&record.cluster, &record.course);
    let hosts = change.model().hosts_of_cluster(cluster.id);
    let age = |then| since(change.now, then, rules.started);
    let progress = cluster.progress.clone().unwrap_or_default();
    let logs_info = record.settings.get("logs_info").and_then(Value::as_str).unwrap_or_default();
    let logs_moved = cluster.controller_logs_started_at.max(cluster.controller_logs_collected_at);
    let awaited = rules.await_controller || course.reported();
    cluster_state::Facts {
        in_state: age(cluster.status_updated_at),
        in_install: age(cluster.install_started_at),
        dhcp_vips: cluster.vip_dhcp_allocation,
        day1: !record.day2(),
        soft_timeouts: course.soft_timeouts,
        hosts: hosts.iter().map(|host| (host.state, host.effective_role())).collect(),
        control_plane_count: masters(record),
        preparation: course.preparation,
        awaits_files: course.awaits_files(),
        finalizing_stage: course.finalizing_stage,
        in_finalizing_stage: age(progress.finalizing_stage_started_at),
        olm_timeout: course.olm_timeout(),
        finalizing: course.finalizing_limits.clone(),
        stage_flagged: progress.finalizing_stage_timed_out,
        finalized: !awaited || course.finalized(),
        failed_operators: course.failed_operators(),
        logs_overdue: limits::logs_overdue(
            logs_info,
            age(cluster.controller_logs_started_at),
            age(logs_moved),
            limits::CLUSTER_LOGS,
        ),
        ..cluster_state::Facts::default()
    }
}

pub(super) fn masters(cluster: &ClusterRecord) -> usize {
    usize::try_from(cluster.cluster.control_plane_count).unwrap_or(usize::MAX)
}

/// The stages a host passes. One that is added to a cluster is on its own from the reboot on.
pub fn stages(record: &HostRecord, cluster: Option<&ClusterRecord>) -> &'static [HostStage] {
    let single_node = cluster.is_some_and(ClusterRecord::single_node);
    let all = StageList::for_role(record.effective_role(), record.host.bootstrap, single_node).stages();
    let reboot = all.iter().position(|stage| record.day2() && *stage == HostStage::Rebooting);
    reboot.and_then(|reboot| all.get(..=reboot)).unwrap_or(all)
}

pub(super) fn percentages(record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> ClusterProgressInfo {
    let mut info = record.cluster.progress.clone().unwrap_or_default();
    match record.state {
        ClusterState::Insufficient | ClusterState::Ready | ClusterState::PendingForInput => {
            return ClusterProgressInfo::default();
        }
        ClusterState::PreparingForInstallation => return info,
        _ => {}
    }
    let hosts = hosts.iter().map(|host| (host.stage(), stages(host, Some(record))));
    let installed = record.state == ClusterState::Installed;
    info.preparing_for_installation_stage_percentage = 100;
    info.installing_stage_percentage = progress::installing_percent(hosts);
    info.finalizing_stage_percentage = if installed { 100 } else { record.course.operators_percent() };
    info.finalizing_stage = record.course.finalizing_stage.map_or("", FinalizingStage::as_str).to_owned();
    info.total_percentage = if installed { 100 } else { progress::total_percent(&info) };
    info
}

/// What a host's installation disk is called; the place and the maker stay empty while no inventory knows it.
fn disk_names(record: &HostRecord) -> DiskNames {
    let (id, path) = (&record.host.installation_disk_id, &record.host.installation_disk_path);
    let id = if id.is_empty() { path } else { id };
    let inventory = record.facts().inventory.as_ref();
    let disk = inventory.and_then(|inventory| inventory.disks.iter().find(|disk| disks::node(disk) == *path));
    let Some(disk) = disk else { return DiskNames { id: id.clone(), ..DiskNames::default() } };
    let known = [disk.model.as_str(), &disk.serial].into_iter().filter(|text| !text.is_empty());
    DiskNames {
        id: id.clone(),
        place: format!("({}, {})", disk.name, if disk.id.is_empty() { disks::node(disk) } else { disk.id.clone() }),
        maker: known.collect::<Vec<_>>().join(" "),
    }
}
