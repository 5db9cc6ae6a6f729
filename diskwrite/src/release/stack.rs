//! What is stacked on a disk and its partitions: read from sysfs, by device numbers, without a look at any name.

use kernel::order::Gather;
use kernel::{
    DevNumber, Root,
    block::{MAX_STACK, Node, linked, nodes},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::Path,
};

/// No machine has more; a tree without end is not a tree.
const MAX_DEVICES: usize = 4096;

/// What kind of device lies on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// An LVM volume, or a hidden part of one.
    Lvm,
    /// A dm-crypt device: LUKS that was opened.
    Crypt,
    /// A partition that kpartx mapped.
    PartitionMap,
    Multipath,
    /// Another device of the device mapper.
    Mapped,
    /// An array of MD.
    Raid,
    Bcache,
    /// Something that can't be taken down from here.
    Unknown,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lvm => "LVM volume",
            Self::Crypt => "unlocked encryption",
            Self::PartitionMap => "partition of a multipath device",
            Self::Multipath => "multipath device",
            Self::Mapped => "device mapper device",
            Self::Raid => "RAID array",
            Self::Bcache => "bcache device",
            Self::Unknown => "device of unknown kind",
        })
    }
}

/// A device of the stack: the disk, one on it, or a partition of either.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub node: Node,
    /// None for the disk itself and for partitions.
    pub layer: Option<Layer>,
    /// Name and UUID of the device mapper; empty for others.
    pub mapper: (String, String),
    /// What it was found through: the device right below it, or the disk it is a partition of.
    pub from: Option<DevNumber>,
    /// Right above it.
    pub holders: Vec<DevNumber>,
    /// Right below it, whether part of the stack or not.
    pub slaves: Vec<DevNumber>,
    /// Disks and partitions far below it that do not belong to the named disk: kernel names.
    pub elsewhere: Vec<String>,
}

impl Device {
    /// For people: `sda3`, `dm-4 (vg0-root)`.
    pub(super) fn label(&self) -> String {
        match self.mapper.0.as_str() {
            "" => self.node.name.clone(),
            name => format!("{} ({name})", self.node.name),
        }
    }
}

/// A disk with all that is stacked on it.
#[derive(Debug)]
pub(super) struct Stack {
    pub devices: BTreeMap<DevNumber, Device>,
    /// What is stacked on the base: each after all that lies on it.
    pub top_down: Vec<DevNumber>,
}

impl Stack {
    /// Reads the stack on the disk whose directory in sysfs is `disk`.
    pub(super) fn read(root: &Root, disk: &Path) -> io::Result<Self> {
        let disk = root.resolve(disk).ok_or(io::ErrorKind::NotFound)?;
        let mut devices = BTreeMap::new();
        let mut queue = vec![(disk.clone(), None)];
        while let Some((dir, from)) = queue.pop() {
            let family = nodes(root, &dir)?;
            let whole = family.first().map(|node| node.number);
            for node in family {
                if devices.contains_key(&node.number) {
                    continue;
                }
                if devices.len() >= MAX_DEVICES {
                    return Err(io::Error::other(format!("more than {MAX_DEVICES} devices are stacked on it")));
                }
                let above = linked(root, &node.dir, "holders");
                let is_whole = Some(node.number) == whole;
                let device = Device {
                    layer: (is_whole && from.is_some()).then(|| layer(root, &node.dir)),
                    mapper: (attribute(root, &node.dir, "dm/name"), attribute(root, &node.dir, "dm/uuid")),
                    from: if is_whole { from } else { whole },
                    holders: above.iter().filter_map(|dir| number(root, dir)).collect(),
                    slaves: linked(root, &node.dir, "slaves").iter().filter_map(|dir| number(root, dir)).collect(),
                    elsewhere: Vec::new(),
                    node,
                };
                queue.extend(above.into_iter().map(|dir| (dir, Some(device.node.number))));
                devices.insert(device.node.number, device);
            }
        }
        let base: BTreeSet<DevNumber> = nodes(root, &disk)?.into_iter().map(|node| node.number).gather();
        for device in devices.values_mut().filter(|device| device.layer.is_some()) {
            let mut found = BTreeSet::new();
            leaves(root, &device.node.dir, &base, MAX_STACK, &mut found);
            device.elsewhere = found.into_iter().collect();
        }
        let top_down = order(&devices);
        Ok(Self { devices, top_down })
    }

    /// The way from the disk up to a device, as `sda3 → md127 → dm-4 (vg0-root)`.
    pub(super) fn way(&self, to: DevNumber) -> String {
        let mut labels = Vec::new();
        let mut next = Some(to);
        while let Some(device) = next.and_then(|number| self.devices.get(&number)) {
            labels.push(device.label());
            // A partition speaks for its disk.
            let below = |device: &Device| device.from.and_then(|from| self.devices.get(&from));
            next = match (device.node.partition, below(device)) {
                (Some(_), Some(disk)) => disk.from,
                _ => device.from,
            };
            if labels.len() > self.devices.len() {
                break;
            }
        }
        labels.reverse();
        labels.join(" → ")
    }
}

/// Layers, each after its holders and those of its partitions.
fn order(devices: &BTreeMap<DevNumber, Device>) -> Vec<DevNumber> {
    let above = |number: DevNumber| {
        let matching = devices.values().filter(move |device| {
            device.node.number == number || (device.node.partition.is_some() && device.from == Some(number))
        });
        matching.flat_map(|device| device.holders.iter().copied()).collect::<Vec<_>>()
    };
    let mut done = Vec::new();
    let mut seen = BTreeSet::new();
    for device in devices.values().filter(|device| device.layer.is_some()) {
        // Each with the holders that are still to be looked at; the kernel makes no circles, and seen breaks them.
        let mut way = Vec::new();
        if seen.insert(device.node.number) {
            way.push((device.node.number, above(device.node.number)));
        }
        while let Some((number, holders)) = way.last_mut() {
            match holders.pop() {
                Some(holder) if seen.insert(holder) => way.push((holder, above(holder))),
                Some(_) => {}
                None => {
                    done.push(*number);
                    way.pop();
                }
            }
        }
    }
    done
}

/// What a device lies on in the end, but for the base.
fn leaves(root: &Root, dir: &Path, base: &BTreeSet<DevNumber>, depth: u32, found: &mut BTreeSet<String>) {
    for slave in linked(root, dir, "slaves") {
        if number(root, &slave).is_some_and(|number| base.contains(&number)) {
            continue;
        }
        // A partition lies on what its disk lies on.
        let disk = if root.exists(slave.join("partition")) { slave.parent().unwrap_or(&slave) } else { &slave };
        if depth == 0 || linked(root, disk, "slaves").is_empty() {
            found.insert(slave.file_name().unwrap_or_default().to_string_lossy().into_owned());
        } else {
            leaves(root, disk, base, depth - 1, found);
        }
    }
}

fn layer(root: &Root, dir: &Path) -> Layer {
    if root.is_dir(dir.join("md")) {
        return Layer::Raid;
    }
    // A device that others are cached by has the directory too, and a name of another kind.
    if root.is_dir(dir.join("bcache")) && !root.is_dir(dir.join("dm")) {
        return Layer::Bcache;
    }
    if !root.is_dir(dir.join("dm")) {
        return Layer::Unknown;
    }
    // The prefixes by which each program knows its own.
    let uuid = attribute(root, dir, "dm/uuid");
    let is_map = uuid.strip_prefix("part").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    match uuid.split('-').next().unwrap_or_default() {
        "LVM" => Layer::Lvm,
        "CRYPT" => Layer::Crypt,
        "mpath" => Layer::Multipath,
        _ if is_map => Layer::PartitionMap,
        _ => Layer::Mapped,
    }
}

fn attribute(root: &Root, dir: &Path, file: &str) -> String {
    root.attribute(dir.join(file)).unwrap_or_default()
}

fn number(root: &Root, dir: &Path) -> Option<DevNumber> {
    DevNumber::parse(&attribute(root, dir, "dev"))
}
