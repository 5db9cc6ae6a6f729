//! Mounts, swap and stacks that make a disk ineligible, and the media among them.

use super::*;

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
    let found = read_disks(&tree);
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
        let found = read_disks(&tree);
        assert!(found[0].is_installation_media, "{part}");
        assert_eq!(reasons(&found[0]).last(), Some(&EFI_ISO), "{part}");
    }
}

#[test]
fn stacks_count_when_in_use() {
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
    let found = read_disks(&tree);
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
    let found = read_disks(&tree);
    let shown: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.drive_type.as_str(), d.holders.as_str())).collect();
    assert_eq!(shown, [("dm-0", "Multipath", "dm-1"), ("sda", "FC", "dm-0"), ("sdb", "FC", "dm-0")]);
    assert_eq!((found[0].wwn.as_str(), found[0].id.as_str()), ("0x600508b4", "/dev/disk/by-id/wwn-0x600508b4"));
    assert!(found.iter().all(|disk| disk.has_uuid && reasons(disk).is_empty()));
    mounted(&tree, &[("253:1", "/data", "/dev/mapper/mpatha1")]);
    let used = read_disks(&tree);
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
    let found = read_disks(&tree);
    assert!(
        found.iter().all(|disk| disk.is_installation_media && !disk.installation_eligibility.eligible),
        "{found:?}"
    );
    assert_eq!(reasons(&found[0]), [EFI_ISO]);
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
    // udev's result counts where it has probed.
    tree.add("run/udev/data/b8:32", "E:ID_FS_TYPE=iso9660\nE:ID_FS_LABEL=rhcos-9.6\n");
    tree.add("run/udev/data/b8:48", "E:ID_FS_TYPE=xfs\nE:ID_FS_LABEL=rhcos-9.6\n");
    let found = read_disks(&tree);
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
    let found = read_disks(&tree);
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
    let found = read_disks(&tree);
    assert_eq!(reasons(&found[0]), ["Disk is read-only"]);
    assert_eq!((reasons(&found[1]), found[1].removable, found[1].size_bytes), (vec![], true, 0));
    assert_eq!(reasons(&found[2]), Vec::<&str>::new());
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
    assert_eq!(reasons(&read_disks(&tree)[0]), Vec::<&str>::new());
    virtual_disk(&tree, "dm-0", &[("dm/name", "agent-root"), ("dm/uuid", "CRYPT-x"), ("size", "8")]);
    let found = read_disks(&tree);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].path.as_str(), found[0].id.as_str()), ("dm-0", "/dev/dm-0", ""));
    assert_eq!((found[0].size_bytes, found[0].drive_type.as_str()), (107_374_182_400, "SSD"));
    assert!(reasons(&found[0]).is_empty());
}
