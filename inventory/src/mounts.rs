//! The host's mount table and swap areas.

use crate::Root;

/// Hosts with many containers have thousands of mounts.
const MAX_TABLE_BYTES: usize = 16 << 20;
const OF_FIRST: &str = "/proc/1/mountinfo";

/// One line of mountinfo (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Device number; the major one is 0 for file systems that have none of their own, such as btrfs.
    pub device: (u32, u32),
    pub target: String,
    /// Kind of the file system.
    pub kind: String,
    /// What is mounted, often `/dev/…`.
    pub source: String,
}

/// The mounts of process 1, whose view is the host's, else our own, which in a container lacks what the host has mounted.
pub(crate) fn mounts(root: &Root) -> Vec<Mount> {
    let of_first = root.text(OF_FIRST, MAX_TABLE_BYTES).filter(|text| !text.is_empty());
    let is_own = of_first.is_none();
    let table = of_first.or_else(|| root.text("/proc/self/mountinfo", MAX_TABLE_BYTES));
    if table.is_none() {
        tracing::warn!("there is no mount table: disks in use cannot be told from others");
    } else if is_own && root.is_live() {
        tracing::warn!(
            "{OF_FIRST} cannot be read, and the mount table of this process stands for it: disks that only the host has \
             mounted look free. Run as root in the host's PID namespace (podman run --privileged --pid=host)"
        );
    }
    table.unwrap_or_default().lines().filter_map(parse_mount).collect()
}

/// Sources of the swap areas in use: block devices and files.
pub(crate) fn swaps(root: &Root) -> Vec<String> {
    let table = root.text("/proc/swaps", 64 << 10).unwrap_or_default();
    table.lines().skip(1).filter_map(|line| Some(unescape(line.split_ascii_whitespace().next()?))).collect()
}

pub(crate) fn parse_mount(line: &str) -> Option<Mount> {
    let (place, what) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let (major, minor) = place.next()?.split_once(':')?;
    let target = place.nth(1)?;
    let (kind, source) = what.split_once(' ')?;
    let source = source.split(' ').next()?;
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        target: unescape(target),
        kind: unescape(kind),
        source: unescape(source),
    })
}

/// Undoes the kernel's `\040` for blanks and the like.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn tables() {
        let tree = Tree::new(&[
            ("proc/self/mountinfo", "36 35 8:2 / /boot rw,noatime shared:1 master:2 - ext4 /dev/sda2 rw\n"),
            (
                "proc/swaps",
                "Filename\t\tType\t\tSize\tUsed\tPriority\n/dev/sda3   partition\t1\t0\t-2\n/a\\040b file 1 0 -3\n",
            ),
        ]);
        let mount = |device, target: &str, kind: &str, source: &str| Mount {
            device,
            target: target.to_owned(),
            kind: kind.to_owned(),
            source: source.to_owned(),
        };
        let boot = mount((8, 2), "/boot", "ext4", "/dev/sda2");
        assert_eq!(mounts(&tree.root()), [boot]);
        assert_eq!(swaps(&tree.root()), ["/dev/sda3", "/a b"]);
        tree.add("proc/1/mountinfo", "noise\n1 2 0:33 /x /a\\040b\\011 rw - btrfs /dev/sdb\\0401 rw\n9 9 9 - 9\n");
        let odd = mount((0, 33), "/a b\t", "btrfs", "/dev/sdb 1");
        assert_eq!(mounts(&tree.root()), [odd]);
    }

    #[test]
    fn escapes_that_are_none_stay() {
        for text in ["\\", "\\04", "\\999", "a\\b", "\\+12"] {
            assert_eq!(unescape(text), text);
        }
    }
}
