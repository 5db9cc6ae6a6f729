//! Disks of machines made up for the test.

use super::*;
use crate::{mounts, testing::Tree};
use std::process::Command;

const SATA: &str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0";
const EFI_ISO: &str = "Disk appears to be an ISO installation media (has partition with mountpoint suffix iso)";

/// Adds a block device; files are paths in its directory.
fn add(tree: &Tree, name: &str, place: &str, files: &[(&str, &str)]) {
    for (file, content) in files {
        tree.add(&format!("sys/devices/{place}/block/{name}/{file}"), format!("{content}\n"));
    }
    tree.link(&format!("sys/block/{name}"), &format!("../devices/{place}/block/{name}"));
    tree.link(&format!("sys/devices/{place}/block/{name}/device"), "../..");
}

fn virtual_disk(tree: &Tree, name: &str, files: &[(&str, &str)]) {
    for (file, content) in files {
        tree.add(&format!("sys/devices/virtual/block/{name}/{file}"), format!("{content}\n"));
    }
    tree.link(&format!("sys/block/{name}"), &format!("../devices/virtual/block/{name}"));
}

fn of(tree: &Tree) -> Vec<Disk> {
    let root = tree.root();
    disks(&root, &mounts::mounts(&root), &mounts::swaps(&root))
}

fn reasons(disk: &Disk) -> Vec<&str> {
    let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
    assert_eq!(disk.installation_eligibility.eligible, reasons.is_empty());
    reasons.iter().map(String::as_str).collect()
}

fn mounted(tree: &Tree, lines: &[(&str, &str, &str)]) {
    let table: String = lines
        .iter()
        .map(|(number, target, source)| format!("1 2 {number} / {target} rw - ext4 {source} rw\n"))
        .collect();
    tree.add("proc/1/mountinfo", table);
}

#[test]
fn a_disk_that_udev_knows() {
    let tree = Tree::new(&[]);
    add(&tree, "sda", SATA, &[("dev", "8:0"), ("size", "1952448512"), ("removable", "0"), ("queue/rotational", "1")]);
    tree.add(&format!("sys/devices/{SATA}/vendor"), "DELL    \n")
        .add(&format!("sys/devices/{SATA}/vpd_pg83"), [0, 0x83, 0, 4, 1, 0, 0, 0])
        .dir(&format!("sys/devices/{SATA}/scsi_device/0:2:0:0"))
        .add(
            "run/udev/data/b8:0",
            "E:ID_PATH=pci-0000:02:00.0-scsi-0:2:0:0\nE:ID_MODEL=PERC_H330_Mini\nE:ID_WWN=0x5000\n\
             E:ID_WWN_WITH_EXTENSION=0x5000c500a1b2c3d4\nE:ID_SERIAL=35000c\nE:ID_SERIAL_SHORT=5000c500a1b2c3d4\n",
        )
        .link("dev/disk/by-path/pci-0000:02:00.0-scsi-0:2:0:0", "../../sda")
        .link("dev/disk/by-id/scsi-3500", "../../sda")
        .link("dev/disk/by-id/wwn-0x1", "../../sda")
        .link("dev/disk/by-id/wwn-0x5000c500a1b2c3d4", "../../sda")
        .link("dev/disk/by-id/wwn-0x5000c500a1b2c3d4-part1", "../../sda1");
    let expected = Disk {
        by_id: "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4".to_owned(),
        by_path: "/dev/disk/by-path/pci-0000:02:00.0-scsi-0:2:0:0".to_owned(),
        drive_type: "HDD".to_owned(),
        has_uuid: true,
        hctl: "0:2:0:0".to_owned(),
        id: "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4".to_owned(),
        installation_eligibility: Eligibility { eligible: true, not_eligible_reasons: None },
        model: "PERC_H330_Mini".to_owned(),
        name: "sda".to_owned(),
        path: "/dev/sda".to_owned(),
        serial: "5000c500a1b2c3d4".to_owned(),
        size_bytes: 999_653_638_144,
        vendor: "DELL".to_owned(),
        wwn: "0x5000c500a1b2c3d4".to_owned(),
        ..Disk::default()
    };
    assert_eq!(of(&tree), [expected]);
}

#[test]
fn disks_without_udev() {
    let tree = Tree::new(&[]);
    add(&tree, "sda", SATA, &[("size", "100"), ("queue/rotational", "0")]);
    tree.add(&format!("sys/devices/{SATA}/model"), "WDC  WD800JD-00\n")
        .add(&format!("sys/devices/{SATA}/vpd_pg80"), b"\0\x80\0\x08  SER-1 ")
        .add(&format!("sys/devices/{SATA}/wwid"), "naa.5000c500a1b2c3d4\n");
    add(&tree, "vda", "pci0000:00/virtio1", &[("size", "8"), ("serial", "VBLK-1"), ("queue/rotational", "1")]);
    tree.add("sys/devices/pci0000:00/virtio1/vendor", "0x1af4\n");
    add(&tree, "nvme0n1", "pci0000:00/nvme/nvme0", &[("size", "8"), ("wwid", "eui.0025")]);
    tree.add("sys/devices/pci0000:00/nvme/nvme0/model", "KINGSTON SKC1000   \n");
    tree.add("sys/devices/pci0000:00/nvme/nvme0/serial", "50026B  \n");
    let found = of(&tree);
    let short =
        |disk: &Disk| [&disk.drive_type, &disk.model, &disk.serial, &disk.wwn, &disk.hctl, &disk.id].map(String::clone);
    assert_eq!(short(&found[0]), ["SSD", "KINGSTON SKC1000", "50026B", "eui.0025", "", "/dev/nvme0n1"]);
    assert_eq!(short(&found[1]), ["SSD", "WDC_WD800JD-00", "SER-1", "0x5000c500a1b2c3d4", "0:0:0:0", "/dev/sda"]);
    assert_eq!(short(&found[2]), ["HDD", "", "VBLK-1", "", "", "/dev/vda"]);
    assert_eq!((found[0].has_uuid, found[1].has_uuid, found[2].has_uuid), (true, false, false));
    assert_eq!(found[2].vendor, "0x1af4");
}

#[test]
fn what_is_no_disk() {
    let tree = Tree::new(&[]);
    for name in ["loop0", "zram0", "dm-3", "sr0", "md127", "nbd0", "fd0", "mmcblk0", "cciss!c0d0"] {
        virtual_disk(&tree, name, &[("size", "0")]);
    }
    virtual_disk(&tree, "nvme0c0n1", &[("hidden", "1")]);
    virtual_disk(&tree, "dm-1", &[("dm/uuid", "LVM-abc"), ("dm/name", "vg-lv")]);
    virtual_disk(&tree, "dm-2", &[("dm/uuid", "mpath-3500"), ("dm/name", "mpatha")]);
    let found = of(&tree);
    let shown: Vec<_> =
        found.iter().map(|disk| (disk.name.as_str(), disk.drive_type.as_str(), reasons(disk))).collect();
    let unknown = vec!["Disk has unknown storage controller"];
    let expected = [
        ("cciss!c0d0", "Unknown", unknown.clone()),
        ("dm-1", "LVM", vec!["Disk is an LVM logical volume"]),
        ("dm-2", "Multipath", vec![]),
        ("fd0", "FDD", unknown.clone()),
        ("md127", "RAID", vec![]),
        ("mmcblk0", "SSD", vec![]),
        ("nbd0", "Unknown", unknown),
        ("sr0", "ODD", vec![]),
    ];
    assert_eq!(shown, expected);
    assert_eq!(found[0].path, "/dev/cciss/c0d0");
    assert!(found[7].is_installation_media && !found[1].is_installation_media);
}

#[test]
fn mounts_make_a_disk_ineligible() {
    let tree = Tree::new(&[("proc/swaps", "Filename Type Size Used Priority\n/dev/sda3 partition 1 0 -2\n")]);
    let parts = [
        ("dev", "8:0"),
        ("size", "9"),
        ("sda1/dev", "8:1"),
        ("sda10/dev", "8:10"),
        ("sda2/dev", "8:2"),
        ("sda3/dev", "8:3"),
    ];
    add(&tree, "sda", SATA, &parts);
    virtual_disk(&tree, "vdb", &[("dev", "254:16")]);
    mounted(
        &tree,
        &[
            ("8:1", "/boot", "/dev/root"),
            ("0:40", "/my\\040home", "/dev/sda2"),
            ("8:1", "/again", "/dev/sda1"),
            ("254:16", "/", "/dev/vdb"),
        ],
    );
    let found = of(&tree);
    assert_eq!(
        reasons(&found[0]),
        [
            "Disk has partition 'sda1' mounted on '/boot'",
            "Disk has partition 'sda2' mounted on '/my home'",
            "Disk has partition 'sda3' in use as swap",
        ]
    );
    assert_eq!(reasons(&found[1]), ["Disk is mounted on '/'"]);
}

#[test]
fn the_medium_we_booted_from() {
    for (part, number) in [("sdb1", "8:17"), ("sdb", "8:16")] {
        let tree = Tree::new(&[]);
        virtual_disk(&tree, "sdb", &[("dev", "8:16"), ("sdb1/dev", "8:17"), ("sdb2/dev", "8:18")]);
        mounted(&tree, &[(number, "/run/media/iso", &format!("/dev/{part}")), ("8:18", "/mnt", "/dev/sdb2")]);
        let found = of(&tree);
        assert!(found[0].is_installation_media, "{part}");
        assert_eq!(reasons(&found[0]).last(), Some(&EFI_ISO), "{part}");
    }
}

#[test]
fn stacks_count_when_somebody_uses_them() {
    let tree = Tree::new(&[("proc/swaps", "Filename\n/dev/mapper/vg-swap partition 1 0 -2\n")]);
    let disk = [("dev", "8:0"), ("sda2/dev", "8:2"), ("sda2/holders/dm-0/dev", ""), ("sda3/holders/md0/dev", "")];
    virtual_disk(&tree, "sda", &disk);
    virtual_disk(
        &tree,
        "dm-0",
        &[("dev", "253:0"), ("dm/uuid", "CRYPT-1"), ("holders/dm-1/dev", ""), ("holders/dm-2/dev", "")],
    );
    virtual_disk(&tree, "dm-1", &[("dev", "253:1"), ("dm/uuid", "LVM-1"), ("dm/name", "vg-root")]);
    virtual_disk(
        &tree,
        "dm-2",
        &[("dev", "253:2"), ("dm/uuid", "LVM-2"), ("dm/name", "vg-swap"), ("holders/dm-0/dev", "")],
    );
    virtual_disk(&tree, "md0", &[("dev", "9:0"), ("md0p1/dev", "259:0")]);
    virtual_disk(&tree, "sdb", &[("holders/dm-9/dev", "")]);
    mounted(&tree, &[("253:1", "/home", "/dev/mapper/vg-root"), ("259:0", "/srv", "/dev/md0p1")]);
    let found = of(&tree);
    let by_name = |name: &str| found.iter().find(|disk| disk.name == name).unwrap();
    assert_eq!(
        reasons(by_name("sda")),
        [
            "Disk has partition 'sda2' in use by 'dm-1', which is mounted on '/home'",
            "Disk has partition 'sda2' in use by 'dm-2', which is in use as swap",
            "Disk has partition 'sda3' in use by 'md0p1', which is mounted on '/srv'",
        ]
    );
    assert_eq!(reasons(by_name("md0")), ["Disk has partition 'md0p1' mounted on '/srv'"]);
    assert_eq!(reasons(by_name("dm-1")), ["Disk is an LVM logical volume", "Disk is mounted on '/home'"]);
    assert_eq!((reasons(by_name("sdb")), by_name("sdb").holders.as_str()), (vec![], "dm-9"));
}

#[test]
fn iscsi_disks() {
    let place = "platform/host2/session1/target2:0:0/2:0:0:0";
    let tree = Tree::new(&[("sys/class/iscsi_host/host2/ipaddress", "10.0.0.21\n")]);
    add(&tree, "sdb", place, &[("dev", "8:16"), ("size", "41943040"), ("holders/dm-0/x", "")]);
    let why = || {
        let found = of(&tree);
        assert_eq!((found[0].drive_type.as_str(), found[0].holders.as_str()), ("iSCSI", "dm-0"));
        assert_eq!(found[0].iscsi.as_ref().unwrap().host_ip_address, "10.0.0.21");
        reasons(&found[0]).join("|")
    };
    assert_eq!(why(), "Failed to read state of iSCSI disk|Cannot find iSCSI target name");
    tree.add(&format!("sys/devices/{place}/state"), "blocked\n");
    tree.add("sys/class/iscsi_session/session1/targetname", "iqn.2024-01.com.example:t0\n");
    assert_eq!(why(), "iSCSI disk is not in running state|iBFT firmware is missing");
    tree.add(&format!("sys/devices/{place}/state"), "running\n");
    tree.add("sys/firmware/ibft/target0/target-name", "iqn.other\n");
    assert_eq!(why(), "iSCSI disk is missing from iBFT");
    tree.add("sys/firmware/ibft/target1/target-name", "iqn.2024-01.com.example:t0\n");
    assert_eq!(why(), "");
    tree.add("run/udev/data/b8:16", "E:ID_PATH=pci-0000:00:1f.2-ata-1\n");
    assert_eq!(of(&tree)[0].drive_type, "SSD");
}

#[test]
fn mainframe_and_fabric_disks() {
    let tree = Tree::new(&[]);
    for (name, ccw, files) in [
        ("dasda", "css0/0.0.1", &[("discipline", "ECKD"), ("ese", "1")][..]),
        ("dasdb", "css0/0.0.2", &[("discipline", "ECKD"), ("ese", "0")]),
        ("dasdc", "css0/0.0.3", &[("discipline", "FBA")]),
        ("dasdd", "css0/0.0.4", &[]),
    ] {
        add(&tree, name, ccw, &[("size", "8")]);
        for (file, content) in files {
            tree.add(&format!("sys/devices/{ccw}/{file}"), content);
        }
    }
    add(&tree, "sda", "pci0000:00/host1/rport-1:0-3/target1:0:0/1:0:0:7", &[("size", "8")]);
    let found = of(&tree);
    let kinds: Vec<_> = found.iter().map(|disk| disk.drive_type.as_str()).collect();
    assert_eq!(kinds, ["ECKD (ESE)", "ECKD", "FBA", "Unknown", "FC"]);
    assert!(found.iter().all(|disk| reasons(disk).is_empty()));
}

#[test]
fn a_shared_path_is_nobodys() {
    let tree = Tree::new(&[]);
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16")] {
        virtual_disk(&tree, name, &[("dev", number)]);
        tree.add(&format!("run/udev/data/b{number}"), "E:ID_PATH=pci-0000:00:01.1-ata-1\n");
    }
    tree.link("dev/disk/by-path/pci-0000:00:01.1-ata-1", "../../sdb");
    assert!(of(&tree).iter().all(|disk| disk.by_path.is_empty() && disk.id == disk.path));
}

#[test]
fn appliances() {
    let tree = Tree::new(&[]);
    virtual_disk(
        &tree,
        "sda",
        &[("dev", "8:0"), ("sda1/dev", "8:1"), ("sda1/uevent", "DEVTYPE=partition\nPARTNAME=agentboot")],
    );
    mounted(&tree, &[("8:1", "/boot", "/dev/sda1")]);
    assert_eq!(reasons(&of(&tree)[0]), Vec::<&str>::new());
    virtual_disk(&tree, "dm-0", &[("dm/name", "agent-root"), ("dm/uuid", "CRYPT-x"), ("size", "8")]);
    let found = of(&tree);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].path.as_str(), found[0].id.as_str()), ("dm-0", "/dev/dm-0", ""));
    assert_eq!((found[0].size_bytes, found[0].drive_type.as_str()), (107_374_182_400, "SSD"));
    assert!(reasons(&found[0]).is_empty());
}

/// A loop device over a file of our own, detached on drop.
struct Loop {
    node: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    fn over(content: &[u8]) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, content).unwrap();
        let made = Command::new("losetup").args(["--find", "--show", "--read-only"]).arg(file.path()).output().unwrap();
        assert!(made.status.success(), "losetup: {}", String::from_utf8_lossy(&made.stderr));
        let node = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        assert!(node.starts_with("/dev/loop"), "{node}");
        Self { node, _file: file }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").args(["--detach", &self.node]).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} could not be detached", self.node);
        }
    }
}

#[test]
fn boot_signatures_are_read_from_the_device() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: loop devices need root");
        return;
    }
    let mut content = vec![0; 1 << 20];
    let blank = Loop::over(&content);
    content[510..512].copy_from_slice(&[0x55, 0xaa]);
    let bootable = Loop::over(&content);
    let tiny = Loop::over(&[]);
    let root = Root::open("/").unwrap();
    let all = devices(&root);
    for (device, expected) in [(&blank, false), (&bootable, true), (&tiny, false)] {
        let found = all.iter().find(|d| d.node() == Path::new(&device.node)).unwrap();
        assert_eq!(bootable_disks(&root, &[found]).contains(&found.name), expected, "{}", device.node);
    }
}
