//! What firmware without SMBIOS says of the machine: the device tree, and z/Architecture's system information.

use crate::{Root, smbios::System};

const DEVICE_TREE: &str = "/proc/device-tree";
const SYSTEM_INFORMATION: &str = "/proc/sysinfo";
const MAX_INFORMATION_BYTES: usize = 64 << 10;

/// Maker, model and serial number.
pub(super) fn product(root: &Root) -> Option<System> {
    let found = mainframe(root).unwrap_or_else(|| {
        let text = |name: &str| root.attribute(format!("{DEVICE_TREE}/{name}")).filter(|text| !text.is_empty());
        System {
            manufacturer: text("vendor"),
            product_name: text("model"),
            // POWER's firmware has it by the other name.
            serial_number: text("serial-number").or_else(|| text("system-id")),
            ..System::default()
        }
    });
    Some(found).filter(|found| *found != System::default())
}

/// `Type: 8561`, `Model: 703              T01`: the capacity, then the model.
fn mainframe(root: &Root) -> Option<System> {
    let text = root.text(SYSTEM_INFORMATION, MAX_INFORMATION_BYTES)?;
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    };
    Some(System {
        manufacturer: value("Manufacturer").map(str::to_owned),
        product_name: Some(value("Type")?.to_owned()),
        version: value("Model").and_then(|model| model.split_ascii_whitespace().last()).map(str::to_owned),
        serial_number: value("Sequence Code").map(str::to_owned),
        ..System::default()
    })
}

/// What the first processor is compatible with: `sifive,u74-mc`.
pub(super) fn processor(root: &Root) -> Option<String> {
    let cpus = format!("{DEVICE_TREE}/cpus");
    let first = root.list(&cpus).into_iter().find(|name| name.starts_with("cpu@"))?;
    let compatible = root.attribute(format!("{cpus}/{first}/compatible"))?;
    let name = compatible.split('\0').next()?;
    Some(name.to_owned()).filter(|name| !name.is_empty() && name != "riscv")
}
