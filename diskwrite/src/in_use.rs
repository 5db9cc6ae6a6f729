//! Who uses a disk: mounts, swap, file systems of several devices, loop devices, and devices stacked on it.

use kernel::{
    DevNumber,
    block::{LoopDevice, Node, Usage},
    mounts::{Mount, mounts, swaps},
};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    path::{Path, PathBuf},
};

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

/// What is mounted, by all its names: bcachefs names all its devices, joined by colons.
fn sources(mount: &Mount) -> impl Iterator<Item = &Path> {
    std::iter::once(mount.source.as_str()).chain(mount.source.split(':')).map(Path::new)
}

/// All uses of these nodes, in the nodes' order. `number_of` gives the number of a block device by its path: a btrfs or
/// overlay mount has its own number, and only its source names the disk. `holders` gives what is stacked on a node.
pub(crate) fn uses(
    nodes: &[Node],
    usage: &Usage,
    number_of: &dyn Fn(&Path) -> Option<DevNumber>,
    holders: &dyn Fn(&Node) -> Vec<String>,
) -> Vec<Use> {
    let mounts = mounts(&usage.mountinfo);
    let swaps = swaps(&usage.swaps);
    let mut found = Vec::new();
    for node in nodes {
        let device = || node.name.clone();
        for mount in &mounts {
            if mount.device == node.number || sources(mount).any(|path| number_of(Path::new(path)) == Some(node.number))
            {
                found.push(Use::Mounted { device: device(), at: PathBuf::from(&mount.target) });
            }
        }
        if swaps.iter().any(|path| number_of(Path::new(path)) == Some(node.number)) {
            found.push(Use::Swap { device: device() });
        }
        for member in usage.members.iter().filter(|member| member.number == node.number) {
            found.push(Use::Member { device: device(), file_system: member.file_system.clone() });
        }
        for LoopDevice { name, numbers, offset_bytes, .. } in
            usage.loops.iter().filter(|device| device.backing == node.number)
        {
            let mut at: Vec<_> = mounts
                .iter()
                .filter(|mount| numbers.contains(&mount.device))
                .map(|mount| PathBuf::from(&mount.target))
                .collect();
            at.dedup();
            found.push(Use::Loop { device: device(), by: name.clone(), offset_bytes: *offset_bytes, at });
        }
        for by in holders(node) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{
        Root,
        block::{Member, holders, nodes},
    };
    use std::fs;
    use testkit::tree::Tree;

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

    fn live() -> Root {
        Root::open("/").unwrap()
    }

    fn held(node: &Node) -> Vec<String> {
        holders(&live(), &node.dir)
    }

    fn sysfs() -> Tree {
        Tree::new(&[
            ("sdb/dev", "8:16\n"),
            ("sdb/sdb2/dev", "8:18\n"),
            ("sdb/sdb2/partition", "2\n"),
            ("sdb/sdb1/dev", "8:17\n"),
            ("sdb/sdb1/partition", "1\n"),
            ("sdb/sdb1/holders/md127/dev", "9:127\n"),
            ("sdb/sdb2/holders/dm-4/dm/name", "vg0-root\n"),
        ])
    }

    #[test]
    fn lists_every_use() {
        let dir = sysfs();
        let nodes = nodes(&live(), &dir.path().join("sdb")).unwrap();
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
        let found: Vec<_> = uses(&nodes, &usage, &number_of, &held).iter().map(Use::to_string).collect();
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
    fn free_disk_has_no_use() {
        let dir = sysfs();
        fs::remove_dir_all(dir.path().join("sdb/sdb1")).unwrap();
        fs::remove_dir_all(dir.path().join("sdb/sdb2")).unwrap();
        let nodes = nodes(&live(), &dir.path().join("sdb")).unwrap();
        let usage = Usage { mountinfo: MOUNTINFO.into(), ..Usage::default() };
        assert_eq!(uses(&nodes, &usage, &|_| None, &held), []);
    }
}
