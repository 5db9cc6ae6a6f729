//! Disks of iSCSI targets, that the firmware has to know too.

use super::*;

#[test]
fn iscsi_disks() {
    let place = "platform/host2/session1/target2:0:0/2:0:0:0";
    let tree = Tree::new(&[("sys/class/iscsi_host/host2/ipaddress", "10.0.0.21\n")]);
    add(&tree, "sdb", place, &[("dev", "8:16"), ("size", "41943040"), ("holders/dm-0/x", "")]);
    let why = || {
        let found = read_disks(&tree);
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
    assert_eq!(read_disks(&tree)[0].drive_type, "SSD");
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
    let found = read_disks(&tree);
    assert_eq!((found[0].drive_type.as_str(), found[0].hctl.as_str()), ("iSCSI", "7:0:0:1"));
    assert_eq!(found[0].iscsi.as_ref().unwrap().host_ip_address, "10.0.0.7");
    assert_eq!(reasons(&found[0]), Vec::<&str>::new());
    // Known to udev as one, but of no session.
    let other = Tree::new(&[("run/udev/data/b8:32", "E:ID_PATH=ip-10.0.0.5:3260-iscsi-iqn.x-lun-1\n")]);
    virtual_disk(&other, "sdc", &[("dev", "8:32"), ("device/state", "running")]);
    let found = read_disks(&other);
    assert_eq!(reasons(&found[0]), ["Cannot find iSCSI session"]);
    assert_eq!(found[0].iscsi, Some(Iscsi::default()));
}
