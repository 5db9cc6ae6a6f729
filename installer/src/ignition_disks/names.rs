//! From what a config calls a device to the device, and to none but those that are allowed.

use diskwrite::LayoutPartition;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A device of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// A whole disk, by its place among the allowed ones.
    Disk(usize),
    Partition {
        disk: usize,
        number: u32,
    },
    /// An array that the config makes, by its place there.
    Array(usize),
    /// An encrypted device that the config makes, by its place there.
    Volume(usize),
}

/// Why a name leads to no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    #[error("{name} is not one of the devices given with --disks, nor a partition, array or LUKS device on them")]
    NotAllowed { name: String },
    #[error("{name} is partition {number} of {disk}, which has no such partition")]
    NoPartition { name: String, disk: String, number: u32 },
    #[error("{name} is the name of several partitions")]
    Several { name: String },
}

/// An allowed disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedDisk {
    /// Its node, and what the config calls it if that is another name.
    pub names: Vec<String>,
    /// As they are once the config's partitions are made.
    pub partitions: Vec<LayoutPartition>,
}

/// All names that lead somewhere.
pub(super) struct Names<'a> {
    pub disks: &'a [NamedDisk],
    /// Of the config's arrays and encrypted devices.
    pub arrays: Vec<&'a str>,
    pub volumes: Vec<&'a str>,
    /// Where the running system's links lead.
    pub resolve: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

const MD: &str = "/dev/md/";
const MAPPER: [&str; 2] = ["/dev/mapper/", "/dev/disk/by-id/dm-name-"];
const BY_LABEL: &str = "/dev/disk/by-partlabel/";
const BY_UUID: &str = "/dev/disk/by-partuuid/";

impl Names<'_> {
    pub(super) fn find(&self, name: &str) -> Result<Device, NameError> {
        let own = |names: &[&str], prefixes: &[&str]| {
            let is_it =
                |own: &&str| *own == name || prefixes.iter().any(|prefix| name.strip_prefix(prefix) == Some(own));
            names.iter().position(is_it)
        };
        if let Some(array) = own(&self.arrays, &[MD]) {
            return Ok(Device::Array(array));
        }
        if let Some(volume) = own(&self.volumes, &MAPPER) {
            return Ok(Device::Volume(volume));
        }
        if let Some(found) = self.on_disk(name)? {
            return Ok(found);
        }
        // udev may not have seen a new partition yet, and may know another of that name: the plan comes first.
        if let Some(label) = name.strip_prefix(BY_LABEL) {
            return self.partition(name, |partition| partition.name == label);
        }
        if let Some(Ok(uuid)) = name.strip_prefix(BY_UUID).map(Uuid::parse_str) {
            return self.partition(name, |partition| partition.guid == uuid.to_bytes_le());
        }
        let target = (self.resolve)(Path::new(name));
        let found = target.and_then(|target| self.on_disk(target.to_str()?).transpose()).transpose()?;
        found.ok_or_else(|| NameError::NotAllowed { name: name.to_owned() })
    }

    /// A disk by its name, or one of its partitions by the disk's name and a number.
    fn on_disk(&self, name: &str) -> Result<Option<Device>, NameError> {
        for (disk, known) in self.disks.iter().enumerate() {
            for own in &known.names {
                if own == name {
                    return Ok(Some(Device::Disk(disk)));
                }
                let Some(number) = partition_number(own, name) else { continue };
                if known.partitions.iter().any(|partition| partition.number == number) {
                    return Ok(Some(Device::Partition { disk, number }));
                }
                return Err(NameError::NoPartition { name: name.to_owned(), disk: own.clone(), number });
            }
        }
        Ok(None)
    }

    fn partition(&self, name: &str, is_it: impl Fn(&LayoutPartition) -> bool) -> Result<Device, NameError> {
        let all = self
            .disks
            .iter()
            .enumerate()
            .flat_map(|(disk, known)| known.partitions.iter().map(move |partition| (disk, partition)));
        let found: Vec<_> = all.filter(|(_, partition)| is_it(partition)).collect();
        match found[..] {
            [] => Err(NameError::NotAllowed { name: name.to_owned() }),
            [(disk, partition)] => Ok(Device::Partition { disk, number: partition.number }),
            _ => Err(NameError::Several { name: name.to_owned() }),
        }
    }
}

/// `/dev/sda` has `/dev/sda1`, `/dev/loop1` has `/dev/loop1p1`, and a link of udev's `…-part1`.
fn partition_number(disk: &str, name: &str) -> Option<u32> {
    let separator = if disk.starts_with("/dev/disk/") {
        "-part"
    } else if disk.ends_with(|last: char| last.is_ascii_digit()) {
        "p"
    } else {
        ""
    };
    let digits = name.strip_prefix(disk)?.strip_prefix(separator)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: u32, name: &str) -> LayoutPartition {
        let guid = Uuid::from_u128(u128::from(number)).to_bytes_le();
        let (first_lba, sectors, start, len) = (2048, 2048, 1 << 20, 1 << 20);
        LayoutPartition { number, type_guid: guid, guid, name: name.to_owned(), first_lba, sectors, start, len }
    }

    #[test]
    fn names_lead_to_allowed_devices_alone() {
        let disk = |names: &[&str], partitions: Vec<LayoutPartition>| NamedDisk {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            partitions,
        };
        let disks = [
            disk(&["/dev/loop1", "/dev/disk/by-id/x"], vec![partition(1, "boot"), partition(2, "twice")]),
            disk(&["/dev/sdb"], vec![partition(3, "twice"), partition(11, "eleven")]),
        ];
        let resolve = |path: &Path| match path.to_str() {
            Some("/dev/disk/by-label/data") => Some(PathBuf::from("/dev/sdb11")),
            Some("/dev/disk/by-label/other") => Some(PathBuf::from("/dev/sda1")),
            _ => None,
        };
        let names =
            Names { disks: &disks, arrays: vec!["data", "/dev/md/whole"], volumes: vec!["root"], resolve: &resolve };
        let on = |disk, number| Ok(Device::Partition { disk, number });
        for (name, device) in [
            ("/dev/loop1", Ok(Device::Disk(0))),
            ("/dev/disk/by-id/x", Ok(Device::Disk(0))),
            ("/dev/disk/by-id/x-part2", on(0, 2)),
            ("/dev/loop1p1", on(0, 1)),
            ("/dev/sdb11", on(1, 11)),
            ("/dev/disk/by-partlabel/boot", on(0, 1)),
            ("/dev/disk/by-partuuid/00000000-0000-0000-0000-00000000000b", on(1, 11)),
            ("/dev/disk/by-label/data", on(1, 11)),
            ("/dev/md/data", Ok(Device::Array(0))),
            ("/dev/md/whole", Ok(Device::Array(1))),
            ("/dev/mapper/root", Ok(Device::Volume(0))),
            ("/dev/disk/by-id/dm-name-root", Ok(Device::Volume(0))),
        ] {
            assert_eq!(names.find(name), device, "{name}");
        }
        let not_allowed = [
            "/dev/loop11",
            "/dev/loop12p1",
            "/dev/sda",
            "/dev/sdbx",
            "/dev/disk/by-label/other",
            "/dev/disk/by-partlabel/x",
        ];
        for name in not_allowed {
            assert_eq!(names.find(name), Err(NameError::NotAllowed { name: name.to_owned() }));
        }
        let twice = "/dev/disk/by-partlabel/twice".to_owned();
        assert_eq!(names.find(&twice), Err(NameError::Several { name: twice }));
        assert!(names.find("/dev/sdb4").unwrap_err().to_string().contains("partition 4 of /dev/sdb"));
    }
}
