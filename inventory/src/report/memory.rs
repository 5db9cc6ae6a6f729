//! Memory: the modules the firmware tells of, and the errors the kernel counted.

use crate::{
    Root, possible_bytes,
    smbios::{MemoryArray, MemoryDevice, Smbios},
};
use kernel::order::Gather;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const CONTROLLERS: &str = "/sys/devices/system/edac/mc";
/// Modules of one controller.
const MAX_MODULES: usize = 1024;

/// The memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Memory {
    /// Sum of all modules of the system memory, bytes (SMBIOS type 17).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_bytes: Option<u64>,
    /// What the kernel can allocate, bytes (MemTotal of /proc/meminfo).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable_bytes: Option<u64>,
    /// The most the board supports, bytes (SMBIOS type 16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_capacity_bytes: Option<u64>,
    /// Sockets with a module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub populated_sockets: Option<u32>,
    /// Sockets without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_sockets: Option<u32>,
    /// Whether errors are corrected, as the firmware reports for the system memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// Facts in which the modules differ that should be the same for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatches: Vec<Mismatch>,
    /// Sockets whose module runs slower than it could, by bank and locator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below_rated_speed: Vec<String>,
    /// Sets of sockets, in the firmware's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<MemoryArray>,
    /// Modules and empty sockets, in the firmware's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<MemoryDevice>,
    /// Memory controllers whose errors the kernel counts (EDAC).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<MemoryController>,
}

/// A fact of the modules with more than one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mismatch {
    /// Name of the fact.
    pub name: String,
    /// Its values, sorted.
    pub values: Vec<String>,
}

/// A memory controller (/sys/devices/system/edac/mc; Documentation/admin-guide/RAS/main.rst).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryController {
    /// The kernel's name of it: `mc0`.
    pub name: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Memory it has, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Errors corrected since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_errors: Option<u64>,
    /// Errors that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_errors: Option<u64>,
    /// Its modules or their ranks, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<CountedModule>,
}

/// A module, or a rank of one, whose errors are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CountedModule {
    /// The kernel's name of it: `dimm0`, `rank3`.
    pub name: String,
    /// The driver's label, at best that of the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Where it is: `channel 0 slot 1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Size, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// How errors are found and corrected: `SECDED`, `S4ECD4ED`, `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_correction: Option<String>,
    /// Errors corrected since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_errors: Option<u64>,
    /// Errors that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_errors: Option<u64>,
}

pub(super) fn memory(root: &Root, smbios: &Smbios) -> Memory {
    let devices = smbios.memory_devices();
    let arrays = smbios.memory_arrays();
    let modules = system_devices(&devices, &arrays);
    let sockets = |wanted| {
        let count = modules.iter().filter(|device| device.installed == Some(wanted)).count();
        u32::try_from(count).ok().filter(|_| !modules.is_empty())
    };
    let system: Vec<&MemoryArray> =
        arrays.iter().filter(|array| array.usage.as_deref() == Some("System Memory")).collect();
    let capacity = system.iter().filter_map(|array| array.maximum_capacity_bytes).fold(0, u64::saturating_add);
    let usable = root.text("/proc/meminfo", 64 << 10);
    Memory {
        installed_bytes: modules
            .iter()
            .filter_map(|device| device.size_bytes)
            .reduce(u64::saturating_add)
            .and_then(possible_bytes),
        usable_bytes: usable.and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB").and_then(kib)
        }),
        maximum_capacity_bytes: Some(capacity).filter(|bytes| *bytes > 0).and_then(possible_bytes),
        populated_sockets: sockets(true),
        empty_sockets: sockets(false),
        ecc: ecc(&system),
        mismatches: mismatches(&modules),
        below_rated_speed: below_rated_speed(&modules),
        controllers: controllers(root),
        arrays,
        devices,
    }
}

/// The modules and empty sockets of the system memory.
pub(super) fn modules(memory: &Memory) -> Vec<&MemoryDevice> {
    system_devices(&memory.devices, &memory.arrays)
}

/// The devices of the system memory: boards also list their flash, video and cache memory.
fn system_devices<'a>(devices: &'a [MemoryDevice], arrays: &[MemoryArray]) -> Vec<&'a MemoryDevice> {
    let is_other = |device: &&MemoryDevice| {
        let array = arrays.iter().find(|array| Some(array.handle) == device.array_handle);
        array.and_then(|array| array.usage.as_deref()).is_some_and(|usage| usage != "System Memory")
    };
    devices.iter().filter(|device| !is_other(device)).collect()
}

/// Unknown while one array's is unknown, unless another has none.
fn ecc(system: &[&MemoryArray]) -> Option<bool> {
    let has_ecc = |array: &&MemoryArray| match array.error_correction.as_deref()? {
        "Single-bit ECC" | "Multi-bit ECC" => Some(true),
        "None" | "Parity" | "CRC" => Some(false),
        _ => None,
    };
    let both = |a, b| match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    };
    system.iter().map(has_ecc).reduce(both).flatten()
}

fn kib(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok()?.checked_mul(1024).and_then(possible_bytes)
}

/// What should be the same for all modules. Ranks and sizes may differ by design, and are worth a look all the same.
fn mismatches(devices: &[&MemoryDevice]) -> Vec<Mismatch> {
    type Fact = fn(&MemoryDevice) -> Option<String>;
    const FACTS: [(&str, Fact); 6] = [
        ("configured_speed_mts", |device| Some(device.configured_speed_mts?.to_string())),
        ("memory_type", |device| device.memory_type.clone()),
        ("part_number", |device| device.part_number.clone()),
        ("rank", |device| Some(device.rank?.to_string())),
        ("size_bytes", |device| Some(device.size_bytes?.to_string())),
        ("speed_mts", |device| Some(device.speed_mts?.to_string())),
    ];
    let installed = || devices.iter().filter(|device| device.installed == Some(true));
    let mismatch = |(name, fact): (&str, Fact)| {
        let values: BTreeSet<String> = installed().filter_map(|device| fact(device)).gather();
        (values.len() > 1).then(|| Mismatch { name: name.to_owned(), values: values.into_iter().collect() })
    };
    FACTS.into_iter().filter_map(mismatch).collect()
}

fn below_rated_speed(devices: &[&MemoryDevice]) -> Vec<String> {
    let is_slow = |device: &&&MemoryDevice| {
        device.installed == Some(true)
            && device.configured_speed_mts.zip(device.speed_mts).is_some_and(|(configured, rated)| configured < rated)
    };
    // Some firmware uses one name for every socket of a bank.
    let name = |device: &MemoryDevice| {
        let parts: Vec<&str> =
            [&device.bank_locator, &device.locator].into_iter().flatten().map(String::as_str).collect();
        parts.join(" ")
    };
    devices.iter().filter(is_slow).map(|device| name(device)).collect()
}

pub(super) fn controllers(root: &Root) -> Vec<MemoryController> {
    let is_numbered = |name: &str, prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let names = root.list(CONTROLLERS).into_iter().filter(|name| is_numbered(name, "mc"));
    let controller = |name: String| {
        let dir = format!("{CONTROLLERS}/{name}");
        let modules = root.list(&dir).into_iter().filter(|name| is_numbered(name, "dimm") || is_numbered(name, "rank"));
        MemoryController {
            model: root.attribute(format!("{dir}/mc_name")),
            size_bytes: mib(root, &format!("{dir}/size_mb")),
            corrected_errors: root.number(format!("{dir}/ce_count")),
            uncorrected_errors: root.number(format!("{dir}/ue_count")),
            modules: modules.take(MAX_MODULES).map(|name| module(root, &dir, name)).collect(),
            name,
        }
    };
    names.map(controller).collect()
}

fn module(root: &Root, controller: &str, name: String) -> CountedModule {
    let dir = format!("{controller}/{name}");
    let text = |name: &str| root.attribute(format!("{dir}/{name}")).filter(|text| !text.is_empty());
    CountedModule {
        label: text("dimm_label"),
        location: text("dimm_location"),
        size_bytes: mib(root, &format!("{dir}/size")),
        error_correction: text("dimm_edac_mode"),
        corrected_errors: root.number(format!("{dir}/dimm_ce_count")),
        uncorrected_errors: root.number(format!("{dir}/dimm_ue_count")),
        name,
    }
}

fn mib(root: &Root, path: &str) -> Option<u64> {
    root.number::<u64>(path)?.checked_mul(1 << 20).and_then(possible_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn module_of(locator: &str, speeds: (u32, u32), part: &str) -> MemoryDevice {
        MemoryDevice {
            locator: Some(locator.to_owned()),
            bank_locator: Some("bank".to_owned()),
            installed: Some(true),
            speed_mts: Some(speeds.0),
            configured_speed_mts: Some(speeds.1),
            part_number: Some(part.to_owned()),
            ..MemoryDevice::default()
        }
    }

    #[test]
    fn modules_that_differ() {
        let empty = MemoryDevice { installed: Some(false), speed_mts: Some(1), ..MemoryDevice::default() };
        let mut devices = vec![module_of("A1", (3200, 2933), "X"), module_of("B1", (2933, 2933), "X"), empty];
        let of = |devices: &[MemoryDevice]| {
            (below_rated_speed(&system_devices(devices, &[])), mismatches(&system_devices(devices, &[])))
        };
        let (slow, found) = of(&devices);
        assert_eq!(slow, ["bank A1"]);
        assert_eq!(
            (found.len(), found[0].name.as_str(), found[0].values.join(" ")),
            (1, "speed_mts", "2933 3200".to_owned())
        );
        devices[1] = module_of("B1", (3200, 2933), "X");
        assert_eq!(of(&devices).1, []);
    }

    #[test]
    fn the_boards_flash_is_no_module() {
        let array =
            |handle, usage: &str| MemoryArray { handle, usage: Some(usage.to_owned()), ..MemoryArray::default() };
        let arrays = [array(1, "System Memory"), array(2, "Flash Memory")];
        let of = |array_handle| MemoryDevice { array_handle, ..module_of("A1", (1, 1), "X") };
        let devices = [of(Some(1)), of(Some(2)), of(Some(3)), of(None)];
        let found: Vec<_> = system_devices(&devices, &arrays).iter().map(|device| device.array_handle).collect();
        assert_eq!(found, [Some(1), Some(3), None]);
    }

    #[test]
    fn the_firmware_says_whether_errors_are_corrected() {
        let array =
            |correction| [&[16, 15, 0, 0, 3, 3, correction][..], &[0, 0, 0, 1, 0xfe, 0xff, 4, 0, 0, 0]].concat();
        let ecc = |table: Vec<u8>| memory(&Tree::new(&[]).root(), &Smbios::parse(table)).ecc;
        assert_eq!(ecc(array(6)), Some(true));
        assert_eq!(ecc(array(3)), Some(false));
        assert_eq!(ecc([array(6), array(3)].concat()), Some(false));
        assert_eq!(ecc([array(2), array(3)].concat()), Some(false));
        // Unknown, other, and what no specification knows.
        for untold in [1, 2, 0, 99] {
            assert_eq!((ecc(array(untold)), ecc([array(6), array(untold)].concat())), (None, None), "{untold}");
        }
        let found = memory(&Tree::new(&[]).root(), &Smbios::parse(array(5)));
        assert_eq!(
            (found.ecc, found.maximum_capacity_bytes, found.populated_sockets),
            (Some(true), Some(16 << 30), None)
        );
    }

    #[test]
    fn errors_the_kernel_counted() {
        let mc = "sys/devices/system/edac/mc/mc0";
        let tree = Tree::new(&[("proc/meminfo", "MemTotal:       16384 kB\n")]);
        for (name, text) in [
            ("mc_name", "Skylake Socket#0 IMC#0\n"),
            ("size_mb", "65536\n"),
            ("ce_count", "3\n"),
            ("ue_count", "0\n"),
            ("dimm0/dimm_label", "CPU_SrcID#0_MC#0_Chan#0_DIMM#0\n"),
            ("dimm0/size", "32768\n"),
            ("dimm0/dimm_ce_count", "3\n"),
            ("power/control", "auto\n"),
        ] {
            tree.add(&format!("{mc}/{name}"), text);
        }
        let found = memory(&tree.root(), &Smbios::default());
        let controller = &found.controllers[0];
        assert_eq!((controller.name.as_str(), controller.size_bytes), ("mc0", Some(64 << 30)));
        assert_eq!((controller.corrected_errors, controller.uncorrected_errors), (Some(3), Some(0)));
        assert_eq!((controller.modules.len(), controller.modules[0].corrected_errors), (1, Some(3)));
        assert_eq!(controller.modules[0].uncorrected_errors, None);
        assert_eq!((found.usable_bytes, found.installed_bytes, found.empty_sockets), (Some(16 << 20), None, None));
        assert_eq!(memory(&Tree::new(&[]).root(), &Smbios::default()), Memory::default());
    }
}
