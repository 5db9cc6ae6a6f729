//! What a machine is, in a few lines.

use super::{Report, memory::modules};
use kernel::order::Gather;
use kernel::units::binary;
use std::collections::BTreeMap;

/// Names and texts of the lines; a line of which nothing is known is missing.
pub(super) fn summary(report: &Report) -> Vec<(&'static str, String)> {
    let lines = [
        ("report", origin(report)),
        ("system", system(report)),
        ("firmware", firmware(report)),
        ("processors", processors(report)),
        ("memory", memory(report)),
        ("storage", storage(report)),
        ("network", network(report)),
        ("security", security(report)),
    ];
    lines.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

fn origin(report: &Report) -> String {
    let version = Some(&report.tool_version).filter(|version| !version.is_empty());
    comma([report.hostname.clone(), report.date.clone(), version.map(|version| format!("landfall {version}"))])
}

fn system(report: &Report) -> String {
    let hypervisor = report.system.hypervisor.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let is_virtual = (report.system.is_virtual == Some(true)).then(|| format!("a virtual machine{hypervisor}"));
    let Some(product) = &report.system.product else {
        return comma([is_virtual]);
    };
    let serial = product.serial_number.as_ref().map(|serial| format!("serial {serial}"));
    comma([words(&[&product.manufacturer, &product.product_name]), serial, is_virtual])
}

fn firmware(report: &Report) -> String {
    let firmware = &report.firmware;
    let bios = firmware.bios.as_ref().and_then(|bios| {
        let date = bios.release_date.as_ref().map(|date| format!("({date})"));
        words(&[&bios.vendor, &bios.version, &date])
    });
    let mode = firmware.boot_mode.as_ref().map(|mode| format!("booted by {}", mode.to_uppercase()));
    comma([bios, mode, firmware.smbios_version.as_ref().map(|version| format!("SMBIOS {version}"))])
}

fn processors(report: &Report) -> String {
    let processors = &report.processors;
    let model = processors.packages.first().and_then(|package| package.model_name.as_ref());
    let packages = model.map(|model| format!("{} x {model}", processors.packages.len()));
    let number = |count: Option<u32>, of| counted(usize::try_from(count?).ok()?, of);
    let cores = number(processors.cores, "core");
    comma([packages, cores, number(processors.threads, "thread")])
}

fn memory(report: &Report) -> String {
    let memory = &report.memory;
    let bytes = memory.installed_bytes.map(binary).or_else(|| Some(format!("{} usable", binary(memory.usable_bytes?))));
    let sockets = memory.populated_sockets.zip(memory.empty_sockets);
    let sockets = sockets.map(|(full, empty)| format!("{full} of {} sockets filled", full.saturating_add(empty)));
    let module = modules(memory).into_iter().find(|device| device.installed == Some(true));
    let kind = module.and_then(|module| {
        let speed = module.configured_speed_mts.map(|speed| format!("at {speed} MT/s"));
        words(&[&module.memory_type, &speed])
    });
    let ecc = memory.ecc.map(|ecc| if ecc { "ECC".to_owned() } else { "no ECC".to_owned() });
    comma([bytes, sockets, kind, ecc])
}

/// Without media that can be taken out; a disk that several paths lead to is one.
fn storage(report: &Report) -> String {
    let fixed = report.storage.disks.iter().filter(|disk| disk.is_removable != Some(true));
    let known_by = |wwid: &Option<String>, name: &String| wwid.as_ref().unwrap_or(name).clone();
    let disks: BTreeMap<_, _> = fixed.map(|disk| (known_by(&disk.wwid, &disk.name), disk.size_bytes)).gather();
    let bytes = disks.values().copied().flatten().reduce(u64::saturating_add);
    comma([counted(disks.len(), "disk"), bytes.map(binary)])
}

/// Without virtual functions.
fn network(report: &Report) -> String {
    let ports: Vec<_> = report.network.interfaces.iter().filter(|port| !port.is_virtual_function).collect();
    let links = ports.iter().filter(|port| port.has_carrier == Some(true)).count();
    let links = (!ports.is_empty()).then(|| format!("{links} with a link"));
    comma([counted(ports.len(), "port"), links])
}

fn security(report: &Report) -> String {
    let security = &report.security;
    let boot = security.secure_boot.as_ref().map(|state| match state.as_str() {
        "NotSupported" => "no secure boot".to_owned(),
        state => format!("secure boot {}", state.to_lowercase()),
    });
    let tpm = security.tpms.first().map(|tpm| format!("TPM {}", tpm.version.as_deref().unwrap_or_default()));
    let log = security.tpms.first().and_then(|tpm| tpm.measured_boot.as_ref()?.leads_to_registers);
    let log = log.map(|leads| if leads { "boot log as the TPM has it" } else { "boot log NOT as the TPM has it" });
    let iommu = security.iommu.groups.map(|groups| if groups > 0 { "IOMMU in use" } else { "no IOMMU in use" });
    comma([boot, tpm.map(|tpm| tpm.trim_end().to_owned()), log.map(str::to_owned), iommu.map(str::to_owned)])
}

fn counted(count: usize, of: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} {of}{}", if count == 1 { "" } else { "s" }))
}

fn words(texts: &[&Option<String>]) -> Option<String> {
    let known: Vec<&str> = texts.iter().filter_map(|text| text.as_deref()).collect();
    (!known.is_empty()).then(|| known.join(" "))
}

fn comma<const N: usize>(texts: [Option<String>; N]) -> String {
    texts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_has_no_line() {
        assert_eq!(summary(&Report::default()), []);
    }

    #[test]
    fn paths_to_a_disk_are_one_disk_and_virtual_functions_no_ports() {
        let mut report = Report::default();
        let disk = |name: &str, wwid: Option<&str>, removable| {
            serde_json::from_value(json!({
                "name": name, "wwid": wwid, "size_bytes": 1_u64 << 30, "is_removable": removable, "controllers": [],
            }))
        };
        let disks = [
            disk("sda", Some("naa.1"), false),
            disk("sdb", Some("naa.1"), false),
            disk("vda", None, false),
            disk("sr0", None, true),
        ];
        report.storage.disks = disks.map(Result::unwrap).into();
        report.network.interfaces.resize_with(3, Default::default);
        report.network.interfaces[0].has_carrier = Some(true);
        report.network.interfaces[2].is_virtual_function = true;
        report.security.secure_boot = Some("NotSupported".to_owned());
        report.security.iommu.groups = Some(0);
        report.system.is_virtual = Some(false);
        let expected = [
            ("storage", "2 disks, 2 GiB"),
            ("network", "2 ports, 1 with a link"),
            ("security", "no secure boot, no IOMMU in use"),
        ];
        assert_eq!(summary(&report), expected.map(|(name, text)| (name, text.to_owned())));
    }
}
