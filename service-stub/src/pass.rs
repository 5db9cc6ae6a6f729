//! The pass that brings hosts and clusters to the states their facts call for: after a write, and every few seconds.

use crate::check::{self, Waived, connectivity, disks, host as host_check, requirements::Requirements, turned::turned};
use crate::dhcp_vips;
use crate::effects;
use crate::events;
use crate::instructions::{disk_to_measure, images_to_try, options::StepOptions};
use crate::machine_networks;
use crate::manifest_files;
use crate::model::{ClusterRecord, HostKey, HostRecord, IgnoredValidations};
use crate::rendezvous;
use crate::roles;
use crate::state::{
    ClusterState, HostChecks, HostState, Outcome, cluster as cluster_state, cluster::FinalizingStage,
    host as host_state, limits, progress, table::Refused,
};
use crate::store::{Change, Presences};
use api::{ClusterId, ClusterProgressInfo, HostId, HostRole, HostStage, StageList, StepType, Timestamp};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Notify;

/// States settle in a few rounds (known, preparing, prepared, installing); more would be a circle in the rules.
const MAX_ROUNDS: usize = 8;
/// With more hosts a write leaves this to the pass that follows it, so that what many hosts say at once is judged once.
const AT_ONCE_MAX_HOSTS: usize = 8;

/// What is decided by, besides the records.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// What hardware is needed.
    pub requirements: &'a Requirements,
    /// Which steps hosts are given.
    pub steps: &'a StepOptions,
    /// Checks that are switched off, unless a cluster has a list of its own.
    pub disabled_validations: &'a IgnoredValidations,
    /// Clusters have a control plane.
    pub with_control_plane: bool,
    /// A cluster is not installed before its controller has reported operators and ingress.
    pub await_controller: bool,
    /// The host that the service runs on and that is installed last.
    pub own_host: Option<HostId>,
    /// When the service started: silence before that is not the hosts' fault.
    pub started: Timestamp,
    /// When hosts were last heard of.
    pub presences: &'a Presences,
    /// Where manifests lie.
    pub state_directory: &'a Path,
    /// Where clusters go that are too large to be judged within every request.
    pub unsettled: &'a Unsettled,
}

/// Clusters, and hosts without one, that changed and are too large to be judged within every request.
#[derive(Default)]
pub struct Unsettled {
    clusters: Mutex<BTreeSet<Option<ClusterId>>>,
    noted: Notify,
}

impl Unsettled {
    /// Notes a cluster, or with none the hosts without a cluster.
    pub fn note(&self, id: Option<ClusterId>) {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        self.noted.notify_one();
    }

    /// Waits until something is noted.
    pub async fn noted(&self) {
        self.noted.notified().await;
    }

    /// Takes what is noted.
    pub fn take(&self) -> BTreeSet<Option<ClusterId>> {
        std::mem::take(&mut self.clusters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Brings the cluster of a host, or the hosts without one, to rest: at once, or as soon as the service comes to it.
pub fn settle_soon(rules: &Rules, change: &mut Change, id: Option<ClusterId>) {
    let hosts = change.model().hosts.values().filter(|record| record.host.cluster_id == id);
    if hosts.take(AT_ONCE_MAX_HOSTS + 1).count() > AT_ONCE_MAX_HOSTS {
        return rules.unsettled.note(id);
    }
    match id {
        Some(id) => settle_cluster(rules, change, id),
        None => settle_unbound(rules, change),
    }
}

/// Brings a cluster and its hosts to rest.
pub fn settle_cluster(rules: &Rules, change: &mut Change, id: ClusterId) {
    for _ in 0..MAX_ROUNDS {
        let Some(cluster) = change.model().clusters.get(&id).cloned() else { return };
        let hosts_moved = settle_hosts(rules, change, &cluster);
        let cluster_moved = settle_one_cluster(rules, change, &cluster);
        if !hosts_moved && !cluster_moved {
            return;
        }
    }
    tracing::error!(cluster = %id, "the states of the cluster and its hosts do not come to rest");
}

/// Brings hosts without a cluster to rest.
pub fn settle_unbound(rules: &Rules, change: &mut Change) {
    let hosts = change.model().hosts.values();
    let unbound: Vec<_> = hosts.filter(|record| record.host.cluster_id.is_none()).cloned().collect();
    let shared = host_check::Shared::default();
    for record in unbound {
        settle_host(rules, change, &record, None, &shared, false);
    }
}

fn settle_hosts(rules: &Rules, change: &mut Change, cluster: &ClusterRecord) -> bool {
    let id = cluster.cluster.id;
    let checking = change.model().hosts_of_cluster(id).iter().any(|record| record.state.checked());
    if checking && cluster.state.accepts_hosts() {
        roles::suggest(rules.requirements, change, cluster);
    }
    let hosts = change.model().hosts_of_cluster(id);
    // They are published of every cluster that is not installed yet, without hosts too.
    let published = checking || cluster.state.checked();
    let shared = if published { share(rules, cluster, &hosts) } else { host_check::Shared::default() };
    if published {
        store_groups(change, id, &shared);
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
        moved |= settle_host(rules, change, record, Some(cluster), &shared, dispensable);
    }
    moved
}

fn settle_host(
    rules: &Rules,
    change: &mut Change,
    record: &HostRecord,
    cluster: Option<&ClusterRecord>,
    shared: &host_check::Shared,
    dispensable: bool,
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
            now: change.now,
            started: rules.started,
        };
        host_check::run(&context, waived(rules, cluster, |ignored| &ignored.host))
    });
    let mut facts = host_facts(change, &record, cluster, rules.started);
    facts.dispensable = dispensable;
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

/// What a host was asked to measure or to try and has not answered yet is neither good nor bad.
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

/// Puts findings into the record, with events of those that turned. Says whether anything did.
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

/// What a host's transitions depend on, but for its checks and its peers.
pub fn host_facts(
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
        disk: disk_name(record),
        ..host_state::Facts::default()
    }
}

/// Pulls a trigger on a host that is being changed; the caller stores it.
pub fn trigger(
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
pub fn new_host(
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
    // Of a single node nobody else could (service contract §1.2.1).
    let alone = cluster.is_some_and(ClusterRecord::single_node);
    record.host.bootstrap = alone && rules.with_control_plane;
    Ok(record)
}

/// Time limits do not run while the service is down: nobody could have reported.
fn since(now: Timestamp, then: Timestamp, started: Timestamp) -> i64 {
    now.seconds_since(then.max(started))
}

/// Applies a step to a record; the caller stores it. Says whether anything changed.
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
    tracing::info!(%host, name, %from, %to, row, why = record.host.status_info, "a host changed its state");
    events::host_state(change, record, from);
    true
}

/// Pulls a trigger on a cluster that is being changed, and on its hosts where the table says so; the caller stores it.
pub fn trigger_cluster(
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
                // A host that is not being installed has nothing to cancel.
                Err(_) if *on == host_state::Trigger::Cancel => {}
                Err(_) => return Err(ClusterRefused::Host(host.host.id, host.state)),
            }
        }
    }
    enter_cluster(change, record, step);
    Ok(())
}

/// Why a cluster does not do what a user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterRefused {
    /// Its state.
    #[error("its status is {0}")]
    State(ClusterState),
    /// One of its hosts.
    #[error("host {0} is in status {1}: let it connect, or delete it")]
    Host(HostId, HostState),
}

/// Applies a step to a cluster record; the caller stores it. Says whether anything changed but by effects.
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
        tracing::info!(%cluster, name, %from, %to, row, why = record.cluster.status_info, "a cluster changed its state");
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
        let networks = machine_networks::of(&record, &hosts);
        dhcp_vips::keep_time(change, &mut record, &networks, rules.started);
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
    let told = hosts
        .iter()
        .filter(|host| !matches!(host.state, S::Disconnected | S::Discovering | S::ResettingPendingUserAction));
    let clocks: Vec<i64> = told.map(|host| rules.presences.get(host.key()).clock).filter(|clock| *clock != 0).collect();
    let manifests = manifest_files::list(rules.state_directory, record.cluster.id);
    let context = check::cluster::Context {
        record,
        hosts,
        machine_networks: &machine_networks::of(record, hosts),
        clocks: &clocks,
        has_manifests: manifests.is_ok_and(|list| !list.is_empty()),
        with_control_plane: rules.with_control_plane,
    };
    check::cluster::run(&context, waived(rules, Some(record), |ignored| &ignored.cluster))
}

/// Checks that hold nothing back: those a cluster's own list ignores, else those the service's switches off.
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

/// What a cluster's transitions depend on, but for its checks.
fn cluster_facts(rules: &Rules, change: &Change, record: &ClusterRecord) -> cluster_state::Facts {
    let (cluster, course) = (&record.cluster, &record.course);
    let hosts = change.model().hosts_of_cluster(cluster.id);
    let age = |then| since(change.now, then, rules.started);
    let progress = cluster.progress.clone().unwrap_or_default();
    let logs_info = record.kept.get("logs_info").and_then(Value::as_str).unwrap_or_default();
    let logs_moved = cluster.controller_logs_started_at.max(cluster.controller_logs_collected_at);
    let awaited = rules.await_controller || course.reported();
    cluster_state::Facts {
        in_state: age(cluster.status_updated_at),
        in_install: age(cluster.install_started_at),
        dhcp_vips: cluster.vip_dhcp_allocation,
        day1: !record.day2(),
        soft_timeouts: course.soft_timeouts,
        single_node: record.single_node(),
        hosts: hosts.iter().map(|host| (host.state, host.effective_role())).collect(),
        control_plane_count: masters(record),
        preparation: course.preparation,
        finalizing_stage: course.finalizing_stage,
        in_finalizing_stage: age(progress.finalizing_stage_started_at),
        olm_timeout: course.olm_timeout(),
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

fn masters(cluster: &ClusterRecord) -> usize {
    usize::try_from(cluster.cluster.control_plane_count).unwrap_or(usize::MAX)
}

/// The stages a host passes. One that is added to a cluster is on its own from the reboot on.
pub fn stages(record: &HostRecord, cluster: Option<&ClusterRecord>) -> &'static [HostStage] {
    let single_node = cluster.is_some_and(ClusterRecord::single_node);
    let all = StageList::of(record.effective_role(), record.host.bootstrap, single_node).stages();
    let reboot = all.iter().position(|stage| record.day2() && *stage == HostStage::Rebooting);
    reboot.and_then(|reboot| all.get(..=reboot)).unwrap_or(all)
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
    let hosts = hosts.iter().map(|host| (host.stage(), stages(host, Some(record))));
    let installed = record.state == ClusterState::Installed;
    info.preparing_for_installation_stage_percentage = 100;
    info.installing_stage_percentage = progress::installing_percent(hosts);
    info.finalizing_stage_percentage = if installed { 100 } else { record.course.operators_percent() };
    info.finalizing_stage = record.course.finalizing_stage.map_or("", FinalizingStage::as_str).to_owned();
    info.total_percentage = if installed { 100 } else { progress::total_percent(&info) };
    info
}

fn share(rules: &Rules, cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> host_check::Shared {
    let mut names = BTreeMap::new();
    for name in hosts.iter().filter_map(|record| record.hostname()) {
        *names.entry(name.to_owned()).or_default() += 1;
    }
    let machine_networks = machine_networks::of(cluster, hosts);
    let named = hosts.iter().filter_map(|record| Some((record, record.hostname()?.to_owned())));
    let peers = named.map(|(record, name)| (record.host.id, (record.effective_role(), name))).collect();
    // A control plane has three nodes that vote, be one an arbiter; without one two hosts may be all there are.
    let with_control_plane = rules.with_control_plane;
    let group_minimum = if !with_control_plane && cluster.cluster.control_plane_count == 2 { 2 } else { 3 };
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
        with_control_plane,
        collisions,
    }
}

/// What the hosts see of each other, as it is published.
fn store_groups(change: &mut Change, id: ClusterId, shared: &host_check::Shared) {
    let (Ok(groups), Ok(collisions)) =
        (serde_json::to_string(&shared.groups), serde_json::to_string(&shared.collisions))
    else {
        return;
    };
    let Some(current) = change.model().clusters.get(&id) else { return };
    let known = current.kept.get("ip_collisions").and_then(Value::as_str);
    if current.cluster.connectivity_majority_groups == groups && known == Some(collisions.as_str()) {
        return;
    }
    let mut record = ClusterRecord::clone(current);
    record.cluster.connectivity_majority_groups = groups;
    record.kept.insert("ip_collisions".to_owned(), Value::from(collisions));
    change.put_cluster(record);
}

/// A host's installation disk for people.
pub fn disk_name(record: &HostRecord) -> String {
    let chosen = &record.host.installation_disk_path;
    let inventory = record.facts().inventory.as_ref();
    let disk = inventory.and_then(|inventory| inventory.disks.iter().find(|disk| disks::node(disk) == *chosen));
    match disk {
        Some(disk) => {
            format!("{} (model '{}', serial '{}', id {})", disks::node(disk), disk.model, disk.serial, disk.id)
        }
        None if chosen.is_empty() => "(none chosen)".to_owned(),
        None => chosen.clone(),
    }
}
