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
    let boot = crate::boot::boot(&root, &[]);
    let label = crate::boot::live_label(&boot);
    disks(&root, &mounts::mounts(&root), &mounts::swaps(&root), label.as_deref())
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

#[test]
fn nvme_multipath_shows_its_head_alone() {
    let tree = Tree::new(&[]);
    let subsystem = "virtual/nvme-subsystem/nvme-subsys0";
    for (file, content) in [("size", "8"), ("wwid", "eui.0025385b"), ("queue/rotational", "0"), ("dev", "259:1")] {
        tree.add(&format!("sys/devices/{subsystem}/nvme0n1/{file}"), format!("{content}\n"));
    }
    tree.link("sys/block/nvme0n1", &format!("../devices/{subsystem}/nvme0n1"));
    tree.link(&format!("sys/devices/{subsystem}/nvme0n1/device"), "../../nvme-subsys0");
    tree.add(&format!("sys/devices/{subsystem}/model"), "INTEL SSDPE2KX010T8                     \n");
    tree.add(&format!("sys/devices/{subsystem}/serial"), "PHLJ001\n");
    for leg in ["nvme0c0n1", "nvme0c1n1"] {
        let place = format!("pci0000:00/nvme/nvme{}", &leg[6..7]);
        tree.add(&format!("sys/devices/{place}/{leg}/hidden"), "1\n");
        tree.link(&format!("sys/block/{leg}"), &format!("../devices/{place}/{leg}"));
    }
    tree.link("dev/disk/by-id/nvme-eui.0025385b", "../../nvme0n1");
    tree.link("dev/disk/by-id/nvme-eui.0025385b_1", "../../nvme0n1");
    tree.link("dev/disk/by-id/nvme-INTEL_SSD", "../../nvme0n1");
    let found = of(&tree);
    assert_eq!(found.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(), ["nvme0n1"]);
    assert_eq!((found[0].model.as_str(), found[0].serial.as_str()), ("INTEL SSDPE2KX010T8", "PHLJ001"));
    // The last by name, as the service has always known it.
    assert_eq!(found[0].id, "/dev/disk/by-id/nvme-eui.0025385b_1");
    assert_eq!(found[0].wwn, "/dev/disk/by-id/nvme-eui.0025385b_1");
    assert!(found[0].has_uuid && found[0].installation_eligibility.eligible);
}

#[test]
fn multipath_and_its_members() {
    let tree = Tree::new(&[]);
    for (leg, lun) in [("sda", 0), ("sdb", 1)] {
        let place = format!("pci0000:00/host{lun}/rport-{lun}:0-0/target{lun}:0:0/{lun}:0:0:0");
        add(&tree, leg, &place, &[("dev", &format!("8:{}", lun * 16)), ("size", "8"), ("holders/dm-0/x", "")]);
        tree.add(&format!("sys/devices/{place}/vpd_pg83"), [0, 0x83, 0, 4, 1, 0, 0, 0]);
        let id_path = format!("pci-0000:00:0{lun}.0-fc-0x50-lun-0");
        tree.add(&format!("run/udev/data/b8:{}", lun * 16), format!("E:ID_PATH={id_path}\nE:ID_WWN=0x600\n"));
        tree.link(&format!("dev/disk/by-path/{id_path}"), &format!("../../{leg}"));
        tree.link(&format!("sys/devices/virtual/block/dm-0/slaves/{leg}"), &format!("../../../../{place}/block/{leg}"));
    }
    let head =
        [("dev", "253:0"), ("size", "8"), ("dm/uuid", "mpath-3600"), ("dm/name", "mpatha"), ("holders/dm-1/x", "")];
    virtual_disk(&tree, "dm-0", &head);
    virtual_disk(&tree, "dm-1", &[("dev", "253:1"), ("dm/uuid", "part1-mpath-3600"), ("dm/name", "mpatha1")]);
    tree.add("run/udev/data/b253:0", "E:DM_WWN=0x600508b4\nE:DM_NAME=mpatha\n");
    tree.link("dev/disk/by-id/wwn-0x600508b4", "../../dm-0");
    let found = of(&tree);
    let shown: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.drive_type.as_str(), d.holders.as_str())).collect();
    assert_eq!(shown, [("dm-0", "Multipath", "dm-1"), ("sda", "FC", "dm-0"), ("sdb", "FC", "dm-0")]);
    assert_eq!((found[0].wwn.as_str(), found[0].id.as_str()), ("0x600508b4", "/dev/disk/by-id/wwn-0x600508b4"));
    assert!(found.iter().all(|disk| disk.has_uuid && reasons(disk).is_empty()));
    mounted(&tree, &[("253:1", "/data", "/dev/mapper/mpatha1")]);
    let used = of(&tree);
    assert_eq!(reasons(&used[0]), ["Disk is in use by 'dm-1', which is mounted on '/data'"]);
    assert_eq!(reasons(&used[1]), reasons(&used[2]));
    assert_eq!(reasons(&used[1]), ["Disk is in use by 'dm-1', which is mounted on '/data'"]);
}

#[test]
fn the_medium_below_a_multipath_device() {
    let tree = Tree::new(&[]);
    virtual_disk(&tree, "sda", &[("dev", "8:0"), ("size", "8"), ("holders/dm-0/x", "")]);
    virtual_disk(&tree, "dm-0", &[("dev", "253:0"), ("size", "8"), ("dm/uuid", "mpath-1"), ("dm/name", "mpatha")]);
    mounted(&tree, &[("253:0", "/run/media/iso", "/dev/mapper/mpatha")]);
    let found = of(&tree);
    assert!(
        found.iter().all(|disk| disk.is_installation_media && !disk.installation_eligibility.eligible),
        "{found:?}"
    );
    assert_eq!(reasons(&found[0]), [EFI_ISO]);
}

#[test]
fn iscsi_by_a_host_bus_adapter() {
    let place = "pci0000:00/0000:00:02.0/0000:05:00.1/host7/session3/target7:0:0/7:0:0:1";
    let tree = Tree::new(&[
        ("sys/class/iscsi_host/host7/ipaddress", "10.0.0.7\n"),
        ("sys/class/iscsi_session/session3/targetname", "iqn.2024-01.com.example:boot\n"),
        ("sys/firmware/iscsi_boot7/target0/target-name", "iqn.2024-01.com.example:boot\n"),
    ]);
    add(&tree, "sdc", place, &[("dev", "8:32"), ("size", "41943040")]);
    tree.add(&format!("sys/devices/{place}/state"), "running\n");
    tree.add("run/udev/data/b8:32", "E:ID_PATH=ip-10.0.0.5:3260-iscsi-iqn.2024-01.com.example:boot-lun-1\n");
    let found = of(&tree);
    assert_eq!((found[0].drive_type.as_str(), found[0].hctl.as_str()), ("iSCSI", "7:0:0:1"));
    assert_eq!(found[0].iscsi.as_ref().unwrap().host_ip_address, "10.0.0.7");
    assert_eq!(reasons(&found[0]), Vec::<&str>::new());
    // Known to udev as one, but of no session.
    let other = Tree::new(&[("run/udev/data/b8:32", "E:ID_PATH=ip-10.0.0.5:3260-iscsi-iqn.x-lun-1\n")]);
    virtual_disk(&other, "sdc", &[("dev", "8:32"), ("device/state", "running")]);
    let found = of(&other);
    assert_eq!(reasons(&found[0]), ["Cannot find iSCSI session"]);
    assert_eq!(found[0].iscsi, Some(Iscsi::default()));
}

#[test]
fn the_live_medium_that_is_mounted_nowhere() {
    let tree = Tree::new(&[("proc/cmdline", "BOOT_IMAGE=/vmlinuz coreos.liveiso=rhcos-9.6 quiet\n")]);
    let mut descriptor = b"\x01CD001\x01".to_vec();
    descriptor.resize(2048, b' ');
    descriptor[40..49].copy_from_slice(b"rhcos-9.6");
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32"), ("sdd", "8:48")] {
        virtual_disk(&tree, name, &[("dev", number), ("size", "4096")]);
        tree.add(&format!("landfall/disks/{name}/iso-descriptor"), &descriptor);
    }
    descriptor[40..49].copy_from_slice(b"rhcos-9.5");
    tree.add("landfall/disks/sdb/iso-descriptor", &descriptor);
    // udev's word counts where it has looked.
    tree.add("run/udev/data/b8:32", "E:ID_FS_TYPE=iso9660\nE:ID_FS_LABEL=rhcos-9.6\n");
    tree.add("run/udev/data/b8:48", "E:ID_FS_TYPE=xfs\nE:ID_FS_LABEL=rhcos-9.6\n");
    let found = of(&tree);
    let media: Vec<_> = found.iter().filter(|d| d.is_installation_media).map(|d| d.name.as_str()).collect();
    assert_eq!(media, ["sda", "sdc"]);
    assert_eq!(reasons(&found[0]), ["Disk holds the live ISO 'rhcos-9.6' that the host booted from"]);
    assert!(found[1].installation_eligibility.eligible && found[3].installation_eligibility.eligible);
}

#[test]
fn all_devices_of_a_btrfs_are_in_use() {
    let tree = Tree::new(&[("sys/fs/btrfs/features/x", "")]);
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")] {
        virtual_disk(&tree, name, &[("dev", number), ("size", "8")]);
    }
    virtual_disk(&tree, "sdd", &[("dev", "8:48"), ("sdd2/dev", "8:50")]);
    for name in ["sda", "sdb", "sdd2"] {
        tree.dir(&format!("sys/fs/btrfs/5a0e/devices/{name}"));
    }
    tree.add("proc/1/mountinfo", "1 2 0:40 / /data rw - btrfs /dev/sdb rw\n");
    let found = of(&tree);
    assert_eq!(reasons(&found[0]), ["Disk is mounted on '/data'"]);
    assert_eq!(reasons(&found[1]), ["Disk is mounted on '/data'"]);
    assert_eq!(reasons(&found[2]), Vec::<&str>::new());
    assert_eq!(reasons(&found[3]), ["Disk has partition 'sdd2' mounted on '/data'"]);
}

#[test]
fn disks_that_cannot_be_written() {
    let tree = Tree::new(&[]);
    for name in ["sda", "sr0"] {
        virtual_disk(&tree, name, &[("size", "8"), ("ro", "1")]);
    }
    // An empty card reader: its size is the service's business.
    virtual_disk(&tree, "sdb", &[("size", "0"), ("ro", "0"), ("removable", "1")]);
    let found = of(&tree);
    assert_eq!(reasons(&found[0]), ["Disk is read-only"]);
    assert_eq!((reasons(&found[1]), found[1].removable, found[1].size_bytes), (vec![], true, 0));
    assert_eq!(reasons(&found[2]), Vec::<&str>::new());
}

#[test]
fn a_page_that_only_the_disk_tells() {
    let tree = Tree::new(&[("landfall/disks/sda/scsi-page-83", "\0\u{3}")]);
    for name in ["sda", "sdb", "sdc", "vda"] {
        virtual_disk(&tree, name, &[("size", "8")]);
    }
    tree.add("landfall/disks/sda/scsi-page-83", [0, 0x83, 0, 2, 1, 0]);
    // Standard inquiry data, as some sticks answer each page.
    tree.add("landfall/disks/sdb/scsi-page-83", [0, 0x80, 5, 2, 31]);
    tree.add("landfall/disks/vda/scsi-page-83", [0, 0x83, 0, 2, 1, 0]);
    tree.add("landfall/disks/sdc/first-sector", [vec![0; 510], vec![0x55, 0xaa]].concat());
    let shown: Vec<_> = of(&tree).iter().map(|d| (d.has_uuid, d.bootable)).collect();
    assert_eq!(shown, [(true, false), (false, false), (false, true), (false, false)]);
}

#[test]
fn hostile_trees_cost_only_themselves() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let tree = Tree::new(&[]);
    // Devices that hold each other, and one that holds itself.
    virtual_disk(&tree, "sda", &[("holders/dm-0/x", ""), ("holders/sda/x", "")]);
    virtual_disk(&tree, "dm-0", &[("dev", "253:0"), ("dm/uuid", "mpath-x"), ("holders/dm-1/x", "")]);
    virtual_disk(
        &tree,
        "dm-1",
        &[("dev", "253:1"), ("dm/uuid", "mpath-y"), ("holders/dm-0/x", ""), ("holders/sda/x", "")],
    );
    mounted(&tree, &[("253:1", "/data", "/dev/dm-1"), ("253:1", "/x'\\012y", "/dev/dm-1")]);
    // Attributes beyond any page, numbers beyond any disk, names that are none.
    virtual_disk(
        &tree,
        "sdb",
        &[("size", "36028797018963968"), ("dev", "8:99999999999"), ("device/vendor", &"V".repeat(5000))],
    );
    virtual_disk(
        &tree,
        "sdc",
        &[("size", "-1"), ("dev", ":"), ("removable", "1\n1"), ("device/model", "\u{1}\u{fffd} x\u{7f}")],
    );
    tree.add("run/udev/data/b8:0", "x".repeat(1 << 20))
        .add("sys/devices/virtual/block/sdc/device/vpd_pg83", [0xff; 5000]);
    tree.add("sys/devices/virtual/block/sdc/device/vpd_pg80", [0, 0x80, 0xff, 0xff, b' ', 0, 7, b' ']);
    tree.link("sys/block/sdd", "sdd").link("sys/block/sde", "/nowhere").add("sys/block/sdf", "no directory");
    std::fs::create_dir(tree.path().join("sys/block").join(OsStr::from_bytes(b"sd\xff"))).unwrap();
    tree.link("dev/disk/by-id/wwn-0xloop", "wwn-0xloop").link("dev/disk/by-id/wwn-", "../../sdb");
    let found = of(&tree);
    assert_eq!(found.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["dm-0", "dm-1", "sda", "sdb", "sdc"]);
    assert_eq!(reasons(&found[2]), ["Disk is in use by 'dm-1', which is mounted on '/data'"]);
    assert_eq!(
        (found[3].size_bytes, found[3].vendor.as_str(), found[3].by_id.as_str()),
        (0, "", "/dev/disk/by-id/wwn-")
    );
    assert_eq!((found[4].size_bytes, found[4].serial.as_str(), found[4].removable), (0, "", false));
    assert!(!found[4].has_uuid);
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
        assert_eq!(ask(&root, &[found])[0].is_bootable, expected, "{}", device.node);
    }
}
