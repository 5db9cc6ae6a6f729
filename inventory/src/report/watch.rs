//! What changes while a machine works: what sensors measure, temperatures of disks, errors that the kernel counts.

use super::{controllers, memory, sensors};
use crate::{Root, ask::Question, ata, nvme, pci};
use kernel::order;
use std::collections::BTreeMap;

/// The kernel's names of disks.
const BLOCK: &str = "/sys/class/block";

/// A value that a sensor measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The chip and its sensor: `coretemp.0 Package id 0`.
    pub name: String,
    pub quantity: Quantity,
    pub value: f64,
    /// Whether the chip says that a limit is passed, or the sensor is broken.
    pub has_alarm: bool,
}

/// What a sensor measures, and in which unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    Celsius,
    Rpm,
    Volts,
    Watts,
}

/// All sensors but those of disks, by name.
pub fn readings(root: &Root) -> Vec<Reading> {
    let mut found = Vec::new();
    let mut add = |name: String, quantity, value: Option<f64>, alarm: Option<bool>| {
        let has_alarm = alarm == Some(true);
        found.extend(value.map(|value| Reading { name, quantity, value, has_alarm }));
    };
    for chip in sensors::chips(root) {
        let named = |sensor: &str| format!("{} {sensor}", chip.device.as_ref().unwrap_or(&chip.name));
        for one in &chip.temperatures {
            add(named(&one.name), Quantity::Celsius, one.temperature_celsius, one.alarm);
        }
        for one in &chip.fans {
            add(named(&one.name), Quantity::Rpm, one.speed_rpm.map(f64::from), one.alarm);
        }
        for one in &chip.voltages {
            let volts = one.voltage_millivolts.and_then(|value| i32::try_from(value).ok());
            add(named(&one.name), Quantity::Volts, volts.map(|value| f64::from(value) / 1000.0), one.alarm);
        }
        for one in &chip.powers {
            add(named(&one.name), Quantity::Watts, one.power_watts, None);
        }
    }
    for zone in sensors::zones(root) {
        let name = format!("{} {}", zone.name, zone.kind.unwrap_or_default());
        add(name.trim_end().to_owned(), Quantity::Celsius, zone.temperature_celsius, None);
    }
    order::sort_by(&mut found, |a, b| (&a.name, a.quantity).cmp(&(&b.name, b.quantity)));
    found
}

/// Errors of memory and PCI Express since the kernel counts them, by what counts them.
pub fn counted_errors(root: &Root) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut add = |name: String, count: Option<u64>| found.extend(count.map(|count| (name, count)));
    for controller in memory::controllers(root) {
        add(format!("memory {} corrected", controller.name), controller.corrected_errors);
        add(format!("memory {} uncorrected", controller.name), controller.uncorrected_errors);
        for module in controller.modules {
            let label = module.label.map(|label| format!(" ({label})")).unwrap_or_default();
            let name = format!("memory {} {}{label}", controller.name, module.name);
            add(format!("{name} corrected"), module.corrected_errors);
            add(format!("{name} uncorrected"), module.uncorrected_errors);
        }
    }
    for (address, errors) in pci::counted_errors(root) {
        add(format!("pcie {address} correctable"), errors.correctable);
        add(format!("pcie {address} nonfatal"), errors.nonfatal);
        add(format!("pcie {address} fatal"), errors.fatal);
    }
    found
}

/// The temperature of a disk by its kernel name, as the disk itself says, °C.
pub fn disk_celsius(root: &Root, disk: &str) -> Option<f64> {
    if disk.starts_with("nvme") {
        let device = std::path::PathBuf::from(format!("{BLOCK}/{disk}/device"));
        let controller = controllers::nvme_controllers_of(root, &device).into_iter().next()?;
        let health = nvme::parse_health(&root.ask(&Question::NvmeHealth { controller }).ok()?)?;
        return health.temperature_celsius.map(f64::from);
    }
    // Of others than SATA disks the driver refuses the question.
    if !disk.starts_with("sd") {
        return None;
    }
    let data = root.ask(&Question::AtaSmartData { disk: disk.to_owned() }).ok()?;
    ata::parse_health(&data, None)?.temperature_celsius.map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn sensors_have_names_of_their_own() {
        let tree = Tree::new(&[
            ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon0/temp1_input", "45500\n"),
            ("sys/class/hwmon/hwmon0/temp1_crit_alarm", "1\n"),
            ("sys/class/hwmon/hwmon0/fan1_input", "900\n"),
            ("sys/class/hwmon/hwmon0/in0_input", "1104\n"),
            ("sys/class/thermal/thermal_zone0/type", "acpitz\n"),
            ("sys/class/thermal/thermal_zone0/temp", "27800\n"),
        ]);
        let found = readings(&tree.root());
        let shown: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value, one.has_alarm)).collect();
        let expected = [
            ("coretemp fan1", 900.0, false),
            ("coretemp in0", 1.104, false),
            ("coretemp temp1", 45.5, true),
            ("thermal_zone0 acpitz", 27.8, false),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn errors_are_counted_by_what_counts_them() {
        let tree = Tree::new(&[
            ("sys/devices/system/edac/mc/mc0/ce_count", "2\n"),
            ("sys/devices/system/edac/mc/mc0/ue_count", "0\n"),
            ("sys/devices/system/edac/mc/mc0/dimm0/dimm_label", "CPU0_A1\n"),
            ("sys/devices/system/edac/mc/mc0/dimm0/dimm_ce_count", "2\n"),
            ("sys/devices/system/edac/mc/mc0/dimm0/size", "16384\n"),
        ]);
        let found = counted_errors(&tree.root());
        assert_eq!(found.get("memory mc0 corrected"), Some(&2));
        assert_eq!(found.get("memory mc0 dimm0 (CPU0_A1) corrected"), Some(&2), "{found:?}");
        assert_eq!(disk_celsius(&tree.root(), "nvme0n1"), None);
        assert_eq!(disk_celsius(&tree.root(), "loop0"), None);
    }
}
