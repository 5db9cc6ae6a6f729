//! What somebody should look at before this machine is used.

use super::{Function, Health, Memory, Processors, Report, memory::modules, wear};
use crate::smbios::MemoryDevice;

/// States of a chassis that are no good news (SMBIOS 7.4.2).
const BAD_STATES: [&str; 3] = ["Warning", "Critical", "Non-recoverable"];

/// One line for each thing that is not as it should be, the same for the same report.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(taints) = report.kernel.taints.as_ref().filter(|taints| taints.contains('M')) {
        warnings.push(format!("the kernel has seen a machine check (taint {taints}): look for MCE in its log"));
    }
    firmware(report, &mut warnings);
    memory(&report.memory, &mut warnings);
    report.pci.iter().for_each(|function| pci(function, &mut warnings));
    processors(&report.processors, &mut warnings);
    wear::warnings(&report.storage, &mut warnings);
    health(&report.health, &mut warnings);
    warnings
}

fn pci(function: &Function, warnings: &mut Vec<String>) {
    let kind = function.device.as_ref().or(function.class.as_ref());
    let name = format!("{}{}", function.address, kind.map(|kind| format!(" ({kind})")).unwrap_or_default());
    if let Some(link) = function.link.as_ref().filter(|link| link.degraded == Some(true)) {
        let reason = link.limited_by.as_deref().unwrap_or("below what both ends can do");
        warnings.push(format!("{name}: PCIe link is degraded: {reason}"));
    }
    if let Some(aer) = &function.aer {
        let counts = [("fatal", aer.fatal), ("nonfatal", aer.nonfatal), ("correctable", aer.correctable)];
        let counts = counts.into_iter().filter_map(|(kind, count)| Some((kind, count.filter(|count| *count > 0)?)));
        let counts: Vec<String> = counts.map(|(kind, count)| format!("{count} {kind}")).collect();
        if !counts.is_empty() {
            warnings.push(format!("{name}: PCIe errors since boot: {}", counts.join(", ")));
        }
    }
}

fn firmware(report: &Report, warnings: &mut Vec<String>) {
    let status = report.firmware.boot_status.as_ref().and_then(|boot| boot.status.as_ref());
    if let Some(status) = status.filter(|status| *status != "No errors detected") {
        warnings.push(format!("firmware about the last boot: {status}"));
    }
    for chassis in &report.system.chassis {
        let states = [("power supply", &chassis.power_supply_state), ("temperature", &chassis.thermal_state)];
        for (name, state) in states {
            if let Some(state) = state.as_ref().filter(|state| BAD_STATES.contains(&state.as_str())) {
                warnings.push(format!("chassis: {name} when last booted: {state}"));
            }
        }
    }
    for resource in &report.firmware.resources {
        if let Some(status) = resource.last_attempt_status.as_ref().filter(|status| *status != "success") {
            let version = resource.last_attempt_version.map(|version| format!(" to {version}")).unwrap_or_default();
            warnings.push(format!("firmware {}: the last update{version} failed: {status}", resource.class));
        }
    }
}

fn memory(memory: &Memory, warnings: &mut Vec<String>) {
    if let (Some(empty @ 1..), Some(full)) = (memory.empty_sockets, memory.populated_sockets) {
        let sockets = full.saturating_add(empty);
        let names = modules(memory).into_iter().filter(|device| device.installed == Some(false));
        let names: Vec<String> = names.map(socket).collect();
        warnings.push(format!("{empty} of {sockets} memory sockets are empty: {}", names.join(", ")));
    }
    for mismatch in &memory.mismatches {
        let name = mismatch.name.replace('_', " ");
        warnings.push(format!("memory modules differ in {name}: {}", mismatch.values.join(", ")));
    }
    if !memory.below_rated_speed.is_empty() {
        warnings.push(format!("memory runs below its rated speed in {}", memory.below_rated_speed.join(", ")));
    }
    for controller in &memory.controllers {
        errors(&controller.name, controller.uncorrected_errors, controller.corrected_errors, warnings);
        for module in &controller.modules {
            let name = format!("{} {}", controller.name, module.label.as_ref().unwrap_or(&module.name));
            errors(&name, module.uncorrected_errors, module.corrected_errors, warnings);
        }
    }
}

/// Boards often use the same locators again in each bank.
fn socket(device: &MemoryDevice) -> String {
    let names = [&device.bank_locator, &device.locator];
    names.into_iter().filter_map(Option::as_deref).collect::<Vec<_>>().join(" ")
}

fn health(health: &Health, warnings: &mut Vec<String>) {
    if let Some(errors @ 1..) = health.pci_parity_errors {
        warnings.push(format!("PCI: {errors} parity errors"));
    }
    if !health.crash_records.is_empty() {
        warnings.push(format!("the firmware keeps records of {} crashes (pstore)", health.crash_records.len()));
    }
    for chip in &health.sensors {
        for temperature in &chip.temperatures {
            let name = format!("{} {}", chip.name, temperature.name);
            hot(&name, temperature.temperature_celsius, temperature.critical_celsius, warnings);
        }
        let temperatures = chip.temperatures.iter().map(|sensor| (&sensor.name, sensor.alarm));
        let fans = chip.fans.iter().map(|sensor| (&sensor.name, sensor.alarm));
        let voltages = chip.voltages.iter().map(|sensor| (&sensor.name, sensor.alarm));
        for (name, _) in temperatures.chain(fans).chain(voltages).filter(|(_, alarm)| *alarm == Some(true)) {
            warnings.push(format!("{} {name}: the sensor raises an alarm", chip.name));
        }
    }
    for zone in &health.thermal_zones {
        hot(&zone.name, zone.temperature_celsius, zone.critical_celsius, warnings);
    }
    for supply in &health.power_supplies {
        if let Some(health) = supply.health.as_ref().filter(|health| !["Good", "Unknown"].contains(&health.as_str())) {
            warnings.push(format!("power supply {}: {health}", supply.name));
        }
    }
}

fn hot(name: &str, now: Option<f64>, critical: Option<f64>, warnings: &mut Vec<String>) {
    // Some drivers say 0 for what the chip does not know.
    if let (Some(now), Some(critical)) = (now, critical)
        && critical > 0.0
        && now >= critical
    {
        warnings.push(format!("{name}: {now} °C, critical is {critical} °C"));
    }
}

fn errors(name: &str, uncorrected: Option<u64>, corrected: Option<u64>, warnings: &mut Vec<String>) {
    for (kind, count) in [("uncorrected", uncorrected), ("corrected", corrected)] {
        if let Some(count @ 1..) = count {
            warnings.push(format!("memory {name}: {count} {kind} errors"));
        }
    }
}

fn processors(processors: &Processors, warnings: &mut Vec<String>) {
    for package in processors.packages.iter().filter(|package| package.microcode.len() > 1) {
        let revisions = package.microcode.join(", ");
        warnings.push(format!("package {}: its CPUs run different microcode: {revisions}", package.id));
    }
    for socket in processors.sockets.iter().filter(|socket| socket.populated == Some(true)) {
        let name = socket.socket.as_deref().unwrap_or("processor socket");
        if let Some(status) = socket.status.as_ref().filter(|status| status.starts_with("Disabled")) {
            warnings.push(format!("{name}: processor is {}", status.to_lowercase()));
        }
        if let (Some(enabled), Some(count)) = (socket.core_enabled, socket.core_count)
            && enabled < count
        {
            warnings.push(format!("{name}: {enabled} of {count} cores are enabled"));
        }
    }
    let models: Vec<_> = processors.packages.iter().map(|package| (&package.model_name, package.stepping)).collect();
    if models.windows(2).any(|pair| pair[0] != pair[1]) {
        warnings.push("packages hold different processors, which few makers support".to_owned());
    }
    for node in processors.numa_nodes.iter().filter(|node| node.memory_bytes == Some(0)) {
        warnings.push(format!("NUMA node {} has no memory of its own", node.id));
    }
    for (name, state) in processors.vulnerabilities.iter().filter(|(_, state)| state.starts_with("Vulnerable")) {
        warnings.push(format!("{}: {state}", name.replace('_', " ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{
            Aer, CountedModule, FirmwareResource, Link, MemoryController, Mismatch, NumaNode, Package, ThermalZone,
        },
        smbios::{BootStatus, Chassis, Processor},
    };

    #[test]
    fn a_machine_in_order_has_none() {
        assert_eq!(warnings(&Report::default()), [""; 0]);
        let mut report = Report::default();
        report.kernel.taints = Some("PO".to_owned());
        let link = Link { degraded: Some(false), limited_by: Some("port: at most".to_owned()), ..Link::default() };
        let aer = Aer { correctable: Some(0), ..Aer::default() };
        report.pci = vec![Function { link: Some(link), aer: Some(aer), ..Function::default() }];
        report.processors.packages = vec![Package { microcode: vec!["0x1".to_owned()], ..Package::default() }; 2];
        report.processors.vulnerabilities.insert("l1tf".to_owned(), "Not affected".to_owned());
        assert_eq!(warnings(&report), [""; 0]);
    }

    #[test]
    fn each_fault_has_its_line() {
        let mut report = Report::default();
        report.kernel.taints = Some("M".to_owned());
        let link = Link { degraded: Some(true), limited_by: Some("training: 8 GT/s x4".to_owned()), ..Link::default() };
        let aer = Aer { correctable: Some(7), fatal: Some(1), ..Aer::default() };
        let (address, device) = ("0000:41:00.0".to_owned(), Some("ConnectX-5".to_owned()));
        report.pci = vec![Function { address, device, link: Some(link), aer: Some(aer), ..Function::default() }];
        let microcode = vec!["0x1".to_owned(), "0x2".to_owned()];
        report.processors.packages =
            vec![Package { microcode, ..Package::default() }, Package { stepping: Some(2), ..Package::default() }];
        report.processors.numa_nodes = vec![NumaNode { id: 1, memory_bytes: Some(0), ..NumaNode::default() }];
        report.processors.vulnerabilities.insert("spectre_v2".to_owned(), "Vulnerable: no IBPB".to_owned());
        let text = |text: &str| Some(text.to_owned());
        report.firmware.boot_status = Some(BootStatus { status: text("No bootable media"), ..BootStatus::default() });
        let (class, last_attempt_status) = ("ddc0ee61".to_owned(), text("out of resources"));
        report.firmware.resources =
            vec![FirmwareResource { class, last_attempt_status, ..FirmwareResource::default() }];
        report.system.chassis = vec![Chassis { thermal_state: text("Critical"), ..Chassis::default() }];
        report.memory.empty_sockets = Some(1);
        report.memory.populated_sockets = Some(7);
        let (bank_locator, locator, installed) = (text("P0"), text("DIMM B2"), Some(false));
        report.memory.devices = vec![MemoryDevice { bank_locator, locator, installed, ..MemoryDevice::default() }];
        let values = vec!["16 GiB".to_owned(), "32 GiB".to_owned()];
        report.memory.mismatches = vec![Mismatch { name: "size_bytes".to_owned(), values }];
        report.memory.below_rated_speed = vec!["DIMM A1".to_owned()];
        let module = CountedModule { label: text("DIMM A1"), corrected_errors: Some(2), ..CountedModule::default() };
        let controller = MemoryController {
            name: "mc0".to_owned(),
            uncorrected_errors: Some(1),
            corrected_errors: Some(0),
            modules: vec![module],
            ..MemoryController::default()
        };
        report.memory.controllers = vec![controller];
        report.processors.sockets = vec![Processor {
            socket: text("CPU1"),
            populated: Some(true),
            status: text("Disabled By BIOS"),
            core_count: Some(8),
            core_enabled: Some(6),
            ..Processor::default()
        }];
        let (now, critical) = (Some(105.0), Some(95.0));
        let zone = ThermalZone { temperature_celsius: now, critical_celsius: critical, ..ThermalZone::default() };
        report.health.thermal_zones = vec![ThermalZone { name: "thermal_zone0".to_owned(), ..zone }];
        report.health.crash_records = vec!["dmesg-efi-1".to_owned()];
        let lines = [
            "the kernel has seen a machine check (taint M): look for MCE in its log",
            "firmware about the last boot: No bootable media",
            "chassis: temperature when last booted: Critical",
            "firmware ddc0ee61: the last update failed: out of resources",
            "1 of 8 memory sockets are empty: P0 DIMM B2",
            "memory modules differ in size bytes: 16 GiB, 32 GiB",
            "memory runs below its rated speed in DIMM A1",
            "memory mc0: 1 uncorrected errors",
            "memory mc0 DIMM A1: 2 corrected errors",
            "0000:41:00.0 (ConnectX-5): PCIe link is degraded: training: 8 GT/s x4",
            "0000:41:00.0 (ConnectX-5): PCIe errors since boot: 1 fatal, 7 correctable",
            "package 0: its CPUs run different microcode: 0x1, 0x2",
            "CPU1: processor is disabled by bios",
            "CPU1: 6 of 8 cores are enabled",
            "packages hold different processors, which few makers support",
            "NUMA node 1 has no memory of its own",
            "spectre v2: Vulnerable: no IBPB",
            "the firmware keeps records of 1 crashes (pstore)",
            "thermal_zone0: 105 °C, critical is 95 °C",
        ];
        assert_eq!(warnings(&report), lines);
    }
}
