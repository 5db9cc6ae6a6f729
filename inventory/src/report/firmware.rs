//! The system's firmware: its version, how it booted, and what else it can update.

use super::system::DMI;
use crate::{
    Root,
    smbios::{Bios, BootStatus, FirmwareComponent, HostInterface, IpmiDevice, Smbios},
};
use kernel::order;
use serde::{Deserialize, Serialize};

const EFI: &str = "/sys/firmware/efi";
/// Names of ESRT resource types (UEFI 2.10, 23.4).
const RESOURCE_TYPES: [&str; 4] = ["unknown", "system firmware", "device firmware", "UEFI driver"];
/// Names of how the last update went (UEFI 2.10, 23.4).
const STATUSES: [&str; 9] = [
    "success",
    "unsuccessful",
    "insufficient resources",
    "incorrect version",
    "invalid image format",
    "authentication error",
    "no AC power",
    "insufficient battery power",
    "unsatisfied dependencies",
];

/// The firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Firmware {
    /// Its maker and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios: Option<Bios>,
    /// How it booted: uefi or bios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<String>,
    /// Width of UEFI's own code, bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uefi_bits: Option<u32>,
    /// Version of SMBIOS its table follows: `3.3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smbios_version: Option<String>,
    /// How the last boot went, as the firmware reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_status: Option<BootStatus>,
    /// Interfaces to a management controller that it lists (SMBIOS type 38).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipmi_interfaces: Vec<IpmiDevice>,
    /// Interfaces of the host to a management controller that it lists (SMBIOS type 42), such as a network for Redfish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_interfaces: Vec<HostInterface>,
    /// Pieces of firmware that it lists (SMBIOS type 45).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<FirmwareComponent>,
    /// What UEFI can update (EFI System Resource Table), by class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<FirmwareResource>,
}

/// Firmware that UEFI can update (/sys/firmware/efi/esrt).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FirmwareResource {
    /// GUID of what the firmware is for.
    pub class: String,
    /// What it is: system firmware, device firmware, UEFI driver.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Version, in its maker's numbering.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Lowest version it can be set back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowest_supported_version: Option<u32>,
    /// Version of the last update that was attempted; 0 if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_version: Option<u32>,
    /// Result of that update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_status: Option<String>,
}

pub(super) fn firmware(root: &Root, smbios: &Smbios) -> Firmware {
    let boot_mode = match root.is_dir(EFI) {
        true => Some("uefi"),
        // A tree without the directory above says nothing.
        false => root.is_dir("/sys/firmware").then_some("bios"),
    };
    Firmware {
        bios: smbios.bios().or_else(|| bios(root)),
        boot_mode: boot_mode.map(str::to_owned),
        uefi_bits: root.number(format!("{EFI}/fw_platform_size")),
        smbios_version: smbios.version().map(|version| version.to_string()),
        boot_status: smbios.boot_status(),
        ipmi_interfaces: smbios.ipmi_devices(),
        host_interfaces: smbios.host_interfaces(),
        components: smbios.firmware_components(),
        resources: resources(root),
    }
}

fn bios(root: &Root) -> Option<Bios> {
    let text = |name: &str| root.attribute(format!("{DMI}/{name}")).filter(|text| !text.is_empty());
    let bios = Bios {
        vendor: text("bios_vendor"),
        version: text("bios_version"),
        release_date: text("bios_date"),
        revision: text("bios_release"),
        embedded_controller_revision: text("ec_firmware_release"),
        ..Bios::default()
    };
    (bios != Bios::default()).then_some(bios)
}

fn resources(root: &Root) -> Vec<FirmwareResource> {
    let entries = format!("{EFI}/esrt/entries");
    let resource = |entry: String| {
        let text = |name: &str| root.attribute(format!("{entries}/{entry}/{name}"));
        let number = |name: &str| text(name)?.parse::<u32>().ok();
        let named = |name: &str, names: &[&str]| {
            let number = number(name)?;
            let known = usize::try_from(number).ok().and_then(|at| names.get(at));
            Some(known.map_or_else(|| format!("{number:#x}"), |name| (*name).to_owned()))
        };
        Some(FirmwareResource {
            class: text("fw_class")?,
            kind: named("fw_type", &RESOURCE_TYPES),
            version: number("fw_version"),
            lowest_supported_version: number("lowest_supported_fw_version"),
            last_attempt_version: number("last_attempt_version"),
            last_attempt_status: named("last_attempt_status", &STATUSES),
        })
    };
    let mut found: Vec<FirmwareResource> = root.list(&entries).into_iter().filter_map(resource).collect();
    order::sort(&mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn what_uefi_can_update() {
        let tree =
            Tree::new(&[("sys/firmware/efi/fw_platform_size", "64\n"), ("sys/class/dmi/id/bios_version", "2.1\n")]);
        for (entry, class, status) in [("entry0", "ddc0ee61", "0"), ("entry1", "3778c5ab", "12")] {
            let dir = format!("sys/firmware/efi/esrt/entries/{entry}");
            for (name, text) in
                [("fw_class", class), ("fw_type", "1"), ("fw_version", "65586"), ("last_attempt_status", status)]
            {
                tree.add(&format!("{dir}/{name}"), format!("{text}\n"));
            }
        }
        let found = firmware(&tree.root(), &Smbios::default());
        assert_eq!((found.boot_mode.as_deref(), found.uefi_bits), (Some("uefi"), Some(64)));
        assert_eq!(found.bios.unwrap().version.as_deref(), Some("2.1"));
        let [first, second] = &found.resources[..] else { panic!() };
        assert_eq!((first.class.as_str(), first.last_attempt_status.as_deref()), ("3778c5ab", Some("0xc")));
        assert_eq!((second.kind.as_deref(), second.version), (Some("system firmware"), Some(65586)));
        assert_eq!(second.last_attempt_status.as_deref(), Some("success"));
        assert_eq!(firmware(&Tree::new(&[]).root(), &Smbios::default()), Firmware::default());
    }
}
