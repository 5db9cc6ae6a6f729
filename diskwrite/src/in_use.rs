//! Who uses a disk: mounts, swap, file systems of several devices, loop devices, and devices stacked on it.

use crate::usage::{LoopDevice, Usage};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// A device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DevNumber {
    pub major: u64,
    pub minor: u64,
}

impl DevNumber {
    /// From `st_rdev`.
    pub fn from_raw(rdev: u64) -> Self {
        Self { major: nix::sys::stat::major(rdev), minor: nix::sys::stat::minor(rdev) }
    }

    /// From `8:1`, as sysfs and mountinfo write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DevNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Why a disk is not free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "use", rename_all = "snake_case")]
pub enum Use {
    /// A file system on the disk or one of its partitions is mounted.
    Mounted {
        /// Kernel name, such as `sda3`.
        device: String,
        at: PathBuf,
    },
    /// The disk or a partition is swap.
    Swap {
        /// Kernel name.
        device: String,
    },
    /// It is one of the devices of a mounted file system that has several.
    Member {
        /// Kernel name.
        device: String,
        /// Kind and UUID.
        file_system: String,
    },
    /// A loop device shows it, or a part of it.
    Loop {
        /// Kernel name.
        device: String,
        /// The loop device's kernel name.
        by: String,
        /// Where the part begins, bytes.
        offset_bytes: u64,
        /// Where the loop device, or a partition of it, is mounted.
        at: Vec<PathBuf>,
    },
    /// Another block device lies on it: LVM, RAID, LUKS, multipath.
    Held {
        /// Kernel name.
        device: String,
        /// The other's kernel name, with its device mapper name where it has one.
        by: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { device, at } => write!(f, "{device} is mounted on {}", at.display()),
            Self::Swap { device } => write!(f, "{device} is swap"),
            Self::Member { device, file_system } => write!(f, "{device} is a part of {file_system}, which is mounted"),
            Self::Loop { device, .. } => write!(f, "{device} is in use by {}", self.user()),
            Self::Held { device, by } => write!(f, "{device} is in use by {by}"),
        }
    }
}

impl Use {
    /// Kernel name of the disk or partition.
    pub fn device(&self) -> &str {
        match self {
            Self::Mounted { device, .. }
            | Self::Swap { device }
            | Self::Member { device, .. }
            | Self::Loop { device, .. }
            | Self::Held { device, .. } => device,
        }
    }

    /// Who uses it, for people: `loop3, from byte 1048576 on, mounted on /mnt`.
    pub(crate) fn user(&self) -> String {
        match self {
            Self::Mounted { at, .. } => format!("the mount at {}", at.display()),
            Self::Swap { .. } => "swap".to_owned(),
            Self::Member { file_system, .. } => file_system.clone(),
            Self::Held { by, .. } => by.clone(),
            Self::Loop { by, offset_bytes, at, .. } => {
                let mut text = by.clone();
                if *offset_bytes > 0 {
                    text += &format!(", from byte {offset_bytes} on");
                }
                if !at.is_empty() {
                    let at: Vec<String> = at.iter().map(|at| at.display().to_string()).collect();
                    text += &format!(", mounted on {}", at.join(", "));
                }
                text
            }
        }
    }
}

/// A disk or one of its partitions in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Kernel name.
    pub name: String,
    pub number: DevNumber,
    /// The partition number, if it is one.
    pub partition: Option<u32>,
    pub dir: PathBuf,
}

/// The disk whose sysfs directory is `dir`, followed by its partitions in order of their numbers.
pub(crate) fn nodes(dir: &Path) -> io::Result<Vec<Node>> {
    let mut all = vec![node(dir)?];
    let mut partitions = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.join("partition").exists() {
            partitions.push(node(&path)?);
        }
    }
    partitions.sort_by_key(|node| node.partition);
    all.append(&mut partitions);
    Ok(all)
}

fn node(dir: &Path) -> io::Result<Node> {
    let number = fs::read_to_string(dir.join("dev"))?;
    let number =
        DevNumber::parse(&number).ok_or_else(|| io::Error::other(format!("unreadable {}/dev", dir.display())))?;
    let partition = fs::read_to_string(dir.join("partition")).ok().and_then(|text| text.trim().parse().ok());
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Node { name, number, partition, dir: dir.to_owned() })
}

/// Deeper than any real stack of devices.
pub(crate) const MAX_STACK: u32 = 32;

/// One line of mountinfo.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    number: DevNumber,
    at: PathBuf,
    source: PathBuf,
}

impl Mount {
    /// bcachefs names all its devices, joined by colons.
    fn sources(&self) -> impl Iterator<Item = &Path> {
        use std::os::unix::ffi::OsStrExt;
        let parts = self.source.as_os_str().as_bytes().split(|byte| *byte == b':');
        std::iter::once(self.source.as_path()).chain(parts.map(|part| Path::new(std::ffi::OsStr::from_bytes(part))))
    }
}

/// Parses `/proc/PID/mountinfo`, see proc_pid_mountinfo(5); lines it can't read are left out.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (head, tail) = line.split_once(" - ")?;
            let mut head = head.split(' ').skip(2);
            let number = DevNumber::parse(head.next()?)?;
            let at = unescape(head.nth(1)?);
            let source = unescape(tail.split(' ').nth(1)?);
            Some(Mount { number, at, source })
        })
        .collect()
}

/// The devices and files of `/proc/swaps`.
fn swaps(text: &str) -> Vec<PathBuf> {
    text.lines().skip(1).filter_map(|line| line.split([' ', '\t']).next()).map(unescape).collect()
}

/// Undoes the kernel's `\040` for blanks and the like.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let code =
            octal.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|d| u8::from_str_radix(d, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    std::ffi::OsString::from_vec(out).into()
}

/// All uses of these nodes, in the nodes' order. `number_of` gives the number of a block device by its path: a btrfs or
/// overlay mount has a number of its own, and only its source names the disk.
pub(crate) fn uses(nodes: &[Node], usage: &Usage, number_of: &dyn Fn(&Path) -> Option<DevNumber>) -> Vec<Use> {
    let mounts = mounts(&usage.mountinfo);
    let swaps = swaps(&usage.swaps);
    let mut found = Vec::new();
    for node in nodes {
        let device = || node.name.clone();
        for mount in &mounts {
            if mount.number == node.number || mount.sources().any(|path| number_of(path) == Some(node.number)) {
                found.push(Use::Mounted { device: device(), at: mount.at.clone() });
            }
        }
        if swaps.iter().any(|path| number_of(path) == Some(node.number)) {
            found.push(Use::Swap { device: device() });
        }
        for member in usage.members.iter().filter(|member| member.number == node.number) {
            found.push(Use::Member { device: device(), file_system: member.file_system.clone() });
        }
        for LoopDevice { name, numbers, offset_bytes, .. } in
            usage.loops.iter().filter(|device| device.backing == node.number)
        {
            let mut at: Vec<_> =
                mounts.iter().filter(|mount| numbers.contains(&mount.number)).map(|mount| mount.at.clone()).collect();
            at.dedup();
            found.push(Use::Loop { device: device(), by: name.clone(), offset_bytes: *offset_bytes, at });
        }
        for by in holders(&node.dir) {
            found.push(Use::Held { device: device(), by });
        }
    }
    // Namespaces that were made of one another have the same mounts.
    let mut unique: Vec<Use> = Vec::with_capacity(found.len());
    for used in found {
        if !unique.contains(&used) {
            unique.push(used);
        }
    }
    unique
}

/// The sysfs directories of the devices stacked on these nodes that have none stacked on themselves.
pub(crate) fn tops(nodes: &[Node]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left: Vec<_> = nodes.iter().flat_map(|node| stacked(&node.dir)).map(|dir| (dir, MAX_STACK)).collect();
    while let Some((dir, depth)) = left.pop() {
        let above = if depth > 0 { stacked(&dir) } else { Vec::new() };
        if above.is_empty() {
            found.push(dir);
        } else {
            left.extend(above.into_iter().map(|dir| (dir, depth - 1)));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Of the device itself and, where it is a disk, its partitions.
fn stacked(dir: &Path) -> Vec<PathBuf> {
    let dirs =
        nodes(dir).map_or_else(|_| vec![dir.to_owned()], |nodes| nodes.into_iter().map(|node| node.dir).collect());
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir.join("holders")).ok());
    let above = entries.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    above.map(|link| fs::canonicalize(&link).unwrap_or(link)).collect()
}

fn holders(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir.join("holders")) else { return Vec::new() };
    let mut names: Vec<_> = entries
        .flatten()
        .map(|entry| {
            let kernel = entry.file_name().to_string_lossy().into_owned();
            match fs::read_to_string(entry.path().join("dm/name")) {
                Ok(mapper) => format!("{kernel} ({})", mapper.trim()),
                Err(_) => kernel,
            }
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Member;

    const MOUNTINFO: &str = "\
22 1 8:3 / / rw,relatime shared:1 - ext4 /dev/sda3 rw
23 22 8:17 / /mnt/a\\040b rw shared:2 master:1 - xfs /dev/sdb1 rw
24 22 0:30 /@home /home rw - btrfs /dev/sdb2 rw
25 22 0:31 / /proc rw - proc proc rw
broken line
";

    const LOOP_MOUNTS: &str = "\
30 22 259:9 / /mnt/loop rw - ext4 /dev/loop3p1 rw
31 22 0:40 / /pool rw - bcachefs /dev/sdb1:/dev/sdb2 rw
";

    fn sysfs() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("sdb/dev", "8:16\n"),
            ("sdb/sdb2/dev", "8:18\n"),
            ("sdb/sdb2/partition", "2\n"),
            ("sdb/sdb1/dev", "8:17\n"),
            ("sdb/sdb1/partition", "1\n"),
            ("sdb/sdb1/holders/md127/dev", "9:127\n"),
            ("sdb/sdb2/holders/dm-4/dm/name", "vg0-root\n"),
            ("sdb/queue/rotational", "1\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    #[test]
    fn lists_every_use() {
        let dir = sysfs();
        let nodes = nodes(&dir.path().join("sdb")).unwrap();
        assert_eq!(nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["sdb", "sdb1", "sdb2"]);
        let number_of = |path: &Path| match path.to_str()? {
            "/dev/sdb1" => DevNumber::parse("8:17"),
            "/dev/sdb2" | "/dev/disk/by-id/swap" => DevNumber::parse("8:18"),
            _ => None,
        };
        let swaps = "Filename\tType\n/dev/disk/by-id/swap partition 1 0 -2\n/swap\\011file file 1 0 -3\n";
        let numbers = ["7:3", "259:9"].map(|number| DevNumber::parse(number).unwrap());
        let number = |text: &str| DevNumber::parse(text).unwrap();
        let usage = Usage {
            // A second namespace has the same mount.
            mountinfo: format!("{MOUNTINFO}{LOOP_MOUNTS}{MOUNTINFO}"),
            swaps: swaps.into(),
            loops: vec![LoopDevice {
                name: "loop3".into(),
                numbers: numbers.into(),
                backing: number("8:16"),
                offset_bytes: 1 << 20,
            }],
            members: vec![Member { number: number("8:17"), file_system: "btrfs 11-22".into() }],
        };
        let found: Vec<_> = uses(&nodes, &usage, &number_of).iter().map(Use::to_string).collect();
        assert_eq!(
            found,
            [
                "sdb is in use by loop3, from byte 1048576 on, mounted on /mnt/loop",
                "sdb1 is mounted on /mnt/a b",
                "sdb1 is mounted on /pool",
                "sdb1 is a part of btrfs 11-22, which is mounted",
                "sdb1 is in use by md127",
                "sdb2 is mounted on /home",
                "sdb2 is mounted on /pool",
                "sdb2 is swap",
                "sdb2 is in use by dm-4 (vg0-root)",
            ]
        );
    }

    #[test]
    fn top_of_a_stack_is_what_nothing_is_stacked_on() {
        let dir = sysfs();
        let disk = dir.path().join("sdb");
        let raid = disk.join("sdb1/holders/md127");
        for (path, content) in
            [("holders/dm-9/dev", "253:9\n"), ("md127p1/dev", "259:1\n"), ("md127p1/partition", "1\n")]
        {
            fs::create_dir_all(raid.join(path).parent().unwrap()).unwrap();
            fs::write(raid.join(path), content).unwrap();
        }
        let found = tops(&nodes(&disk).unwrap());
        assert_eq!(
            found,
            [raid.join("holders/dm-9"), disk.join("sdb2/holders/dm-4")].map(|dir| dir.canonicalize().unwrap())
        );
        assert_eq!(tops(&[]), Vec::<PathBuf>::new());
    }

    #[test]
    fn free_disk_has_no_use() {
        let dir = sysfs();
        fs::remove_dir_all(dir.path().join("sdb/sdb1")).unwrap();
        fs::remove_dir_all(dir.path().join("sdb/sdb2")).unwrap();
        let nodes = nodes(&dir.path().join("sdb")).unwrap();
        let usage = Usage { mountinfo: MOUNTINFO.into(), ..Usage::default() };
        assert_eq!(uses(&nodes, &usage, &|_| None), []);
    }

    #[test]
    fn unescapes_octal_only() {
        assert_eq!(unescape(r"a\040b\134c"), PathBuf::from(r"a b\c"));
        assert_eq!(unescape(r"a\9zz\04"), PathBuf::from(r"a\9zz\04"));
        assert_eq!(unescape(r"\777x"), PathBuf::from(r"\777x"));
    }
}
