use super::*;
use std::{fs, os::unix::fs::symlink};
use testkit::tree::put;

/// A machine: two paths to one disk, an NVMe drive with a hidden leg, and a disk that only udev knows the names of.
fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, content: &[u8]| put(root.path(), path, content);
    let disk = |device: &str, name: &str, number: &str, files: &[(&str, &str)]| {
        let dir = format!("sys/devices/{device}/{name}");
        for (file, content) in [("dev", number), ("size", "2048\n"), ("ro", "0\n")].iter().chain(files) {
            put(&format!("{dir}/{file}"), content.as_bytes());
        }
        fs::create_dir_all(root.path().join("sys/block")).unwrap();
        symlink(format!("../devices/{device}/{name}"), root.path().join("sys/block").join(name)).unwrap();
    };
    let legs = [("sda", "8:0\n"), ("sdb", "8:16\n")];
    for (name, number) in legs {
        let device = format!("pci0/ata1/host1/target1:0:0/1:0:0:0/block{name}");
        let model = ("device/model", "Virtual disk    \n");
        disk(&device, name, number, &[("device/wwid", "naa.5000c5000000cafe\n"), model, ("diskseq", "7\n")]);
        put(&format!("sys/devices/{device}/{name}/device/vpd_pg80"), b"\0\x80\0\x08 SERIAL1");
    }
    let nvme = [("wwid", "eui.0025385b71b00001\n"), ("device/serial", "S4EV\n"), ("queue/rotational", "0\n")];
    disk("pci0/nvme/nvme0", "nvme0n1", "259:0\n", &nvme);
    disk("pci0/nvme/nvme0", "nvme0c0n1", "0:0\n", &[("hidden", "1\n"), ("wwid", "eui.0025385b71b00001\n")]);
    disk("virtual/block", "loop0", "7:0\n", &[]);
    disk("pci0/virtio1", "vdb", "254:16\n", &[("size", "4096\n")]);
    put("run/udev/data/b254:16", b"S:disk/by-id/virtio-DATA\nE:ID_SERIAL_SHORT=DATA\nE:ID_MODEL=Block\n");
    fs::create_dir_all(root.path().join("dev/disk/by-id")).unwrap();
    for (link, to) in [("nvme-X_S4EV", "nvme0n1"), ("nvme-X_S4EV-part1", "nvme0n1p1")] {
        symlink(format!("../../{to}"), root.path().join("dev/disk/by-id").join(link)).unwrap();
    }
    root
}

fn put_multipath(root: &Path) {
    for leg in ["sda", "sdb"] {
        let dir = root.join("sys/block").join(leg).join("holders/dm-0/dm");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("uuid"), "mpath-35000c5000000cafe\n").unwrap();
        fs::write(dir.join("name"), "mpatha\n").unwrap();
    }
    let dir = root.join("sys/block/dm-0");
    fs::create_dir_all(dir.join("device")).unwrap();
    fs::write(dir.join("dev"), "253:0\n").unwrap();
    fs::write(dir.join("size"), "2048\n").unwrap();
    fs::create_dir_all(root.join("run/udev/data")).unwrap();
    fs::write(root.join("run/udev/data/b253:0"), "E:DM_WWN=0x5000c5000000cafe\n").unwrap();
}

fn open(root: &tempfile::TempDir) -> Root {
    Root::open(root.path()).unwrap()
}

fn node(root: &tempfile::TempDir, name: &str) -> String {
    resolve(&open(root), Path::new(name)).unwrap().display().to_string()
}

#[test]
fn every_name_finds_its_disk() {
    let root = machine();
    for name in ["nvme0n1", "nvme-X_S4EV", "eui.0025385b71b00001", "0025385B71B00001", "S4EV"] {
        assert_eq!(node(&root, name), "/dev/nvme0n1", "{name}");
    }
    for name in ["vdb", "virtio-DATA", "DATA"] {
        assert_eq!(node(&root, name), "/dev/vdb", "{name}");
    }
    // Paths are for the kernel to say.
    assert_eq!(node(&root, "/dev/disk/by-id/no"), "/dev/disk/by-id/no");
    assert_eq!(node(&root, "./sda"), "./sda");
}

#[test]
fn no_disk_and_more_than_one_list_what_there_is() {
    let root = machine();
    let message = |name: &str| resolve(&open(&root), Path::new(name)).unwrap_err().to_string();
    let unknown = message("sdx");
    assert!(
        unknown.starts_with("no disk has the path, name, link, WWN or serial number 'sdx'; found: nvme0n1: "),
        "{unknown}"
    );
    assert!(unknown.contains("; sda: 1 MiB, Virtual disk, serial SERIAL1, WWN naa.5000c5000000cafe; "), "{unknown}");
    assert!(!unknown.contains("loop0") && !unknown.contains("nvme0c0n1"), "{unknown}");
    // A partition's link is no disk's.
    assert!(message("nvme-X_S4EV-part1").starts_with("no disk"));
    for name in ["0x5000c5000000cafe", "wwn-0x5000c5000000CAFE", "naa.5000c5000000cafe", "SERIAL1"] {
        assert!(message(name).contains("matches more than one disk: sda: 1 MiB"), "{name}");
    }
}

#[test]
fn multipath_device_stands_for_its_legs() {
    let root = machine();
    let leg = DiskIdentity::read(&open(&root), "sda").unwrap();
    assert_eq!(leg.twins(&open(&root)), ["sdb"]);
    assert_eq!(multipath_of(&open(&root), "sda"), None);
    put_multipath(root.path());
    assert_eq!(node(&root, "0x5000c5000000cafe"), "/dev/dm-0");
    assert_eq!(multipath_of(&open(&root), "sda"), Some(("dm-0".into(), "mpatha".into())));
    assert_eq!(multipath_of(&open(&root), "nvme0n1"), None);
}

#[test]
fn facts_are_read_and_missing_ones_are_none() {
    let root = machine();
    let leg = DiskIdentity::read(&open(&root), "sda").unwrap();
    assert_eq!((leg.serial.as_deref(), leg.model.as_deref()), (Some("SERIAL1"), Some("Virtual disk")));
    assert_eq!((leg.transport.as_deref(), leg.rotational, leg.diskseq), (Some("sata"), None, Some(7)));
    let nvme = DiskIdentity::read(&open(&root), "nvme0n1").unwrap();
    assert_eq!((nvme.transport.as_deref(), nvme.rotational), (Some("nvme"), Some(false)));
    assert_eq!(nvme.by_id, ["nvme-X_S4EV"]);
    assert_eq!(DiskIdentity::read(&open(&root), "no"), None);
    assert_eq!(unit_serial(b"\0\x80\0\x20short"), None);
    assert_eq!(unit_serial(b"\0\x83\0\x01x"), None);
}

#[test]
fn another_disk_at_the_same_place_shows() {
    let root = machine();
    let was = DiskIdentity::read(&open(&root), "sda").unwrap();
    assert_eq!(was.changes(&was), []);
    let is = DiskIdentity { serial: None, diskseq: Some(9), size_bytes: 5, ..was.clone() };
    let changes: Vec<_> = was.changes(&is).iter().map(Change::to_string).collect();
    assert_eq!(
        changes,
        [
            "its size was 1 MiB and is now 5 B",
            "its serial number was SERIAL1 and is now none",
            "its disk sequence number was 7 and is now 9",
        ]
    );
}
