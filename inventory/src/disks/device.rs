//! A block device as sysfs and udev know it.

use super::WANTED;
use crate::Root;
use kernel::{DevNumber, udev::Udev};
use std::path::{Path, PathBuf};

const BLOCK: &str = "/sys/block";

/// A whole device: an entry of `/sys/block`.
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// Kernel name.
    pub name: String,
    /// Major and minor number.
    pub number: Option<DevNumber>,
    pub size_bytes: u64,
    /// Directory in sysfs, links resolved.
    pub sys: PathBuf,
    /// Kernel names of the devices on top of it, sorted.
    pub holders: Vec<String>,
    pub partitions: Vec<Partition>,
    /// Device mapper's name and UUID; empty for others.
    pub dm_name: String,
    pub dm_uuid: String,
    /// A leg of an NVMe multipath device.
    pub is_hidden: bool,
    /// Write-protected, by a switch, by its nature or on demand.
    pub is_read_only: bool,
    pub udev: Udev,
}

/// A partition of a device.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub name: String,
    pub number: Option<DevNumber>,
    pub holders: Vec<String>,
    /// Name in the partition table, if it has any.
    pub label: String,
    pub udev: Udev,
}

/// All block devices, by kernel name.
pub(super) fn devices(root: &Root) -> Vec<Device> {
    root.list(BLOCK).into_iter().filter_map(|name| Device::read(root, name)).collect()
}

impl Device {
    fn read(root: &Root, name: String) -> Option<Self> {
        // Without the link, the kernel finds each file below it in fewer steps.
        let sys = root.resolve(format!("{BLOCK}/{name}"))?;
        // One directory tells which of the files are worth opening.
        let entries = root.list(&sys);
        let has = |file: &str| entries.binary_search_by(|entry| entry.as_str().cmp(file)).is_ok();
        if entries.is_empty() && !root.is_dir(&sys) {
            return None;
        }
        let attribute = |file: &str| if has(file) { root.attribute(sys.join(file)) } else { None };
        let of_mapper = |file: &str| if has("dm") { root.attribute(sys.join(file)) } else { None };
        let is_set = |file: &str| attribute(file).as_deref() == Some("1");
        let number = attribute("dev").and_then(|text| DevNumber::parse(&text));
        let partitions = entries
            .iter()
            .filter(|part| part.starts_with(&name))
            .filter_map(|part| Partition::read(root, &sys.join(part), part))
            .collect();
        Some(Self {
            number,
            size_bytes: attribute("size").and_then(|text| sector_bytes(&text)).unwrap_or(0),
            holders: if has("holders") { root.list(sys.join("holders")) } else { Vec::new() },
            partitions,
            dm_name: of_mapper("dm/name").unwrap_or_default(),
            dm_uuid: of_mapper("dm/uuid").unwrap_or_default(),
            is_hidden: is_set("hidden"),
            is_read_only: is_set("ro"),
            udev: number.map(|number| Udev::read(root, number, &WANTED)).unwrap_or_default(),
            name,
            sys,
        })
    }

    /// An attribute below the device's directory, without surrounding white space; `None` if it is empty.
    pub(super) fn attribute(&self, root: &Root, file: &str) -> Option<String> {
        root.attribute(self.sys.join(file)).filter(|text| !text.is_empty())
    }

    /// Its node in `/dev`, where a `!` of the kernel's name is a directory.
    pub(super) fn node(&self) -> PathBuf {
        PathBuf::from("/dev").join(self.name.replace('!', "/"))
    }

    pub(super) fn is_multipath(&self) -> bool {
        self.dm_uuid.starts_with("mpath-")
    }

    pub(super) fn is_lvm(&self) -> bool {
        self.dm_uuid.starts_with("LVM-")
    }

    /// SCSI address, such as `0:0:0:0`.
    pub(super) fn hctl(&self, root: &Root) -> Option<String> {
        let listed = root.list(self.sys.join("device/scsi_device")).into_iter().next();
        listed.or_else(|| {
            let device = self.sys.parent()?.parent()?.file_name()?.to_str()?;
            is_hctl(device).then(|| device.to_owned())
        })
    }

    /// The nearest directory above it that is called so with a number behind, such as `host2` or `session1`.
    pub(super) fn ancestor(&self, kind: &str) -> Option<&str> {
        let numbered = |name: &&str| {
            name.strip_prefix(kind).is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.sys.iter().rev().filter_map(|name| name.to_str()).find(numbered)
    }
}

impl Partition {
    fn read(root: &Root, dir: &Path, name: &str) -> Option<Self> {
        if !root.is_dir(dir) {
            return None;
        }
        let number = root.attribute(dir.join("dev")).and_then(|text| DevNumber::parse(&text));
        let udev = number.map(|number| Udev::read(root, number, &WANTED)).unwrap_or_default();
        let kernel_label = || {
            let uevent = root.text(dir.join("uevent"), 4096)?;
            Some(uevent.lines().find_map(|line| line.strip_prefix("PARTNAME="))?.to_owned())
        };
        let label = udev.get("ID_PART_ENTRY_NAME").map(str::to_owned).or_else(kernel_label).unwrap_or_default();
        Some(Self { name: name.to_owned(), number, holders: root.list(dir.join("holders")), label, udev })
    }
}

/// Bytes of so many sectors of 512.
pub(crate) fn sector_bytes(count: &str) -> Option<u64> {
    count.parse::<u64>().ok()?.checked_mul(512).and_then(crate::possible_bytes)
}

/// Host, channel, target and LUN.
fn is_hctl(name: &str) -> bool {
    let parts: Vec<_> = name.split(':').collect();
    parts.len() == 4 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}
