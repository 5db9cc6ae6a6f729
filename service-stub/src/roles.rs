//! Roles the service would give, and who bootstraps the control plane (docs/compatibility.md#roles).

use crate::check::host as host_check;
use crate::check::requirements::{Requirements, RoleNeeds};
use crate::events::{self, kinds};
use crate::model::{ClusterRecord, HostRecord};
use crate::operators::{self, Machine, Roles, Situation};
use crate::state::HostState;
use crate::store::Change;
use api::{ClusterId, HostRole, Inventory};
use kernel::order;
use serde_json::{Value, json};
use std::sync::Arc;

/// A host that does not do for one of these operators is not made a master.
const MASTERS_OPERATORS: [&str; 4] = ["lso", "odf", "cnv", "lvm"];

/// Suggests a role for every host of the cluster without one, once all hosts have sent their inventory.
pub(crate) fn suggest(requirements: &Requirements, change: &mut Change, cluster: &ClusterRecord) {
    let hosts = change.model().hosts_of_cluster(cluster.cluster.id);
    for (record, role) in hosts.iter().zip(plan(requirements, cluster, &hosts)) {
        if record.host.suggested_role != role {
            let mut record = HostRecord::clone(record);
            record.host.suggested_role = role;
            if record.host.role == HostRole::AutoAssign && role != HostRole::AutoAssign {
                events::host(change, &record, kinds::HOST_ROLE_UPDATED, json!({"suggested_role": role}));
            }
            change.put_host(record);
        }
    }
}

/// The roles in the hosts' order. Earlier suggestions hold until a host without one arrives: then all are chosen anew, once every
/// host has sent its inventory.
fn plan(requirements: &Requirements, cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Vec<HostRole> {
    let mut roles: Vec<HostRole> = hosts.iter().map(|record| record.effective_role()).collect();
    let is_new = |record: &Arc<HostRecord>| {
        record.effective_role() == HostRole::AutoAssign && record.state != HostState::Disconnected
    };
    if !cluster.day2() && hosts.iter().any(is_new) {
        roles = hosts.iter().map(|record| record.host.role).collect();
    }
    let inventories: Vec<&Inventory> = hosts.iter().filter_map(|record| record.facts().inventory.as_ref()).collect();
    if inventories.len() < hosts.len() {
        // Too early to decide.
        return roles;
    }
    let weights: Vec<(bool, f64)> = inventories.iter().map(|inventory| weight(inventory)).collect();
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    order::sort_by(&mut order, |a, b| weights[*a].0.cmp(&weights[*b].0).then(weights[*a].1.total_cmp(&weights[*b].1)));
    let (version, single_node) = (cluster.cluster.openshift_version.as_str(), cluster.single_node());
    let wanted = usize::try_from(cluster.cluster.control_plane_count).unwrap_or(usize::MAX);
    for index in order {
        if hosts[index].host.role != HostRole::AutoAssign {
            continue;
        }
        let others = |role| roles.iter().enumerate().filter(|(other, own)| *other != index && **own == role).count();
        let fits = |role| {
            // With this host in that role.
            let given = hosts.iter().zip(&roles).enumerate().map(|(other, (host, effective))| {
                if other == index { (role, role) } else { (host.host.role, *effective) }
            });
            let situation = Situation { cluster, roles: Roles::count(given) };
            let machine = Machine::of(&hosts[index]).in_role(role);
            let operators = operators::total(&situation, &machine);
            let needs = requirements.role_needs(version, role, single_node).with(operators);
            enough(inventories[index], needs)
                && (role != HostRole::Master || host_check::fits(&MASTERS_OPERATORS, &situation, &machine))
        };
        roles[index] = if cluster.day2() {
            HostRole::Worker
        } else if others(HostRole::Master) < wanted && fits(HostRole::Master) {
            HostRole::Master
        } else if wanted == 2 && others(HostRole::Arbiter) == 0 && fits(HostRole::Arbiter) {
            HostRole::Arbiter
        } else {
            HostRole::Worker
        };
    }
    roles
}

/// Processors and memory for a role.
fn enough(inventory: &Inventory, needs: RoleNeeds) -> bool {
    let cpus = inventory.cpu.as_ref().map_or(0, |cpu| cpu.count);
    let memory = inventory.memory.clone().unwrap_or_default();
    cpus >= needs.cpu_cores && memory.physical_bytes >> 20 >= needs.least_mib(&memory.physical_bytes_method)
}

/// Elects the master that carries the temporary control plane: the earlier choice, else the last that is ready.
pub(crate) fn elect_bootstrap(change: &mut Change, cluster: ClusterId) {
    let hosts = change.model().hosts_of_cluster(cluster);
    let ready = |host: &&Arc<HostRecord>| {
        host.host.role == HostRole::Master
            && matches!(host.state, HostState::Known | HostState::PreparingForInstallation)
    };
    let elected = hosts.iter().filter(ready).find(|host| host.host.bootstrap).or(hosts.iter().rfind(ready));
    let Some(elected) = elected.map(|host| host.key()) else { return };
    for host in hosts.iter().filter(|host| host.host.bootstrap != (host.key() == elected)) {
        let mut record = HostRecord::clone(host);
        record.host.bootstrap = !record.host.bootstrap;
        if record.host.bootstrap {
            events::host(change, &record, kinds::HOST_BOOTSTRAP_SET, Value::Null);
        }
        change.put_host(record);
    }
}

/// Hosts with accelerators last, then the weakest first.
// Sizes are below 2^53 on any machine there is; beyond it the weight rounds.
#[allow(clippy::cast_precision_loss)]
fn weight(inventory: &Inventory) -> (bool, f64) {
    const GIB: f64 = 1_073_741_824.0;
    let cpus = inventory.cpu.as_ref().map_or(0, |cpu| cpu.count) as f64;
    let memory = inventory.memory.as_ref().map_or(0, |memory| memory.usable_bytes) as f64 / GIB;
    let eligible = inventory.disks.iter().filter(|disk| disk.installation_eligibility.eligible);
    let disks = eligible.fold(0_u64, |sum, disk| sum.saturating_add(disk.size_bytes)) as f64 / GIB;
    (!inventory.gpus.is_empty(), (cpus - 4.0) + 0.1 * (memory - 16.0) + 0.004 * (disks - 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use crate::state::ClusterState;
    use api::{Cluster, HostId, InfraEnvId, Secret, Timestamp};

    fn host(id: u128, cpus: u64, gib: u64, gpu: bool) -> Arc<HostRecord> {
        let key = HostKey { infra_env: InfraEnvId::default(), host: HostId(uuid::Uuid::from_u128(id)) };
        let mut record = HostRecord::new(key, None, Timestamp::ZERO);
        let gpus = if gpu { vec![json!({"address": "0000:01:00.0"})] } else { Vec::new() };
        let bytes = gib << 30;
        let inventory =
            json!({"cpu": {"count": cpus}, "memory": {"physical_bytes": bytes, "usable_bytes": bytes}, "gpus": gpus});
        record.set_inventory(inventory.to_string());
        Arc::new(record)
    }

    fn cluster(masters: u32) -> ClusterRecord {
        let cluster = Cluster { control_plane_count: masters, ..Cluster::default() };
        ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::default())
    }

    #[test]
    fn the_weakest_that_fit_become_masters_and_accelerators_stay_workers() {
        use HostRole::{Master, Worker};
        let hosts = [
            host(1, 32, 128, true),
            host(2, 2, 8, false),
            host(3, 8, 32, false),
            host(4, 4, 16, false),
            host(5, 16, 64, false),
        ];
        let plan = |masters| plan(&Requirements::default(), &cluster(masters), &hosts);
        assert_eq!(plan(3), [Worker, Worker, Master, Master, Master]);
        assert_eq!(plan(4), [Master, Worker, Master, Master, Master], "the accelerator last");
    }

    #[test]
    fn two_masters_get_an_arbiter_and_a_late_host_has_all_chosen_anew() {
        use HostRole::{Arbiter, Master, Worker};
        let mut hosts = vec![host(1, 8, 32, false), host(2, 8, 32, false), host(3, 16, 64, false)];
        let plan_of = |hosts: &[Arc<HostRecord>]| plan(&Requirements::default(), &cluster(2), hosts);
        assert_eq!(plan_of(&hosts), [Master, Master, Arbiter]);
        for (record, role) in hosts.iter_mut().zip([Master, Master, Arbiter]) {
            let mut known = HostRecord::clone(record);
            known.host.suggested_role = role;
            *record = Arc::new(known);
        }
        hosts.push(host(4, 4, 16, false));
        assert_eq!(plan_of(&hosts), [Master, Arbiter, Worker, Master], "the last is the first choice");
        let mut silent = HostRecord::clone(&hosts[3]);
        silent.set_inventory(String::new());
        hosts[3] = Arc::new(silent);
        assert_eq!(plan_of(&hosts), [HostRole::AutoAssign; 4], "nothing is known of it yet");
        let mut gone = HostRecord::clone(&hosts[3]);
        gone.state = HostState::Disconnected;
        hosts[3] = Arc::new(gone);
        assert_eq!(plan_of(&hosts), [Master, Master, Arbiter, HostRole::AutoAssign], "it may never come back");
        hosts[3] = host(4, 4, 16, false);
        let mut day2 = cluster(2);
        day2.cluster.kind = crate::model::DAY2_CLUSTER.into();
        assert_eq!(plan(&Requirements::default(), &day2, &hosts), [Worker; 4]);
    }

    #[test]
    fn disks_of_any_size_have_a_weight() {
        let disk = json!({"size_bytes": u64::MAX, "installation_eligibility": {"eligible": true}});
        let inventory: Inventory = serde_json::from_value(json!({"disks": [disk.clone(), disk]})).unwrap();
        assert!(weight(&inventory).1.is_finite());
    }

    #[test]
    fn nothing_is_decided_before_all_inventories_are_there() {
        let mut silent = HostRecord::clone(&host(9, 8, 32, false));
        silent.set_inventory(String::new());
        let hosts = [host(1, 8, 32, false), Arc::new(silent)];
        assert_eq!(plan(&Requirements::default(), &cluster(1), &hosts), [HostRole::AutoAssign; 2]);
    }
}
