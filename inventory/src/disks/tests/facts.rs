//! What is reported of a disk: names, kind, size, answers.

use super::*;

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
    assert_eq!(read_disks(&tree), [expected]);
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
    let found = read_disks(&tree);
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
    let found = read_disks(&tree);
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
    let found = read_disks(&tree);
    let kinds: Vec<_> = found.iter().map(|disk| disk.drive_type.as_str()).collect();
    assert_eq!(kinds, ["ECKD (ESE)", "ECKD", "FBA", "Unknown", "FC"]);
    assert!(found.iter().all(|disk| reasons(disk).is_empty()));
}

#[test]
fn a_shared_path_identifies_no_disk() {
    let tree = Tree::new(&[]);
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16")] {
        virtual_disk(&tree, name, &[("dev", number)]);
        tree.add(&format!("run/udev/data/b{number}"), "E:ID_PATH=pci-0000:00:01.1-ata-1\n");
    }
    tree.link("dev/disk/by-path/pci-0000:00:01.1-ata-1", "../../sdb");
    assert!(read_disks(&tree).iter().all(|disk| disk.by_path.is_empty() && disk.id == disk.path));
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
    let found = read_disks(&tree);
    assert_eq!(found.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(), ["nvme0n1"]);
    assert_eq!((found[0].model.as_str(), found[0].serial.as_str()), ("INTEL SSDPE2KX010T8", "PHLJ001"));
    // The last by name, as the service has always known it.
    assert_eq!(found[0].id, "/dev/disk/by-id/nvme-eui.0025385b_1");
    assert_eq!(found[0].wwn, "/dev/disk/by-id/nvme-eui.0025385b_1");
    assert!(found[0].has_uuid && found[0].installation_eligibility.eligible);
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
    let shown: Vec<_> = read_disks(&tree).iter().map(|d| (d.has_uuid, d.bootable)).collect();
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
    // Attributes beyond any page, numbers beyond any disk, invalid names.
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
    let found = read_disks(&tree);
    assert_eq!(found.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["dm-0", "dm-1", "sda", "sdb", "sdc"]);
    assert_eq!(reasons(&found[2]), ["Disk is in use by 'dm-1', which is mounted on '/data'"]);
    assert_eq!(
        (found[3].size_bytes, found[3].vendor.as_str(), found[3].by_id.as_str()),
        (0, "", "/dev/disk/by-id/wwn-")
    );
    assert_eq!((found[4].size_bytes, found[4].serial.as_str(), found[4].removable), (0, "", false));
    assert!(!found[4].has_uuid);
}

#[test]
fn a_fact_that_a_hanging_disk_did_not_give_is_named() {
    let sector = |disk: &str| Question::FirstSector { disk: disk.to_owned() };
    let page = |disk: &str| Question::ScsiPage { disk: disk.to_owned(), page: 0x83 };
    let label = Question::IsoDescriptor { disk: "sda".to_owned() };
    let hangs = || Err(io::ErrorKind::TimedOut.into());
    let errno = |errno: Errno| Err(io::Error::from(errno));
    let asked = [
        (sector("sda"), hangs()),
        (page("sda"), hangs()),
        (label, hangs()),
        (sector("sdb"), errno(Errno::EIO)),
        // Refused, empty, answered: nothing is lost.
        (page("sdb"), errno(Errno::EINVAL)),
        (sector("sr0"), errno(Errno::ENOMEDIUM)),
        (sector("sdc"), Ok(vec![0; 512])),
    ];
    let (questions, answers): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    let expected =
        [("bootable", vec!["sda", "sdb"]), ("has_uuid", vec!["sda"]), ("is_installation_media", vec!["sda"])];
    assert_eq!(unanswered(&questions, &answers), expected.into());
}

#[test]
fn nodes_are_those_of_disks_that_can_be_written() {
    let tree = Tree::new(&[]);
    add(&tree, "sda", SATA, &[("dev", "8:0"), ("size", "2097152"), ("ro", "0")]);
    tree.add(&format!("sys/devices/{SATA}/model"), "QEMU HARDDISK   \n");
    virtual_disk(&tree, "cciss!c0d0", &[("dev", "104:0"), ("size", "3145728")]);
    virtual_disk(&tree, "loop0", &[("dev", "7:0"), ("size", "2048")]);
    virtual_disk(&tree, "sdb", &[("dev", "8:16"), ("size", "0")]);
    virtual_disk(&tree, "sdc", &[("dev", "8:32"), ("size", "2048"), ("ro", "1")]);
    virtual_disk(&tree, "sr0", &[("dev", "11:0"), ("size", "2048")]);
    virtual_disk(&tree, "nvme0c0n1", &[("dev", "259:0"), ("size", "2048"), ("hidden", "1")]);
    let expected = [("/dev/cciss/c0d0", "1.5G"), ("/dev/sda", "1G QEMU HARDDISK")];
    assert_eq!(disk_nodes(&tree.root()), expected.map(|(node, about)| (node.to_owned(), about.to_owned())));
}
