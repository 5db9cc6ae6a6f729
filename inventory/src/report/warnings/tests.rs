//! What the page of a report says before its facts.

use super::findings;
use crate::{
    report::{
        Aer, CountedModule, FirmwareResource, Function, Link, MemoryController, Mismatch, NumaNode, Package, Report,
        ThermalZone,
        page::{Look, page},
    },
    smbios::{BootStatus, Chassis, MemoryDevice, Processor},
};
use serde_json::{Value, json};

fn report(facts: Value) -> Report {
    let mut whole = serde_json::to_value(Report::default()).unwrap();
    for (part, fields) in facts.as_object().unwrap() {
        match (&mut whole[part], fields) {
            (Value::Object(part), Value::Object(fields)) => part.extend(fields.clone()),
            (part, fields) => *part = fields.clone(),
        }
    }
    serde_json::from_value(whole).unwrap()
}

/// All warnings, then all notes.
fn texts(report: &Report) -> Vec<String> {
    let found = findings(report);
    let notes = found.notes.lines().into_iter().map(|note| format!("note: {note}"));
    found.warnings.lines().into_iter().chain(notes).collect()
}

/// The lines below the summary, up to the first part of the report.
fn lines(report: &Report) -> Vec<String> {
    let look = Look { columns: 100, colour: false };
    let page = page(report, &json!({}), look);
    page.lines().skip_while(|line| !line.is_empty()).skip(1).map(str::to_owned).collect()
}

fn server(is_virtual: bool) -> Report {
    let function = |address: &str, reason: &str| {
        json!({
            "address": address, "class_id": "020000", "vendor_id": "15b3", "device_id": "1019", "device": "ConnectX-5",
            "link": {"degraded": true, "limited_by": reason},
        })
    };
    let socket = |locator: &str| json!({"handle": 1, "locator": locator, "installed": false});
    let functions: Vec<Value> =
        (0..6).map(|bus| function(&format!("0000:4{bus}:00.0"), "training: 8 GT/s x4")).collect();
    let sockets = ["A2", "A3", "A4", "B2", "B3", "B4"].map(socket);
    report(json!({
        "system": {"virtual": is_virtual},
        "pci": functions,
        "firmware": {"resources": [{"class": "ddc0ee61", "last_attempt_version": 65539, "last_attempt_status": "out of resources"}]},
        "memory": {
            "populated_sockets": 2, "empty_sockets": 6,
            "devices": sockets,
            "mismatches": [
                {"name": "size_bytes", "values": ["17179869184", "34359738368"]},
                {"name": "speed_mts", "values": ["2933", "3200"]},
            ],
            "below_rated_speed": ["A1", "B1"],
        },
        "processors": {
            "numa_nodes": [{"id": 2, "memory_bytes": 0}, {"id": 3, "memory_bytes": 0}],
            "vulnerabilities": {"mds": "Vulnerable", "l1tf": "Vulnerable", "spectre_v2": "Vulnerable: no IBPB"},
        },
        "storage": {"disks": [
            {"name": "sda", "state": "offline"}, {"name": "sdb", "state": "running"}, {"name": "sdc", "state": "offline"},
        ]},
    }))
}

#[test]
fn notes_are_no_warnings_and_like_lines_are_one() {
    let found = lines(&server(false));
    let expected = [
        "Warnings (5)",
        "  ! firmware ddc0ee61: the last update failed: out of resources",
        "  ! 0000:40:00.0 (ConnectX-5), 0000:41:00.0 (ConnectX-5), 0000:42:00.0 (ConnectX-5), 0000:43:00.0",
        "    (ConnectX-5) and 2 others: PCIe link is degraded: training: 8 GT/s x4",
        "  ! l1tf, mds: Vulnerable",
        "  ! spectre v2: Vulnerable: no IBPB",
        "  ! disk sda, disk sdc: the SCSI state is offline, not running",
        "",
        "Notes (5)",
        "  - 6 of 8 memory sockets are empty: A2, A3, A4, B2 and 2 others",
        "  - memory modules differ in size: 16 GiB, 32 GiB",
        "  - memory modules differ in speed: 2933 MT/s, 3200 MT/s",
        "  - A1, B1: the memory module runs below its rated speed",
        "  - NUMA node 2, NUMA node 3: no local memory",
    ];
    assert_eq!(found, expected, "{found:#?}");
}

#[test]
fn the_state_of_a_scsi_disk_is_shown() {
    let report = server(false);
    let page = page(&report, &serde_json::to_value(&report).unwrap(), Look { columns: 100, colour: false });
    let table: Vec<&str> = page.lines().skip_while(|line| !line.starts_with("  DISK")).take(4).collect();
    assert_eq!(table, ["  DISK  STATE", "  sda   offline", "  sdb   running", "  sdc   offline"]);
}

#[test]
fn a_virtual_machine_has_neither_sockets_nor_links() {
    let found = lines(&server(true)).join("\n");
    for hardware in ["socket", "memory module", "NUMA", "PCIe link", "Notes"] {
        assert!(!found.contains(hardware), "{hardware}:\n{found}");
    }
    assert!(found.contains("Vulnerable"));
}

#[test]
fn the_hypervisor_is_named() {
    let facts = json!({"system": {"virtual": true, "product": {"handle": 1, "product_name": "Standard PC"}}});
    let look = Look { columns: 100, colour: false };
    let mut named = serde_json::to_value(report(facts)).unwrap();
    named["system"]["hypervisor"] = "KVM".into();
    let page = page(&serde_json::from_value(named).unwrap(), &json!({}), look);
    assert!(page.contains("Standard PC, a virtual machine (KVM)"), "{page}");
}

#[test]
fn a_machine_in_order_has_none() {
    assert_eq!(texts(&Report::default()), Vec::<String>::new());
    let mut report = Report::default();
    report.kernel.taints = Some("PO".to_owned());
    let link = Link { degraded: Some(false), limited_by: Some("port: at most".to_owned()), ..Link::default() };
    let aer = Aer { correctable: Some(0), ..Aer::default() };
    report.pci = vec![Function { link: Some(link), aer: Some(aer), ..Function::default() }];
    report.processors.packages = vec![Package { microcode: vec!["0x1".to_owned()], ..Package::default() }; 2];
    report.processors.vulnerabilities.insert("l1tf".to_owned(), "Not affected".to_owned());
    assert_eq!(texts(&report), Vec::<String>::new());
}

#[test]
fn each_fault_has_its_line() {
    let mut report = Report::default();
    report.kernel.taints = Some("M".to_owned());
    let link = Link { degraded: Some(true), limited_by: Some("training: 8 GT/s x4".to_owned()), ..Link::default() };
    let aer = Aer { correctable: Some(7), fatal: Some(1), ..Aer::default() };
    let (address, device) = ("0000:41:00.0".to_owned(), Some("ConnectX-5".to_owned()));
    report.pci = vec![Function { address, device, link: Some(link), aer: Some(aer), ..Function::default() }];
    let microcode = vec!["0x1".to_owned(), "0x2".to_owned()];
    report.processors.packages =
        vec![Package { microcode, ..Package::default() }, Package { stepping: Some(2), ..Package::default() }];
    report.processors.numa_nodes = vec![NumaNode { id: 1, memory_bytes: Some(0), ..NumaNode::default() }];
    report.processors.vulnerabilities.insert("spectre_v2".to_owned(), "Vulnerable: no IBPB".to_owned());
    let text = |text: &str| Some(text.to_owned());
    report.firmware.boot_status = Some(BootStatus { status: text("No bootable media"), ..BootStatus::default() });
    let (class, last_attempt_status) = ("ddc0ee61".to_owned(), text("out of resources"));
    report.firmware.resources = vec![FirmwareResource { class, last_attempt_status, ..FirmwareResource::default() }];
    report.system.chassis = vec![Chassis { thermal_state: text("Critical"), ..Chassis::default() }];
    report.memory.empty_sockets = Some(1);
    report.memory.populated_sockets = Some(7);
    let (bank_locator, locator, installed) = (text("P0"), text("DIMM B2"), Some(false));
    report.memory.devices = vec![MemoryDevice { bank_locator, locator, installed, ..MemoryDevice::default() }];
    let values = vec![(16_u64 << 30).to_string(), (32_u64 << 30).to_string()];
    report.memory.mismatches = vec![Mismatch { name: "size_bytes".to_owned(), values }];
    report.memory.below_rated_speed = vec!["DIMM A1".to_owned()];
    let module = CountedModule { label: text("DIMM A1"), corrected_errors: Some(2), ..CountedModule::default() };
    let controller = MemoryController {
        name: "mc0".to_owned(),
        uncorrected_errors: Some(1),
        corrected_errors: Some(0),
        modules: vec![module],
        ..MemoryController::default()
    };
    report.memory.controllers = vec![controller];
    report.processors.sockets = vec![Processor {
        socket: text("CPU1"),
        populated: Some(true),
        status: text("Disabled By BIOS"),
        core_count: Some(8),
        core_enabled: Some(6),
        ..Processor::default()
    }];
    let (now, critical) = (Some(105.0), Some(95.0));
    let zone = ThermalZone { temperature_celsius: now, critical_celsius: critical, ..ThermalZone::default() };
    report.health.thermal_zones = vec![ThermalZone { name: "thermal_zone0".to_owned(), ..zone }];
    report.health.crash_records = vec!["dmesg-efi-1".to_owned()];
    let lines = [
        "the kernel has seen a machine check (taint M): look for MCE in its log",
        "firmware about the last boot: No bootable media",
        "chassis: temperature when last booted: Critical",
        "firmware ddc0ee61: the last update failed: out of resources",
        "memory mc0: 1 uncorrected error",
        "memory mc0 DIMM A1: 2 corrected errors",
        "0000:41:00.0 (ConnectX-5): PCIe link is degraded: training: 8 GT/s x4",
        "0000:41:00.0 (ConnectX-5): 1 fatal error of PCIe since boot",
        "package 0: its CPUs run different microcode: 0x1, 0x2",
        "CPU1: processor is disabled by bios",
        "packages contain different processors, which few makers support",
        "spectre v2: Vulnerable: no IBPB",
        "the firmware stores 1 crash record (pstore)",
        "thermal_zone0: 105 °C, critical is 95 °C",
        "note: 0000:41:00.0 (ConnectX-5): 7 errors of PCIe corrected since boot",
        "note: 1 of 8 memory sockets are empty: P0 DIMM B2",
        "note: memory modules differ in size: 16 GiB, 32 GiB",
        "note: DIMM A1: the memory module runs below its rated speed",
        "note: CPU1: 6 of 8 cores are enabled",
        "note: NUMA node 1: no local memory",
    ];
    assert_eq!(texts(&report), lines);
}

#[test]
fn what_a_bmc_and_a_tpm_tell() {
    let interface = json!({"handle": 1, "interface_type": "KCS (Keyboard Control Style)"});
    let without = report(json!({"firmware": {"ipmi_interfaces": [interface]}}));
    let [line] = &texts(&without)[..] else { panic!("{:?}", texts(&without)) };
    assert!(line.contains("/dev/ipmi0 is missing") && line.contains("ipmi_devintf"), "{line}");
    let sensor = |name: &str, state: &str| json!({"name": name, "number": 1, "type": "x", "sensor_state": state});
    let found = report(json!({
        "firmware": {"ipmi_interfaces": [interface]},
        "management_controller": {
            "sensor_readings": [
                sensor("CPU", "upper critical"), sensor("FAN", "ok"), sensor("DIMM", "present"),
                sensor("PSU1", "present, input lost"), sensor("Case", "nothing predicted"), sensor("OEM", "unavailable"),
            ],
            "frus": [{"name": "PSU1", "device": 1, "wrong_checksums": ["board", "product"]}, {"name": "x", "device": 2}],
            "event_log": {"entries": 9, "free_bytes": 0, "has_overflowed": true},
        },
        "power_supply_units": [
            {"name": "Bay 1", "power_supply_state": "OK", "is_present": true, "is_unplugged": true},
            {"name": "Bay 2", "power_supply_state": "Critical", "is_present": true, "is_unplugged": false},
            {"name": "Bay 3", "is_present": false, "is_unplugged": true},
        ],
        "security": {"tpms": [{"name": "tpm0", "details": {"is_locked_out": true}}]},
    }));
    let lines = [
        "BMC sensor CPU: upper critical",
        "BMC sensor PSU1: present, input lost",
        "FRU PSU1: wrong checksum of board, product",
        "the BMC's event log was full, and events were lost",
        "power supply Bay 1: it was not plugged in when last booted",
        "power supply Bay 2: Critical when last booted",
        "tpm0: it is locked, because too many passwords were wrong",
    ];
    assert_eq!(texts(&found), lines);
}
