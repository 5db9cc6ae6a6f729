//! The pass that brings hosts and clusters to the states their facts call for: after a write, and every few seconds.

use crate::check::{self, connectivity, host as host_check};
use crate::events::{self, Severity};
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::roles;
use crate::service::Service;
use crate::state::{ClusterState, HostState, cluster as cluster_state, host as host_state, progress};
use crate::store::Change;
use api::{ClusterId, ClusterProgressInfo, HostRole, StageList, Timestamp};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// States settle in a few rounds (known, preparing, prepared, installing); more would be a circle in the rules.
const MAX_ROUNDS: usize = 8;
/// With more hosts a write leaves this to the pass that follows it, so that what many hosts say at once is judged once.
const AT_ONCE_MAX_HOSTS: usize = 8;

/// Brings the cluster of a host, or the hosts without one, to rest: at once, or as soon as the service comes to it.
pub fn settle_soon(service: &Service, change: &mut Change, id: Option<ClusterId>) {
    let hosts = change.model().hosts.values().filter(|record| record.host.cluster_id == id);
    if hosts.take(AT_ONCE_MAX_HOSTS + 1).count() > AT_ONCE_MAX_HOSTS {
        return service.unsettled.note(id);
    }
    match id {
        Some(id) => settle_cluster(service, change, id),
        None => settle_unbound(service, change),
    }
}

/// Brings a cluster and its hosts to rest.
pub fn settle_cluster(service: &Service, change: &mut Change, id: ClusterId) {
    for _ in 0..MAX_ROUNDS {
        let Some(cluster) = change.model().clusters.get(&id).cloned() else { return };
        let hosts_moved = settle_hosts(service, change, &cluster);
        let cluster_moved = settle_one_cluster(service, change, &cluster);
        if !hosts_moved && !cluster_moved {
            return;
        }
    }
    tracing::error!(cluster = %id, "the states of the cluster and its hosts do not come to rest");
}

/// Brings hosts without a cluster to rest.
pub fn settle_unbound(service: &Service, change: &mut Change) {
    let unbound: Vec<_> = change.model().hosts.values().filter(|record| record.state.unbound()).cloned().collect();
    let shared = host_check::Shared::default();
    for record in unbound {
        settle_host(service, change, &record, None, &shared, false);
    }
}

fn settle_hosts(service: &Service, change: &mut Change, cluster: &ClusterRecord) -> bool {
    let id = cluster.cluster.id;
    let checking = change.model().hosts_of_cluster(id).iter().any(|record| record.state.checked());
    if checking && cluster.state.accepts_hosts() {
        roles::suggest(&service.settings.requirements, change, cluster);
    }
    let hosts = change.model().hosts_of_cluster(id);
    let shared = if checking { share(cluster, &hosts) } else { host_check::Shared::default() };
    if checking {
        store_groups(change, id, &shared.groups);
    }
    let states: Vec<_> = hosts.iter().map(|record| (record.state, record.effective_role())).collect();
    let mut moved = false;
    for (index, record) in hosts.iter().enumerate() {
        // With this one gone for good, the others must still carry the cluster.
        let dispensable = record.state == HostState::InstallingPendingUserAction && {
            let others = states.iter().enumerate().filter(|(other, _)| *other != index);
            let others: Vec<_> = others.map(|(_, state)| *state).collect();
            cluster_state::enough(&others, masters(cluster), |state| state == HostState::Installed)
        };
        moved |= settle_host(service, change, record, Some(cluster), &shared, dispensable);
    }
    moved
}

fn settle_host(
    service: &Service,
    change: &mut Change,
    record: &HostRecord,
    cluster: Option<&ClusterRecord>,
    shared: &host_check::Shared,
    dispensable: bool,
) -> bool {
    let mut record = record.clone();
    let presence = service.store.presence(record.key());
    let findings = record.state.checked().then(|| {
        host_check::run(&host_check::Context {
            record: &record,
            presence,
            cluster,
            shared,
            requirements: &service.settings.requirements,
            now: change.now,
            started: service.started,
        })
    });
    let checks = findings.as_ref().map(host_check::Findings::for_state).unwrap_or_default();
    let facts = host_state::Facts {
        state: record.state,
        stage: record.stage(),
        cluster: cluster.map(|cluster| cluster.state),
        connected: host_check::connected(record.stage(), presence, change.now, service.started),
        role_set: record.host.role != HostRole::AutoAssign,
        in_state: since(change.now, record.host.status_updated_at, service.started),
        in_stage: since(change.now, record.host.stage_updated_at, service.started),
        single_node: cluster.is_some_and(ClusterRecord::single_node),
        has_inventory: record.facts().inventory.is_some(),
        hardware_failures: &checks.min_hardware,
        failures: &checks.sufficient,
        dispensable,
        disk: &disk_name(&record),
    };
    let step = host_state::refresh(&facts);
    let checked = findings.map(|findings| findings.to_json()).filter(|json| *json != record.host.validations_info);
    if let Some(json) = &checked {
        record.host.validations_info = json.clone();
    }
    let moved = step.is_some_and(|step| enter(change, &mut record, step));
    if moved || checked.is_some() {
        change.put_host(record);
    }
    moved
}

/// Time limits do not run while the service is down: nobody could have reported.
fn since(now: Timestamp, then: Timestamp, started: Timestamp) -> i64 {
    now.seconds_since(then.max(started))
}

/// Applies a step to a record; the caller stores it. Says whether anything changed.
pub fn enter(change: &mut Change, record: &mut HostRecord, step: host_state::Step) -> bool {
    if step.reset {
        record.reset();
    }
    if record.state == step.to && record.host.status_info == step.info {
        return step.reset;
    }
    let from = record.state;
    record.state = step.to;
    record.host.status_info = step.info;
    if from != step.to {
        record.host.status_updated_at = change.now;
        let (host, name) = (record.host.id, events::display_name(record));
        tracing::info!(%host, name, %from, to = %step.to, why = record.host.status_info, "a host changed its state");
        events::host_state(change, record, from);
    }
    true
}

/// Applies a state to a cluster record; the caller stores it.
pub fn enter_cluster(change: &mut Change, record: &mut ClusterRecord, to: ClusterState, info: &str) {
    let from = record.state;
    record.state = to;
    record.cluster.status_info = info.to_owned();
    if from == to {
        return;
    }
    record.cluster.status_updated_at = change.now;
    tracing::info!(cluster = %record.cluster.id, name = record.cluster.name, %from, %to, why = info, "a cluster changed its state");
    events::cluster_state(change, record, from);
    match to {
        ClusterState::Installed => {
            record.cluster.install_completed_at = change.now;
            let text = "Successfully completed installing cluster".to_owned();
            events::cluster(change, record, "cluster_installation_completed", Severity::Info, text, Value::Null);
        }
        ClusterState::Error => {
            record.cluster.install_completed_at = change.now;
            let text = format!("Failed installing cluster: {info}");
            events::cluster(change, record, "cluster_installation_failed", Severity::Critical, text, Value::Null);
        }
        _ => {}
    }
}

fn settle_one_cluster(service: &Service, change: &mut Change, before: &ClusterRecord) -> bool {
    let Some(current) = change.model().clusters.get(&before.cluster.id).cloned() else { return false };
    let mut record = ClusterRecord::clone(&current);
    let hosts = change.model().hosts_of_cluster(record.cluster.id);
    let findings = record
        .state
        .accepts_hosts()
        .then(|| check::cluster::run(&check::cluster::Context { record: &record, hosts: &hosts }));
    if let Some(findings) = &findings {
        record.cluster.validations_info = findings.to_json();
    }
    let states: Vec<_> = hosts.iter().map(|host| (host.state, host.effective_role())).collect();
    let step = cluster_state::refresh(&cluster_state::Facts {
        state: record.state,
        in_state: since(change.now, record.cluster.status_updated_at, service.started),
        hosts: &states,
        control_plane_count: masters(&record),
        input_missing: findings.as_ref().is_some_and(|findings| !findings.for_state().inputs_given),
        not_ready: findings.as_ref().is_some_and(|findings| !findings.for_state().installable),
    });
    let step = step.filter(|(to, info)| (record.state, record.cluster.status_info.as_str()) != (*to, info));
    if let Some((to, info)) = step {
        enter_cluster(change, &mut record, to, info);
    }
    record.cluster.progress = Some(percentages(&record, &hosts));
    if *current != record {
        change.put_cluster(record);
    }
    step.is_some()
}

fn masters(cluster: &ClusterRecord) -> usize {
    usize::try_from(cluster.cluster.control_plane_count).unwrap_or(usize::MAX)
}

/// The stages a host passes.
pub fn stages(record: &HostRecord, cluster: Option<&ClusterRecord>) -> StageList {
    StageList::of(record.effective_role(), record.host.bootstrap, cluster.is_some_and(ClusterRecord::single_node))
}

fn percentages(record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> ClusterProgressInfo {
    let mut info = record.cluster.progress.clone().unwrap_or_default();
    match record.state {
        ClusterState::Insufficient | ClusterState::Ready | ClusterState::PendingForInput => {
            return ClusterProgressInfo::default();
        }
        ClusterState::PreparingForInstallation => return info,
        _ => {}
    }
    info.preparing_for_installation_stage_percentage = 100;
    info.installing_stage_percentage =
        progress::installing_percent(hosts.iter().map(|host| (host.stage(), stages(host, Some(record)).stages())));
    info.total_percentage = match record.state {
        ClusterState::Installed => 100,
        _ => 10 + info.installing_stage_percentage * 70 / 100,
    };
    if record.state == ClusterState::Installed {
        info.finalizing_stage_percentage = 100;
    }
    info
}

fn share(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> host_check::Shared {
    let mut names = BTreeMap::new();
    for name in hosts.iter().filter_map(|record| record.hostname()) {
        *names.entry(name.to_owned()).or_default() += 1;
    }
    let machine_networks = machine_networks(cluster, hosts);
    // A control plane of two needs two; every other majority is at least three.
    let group_minimum = if cluster.cluster.control_plane_count == 2 { 2 } else { 3 };
    let nodes: Vec<connectivity::Node> = hosts
        .iter()
        .filter_map(|record| {
            let facts = record.facts();
            facts.inventory.as_ref()?;
            Some(connectivity::Node { id: record.host.id, addresses: &facts.addresses, reach: facts.reach.as_ref() })
        })
        .collect();
    let groups = connectivity::groups(&nodes, &machine_networks, group_minimum);
    host_check::Shared { names, groups, machine_networks, group_minimum, hosts: hosts.len() }
}

/// The networks the machines are to be in: the user's, else those of the hosts' interfaces that hold the API's addresses.
pub fn machine_networks(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Vec<Cidr> {
    let given: Vec<Cidr> =
        cluster.cluster.machine_networks.iter().filter_map(|network| network.cidr.parse().ok()).collect();
    if !given.is_empty() {
        return given;
    }
    let vips: Vec<std::net::IpAddr> =
        cluster.cluster.api_vips.iter().filter_map(|vip| vip.get("ip")?.as_str()?.parse().ok()).collect();
    let inventories = hosts.iter().filter_map(|record| record.facts().inventory.as_ref());
    let networks: Vec<Cidr> = inventories
        .flat_map(|inventory| &inventory.interfaces)
        .flat_map(|nic| nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses))
        .filter_map(|text| text.parse::<Cidr>().ok())
        .map(Cidr::network)
        .collect();
    vips.iter().filter_map(|vip| networks.iter().find(|network| network.contains(*vip)).copied()).collect()
}

fn store_groups(change: &mut Change, id: ClusterId, groups: &connectivity::MajorityGroups) {
    let Ok(json) = serde_json::to_string(groups) else { return };
    let Some(current) =
        change.model().clusters.get(&id).filter(|record| record.cluster.connectivity_majority_groups != json)
    else {
        return;
    };
    let mut record = ClusterRecord::clone(current);
    record.cluster.connectivity_majority_groups = json;
    change.put_cluster(record);
}

/// A host's installation disk for people.
pub fn disk_name(record: &HostRecord) -> String {
    let chosen = &record.host.installation_disk_path;
    let inventory = record.facts().inventory.as_ref();
    let disk = inventory.and_then(|inventory| inventory.disks.iter().find(|disk| disk.path == *chosen));
    match disk {
        Some(disk) => format!("{} (model '{}', serial '{}', id {})", disk.path, disk.model, disk.serial, disk.id),
        None if chosen.is_empty() => "(none chosen)".to_owned(),
        None => chosen.clone(),
    }
}
