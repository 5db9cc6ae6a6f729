//! Facts of machines seldom seen, each by the files that it is read from.

#![allow(clippy::unwrap_used)]

use inventory::{Root, capture::Captured, collect, report};
use serde_json::{Value, json};
use std::fs::File;
use testkit::tree::Tree;

fn tree(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::empty();
    for (path, content) in files {
        tree.add(path, content);
    }
    tree
}

fn inventory(tree: &Tree) -> Value {
    serde_json::to_value(collect(&Root::open(tree.path()).unwrap())).unwrap()
}

fn report(tree: &Tree) -> Value {
    serde_json::to_value(report::collect(&Root::open(tree.path()).unwrap())).unwrap()
}

/// A block device of `/sys/block`: files of its own, and of the device it belongs to.
fn disk(tree: &Tree, place: &str, name: &str, own: &[(&str, &str)], device: &[(&str, &str)]) {
    for (file, content) in own {
        tree.add(&format!("sys/devices/{place}/block/{name}/{file}"), format!("{content}\n"));
    }
    for (file, content) in device {
        tree.add(&format!("sys/devices/{place}/{file}"), format!("{content}\n"));
    }
    tree.link(&format!("sys/block/{name}"), &format!("../devices/{place}/block/{name}"));
    tree.link(&format!("sys/devices/{place}/block/{name}/device"), "../..");
}

const SATA: &str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0";

#[test]
fn an_empty_dmi_text_is_absent() {
    let empty = tree(&[
        ("sys/class/dmi/id/sys_vendor", "\n"),
        ("sys/class/dmi/id/product_name", " \n"),
        ("sys/class/dmi/id/product_serial", "\n"),
    ]);
    assert_eq!(inventory(&empty)["system_vendor"], json!({}));
    let qemu = tree(&[
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_name", "Standard PC\n"),
        ("sys/class/dmi/id/product_serial", "\n"),
    ]);
    let expected = json!({"manufacturer": "QEMU", "product_name": "Standard PC", "virtual": true});
    assert_eq!(inventory(&qemu)["system_vendor"], expected);
    // What cannot be read is another matter.
    let unknown = json!({"manufacturer": "unknown", "product_name": "unknown", "serial_number": "unknown"});
    assert_eq!(inventory(&tree(&[]))["system_vendor"], unknown);
}

/// Vendors and models of the packages.
fn models(tree: &Tree) -> Vec<String> {
    let report = report(tree);
    let packages = report["processors"]["packages"].as_array().unwrap();
    let text = |package: &Value, name: &str| package[name].as_str().unwrap_or("-").to_owned();
    packages.iter().map(|package| format!("{} {}", text(package, "vendor_id"), text(package, "model_name"))).collect()
}

fn arm(parts: &[(&str, &str)]) -> Tree {
    let one = |(cpu, (implementer, part)): (usize, &(&str, &str))| {
        format!(
            "processor\t: {cpu}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: {implementer}\n\
             CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 1\n\n"
        )
    };
    tree(&[("proc/cpuinfo", &parts.iter().enumerate().map(one).collect::<String>())])
}

#[test]
fn arm_processors_have_makers_and_models() {
    for (parts, expected) in [
        (&[("0x41", "0xd87"), ("0x41", "0xd85")][..], "ARM Cortex-A725 + Cortex-X925"),
        (&[("0x4e", "0x010")], "NVIDIA Olympus"),
        (&[("0x48", "0xd01")], "HiSilicon TaiShan-v110"),
        (&[("0x48", "0xd02"), ("0x48", "0xd02")], "HiSilicon TaiShan-v120"),
        (&[("0x51", "0x001")], "Qualcomm Oryon"),
        (&[("0xc0", "0xac3")], "Ampere Ampere-1"),
        (&[("0x41", "0xd4f")], "ARM Neoverse-V2"),
        (&[("0x41", "0xfff")], "ARM -"),
        (&[("0xee", "0xd0c")], "- -"),
    ] {
        assert_eq!(models(&arm(parts)), [expected], "{parts:?}");
    }
    // The inventory reads the same table.
    assert_eq!(inventory(&arm(&[("0x4e", "0x010")]))["cpu"]["model_name"], "Olympus");
    assert_eq!(inventory(&arm(&[("0x51", "0x001")]))["cpu"]["model_name"], "Oryon");
}

#[test]
fn power_machines_have_processors_and_a_serial_number() {
    let one = |cpu| {
        format!(
            "processor\t: {cpu}\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 2300.0MHz\nrevision\t: 2.2 (pvr 004e 1202)\n\n"
        )
    };
    let machine = tree(&[
        ("proc/cpuinfo", &format!("{}{}timebase\t: 512000000\nplatform\t: PowerNV\n", one(0), one(8))),
        ("proc/device-tree/model", "8335-GTH\0"),
        ("proc/device-tree/vendor", "IBM\0"),
        ("proc/device-tree/system-id", "78ABCDE\0"),
        ("proc/device-tree/compatible", "ibm,powernv\0ibm,p9-openbmc\0"),
    ]);
    assert_eq!(models(&machine), ["IBM POWER9, altivec supported"]);
    let product = json!({"manufacturer": "IBM", "product_name": "8335-GTH", "serial_number": "78ABCDE", "handle": 0});
    assert_eq!(report(&machine)["system"]["product"], product);
}

#[test]
fn mainframes_have_a_type_and_a_serial_number() {
    let machine = tree(&[
        (
            "proc/cpuinfo",
            "vendor_id       : IBM/S390\n# processors    : 2\nbogomips per cpu: 3241.00\nfeatures\t: esan3 zarch\n\
             processor 0: version = FF,  identification = 1A2B3C,  machine = 8561\n\
             processor 1: version = FF,  identification = 1A2B3C,  machine = 8561\n\n\
             cpu number      : 0\nphysical id     : 1\ncore id         : 0\ncpu MHz static  : 5200\n\n\
             cpu number      : 1\nphysical id     : 2\ncore id         : 1\ncpu MHz static  : 5200\n",
        ),
        (
            "proc/sysinfo",
            "Manufacturer:         IBM\nType:                 8561\nModel:                703              T01\n\
             Sequence Code:        00000000000ABCDE\nPlant:                02\nModel Capacity:       703\n",
        ),
    ]);
    assert_eq!(models(&machine), ["IBM/S390 8561", "IBM/S390 8561"]);
    let product = json!({
        "manufacturer": "IBM", "product_name": "8561", "version": "T01", "serial_number": "00000000000ABCDE", "handle": 0,
    });
    assert_eq!(report(&machine)["system"]["product"], product);
}

#[test]
fn risc_v_and_loongarch_processors_are_named() {
    let sifive = "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\nuarch\t\t: sifive,u74-mc\n\
                  mvendorid\t: 0x489\nmarchid\t\t: 0x8000000000000007\n\n";
    assert_eq!(models(&tree(&[("proc/cpuinfo", sifive)])), ["SiFive sifive,u74-mc"]);
    let named_by_tree = [
        ("proc/cpuinfo", "processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdcv\nmvendorid\t: 0x5b7\n"),
        ("proc/device-tree/cpus/cpu@0/compatible", "thead,c910\0riscv\0"),
        ("proc/device-tree/model", "Sipeed Lichee Pi 4A\0"),
        ("proc/device-tree/serial-number", "0123ABCD\0"),
    ];
    let machine = tree(&named_by_tree);
    assert_eq!(models(&machine), ["T-Head thead,c910"]);
    let product = json!({"product_name": "Sipeed Lichee Pi 4A", "serial_number": "0123ABCD", "handle": 0});
    assert_eq!(report(&machine)["system"]["product"], product);
    let loongson = "system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\npackage\t\t\t: 0\ncore\t\t\t: 0\n\
                    CPU Family\t\t: Loongson-64bit\nModel Name\t\t: Loongson-3A5000-HV\n\
                    Address Sizes\t\t: 48 bits physical, 48 bits virtual\nFeatures\t\t: cpucfg lam ual fpu lsx\n\n\
                    processor\t\t: 1\npackage\t\t\t: 1\nModel Name\t\t: Loongson-3A5000-HV\nCPU Family\t\t: Loongson-64bit\n";
    let machine = tree(&[("proc/cpuinfo", loongson)]);
    assert_eq!(models(&machine), ["Loongson Loongson-3A5000-HV"; 2]);
    assert_eq!(report(&machine)["processors"]["physical_address_bits"], 48);
}

#[test]
fn packages_without_a_number_are_distinguished_by_their_siblings() {
    let machine = arm(&[("0x41", "0xd0c"); 4]);
    machine.add("sys/devices/system/cpu/online", "0-3\n");
    for cpu in 0..4 {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        machine.add(&format!("{topology}/physical_package_id"), "-1\n");
        machine.add(&format!("{topology}/core_siblings_list"), ["0-1\n", "2-3\n"][cpu / 2]);
    }
    let report = report(&machine);
    let packages = report["processors"]["packages"].as_array().unwrap();
    let shown: Vec<_> = packages.iter().map(|package| (&package["id"], &package["cpus"])).collect();
    assert_eq!(shown, [(&json!(0), &json!("0-1")), (&json!(1), &json!("2-3"))]);
}

const DASD: &str = "css0/0.0.0010/0.0.0100";

#[test]
fn a_dasd_has_its_bus_id_and_discipline() {
    let machine = Tree::empty();
    disk(&machine, DASD, "dasda", &[("size", "8")], &[("discipline", "ECKD"), ("ese", "0")]);
    let found = &report(&machine)["storage"]["disks"][0];
    assert_eq!([&found["bus_id"], &found["discipline"], &found["transport"]], ["0.0.0100", "ECKD", "ccw"]);
}

#[test]
fn a_dasd_whose_space_efficiency_cannot_be_read_is_of_no_known_kind() {
    for (ese, kind) in [(None, "Unknown"), (Some("0"), "ECKD"), (Some("1"), "ECKD (ESE)")] {
        let machine = Tree::empty();
        disk(&machine, DASD, "dasda", &[("size", "8")], &[("discipline", "ECKD")]);
        if let Some(ese) = ese {
            machine.add(&format!("sys/devices/{DASD}/ese"), ese);
        }
        assert_eq!(inventory(&machine)["disks"][0]["drive_type"], kind, "{ese:?}");
    }
}

/// A table with a system's UUID, and an entry point of the version.
fn smbios(version: [u8; 2], bits: u32) -> Tree {
    let machine = Tree::empty();
    let mut system = vec![1, 0x1b, 1, 0, 0, 0, 0, 0];
    system.extend(0x564d_0102_0304_0506_0708_090a_0b0c_0d0e_u128.to_be_bytes());
    system.extend([6, 0, 0, 0, 0]);
    machine.add("sys/firmware/dmi/tables/DMI", system);
    let entry = match bits {
        32 => [&b"_SM_\0\x1f"[..], &version].concat(),
        _ => [&b"_SM3_\0\x18"[..], &version].concat(),
    };
    machine.add("sys/firmware/dmi/tables/smbios_entry_point", entry);
    machine
}

#[test]
fn a_table_of_version_2_31_is_of_2_3() {
    let (straight, swapped) = ("564d0102-0304-0506-0708-090a0b0c0d0e", "02014d56-0403-0605-0708-090a0b0c0d0e");
    for (version, bits, expected, uuid) in [
        ([2, 31], 32, "2.3", straight),
        ([2, 33], 32, "2.3", straight),
        ([2, 51], 32, "2.6", swapped),
        ([2, 7], 32, "2.7", swapped),
        ([2, 4], 32, "2.4", straight),
        ([3, 31], 64, "3.31", swapped),
    ] {
        let report = report(&smbios(version, bits));
        assert_eq!(report["system"]["product"]["uuid"], uuid, "{version:?}");
        assert_eq!(report["firmware"]["smbios_version"], expected);
    }
}

/// A network port below two root ports of one device.
fn port_below(machine: &Tree, root_port: &str, function: &str, name: &str) {
    let place = format!("sys/devices/pci0000:00/{root_port}/{function}");
    machine.add(&format!("{place}/net/{name}/ifindex"), "2\n");
    machine.link(&format!("{place}/net/{name}/device"), "../..");
    machine
        .link(&format!("sys/class/net/{name}"), &format!("../../devices/pci0000:00/{root_port}/{function}/net/{name}"));
}

/// Structure of type 9: number and address of a slot.
fn slot(id: u16, bus: u8, device: u8, function: u8) -> Vec<u8> {
    let mut slot = vec![9, 0x11, 9, 0, 0, 0xa5, 0x0d, 3, 4];
    slot.extend(id.to_le_bytes());
    slot.extend([0, 0, 0, 0, bus, device << 3 | function, 0, 0]);
    slot
}

fn biosdevnames(machine: &Tree) -> Vec<String> {
    let inventory = inventory(machine);
    let interfaces = inventory["interfaces"].as_array().unwrap().iter();
    interfaces.map(|interface| interface["biosdevname"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn root_ports_of_one_device_lead_to_separate_slots() {
    let machine = Tree::empty();
    machine.add("sys/firmware/dmi/tables/DMI", [slot(4, 0, 0x1c, 0), slot(300, 0, 0x1c, 4)].concat());
    port_below(&machine, "0000:00:1c.0", "0000:01:00.0", "eth0");
    port_below(&machine, "0000:00:1c.4", "0000:02:00.0", "eth1");
    // No slot is at this one.
    port_below(&machine, "0000:00:1c.5", "0000:03:00.0", "eth2");
    assert_eq!(biosdevnames(&machine), ["p4p1", "p300p1", ""]);
    // A card is in its slot with all of its functions.
    let machine = Tree::empty();
    machine.add("sys/firmware/dmi/tables/DMI", slot(7, 1, 0, 0));
    port_below(&machine, "0000:00:1c.0", "0000:01:00.0", "eth0");
    port_below(&machine, "0000:00:1c.0", "0000:01:00.1", "eth1");
    assert_eq!(biosdevnames(&machine), ["p7p1", "p7p2"]);
}

#[test]
fn impossible_sizes_are_not_reported() {
    let machine = Tree::empty();
    disk(&machine, SATA, "sda", &[("size", "18014398509481984")], &[]);
    // Too large by one sector: 2^63 bytes.
    assert!(inventory(&machine)["disks"][0].get("size_bytes").is_none_or(|size| size == 0));
    assert_eq!(report(&machine)["storage"]["disks"][0].get("size_bytes"), None);
    machine.add(&format!("sys/devices/{SATA}/block/sda/size"), "18014398509481983\n");
    assert_eq!(inventory(&machine)["disks"][0]["size_bytes"], i64::MAX - 511);

    let machine = tree(&[("proc/meminfo", "MemTotal: 9007199254740992 kB\n")]);
    assert_eq!(inventory(&machine)["memory"], inventory(&tree(&[]))["memory"]);
    assert_eq!(report(&machine)["memory"].get("usable_bytes"), None);
    // Modules of 2 PiB each, until they are too many.
    let module = |handle: u16| {
        let mut module = vec![0; 0x22];
        module[..2].copy_from_slice(&[17, 0x22]);
        module[2..4].copy_from_slice(&handle.to_le_bytes());
        module[0x0c..0x0e].copy_from_slice(&0x7fff_u16.to_le_bytes());
        module[0x1c..0x20].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
        module.extend([0, 0]);
        module
    };
    machine.add("sys/firmware/dmi/tables/DMI", (0..4100).flat_map(module).collect::<Vec<_>>());
    machine.add("proc/meminfo", "MemTotal: 16384 kB\n");
    assert_eq!(inventory(&machine)["memory"]["physical_bytes"], 16 << 20);
    assert_eq!(report(&machine)["memory"].get("installed_bytes"), None);
}

#[test]
fn a_xen_host_that_is_a_guest_itself_is_virtual() {
    let dom0 = [("proc/cpuinfo", "processor : 0\nflags : hypervisor\n"), ("proc/xen/capabilities", "control_d\n")];
    let is_virtual = |more: &[(&str, &str)]| {
        let machine = tree(&dom0);
        for (path, content) in more {
            machine.add(path, content);
        }
        inventory(&machine)["system_vendor"]["virtual"] == json!(true)
    };
    assert!(!is_virtual(&[("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"), ("sys/hypervisor/type", "xen\n")]));
    assert!(is_virtual(&[("sys/class/dmi/id/sys_vendor", "QEMU\n")]));
    assert!(is_virtual(&[("sys/class/dmi/id/product_name", "VMware Virtual Platform\n")]));
}

#[test]
fn a_port_without_a_link_has_no_duplex() {
    for (carrier, expected) in [("0", None), ("1", Some("half"))] {
        let machine = Tree::empty();
        port_below(&machine, "0000:00:1c.0", "0000:01:00.0", "eth0");
        let place = "sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0/net/eth0";
        machine.add(&format!("{place}/carrier"), carrier);
        machine.add(&format!("{place}/duplex"), "half\n");
        let report = report(&machine);
        assert_eq!(report["network"]["interfaces"][0].get("duplex").and_then(Value::as_str), expected);
    }
}

#[test]
fn ata_words_are_those_of_ata_disks() {
    let mut page = vec![b' '; 572];
    page[..4].copy_from_slice(&[0, 0x89, 2, 0x38]);
    page[60 + 20..60 + 24].copy_from_slice(b"BADC");
    page[60 + 54..60 + 58].copy_from_slice(b"OM D");
    // Of a disk behind a bridge that speaks for it, udev takes the bridge's own words.
    for (vendor, model) in [("ATA", "MOD"), ("HP", "LOGICAL_VOLUME")] {
        let machine = Tree::empty();
        let device = [("vendor", vendor), ("model", "LOGICAL VOLUME")];
        disk(&machine, SATA, "sda", &[("size", "8"), ("removable", "0")], &device);
        machine.add(&format!("sys/devices/{SATA}/vpd_pg89"), &page);
        assert_eq!(inventory(&machine)["disks"][0]["model"], model, "{vendor}");
    }
    // Some disks answer each page with their standard data.
    let machine = Tree::empty();
    disk(&machine, SATA, "sda", &[("size", "8")], &[("vendor", "ATA"), ("model", "REAL MODEL")]);
    page[1] = 0;
    machine.add(&format!("sys/devices/{SATA}/vpd_pg89"), &page);
    assert_eq!(report(&machine)["storage"]["disks"][0]["model"], "REAL MODEL");
}

#[test]
fn every_disk_of_a_bcachefs_is_in_use() {
    let reasons = |machine: &Tree| {
        let inventory = inventory(machine);
        let disks = inventory["disks"].as_array().unwrap();
        disks.iter().map(|disk| disk["installation_eligibility"]["not_eligible_reasons"].clone()).collect::<Vec<_>>()
    };
    let place = |name: &str| format!("virtual/{name}");
    let machine = Tree::empty();
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32"), ("sdd", "8:48")] {
        disk(&machine, &place(name), name, &[("dev", number), ("size", "8")], &[]);
    }
    machine.add("sys/devices/virtual/sdd/block/sdd/sdd1/dev", "8:49\n");
    machine.add("proc/1/mountinfo", "1 2 0:40 / /data rw - bcachefs /dev/sda:/dev/sdb:/dev/sdd1 rw\n");
    let (used, free) = (json!(["Disk is mounted on '/data'"]), Value::Null);
    let partition = json!(["Disk has partition 'sdd1' mounted on '/data'"]);
    assert_eq!(reasons(&machine), [used.clone(), used.clone(), free.clone(), partition]);
    // The table may name one of them, or none but the file system's UUID: sysfs knows the others.
    let id = "3f1c9e2a-0000-4000-8000-000000000001";
    for (number, name) in [("0", "sda"), ("1", "sdc")] {
        machine.link(
            &format!("sys/fs/bcachefs/{id}/dev-{number}/block"),
            &format!("../../../../devices/virtual/{name}/block/{name}"),
        );
    }
    for source in ["/dev/sda", &format!("UUID={id}"), id] {
        machine.add("proc/1/mountinfo", format!("1 2 0:40 / /data rw - bcachefs {source} rw\n"));
        assert_eq!(reasons(&machine), [used.clone(), free.clone(), used.clone(), free.clone()], "{source}");
    }
}

#[test]
fn a_capture_of_a_capture_keeps_what_was_refused() {
    let machine = Tree::empty();
    disk(&machine, SATA, "sda", &[("size", "8"), ("dev", "8:0")], &[("vendor", "ATA"), ("state", "offline")]);
    machine.add("landfall/disks/sda/first-sector", "");
    machine.add("landfall/disks/sda/ata-identify", "");
    machine.add("sys/class/dmi/id/board_serial", "");
    let refused = [
        "110 /landfall/disks/sda/first-sector",
        "5 /landfall/disks/sda/ata-identify",
        "13 /sys/class/dmi/id/board_serial",
        "19 /sys/devices/pci0000:00/hidden",
    ];
    machine.add("landfall/refused", refused.join("\n") + "\n");
    let dir = tempfile::tempdir().unwrap();
    let capture = |from: &std::path::Path, name: &str| {
        let to = dir.path().join(name);
        Captured::take(Root::open(from).unwrap()).write(File::create(&to).unwrap()).unwrap();
        to
    };
    let first = capture(machine.path(), "first.tar.gz");
    let second = capture(&first, "second.tar.gz");
    let stored = |path: &std::path::Path| {
        let text = Root::open(path).unwrap().text("/landfall/refused", 4096).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut expected = refused[..3].to_vec();
    expected.sort_unstable();
    for path in [&first, &second] {
        let mut found = stored(path);
        found.sort_unstable();
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn a_virtual_machine_names_its_hypervisor() {
    let clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    let qemu = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
    for (files, expected) in [
        (&[qemu, (clocks, "kvm-clock tsc acpi_pm\n")][..], Some("KVM")),
        (&[qemu, (clocks, "tsc acpi_pm\n")], Some("QEMU")),
        (&[("sys/class/dmi/id/product_name", "VMware Virtual Platform\n")], Some("VMware")),
        (&[("proc/cpuinfo", "flags : hypervisor\n"), (clocks, "hyperv_clocksource_tsc_page\n")], Some("Hyper-V")),
        (&[("proc/sysinfo", "VM00 Control Program: z/VM    7.2.0\n")], Some("z/VM    7.2.0")),
        (&[("proc/device-tree/hypervisor/compatible", "linux,kvm\0")], Some("KVM")),
        (&[("sys/hypervisor/type", "xen\n")], Some("Xen")),
        (&[("proc/cpuinfo", "flags : hypervisor\n")], None),
        (&[("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"), (clocks, "kvm-clock\n")], None),
    ] {
        assert_eq!(report(&tree(files))["system"].get("hypervisor").and_then(Value::as_str), expected, "{files:?}");
    }
}
