//! Who uses a block device: mounts and swap on it, on its partitions, and on whatever is stacked on them.

use super::device::Device;
use crate::{Root, mounts::Mount};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

const BTRFS: &str = "/sys/fs/btrfs";

/// What a device is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Mounted here.
    Mount(String),
    /// In use as swap area.
    Swap,
}

/// All uses of all devices.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Kernel name to its direct uses, in the mount table's order.
    direct: BTreeMap<String, Vec<Use>>,
    /// Kernel name to what is stacked on it: holders and partitions.
    above: BTreeMap<String, Vec<String>>,
}

impl Usage {
    pub fn new(root: &Root, devices: &[Device], mounts: &[Mount], swaps: &[String]) -> Self {
        let names = Names::new(devices);
        let mut usage = Self::default();
        for device in devices {
            let partitions = device.partitions.iter().map(|partition| partition.name.clone());
            usage.above.insert(device.name.clone(), device.holders.iter().cloned().chain(partitions).collect());
            for partition in &device.partitions {
                usage.above.insert(partition.name.clone(), partition.holders.clone());
            }
        }
        let pools = if mounts.iter().any(|mount| mount.kind == "btrfs") { btrfs_pools(root) } else { Vec::new() };
        for mount in mounts {
            // The number is the kernel's word; file systems without one of their own (btrfs) have only the source's text.
            let name = names.by_number.get(&mount.device).copied().or_else(|| names.by_source(root, &mount.source));
            let Some(name) = name else { continue };
            let pool = if mount.kind == "btrfs" { pools.iter().find(|pool| pool.contains(name)) } else { None };
            let others = pool.into_iter().flatten().map(String::as_str).filter(|other| *other != name);
            for name in std::iter::once(name).chain(others) {
                usage.direct.entry(name.to_owned()).or_default().push(Use::Mount(mount.target.clone()));
            }
        }
        for swap in swaps {
            if let Some(name) = names.by_source(root, swap) {
                usage.direct.entry(name.to_owned()).or_default().push(Use::Swap);
            }
        }
        usage
    }

    /// Uses of the device itself.
    pub fn direct(&self, name: &str) -> &[Use] {
        self.direct.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The first use of each of these devices and of those stacked on them, however high, with the name of the device that
    /// is used.
    pub fn stacked<'a>(&'a self, holders: &'a [String]) -> Vec<(&'a str, &'a Use)> {
        let mut seen = BTreeSet::new();
        let mut todo: Vec<&str> = holders.iter().rev().map(String::as_str).collect();
        let mut found = Vec::new();
        while let Some(name) = todo.pop() {
            if !seen.insert(name) {
                continue;
            }
            if let Some(first) = self.direct(name).first() {
                found.push((name, first));
            }
            todo.extend(self.above.get(name).into_iter().flatten().rev().map(String::as_str));
        }
        found
    }
}

/// Kernel names of the devices of each btrfs in use. The mount table names but one of them.
fn btrfs_pools(root: &Root) -> Vec<BTreeSet<String>> {
    let devices = |id: String| root.list(format!("{BTRFS}/{id}/devices")).into_iter().collect::<BTreeSet<_>>();
    root.list(BTRFS).into_iter().map(devices).filter(|pool| pool.len() > 1).collect()
}

/// Kernel names by all that a mount table may say instead.
struct Names<'a> {
    by_number: BTreeMap<(u32, u32), &'a str>,
    by_node: BTreeMap<PathBuf, &'a str>,
}

impl<'a> Names<'a> {
    fn new(devices: &'a [Device]) -> Self {
        let (mut by_number, mut by_node) = (BTreeMap::new(), BTreeMap::new());
        for device in devices {
            by_node.insert(device.node(), device.name.as_str());
            if !device.dm_name.is_empty() {
                by_node.insert(Path::new("/dev/mapper").join(&device.dm_name), device.name.as_str());
            }
            by_number.extend(device.number.map(|number| (number, device.name.as_str())));
            for partition in &device.partitions {
                by_node.insert(Path::new("/dev").join(partition.name.replace('!', "/")), partition.name.as_str());
                by_number.extend(partition.number.map(|number| (number, partition.name.as_str())));
            }
        }
        Self { by_number, by_node }
    }

    /// `/dev/sda1`, `/dev/mapper/vg-lv`, or a link to one such as `/dev/disk/by-uuid/…`.
    fn by_source(&self, root: &Root, source: &str) -> Option<&'a str> {
        let path = Path::new(source);
        if !path.starts_with("/dev") {
            return None;
        }
        let known = |path: &Path| self.by_node.get(path).copied();
        known(path).or_else(|| known(&root.link_target(path)?))
    }
}
