//! The /sys of a host: the machine of the recordings, whatever machine the test runs on.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

const NIC: &str = "devices/pci0000:00/0000:00:03.0/virtio0";
const DISK: &str = "devices/pci0000:00/0000:00:04.0/virtio1";

/// Where a host differs from the others.
pub(crate) struct Identity<'a> {
    pub number: u8,
    pub mac: &'a str,
    pub disk_bytes: u64,
    /// Of the loop device that is the disk.
    pub loop_minor: u64,
}

struct Tree(PathBuf);

impl Tree {
    fn files(&self, directory: &str, files: &[(&str, &str)]) {
        let directory = self.0.join(directory);
        for (name, content) in files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
    }

    fn link(&self, name: &str, target: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }
}

/// Writes the tree; what the host's processors and its loop device have of this machine's own /sys is added when it starts.
pub(crate) fn write(directory: &Path, identity: &Identity) {
    let tree = Tree(directory.to_owned());
    let Identity { number, mac, disk_bytes, loop_minor } = identity;
    let serial = |kind: &str| format!("{kind}-{number}");
    tree.files(NIC, &[("vendor", "0x1af4"), ("device", "0x0001")]);
    tree.files(
        &format!("{NIC}/net/ens3"),
        &[
            ("address", mac),
            ("carrier", "1"),
            ("duplex", "full"),
            ("flags", "0x1003"),
            ("mtu", "1500"),
            ("operstate", "up"),
            ("speed", "1000"),
            ("type", "1"),
        ],
    );
    tree.link(&format!("{NIC}/net/ens3/device"), "../../../virtio0");
    tree.link("class/net/ens3", &format!("../../{NIC}/net/ens3"));
    tree.link("class/net/lo", "../../devices/virtual/net/lo");

    tree.files(DISK, &[("vendor", "0x1af4"), ("device", "0x0002"), ("model", "FAKEDISK")]);
    let (device, sectors) = (format!("7:{loop_minor}"), (disk_bytes / 512).to_string());
    tree.files(
        &format!("{DISK}/block/vda"),
        &[
            ("dev", &device),
            ("hidden", "0"),
            ("queue/logical_block_size", "512"),
            ("queue/physical_block_size", "512"),
            ("queue/rotational", "1"),
            ("removable", "0"),
            ("ro", "0"),
            ("serial", &serial("VDA")),
            ("size", &sectors),
            ("uevent", &format!("MAJOR=7\nMINOR={loop_minor}\nDEVNAME=vda\nDEVTYPE=disk")),
        ],
    );
    fs::create_dir_all(tree.0.join(DISK).join("block/vda/holders")).unwrap();
    tree.link(&format!("{DISK}/block/vda/device"), "../../../virtio1");
    tree.link("block/vda", &format!("../{DISK}/block/vda"));
    tree.link("class/block/vda", &format!("../../{DISK}/block/vda"));

    tree.files(
        "devices/virtual-dmi/id",
        &[
            ("bios_date", "04/01/2014"),
            ("bios_vendor", "SeaBIOS"),
            ("bios_version", "1.16"),
            ("board_asset_tag", ""),
            ("board_name", ""),
            ("board_serial", &serial("BSER")),
            ("board_vendor", ""),
            ("board_version", ""),
            ("chassis_asset_tag", ""),
            ("chassis_serial", ""),
            ("chassis_type", "1"),
            ("chassis_vendor", "QEMU"),
            ("chassis_version", ""),
            ("product_family", ""),
            ("product_name", "Standard PC (Q35 + ICH9, 2009)"),
            ("product_serial", &serial("PSER")),
            ("product_sku", ""),
            ("product_uuid", &format!("5f0e3c1a-0000-4000-8000-0000000000{number:02x}")),
            ("product_version", ""),
            ("sys_vendor", "QEMU"),
        ],
    );
    tree.link("class/dmi/id", "../../devices/virtual-dmi/id");
    for empty in ["bus/pci/devices", "firmware", "fs", "kernel/mm/hugepages"] {
        fs::create_dir_all(tree.0.join(empty)).unwrap();
    }
}
