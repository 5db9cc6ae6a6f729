//! Disks, interfaces and protections in the report: what QEMU was given for them, and what its models of devices are
//! known to report.

use crate::hardware::{
    facts::Facts,
    machine::{self, Interface, MIB, PARTITIONED_SERIAL, TWO_PATHS_SERIAL},
};
use serde_json::{Value, json};

/// Temperature of QEMU's NVMe disk, and those at which it would warn and stop (hw/nvme: 323, 343 and 373 K).
const NVME_CELSIUS: [i32; 3] = [50, 70, 100];
/// SMART of QEMU's SATA disks (`smart_attributes` of hw/ide/core.c): number, value, threshold, raw value.
const SMART: [(u8, u8, u8, u64); 7] = [
    (1, 100, 6, 0),
    (3, 100, 0, 16),
    (4, 100, 20, 100),
    (5, 100, 36, 0),
    (9, 100, 0, 1),
    (12, 100, 0, 0),
    (190, 69, 50, 0x1f1f_001f),
];
/// Of the seventh: its raw value's lowest byte.
const SATA_CELSIUS: u8 = 31;

pub(crate) fn every_value(facts: &mut Facts, inventory: &Value, report: &Value) {
    disks(facts, inventory, &report["storage"]);
    nvme(facts, &report["storage"]["nvme_controllers"]);
    adapters(facts, &report["storage"]["adapters"]);
    interfaces(facts, &report["network"]["interfaces"]);
    security(facts, &report["security"]);
    // Nothing of QEMU's measures but the NVMe disk, and that is said with the disk.
    for (list, what) in [("sensors", "chips"), ("thermal_zones", "zones"), ("power_supplies", "power supplies")] {
        facts.compare(what, &report["health"][list], &Value::Null);
    }
    let errors = json!({"pcie_correctable_errors": 0, "pcie_nonfatal_errors": 0, "pcie_fatal_errors": 0});
    facts.contains("health", &report["health"], &errors);
}

fn disks(facts: &mut Facts, inventory: &Value, storage: &Value) {
    let inventory = inventory["disks"].as_array().unwrap();
    let found = storage["disks"].as_array().unwrap();
    assert_eq!(found.len(), machine::disks().len(), "{found:#?}");
    for disk in machine::disks() {
        let named = inventory.iter().find(|one| one["by_path"] == disk.inventory["by_path"]).unwrap();
        let found = found.iter().find(|one| one["name"] == named["name"]);
        let found = found.unwrap_or_else(|| panic!("{} is not in {storage:#}", named["name"]));
        let mut expected = of_its_kind(disk.serial);
        let all = expected.as_object_mut().unwrap();
        all.insert("size_bytes".to_owned(), (disk.mib * MIB).into());
        let rotates = matches!(disk.inventory["drive_type"].as_str(), Some("HDD" | "ODD"));
        all.insert("is_rotational".to_owned(), rotates.into());
        all.insert("is_removable".to_owned(), (disk.inventory["removable"] == true).into());
        facts.contains(&format!("{} in the report", disk.serial), found, &expected);
    }
}

/// What each disk reports besides its size and its motor.
fn of_its_kind(serial: &str) -> Value {
    let virtio = |address: &str, sector: u32| {
        json!({
            "serial": serial, "transport": "virtio", "pci_address": address, "controller_driver": "virtio-pci",
            "logical_sector_bytes": sector, "physical_sector_bytes": sector, "is_read_only": false, "write_cache": "write back",
        })
    };
    let two_paths = json!({
        "serial": serial, "wwid": "naa.5000c5000000cafe", "vendor": "QEMU", "model": "QEMU HARDDISK",
        "pci_address": "0000:00:03.0", "logical_sector_bytes": 512, "state": "running",
    });
    match serial {
        "VBLK-SER-1" => virtio("0000:00:10.0", 512),
        "4KN-SER-4" => virtio("0000:00:12.0", 4096),
        "NVME-SER-2" => json!({
            "pci_address": "0000:01:00.0",
            "serial": serial, "model": "QEMU NVMe Ctrl", "firmware_version": machine::qemu_version(), "transport": "nvme",
            "logical_sector_bytes": 512, "physical_sector_bytes": 512,
            "wwid": "nvme.1b36-4e564d452d5345522d32-51454d55204e564d65204374726c-00000001",
        }),
        "SCSI-SER-3" => json!({
            "serial": serial, "vendor": "ACME", "model": "DISK3", "firmware_version": "F1.2", "wwid": "naa.5000c500a1b2c3d4",
            "pci_address": "0000:00:03.0", "controller_driver": "virtio-pci", "state": "running", "write_cache": "write back",
            "logical_sector_bytes": 512, "physical_sector_bytes": 512,
        }),
        "USB-SER-5" => json!({
            "vendor": "QEMU", "model": "QEMU HARDDISK", "firmware_version": "2.5+", "transport": "usb",
            "pci_address": "0000:00:04.0", "controller_driver": "xhci_hcd",
        }),
        PARTITIONED_SERIAL => json!({
            "serial": serial, "vendor": "ATA", "model": "SAMSUNG-X", "firmware_version": "FW-6", "transport": "sata",
            "wwid": "naa.5000c500deadbeef", "pci_address": "0000:00:1f.2", "controller_driver": "ahci",
            "ata": {
                "serial": serial, "model": "SAMSUNG-X", "firmware": "FW-6", "wwn": "0x5000c500deadbeef", "has_smart": true,
                // In IDENTIFY 1 means no rotation at all.
                "is_smart_enabled": true, "rotation_rpm": 0, "logical_sector_bytes": 512, "is_locked": false,
            },
            "smart": {
                "is_failing": false, "temperature_celsius": SATA_CELSIUS,
                "attributes": SMART.map(|(id, value, threshold, raw)| {
                    json!({"id": id, "value": value, "worst": value, "threshold": threshold, "raw": raw})
                }),
            },
        }),
        TWO_PATHS_SERIAL => two_paths,
        "CD-SER-8" => json!({
            "vendor": "QEMU", "model": "QEMU DVD-ROM", "transport": "sata", "pci_address": "0000:00:1f.2",
            "logical_sector_bytes": 2048, "is_read_only": true,
        }),
        _ => panic!("{serial}: what the report says of it"),
    }
}

fn nvme(facts: &mut Facts, controllers: &Value) {
    let [now, warning, critical] = NVME_CELSIUS;
    let expected = json!([{
        "name": "nvme0", "serial": "NVME-SER-2", "model": "QEMU NVMe Ctrl", "firmware_version": machine::qemu_version(),
        "pci_address": "0000:01:00.0", "transport": "pcie", "state": "live",
        "subsystem_nqn": "nqn.2019-08.org.qemu:NVME-SER-2",
        "identity": {
            "serial": "NVME-SER-2", "model": "QEMU NVMe Ctrl", "pci_vendor": "1b36", "pci_subsystem_vendor": "1af4",
            "ieee_oui": "525400", "warning_temperature_celsius": warning, "critical_temperature_celsius": critical,
            // MDTS 7, of pages of 4 KiB.
            "max_transfer_pages": 128, "version": "1.4.0",
        },
        "smart": {
            "temperature_celsius": now, "used_percent": 0, "media_errors": 0, "error_log_entries": 0, "unsafe_shutdowns": 0,
        },
    }]);
    facts.contains("NVMe", controllers, &expected);
}

fn adapters(facts: &mut Facts, adapters: &Value) {
    let expected = json!([
        {"address": "0000:00:03.0", "driver": "virtio_scsi"},
        {"address": "0000:00:04.0", "driver": "usb-storage"},
        {"address": "0000:00:1f.2", "driver": "ahci"},
    ]);
    facts.contains("adapters", adapters, &expected);
}

fn interfaces(facts: &mut Facts, all: &Value) {
    let all = all.as_array().unwrap();
    for (index, interface) in machine::interfaces() {
        let address = format!("0000:00:{}.0", interface.pci);
        let found = all.iter().find(|one| one["pci_address"] == address);
        let found = found.unwrap_or_else(|| panic!("no {address} in {all:#?}"));
        let mut expected = json!({
            "permanent_mac_address": interface.mac, "driver": interface.net_driver, "has_carrier": true, "mtu": 1500,
            "is_virtual_function": false,
            "firmware_version": interface.firmware,
            "speed_mbps": u64::try_from(interface.speed_mbps).ok(),
            "duplex": if interface.speed_mbps > 0 { json!("full") } else { Value::Null },
        });
        if index == 3 {
            // The device has eight, and the driver leaves one out.
            expected["max_virtual_functions"] = 7.into();
            expected["virtual_functions"] = 0.into();
        }
        facts.contains(interface.device, found, &expected);
        offloads(interface, found);
    }
}

/// QEMU's user network takes no large segments, so that virtio has none to offer; real cards split them by themselves.
fn offloads(interface: &Interface, found: &Value) {
    let on = |feature: &str| found["features_on"].as_array().unwrap().iter().any(|one| one == feature);
    let is_card = interface.pci_driver != "virtio-pci";
    assert_eq!(on("tx-tcp-segmentation"), is_card, "{}: {found:#}", interface.device);
    assert!(on("rx-gro"), "{}: {found:#}", interface.device);
}

fn security(facts: &mut Facts, security: &Value) {
    let mut pcrs = serde_json::Map::new();
    for index in 0..8 {
        let value = facts.text(&format!("cat /sys/class/tpm/tpm0/pcr-sha256/{index}"));
        pcrs.insert(index.to_string(), value.trim().to_lowercase().into());
    }
    let lockdown = lockdown(facts);
    let expected = json!({
        "secure_boot": "NotSupported",
        "setup_mode": null,
        "lockdown": lockdown,
        "iommu": {"groups": 0, "units": null},
        "tpms": [{
            "name": "tpm0", "version": "2.0", "pcr_banks": ["sha1", "sha256", "sha384", "sha512"], "pcr_bank": "sha256",
            "pcrs": pcrs,
        }],
    });
    facts.contains("security", security, &expected);
}

/// The word in brackets of the kernel's own list.
pub(crate) fn lockdown(facts: &mut Facts) -> String {
    let all = facts.text("cat /sys/kernel/security/lockdown");
    all.split(['[', ']']).nth(1).unwrap_or_else(|| panic!("{all}")).to_owned()
}
