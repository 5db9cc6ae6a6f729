//! Checks of a host (docs/compatibility.md#host-validations): a table of names, what each holds back, and a pure function.

mod attest;
mod context;
mod domains;
mod encryption;
mod hardware;
mod network;
mod operators;
mod peers;
mod planned;
#[cfg(test)]
mod tests;

pub(crate) use context::{Context, Shared};
pub(crate) use hardware::valid_hostname;
pub(crate) use network::connected;
pub(crate) use operators::fits;

use super::{FORMER_CHECK, Finding, OPERATORS_CATEGORY, Status, Verdict, Waived, to_json};
use crate::attest::{record::Policy, verdict::CHECK};
use crate::state::{HostChecks, InventoryState, Outcome};
use api::HostStage;

/// What a failing check blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Counting as connected.
    Presence,
    /// Counting as connected with its root file system.
    Media,
    /// Discovery: without an inventory the other checks do not apply.
    Inventory,
    /// The same, for an inventory truncated to nothing.
    Truncation,
    /// Any use.
    Hardware,
    /// Validation: a network must be set first.
    MachineNetwork,
    /// Use on vSphere.
    VsphereDisk,
    /// Installation in its role.
    Role,
    /// Preparation.
    DiskSpeed,
    Images,
    /// Nothing: it is only shown.
    Nothing,
}

struct Check {
    id: &'static str,
    category: &'static str,
    gate: Gate,
    /// Also for a host without a cluster.
    unbound: bool,
    /// `None` if it does not apply: it passes and is not listed.
    run: fn(&Context) -> Option<Verdict>,
}

/// These can't be ignored: they keep another disk from being erased than the one that was asked for.
const UNWAIVED: [&str; 2] = [CHOSEN_DISK, PLAN];
const CHOSEN_DISK: &str = "chosen-disk-available";
const PLAN: &str = "planned-settings-applied";
const NETWORK: &str = "network";
const HARDWARE: &str = "hardware";

const fn check(id: &'static str, category: &'static str, gate: Gate, run: fn(&Context) -> Option<Verdict>) -> Check {
    Check { id, category, gate, unbound: false, run }
}

const fn always(id: &'static str, category: &'static str, gate: Gate, run: fn(&Context) -> Option<Verdict>) -> Check {
    Check { unbound: true, ..check(id, category, gate, run) }
}

#[rustfmt::skip]
const CHECKS: &[Check] = &[
    always("connected", NETWORK, Gate::Presence, network::connected_check),
    always("media-connected", NETWORK, Gate::Media, network::media_connected),
    always("has-inventory", HARDWARE, Gate::Inventory, hardware::has_inventory),
    always("inventory-not-partially-truncated", HARDWARE, Gate::Nothing, hardware::not_partially_truncated),
    always("inventory-not-fully-truncated", HARDWARE, Gate::Truncation, hardware::not_fully_truncated),
    always("has-min-cpu-cores", HARDWARE, Gate::Hardware, hardware::has_min_cpu_cores),
    always("has-min-memory", HARDWARE, Gate::Hardware, hardware::has_min_memory),
    always("has-min-valid-disks", HARDWARE, Gate::Hardware, hardware::has_min_valid_disks),
    check("has-cpu-cores-for-role", HARDWARE, Gate::Role, hardware::has_cpu_cores_for_role),
    check("has-memory-for-role", HARDWARE, Gate::Role, hardware::has_memory_for_role),
    check("hostname-unique", HARDWARE, Gate::Role, hardware::hostname_unique),
    always("hostname-valid", HARDWARE, Gate::Role, hardware::hostname_valid),
    check("compatible-with-cluster-platform", HARDWARE, Gate::Hardware, hardware::compatible_with_platform),
    always(CHECK, HARDWARE, Gate::Hardware, attest::boot),
    check("disk-encryption-requirements-satisfied", HARDWARE, Gate::Hardware, encryption::requirements),
    always(CHOSEN_DISK, HARDWARE, Gate::Role, planned::has_chosen_disk),
    always(PLAN, HARDWARE, Gate::Role, planned::has_its_part),
    check("vsphere-disk-uuid-enabled", HARDWARE, Gate::VsphereDisk, hardware::vsphere_disk_uuid),
    check("compatible-agent", HARDWARE, Gate::Role, hardware::compatible_agent),
    check("no-skip-installation-disk", HARDWARE, Gate::Role, hardware::no_skip_installation_disk),
    check("no-skip-missing-disk", HARDWARE, Gate::Role, hardware::no_skip_missing_disk),
    check("sufficient-installation-disk-speed", HARDWARE, Gate::DiskSpeed, hardware::disk_speed),
    check("machine-cidr-defined", NETWORK, Gate::MachineNetwork, network::machine_cidr_defined),
    check("belongs-to-machine-cidr", NETWORK, Gate::Role, network::belongs_to_machine_cidr),
    check("ignition-downloadable", NETWORK, Gate::Role, network::ignition_downloadable),
    check("belongs-to-majority-group", NETWORK, Gate::Role, peers::belongs_to_majority_group),
    check("mtu-valid", NETWORK, Gate::Nothing, peers::mtu_valid),
    always("ntp-synced", NETWORK, Gate::Nothing, network::ntp_synced),
    always("time-synced-between-host-and-service", NETWORK, Gate::Role, network::time_synced),
    check("container-images-available", NETWORK, Gate::Images, network::images_available),
    check("sufficient-network-latency-requirement-for-role", NETWORK, Gate::Role, peers::latency),
    check("sufficient-packet-loss-requirement-for-role", NETWORK, Gate::Role, peers::packet_loss),
    check("has-default-route", NETWORK, Gate::Role, network::has_default_route),
    check("api-domain-name-resolved-correctly", NETWORK, Gate::Role, domains::api),
    check("api-int-domain-name-resolved-correctly", NETWORK, Gate::Role, domains::api_int),
    check("apps-domain-name-resolved-correctly", NETWORK, Gate::Role, domains::apps),
    check("dns-wildcard-not-configured", NETWORK, Gate::Role, domains::no_wildcard),
    check("valid-platform-network-settings", NETWORK, Gate::Role, network::platform_network),
    check("non-overlapping-subnets", NETWORK, Gate::Role, network::subnets_apart),
    check("no-ip-collisions-in-network", NETWORK, Gate::Role, peers::no_collisions),
    check("no-iscsi-nic-belongs-to-machine-cidr", NETWORK, Gate::Role, network::iscsi_apart),
];

/// A published check that is not made: it can be ignored.
const RELEASE_NAME_CHECK: &str = "release-domain-name-resolved-correctly";

/// Names of all checks of a host, those of operators included.
pub(crate) fn ids() -> impl Iterator<Item = String> {
    let operators = crate::operators::OPERATORS.iter().map(|operator| operator.check);
    CHECKS
        .iter()
        .map(|check| check.id)
        .filter(|id| !UNWAIVED.contains(id))
        .chain(operators)
        .chain([FORMER_CHECK, RELEASE_NAME_CHECK])
        .map(str::to_owned)
}

/// All findings about one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    all: Vec<(&'static str, Gate, Finding)>,
    waived: Waived,
}

impl Findings {
    /// One by one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.all.iter().map(|(_, _, finding)| finding)
    }

    /// The published JSON text.
    pub(crate) fn to_json(&self) -> String {
        to_json(self.all.iter().map(|(category, _, finding)| (*category, finding)))
    }

    /// What the host's state depends on.
    pub(crate) fn for_state(&self) -> HostChecks {
        let passes = |gate: Gate| self.failures(gate).is_empty();
        let outcome = |gate: Gate| {
            let findings = self.all.iter().filter(|(_, own, _)| *own == gate).map(|(_, _, finding)| finding.status);
            match findings.min_by_key(|status| matches!(status, Status::Success | Status::Disabled)) {
                Some(Status::Failure | Status::Error) if !passes(gate) => Outcome::Failure,
                Some(Status::Pending) => Outcome::Unknown,
                _ => Outcome::Success,
            }
        };
        HostChecks {
            connected: passes(Gate::Presence),
            media_connected: passes(Gate::Media),
            inventory: match (passes(Gate::Inventory), passes(Gate::Truncation)) {
                (false, _) => InventoryState::Missing,
                (_, false) => InventoryState::FullyTruncated,
                _ => InventoryState::Usable,
            },
            min_hardware: self.failures(Gate::Hardware),
            vsphere_disk_uuid: self.failures(Gate::VsphereDisk),
            machine_cidr: self.failures(Gate::MachineNetwork),
            // A disk found too slow stays so until it is measured again.
            sufficient: [self.failures(Gate::Role), self.failures(Gate::DiskSpeed)].concat(),
            disk_speed: outcome(Gate::DiskSpeed),
            images: outcome(Gate::Images),
            preparation: [self.failures(Gate::DiskSpeed), self.failures(Gate::Images)].concat(),
            // Its future cluster is unknown, so its rules and clock are too.
            unbound: self.failures_where(|id, gate| gate == Gate::Hardware || id == "hostname-valid"),
        }
    }

    fn failures(&self, gate: Gate) -> Vec<String> {
        self.failures_where(|_, other| other == gate)
    }

    fn failures_where(&self, wanted: impl Fn(&str, Gate) -> bool) -> Vec<String> {
        let failing = self.all.iter().filter(|(_, gate, finding)| wanted(finding.id, *gate) && !finding.passes());
        let failing = failing.filter(|(_, _, finding)| !self.waived.ignored.contains(finding.id));
        failing.map(|(_, _, finding)| finding.message.clone()).collect()
    }
}

/// Runs every check that applies; waived ones block nothing.
pub(crate) fn run(context: &Context, mut waived: Waived) -> Findings {
    if context.attest == Policy::Warn {
        waived.ignored.insert(CHECK.to_owned());
    }
    for list in [&mut waived.ignored, &mut waived.disabled] {
        list.retain(|id| !UNWAIVED.contains(&id.as_str()));
    }
    let applies = |check: &&Check| check.unbound || context.cluster.is_some();
    let run = |check: &Check| {
        if skipped(check.id, context.record.stage()) {
            return None;
        }
        let (status, message) = waived.verdict(check.id).or_else(|| (check.run)(context))?;
        Some((check.category, check.gate, Finding { id: check.id, status, message }))
    };
    let of_operator = |(id, verdict): (&'static str, Verdict)| {
        let (status, message) = waived.verdict(id).unwrap_or(verdict);
        (OPERATORS_CATEGORY, Gate::Role, Finding { id, status, message })
    };
    let all = CHECKS.iter().filter(applies).filter_map(run).chain(operators::all(context).map(of_operator)).collect();
    Findings { all, waived }
}

/// Checks that a host can't answer after its reboot.
fn skipped(id: &str, stage: Option<HostStage>) -> bool {
    match id {
        "connected" | "media-connected" | "ntp-synced" | "time-synced-between-host-and-service" => {
            network::rebooted(stage)
        }
        "compatible-agent" => stage.is_some(),
        _ => false,
    }
}
