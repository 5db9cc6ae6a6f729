//! A block device as sysfs and udev know it.

use super::udev::Udev;
use crate::Root;
use std::path::PathBuf;

const BLOCK: &str = "/sys/block";

/// A whole device: an entry of `/sys/block`.
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// Kernel name.
    pub name: String,
    /// Major and minor number.
    pub number: Option<(u32, u32)>,
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
    pub udev: Udev,
}

/// A partition of a device.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub name: String,
    pub number: Option<(u32, u32)>,
    pub holders: Vec<String>,
    /// Name in the partition table, if it has any.
    pub label: String,
}

/// All block devices, by kernel name.
pub(super) fn devices(root: &Root) -> Vec<Device> {
    root.list(BLOCK).into_iter().filter_map(|name| Device::read(root, name)).collect()
}

impl Device {
    fn read(root: &Root, name: String) -> Option<Self> {
        let dir = format!("{BLOCK}/{name}");
        let sys = root.resolve(&dir).filter(|sys| root.is_dir(sys))?;
        let attribute = |file: &str| root.attribute(format!("{dir}/{file}"));
        let number = attribute("dev").and_then(|text| parse_number(&text));
        let partitions = root
            .list(&dir)
            .into_iter()
            .filter(|part| part.starts_with(&name) && root.is_dir(format!("{dir}/{part}")))
            .map(|part| Partition::read(root, &format!("{dir}/{part}"), part))
            .collect();
        Some(Self {
            number,
            size_bytes: attribute("size").and_then(|text| text.parse::<u64>().ok()?.checked_mul(512)).unwrap_or(0),
            holders: root.list(format!("{dir}/holders")),
            partitions,
            dm_name: attribute("dm/name").unwrap_or_default(),
            dm_uuid: attribute("dm/uuid").unwrap_or_default(),
            is_hidden: attribute("hidden").as_deref() == Some("1"),
            udev: number.map(|number| Udev::read(root, number)).unwrap_or_default(),
            name,
            sys,
        })
    }

    /// An attribute below the device's directory, without surrounding white space; `None` if it is empty.
    pub fn attribute(&self, root: &Root, file: &str) -> Option<String> {
        root.attribute(self.sys.join(file)).filter(|text| !text.is_empty())
    }

    /// Its node in `/dev`, where a `!` of the kernel's name is a directory.
    pub fn node(&self) -> PathBuf {
        PathBuf::from("/dev").join(self.name.replace('!', "/"))
    }

    pub fn is_multipath(&self) -> bool {
        self.dm_uuid.starts_with("mpath-")
    }

    pub fn is_lvm(&self) -> bool {
        self.dm_uuid.starts_with("LVM-")
    }

    /// SCSI address, such as `0:0:0:0`.
    pub fn hctl(&self, root: &Root) -> Option<String> {
        let listed = root.list(self.sys.join("device/scsi_device")).into_iter().next();
        listed.or_else(|| {
            let device = self.sys.parent()?.parent()?.file_name()?.to_str()?;
            is_hctl(device).then(|| device.to_owned())
        })
    }

    /// The nearest directory above it that is called so with a number behind, such as `host2` or `session1`.
    pub fn ancestor(&self, kind: &str) -> Option<&str> {
        let numbered = |name: &&str| {
            name.strip_prefix(kind).is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.sys.iter().rev().filter_map(|name| name.to_str()).find(numbered)
    }
}

impl Partition {
    fn read(root: &Root, dir: &str, name: String) -> Self {
        let number = root.attribute(format!("{dir}/dev")).and_then(|text| parse_number(&text));
        let udev = number.map(|number| Udev::read(root, number)).unwrap_or_default();
        let uevent = root.text(format!("{dir}/uevent"), 4096).unwrap_or_default();
        let kernel_label = uevent.lines().find_map(|line| line.strip_prefix("PARTNAME="));
        let label = udev.get("ID_PART_ENTRY_NAME").or(kernel_label).unwrap_or_default().to_owned();
        Self { name, number, holders: root.list(format!("{dir}/holders")), label }
    }
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Host, channel, target and LUN.
fn is_hctl(name: &str) -> bool {
    let parts: Vec<_> = name.split(':').collect();
    parts.len() == 4 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}
