//! The report of the same machine: what QEMU was given must be in it. The rest may be what the kernel says.

use crate::hardware::{
    devices,
    facts::Facts,
    machine::{self, INTERFACES, MEMORY_MIB, MIB, NODES_MIB, smbios},
};
use serde_json::{Value, json};

pub(crate) fn every_value(facts: &mut Facts, inventory: &Value) {
    let report = facts.report();
    let pci = |slot: &str| format!("0000:00:{slot}.0");
    let socket = |index: u32| {
        json!({
            "socket": format!("{} {index}", smbios(4, "sock_pfx")),
            "manufacturer": smbios(4, "manufacturer"),
            "version": smbios(4, "version"),
            "serial_number": smbios(4, "serial"),
            "asset_tag": smbios(4, "asset"),
            "part_number": smbios(4, "part"),
            "max_speed_mhz": number(smbios(4, "max-speed")),
            "current_speed_mhz": number(smbios(4, "current-speed")),
            "core_count": 1,
            "thread_count": 1,
            "populated": true,
        })
    };
    let package = |index: u32| {
        json!({
            "id": index,
            "model_name": machine::PROCESSOR,
            "cores": 1,
            "threads": 1,
            "cpus": index.to_string(),
        })
    };
    let memory_bytes = u64::from(MEMORY_MIB) * MIB;
    facts.contains(
        "report",
        &report,
        &json!({
            "host_id_source": "board-serial",
            "hostname": "shell",
            "system": {
                "product": {
                    "manufacturer": smbios(1, "manufacturer"),
                    "product_name": smbios(1, "product"),
                    "version": smbios(1, "version"),
                    "serial_number": smbios(1, "serial"),
                    "sku_number": smbios(1, "sku"),
                    "family": smbios(1, "family"),
                    "uuid": machine::SYSTEM_UUID,
                },
                "baseboards": [{
                    "manufacturer": smbios(2, "manufacturer"),
                    "product": smbios(2, "product"),
                    "version": smbios(2, "version"),
                    "serial_number": smbios(2, "serial"),
                    "asset_tag": smbios(2, "asset"),
                    "location": smbios(2, "location"),
                }],
                "chassis": [{
                    "manufacturer": smbios(3, "manufacturer"),
                    "version": smbios(3, "version"),
                    "serial_number": smbios(3, "serial"),
                    "asset_tag": smbios(3, "asset"),
                    "sku_number": smbios(3, "sku"),
                }],
                "oem_strings": [smbios(11, "value")],
                "virtual": true,
            },
            "firmware": {
                "bios": {
                    "vendor": smbios(0, "vendor"),
                    "version": smbios(0, "version"),
                    "release_date": smbios(0, "date"),
                    "revision": smbios(0, "release"),
                },
                "boot_mode": "bios",
            },
            "processors": {
                "sockets": [socket(0), socket(1)],
                "packages": [package(0), package(1)],
                "cores": 2,
                "threads": 2,
                "numa_nodes": [
                    {"id": 0, "cpus": "0", "distances": [10, machine::NODE_DISTANCE]},
                    {"id": 1, "cpus": "1", "distances": [machine::NODE_DISTANCE, 10]},
                ],
            },
            "memory": {
                "installed_bytes": memory_bytes,
                "populated_sockets": 1,
                "devices": [{
                    "locator": format!("{} 0", smbios(17, "loc_pfx")),
                    "bank_locator": smbios(17, "bank"),
                    "manufacturer": smbios(17, "manufacturer"),
                    "serial_number": smbios(17, "serial"),
                    "asset_tag": smbios(17, "asset"),
                    "part_number": smbios(17, "part"),
                    "speed_mts": number(smbios(17, "speed")),
                    "size_bytes": memory_bytes,
                }],
            },
            "onboard_devices": [{
                "designation": smbios(41, "designation"),
                "instance": number(smbios(41, "instance")),
                "device_type": "Ethernet",
                "bus_address": pci(INTERFACES[3].pci),
            }],
            "management_controller": {
                "firmware_version": "2.15",
                "ipmi_version": "2.0",
                "manufacturer_id": machine::bmc().manufacturer,
                "product_id": machine::bmc().product,
                "guid": machine::BMC_GUID,
                "channels": [{
                    "number": machine::bmc().channel,
                    "mac_address": machine::bmc().mac.to_string(),
                    "ipv4_address": machine::bmc().ipv4.0.to_string(),
                    "ipv4_source": "dhcp",
                    "ipv4_mask": "255.255.255.0",
                    "ipv6_address": machine::bmc().ipv6_dynamic.unwrap().0.to_string(),
                }],
            },
        }),
    );
    if machine::is_complete() {
        // SMBIOS 3.6 tables 44 to 47: type a5h, width 0dh, usage 4 and length 3.
        let slot = json!({
            "designation": smbios(9, "slot_designation"), "id": number(smbios(9, "slot_id")),
            "slot_type": "PCI Express", "width": "x16", "usage": "In Use", "length": "Short",
        });
        facts.contains("slots", &report["slots"], &json!([slot]));
    }
    // The kernel keeps some of each node for itself.
    for (node, mib) in report["processors"]["numa_nodes"].as_array().unwrap().iter().zip(NODES_MIB) {
        let (bytes, all) = (node["memory_bytes"].as_u64().unwrap(), u64::from(mib) * MIB);
        assert!((all * 4 / 5..=all).contains(&bytes), "{bytes} of {all}");
    }
    functions(facts, &report);
    devices::every_value(facts, inventory, &report);
}

fn functions(facts: &mut Facts, report: &Value) {
    for (index, interface) in machine::interfaces() {
        let address = format!("0000:00:{}.0", interface.pci);
        let mut expected = json!({"driver": interface.pci_driver});
        if index == 3 {
            expected["label"] = smbios(41, "designation").into();
        }
        facts.contains(interface.device, function(report, &address), &expected);
    }
    let link = json!({
        "max_speed_gts": machine::PORT_SPEED_GTS.parse::<f64>().unwrap(),
        "max_width_lanes": number(machine::PORT_LANES),
    });
    facts.contains("port", function(report, machine::PORT), &json!({"link": link, "driver": "pcieport"}));
    // QEMU's disk is as slow as can be, and has all that it can have.
    let disk = json!({
        "driver": "nvme", "parent": machine::PORT, "slot": machine::PORT_SLOT,
        "link": {"speed_gts": 2.5, "width_lanes": 1, "max_speed_gts": 2.5, "max_width_lanes": 1, "degraded": false},
    });
    facts.contains("behind the port", function(report, "0000:01:00.0"), &disk);
}

/// Virtual functions come and are reported.
pub(crate) fn virtual_functions(facts: &mut Facts) {
    if !machine::is_complete() {
        return;
    }
    let igb = format!("0000:00:{}.0", INTERFACES[3].pci);
    facts.run(&format!("echo 2 >/sys/bus/pci/devices/{igb}/sriov_numvfs; udevadm settle"));
    let report = facts.report();
    facts.contains("igb", function(&report, &igb), &json!({"sriov": {"virtual_functions": 2}}));
    let all = report["pci"].as_array().unwrap();
    assert_eq!(all.iter().filter(|one| one["physical_function"] == igb).count(), 2, "{all:#?}");
}

fn function<'a>(report: &'a Value, address: &str) -> &'a Value {
    let all = report["pci"].as_array().unwrap();
    all.iter().find(|one| one["address"] == address).unwrap_or_else(|| panic!("no {address} in {all:#?}"))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}
