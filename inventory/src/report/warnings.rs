//! What should be checked before this machine is used, and what is worth knowing about it.

use super::{
    Function, Health, Memory, PowerSupplyUnit, Processors, Report, Security, accelerators, attached,
    memory::modules,
    signals, wear,
    words::{label, with_unit},
};
use crate::smbios::MemoryDevice;
use std::collections::BTreeMap;

/// States of a chassis that are a warning (SMBIOS 7.4.2).
const BAD_STATES: [&str; 3] = ["Warning", "Critical", "Non-recoverable"];
/// States of the BMC's sensors that are a warning.
const BAD_SENSORS: [&str; 9] =
    ["critical", "non-recoverable", "uncorrectable", "failure", "fault", "lost", "thermal trip", "IERR", "intrusion"];
/// Names that stand before a line or in it; others are counted.
const MAX_NAMES: usize = 4;

/// What was found in a report, the same for the same report.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What is not as it should be.
    pub warnings: Lines,
    /// What may be intended.
    pub notes: Lines,
}

/// Lines by what they say; the same text about several things is one line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Texts, and the names they are said of.
    lines: Vec<(String, Vec<String>)>,
    /// Where the text of a name is in them.
    places: BTreeMap<String, usize>,
}

impl Lines {
    /// Says something of the machine as a whole.
    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.lines.push((text.into(), Vec::new()));
    }

    /// Says something of one thing in it.
    pub(super) fn say_of(&mut self, name: impl Into<String>, text: impl Into<String>) {
        let text = text.into();
        let place = *self.places.entry(text.clone()).or_insert(self.lines.len());
        match self.lines.get_mut(place) {
            Some((_, names)) => names.push(name.into()),
            None => self.lines.push((text, vec![name.into()])),
        }
    }

    /// The lines, in the order in which each was first said.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(text, names): &(String, Vec<String>)| match &names[..] {
            [] => text.clone(),
            names => format!("{}: {text}", listed(names)),
        };
        self.lines.iter().map(line).collect()
    }
}

/// `A1, A2 and 6 others`
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        1 => format!("{shown} and 1 other"),
        others => format!("{shown} and {others} others"),
    }
}

/// `1 error`, `2 errors`
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Looks through a report. A virtual machine has no sockets, modules and links: what its firmware reports of them is made up.
pub(super) fn findings(report: &Report) -> Findings {
    let mut found = Findings::default();
    let is_real = report.system.is_virtual != Some(true);
    if report.kernel.taints.as_ref().is_some_and(|taints| taints.contains('M')) {
        found.warnings.say("the kernel has seen a machine check (taint M): look for MCE in its log");
    }
    firmware(report, &mut found.warnings);
    memory_errors(&report.memory, &mut found.warnings);
    report.pci.iter().for_each(|function| pci(function, is_real, &mut found));
    processors(&report.processors, &mut found.warnings);
    wear::findings(&report.storage, &mut found);
    let attached = report.attached_memory.iter().flat_map(attached::findings);
    let part_findings = attached.chain(accelerators::findings(&report.accelerators));
    for finding in signals::findings(&report.network).into_iter().chain(part_findings) {
        let lines = if finding.is_warning { &mut found.warnings } else { &mut found.notes };
        lines.say_of(finding.of, finding.text);
    }
    health(&report.health, &mut found.warnings);
    management(report, &mut found.warnings);
    if is_real {
        supplies(&report.power_supply_units, &mut found.warnings);
    }
    security(&report.security, &mut found.warnings);
    if is_real {
        memory(&report.memory, &mut found.notes);
        cores_and_nodes(&report.processors, &mut found.notes);
    } else {
        found.notes = Lines::default();
    }
    found
}

fn pci(function: &Function, is_real: bool, found: &mut Findings) {
    let kind = function.device.as_ref().or(function.class.as_ref());
    let name = format!("{}{}", function.address, kind.map(|kind| format!(" ({kind})")).unwrap_or_default());
    if let Some(link) = function.link.as_ref().filter(|link| is_real && link.degraded == Some(true)) {
        let reason = link.limited_by.as_deref().unwrap_or("below what both ends can do");
        found.warnings.say_of(&name, format!("PCIe link is degraded: {reason}"));
    }
    if function.vpd.as_ref().is_some_and(|vpd| vpd.is_checksum_valid == Some(false)) {
        found.warnings.say_of(&name, "the checksum of its vital product data is wrong");
    }
    let Some(aer) = &function.aer else { return };
    let counts = [("fatal", aer.fatal), ("nonfatal", aer.nonfatal)];
    let counts = counts.into_iter().filter_map(|(kind, count)| Some((kind, count.filter(|count| *count > 0)?)));
    let counts: Vec<String> = counts.map(|(kind, count)| counted(count, &format!("{kind} error"))).collect();
    if !counts.is_empty() {
        found.warnings.say_of(&name, format!("{} of PCIe since boot", counts.join(", ")));
    }
    if let Some(count @ 1..) = aer.correctable {
        found.notes.say_of(&name, format!("{} of PCIe corrected since boot", counted(count, "error")));
    }
}

fn firmware(report: &Report, warnings: &mut Lines) {
    let status = report.firmware.boot_status.as_ref().and_then(|boot| boot.status.as_ref());
    if let Some(status) = status.filter(|status| *status != "No errors detected") {
        warnings.say_of("firmware about the last boot", status);
    }
    for chassis in &report.system.chassis {
        let states = [("power supply", &chassis.power_supply_state), ("temperature", &chassis.thermal_state)];
        for (name, state) in states {
            if let Some(state) = state.as_ref().filter(|state| BAD_STATES.contains(&state.as_str())) {
                warnings.say_of("chassis", format!("{name} when last booted: {state}"));
            }
        }
    }
    for resource in &report.firmware.resources {
        if let Some(status) = resource.last_attempt_status.as_ref().filter(|status| *status != "success") {
            warnings.say_of(format!("firmware {}", resource.class), format!("the last update failed: {status}"));
        }
    }
}

fn management(report: &Report, warnings: &mut Lines) {
    let Some(controller) = &report.management_controller else {
        for device in &report.firmware.ipmi_interfaces {
            let interface = device.interface_type.as_deref().unwrap_or("of an unknown kind");
            warnings.say(format!(
                "the firmware lists a BMC, interface {interface}, but /dev/ipmi0 is missing or does not answer: load the \
                 drivers ipmi_si (ipmi_ssif on the SMBus) and ipmi_devintf, and make the report again"
            ));
        }
        return;
    };
    for sensor in &controller.sensor_readings {
        let state = sensor.sensor_state.as_deref().unwrap_or_default();
        if BAD_SENSORS.iter().any(|bad| state.contains(bad)) {
            warnings.say_of(format!("BMC sensor {}", sensor.name), state);
        }
    }
    for fru in controller.frus.iter().filter(|fru| !fru.wrong_checksums.is_empty()) {
        warnings.say_of(format!("FRU {}", fru.name), format!("wrong checksum of {}", fru.wrong_checksums.join(", ")));
    }
    if controller.event_log.as_ref().is_some_and(|log| log.has_overflowed) {
        warnings.say("the BMC's event log was full, and events were lost");
    }
}

fn supplies(units: &[PowerSupplyUnit], warnings: &mut Lines) {
    for unit in units {
        if let Some(state) =
            unit.power_supply_state.as_ref().filter(|state| ["Critical", "Non-critical"].contains(&state.as_str()))
        {
            warnings.say_of(format!("power supply {}", unit.name), format!("{state} when last booted"));
        }
        if unit.is_unplugged == Some(true) && unit.is_present == Some(true) {
            warnings.say_of(format!("power supply {}", unit.name), "it was not plugged in when last booted");
        }
    }
}

fn security(security: &Security, warnings: &mut Lines) {
    for tpm in &security.tpms {
        if tpm.details.as_ref().and_then(|details| details.is_locked_out) == Some(true) {
            warnings.say_of(&tpm.name, "it is locked, because too many passwords were wrong");
        }
        let Some(boot) = &tpm.measured_boot else { continue };
        if boot.leads_to_registers == Some(false) {
            let registers: Vec<String> = boot.differing_registers.iter().map(u8::to_string).collect();
            let registers = registers.join(", ");
            let what = "the log was altered, or something was measured outside of it";
            warnings
                .say_of(&tpm.name, format!("the firmware's log does not lead to its registers {registers}: {what}"));
        }
    }
}

fn memory(memory: &Memory, notes: &mut Lines) {
    if let (Some(empty @ 1..), Some(full)) = (memory.empty_sockets, memory.populated_sockets) {
        let sockets = full.saturating_add(empty);
        let names = modules(memory).into_iter().filter(|device| device.installed == Some(false));
        let names: Vec<String> = names.map(socket).collect();
        notes.say(format!("{empty} of {sockets} memory sockets are empty: {}", listed(&names)));
    }
    for mismatch in &memory.mismatches {
        let value =
            |text: &String| text.parse().map_or_else(|_| text.clone(), |n: u64| with_unit(&mismatch.name, &n.into()));
        let values: Vec<String> = mismatch.values.iter().map(value).collect();
        notes.say(format!("memory modules differ in {}: {}", label(&mismatch.name), values.join(", ")));
    }
    for name in &memory.below_rated_speed {
        notes.say_of(name, "the memory module runs below its rated speed");
    }
}

fn memory_errors(memory: &Memory, warnings: &mut Lines) {
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

fn health(health: &Health, warnings: &mut Lines) {
    if let Some(errors @ 1..) = health.pci_parity_errors {
        warnings.say_of("PCI", counted(errors, "parity error"));
    }
    if !health.crash_records.is_empty() {
        let count = u64::try_from(health.crash_records.len()).unwrap_or(u64::MAX);
        warnings.say(format!("the firmware stores {} (pstore)", counted(count, "crash record")));
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
            warnings.say_of(format!("{} {name}", chip.name), "the sensor raises an alarm");
        }
    }
    for zone in &health.thermal_zones {
        hot(&zone.name, zone.temperature_celsius, zone.critical_celsius, warnings);
    }
    for supply in &health.power_supplies {
        if let Some(health) = supply.health.as_ref().filter(|health| !["Good", "Unknown"].contains(&health.as_str())) {
            warnings.say_of(format!("power supply {}", supply.name), health);
        }
    }
}

fn hot(name: &str, now: Option<f64>, critical: Option<f64>, warnings: &mut Lines) {
    // Some drivers say 0 for what the chip does not know.
    if let (Some(now), Some(critical)) = (now, critical)
        && critical > 0.0
        && now >= critical
    {
        warnings.say_of(name, format!("{now} °C, critical is {critical} °C"));
    }
}

fn errors(name: &str, uncorrected: Option<u64>, corrected: Option<u64>, warnings: &mut Lines) {
    for (kind, count) in [("uncorrected", uncorrected), ("corrected", corrected)] {
        if let Some(count @ 1..) = count {
            warnings.say_of(format!("memory {name}"), counted(count, &format!("{kind} error")));
        }
    }
}

fn processors(processors: &Processors, warnings: &mut Lines) {
    for package in processors.packages.iter().filter(|package| package.microcode.len() > 1) {
        let revisions = package.microcode.join(", ");
        warnings.say_of(format!("package {}", package.id), format!("its CPUs run different microcode: {revisions}"));
    }
    for socket in processors.sockets.iter().filter(|socket| socket.populated == Some(true)) {
        if let Some(status) = socket.status.as_ref().filter(|status| status.starts_with("Disabled")) {
            warnings.say_of(socket_name(socket.socket.as_ref()), format!("processor is {}", status.to_lowercase()));
        }
    }
    let models: Vec<_> = processors.packages.iter().map(|package| (&package.model_name, package.stepping)).collect();
    if models.windows(2).any(|pair| pair[0] != pair[1]) {
        warnings.say("packages contain different processors, which few makers support");
    }
    for (name, state) in processors.vulnerabilities.iter().filter(|(_, state)| state.starts_with("Vulnerable")) {
        warnings.say_of(name.replace('_', " "), state);
    }
}

fn cores_and_nodes(processors: &Processors, notes: &mut Lines) {
    for socket in processors.sockets.iter().filter(|socket| socket.populated == Some(true)) {
        if let (Some(enabled), Some(count)) = (socket.core_enabled, socket.core_count)
            && enabled < count
        {
            notes.say_of(socket_name(socket.socket.as_ref()), format!("{enabled} of {count} cores are enabled"));
        }
    }
    for node in processors.numa_nodes.iter().filter(|node| node.memory_bytes == Some(0)) {
        notes.say_of(format!("NUMA node {}", node.id), "no local memory");
    }
}

fn socket_name(name: Option<&String>) -> String {
    name.cloned().unwrap_or_else(|| "processor socket".to_owned())
}

#[cfg(test)]
mod tests;
