//! Partitions of a multipath device: the kernel makes none for devices of the device mapper, so kpartx maps them, as udev calls it
//! for each table that it sees. While nothing uses them they are no use of the disk, as the kernel's own partitions are none.

use crate::in_use::Use;
use crate::release::mapper::{Mapped, Mapper};
use kernel::{
    DevNumber, Root,
    block::{linked, nodes, tops},
};
use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Whether the device is one of the device mapper's, by its directory in sysfs.
pub(crate) fn is_mapped(root: &Root, dir: &Path) -> bool {
    root.is_dir(dir.join("dm"))
}

/// Whether all its users are stacked devices, and each topmost one can be opened exclusively.
pub(crate) fn has_idle_holders_only(root: &Root, disk: &Path, uses: &[Use]) -> bool {
    let is_idle = |dir: &PathBuf| {
        let node = Path::new("/dev").join(dir.file_name().unwrap_or_default());
        OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(node).is_ok()
    };
    uses.iter().all(|used| matches!(used, Use::Held { .. }))
        && nodes(root, disk).is_ok_and(|nodes| tops(root, &nodes).iter().all(is_idle))
}

/// The idle maps on a multipath device, if nothing else uses it.
pub(crate) fn idle(root: &Root, disk: &Path, uses: &[Use]) -> Vec<Mapped> {
    match on(root, disk) {
        Some(maps) if has_idle_holders_only(root, disk, uses) => maps,
        _ => Vec::new(),
    }
}

/// Removes them, so that the disk can be claimed. udev maps the partitions of the new table.
pub(crate) fn remove(maps: &[Mapped]) -> io::Result<()> {
    if maps.is_empty() {
        return Ok(());
    }
    let mapper = Mapper::open(Path::new("/"))?;
    maps.iter().try_for_each(|map| mapper.remove(map))
}

/// The maps on a multipath device; None if something else lies on it, or on them.
fn on(root: &Root, disk: &Path) -> Option<Vec<Mapped>> {
    if !attribute(root, disk, "uuid").starts_with("mpath-") {
        return None;
    }
    let map = |dir: &PathBuf| {
        number_of_map(root, dir)?;
        linked(root, dir, "holders").is_empty().then_some(())?;
        let number = |dir: &Path| DevNumber::parse(&root.attribute(dir.join("dev"))?);
        Some(Mapped {
            name: attribute(root, dir, "name"),
            uuid: attribute(root, dir, "uuid"),
            number: number(dir)?,
            on: linked(root, dir, "slaves").iter().filter_map(|dir| number(dir)).collect(),
        })
    };
    linked(root, disk, "holders").iter().map(map).collect()
}

/// The node of the map of a partition, of so many bytes.
pub(crate) fn node(root: &Root, disk: &Path, number: u32, len: u64) -> Option<PathBuf> {
    let is_it = |dir: &PathBuf| {
        let sectors = root.attribute(dir.join("size")).and_then(|text| text.trim().parse::<u64>().ok());
        number_of_map(root, dir) == Some(number) && sectors.and_then(|sectors| sectors.checked_mul(512)) == Some(len)
    };
    let dir = linked(root, disk, "holders").into_iter().find(is_it)?;
    Some(Path::new("/dev").join(dir.file_name()?))
}

/// By the UUID that kpartx gives it, such as `part3-mpath-3600…`.
fn number_of_map(root: &Root, dir: &Path) -> Option<u32> {
    let uuid = attribute(root, dir, "uuid");
    let (number, rest) = uuid.strip_prefix("part")?.split_once('-')?;
    rest.starts_with("mpath-").then(|| number.parse().ok())?
}

fn attribute(root: &Root, dir: &Path, name: &str) -> String {
    root.attribute(dir.join("dm").join(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tree::Tree;

    fn multipath(above: &[(&str, &str)]) -> Tree {
        let files = [
            ("dm-0/dev", "253:0\n"),
            ("dm-0/dm/uuid", "mpath-3600a\n"),
            ("dm-0/holders/dm-1/dev", "253:1\n"),
            ("dm-0/holders/dm-1/size", "8192\n"),
            ("dm-0/holders/dm-1/dm/name", "mpatha1\n"),
            ("dm-0/holders/dm-1/dm/uuid", "part1-mpath-3600a\n"),
            ("dm-0/holders/dm-1/slaves/dm-0/dev", "253:0\n"),
        ];
        Tree::new(&[&files[..], above].concat())
    }

    #[test]
    fn maps_of_partitions_are_told_from_other_devices() {
        let root = Root::open("/").unwrap();
        let maps = |tree: &Tree| on(&root, &tree.path().join("dm-0"));
        let names = |tree: &Tree| maps(tree).map(|maps| maps.into_iter().map(|map| map.name).collect::<Vec<_>>());
        let tree = multipath(&[]);
        assert_eq!(names(&tree), Some(vec!["mpatha1".to_owned()]));
        assert_eq!(maps(&tree).unwrap()[0].on, [DevNumber::parse("253:0").unwrap()]);
        assert_eq!(names(&multipath(&[("dm-0/holders/dm-1/holders/dm-2/dm/name", "vg-root\n")])), None, "LVM on a map");
        let beside = [("dm-0/holders/dm-3/dev", "253:3\n"), ("dm-0/holders/dm-3/dm/uuid", "LVM-x\n")];
        assert_eq!(names(&multipath(&beside)), None, "LVM beside it");
        let other = Tree::new(&[("dm-0/dm/uuid", "LVM-x\n")]);
        assert_eq!(names(&other), None, "no multipath device");
    }

    #[test]
    fn a_map_is_found_by_number_and_size() {
        let root = Root::open("/").unwrap();
        let tree = multipath(&[]);
        let find = |number, len| node(&root, &tree.path().join("dm-0"), number, len);
        assert_eq!(find(1, 4 << 20), Some(PathBuf::from("/dev/dm-1")));
        assert_eq!((find(1, 5 << 20), find(2, 4 << 20)), (None, None));
    }
}
