//! Block devices as `lsblk` lists them, from sysfs and udev's database.

use inventory::Root;
use std::collections::{BTreeMap, BTreeSet};

const COLUMNS: [&str; 14] = [
    "NAME", "MAJ:MIN", "SIZE", "TYPE", "FSTYPE", "KNAME", "MODEL", "UUID", "WWN", "HCTL", "VENDOR", "STATE", "TRAN",
    "PKNAME",
];
/// Columns of numbers stand right.
const RIGHT: [usize; 2] = [1, 2];
const MAX_UDEV_BYTES: usize = 64 << 10;
const MAX_ROWS: usize = 10_000;
const MAX_DEPTH: usize = 16;

/// The table, with the heads of its columns.
pub(super) fn table(root: &Root) -> String {
    let names = root.list("/sys/class/block");
    let mut children: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut tops = Vec::new();
    for name in &names {
        let mut parents = root.list(format!("/sys/class/block/{name}/slaves"));
        if root.exists(format!("/sys/class/block/{name}/partition"))
            && let Some(disk) =
                root.resolve(format!("/sys/class/block/{name}")).as_deref().and_then(|path| path.parent())
            && let Some(disk) = disk.file_name()
        {
            parents.push(disk.to_string_lossy().into_owned());
        }
        // As lsblk: without what has no size, as unused loop devices.
        let has_size = root.attribute(format!("/sys/class/block/{name}/size")).is_some_and(|size| size != "0");
        if parents.is_empty() && (has_size || !(name.starts_with("loop") || name.starts_with("ram"))) {
            tops.push(name.clone());
        }
        for parent in parents {
            children.entry(parent).or_default().insert(name.clone());
        }
    }
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    for name in &tops {
        add(root, name, "", "", &children, "", 0, &mut rows);
    }
    layout(&rows, &RIGHT)
}

#[allow(clippy::too_many_arguments)] // One place in a tree.
fn add(
    root: &Root,
    name: &str,
    parent: &str,
    branch: &str,
    children: &BTreeMap<String, BTreeSet<String>>,
    indent: &str,
    depth: usize,
    rows: &mut Vec<[String; 14]>,
) {
    if rows.len() > MAX_ROWS || depth > MAX_DEPTH {
        return;
    }
    rows.push(row(root, name, parent, &format!("{indent}{branch}")));
    let Some(children_of) = children.get(name) else { return };
    let indent = match branch {
        "" => indent.to_owned(),
        "└─" => format!("{indent}  "),
        _ => format!("{indent}│ "),
    };
    for (index, child) in children_of.iter().enumerate() {
        let branch = if index + 1 == children_of.len() { "└─" } else { "├─" };
        add(root, child, name, branch, children, &indent, depth + 1, rows);
    }
}

fn row(root: &Root, name: &str, parent: &str, branch: &str) -> [String; 14] {
    let attribute = |file: &str| root.attribute(format!("/sys/class/block/{name}/{file}"));
    let device = attribute("dev").unwrap_or_default();
    let udev = root.text(format!("/run/udev/data/b{device}"), MAX_UDEV_BYTES).unwrap_or_default();
    let known = |keys: &[&str]| {
        let value = |key: &&str| {
            udev.lines()
                .find_map(|line| line.strip_prefix("E:")?.strip_prefix(*key)?.strip_prefix('='))
                .map(str::to_owned)
        };
        keys.iter().find_map(value)
    };
    let dm = attribute("dm/name");
    let size = attribute("size").and_then(|sectors| sectors.parse::<u64>().ok()).map(|sectors| size(sectors << 9));
    let is_partition = attribute("partition").is_some();
    let link = root.link_target(format!("/sys/class/block/{name}/device"));
    let device_name = link.as_deref().and_then(|link| link.file_name()).map(|name| name.to_string_lossy().into_owned());
    let hctl = device_name.filter(|name| name.split(':').count() == 4);
    let on_disk = |value: Option<String>| if is_partition { None } else { value };
    let cells = [
        Some(format!("{branch}{}", dm.as_deref().unwrap_or(name))),
        Some(device.clone()),
        size,
        Some(kind(root, name, is_partition)),
        known(&["ID_FS_TYPE"]),
        Some(name.to_owned()),
        on_disk(attribute("device/model").or_else(|| known(&["ID_MODEL"]))),
        known(&["ID_FS_UUID"]),
        attribute("wwid").filter(|_| name.starts_with("nvme")).or_else(|| known(&["ID_WWN_WITH_EXTENSION", "ID_WWN"])),
        on_disk(hctl),
        on_disk(attribute("device/vendor")),
        on_disk(attribute("device/state").or_else(|| {
            attribute("dm/suspended").map(
                |state| {
                    if state == "0" { "running".to_owned() } else { "suspended".to_owned() }
                },
            )
        })),
        on_disk(transport(name, &known(&["ID_BUS"]).unwrap_or_default(), &known(&["ID_PATH"]).unwrap_or_default())),
        Some(parent.to_owned()),
    ];
    cells
        .map(|cell| cell.unwrap_or_default().chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>())
        .map(|cell| cell.trim_end().to_owned())
}

fn kind(root: &Root, name: &str, is_partition: bool) -> String {
    let attribute = |file: &str| root.attribute(format!("/sys/class/block/{name}/{file}"));
    if is_partition {
        return "part".into();
    }
    if let Some(uuid) = attribute("dm/uuid") {
        // The prefix is who made it: LVM-, CRYPT-, mpath-, part1-mpath-.
        let prefix = uuid.split('-').next().unwrap_or_default().to_lowercase();
        return if prefix.is_empty() {
            "dm".into()
        } else if prefix.starts_with("part") {
            "part".into()
        } else {
            prefix
        };
    }
    if let Some(level) = attribute("md/level") {
        return level;
    }
    match name {
        name if name.starts_with("loop") => "loop".into(),
        name if name.starts_with("sr") => "rom".into(),
        _ => "disk".into(),
    }
}

fn transport(name: &str, bus: &str, path: &str) -> Option<String> {
    let has = |word: &str| path.split('-').any(|part| part == word);
    Some(
        match () {
            () if name.starts_with("nvme") => "nvme",
            () if name.starts_with("vd") => "virtio",
            () if has("usb") || bus == "usb" => "usb",
            () if has("iscsi") => "iscsi",
            () if has("fc") => "fc",
            () if has("sas") => "sas",
            () if bus == "ata" || has("ata") => "sata",
            () => return None,
        }
        .to_owned(),
    )
}

/// `1.8T`: three digits at most, in steps of 1024, as util-linux rounds.
pub(super) fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut scale = 1_u64;
    while unit < 6 && bytes / scale >= 1024 {
        (scale, unit) = (scale << 10, unit + 1);
    }
    let letter = ["B", "K", "M", "G", "T", "P", "E"].get(unit).copied().unwrap_or_default();
    let tenths = (u128::from(bytes) * 10 + u128::from(scale) / 2) / u128::from(scale);
    match tenths % 10 {
        0 => format!("{}{letter}", tenths / 10),
        tenth => format!("{}.{tenth}{letter}", tenths / 10),
    }
}

/// Columns as wide as their widest cell; those of `right` stand right.
pub(super) fn layout<const N: usize>(rows: &[[String; N]], right: &[usize]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match right.contains(&column) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        let line = cells.collect::<Vec<_>>().join(" ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_lsblk_rounds() {
        assert_eq!(
            [0, 512, 1536, 137_438_953_472, 1_920_383_410_176].map(size),
            ["0B", "512B", "1.5K", "128G", "1.7T"]
        );
    }

    #[test]
    fn this_machine_s_disks_are_listed_with_their_partitions() {
        let table = table(&Root::open("/").unwrap());
        assert!(table.starts_with("NAME"), "{table}");
        assert!(table.lines().all(|line| !line.contains('\u{1b}')));
    }
}
