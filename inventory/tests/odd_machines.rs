//! Machines with storage that is seldom seen, made up here: the whole inventory of each, compared.

#![allow(clippy::unwrap_used)]

use inventory::{Root, collect};
use serde_json::{Map, Value, json};
use testkit::tree::Tree;

/// Page 83h with these designators: flags, kind and content of each.
fn page_83(designators: &[(u8, u8, &[u8])]) -> Vec<u8> {
    let one =
        |(set, kind, name): &(u8, u8, &[u8])| [&[*set, *kind, 0, u8::try_from(name.len()).unwrap()], *name].concat();
    let body: Vec<u8> = designators.iter().flat_map(one).collect();
    [&[0, 0x83, 0, u8::try_from(body.len()).unwrap()][..], &body].concat()
}

/// Adds a disk: `files` in its own directory, its `device` being the one that `place` names.
fn disk(tree: &Tree, place: &str, name: &str, files: &[(&str, &str)]) {
    let dir = format!("sys/devices/{place}/block/{name}");
    for (file, content) in files {
        tree.add(&format!("{dir}/{file}"), format!("{content}\n"));
    }
    tree.link(&format!("sys/block/{name}"), &format!("../devices/{place}/block/{name}"));
    tree.link(&format!("{dir}/device"), "../..");
}

/// Adds a device that is made of others.
fn stacked(tree: &Tree, name: &str, files: &[(&str, &str)]) {
    for (file, content) in files {
        tree.add(&format!("sys/devices/virtual/block/{name}/{file}"), format!("{content}\n"));
    }
    tree.link(&format!("sys/block/{name}"), &format!("../devices/virtual/block/{name}"));
}

/// Files of the device itself.
fn device_files(tree: &Tree, place: &str, files: &[(&str, &[u8])]) {
    for (file, content) in files {
        tree.add(&format!("sys/devices/{place}/{file}"), content);
    }
}

fn mounted(tree: &Tree, lines: &[(&str, &str, &str, &str)]) {
    let line = |(number, target, kind, source): &(&str, &str, &str, &str)| {
        format!("1 2 {number} / {target} rw - {kind} {source} rw\n")
    };
    tree.add("proc/1/mountinfo", lines.iter().map(line).collect::<String>());
}

/// What is reported of every disk here by default; `reasons` make it ineligible.
fn expected(reasons: &[&str], own: Value) -> Value {
    let eligibility = match reasons {
        [] => json!({"eligible": true, "not_eligible_reasons": null}),
        reasons => json!({"not_eligible_reasons": reasons}),
    };
    let mut all = Map::new();
    all.insert("installation_eligibility".to_owned(), eligibility);
    let path = format!("/dev/{}", own["name"].as_str().unwrap());
    all.insert("path".to_owned(), path.clone().into());
    all.insert("id".to_owned(), path.into());
    all.extend(own.as_object().unwrap().clone());
    Value::Object(all)
}

/// Fails unless the inventory is that of a machine of these disks and nothing else.
fn is(tree: &Tree, disks: &[Value]) {
    let found = serde_json::to_value(collect(&Root::open(tree.path()).unwrap())).unwrap();
    let mut whole = serde_json::to_value(collect(&Root::open(Tree::empty().path()).unwrap())).unwrap();
    assert_eq!(whole["disks"], json!([]));
    whole["disks"] = disks.into();
    assert_eq!(found, whole, "found {found:#}");
}

/// Two ports of one fabric array, `sda` and `sdb`, below a multipath device with a partition.
fn multipath() -> Tree {
    let tree = Tree::empty();
    let page =
        page_83(&[(1, 3, &[0x60, 0x0a, 0x09, 0x80, 0, 0, 0, 7, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88])]);
    for (leg, host, number) in [("sda", 1, "8:0"), ("sdb", 2, "8:16")] {
        let place = format!("pci0000:00/0000:00:0{host}.0/host{host}/rport-{host}:0-3/target{host}:0:3/{host}:0:3:7");
        disk(&tree, &place, leg, &[("dev", number), ("size", "2097152"), ("holders/dm-0/dev", "253:0")]);
        device_files(
            &tree,
            &place,
            &[("vendor", b"NETAPP  \n"), ("model", b"LUN C-Mode      \n"), ("vpd_pg83", &page)],
        );
        tree.link(&format!("sys/devices/virtual/block/dm-0/slaves/{leg}"), &format!("../../../../{place}/block/{leg}"));
    }
    let head = [
        ("dev", "253:0"),
        ("size", "2097152"),
        ("dm/name", "mpatha"),
        ("dm/uuid", "mpath-3600a0980"),
        ("holders/dm-1/dev", "253:1"),
    ];
    stacked(&tree, "dm-0", &head);
    stacked(
        &tree,
        "dm-1",
        &[("dev", "253:1"), ("size", "4096"), ("dm/name", "mpatha1"), ("dm/uuid", "part1-mpath-3600a0980")],
    );
    tree.add("run/udev/data/b253:0", "E:DM_NAME=mpatha\nE:DM_WWN=0x600a098000000007\n");
    tree.link("dev/disk/by-id/wwn-0x600a098000000007", "../../dm-0");
    tree
}

fn multipath_disks(reasons: &[&str]) -> [Value; 3] {
    let by_id = "/dev/disk/by-id/wwn-0x600a098000000007";
    let leg = |name: &str, hctl: &str| {
        let own = json!({
            "name": name, "drive_type": "FC", "hctl": hctl, "holders": "dm-0", "has_uuid": true, "size_bytes": 1 << 30,
            "vendor": "NETAPP", "model": "LUN_C-Mode", "wwn": "0x600a0980000000071122334455667788",
        });
        expected(reasons, own)
    };
    let head = json!({
        "name": "dm-0", "drive_type": "Multipath", "holders": "dm-1", "has_uuid": true, "size_bytes": 1 << 30,
        "by_id": by_id, "id": by_id, "wwn": "0x600a098000000007",
    });
    [expected(reasons, head), leg("sda", "1:0:3:7"), leg("sdb", "2:0:3:7")]
}

#[test]
fn multipath_with_two_paths() {
    let tree = multipath();
    is(&tree, &multipath_disks(&[]));
    mounted(&tree, &[("253:1", "/data", "xfs", "/dev/mapper/mpatha1")]);
    is(&tree, &multipath_disks(&["Disk is in use by 'dm-1', which is mounted on '/data'"]));
}

#[test]
fn lvm_on_a_partition() {
    let tree = Tree::empty();
    let files = [
        ("dev", "254:0"),
        ("size", "2097152"),
        ("queue/rotational", "0"),
        ("serial", "VOL-7"),
        ("vda1/dev", "254:1"),
        ("vda2/dev", "254:2"),
        ("vda2/holders/dm-0/dev", "253:0"),
    ];
    disk(&tree, "pci0000:00/0000:00:04.0/virtio1", "vda", &files);
    stacked(&tree, "dm-0", &[("dev", "253:0"), ("size", "65536"), ("dm/name", "vg-root"), ("dm/uuid", "LVM-AbCd")]);
    mounted(&tree, &[("253:0", "/", "xfs", "/dev/mapper/vg-root")]);
    let volume = json!({"name": "dm-0", "drive_type": "LVM", "size_bytes": 32 << 20});
    let whole = json!({"name": "vda", "drive_type": "SSD", "serial": "VOL-7", "size_bytes": 1 << 30});
    is(
        &tree,
        &[
            expected(&["Disk is an LVM logical volume", "Disk is mounted on '/'"], volume),
            expected(&["Disk has partition 'vda2' in use by 'dm-0', which is mounted on '/'"], whole),
        ],
    );
}

#[test]
fn raid_with_swap_on_its_partition() {
    let tree = Tree::empty();
    for (name, number, target) in [("sda", "8:0", 0), ("sdb", "8:16", 1)] {
        let place = format!("pci0000:00/0000:00:1f.2/ata{target}/host{target}/target{target}:0:0/{target}:0:0:0");
        let files = [("dev", number), ("size", "2097152"), ("queue/rotational", "1"), ("holders/md127/dev", "9:127")];
        disk(&tree, &place, name, &files);
    }
    stacked(
        &tree,
        "md127",
        &[("dev", "9:127"), ("size", "2095104"), ("md127p1/dev", "259:0"), ("md127p2/dev", "259:1")],
    );
    tree.add("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/md127p2 partition 1000 0 -2\n");
    let member = |name: &str, hctl: &str| {
        let own = json!({
            "name": name, "drive_type": "HDD", "hctl": hctl, "holders": "md127", "size_bytes": 1 << 30,
        });
        expected(&["Disk is in use by 'md127p2', which is in use as swap"], own)
    };
    let raid = json!({"name": "md127", "drive_type": "RAID", "size_bytes": 2_095_104 * 512});
    is(
        &tree,
        &[
            expected(&["Disk has partition 'md127p2' in use as swap"], raid),
            member("sda", "0:0:0:0"),
            member("sdb", "1:0:0:0"),
        ],
    );
}

#[test]
fn sas_disk_with_a_designator_of_its_unit_and_one_of_its_port() {
    let tree = Tree::empty();
    let place = "pci0000:00/0000:02:00.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0";
    disk(&tree, place, "sda", &[("dev", "8:0"), ("size", "2097152"), ("removable", "0"), ("queue/rotational", "1")]);
    let unit = 0x5000_c500_a1b2_c3d4_u64.to_be_bytes();
    let port = 0x5000_c500_a1b2_c3d5_u64.to_be_bytes();
    // Association 0 is the unit's, 1 the port's; SAS tells the protocol in the upper bits.
    let page = page_83(&[(0x61, 0x93, &port), (1, 3, &unit)]);
    device_files(
        &tree,
        place,
        &[
            ("vendor", b"SEAGATE \n"),
            ("model", b"ST1200MM0099    \n"),
            ("vpd_pg83", &page),
            ("vpd_pg80", b"\0\x80\0\x08WFK0ABCD"),
        ],
    );
    tree.add("landfall/disks/sda/first-sector", [vec![0; 510], vec![0x55, 0xaa]].concat());
    let own = json!({
        "name": "sda", "drive_type": "HDD", "hctl": "0:0:0:0", "has_uuid": true, "bootable": true, "size_bytes": 1 << 30,
        "vendor": "SEAGATE", "model": "ST1200MM0099", "serial": "WFK0ABCD", "wwn": "0x5000c500a1b2c3d4",
    });
    is(&tree, &[expected(&[], own)]);
}

#[test]
fn a_fabric_lun_that_udev_knows() {
    let tree = Tree::empty();
    let place = "pci0000:00/0000:05:00.0/host5/rport-5:0-1/target5:0:1/5:0:1:4";
    disk(&tree, place, "sdc", &[("dev", "8:32"), ("size", "2097152")]);
    let id_path = "pci-0000:05:00.0-fc-0x50060e8007c3f501-lun-4";
    tree.add(
        "run/udev/data/b8:32",
        format!("E:ID_PATH={id_path}\nE:ID_MODEL=OPEN-V\nE:ID_SERIAL_SHORT=60060e8\nE:ID_WWN_WITH_EXTENSION=0x60060e8007c3f5\n"),
    );
    tree.link(&format!("dev/disk/by-path/{id_path}"), "../../sdc");
    let by_path = format!("/dev/disk/by-path/{id_path}");
    let own = json!({
        "name": "sdc", "drive_type": "FC", "hctl": "5:0:1:4", "size_bytes": 1 << 30, "model": "OPEN-V",
        "serial": "60060e8", "wwn": "0x60060e8007c3f5", "by_path": by_path, "id": by_path,
    });
    is(&tree, &[expected(&[], own)]);
}

#[test]
fn mainframe_disks() {
    let tree = Tree::empty();
    for (name, ccw, number, files) in [
        ("dasda", "css0/0.0.0001/0.0.0200", "94:0", &[("discipline", &b"ECKD\n"[..]), ("ese", b"0\n")][..]),
        ("dasdb", "css0/0.0.0002/0.0.0201", "94:4", &[("discipline", b"ECKD\n"), ("ese", b"1\n")]),
        ("dasdc", "css0/0.0.0003/0.0.0202", "94:8", &[("discipline", b"FBA\n")]),
    ] {
        disk(&tree, ccw, name, &[("dev", number), ("size", "2097152"), ("queue/rotational", "0")]);
        device_files(&tree, ccw, files);
    }
    let own = |name: &str, kind: &str| expected(&[], json!({"name": name, "drive_type": kind, "size_bytes": 1 << 30}));
    is(&tree, &[own("dasda", "ECKD"), own("dasdb", "ECKD (ESE)"), own("dasdc", "FBA")]);
}

#[test]
fn iscsi_that_the_firmware_boots_from() {
    let place = "platform/host2/session1/target2:0:0/2:0:0:0";
    let tree = Tree::empty();
    disk(&tree, place, "sda", &[("dev", "8:0"), ("size", "2097152")]);
    device_files(&tree, place, &[("state", b"running\n"), ("vendor", b"LIO-ORG \n"), ("model", b"boot            \n")]);
    tree.add("sys/class/iscsi_host/host2/ipaddress", "10.0.0.21\n");
    tree.add("sys/class/iscsi_session/session1/targetname", "iqn.2024-01.com.example:t0\n");
    let own = json!({
        "name": "sda", "drive_type": "iSCSI", "hctl": "2:0:0:0", "size_bytes": 1 << 30, "vendor": "LIO-ORG", "model": "boot",
        "iscsi": {"host_ip_address": "10.0.0.21"},
    });
    is(&tree, &[expected(&["iBFT firmware is missing"], own.clone())]);
    tree.add("sys/firmware/ibft/target0/target-name", "iqn.2024-01.com.example:t0\n");
    is(&tree, &[expected(&[], own)]);
}

#[test]
fn btrfs_on_two_disks() {
    let tree = Tree::empty();
    for (name, number, function) in [("vda", "254:0", 1), ("vdb", "254:16", 2), ("vdc", "254:32", 3)] {
        let place = format!("pci0000:00/0000:00:0{function}.0/virtio{function}");
        disk(&tree, &place, name, &[("dev", number), ("size", "2097152"), ("queue/rotational", "1")]);
    }
    for name in ["vda", "vdb"] {
        tree.add(&format!("sys/fs/btrfs/5a0e4d7c/devices/{name}/size"), "2097152\n");
    }
    mounted(&tree, &[("0:40", "/data", "btrfs", "/dev/vda")]);
    let own = |name: &str, reasons: &[&str]| {
        expected(reasons, json!({"name": name, "drive_type": "HDD", "size_bytes": 1 << 30}))
    };
    let used = ["Disk is mounted on '/data'"];
    is(&tree, &[own("vda", &used), own("vdb", &used), own("vdc", &[])]);
}

#[test]
fn a_write_protected_stick() {
    let tree = Tree::empty();
    let place = "pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/host6/target6:0:0/6:0:0:0";
    let files = [("dev", "8:48"), ("size", "2097152"), ("ro", "1"), ("removable", "1"), ("queue/rotational", "0")];
    disk(&tree, place, "sdd", &files);
    // It answers each page with its standard data.
    tree.add("landfall/disks/sdd/scsi-page-83", [0, 0x80, 5, 2, 31]);
    let own = json!({"name": "sdd", "drive_type": "SSD", "hctl": "6:0:0:0", "removable": true, "size_bytes": 1 << 30});
    is(&tree, &[expected(&["Disk is read-only"], own)]);
}
