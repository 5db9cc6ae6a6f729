//! Block devices in sysfs: disks, their partitions, the devices stacked on them, and their users.

use crate::order::{self, Gather};
use crate::{DevNumber, Root};
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Deeper than any real stack of devices.
pub const MAX_STACK: u32 = 32;
/// Attributes and tables of mounts.
const ATTRIBUTE_BYTES: usize = 4096;
const TABLE_BYTES: usize = 16 << 20;
/// Mount namespaces that are read. A mount in a further one still makes opening its device exclusively fail.
const MAX_NAMESPACES: usize = 256;
const BLOCK: &str = "/sys/block";
/// File systems of several devices, and where sysfs lists the devices of each that is mounted.
const SEVERAL_DEVICES: [(&str, &str, &str); 2] = [("btrfs", "devices", ""), ("bcachefs", "", "block")];

/// A disk or one of its partitions in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Kernel name.
    pub name: String,
    /// Device number.
    pub number: DevNumber,
    /// The partition number, if it is one.
    pub partition: Option<u32>,
    /// Its sysfs directory.
    pub dir: PathBuf,
}

/// The disk whose sysfs directory is `dir`, followed by its partitions in order of their numbers.
pub fn nodes(root: &Root, dir: &Path) -> io::Result<Vec<Node>> {
    let mut all = vec![node(root, dir)?];
    let entries = root.try_list(dir)?.into_iter().map(|name| dir.join(name));
    let mut partitions = entries
        .filter(|entry| root.exists(entry.join("partition")))
        .map(|entry| node(root, &entry))
        .collect::<io::Result<Vec<_>>>()?;
    order::sort_by_key(&mut partitions, |node| node.partition);
    all.append(&mut partitions);
    Ok(all)
}

fn node(root: &Root, dir: &Path) -> io::Result<Node> {
    let number = String::from_utf8_lossy(&root.read(dir.join("dev"), ATTRIBUTE_BYTES)?).into_owned();
    let number =
        DevNumber::parse(&number).ok_or_else(|| io::Error::other(format!("unreadable {}/dev", dir.display())))?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Node { name, number, partition: root.number(dir.join("partition")), dir: dir.to_owned() })
}

/// The directories that a directory of links leads to, sorted: those of `holders` above a device, or of `slaves` below.
pub fn linked(root: &Root, dir: &Path, kind: &str) -> Vec<PathBuf> {
    let dir = dir.join(kind);
    let mut found: Vec<_> = root.list(&dir).iter().filter_map(|name| root.resolve(dir.join(name))).collect();
    order::sort(&mut found);
    found
}

/// Kernel names of the devices on this one, with their device mapper names where they have some.
pub fn holders(root: &Root, dir: &Path) -> Vec<String> {
    let dir = dir.join("holders");
    let label = |kernel: String| match root.attribute(dir.join(&kernel).join("dm/name")) {
        Some(mapper) => format!("{kernel} ({mapper})"),
        None => kernel,
    };
    let mut names: Vec<_> = root.list(&dir).into_iter().map(label).collect();
    order::sort(&mut names);
    names
}

/// The sysfs directories of the devices that are stacked on these nodes and have none stacked on them.
pub fn tops(root: &Root, nodes: &[Node]) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let mut left: Vec<_> = nodes.iter().flat_map(|node| stacked(root, &node.dir)).map(|dir| (dir, MAX_STACK)).collect();
    while let Some((dir, depth)) = left.pop() {
        let above = if depth > 0 { stacked(root, &dir) } else { Vec::new() };
        if above.is_empty() {
            found.insert(dir);
        } else {
            left.extend(above.into_iter().map(|dir| (dir, depth - 1)));
        }
    }
    found.into_iter().collect()
}

/// On the device itself and, where it is a disk, its partitions.
fn stacked(root: &Root, dir: &Path) -> Vec<PathBuf> {
    let dirs = nodes(root, dir)
        .map_or_else(|_| vec![dir.to_owned()], |nodes| nodes.into_iter().map(|node| node.dir).collect());
    dirs.iter().flat_map(|dir| linked(root, dir, "holders")).collect()
}

/// The number of the block device at a path. A captured tree has no nodes: there the name decides.
pub fn number_of(root: &Root, path: &Path) -> Option<DevNumber> {
    if root.is_live() {
        return DevNumber::of_block_device(path);
    }
    let node = root.link_target(path).unwrap_or_else(|| path.to_owned());
    let name = node.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    DevNumber::parse(&root.attribute(format!("/sys/class/block/{name}/dev"))?)
}

/// A loop device that shows a block device, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// Kernel name.
    pub name: String,
    /// Its own number, and those of its partitions.
    pub numbers: Vec<DevNumber>,
    /// What it shows.
    pub backing: DevNumber,
    /// Where that begins, bytes.
    pub offset_bytes: u64,
}

/// A mounted file system that may have several devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Kind of the file system.
    pub kind: &'static str,
    /// Its UUID.
    pub id: String,
    /// Links to its devices' directories in sysfs.
    pub devices: Vec<PathBuf>,
}

/// The file systems of this kind that sysfs lists with their devices.
pub fn pools(root: &Root, wanted: &str) -> Vec<Pool> {
    let Some((kind, devices, link)) = SEVERAL_DEVICES.iter().find(|(kind, ..)| *kind == wanted).copied() else {
        return Vec::new();
    };
    let pool = |id: String| {
        let dir = Path::new("/sys/fs").join(kind).join(&id).join(devices);
        let is_device = |name: &String| link.is_empty() || name.starts_with("dev-");
        let devices = root.list(&dir).into_iter().filter(is_device).map(|name| dir.join(name).join(link)).collect();
        Pool { kind, id, devices }
    };
    root.list(Path::new("/sys/fs").join(kind)).into_iter().map(pool).collect()
}

/// A device of a mounted file system that has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its device number.
    pub number: DevNumber,
    /// Kind and UUID.
    pub file_system: String,
}

/// All users that the kernel lists outside of sysfs' tree of devices.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// `/proc/PID/mountinfo` of all mount namespaces that can be seen.
    pub mountinfo: String,
    /// `/proc/swaps`.
    pub swaps: String,
    /// Loop devices in use.
    pub loops: Vec<LoopDevice>,
    /// Devices of file systems that have several.
    pub members: Vec<Member>,
}

impl Usage {
    /// Reads all tables.
    pub fn read(root: &Root) -> io::Result<Self> {
        Ok(Self {
            mountinfo: mountinfo(root)?,
            // A kernel without swap does not have this file.
            swaps: root.text("/proc/swaps", TABLE_BYTES).unwrap_or_default(),
            loops: root.list(BLOCK).into_iter().filter_map(|name| loop_device(root, name)).collect(),
            members: SEVERAL_DEVICES.iter().flat_map(|(kind, ..)| members(root, kind)).collect(),
        })
    }
}

/// A mount namespace sees only its own mounts: the others', such as containers', follow. A captured tree has one table.
fn mountinfo(root: &Root) -> io::Result<String> {
    let read = |process: &str| {
        let table = root.read(format!("/proc/{process}/mountinfo"), TABLE_BYTES)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&table).into_owned())
    };
    if !root.is_live() {
        return read("1").or_else(|_| read("self"));
    }
    let mut all = read("self")?;
    let namespace =
        |process: &str| root.link_target(format!("/proc/{process}/ns/mnt"))?.file_name().map(ToOwned::to_owned);
    let mut seen: BTreeSet<_> = namespace("self").into_iter().gather();
    for process in root.list("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        let Some(namespace) = namespace(&process) else { continue };
        if seen.len() < MAX_NAMESPACES && seen.insert(namespace) {
            all.push_str(&read(&process).unwrap_or_default());
        }
    }
    Ok(all)
}

fn loop_device(root: &Root, name: String) -> Option<LoopDevice> {
    let dir = Path::new(BLOCK).join(&name);
    let file = root.attribute(dir.join("loop/backing_file"))?;
    // The path is that of another mount namespace, perhaps, or of a node that was replaced.
    let device = if root.is_live() { File::open(Path::new("/dev").join(&name)).ok() } else { None };
    let asked = device.and_then(|device| crate::disk::loop_backing(&device).ok());
    let backing = asked.unwrap_or_else(|| number_of(root, Path::new(&file)))?;
    let offset_bytes = root.number(dir.join("loop/offset")).unwrap_or(0);
    let numbers = nodes(root, &dir).ok()?.into_iter().map(|node| node.number).collect();
    Some(LoopDevice { name, numbers, backing, offset_bytes })
}

fn members(root: &Root, kind: &str) -> Vec<Member> {
    let member = |pool: &Pool, device: &PathBuf| {
        let number = DevNumber::parse(&root.attribute(device.join("dev"))?)?;
        Some(Member { number, file_system: format!("{} {}", pool.kind, pool.id) })
    };
    let pools = pools(root, kind);
    pools.iter().flat_map(|pool| pool.devices.iter().filter_map(|device| member(pool, device))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use testkit::tree::Tree;

    fn tree(files: &[(&str, &str)]) -> (Tree, Root) {
        let tree = Tree::new(files);
        let root = Root::open(tree.path()).unwrap();
        (tree, root)
    }

    #[test]
    fn top_of_a_stack_is_what_nothing_is_stacked_on() {
        let (_dir, root) = tree(&[
            ("sdb/dev", "8:16\n"),
            ("sdb/sdb2/dev", "8:18\n"),
            ("sdb/sdb2/partition", "2\n"),
            ("sdb/sdb1/dev", "8:17\n"),
            ("sdb/sdb1/partition", "1\n"),
            ("sdb/sdb1/holders/md127/dev", "9:127\n"),
            ("sdb/sdb2/holders/dm-4/dm/name", "vg0-root\n"),
            ("sdb/queue/rotational", "1\n"),
            ("sdb/sdb1/holders/md127/holders/dm-9/dev", "253:9\n"),
            ("sdb/sdb1/holders/md127/md127p1/dev", "259:1\n"),
            ("sdb/sdb1/holders/md127/md127p1/partition", "1\n"),
        ]);
        let all = nodes(&root, Path::new("/sdb")).unwrap();
        assert_eq!(all.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["sdb", "sdb1", "sdb2"]);
        let expected = ["/sdb/sdb1/holders/md127/holders/dm-9", "/sdb/sdb2/holders/dm-4"].map(PathBuf::from);
        assert_eq!(tops(&root, &all), expected);
        assert_eq!(tops(&root, &[]), Vec::<PathBuf>::new());
        assert_eq!(holders(&root, Path::new("/sdb/sdb2")), ["dm-4 (vg0-root)"]);
    }

    #[test]
    fn members_are_those_of_mounted_file_systems() {
        let (_dir, root) = tree(&[
            ("sys/fs/btrfs/11-22/devices/sdb2/dev", "8:18\n"),
            ("sys/fs/btrfs/11-22/label", "x\n"),
            ("sys/fs/btrfs/features/raid56", "0\n"),
            ("sys/fs/bcachefs/33-44/dev-0/block/dev", "8:16\n"),
            ("sys/fs/bcachefs/33-44/dev-1/block/dev", "8:32\n"),
            ("sys/fs/bcachefs/33-44/options/degraded", "0\n"),
            ("proc/self/mountinfo", ""),
        ]);
        let members = Usage::read(&root).unwrap().members;
        let mut found: Vec<_> = members.iter().map(|m| format!("{} {}", m.number, m.file_system)).collect();
        found.sort();
        assert_eq!(found, ["8:16 bcachefs 33-44", "8:18 btrfs 11-22", "8:32 bcachefs 33-44"]);
    }

    #[test]
    fn other_namespaces_mounts_follow_this_ones() {
        let own = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(mountinfo(&Root::open("/").unwrap()).unwrap().starts_with(&own));
    }

    #[test]
    fn a_captured_tree_tells_its_users_by_their_names() {
        let (dir, root) = tree(&[
            ("sys/devices/x/sda/dev", "8:0\n"),
            ("sys/devices/x/sda/sda1/dev", "8:1\n"),
            ("sys/devices/x/sda/sda1/partition", "1\n"),
            ("sys/block/loop0/dev", "7:0\n"),
            ("sys/block/loop0/loop/backing_file", "/dev/disk/by-id/disk\n"),
            ("sys/block/loop0/loop/offset", "512\n"),
            ("proc/1/mountinfo", "1 2 8:1 / / rw - ext4 /dev/sda1 rw\n"),
            ("proc/self/mountinfo", "of the program that captured it\n"),
            ("dev/disk/by-id/other", ""),
            ("sys/class/block/x", ""),
        ]);
        dir.link("sys/class/block/sda", "../../devices/x/sda").link("dev/disk/by-id/disk", "../../sda");
        let usage = Usage::read(&root).unwrap();
        assert!(usage.mountinfo.starts_with("1 2 8:1"), "{}", usage.mountinfo);
        let disk = DevNumber { major: 8, minor: 0 };
        let expected = LoopDevice {
            name: "loop0".into(),
            numbers: vec![DevNumber { major: 7, minor: 0 }],
            backing: disk,
            offset_bytes: 512,
        };
        assert_eq!(usage.loops, [expected]);
        assert_eq!(number_of(&root, Path::new("/dev/sda")), Some(disk));
        assert_eq!((number_of(&root, Path::new("/dev/sdz")), number_of(&root, Path::new("tmpfs"))), (None, None));
    }
}
