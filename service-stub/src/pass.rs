//! The pass that updates the states of hosts and clusters from their facts: after a write, and every few seconds.

mod facts;
mod rules;

pub use facts::stages;
pub(crate) use rules::{Rules, Unsettled};

use crate::check::{self, Waived, connectivity, host as host_check, turned::turned};
use crate::dhcp_vips;
use crate::effects;
use crate::events;
use crate::machine_networks;
use crate::manifest_files;
use crate::model::{ClusterRecord, HostKey, HostRecord, IgnoredValidations};
use crate::operators::Roles;
use crate::rendezvous;
use crate::roles;
use crate::state::{
    ClusterState, HostChecks, HostState, Outcome, cluster as cluster_state, host as host_state, table::Refused,
};
use crate::steps::{disk_to_measure, images_to_try};
use crate::store::Change;
use api::{ClusterId, HostId, StepType};
use facts::{cluster_facts, host_facts, masters, percentages};
use kernel::order::Gather;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// States settle in a few rounds (known, preparing, prepared, installing); more means a loop in the rules.
const MAX_ROUNDS: usize = 8;
/// With more hosts a write defers the update to the next pass, which covers simultaneous reports of many hosts at once.
const AT_ONCE_MAX_HOSTS: usize = 8;

/// Updates the states of a host's cluster, or of the hosts without one: at once, or as soon as possible.
pub(crate) fn settle_soon(rules: &Rules, change: &mut Change, id: Option<ClusterId>) {
    let hosts = change.model().hosts.values().filter(|record| record.host.cluster_id == id);
    if hosts.take(AT_ONCE_MAX_HOSTS + 1).count() > AT_ONCE_MAX_HOSTS {
        return rules.unsettled.note(id);
    }
    match id {
        Some(id) => settle_cluster(rules, change, id),
        None => settle_unbound(rules, change),
    }
}

/// What triggers an update of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    Write,
    Monitor,
}

/// Updates the states of a cluster and its hosts after a write.
pub(crate) fn settle_cluster(rules: &Rules, change: &mut Change, id: ClusterId) {
    settle(rules, change, id, Occasion::Write);
}

/// The same in the monitor's run: then prepared hosts continue.
pub(crate) fn monitor_cluster(rules: &Rules, change: &mut Change, id: ClusterId) {
    settle(rules, change, id, Occasion::Monitor);
}

fn settle(rules: &Rules, change: &mut Change, id: ClusterId, occasion: Occasion) {
    for _ in 0..MAX_ROUNDS {
        let Some(cluster) = change.model().clusters.get(&id).cloned() else { return };
        let hosts_moved = settle_hosts(rules, change, &cluster, occasion);
        let cluster_moved = settle_one_cluster(rules, change, &cluster);
        if !hosts_moved && !cluster_moved {
            return;
        }
    }
    tracing::error!(cluster = %id, "the states of the cluster and its hosts do not settle");
}

/// Updates the states of hosts without a cluster.
pub(crate) fn settle_unbound(rules: &Rules, change: &mut Change) {
    let hosts = change.model().hosts.values();
    let unbound: Vec<_> = hosts.filter(|record| record.host.cluster_id.is_none()).cloned().collect();
    let shared = host_check::Shared::default();
    for record in unbound {
        settle_host(rules, change, &record, None, &shared, (false, Occasion::Write));
    }
}

fn settle_hosts(rules: &Rules, change: &mut Change, cluster: &ClusterRecord, occasion: Occasion) -> bool {
    let id = cluster.cluster.id;
    let checking = change.model().hosts_of_cluster(id).iter().any(|record| record.state.checked());
    if checking && cluster.state.accepts_hosts() {
        roles::suggest(rules.requirements, change, cluster);
    }
    let hosts = change.model().hosts_of_cluster(id);
    // They are published for every cluster that is not installed yet, even without hosts.
    let published = checking || cluster.state.checked();
    let shared = if published { share(rules, cluster, &hosts) } else { host_check::Shared::default() };
    if published {
        store_groups(change, id, &shared);
    }
    let states: Vec<_> = hosts.iter().map(|record| (record.state, record.effective_role())).collect();
    let mut moved = false;
    for (index, record) in hosts.iter().enumerate() {
        // Without this host the others must still be enough for the cluster.
        let dispensable = record.state == HostState::InstallingPendingUserAction && {
            let others = states.iter().enumerate().filter(|(other, _)| *other != index);
            let others: Vec<_> = others.map(|(_, state)| *state).collect();
            cluster_state::enough(&others, masters(cluster), |state| state == HostState::Installed)
        };
        moved |= settle_host(rules, change, record, Some(cluster), &shared, (dispensable, occasion));
    }
    moved
}

fn settle_host(
    rules: &Rules,
    change: &mut Change,
    record: &HostRecord,
    cluster: Option<&ClusterRecord>,
    shared: &host_check::Shared,
    (dispensable, occasion): (bool, Occasion),
) -> bool {
    let mut record = record.clone();
    let presence = rules.presences.get(record.key());
    let infra_env = change.model().infra_envs.get(&record.host.infra_env_id).cloned();
    let findings = record.state.checked().then(|| {
        let context = host_check::Context {
            record: &record,
            presence,
            cluster,
            infra_env: infra_env.as_deref(),
            shared,
            requirements: rules.requirements,
            attest: rules.attest,
            now: change.now,
            started: rules.started,
        };
        host_check::run(&context, waived(rules, cluster, |ignored| &ignored.host))
    });
    let mut facts = host_facts(change, &record, cluster, rules.started);
    facts.dispensable = dispensable;
    facts.monitored = occasion == Occasion::Monitor;
    facts.checks = match &findings {
        Some(findings) => findings.for_state(),
        None => HostChecks {
            connected: host_check::connected(&record, presence, change.now, rules.started),
            media_connected: true,
            ..HostChecks::default()
        },
    };
    facts.checks.media_connected &= record.media_connected();
    await_answers(rules, &record, &mut facts.checks);
    let held = rendezvous::step(rules.own_host, change.model(), &record, cluster).filter(|_| facts.checks.connected);
    let step = held.or_else(|| host_state::step(host_state::Trigger::Refresh, Some(record.state), &facts).ok());
    let checked = findings.as_ref().is_some_and(|findings| tell_host(change, &mut record, findings));
    let moved = step.is_some_and(|step| enter(change, &mut record, cluster, step));
    if moved || checked {
        change.put_host(record);
    }
    moved
}

/// A measurement or trial that a host has not answered yet neither passes nor fails.
fn await_answers(rules: &Rules, record: &HostRecord, checks: &mut HostChecks) {
    let open = |outcome: &mut Outcome, open: bool| {
        if open && *outcome == Outcome::Success {
            *outcome = Outcome::Unknown;
        }
    };
    let (options, disabled) = (rules.steps, &rules.steps.disabled);
    let measures = !disabled.contains(&StepType::InstallationDiskSpeedCheck);
    let tries = !disabled.contains(&StepType::ContainerImageAvailability);
    open(&mut checks.disk_speed, measures && disk_to_measure(options, record).is_some());
    open(&mut checks.images, tries && !images_to_try(options, record).is_empty());
}

/// Stores findings in the record, with events for those that changed. Returns whether any did.
fn tell_host(change: &mut Change, record: &mut HostRecord, findings: &host_check::Findings) -> bool {
    let json = findings.to_json();
    if json == record.host.validations_info {
        return false;
    }
    for (turn, finding) in turned(&record.host.validations_info, findings.iter()) {
        events::host_check(change, record, turn, finding);
    }
    record.host.validations_info = json;
    true
}

/// Fires a trigger on a host that is being changed; the caller stores it.
pub(crate) fn trigger(
    rules: &Rules,
    change: &mut Change,
    record: &mut HostRecord,
    cluster: Option<&ClusterRecord>,
    on: host_state::Trigger,
    reason: &str,
) -> Result<(), Refused> {
    let facts = host_state::Facts { reason: reason.to_owned(), ..host_facts(change, record, cluster, rules.started) };
    let step = host_state::step(on, Some(record.state), &facts)?;
    enter(change, record, cluster, step);
    Ok(())
}

/// A host that registers for the first time; the caller stores it.
pub(crate) fn new_host(
    rules: &Rules,
    change: &mut Change,
    key: HostKey,
    cluster: Option<&ClusterRecord>,
) -> Result<HostRecord, Refused> {
    let mut record = HostRecord::new(key, cluster.map(|cluster| cluster.cluster.id), change.now);
    let facts = host_facts(change, &record, cluster, rules.started);
    let step = host_state::step(host_state::Trigger::Register, None, &facts)?;
    enter(change, &mut record, cluster, step);
    record.host.status_updated_at = change.now;
    // A single node must bootstrap itself (docs/compatibility.md#agent-endpoints).
    let alone = cluster.is_some_and(ClusterRecord::single_node);
    record.host.bootstrap = alone && rules.with_control_plane;
    Ok(record)
}

/// Applies a step to a record; the caller stores it. Returns whether anything changed.
fn enter(
    change: &mut Change,
    record: &mut HostRecord,
    cluster: Option<&ClusterRecord>,
    step: host_state::Step,
) -> bool {
    let mut moved = false;
    for effect in step.effects {
        moved |= effects::on_host(change, record, cluster, *effect);
    }
    let from = record.state;
    if let Some(info) = step.info.filter(|info| *info != record.host.status_info) {
        record.host.status_info = info;
        moved = true;
    }
    let Some(to) = step.to.filter(|to| *to != from) else { return moved };
    record.state = to;
    record.host.status_updated_at = change.now;
    let (host, name, row) = (record.host.id, events::display_name(record), step.id);
    tracing::info!(%host, name, %from, %to, row, why = record.host.status_info, "host state changed");
    events::host_state(change, record, from);
    true
}

/// Fires a trigger on a cluster that is being changed, and on its hosts where the table says so; the caller stores it.
pub(crate) fn trigger_cluster(
    rules: &Rules,
    change: &mut Change,
    record: &mut ClusterRecord,
    on: cluster_state::Trigger,
) -> Result<(), ClusterRefused> {
    let facts = cluster_facts(rules, change, record);
    let step = cluster_state::step(on, record.state, &facts).map_err(|_| ClusterRefused::State(record.state))?;
    for effect in step.effects {
        let cluster_state::Effect::EachHost(on) = effect else { continue };
        for host in change.model().hosts_of_cluster(record.cluster.id) {
            let mut host = HostRecord::clone(&host);
            match trigger(rules, change, &mut host, Some(record), *on, "") {
                Ok(()) => change.put_host(host),
                // Only a host that is being installed can be cancelled.
                Err(_) if *on == host_state::Trigger::Cancel => {}
                Err(_) => return Err(ClusterRefused::Host(host.host.id, host.state)),
            }
        }
    }
    enter_cluster(change, record, step);
    Ok(())
}

/// Why a cluster refuses a user's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClusterRefused {
    #[error("its status is {0}")]
    State(ClusterState),
    #[error("host {0} is in status {1}: let it connect, or delete it")]
    Host(HostId, HostState),
}

impl ClusterRefused {
    /// The host that refuses.
    pub(crate) fn host(self) -> Option<HostId> {
        match self {
            Self::State(_) => None,
            Self::Host(id, _) => Some(id),
        }
    }
}

/// Applies a step to a cluster record; the caller stores it. Returns whether anything changed except by effects.
fn enter_cluster(change: &mut Change, record: &mut ClusterRecord, step: cluster_state::Step) -> bool {
    let from = record.state;
    let mut moved = false;
    if let Some(info) = step.info.filter(|info| *info != record.cluster.status_info) {
        record.cluster.status_info = info;
        moved = true;
    }
    if let Some(to) = step.to.filter(|to| *to != from) {
        record.state = to;
        record.cluster.status_updated_at = change.now;
        let (cluster, name, row) = (record.cluster.id, &record.cluster.name, step.id);
        tracing::info!(%cluster, name, %from, %to, row, why = record.cluster.status_info, "cluster state changed");
        events::cluster_state(change, record);
        if !record.day2() && matches!(to, ClusterState::Installed | ClusterState::Error | ClusterState::Cancelled) {
            events::measured::installation_ended(change, record, from);
        }
        moved = true;
    }
    for effect in step.effects {
        effects::on_cluster(change, record, *effect);
    }
    moved
}

fn settle_one_cluster(rules: &Rules, change: &mut Change, before: &ClusterRecord) -> bool {
    let Some(current) = change.model().clusters.get(&before.cluster.id).cloned() else { return false };
    let mut record = ClusterRecord::clone(&current);
    let hosts = change.model().hosts_of_cluster(record.cluster.id);
    if matches!(record.state, ClusterState::Insufficient | ClusterState::PendingForInput) {
        machine_networks::follow_hosts(&mut record, &hosts);
    }
    if record.state.accepts_hosts() {
        let networks = machine_networks::find(&record, &hosts);
        dhcp_vips::check_lease_timeout(change, &mut record, &networks, rules.started);
    }
    let findings = record.state.checked().then(|| check_cluster(rules, &record, &hosts));
    let mut facts = cluster_facts(rules, change, &record);
    if let Some(findings) = &findings {
        let json = findings.to_json();
        for (turn, finding) in turned(&record.cluster.validations_info, findings.iter()) {
            events::cluster_check(change, &record, turn, finding);
        }
        record.cluster.validations_info = json;
        facts.checks = findings.for_state();
    }
    let step = cluster_state::step(cluster_state::Trigger::Refresh, record.state, &facts).ok();
    let moved = step.is_some_and(|step| enter_cluster(change, &mut record, step));
    record.cluster.progress = (!record.day2()).then(|| percentages(&record, &hosts));
    if *current != record {
        change.put_cluster(record);
    }
    moved
}

fn check_cluster(rules: &Rules, record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> check::cluster::Findings {
    use HostState as S;
    let reachable = hosts
        .iter()
        .filter(|host| !matches!(host.state, S::Disconnected | S::Discovering | S::ResettingPendingUserAction));
    let clocks: Vec<i64> =
        reachable.map(|host| rules.presences.get(host.key()).clock).filter(|clock| *clock != 0).collect();
    let manifests = manifest_files::list(rules.state_directory, record.cluster.id);
    let context = check::cluster::Context {
        record,
        hosts,
        machine_networks: &machine_networks::find(record, hosts),
        clocks: &clocks,
        has_manifests: manifests.is_ok_and(|list| !list.is_empty()),
        with_control_plane: rules.with_control_plane,
    };
    check::cluster::run(&context, waived(rules, Some(record), |ignored| &ignored.cluster))
}

/// Checks that block nothing: those in the cluster's own list, else those the service disables.
fn waived(
    rules: &Rules,
    cluster: Option<&ClusterRecord>,
    list: fn(&IgnoredValidations) -> &BTreeSet<String>,
) -> Waived {
    match cluster.and_then(|record| record.ignored_validations.as_ref()) {
        Some(own) => Waived { ignored: list(own).clone(), disabled: BTreeSet::new() },
        None => {
            let disabled = list(rules.disabled_validations).clone();
            Waived { ignored: BTreeSet::new(), disabled }
        }
    }
}

fn share(rules: &Rules, cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> host_check::Shared {
    let mut names = BTreeMap::new();
    for name in hosts.iter().filter_map(|record| record.hostname()) {
        *names.entry(name.to_owned()).or_default() += 1;
    }
    let machine_networks = machine_networks::find(cluster, hosts);
    let named = hosts.iter().filter_map(|record| Some((record, record.hostname()?.to_owned())));
    let peers = named.map(|(record, name)| (record.host.id, (record.effective_role(), name))).gather();
    // A control plane has three voting nodes, possibly with an arbiter, or two that are fenced; without one there may be two hosts.
    let with_control_plane = rules.with_control_plane;
    let is_pair = cluster.cluster.control_plane_count == 2 && !with_control_plane;
    let group_minimum = if is_pair || cluster.is_fenced_pair(hosts) { 2 } else { 3 };
    let nodes: Vec<connectivity::Node> = hosts
        .iter()
        .filter_map(|record| {
            let facts = record.facts();
            facts.inventory.as_ref()?;
            Some(connectivity::Node { id: record.host.id, addresses: &facts.addresses, reach: facts.reach.as_ref() })
        })
        .collect();
    let groups = connectivity::groups(&nodes, &machine_networks, group_minimum);
    let collisions = connectivity::collisions(&nodes);
    host_check::Shared {
        names,
        peers,
        groups,
        machine_networks,
        group_minimum,
        hosts: hosts.len(),
        roles: Roles::of(hosts),
        with_control_plane,
        single_node_dnsmasq: rules.single_node_dnsmasq,
        collisions,
    }
}

/// The hosts' mutual connectivity, in its published form.
fn store_groups(change: &mut Change, id: ClusterId, shared: &host_check::Shared) {
    let (Ok(groups), Ok(collisions)) =
        (serde_json::to_string(&shared.groups), serde_json::to_string(&shared.collisions))
    else {
        return;
    };
    let Some(current) = change.model().clusters.get(&id) else { return };
    let known = current.settings.get("ip_collisions").and_then(Value::as_str);
    if current.cluster.connectivity_majority_groups == groups && known == Some(collisions.as_str()) {
        return;
    }
    let mut record = ClusterRecord::clone(current);
    record.cluster.connectivity_majority_groups = groups;
    record.settings.insert("ip_collisions".to_owned(), Value::from(collisions));
    change.put_cluster(record);
}
