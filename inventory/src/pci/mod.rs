//! What the PCI bus says of its functions: what they are, where they sit, how fast their links run.

mod link;
pub(crate) mod names;
pub(crate) mod vpd;

pub use link::Link;
pub use vpd::Vpd;

use crate::Root;
use kernel::order::Gather;
use names::{Ids, Names};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

pub(crate) const DEVICES: &str = "/sys/bus/pci/devices";

/// A PCI function, from /sys/bus/pci/devices. Names are those of the machine's pci.ids, and absent without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Function {
    /// Domain, bus, device and function: `0000:3b:00.0`.
    pub address: String,
    /// Base class, subclass and programming interface, 6 hex digits: `010802`.
    pub class_id: String,
    /// Name of the class: `Non-Volatile memory controller`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Name of the programming interface: `NVM Express`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programming_interface: Option<String>,
    /// Maker of the chip, 4 hex digits.
    pub vendor_id: String,
    /// The chip, 4 hex digits.
    pub device_id: String,
    /// Maker of the card, 4 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem_vendor_id: Option<String>,
    /// The card, 4 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem_device_id: Option<String>,
    /// Name of the chip's maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Name of the chip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Name of the card's maker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem_vendor: Option<String>,
    /// Name of the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem_device: Option<String>,
    /// Revision of the chip, 2 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Name the firmware gives to the function, such as the print on the board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name of the physical slot, from /sys/bus/pci/slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Address of the bridge or port above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Driver that is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// NUMA node it is attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// IOMMU group: what can only be handed to a guest together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu_group: Option<u32>,
    /// Power state: D0 is awake, D3cold is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// PCI Express link. Of a port it is the link below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// SR-IOV of a physical function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sriov: Option<Sriov>,
    /// Address of the physical function this is a virtual function of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_function: Option<String>,
    /// Advanced Error Reporting counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aer: Option<Aer>,
    /// Vital product data: what the card's maker wrote into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpd: Option<Vpd>,
}

/// Single-root I/O virtualization of a physical function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sriov {
    /// Virtual functions the hardware can have, `sriov_totalvfs`.
    pub max_virtual_functions: u32,
    /// Virtual functions there are, `sriov_numvfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_functions: Option<u32>,
}

/// Errors counted since boot (PCI Express 6.2; Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Aer {
    /// Errors the link corrected by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correctable: Option<u64>,
    /// Errors that lost a transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonfatal: Option<u64>,
    /// Errors after which the link is unreliable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fatal: Option<u64>,
    /// Those that happened, by the specification's names such as `BadTLP`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, u64>,
}

/// All functions, by address.
pub(crate) fn functions(root: &Root) -> Vec<Function> {
    let slots = slots(root);
    let mut found: Vec<(Function, Ids)> = root
        .list(DEVICES)
        .into_iter()
        .filter_map(|address| {
            let function = function(root, &slots, &address);
            if function.is_none() {
                tracing::debug!(address, "a PCI function without a modalias is left out");
            }
            function
        })
        .collect();
    let names = Names::read(root, &found.iter().map(|(_, ids)| *ids).collect::<Vec<_>>());
    for (function, ids) in &mut found {
        let own = |name: Option<&str>| name.map(str::to_owned);
        function.class = own(names.class(ids));
        function.programming_interface = own(names.interface(ids));
        function.vendor = own(names.vendor(ids.vendor));
        function.device = own(names.device(ids.vendor, ids.device));
        function.subsystem_vendor = ids.subsystem.and_then(|(vendor, _)| own(names.vendor(vendor)));
        function.subsystem_device = own(names.subsystem(ids));
    }
    let mut functions: Vec<Function> = found.into_iter().map(|(function, _)| function).collect();
    link::judge(&mut functions);
    add_vpd(root, &mut functions);
    functions
}

/// The error counters of all functions that have some, by address. Asks no device.
pub(crate) fn counted_errors(root: &Root) -> Vec<(String, Aer)> {
    let counted = |address: String| {
        let errors = aer(|name| root.attribute(format!("{DEVICES}/{address}/{name}")))?;
        Some((address, errors))
    };
    root.list(DEVICES).into_iter().filter_map(counted).collect()
}

/// All functions are asked at once. One that is off would be woken by it.
fn add_vpd(root: &Root, functions: &mut [Function]) {
    let dir = |function: &Function| {
        let dir = root.resolve(format!("{DEVICES}/{}", function.address))?.to_string_lossy().into_owned();
        let is_asked = function.power_state.as_deref() != Some("D3cold") && root.exists(format!("{dir}/vpd"));
        is_asked.then_some(dir)
    };
    let (asked, dirs): (Vec<_>, Vec<_>) =
        functions.iter_mut().filter_map(|function| dir(function).map(|dir| (function, dir))).unzip();
    for (function, vpd) in asked.into_iter().zip(vpd::read(root, &dirs)) {
        function.vpd = vpd;
    }
}

/// Reads these bytes as a card's vital product data.
pub(crate) fn fuzz_vpd(bytes: &[u8]) {
    vpd::parse(bytes);
    vpd::secrets(bytes);
    vpd::correct(&mut bytes.to_vec());
}

fn function(root: &Root, slots: &BTreeMap<String, String>, address: &str) -> Option<(Function, Ids)> {
    let dir = root.resolve(format!("{DEVICES}/{address}"))?;
    let text = |name: &str| root.attribute(dir.join(name)).filter(|text| !text.is_empty());
    let ids = parse_modalias(&text("modalias")?)?;
    let last = |name: &str| Some(root.link_target(dir.join(name))?.file_name()?.to_str()?.to_owned());
    let power_state = text("power_state").filter(|state| state != "unknown");
    let [base, sub, interface] = ids.class;
    let function = Function {
        address: address.to_owned(),
        class_id: format!("{base:02x}{sub:02x}{interface:02x}"),
        vendor_id: format!("{:04x}", ids.vendor),
        device_id: format!("{:04x}", ids.device),
        subsystem_vendor_id: ids.subsystem.map(|(vendor, _)| format!("{vendor:04x}")),
        subsystem_device_id: ids.subsystem.map(|(_, device)| format!("{device:04x}")),
        revision: text("revision").and_then(|hex| hex.strip_prefix("0x").map(str::to_owned)),
        label: text("label"),
        slot: address.rsplit_once('.').and_then(|(device, _)| slots.get(device)).cloned(),
        parent: parent(&dir),
        driver: last("driver"),
        // -1 stands for a machine without nodes.
        numa_node: text("numa_node").and_then(|node| node.parse().ok()),
        iommu_group: last("iommu_group").and_then(|group| group.parse().ok()),
        // A device that is off would be woken by it.
        link: if power_state.as_deref() == Some("D3cold") { None } else { link::read(root, &dir) },
        power_state,
        sriov: text("sriov_totalvfs").and_then(|count| count.parse().ok()).filter(|count| *count > 0).map(|count| {
            Sriov { max_virtual_functions: count, virtual_functions: root.number(dir.join("sriov_numvfs")) }
        }),
        physical_function: last("physfn"),
        aer: aer(text),
        ..Function::default()
    };
    Some((function, ids))
}

/// Slots by the address of what is in them, without its function: `0000:3b:00`.
fn slots(root: &Root) -> BTreeMap<String, String> {
    const SLOTS: &str = "/sys/bus/pci/slots";
    root.list(SLOTS)
        .into_iter()
        .filter_map(|name| Some((root.attribute(format!("{SLOTS}/{name}/address"))?, name)))
        .gather()
}

/// The bridge above, by the directories a function is in. Host bridges have no address.
fn parent(dir: &Path) -> Option<String> {
    let above = dir.parent()?.file_name()?.to_str()?;
    let is_address = above.len() >= 12 && above.contains('.') && above.split(':').count() == 3;
    is_address.then(|| above.to_owned())
}

/// `pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00`
pub(crate) fn parse_modalias(modalias: &str) -> Option<Ids> {
    let (vendor, rest) = hex(modalias.strip_prefix("pci:v")?, 8)?;
    let (device, rest) = hex(rest.strip_prefix('d')?, 8)?;
    let (subsystem_vendor, rest) = hex(rest.strip_prefix("sv")?, 8)?;
    let (subsystem_device, rest) = hex(rest.strip_prefix("sd")?, 8)?;
    let (base, rest) = hex(rest.strip_prefix("bc")?, 2)?;
    let (sub, rest) = hex(rest.strip_prefix("sc")?, 2)?;
    let (interface, _) = hex(rest.strip_prefix('i')?, 2)?;
    let id = |long| u16::try_from(long).ok();
    let byte = |long| u8::try_from(long).ok();
    // Bridges have no subsystem, and say so with zeros.
    let subsystem = id(subsystem_vendor).zip(id(subsystem_device)).filter(|ids| *ids != (0, 0));
    Some(Ids {
        vendor: id(vendor)?,
        device: id(device)?,
        subsystem,
        class: [byte(base)?, byte(sub)?, byte(interface)?],
    })
}

fn hex(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_hex = number.bytes().all(|b| b.is_ascii_hexdigit());
    Some((u32::from_str_radix(number, 16).ok().filter(|_| is_hex)?, rest))
}

fn aer(text: impl Fn(&str) -> Option<String>) -> Option<Aer> {
    let mut kinds = BTreeMap::new();
    let mut total = |name: &str| {
        let mut total = None;
        for line in text(name)?.lines() {
            let Some((kind, Ok(count))) = line.rsplit_once(' ').map(|(kind, count)| (kind, count.parse::<u64>()))
            else {
                continue;
            };
            if kind.starts_with("TOTAL_ERR") {
                total = Some(count);
            } else if count > 0 {
                let sum = kinds.entry(kind.to_owned()).or_insert(0u64);
                *sum = sum.saturating_add(count);
            }
        }
        total
    };
    let [correctable, nonfatal, fatal] = ["aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"].map(&mut total);
    (correctable.is_some() || nonfatal.is_some() || fatal.is_some()).then_some(Aer {
        correctable,
        nonfatal,
        fatal,
        kinds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn add(tree: &Tree, path: &str, modalias: &str, files: &[(&str, &str)]) {
        let address = path.rsplit('/').next().unwrap();
        tree.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../devices/{path}"));
        tree.add(&format!("sys/devices/{path}/modalias"), modalias);
        for (name, content) in files {
            tree.add(&format!("sys/devices/{path}/{name}"), content);
        }
    }

    const PORT: &str = "pci:v00008086d0000347Asv00000000sd00000000bc06sc04i00\n";
    const NIC: &str = "pci:v00008086d0000159Bsv00008086sd00000002bc02sc00i00\n";

    #[test]
    fn a_network_card_in_its_slot() {
        let tree = Tree::new(&[
            ("sys/bus/pci/slots/4/address", "0000:17:00\n"),
            ("usr/share/hwdata/pci.ids", "8086  Intel Corporation\n\t159b  E810-XXV\nC 02  Network controller\n"),
        ]);
        add(&tree, "pci0000:16/0000:16:02.0", PORT, &[("power_state", "D0\n")]);
        let path = "pci0000:16/0000:16:02.0/0000:17:00.0";
        let errors = "Undefined 0\nBadTLP 2\nTOTAL_ERR_COR 2\n";
        let files = [
            ("revision", "0x02\n"),
            ("numa_node", "1\n"),
            ("sriov_totalvfs", "128\n"),
            ("sriov_numvfs", "2\n"),
            ("aer_dev_correctable", errors),
            ("aer_dev_fatal", "DLP 0\nTOTAL_ERR_FATAL 0\n"),
        ];
        add(&tree, path, NIC, &files);
        tree.add(&format!("sys/devices/{path}/vpd"), vpd::tests::card("AC2401X00017"));
        tree.link(&format!("sys/devices/{path}/driver"), "../../../../bus/pci/drivers/ice");
        tree.link(&format!("sys/devices/{path}/iommu_group"), "../../../../kernel/iommu_groups/31");
        add(&tree, "pci0000:16/0000:16:02.0/0000:17:11.1", NIC, &[("numa_node", "-1\n")]);
        tree.link("sys/devices/pci0000:16/0000:16:02.0/0000:17:11.1/physfn", "../0000:17:00.0");
        add(&tree, "pci0000:16/0000:16:1f.0", "odd", &[]);
        let found = functions(&tree.root());
        assert_eq!(found.len(), 3);
        let (port, nic, virtual_function) = (&found[0], &found[1], &found[2]);
        assert_eq!((port.subsystem_vendor_id.as_ref(), port.parent.as_ref(), port.aer.as_ref()), (None, None, None));
        assert_eq!((nic.address.as_str(), nic.class_id.as_str()), ("0000:17:00.0", "020000"));
        assert_eq!((nic.vendor_id.as_str(), nic.subsystem_device_id.as_deref()), ("8086", Some("0002")));
        assert_eq!(nic.vendor.as_deref(), Some("Intel Corporation"));
        assert_eq!((nic.device.as_deref(), nic.class.as_deref()), (Some("E810-XXV"), Some("Network controller")));
        assert_eq!((nic.slot.as_deref(), nic.parent.as_deref()), (Some("4"), Some("0000:16:02.0")));
        assert_eq!((nic.driver.as_deref(), nic.numa_node, nic.iommu_group), (Some("ice"), Some(1), Some(31)));
        assert_eq!(nic.sriov, Some(Sriov { max_virtual_functions: 128, virtual_functions: Some(2) }));
        let vpd = nic.vpd.as_ref().unwrap();
        assert_eq!((vpd.serial_number.as_deref(), vpd.is_checksum_valid), (Some("AC2401X00017"), Some(true)));
        assert_eq!((&port.vpd, &virtual_function.vpd), (&None, &None));
        let aer = nic.aer.as_ref().unwrap();
        assert_eq!((aer.correctable, aer.nonfatal, aer.fatal), (Some(2), None, Some(0)));
        assert_eq!(aer.kinds, BTreeMap::from([("BadTLP".to_owned(), 2)]));
        assert_eq!(counted_errors(&tree.root()), [(nic.address.clone(), aer.clone())]);
        assert_eq!(virtual_function.physical_function.as_deref(), Some("0000:17:00.0"));
        assert_eq!(virtual_function.numa_node, None);
    }

    #[test]
    fn the_bus_below_a_volume_management_device_starts_anew() {
        let dir = |path: &str| parent(Path::new(path));
        assert_eq!(dir("/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0"), None);
        let below = dir("/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0");
        assert_eq!(below.as_deref(), Some("10000:e0:01.0"));
    }

    #[test]
    fn noise() {
        for bad in ["", "pci:", "usb:v1", "pci:v000010DEd000015F8", "pci:v000010DEd000015F8sv000010DEsd0000118Fbc0€"]
        {
            assert_eq!(parse_modalias(bad), None, "{bad}");
        }
    }
}
