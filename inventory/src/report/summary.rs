//! What a machine is, in a few lines.

use super::{Report, words::size};

/// Names and texts of the lines; a line of which nothing is known is missing.
pub(super) fn summary(report: &Report) -> Vec<(&'static str, String)> {
    let lines = [
        ("system", system(report)),
        ("firmware", firmware(report)),
        ("processors", processors(report)),
        ("memory", memory(report)),
    ];
    lines.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

fn system(report: &Report) -> String {
    let Some(product) = &report.system.product else {
        return if report.system.is_virtual { "a virtual machine".to_owned() } else { String::new() };
    };
    let serial = product.serial_number.as_ref().map(|serial| format!("serial {serial}"));
    let is_virtual = report.system.is_virtual.then(|| "a virtual machine".to_owned());
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
    let cores = processors.cores.map(|cores| format!("{cores} cores"));
    comma([packages, cores, processors.threads.map(|threads| format!("{threads} threads"))])
}

fn memory(report: &Report) -> String {
    let memory = &report.memory;
    let bytes = memory.installed_bytes.map(size).or_else(|| Some(format!("{} usable", size(memory.usable_bytes?))));
    let sockets = memory.populated_sockets.zip(memory.empty_sockets);
    let sockets = sockets.map(|(full, empty)| format!("{full} of {} sockets filled", full.saturating_add(empty)));
    let module = memory.devices.iter().find(|device| device.installed == Some(true));
    let kind = module.and_then(|module| {
        let speed = module.configured_speed_mts.map(|speed| format!("at {speed} MT/s"));
        words(&[&module.memory_type, &speed])
    });
    let ecc = memory.ecc.map(|ecc| if ecc { "ECC".to_owned() } else { "no ECC".to_owned() });
    comma([bytes, sockets, kind, ecc])
}

fn words(texts: &[&Option<String>]) -> Option<String> {
    let known: Vec<&str> = texts.iter().filter_map(|text| text.as_deref()).collect();
    (!known.is_empty()).then(|| known.join(" "))
}

fn comma<const N: usize>(texts: [Option<String>; N]) -> String {
    texts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
