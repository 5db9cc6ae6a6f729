//! File systems labelled `boot`: the image's own, where its partition has another name, and those of other disks, which the
//! boot loader may find first.

use crate::gpt::Partition;
use crate::identity::{DiskIdentity, bare_wwn, multipath_of};
use crate::image::ImageError;
use crate::in_use::uses;
use kernel::{
    DevNumber, Root,
    block::{Usage, linked, nodes},
};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// The label the boot loader looks for.
const BOOT: &str = "boot";
/// The superblock of XFS is at the start, that of ext4 at byte 1024.
const START_BYTES: u64 = 2048;
/// `MD_SB_MAGIC` of linux/raid/md_p.h, least significant byte first.
const RAID: [u8; 4] = 0xA92B_4EFCu32.to_le_bytes();
/// No more devices lie on one another.
const MAX_STACK: u32 = 8;
/// Disks that nothing boots from.
const SKIPPED: [&str; 5] = ["loop", "ram", "zram", "sr", "fd"];

/// What a file system is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    label: String,
    uuid: [u8; 16],
}

/// The ext2 to ext4 or XFS file system in a device's `len` bytes from `at` on; none in the member of a RAID, whose array
/// has it.
fn file_system(device: &mut (impl Read + Seek), at: u64, len: u64) -> io::Result<Option<FileSystem>> {
    let mut read = |from: u64, count: u64| {
        device.seek(SeekFrom::Start(at.saturating_add(from)))?;
        let mut bytes = Vec::new();
        device.by_ref().take(count.min(len.saturating_sub(from))).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let start = read(0, START_BYTES)?;
    let found = superblock(&start).filter(|found| found.label == BOOT);
    if found.is_none() {
        return Ok(None);
    }
    // Versions 1.1, 1.2, 1.0 and 0.90 of the superblock: drivers/md/md.c, super_1_load and MD_NEW_SIZE_SECTORS.
    let at_end = |unit: u64, before: u64| len.checked_sub(before).map(|at| at / unit * unit);
    let places = [Some(0), Some(4096), at_end(4096, 8192), at_end(65536, 65536)];
    for place in places.into_iter().flatten() {
        if read(place, 4)? == RAID {
            return Ok(None);
        }
    }
    Ok(found)
}

/// Reads a superblock: `struct ext4_super_block` of fs/ext4/ext4.h, `struct xfs_dsb` of fs/xfs/libxfs/xfs_format.h.
pub(crate) fn superblock(start: &[u8]) -> Option<FileSystem> {
    let (uuid, label) = if start.starts_with(b"XFSB") {
        (start.get(32..48)?, start.get(108..120)?)
    } else if start.get(1080..1082)? == [0x53, 0xEF] {
        (start.get(1128..1144)?, start.get(1144..1160)?)
    } else {
        return None;
    };
    let end = label.iter().position(|byte| *byte == 0).unwrap_or(label.len());
    let label = String::from_utf8_lossy(label.get(..end)?).into_owned();
    Some(FileSystem { label, uuid: uuid.try_into().ok()? })
}

/// The one partition with such a file system.
pub(crate) fn labelled(device: &mut (impl Read + Seek), partitions: &[Partition]) -> Result<Partition, ImageError> {
    let mut found = Vec::new();
    for partition in partitions {
        let read = file_system(device, partition.start, partition.len);
        if read.map_err(|source| ImageError::Label { number: partition.number, source })?.is_some() {
            found.push(partition);
        }
    }
    match found.as_slice() {
        [boot] => Ok((*boot).clone()),
        _ => Err(ImageError::NotOneLabel {
            numbers: found.iter().map(|partition| partition.number).collect(),
            names: partitions.iter().map(|partition| partition.name.clone()).collect(),
        }),
    }
}

/// A device to look at.
struct Candidate<D> {
    path: PathBuf,
    /// What its disk is known by from outside; None if by nothing.
    hardware: Option<String>,
    device: D,
}

/// Which of `candidates` hold such a file system: none of the own disk, and what is seen on several ways to one disk once. That
/// two have one UUID says nothing: disks that were written with one image all have its.
fn others<D: Read + Seek>(candidates: impl IntoIterator<Item = Candidate<D>>, own: Option<&str>) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for Candidate { path, hardware, mut device } in candidates {
        if hardware.is_some() && hardware.as_deref() == own {
            continue;
        }
        let Some(uuid) = boot_uuid(&mut device) else { continue };
        let key = hardware.map(|hardware| (hardware, uuid));
        if key.is_none() || !seen.contains(&key) {
            seen.push(key);
            found.push(path);
        }
    }
    found
}

/// By its WWN, or else by its serial number and what else it says of itself.
fn hardware(disk: &DiskIdentity) -> Option<String> {
    let DiskIdentity { wwn, serial, model, size_bytes, .. } = disk;
    let wwn = wwn.as_deref().map(bare_wwn);
    wwn.or_else(|| Some(format!("{} {} {size_bytes}", serial.as_deref()?, model.as_deref().unwrap_or_default())))
}

/// Disks that lie below or above this one, which are the same: the ways to a multipath device, and its partitions.
fn related(root: &Root, dir: &Path, kind: &str, depth: u32, found: &mut Vec<PathBuf>) {
    let Ok(nodes) = nodes(root, dir) else { return };
    for other in nodes.iter().flat_map(|node| linked(root, &node.dir, kind)) {
        let disk = if root.exists(other.join("partition")) { other.parent().unwrap_or(&other) } else { &other };
        if depth > 0 && !found.iter().any(|known| known == disk) {
            found.push(disk.to_owned());
            related(root, disk, kind, depth - 1, found);
        }
    }
}

/// None also if it can't be read: it only serves a warning.
fn boot_uuid(device: &mut (impl Read + Seek)) -> Option<[u8; 16]> {
    let len = device.seek(SeekFrom::End(0)).ok()?;
    Some(file_system(device, 0, len).ok()??.uuid)
}

/// Disks and partitions other than `disk`'s own with a file system labelled `boot`, of which boot loader and system may
/// take the wrong one. Disks the running system has mounted are left out; all are only read.
pub(crate) fn other_boot_file_systems(disk: &Path) -> Vec<PathBuf> {
    let Ok(root) = Root::open("/") else { return Vec::new() };
    let usage = Usage::read(&root).unwrap_or_default();
    let own = DevNumber::of_block_device(disk).and_then(|number| root.resolve(format!("/sys/dev/block/{number}")));
    let mut same: Vec<PathBuf> = own.iter().cloned().collect();
    for kind in ["slaves", "holders"] {
        own.iter().for_each(|own| related(&root, own, kind, MAX_STACK, &mut same));
    }
    let mut candidates = Vec::new();
    for name in root.list("/sys/block") {
        let Some(dir) = root.resolve(Path::new("/sys/block").join(&name)) else { continue };
        let Ok(nodes) = nodes(&root, &dir) else { continue };
        // Devices that lie on it have their own file systems.
        let is_free = || uses(&nodes, &usage, &DevNumber::of_block_device, &|_| Vec::new()).is_empty();
        let is_skipped = SKIPPED.iter().any(|prefix| name.starts_with(prefix)) || multipath_of(&root, &name).is_some();
        if is_skipped || same.contains(&dir) || !is_free() {
            continue;
        }
        let hardware = DiskIdentity::read_dir(&root, &dir).as_ref().and_then(hardware);
        let paths = nodes.iter().map(|node| Path::new("/dev").join(node.name.replace('!', "/")));
        candidates.extend(paths.map(|path| (path, hardware.clone())));
    }
    let own = own.and_then(|own| hardware(&DiskIdentity::read_dir(&root, &own)?));
    let opened = candidates.into_iter().filter_map(|(path, hardware)| {
        let device = File::open(&path).ok()?;
        Some(Candidate { path, hardware, device })
    });
    others(opened, own.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    const LEN: usize = 1 << 20;

    fn ext4(label: &str, uuid: u8) -> Vec<u8> {
        let mut disk = vec![0; LEN];
        disk[1080..1082].copy_from_slice(&[0x53, 0xEF]);
        disk[1128..1144].fill(uuid);
        disk[1144..1144 + label.len()].copy_from_slice(label.as_bytes());
        disk
    }

    fn xfs(label: &str, uuid: u8) -> Vec<u8> {
        let mut disk = vec![0; LEN];
        disk[..4].copy_from_slice(b"XFSB");
        disk[32..48].fill(uuid);
        disk[108..108 + label.len()].copy_from_slice(label.as_bytes());
        disk
    }

    fn member(at: usize) -> Vec<u8> {
        let mut disk = ext4("boot", 9);
        disk[at..at + 4].copy_from_slice(&RAID);
        disk
    }

    #[test]
    fn other_boot_file_systems_are_found_once() {
        let devices = [
            ("own by another path", Some("1"), ext4("boot", 1)),
            ("same image", Some("2"), ext4("boot", 1)),
            ("same image without a name", None, ext4("boot", 1)),
            ("another one", None, ext4("boot", 1)),
            ("a", Some("3"), ext4("boot", 2)),
            ("path", Some("3"), ext4("boot", 2)),
            ("another partition of it", Some("3"), ext4("boot", 7)),
            ("b", None, xfs("boot", 3)),
            ("c", None, ext4("bootx", 4)),
            ("d", None, xfs("", 5)),
            ("e", None, vec![0; LEN]),
            ("f", None, vec![]),
            ("g", None, ext4("boot", 6)[..1100].to_vec()),
            ("1.1 is at 0, where ext4 has nothing", None, member(0)),
            ("1.2", None, member(4096)),
            ("1.0", None, member(LEN - 8192)),
            ("0.90", None, member(LEN - 65536)),
            ("too early", None, member(8192)),
        ];
        let devices = devices.map(|(name, hardware, data)| Candidate {
            path: PathBuf::from(name),
            hardware: hardware.map(str::to_owned),
            device: Cursor::new(data),
        });
        let found = [
            "same image",
            "same image without a name",
            "another one",
            "a",
            "another partition of it",
            "b",
            "too early",
        ];
        assert_eq!(others(devices, Some("1")), found.map(PathBuf::from));
    }

    #[test]
    fn a_disk_is_known_by_its_wwn_or_its_serial_number() {
        let disk = |wwn: Option<&str>, serial: Option<&str>| DiskIdentity {
            wwn: wwn.map(str::to_owned),
            serial: serial.map(str::to_owned),
            size_bytes: 512,
            ..DiskIdentity::default()
        };
        assert_eq!(hardware(&disk(Some("0x5000C5"), Some("Z1"))), hardware(&disk(Some("naa.5000c5"), None)));
        assert_ne!(hardware(&disk(None, Some("Z1"))), hardware(&disk(None, Some("Z2"))));
        assert_eq!(hardware(&disk(None, None)), None, "virtual disks");
    }

    #[test]
    fn image_has_one_such_partition() {
        let mut disk = [vec![0; LEN], xfs("boot", 1), ext4("root", 2)].concat();
        let partition = |number: u32| Partition {
            number,
            name: format!("p{number}"),
            start: u64::from(number) << 20,
            len: 1 << 20,
        };
        let find = |disk: &[u8]| labelled(&mut Cursor::new(disk), &[partition(1), partition(2)]);
        assert_eq!(find(&disk).unwrap().number, 1);
        disk[LEN..2 * LEN].fill(0);
        let none = find(&disk).unwrap_err();
        assert!(matches!(&none, ImageError::NotOneLabel { numbers, .. } if numbers.is_empty()));
        disk = [vec![0; LEN], ext4("boot", 1), ext4("boot", 1)].concat();
        let two = find(&disk).unwrap_err().to_string();
        assert!(two.contains("2 file systems labelled 'boot' (partitions 1, 2)"), "{two}");
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..3000), xfs in any::<bool>()) {
            let noise = if xfs { [b"XFSB", &noise[..]].concat() } else { noise };
            superblock(&noise);
        }
    }
}
