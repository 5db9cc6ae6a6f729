//! Checks of a host.

use super::{
    Finding, Status, Verdict,
    connectivity::MajorityGroups,
    disks,
    requirements::{Requirements, RoleNeeds},
    to_json, verdict,
};
use crate::model::{ClusterRecord, HostRecord, Presence};
use crate::net::Cidr;
use crate::state::{HostChecks, InventoryState, limits};
use api::{HostStage, Inventory, Timestamp};
use std::collections::BTreeMap;

/// Memory may fall short by this much: firmware keeps some.
const MEMORY_TOLERANCE_MIB: u64 = 100;
/// The service's clock may be ahead of the host's by this much, seconds.
const SERVICE_AHEAD: i64 = 20 * 60;
/// The host's clock may be ahead of the service's by this much, seconds.
const HOST_AHEAD: i64 = 60 * 60;

/// What the hosts of one cluster share.
#[derive(Debug, Default)]
pub struct Shared {
    /// How many hosts have each name.
    pub names: BTreeMap<String, usize>,
    /// Who reaches whom.
    pub groups: MajorityGroups,
    /// Networks the cluster's machines are to be in.
    pub machine_networks: Vec<Cidr>,
    /// Hosts that make a majority group.
    pub group_minimum: usize,
    /// Hosts in the cluster.
    pub hosts: usize,
}

/// Everything a check may look at.
pub struct Context<'a> {
    /// The host.
    pub record: &'a HostRecord,
    /// When it was last heard of.
    pub presence: Presence,
    /// Its cluster.
    pub cluster: Option<&'a ClusterRecord>,
    /// Its peers.
    pub shared: &'a Shared,
    /// The table of needs.
    pub requirements: &'a Requirements,
    /// Now.
    pub now: Timestamp,
    /// Start of the service: nobody could be heard of before.
    pub started: Timestamp,
}

/// What a failing check keeps a host from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Being heard of at all.
    Presence,
    /// Being of any use.
    Hardware,
    /// Being installed in its role.
    Role,
    /// Being discovered: without an inventory the other checks have nothing to say.
    Inventory,
}

struct Check {
    id: &'static str,
    category: &'static str,
    gate: Gate,
    /// Also for a host without a cluster.
    unbound: bool,
    run: fn(&Context) -> Verdict,
}

const NETWORK: &str = "network";
const HARDWARE: &str = "hardware";

#[rustfmt::skip]
const CHECKS: &[Check] = &[
    Check { id: "has-inventory", category: HARDWARE, gate: Gate::Inventory, unbound: true, run: has_inventory },
    Check { id: "has-min-cpu-cores", category: HARDWARE, gate: Gate::Hardware, unbound: true, run: has_min_cpu_cores },
    Check { id: "has-min-memory", category: HARDWARE, gate: Gate::Hardware, unbound: true, run: has_min_memory },
    Check { id: "has-min-valid-disks", category: HARDWARE, gate: Gate::Hardware, unbound: true, run: has_min_valid_disks },
    Check { id: "has-cpu-cores-for-role", category: HARDWARE, gate: Gate::Role, unbound: false, run: has_cpu_cores_for_role },
    Check { id: "has-memory-for-role", category: HARDWARE, gate: Gate::Role, unbound: false, run: has_memory_for_role },
    Check { id: "hostname-unique", category: HARDWARE, gate: Gate::Role, unbound: false, run: hostname_unique },
    Check { id: "hostname-valid", category: HARDWARE, gate: Gate::Role, unbound: true, run: hostname_valid },
    Check { id: "connected", category: NETWORK, gate: Gate::Presence, unbound: true, run: connected_check },
    Check { id: "belongs-to-majority-group", category: NETWORK, gate: Gate::Role, unbound: false, run: belongs_to_majority_group },
    Check { id: "time-synced-between-host-and-service", category: NETWORK, gate: Gate::Role, unbound: true, run: time_synced },
    Check { id: "has-default-route", category: NETWORK, gate: Gate::Role, unbound: false, run: has_default_route },
];

/// All findings about one host.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    all: Vec<(&'static str, Gate, Finding)>,
}

impl Findings {
    /// The published JSON text.
    pub fn to_json(&self) -> String {
        to_json(self.all.iter().map(|(category, _, finding)| (*category, finding)))
    }

    /// What the host's state depends on.
    pub fn for_state(&self) -> HostChecks {
        let missing = self.all.iter().any(|(_, gate, finding)| *gate == Gate::Inventory && !finding.passes());
        HostChecks {
            connected: self.failures(Gate::Presence).is_empty(),
            media_connected: true,
            inventory: if missing { InventoryState::Missing } else { InventoryState::Usable },
            min_hardware: self.failures(Gate::Hardware),
            sufficient: self.failures(Gate::Role),
            unbound: [self.failures(Gate::Hardware), self.failures(Gate::Role)].concat(),
            ..HostChecks::default()
        }
    }

    fn failures(&self, gate: Gate) -> Vec<String> {
        let failing = self.all.iter().filter(|(_, own, finding)| *own == gate && !finding.passes());
        failing.map(|(_, _, finding)| finding.message.clone()).collect()
    }
}

/// Runs every check that applies.
pub fn run(context: &Context) -> Findings {
    let applies = |check: &&Check| check.unbound || context.cluster.is_some();
    let run = |check: &Check| {
        let (status, message) = (check.run)(context);
        (check.category, check.gate, Finding { id: check.id, status, message })
    };
    Findings { all: CHECKS.iter().filter(applies).map(run).collect() }
}

/// Heard of lately. From the reboot on nobody polls, so nothing is expected. A service that was down counts from its start.
pub fn connected(record: &HostRecord, presence: Presence, now: Timestamp, started: Timestamp) -> bool {
    let rebooted = matches!(
        record.stage(),
        Some(
            HostStage::Rebooting
                | HostStage::WaitingForIgnition
                | HostStage::Configuring
                | HostStage::Joined
                | HostStage::Done
        )
    );
    let limit = match record.host.bootstrap {
        true => limits::BOOTSTRAP_DISCONNECTED_AFTER,
        false => limits::DISCONNECTED_AFTER,
    };
    rebooted || now.seconds_since(presence.checked_in_at.max(started)) < limit
}

fn inventory<'a>(context: &Context<'a>) -> Option<&'a Inventory> {
    context.record.facts().inventory.as_ref()
}

fn version<'a>(context: &Context<'a>) -> &'a str {
    context.cluster.map_or("", |record| &record.cluster.openshift_version)
}

fn no_inventory() -> Verdict {
    (Status::Pending, "The host has not sent its inventory yet".to_owned())
}

fn has_inventory(context: &Context) -> Verdict {
    verdict(inventory(context).is_some(), "Valid inventory exists for the host", || {
        "The host has not sent its inventory yet".to_owned()
    })
}

fn enough_cpus(context: &Context, needs: RoleNeeds, success: String, what: &str) -> Verdict {
    let Some(inventory) = inventory(context) else { return no_inventory() };
    let found = inventory.cpu.as_ref().map_or(0, |cpu| cpu.count);
    verdict(found >= needs.cpu_cores, success, || {
        format!("{what} needs {} CPU cores, the host has {found}", needs.cpu_cores)
    })
}

fn enough_memory(context: &Context, needs: RoleNeeds, success: String, what: &str) -> Verdict {
    let Some(inventory) = inventory(context) else { return no_inventory() };
    let memory = inventory.memory.clone().unwrap_or_default();
    let found = memory.physical_bytes >> 20;
    let tolerance = match memory.physical_bytes_method.as_str() {
        "meminfo" => MEMORY_TOLERANCE_MIB.saturating_add(needs.ram_mib / 50),
        _ => MEMORY_TOLERANCE_MIB,
    };
    verdict(found >= needs.ram_mib.saturating_sub(tolerance), success, || {
        format!("{what} needs {} MiB of memory, the host has {found} MiB", needs.ram_mib)
    })
}

fn has_min_cpu_cores(context: &Context) -> Verdict {
    let needs = context.requirements.least(version(context));
    enough_cpus(context, needs, "Sufficient CPU cores".into(), "Any role")
}

fn has_min_memory(context: &Context) -> Verdict {
    let needs = context.requirements.least(version(context));
    enough_memory(context, needs, "Sufficient minimum RAM".into(), "Any role")
}

fn has_min_valid_disks(context: &Context) -> Verdict {
    let Some(inventory) = inventory(context) else { return no_inventory() };
    verdict(
        inventory.disks.iter().any(|disk| disk.installation_eligibility.eligible),
        "Sufficient disk capacity",
        || {
            let reasons = inventory.disks.iter().map(|disk| {
                let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
                format!("{}: {}", disk.name, reasons.join(", "))
            });
            let list = reasons.collect::<Vec<_>>().join("; ");
            format!("No disk can be installed to ({})", if list.is_empty() { "the host has none" } else { &list })
        },
    )
}

fn role_needs(context: &Context) -> RoleNeeds {
    let single_node = context.cluster.is_some_and(ClusterRecord::single_node);
    context.requirements.of(version(context), context.record.effective_role(), single_node)
}

fn has_cpu_cores_for_role(context: &Context) -> Verdict {
    let role = context.record.effective_role();
    enough_cpus(context, role_needs(context), format!("Sufficient CPU cores for role {role}"), &format!("Role {role}"))
}

fn has_memory_for_role(context: &Context) -> Verdict {
    let role = context.record.effective_role();
    enough_memory(context, role_needs(context), format!("Sufficient RAM for role {role}"), &format!("Role {role}"))
}

fn hostname_unique(context: &Context) -> Verdict {
    let Some(name) = context.record.hostname() else { return no_inventory() };
    let others = context.shared.names.get(name).map_or(0, |count| count.saturating_sub(1));
    verdict(others == 0, format!("Hostname {name} is unique in cluster"), || {
        format!("Hostname {name} is also that of {others} other host(s) of the cluster: give the host another name")
    })
}

/// A host's name: DNS labels, at most 63 characters, and not a name of the loopback.
pub fn valid_hostname(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 63
        && name.split('.').all(label)
        && !name.starts_with('-')
        && !api::FORBIDDEN_HOSTNAMES.contains(&name)
}

fn hostname_valid(context: &Context) -> Verdict {
    let Some(name) = context.record.hostname() else { return no_inventory() };
    verdict(valid_hostname(name), format!("Hostname {name} is allowed"), || {
        format!(
            "Hostname {name} is not allowed: use lower-case letters, digits, hyphens and dots, at most 63, not localhost"
        )
    })
}

fn connected_check(context: &Context) -> Verdict {
    verdict(connected(context.record, context.presence, context.now, context.started), "Host is connected", || {
        "Host is disconnected".to_owned()
    })
}

fn belongs_to_majority_group(context: &Context) -> Verdict {
    const SUCCESS: &str = "Host has connectivity to the majority of hosts in the cluster";
    let Some(cluster) = context.cluster else { return (Status::Success, SUCCESS.into()) };
    // One that is added joins hosts that are not asked any more.
    if cluster.single_node() || cluster.day2() {
        return (Status::Success, SUCCESS.into());
    }
    let Shared { groups, machine_networks, group_minimum, hosts, .. } = context.shared;
    let id = context.record.host.id;
    let member = if cluster.cluster.user_managed_networking || machine_networks.is_empty() {
        let families = families(cluster, context);
        let reached = groups.l3_connected_addresses.get(&id).map(Vec::as_slice).unwrap_or_default();
        families.iter().all(|v6| reached.iter().any(|address| address.contains(':') == *v6))
    } else {
        let in_group = |cidr: &Cidr| {
            groups.majority_groups.get(&cidr.network().to_string()).is_some_and(|group| group.contains(&id))
        };
        machine_networks.iter().all(in_group)
    };
    if !member && hosts < group_minimum {
        let message = format!("Connectivity is known once the cluster has {group_minimum} hosts; it has {hosts}");
        return (Status::Pending, message);
    }
    verdict(member, SUCCESS, || {
        "Host does not reach the majority of hosts of the cluster, or they don't reach it".to_owned()
    })
}

/// The address families the cluster needs: `true` for IPv6.
fn families(cluster: &ClusterRecord, context: &Context) -> Vec<bool> {
    let cluster = &cluster.cluster;
    let written = (cluster.cluster_networks.iter().map(|network| network.cidr.as_str()))
        .chain(cluster.service_networks.iter().map(|network| network.cidr.as_str()));
    let mut families: Vec<bool> = written.map(|cidr| cidr.contains(':')).collect();
    families.extend(context.shared.machine_networks.iter().map(|cidr| cidr.address.is_ipv6()));
    families.sort_unstable();
    families.dedup();
    families
}

fn time_synced(context: &Context) -> Verdict {
    if context.presence.clock == 0 {
        return (Status::Pending, "The host has not told its time yet".to_owned());
    }
    let service_ahead = context.presence.checked_in_at.unix_seconds().saturating_sub(context.presence.clock);
    verdict((-HOST_AHEAD..=SERVICE_AHEAD).contains(&service_ahead), "Host clock is synchronized with service", || {
        let (by, word) = if service_ahead > 0 { (service_ahead, "behind") } else { (-service_ahead, "ahead of") };
        format!("The host's clock is {by} s {word} the service's: set both by NTP")
    })
}

fn has_default_route(context: &Context) -> Verdict {
    let Some(inventory) = inventory(context) else { return no_inventory() };
    let found = inventory.routes.iter().any(|route| disks::is_default(&route.destination) && !route.gateway.is_empty());
    verdict(found, "Host has been configured with at least one default route.", || {
        "Host has no default route with a gateway".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use api::{HostId, InfraEnvId};

    const NOW: i64 = 1_800_000_000;

    fn record(inventory: serde_json::Value) -> HostRecord {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let mut record = HostRecord::new(key, None, Timestamp::from_unix_seconds(NOW));
        record.set_inventory(inventory.to_string());
        record
    }

    fn findings(record: &HostRecord, presence: Presence, shared: &Shared) -> BTreeMap<&'static str, Status> {
        let context = Context {
            record,
            presence,
            cluster: None,
            shared,
            requirements: &Requirements::default(),
            now: Timestamp::from_unix_seconds(NOW),
            started: Timestamp::from_unix_seconds(0),
        };
        run(&context).all.into_iter().map(|(_, _, finding)| (finding.id, finding.status)).collect()
    }

    fn heard(seconds_ago: i64, clock_off: i64) -> Presence {
        Presence {
            checked_in_at: Timestamp::from_unix_seconds(NOW - seconds_ago),
            clock: NOW - seconds_ago + clock_off,
        }
    }

    #[test]
    fn thresholds_are_where_they_are_said_to_be() {
        let shared = Shared::default();
        let with = |cpus: u64, mib: u64, method: &str| {
            let inventory = serde_json::json!({
                "hostname": "a", "cpu": {"count": cpus},
                "memory": {"physical_bytes": mib << 20, "physical_bytes_method": method},
            });
            findings(&record(inventory), heard(0, 0), &shared)
        };
        use Status::{Failure, Success};
        assert_eq!(with(2, 8192, "ghw")["has-min-cpu-cores"], Success);
        assert_eq!(with(1, 8192, "ghw")["has-min-cpu-cores"], Failure);
        assert_eq!(with(2, 8092, "ghw")["has-min-memory"], Success);
        assert_eq!(with(2, 8091, "ghw")["has-min-memory"], Failure);
        assert_eq!(with(2, 7929, "meminfo")["has-min-memory"], Success);
        assert_eq!(with(2, 7928, "meminfo")["has-min-memory"], Failure);
    }

    #[test]
    fn presence_and_clock() {
        use Status::{Failure, Pending, Success};
        let record = record(serde_json::json!({"hostname": "a"}));
        let check = |presence, id| findings(&record, presence, &Shared::default())[id];
        assert_eq!(check(heard(179, 0), "connected"), Success);
        assert_eq!(check(heard(180, 0), "connected"), Failure);
        assert_eq!(check(heard(0, -1200), "time-synced-between-host-and-service"), Success);
        assert_eq!(check(heard(0, -1201), "time-synced-between-host-and-service"), Failure);
        assert_eq!(check(heard(0, 3600), "time-synced-between-host-and-service"), Success);
        assert_eq!(check(heard(0, 3601), "time-synced-between-host-and-service"), Failure);
        let silent = Presence { clock: 0, ..heard(0, 0) };
        assert_eq!(check(silent, "time-synced-between-host-and-service"), Pending);
        let t = Timestamp::from_unix_seconds;
        assert!(connected(&record, heard(10_000, 0), t(NOW), t(NOW - 10)), "the service itself was down");
        let at = |stage| {
            let mut record = record.clone();
            record.host.progress = Some(api::HostProgressInfo { current_stage: Some(stage), ..Default::default() });
            connected(&record, heard(10_000, 0), t(NOW), t(0))
        };
        assert_eq!([at(HostStage::Rebooting), at(HostStage::Installing)], [true, false]);
        let mut bootstrap = record.clone();
        bootstrap.host.bootstrap = true;
        let heard_of = |seconds| connected(&bootstrap, heard(seconds, 0), t(NOW), t(0));
        assert_eq!([heard_of(299), heard_of(300)], [true, false], "it has more to do");
    }

    #[test]
    fn hostnames() {
        for good in ["a", "sno-0", "node-1.example.com", "52-54-00-aa-bb-01", "0"] {
            assert!(valid_hostname(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", "A", "a_b", "a..b", "a.", "localhost", "localhost.localdomain", &long] {
            assert!(!valid_hostname(bad), "{bad}");
        }
    }

    #[test]
    fn a_host_without_inventory_waits() {
        let mut record = record(serde_json::json!({}));
        record.set_inventory(String::new());
        let found = findings(&record, heard(0, 0), &Shared::default());
        assert_eq!(found["has-inventory"], Status::Failure);
        assert_eq!(found["has-min-cpu-cores"], Status::Pending);
    }
}
