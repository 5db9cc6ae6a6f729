//! How much operators take of a host, and how that is told beforehand.

use super::rules::{Amount, Amounts, Hardware};
use super::situation::{MACHINES_POOL_GIB, Machine, Situation, StorageMode};
use super::table::{OPERATORS, Operator, find};
use crate::releases::version::older;
use api::{HostRole, Inventory};
use serde_json::{Map, Value, json};

/// A host with storage gives these, and more for each disk.
const STORAGE_COMPACT: Amount = Amount::new(6, 19 << 10);
const STORAGE_STANDARD: Amount = Amount::new(8, 19 << 10);
const STORAGE_PER_DISK: Amount = Amount::new(2, 5 << 10);
/// A device that a virtual machine is given has so much memory mapped, MiB.
const DEVICE_MIB: u64 = 1024;
/// GPUs and network cards that virtual machines may be given, by their PCI ids.
const MACHINES_GPUS: [(&str, &str); 2] = [("10de", "1db6"), ("10de", "1eb8")];
const MACHINES_NICS: [(&str, &str); 5] =
    [("8086", "158b"), ("15b3", "1015"), ("15b3", "1017"), ("15b3", "1013"), ("15b3", "101b")];

/// What all operators of the cluster take of a host.
pub(crate) fn total(situation: &Situation, machine: &Machine) -> Amount {
    if situation.cluster.day2() {
        return Amount::NONE;
    }
    let operators = situation.cluster.course.olm_operators().filter_map(|own| find(&own.name));
    operators.fold(Amount::NONE, |sum, operator| sum.plus(amount(operator, situation, machine)))
}

/// What an operator takes of a host.
pub(crate) fn amount(operator: &Operator, situation: &Situation, machine: &Machine) -> Amount {
    match operator.hardware {
        Hardware::Nothing => Amount::NONE,
        Hardware::Amounts { amounts, .. } => by_role(amounts, situation, machine.effective),
        Hardware::Machines(amounts) => {
            let base = by_role(amounts, situation, machine.effective);
            let runs = matches!(machine.effective, HostRole::Worker | HostRole::AutoAssign);
            if !runs && !situation.cluster.single_node() {
                return base;
            }
            base.plus(Amount::new(0, DEVICE_MIB).times(machine.inventory.map_or(0, devices)))
        }
        Hardware::Volumes => match machine.effective {
            HostRole::Arbiter => Amount::NONE,
            HostRole::Master | HostRole::Bootstrap if !situation.masters_must_work() => Amount::NONE,
            _ => volumes(situation.version()),
        },
        Hardware::Storage => storage(situation, machine),
    }
}

fn by_role(amounts: Amounts, situation: &Situation, role: HostRole) -> Amount {
    match role {
        _ if situation.cluster.single_node() => amounts.single_node,
        HostRole::Master | HostRole::Bootstrap => amounts.master,
        HostRole::Arbiter => Amount::NONE,
        HostRole::Worker => amounts.worker,
        HostRole::AutoAssign => amounts.unassigned,
    }
}

/// Devices that virtual machines may be given.
fn devices(inventory: &Inventory) -> u64 {
    let known = |ids: &[(&str, &str)], vendor: &str, device: &str| ids.contains(&(vendor, device));
    let gpus = inventory.gpus.iter().filter(|gpu| known(&MACHINES_GPUS, &gpu.vendor_id, &gpu.device_id)).count();
    let id = |text: &str| text.to_ascii_lowercase().trim_start_matches("0x").to_owned();
    let nics = inventory.interfaces.iter().filter(|nic| known(&MACHINES_NICS, &id(&nic.vendor), &id(&nic.product)));
    u64::try_from(gpus.saturating_add(nics.count())).unwrap_or(u64::MAX)
}

fn volumes(version: &str) -> Amount {
    let ram_mib = if older(version, "4.13.0") {
        1200
    } else if older(version, "4.16.0") {
        400
    } else {
        100
    };
    Amount::new(1, ram_mib)
}

fn storage(situation: &Situation, machine: &Machine) -> Amount {
    if situation.runs_storage(machine.role) != Some(true) {
        return Amount::NONE;
    }
    let disks = u64::try_from(machine.spare_disks(situation.storage_disk_gb(false)).0).unwrap_or(u64::MAX);
    match situation.storage_mode() {
        StorageMode::Compact => STORAGE_COMPACT.plus(STORAGE_PER_DISK.times(disks.max(1))),
        _ => STORAGE_STANDARD.plus(STORAGE_PER_DISK.times(disks)),
    }
}

/// `operator-hardware-requirements` of each operator, chosen or not.
pub(crate) fn preflight(situation: &Situation) -> Vec<Value> {
    if situation.cluster.day2() {
        return Vec::new();
    }
    let document = |operator: &Operator| {
        let on_single_node = operator.needs_on_single_node.iter().filter(|_| situation.cluster.single_node());
        let needs: Vec<&str> = operator.needs.iter().chain(on_single_node).copied().collect();
        let (master, worker) = told(operator.hardware, situation);
        json!({
            "operator_name": operator.name,
            "dependencies": needs,
            "requirements": {"master": of_role(master), "worker": of_role(worker)},
        })
    };
    OPERATORS.iter().map(document).collect()
}

/// An amount, and what there is besides in words.
type Told = (Amount, Vec<String>);

/// What is told of masters and workers while no host is known.
fn told(hardware: Hardware, situation: &Situation) -> (Told, Told) {
    let single_node = situation.cluster.single_node();
    match hardware {
        Hardware::Nothing => Default::default(),
        Hardware::Amounts { amounts: Amounts { master, worker, .. }, described } => {
            let words = |amount: Amount| {
                let Amount { cpu_cores, ram_mib } = amount;
                let words = [format!("{ram_mib} MiB of additional RAM"), format!("{cpu_cores} additional CPUs")];
                words.into_iter().filter(|_| described).collect()
            };
            ((master, words(master)), (worker, words(worker)))
        }
        Hardware::Machines(Amounts { single_node: alone, master, worker, .. }) => {
            let pool = situation.pools_machines().then(|| format!("Additional disk with {MACHINES_POOL_GIB} Gi"));
            let devices = ["GPU", "SR-IOV NIC"].map(|what| format!("Additional 1GiB of RAM per each supported {what}"));
            let flags = "CPU has virtualization flag (vmx or svm)".to_owned();
            let words: Vec<String> = devices.into_iter().chain([flags]).chain(pool).collect();
            ((if single_node { alone } else { master }, words.clone()), (worker, words))
        }
        Hardware::Volumes => {
            let amount = volumes(situation.version());
            let words = vec![
                "At least 1 non-boot disk per host".to_owned(),
                format!("{} MiB of additional RAM", amount.ram_mib),
                format!("{} additional CPUs for each non-boot disk", amount.cpu_cores),
            ];
            ((amount, words.clone()), (amount, words))
        }
        Hardware::Storage => {
            let Amount { cpu_cores, ram_mib } = STORAGE_PER_DISK;
            let compact = [
                "Requirements apply only for master-only clusters",
                "At least 3 hosts",
                "At least 1 non-boot SSD or HDD disk on 3 hosts",
            ];
            let standard = vec![
                "Requirements apply only for clusters with workers".to_owned(),
                format!("{} GiB of additional RAM for each non-boot disk", ram_mib >> 10),
                format!("{cpu_cores} additional CPUs for each non-boot disk"),
                "At least 3 workers".to_owned(),
                "At least 1 non-boot SSD or HDD disk on 3 workers".to_owned(),
            ];
            ((STORAGE_COMPACT, compact.map(str::to_owned).into()), (STORAGE_STANDARD, standard))
        }
    }
}

/// `host-type-hardware-requirements`; what is not needed is left out.
fn of_role((amount, words): Told) -> Value {
    let numbers = [("cpu_cores", amount.cpu_cores), ("ram_mib", amount.ram_mib)];
    let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
    let quantitative: Map<String, Value> = numbers.map(|(name, number)| (name.to_owned(), number.into())).collect();
    if words.is_empty() {
        json!({"quantitative": quantitative})
    } else {
        json!({"quantitative": quantitative, "qualitative": words})
    }
}
