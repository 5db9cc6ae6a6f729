//! What the kernel says of the users of block devices, read once for all disks.

use crate::in_use::{DevNumber, nodes};
use crate::sys;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

/// Mount namespaces that are looked into. A mount beyond still claims its device, which opening it shows.
const MAX_NAMESPACES: usize = 256;
/// File systems of several devices, and where sysfs lists the devices of each that is mounted.
const SEVERAL_DEVICES: [(&str, &str, &str); 2] = [("btrfs", "devices", ""), ("bcachefs", "", "block")];

/// A loop device that shows a block device, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopDevice {
    /// Kernel name.
    pub name: String,
    /// Its own number, and those of its partitions.
    pub numbers: Vec<DevNumber>,
    pub backing: DevNumber,
    /// Where that begins, bytes.
    pub offset_bytes: u64,
}

/// A device of a mounted file system that has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub number: DevNumber,
    /// Kind and UUID.
    pub file_system: String,
}

/// All users that the kernel lists outside of sysfs' tree of devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    /// `/proc/PID/mountinfo` of all mount namespaces that can be seen.
    pub mountinfo: String,
    /// `/proc/swaps`.
    pub swaps: String,
    pub loops: Vec<LoopDevice>,
    pub members: Vec<Member>,
}

impl Usage {
    /// As it is now.
    pub fn read() -> io::Result<Self> {
        Ok(Self {
            mountinfo: mountinfo()?,
            // A kernel without swap has no such file.
            swaps: fs::read_to_string("/proc/swaps").unwrap_or_default(),
            loops: names(Path::new("/sys/block")).into_iter().filter_map(loop_device).collect(),
            members: members(Path::new("/sys/fs")),
        })
    }
}

/// The number of the block device at a path.
pub(crate) fn number_of(path: &Path) -> Option<DevNumber> {
    let meta = fs::metadata(path).ok()?;
    meta.file_type().is_block_device().then(|| DevNumber::from_raw(meta.rdev()))
}

/// The names in a directory; none where there is no such directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A mount namespace sees only its own mounts: the others', such as containers', follow.
fn mountinfo() -> io::Result<String> {
    let mut all = fs::read_to_string("/proc/self/mountinfo")?;
    let mut seen: BTreeSet<_> = fs::read_link("/proc/self/ns/mnt").into_iter().collect();
    for process in names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) {
        let dir = Path::new("/proc").join(process);
        let Ok(namespace) = fs::read_link(dir.join("ns/mnt")) else { continue };
        if seen.len() < MAX_NAMESPACES && seen.insert(namespace) {
            all.push_str(&fs::read_to_string(dir.join("mountinfo")).unwrap_or_default());
        }
    }
    Ok(all)
}

fn loop_device(name: String) -> Option<LoopDevice> {
    let dir = Path::new("/sys/block").join(&name);
    let attribute = |file: &str| fs::read_to_string(dir.join("loop").join(file)).ok();
    let file = attribute("backing_file")?;
    // The path is that of another mount namespace, perhaps, or of a node that was replaced.
    let device = File::open(Path::new("/dev").join(&name)).ok();
    let asked = device.and_then(|device| sys::loop_backing(&device).ok());
    let backing = match asked {
        Some(rdev) => rdev.map(DevNumber::from_raw),
        None => number_of(Path::new(file.trim_end())),
    }?;
    let offset_bytes = attribute("offset").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let numbers = nodes(&dir).ok()?.into_iter().map(|node| node.number).collect();
    Some(LoopDevice { name, numbers, backing, offset_bytes })
}

fn members(file_systems: &Path) -> Vec<Member> {
    let mut found = Vec::new();
    for (kind, devices, link) in SEVERAL_DEVICES {
        for uuid in names(&file_systems.join(kind)) {
            let dir = file_systems.join(kind).join(&uuid).join(devices);
            for device in names(&dir) {
                let number = fs::read_to_string(dir.join(device).join(link).join("dev")).unwrap_or_default();
                let number = DevNumber::parse(&number);
                found.extend(number.map(|number| Member { number, file_system: format!("{kind} {uuid}") }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_those_of_mounted_file_systems() {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("btrfs/11-22/devices/sdb2/dev", "8:18\n"),
            ("btrfs/11-22/label", "x\n"),
            ("btrfs/features/raid56", "0\n"),
            ("bcachefs/33-44/dev-0/block/dev", "8:16\n"),
            ("bcachefs/33-44/dev-1/block/dev", "8:32\n"),
            ("bcachefs/33-44/options/degraded", "0\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let mut found: Vec<_> =
            members(dir.path()).iter().map(|member| format!("{} {}", member.number, member.file_system)).collect();
        found.sort();
        assert_eq!(found, ["8:16 bcachefs 33-44", "8:18 btrfs 11-22", "8:32 bcachefs 33-44"]);
    }

    #[test]
    fn other_namespaces_mounts_follow_this_ones() {
        let own = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(mountinfo().unwrap().starts_with(&own));
    }
}
