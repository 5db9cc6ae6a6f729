//! How the machine is doing now: what it measures and what it counted. All that changes by itself is here or is a counter.

use super::{
    memory::MemoryController,
    sensors::{self, SensorChip, ThermalZone},
};
use crate::{Root, pci::Function};
use serde::{Deserialize, Serialize};

const SUPPLIES: &str = "/sys/class/power_supply";
const PCI_ERRORS: &str = "/sys/devices/system/edac/pci";

/// Measurements and sums of counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    /// Since the kernel booted, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<u64>,
    /// Memory errors corrected, of all controllers (EDAC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_corrected_errors: Option<u64>,
    /// Memory errors that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_uncorrected_errors: Option<u64>,
    /// PCI Express errors corrected, of all functions (AER).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_correctable_errors: Option<u64>,
    /// PCI Express errors that lost a transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_nonfatal_errors: Option<u64>,
    /// PCI Express errors after which a link was unreliable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_fatal_errors: Option<u64>,
    /// Parity errors of conventional PCI (EDAC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_parity_errors: Option<u64>,
    /// Records of crashes that the firmware stored, from /sys/fs/pstore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crash_records: Vec<String>,
    /// Chips with sensors. Those of disks are with the disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<SensorChip>,
    /// Thermal zones, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thermal_zones: Vec<ThermalZone>,
    /// Power supplies and batteries the kernel has drivers for, by name; those of servers are mostly known to the BMC only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_supplies: Vec<PowerSupply>,
}

/// A power supply (/sys/class/power_supply).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PowerSupply {
    /// The kernel's name of it.
    pub name: String,
    /// Mains, Battery, UPS, USB.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether it gives power now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<bool>,
    /// Charging, Discharging, Full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Good, Overheat, Dead and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// Charge of a battery, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge_percent: Option<u8>,
    /// Maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
}

pub(super) fn health(root: &Root, controllers: &[MemoryController], functions: &[Function]) -> Health {
    let aer = || functions.iter().filter_map(|function| function.aer.as_ref());
    Health {
        uptime_seconds: root.attribute("/proc/uptime").and_then(|text| text.split_once('.')?.0.parse().ok()),
        memory_corrected_errors: sum(controllers.iter().map(|controller| controller.corrected_errors)),
        memory_uncorrected_errors: sum(controllers.iter().map(|controller| controller.uncorrected_errors)),
        pcie_correctable_errors: sum(aer().map(|aer| aer.correctable)),
        pcie_nonfatal_errors: sum(aer().map(|aer| aer.nonfatal)),
        pcie_fatal_errors: sum(aer().map(|aer| aer.fatal)),
        pci_parity_errors: root.number(format!("{PCI_ERRORS}/pci_parity_count")),
        crash_records: root.list("/sys/fs/pstore"),
        sensors: sensors::chips(root),
        thermal_zones: sensors::zones(root),
        power_supplies: root.list(SUPPLIES).into_iter().map(|name| power_supply(root, name)).collect(),
    }
}

/// Of those that have a counter.
fn sum(counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.flatten().reduce(u64::saturating_add)
}

fn power_supply(root: &Root, name: String) -> PowerSupply {
    let text = |file: &str| root.attribute(format!("{SUPPLIES}/{name}/{file}")).filter(|text| !text.is_empty());
    PowerSupply {
        kind: text("type"),
        online: text("online").map(|text| text != "0"),
        status: text("status").filter(|status| status != "Unknown"),
        health: text("health").filter(|health| health != "Unknown"),
        charge_percent: text("capacity").and_then(|text| text.parse().ok()),
        manufacturer: text("manufacturer"),
        model_name: text("model_name"),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pci::Aer, testing::Tree};

    #[test]
    fn sums_of_those_that_count() {
        let tree = Tree::new(&[
            ("proc/uptime", "123.45 99.00\n"),
            ("sys/class/power_supply/PSU1/type", "Mains\n"),
            ("sys/class/power_supply/PSU1/online", "0\n"),
            ("sys/fs/pstore/dmesg-erst-1", "Oops\n"),
        ]);
        let controller = |errors| MemoryController { corrected_errors: errors, ..MemoryController::default() };
        let aer = Aer { correctable: Some(2), ..Aer::default() };
        let functions = [
            Function { aer: Some(aer.clone()), ..Function::default() },
            Function::default(),
            Function { aer: Some(aer), ..Function::default() },
        ];
        let found =
            health(&tree.root(), &[controller(Some(1)), controller(None), controller(Some(u64::MAX))], &functions);
        assert_eq!((found.memory_corrected_errors, found.memory_uncorrected_errors), (Some(u64::MAX), None));
        assert_eq!((found.pcie_correctable_errors, found.pcie_fatal_errors), (Some(4), None));
        assert_eq!((found.uptime_seconds, found.crash_records.len()), (Some(123), 1));
        assert_eq!(
            (found.power_supplies[0].online, found.power_supplies[0].kind.as_deref()),
            (Some(false), Some("Mains"))
        );
        assert_eq!(health(&Tree::new(&[]).root(), &[], &[]), Health::default());
    }
}
