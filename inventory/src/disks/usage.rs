//! Who uses a block device: mounts and swap on it, on its partitions, and on whatever is stacked on them.

use super::device::Device;
use crate::Root;
use kernel::order::Gather;
use kernel::{DevNumber, block, mounts::Mount};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// What a device is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
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
    pub(super) fn new(root: &Root, devices: &[Device], mounts: &[Mount], swaps: &[String]) -> Self {
        let names = Names::new(devices);
        let mut usage = Self::default();
        for device in devices {
            let partitions = device.partitions.iter().map(|partition| partition.name.clone());
            usage.above.insert(device.name.clone(), device.holders.iter().cloned().chain(partitions).collect());
            for partition in &device.partitions {
                usage.above.insert(partition.name.clone(), partition.holders.clone());
            }
        }
        let is_mounted = |kind: &str| mounts.iter().any(|mount| mount.kind == kind);
        let kinds = ["btrfs", "bcachefs"].into_iter().filter(|kind| is_mounted(kind));
        let pools: Vec<_> = kinds.flat_map(|kind| pools(root, kind)).collect();
        for mount in mounts {
            // The number is the kernel's; file systems without their own number (btrfs, bcachefs) have only the source's
            // text.
            let named = match names.by_number.get(&mount.device) {
                Some(name) => vec![*name],
                None => sources(mount).filter_map(|source| names.by_source(root, source)).collect(),
            };
            let is_same = |pool: &&Pool| {
                pool.kind == mount.kind
                    && (named.iter().any(|name| pool.devices.contains(*name)) || mount.source.contains(&pool.id))
            };
            let pool = pools.iter().find(is_same).into_iter().flat_map(|pool| &pool.devices).map(String::as_str);
            for name in named.iter().copied().chain(pool).gather::<BTreeSet<_>>() {
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
    pub(super) fn direct(&self, name: &str) -> &[Use] {
        self.direct.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The first use of each of these devices and of those stacked on them, however high, with the name of the device that
    /// is used.
    pub(super) fn stacked<'a>(&'a self, holders: &'a [String]) -> Vec<(&'a str, &'a Use)> {
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

/// A file system in use that lies on several devices.
struct Pool {
    kind: &'static str,
    id: String,
    devices: BTreeSet<String>,
}

/// What a mount table names as the source. That of a bcachefs has all its devices in one text: `/dev/sda:/dev/sdb`.
fn sources(mount: &Mount) -> impl Iterator<Item = &str> {
    let end = if mount.kind == "bcachefs" { ':' } else { '\0' };
    mount.source.split(end)
}

/// The file systems of this kind in use. The mount table names only one device of a btrfs; sysfs lists all by name. Those
/// of a bcachefs are links.
fn pools(root: &Root, kind: &str) -> Vec<Pool> {
    let name = |device: &PathBuf| {
        let device = if kind == "btrfs" { device.to_owned() } else { root.link_target(device)? };
        Some(device.file_name()?.to_str()?.to_owned())
    };
    let pool = |pool: block::Pool| Pool {
        kind: pool.kind,
        devices: pool.devices.iter().filter_map(name).collect(),
        id: pool.id,
    };
    let at_least = if kind == "btrfs" { 2 } else { 1 };
    let pools = block::pools(root, kind).into_iter().map(pool);
    pools.filter(|pool| pool.devices.len() >= at_least).collect()
}

/// Kernel names by all that a mount table may say instead.
struct Names<'a> {
    by_number: BTreeMap<DevNumber, &'a str>,
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
