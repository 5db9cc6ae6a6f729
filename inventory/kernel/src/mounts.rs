//! The tables of mounts and of swap areas. Pure.

use crate::DevNumber;

/// One line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The major number is 0 for file systems without their own device, such as btrfs.
    pub device: DevNumber,
    /// The directory of the file system that is mounted, `/` for all of it.
    pub root: String,
    /// Mount point.
    pub target: String,
    /// Kind of the file system.
    pub kind: String,
    /// The device or name, often `/dev/…`. bcachefs joins all its devices: `/dev/sda:/dev/sdb`.
    pub source: String,
}

/// The mounts of a table, in its order; lines that can't be read are left out.
pub fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // Number, parent, device, root, target, options, …, "-", kind, source, options.
    let (place, what) = line.split_once(" - ")?;
    let (mut place, mut what) = (place.split(' ').skip(2), what.split(' '));
    Some(Mount {
        device: DevNumber::parse(place.next()?)?,
        root: unescaped(place.next()?),
        target: unescaped(place.next()?),
        kind: unescaped(what.next()?),
        source: unescaped(what.next()?),
    })
}

/// The devices and files of `/proc/swaps` (proc_swaps(5)).
pub fn swaps(table: &str) -> Vec<String> {
    let name = |line: &str| Some(unescaped(line.split_ascii_whitespace().next()?));
    table.lines().skip(1).filter_map(name).collect()
}

/// Undoes the kernel's `\040` for blanks and the like; anything else stays.
fn unescaped(text: &str) -> String {
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
    use proptest::prelude::*;

    #[test]
    fn tables() {
        let table = "noise\n36 35 8:2 /sub /boot rw,noatime shared:1 master:2 - ext4 /dev/sda2 rw\n\
                     1 2 0:33 / /a\\040b\\011 rw - btrfs /dev/sdb\\0401 rw\n9 9 9 - 9\n1 2 0:1 / /x rw - tmpfs\n";
        let mount = |device, root: &str, target: &str, kind: &str, source: &str| Mount {
            device,
            root: root.to_owned(),
            target: target.to_owned(),
            kind: kind.to_owned(),
            source: source.to_owned(),
        };
        let boot = mount(DevNumber { major: 8, minor: 2 }, "/sub", "/boot", "ext4", "/dev/sda2");
        let odd = mount(DevNumber { major: 0, minor: 33 }, "/", "/a b\t", "btrfs", "/dev/sdb 1");
        assert_eq!(mounts(table), [boot, odd]);
        let table = "Filename\t\tType\t\tSize\n/dev/sda3   partition\t1\n/a\\040b\tfile 1\n";
        assert_eq!(swaps(table), ["/dev/sda3", "/a b"]);
    }

    #[test]
    fn escapes_are_octal_and_three_digits_long() {
        assert_eq!(unescaped(r"a\040b\134c\134040"), r"a b\c\040");
        for text in ["\\", "\\04", "\\999", "a\\b", "\\+12", r"\777x"] {
            assert_eq!(unescaped(text), text);
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(text in "\\PC{0,80}") {
            mounts(&text);
            swaps(&text);
        }
    }
}
