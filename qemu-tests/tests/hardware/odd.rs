//! Machines that are odd in one way each. What QEMU and the shell gave them must be reported; their captures can be stored.

use crate::hardware::{devices, facts::Facts, machine::MIB};
use qemu_tests::{
    images::Drivers,
    media, paths,
    vm::{Bus, Disk, Firmware, Vm, VmBuilder},
};
use serde_json::{Value, json};
use std::time::Instant;

const BOTH: [&str; 2] = ["inventory", "report --json"];

fn builder(name: &str, arguments: &str) -> VmBuilder {
    let mut kernel = media::shell_system(Drivers::Cloud).unwrap();
    kernel.arguments += arguments;
    Vm::builder("hardware", name).kernel(kernel).shell()
}

#[test]
fn a_machine_with_uefi_tells_whether_it_checks_what_it_boots() {
    for (name, firmware, machine, state) in [
        ("uefi", Firmware::Uefi, "q35", "Disabled"),
        ("uefi-secure-boot", Firmware::UefiSecure, "q35,smm=on", "Enabled"),
    ] {
        let began = Instant::now();
        let mut vm = builder(name, "").machine(machine).firmware(firmware).start().unwrap();
        let mut facts = Facts::ask(&mut vm);
        let boot = &facts.inventory()["boot"];
        assert_eq!((&boot["current_boot_mode"], &boot["secure_boot_state"]), (&json!("uefi"), &json!(state)));
        let lockdown = devices::lockdown(&mut facts);
        assert_eq!(lockdown == "none", state == "Disabled", "{lockdown}");
        let report = facts.report();
        let expected = json!({
            "firmware": {"boot_mode": "uefi", "uefi_bits": 64, "bios": {"uefi": true, "virtual_machine": true}},
            // Without keys of its owner OVMF would be in setup mode.
            "security": {"secure_boot": state, "setup_mode": state == "Disabled", "lockdown": lockdown, "tpms": null},
        });
        facts.contains(name, &report, &expected);
        facts.replays(name, &BOTH);
        facts.all_as_expected();
        println!("hardware, {name}: {:.1} s", began.elapsed().as_secs_f64());
    }
}

#[test]
fn a_machine_with_nothing_plugged_in() {
    let began = Instant::now();
    let mut vm = builder("nothing-plugged-in", "").start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    let inventory = facts.stable_inventory();
    let expected = json!({
        "bmc_address": "0.0.0.0", "bmc_v6address": "::/0", "disks": [], "gpus": [], "routes": [],
        "interfaces": [{"name": "lo"}],
        "tpm_version": "none",
        "system_vendor": {"manufacturer": "QEMU", "serial_number": null, "virtual": true},
    });
    facts.contains("inventory", &inventory, &expected);
    let report = facts.report();
    let expected = json!({
        "management_controller": null,
        "slots": null, "onboard_devices": null,
        "storage": {"disks": null, "nvme_controllers": null},
        "system": {"product": {"manufacturer": "QEMU", "serial_number": null}, "baseboards": null},
        "memory": {"installed_bytes": 512 * MIB, "populated_sockets": 1, "devices": [{"serial_number": null}]},
        "security": {"tpms": null},
    });
    facts.contains("report", &report, &expected);
    facts.replays("nothing-plugged-in", &BOTH);
    facts.all_as_expected();
    println!("hardware, nothing plugged in: {:.1} s", began.elapsed().as_secs_f64());
}

/// Two disks are a mirror with a file system on it, a third is swap.
#[test]
fn a_mirror_and_swap_make_disks_ineligible() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let disk = |serial: &str| Disk {
        path: dir.path().join(serial),
        size_bytes: 64 * MIB,
        serial: serial.to_owned(),
        sector_bytes: 512,
        bus: Bus::Virtio,
    };
    let mut vm = builder("raid-swap", "");
    for serial in ["HALF-1", "HALF-2", "SWAP", "SPARE"] {
        vm = vm.disk(disk(serial));
    }
    let mut vm = vm.start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts.make_mirror();
    facts.run(
        "mount -t ext4 /dev/md127 /mnt
         mkswap /dev/disk/by-id/virtio-SWAP
         swapon /dev/disk/by-id/virtio-SWAP
         udevadm settle",
    );
    let inventory = facts.stable_inventory();
    let disks = inventory["disks"].as_array().unwrap();
    let by =
        |key: &str, value: &str| disks.iter().find(|disk| disk[key] == value).unwrap_or_else(|| panic!("{disks:#?}"));
    let reasons = |disk: &Value| disk["installation_eligibility"]["not_eligible_reasons"].clone();
    for half in ["HALF-1", "HALF-2"] {
        assert_eq!(by("serial", half)["holders"], "md127");
    }
    assert_eq!(by("name", "md127")["drive_type"], "RAID");
    assert_eq!(by("name", "md127")["size_bytes"], 32 * MIB);
    assert!(reasons(by("name", "md127")).to_string().contains("/mnt"), "{:#}", by("name", "md127"));
    assert_eq!(reasons(by("serial", "SWAP")), json!(["Disk is in use as swap"]));
    assert_eq!(reasons(by("serial", "SPARE")), Value::Null);
    facts.replays("raid-swap", &BOTH);
    facts.all_as_expected();
    println!("hardware, a mirror and swap: {:.1} s", began.elapsed().as_secs_f64());
}

/// A controller that hides its drive behind a volume, and one that shows it: firmware, volume and drive are as QEMU makes
/// them (hw/scsi/megasas.c), which has one volume for each drive.
#[test]
fn drives_behind_a_raid_controller_are_reported() {
    for (name, device, shows, model) in [
        ("megaraid", "megasas", false, "LSI MegaRAID SAS 8708EM2"),
        ("megaraid-jbod", "megasas-gen2,use_jbod=on", true, "LSI MegaRAID SAS 9260-8i"),
    ] {
        let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
        let image = dir.path().join("drive");
        std::fs::File::create(&image).unwrap().set_len(64 * MIB).unwrap();
        let mut vm = Vm::builder("hardware", name)
            .kernel(media::shell_system(Drivers::Full).unwrap())
            .shell()
            .with("-device", format!("{device},id=raid,addr=0x0a,hba_serial=HBA-SER-1"))
            .with("-drive", format!("if=none,id=drive,format=raw,file={}", image.display()))
            .with(
                "-device",
                "scsi-hd,bus=raid.0,scsi-id=0,drive=drive,vendor=ACME,product=DRIVE1,ver=F1.2,serial=RAID-SER-1,\
                 wwn=0x5000c500a1b2c3d4,rotation_rate=7200",
            )
            .start()
            .unwrap();
        let mut facts = Facts::ask(&mut vm);
        facts.run("modprobe megaraid_sas; udevadm settle; for n in 1 2 3 4 5 6 7 8 9 10; do [ -e /sys/block/sda ] || sleep 1; done");
        let report = facts.report();
        let address = "0000:00:0a.0";
        let volume = json!([{
            "controller": address, "number": 0, "disk": "sda", "level": "RAID 0", "state": "optimal", "is_consistent": true,
            "size_bytes": 64 * MIB, "stripe_bytes": 4096, "write_cache": "write through", "drives": ["0"],
        }]);
        let expected = json!({
            "raid_controllers": [{
                "address": address, "driver": "megaraid_sas", "model": model, "serial": "HBA-SER-1",
                "memory_bytes": 512 * MIB, "battery": null,
            }],
            "raid_volumes": if shows { Value::Null } else { volume },
            // What the firmware itself learnt of the drive by INQUIRY, and its state, are empty in versions of QEMU.
            "raid_drives": [{
                "controller": address, "bay": "0", "number": 0, "serial": "RAID-SER-1", "transport": "sas", "medium": "hdd",
                "rotation_rpm": 7200, "size_bytes": 64 * MIB, "disk": if shows { json!("sda") } else { Value::Null },
                "media_errors": 0, "speed_mbps": 1500,
            }],
        });
        facts.contains(name, &report["storage"], &expected);
        // A confined report, too.
        let lines = facts.text("landfall agent offline --to - 2>/dev/null || :");
        let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let confined = lines.find(|line| line["kind"] == "report").unwrap();
        facts.contains(&format!("{name}, confined"), &confined["document"]["storage"], &expected);
        let left = facts.text("ls -a /dev | grep landfall || :");
        assert_eq!(left, "", "a node of the driver is left");
        facts.replays(name, &BOTH);
        facts.all_as_expected();
        println!("hardware, {name}: {:.1} s", began.elapsed().as_secs_f64());
    }
}

/// Of the machine with many parts: sockets, cores of each, and threads of each of those.
const TOPOLOGY: [u32; 3] = [2, 2, 2];
const NODES: u32 = 4;
const NODE_MIB: u64 = 128;
/// Plugged in when the machine starts, into a node of the four.
const MORE_MEMORY_MIB: u64 = 128;
const MORE_MEMORY_NODE: usize = 2;
/// The processor that is switched off.
const OFFLINE: &str = "5";

/// Sockets, threads, nodes, bridges behind ports, graphics, an IOMMU; a processor that is off.
#[test]
fn a_machine_with_many_parts() {
    let began = Instant::now();
    let [sockets, cores, threads] = TOPOLOGY;
    let cpus = sockets * cores * threads;
    let mut machine = builder("many-parts", " intel_iommu=on")
        .machine("q35")
        .processors(format!("{cpus},sockets={sockets},cores={cores},threads={threads}"))
        .memory_mib(u32::try_from(u64::from(NODES) * NODE_MIB).unwrap())
        // Of AMD's processors QEMU doesn't tell the threads.
        .with("-cpu", "max,vendor=GenuineIntel")
        .with("-m", "slots=2,maxmem=2G")
        .with("-device", "intel-iommu");
    for node in 0..NODES {
        let (first, last) = (node * 2, node * 2 + 1);
        machine = machine
            .with("-object", format!("memory-backend-ram,id=memory{node},size={NODE_MIB}M"))
            .with("-numa", format!("node,nodeid={node},cpus={first}-{last},memdev=memory{node}"));
    }
    let mut vm = machine
        .with("-object", format!("memory-backend-ram,id=more,size={MORE_MEMORY_MIB}M"))
        .with("-device", format!("pc-dimm,id=dimm0,memdev=more,node={MORE_MEMORY_NODE}"))
        .with("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")
        .with("-device", "pcie-root-port,id=port1,chassis=1,slot=11,addr=0x10")
        .with("-device", "pcie-root-port,id=port2,chassis=2,slot=12,addr=0x11")
        .with("-device", "pcie-root-port,id=port3,chassis=3,slot=13,addr=0x12")
        .with("-device", "x3130-upstream,id=switch,bus=port1")
        .with("-device", "xio3130-downstream,id=down1,bus=switch,chassis=4,slot=21,addr=0x00")
        .with("-device", "xio3130-downstream,id=down2,bus=switch,chassis=5,slot=22,addr=0x01")
        .with("-netdev", "user,id=net0,ipv6=off,restrict=on")
        .with("-device", "virtio-net-pci,netdev=net0,mac=52:54:00:aa:bb:11,bus=down2,romfile=")
        .with("-device", "virtio-gpu-pci,bus=port2")
        .with("-device", "VGA,addr=0x02,romfile=")
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts.run(&format!(
        "for block in /sys/devices/system/memory/memory*/state; do
             grep -q offline $block && echo online >$block || :
         done
         echo 0 >/sys/devices/system/cpu/cpu{OFFLINE}/online"
    ));
    let inventory = facts.stable_inventory();
    let gpus = json!([
        {"address": "0000:00:02.0", "vendor_id": "1234", "device_id": "1111"},
        {"address": "0000:05:00.0", "vendor_id": "1af4", "device_id": "1050"},
    ]);
    facts.contains("GPUs", &inventory["gpus"], &gpus);
    let report = facts.report();
    let nodes: Vec<Value> = (0..NODES).map(|node| json!({"id": node, "distances": [10, 20, 20, 20]})).collect();
    let packages: Vec<Value> =
        (0..sockets).map(|id| json!({"id": id, "cores": cores, "vendor_id": "GenuineIntel"})).collect();
    let expected = json!({
        "processors": {
            "present": format!("0-{}", cpus - 1), "offline": OFFLINE, "threads": cpus - 1, "cores": sockets * cores,
            "smt_active": true,
            "packages": packages, "sockets": [{"core_count": cores}, {"core_count": cores}],
        },
        "security": {"iommu": {"units": ["dmar0"], "arguments": ["intel_iommu=on"]}},
    });
    facts.contains("report", &report, &expected);
    let found = report["processors"]["numa_nodes"].as_array().unwrap();
    assert_eq!(found.len(), nodes.len(), "{found:#?}");
    for (index, node) in found.iter().enumerate() {
        let bytes = node["memory_bytes"].as_u64().unwrap();
        let all = (NODE_MIB + if index == MORE_MEMORY_NODE { MORE_MEMORY_MIB } else { 0 }) * MIB;
        // The kernel keeps some for itself, and of one node 64 MiB for devices that reach no further than 4 GiB.
        assert!((all * 2 / 5..=all).contains(&bytes), "{node:#}: {bytes} of {all}");
    }
    // Through the port and the switch to the card, from slot to slot.
    let address = |slot: &str| {
        let all = report["pci"].as_array().unwrap();
        all.iter().find(|one| one["slot"] == slot).unwrap_or_else(|| panic!("no slot {slot} in {all:#?}"))
    };
    for (slot, driver) in [("11", "pcieport"), ("12", "virtio-pci"), ("22", "virtio-pci")] {
        assert_eq!(address(slot)["driver"], driver, "slot {slot}");
    }
    facts.replays("many-parts", &BOTH);
    facts.all_as_expected();
    println!("hardware, many parts: {:.1} s", began.elapsed().as_secs_f64());
}

/// Memory on CXL with a persistent part; its mailbox answers as far as this QEMU emulates it (hw/cxl/cxl-mailbox-utils.c).
#[test]
fn memory_on_cxl_is_reported() {
    const RAM_MIB: u64 = 256;
    const PERSISTENT_MIB: u64 = 512;
    let began = Instant::now();
    let mut vm = Vm::builder("hardware", "cxl")
        .kernel(media::shell_system(Drivers::Full).unwrap())
        .shell()
        .machine("q35,cxl=on,cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G")
        .with("-m", "maxmem=4G,slots=4")
        .with("-object", format!("memory-backend-ram,id=volatile,size={RAM_MIB}M"))
        .with("-object", format!("memory-backend-ram,id=persistent,size={PERSISTENT_MIB}M"))
        .with("-object", "memory-backend-ram,id=labels,size=2M")
        .with("-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1")
        .with("-device", "cxl-rp,port=0,bus=cxl.1,id=rp,chassis=0,slot=2")
        .with(
            "-device",
            "cxl-type3,bus=rp,volatile-memdev=volatile,persistent-memdev=persistent,lsa=labels,id=memory,sn=0x1a2b3c4d",
        )
        .start()
        .unwrap();
    let mut facts = Facts::ask(&mut vm);
    facts
        .run("modprobe cxl_acpi; modprobe cxl_pci; modprobe cxl_mem; udevadm settle; ls /sys/bus/cxl/devices /dev/cxl");
    let report = facts.report();
    let expected = json!({
        "cxl_memory": [{
            "name": "mem0", "pci_address": "0000:0d:00.0", "serial": "0x1a2b3c4d", "firmware_version": "BWFW VERSION 00",
            "ram_bytes": RAM_MIB * MIB, "persistent_bytes": PERSISTENT_MIB * MIB, "total_bytes": (RAM_MIB + PERSISTENT_MIB) * MIB,
            "label_bytes": 2 * MIB,
        }],
    });
    facts.contains("cxl", &report["attached_memory"], &expected);
    println!("hardware, cxl: {:#}", report["attached_memory"]["cxl_memory"]);
    facts.replays("cxl", &BOTH);
    facts.all_as_expected();
    println!("hardware, cxl: {:.1} s", began.elapsed().as_secs_f64());
}
