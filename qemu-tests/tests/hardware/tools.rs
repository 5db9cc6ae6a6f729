//! The facts of the same machine beside those that other programs read of it. `--nocapture` prints them as a table.

use crate::hardware::{facts::Facts, machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Facts of one program after the other.
struct Table<'a> {
    facts: &'a mut Facts,
    report: &'a Value,
    program: &'static str,
    count: usize,
}

/// A program, what compares with it, and the least number of facts that it does.
type Comparison = (&'static str, fn(&mut Table<'_>), usize);

const PROGRAMS: [Comparison; 10] = [
    ("smartctl", smartctl, 70),
    ("nvme", nvme, 30),
    ("sg3-utils", sg3_utils, 15),
    ("lspci", lspci, 80),
    ("lsusb", lsusb, 4),
    ("lshw", lshw, 30),
    ("dmidecode", dmidecode, 16),
    ("ethtool", ethtool, 20),
    ("ipmitool", ipmitool, 8),
    ("tpm2-tools", tpm2_tools, 15),
];

pub(crate) fn every_fact(facts: &mut Facts, report: &Value) {
    let mut table = Table { facts, report, program: "", count: 0 };
    println!("{:<10} {:<44} {:<44} ours", "program", "fact", "theirs");
    for (program, compare, least) in PROGRAMS {
        (table.program, table.count) = (program, 0);
        compare(&mut table);
        assert!(table.count >= least, "{program}: only {} facts were compared", table.count);
    }
}

impl Table<'_> {
    /// A fact that must be the same.
    fn same(&mut self, fact: &str, theirs: impl Into<Value>, ours: &Value) {
        let theirs = theirs.into();
        println!("{:<10} {fact:<44} {:<44} {ours}", self.program, theirs.to_string());
        self.facts.compare(&format!("{} {fact}", self.program), ours, &theirs);
        self.count += 1;
    }

    /// A counter that goes on; ours was read before theirs.
    fn grows(&mut self, fact: &str, theirs: u64, ours: &Value, most: u64) {
        let is_near = ours.as_u64().is_some_and(|number| number <= theirs && theirs - number <= most);
        self.same(fact, if is_near { ours.clone() } else { theirs.into() }, ours);
    }

    /// The same, of all these facts of two objects.
    fn all(&mut self, of: &str, theirs: &Value, ours: &Value, names: &[(&str, &str)]) {
        for (their_name, our_name) in names {
            let theirs = at(theirs, their_name);
            let theirs = theirs.as_str().map_or_else(|| theirs.clone(), |text| text.trim().into());
            self.same(&format!("{of} {their_name}"), theirs, at(ours, our_name));
        }
    }

    fn json(&mut self, command: &str) -> Value {
        // Some end with a code other than 0 for what they could not read besides.
        let text = self.facts.text(&format!("{command} || :"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command}: {error}: {text}"))
    }

    /// An element of a list of the report.
    fn ours(&self, list: &str, key: &str, value: &str) -> Value {
        let all = at(self.report, list).as_array().unwrap_or_else(|| panic!("no {list} in the report"));
        all.iter().find(|one| one[key] == value).unwrap_or_else(|| panic!("{key} {value} in {all:#?}")).clone()
    }
}

/// What stands behind names joined by dots.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .fold(value, |value, name| name.parse::<usize>().map_or_else(|_| &value[name], |index| &value[index]))
}

/// What follows a name and a colon on a line; a name that comes more than once keeps its first value.
fn lines(text: &str) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(':') {
            facts.entry(name.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
        }
    }
    facts
}

fn smartctl(table: &mut Table<'_>) {
    let ata = table.ours("storage.disks", "serial", machine::PARTITIONED_SERIAL);
    let name = ata["name"].as_str().unwrap();
    let theirs = table.json(&format!("smartctl -x --json /dev/{name}"));
    let facts = [
        ("model_name", "ata.model"),
        ("serial_number", "ata.serial"),
        ("firmware_version", "ata.firmware"),
        ("user_capacity.bytes", "size_bytes"),
        ("logical_block_size", "ata.logical_sector_bytes"),
        ("physical_block_size", "ata.physical_sector_bytes"),
        ("rotation_rate", "ata.rotation_rpm"),
        ("trim.supported", "ata.has_trim"),
        ("smart_support.available", "ata.has_smart"),
        ("smart_support.enabled", "ata.is_smart_enabled"),
        ("ata_smart_error_log.summary.count", "smart.logged_errors"),
    ];
    table.all("ATA", &theirs, &ata, &facts);
    let part = |name: &str| theirs["wwn"][name].as_u64().unwrap();
    let wwn = format!("0x{:x}{:06x}{:09x}", part("naa"), part("oui"), part("id"));
    table.same("ATA wwn", wwn, &ata["ata"]["wwn"]);
    let passed = theirs["smart_status"]["passed"].as_bool().unwrap();
    table.same("ATA smart_status.passed", !passed, &ata["smart"]["is_failing"]);
    // It reads the temperature, hours and cycles out of the attributes that follow; and only this of its kind in QEMU.
    let attributes = theirs["ata_smart_attributes"]["table"].as_array().unwrap();
    let found = ata["smart"]["attributes"].as_array().unwrap();
    assert_eq!(attributes.len(), found.len());
    let names = [
        ("id", "id"),
        ("value", "value"),
        ("worst", "worst"),
        ("thresh", "threshold"),
        ("raw.value", "raw"),
        ("flags.prefailure", "is_prefailure"),
    ];
    for (attribute, found) in attributes.iter().zip(found) {
        table.all(&format!("ATA attribute {}", attribute["id"]), attribute, found, &names);
    }
    table.same("ATA self-tests", theirs["ata_smart_self_test_log"]["standard"]["count"].clone(), &json!(0));
    assert!(ata["smart"]["last_self_test"].is_null(), "{ata:#}");

    let scsi = table.ours("storage.disks", "serial", "SCSI-SER-3");
    let theirs = table.json(&format!("smartctl -x --json /dev/{}", scsi["name"].as_str().unwrap()));
    let facts = [
        ("scsi_vendor", "vendor"),
        ("scsi_product", "model"),
        ("scsi_revision", "firmware_version"),
        ("serial_number", "serial"),
        ("user_capacity.bytes", "size_bytes"),
        ("logical_block_size", "logical_sector_bytes"),
    ];
    table.all("SCSI", &theirs, &scsi, &facts);
    let wwn = theirs["logical_unit_id"].as_str().unwrap().replace("0x", "naa.");
    table.same("SCSI logical_unit_id", wwn, &scsi["wwid"]);
    table.same("SCSI rotation_rate", theirs["rotation_rate"].clone(), &scsi["rotation_rpm"]);
    // It takes the missing temperature for 0 °C.
    assert!(scsi["scsi_log"].is_null(), "{scsi:#}");

    let theirs = table.json("smartctl -x --json /dev/nvme0");
    let ours = table.report["storage"]["nvme_controllers"][0].clone();
    let facts = [
        ("model_name", "identity.model"),
        ("serial_number", "identity.serial"),
        ("firmware_version", "identity.firmware"),
        ("nvme_number_of_namespaces", "identity.max_namespaces"),
        ("nvme_controller_id", "controller_id"),
        ("temperature.current", "smart.temperature_celsius"),
    ];
    table.all("NVMe", &theirs, &ours, &facts);
    let log = &theirs["nvme_smart_health_information_log"];
    table.all("NVMe", log, &ours["smart"], &HEALTH);
    table.grows("NVMe host_reads", log["host_reads"].as_u64().unwrap(), &ours["smart"]["read_commands"], READS);
}

/// Reads of a disk between two looks at its counter, at most; and the bytes they are.
const READS: u64 = 1000;
const READ_BYTES: u64 = 100 << 20;
/// Of the NVMe health log, as `smartctl` names them.
const HEALTH: [(&str, &str); 10] = [
    ("available_spare", "available_spare_percent"),
    ("available_spare_threshold", "spare_threshold_percent"),
    ("percentage_used", "used_percent"),
    ("host_writes", "write_commands"),
    ("controller_busy_time", "busy_minutes"),
    ("power_cycles", "power_cycles"),
    ("power_on_hours", "power_on_hours"),
    ("unsafe_shutdowns", "unsafe_shutdowns"),
    ("media_errors", "media_errors"),
    ("num_err_log_entries", "error_log_entries"),
];

fn nvme(table: &mut Table<'_>) {
    let theirs = table.json("nvme id-ctrl /dev/nvme0 -o json");
    let ours = table.report["storage"]["nvme_controllers"][0].clone();
    let identity = &ours["identity"];
    table.all(
        "id-ctrl",
        &theirs,
        identity,
        &[("mn", "model"), ("sn", "serial"), ("fr", "firmware"), ("nn", "max_namespaces")],
    );
    table.all("id-ctrl", &theirs, &ours, &[("cntlid", "controller_id"), ("subnqn", "subsystem_nqn")]);
    let number = |name: &str| theirs[name].as_u64().unwrap();
    table.same("id-ctrl vid", format!("{:04x}", number("vid")), &identity["pci_vendor"]);
    table.same("id-ctrl ssvid", format!("{:04x}", number("ssvid")), &identity["pci_subsystem_vendor"]);
    table.same("id-ctrl ieee", format!("{:06x}", number("ieee")), &identity["ieee_oui"]);
    table.same("id-ctrl mdts", 1_u64 << number("mdts"), &identity["max_transfer_pages"]);
    table.same("id-ctrl wctemp", number("wctemp") - 273, &identity["warning_temperature_celsius"]);
    table.same("id-ctrl cctemp", number("cctemp") - 273, &identity["critical_temperature_celsius"]);
    table.same("id-ctrl vwc", number("vwc") & 1 == 1, &identity["has_volatile_cache"]);
    table.same("id-ctrl oacs", number("oacs") >> 3 & 1 == 1, &identity["has_namespace_management"]);
    let version = number("ver");
    let version = format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
    table.same("id-ctrl ver", version, &identity["version"]);
    // 0 stands for a controller that does not report it.
    assert_eq!((&theirs["tnvmcap"], &identity["capacity_bytes"]), (&json!("0"), &Value::Null));

    let theirs = table.json("nvme id-ns /dev/nvme0n1 -o json");
    let disk = table.ours("storage.disks", "serial", "NVME-SER-2");
    let format = &theirs["lbafs"][usize::try_from(theirs["flbas"].as_u64().unwrap() & 0xf).unwrap()];
    let sector = 1_u64 << format["ds"].as_u64().unwrap();
    table.same("id-ns nsze", theirs["nsze"].as_u64().unwrap() * sector, &disk["size_bytes"]);
    table.same("id-ns lbaf.ds", sector, &disk["logical_sector_bytes"]);

    let theirs = table.json("nvme smart-log /dev/nvme0 -o json");
    let smart = &ours["smart"];
    // It writes long numbers as texts.
    let number = |name: &str| theirs[name].as_u64().or_else(|| theirs[name].as_str()?.parse().ok()).unwrap();
    table.same("smart-log temperature", number("temperature") - 273, &smart["temperature_celsius"]);
    table.grows("smart-log data_units_read", number("data_units_read") * 512_000, &smart["read_bytes"], READ_BYTES);
    table.grows("smart-log host_read_commands", number("host_read_commands"), &smart["read_commands"], READS);
    table.same("smart-log data_units_written", number("data_units_written") * 512_000, &smart["written_bytes"]);
    for (theirs, ours) in [
        ("avail_spare", "available_spare_percent"),
        ("spare_thresh", "spare_threshold_percent"),
        ("percent_used", "used_percent"),
        ("host_write_commands", "write_commands"),
        ("controller_busy_time", "busy_minutes"),
        ("power_cycles", "power_cycles"),
        ("power_on_hours", "power_on_hours"),
        ("unsafe_shutdowns", "unsafe_shutdowns"),
        ("media_errors", "media_errors"),
        ("num_err_log_entries", "error_log_entries"),
        ("warning_temp_time", "warning_temperature_minutes"),
        ("critical_comp_time", "critical_temperature_minutes"),
    ] {
        table.same(&format!("smart-log {theirs}"), number(theirs), &smart[ours]);
    }
    table.same(
        "smart-log critical_warning",
        number("critical_warning") != 0,
        &json!(!smart["critical_warnings"].is_null()),
    );
}

fn sg3_utils(table: &mut Table<'_>) {
    for serial in [machine::PARTITIONED_SERIAL, "SCSI-SER-3", "CD-SER-8"] {
        let disk = table.ours("storage.disks", "serial", serial);
        let node = format!("/dev/{}", disk["name"].as_str().unwrap());
        let inquiry = lines(&table.facts.text(&format!("sg_inq {node}")));
        for (theirs, ours) in [
            ("Vendor identification", "vendor"),
            ("Product identification", "model"),
            ("Product revision level", "firmware_version"),
        ] {
            table.same(&format!("sg_inq {serial} {theirs}"), inquiry[theirs].as_str(), &disk[ours]);
        }
        if serial == "CD-SER-8" {
            continue;
        }
        table.same(
            &format!("sg_inq {serial} Unit serial number"),
            inquiry["Unit serial number"].as_str(),
            &disk["serial"],
        );
        let identity = table.facts.text(&format!("sg_vpd --page=di {node}"));
        let wwn = identity.lines().find_map(|line| line.trim().strip_prefix("0x")).unwrap().to_owned();
        table.same(&format!("sg_vpd {serial} NAA"), format!("naa.{wwn}"), &disk["wwid"]);
        let medium = table.facts.text(&format!("sg_vpd --page=bdc {node}"));
        table.same(
            &format!("sg_vpd {serial} rotates"),
            medium.contains("Nominal rotation rate"),
            &disk["is_rotational"],
        );
        let capacity = table.facts.text(&format!("sg_readcap --long {node}"));
        let size = capacity.split("Device size: ").nth(1).unwrap().split(' ').next().unwrap();
        table.same(&format!("sg_readcap {serial} Device size"), size.parse::<u64>().unwrap(), &disk["size_bytes"]);
        let sector = capacity.split("Logical block length=").nth(1).unwrap().split(' ').next().unwrap();
        table.same(
            &format!("sg_readcap {serial} block length"),
            sector.parse::<u64>().unwrap(),
            &disk["logical_sector_bytes"],
        );
    }
}

fn lspci(table: &mut Table<'_>) {
    let text = table.facts.text("lspci -vmmnk -D");
    let found = table.report["pci"].as_array().unwrap().len();
    table.same("functions", text.split("\n\n").filter(|part| !part.trim().is_empty()).count(), &json!(found));
    for block in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
        let block = lines(block);
        let function = table.ours("pci", "address", &block["Slot"]);
        let address = &block["Slot"];
        let class = format!("{}{}", block["Class"], block.get("ProgIf").map_or("00", String::as_str));
        table.same(&format!("{address} Class"), class, &function["class_id"]);
        for (theirs, ours) in [
            ("Vendor", "vendor_id"),
            ("Device", "device_id"),
            ("SVendor", "subsystem_vendor_id"),
            ("SDevice", "subsystem_device_id"),
            ("Driver", "driver"),
        ] {
            // What a function does not have is left out.
            if let Some(value) = block.get(theirs) {
                table.same(&format!("{address} {theirs}"), value.as_str(), &function[ours]);
            }
        }
    }
    for address in [machine::PORT, "0000:01:00.0"] {
        let text = table.facts.text(&format!("lspci -vv -s {address}"));
        let link = table.ours("pci", "address", address)["link"].clone();
        for (name, speed, width) in
            [("LnkCap", "max_speed_gts", "max_width_lanes"), ("LnkSta", "speed_gts", "width_lanes")]
        {
            let line = text.lines().find(|line| line.trim().starts_with(&format!("{name}:"))).unwrap();
            let value = |after: &str, before: &[char]| {
                line.split(after).nth(1).unwrap().split(before).next().unwrap().to_owned()
            };
            table.same(
                &format!("{address} {name} speed"),
                value("Speed ", &['G']).parse::<f64>().unwrap(),
                &link[speed],
            );
            let lanes = value("Width x", &[',', ' ']).parse::<u64>().unwrap();
            table.same(&format!("{address} {name} width"), lanes, &link[width]);
        }
    }
}

fn lsusb(table: &mut Table<'_>) {
    let text = table.facts.text("lsusb");
    let ids = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    let theirs = text.lines().map(|line| line.split("ID ").nth(1).unwrap().split(' ').next().unwrap().to_owned());
    let theirs = ids(theirs.collect());
    let devices = table.report["usb_devices"].as_array().unwrap();
    let id = |device: &Value| {
        format!("{}:{}", device["vendor_id"].as_str().unwrap(), device["product_id"].as_str().unwrap())
    };
    let ours = ids(devices.iter().map(id).collect());
    table.same("devices", theirs, &json!(ours));
    let text = table.facts.text("lsusb -v -d 46f4:0001");
    let device = table.ours("usb_devices", "vendor_id", "46f4");
    for (theirs, ours) in [("iManufacturer", "manufacturer"), ("iProduct", "model"), ("iSerial", "serial")] {
        let value = text.lines().find_map(|line| line.trim().strip_prefix(theirs)).unwrap();
        let value = value.trim().split_once(' ').unwrap().1;
        table.same(theirs, value, &device[ours]);
    }
}

/// All nodes of a tree.
fn nodes(node: &Value) -> Vec<&Value> {
    let below = node["children"].as_array().into_iter().flatten().flat_map(nodes);
    std::iter::once(node).chain(below).collect()
}

fn lshw(table: &mut Table<'_>) {
    let tree = table.json("lshw -json -quiet");
    let report = table.report;
    let product = &report["system"]["product"];
    table.all(
        "system",
        &tree,
        product,
        &[("vendor", "manufacturer"), ("version", "version"), ("serial", "serial_number")],
    );
    let configuration = &tree["configuration"];
    table.all("system", configuration, product, &[("uuid", "uuid"), ("sku", "sku_number"), ("family", "family")]);
    let nodes = nodes(&tree);
    let one = |id: &str| *nodes.iter().find(|node| node["id"] == id).unwrap_or_else(|| panic!("no {id} in {tree:#}"));
    let board =
        [("product", "product"), ("vendor", "manufacturer"), ("version", "version"), ("serial", "serial_number")];
    table.all("board", one("core"), &report["system"]["baseboards"][0], &board);
    let bios = [("vendor", "vendor"), ("version", "version"), ("date", "release_date")];
    table.all("firmware", one("firmware"), &report["firmware"]["bios"], &bios);
    let processor = [("serial", "serial_number"), ("slot", "socket")];
    table.all("cpu", one("cpu:0"), &report["processors"]["sockets"][0], &processor);
    table.same("memory size", one("memory")["size"].clone(), &report["memory"]["installed_bytes"]);
    let bank =
        [("product", "part_number"), ("vendor", "manufacturer"), ("serial", "serial_number"), ("size", "size_bytes")];
    table.all("bank", one("bank"), &report["memory"]["devices"][0], &bank);
    let disks = nodes.iter().filter(|node| node["class"] == "disk" && node["serial"].is_string());
    for disk in disks {
        let serial = disk["serial"].as_str().unwrap();
        // Both paths of one disk have one serial number.
        if serial != machine::TWO_PATHS_SERIAL {
            let ours = table.ours("storage.disks", "serial", serial);
            table.all(serial, disk, &ours, &[("size", "size_bytes")]);
        }
    }
    for network in nodes.iter().filter(|node| node["class"] == "network" && node["serial"].is_string()) {
        let mac = network["serial"].as_str().unwrap();
        let ours = table.ours("network.interfaces", "permanent_mac_address", mac);
        table.same(&format!("{mac} logicalname"), network["logicalname"].clone(), &ours["name"]);
        table.same(&format!("{mac} driver"), network["configuration"]["driver"].clone(), &ours["driver"]);
        if network["configuration"]["firmware"].is_string() {
            table.same(
                &format!("{mac} firmware"),
                network["configuration"]["firmware"].clone(),
                &ours["firmware_version"],
            );
        }
    }
}

/// The fields of the whole table are compared in `inventory/tests/smbios_dmidecode`.
fn dmidecode(table: &mut Table<'_>) {
    for (keyword, place) in [
        ("bios-vendor", "firmware.bios.vendor"),
        ("bios-version", "firmware.bios.version"),
        ("bios-release-date", "firmware.bios.release_date"),
        ("system-manufacturer", "system.product.manufacturer"),
        ("system-product-name", "system.product.product_name"),
        ("system-version", "system.product.version"),
        ("system-serial-number", "system.product.serial_number"),
        ("system-uuid", "system.product.uuid"),
        ("system-sku-number", "system.product.sku_number"),
        ("system-family", "system.product.family"),
        ("baseboard-manufacturer", "system.baseboards.0.manufacturer"),
        ("baseboard-product-name", "system.baseboards.0.product"),
        ("baseboard-serial-number", "system.baseboards.0.serial_number"),
        ("baseboard-asset-tag", "system.baseboards.0.asset_tag"),
        ("chassis-manufacturer", "system.chassis.0.manufacturer"),
        ("chassis-serial-number", "system.chassis.0.serial_number"),
    ] {
        let theirs = table.facts.text(&format!("dmidecode -s {keyword}"));
        table.same(keyword, theirs.trim(), at(table.report, place));
    }
}

fn ethtool(table: &mut Table<'_>) {
    for (_, interface) in machine::interfaces() {
        let name = table.facts.interface(interface.mac);
        let ours = table.ours("network.interfaces", "name", &name);
        let device = interface.device.split(',').next().unwrap();
        let about = lines(&table.facts.text(&format!("ethtool -i {name}")));
        table.same(&format!("-i {device} driver"), about["driver"].as_str(), &ours["driver"]);
        if !about["firmware-version"].is_empty() {
            table.same(
                &format!("-i {device} firmware-version"),
                about["firmware-version"].as_str(),
                &ours["firmware_version"],
            );
        }
        let permanent = table.facts.text(&format!("ethtool -P {name}"));
        let permanent = permanent.trim().strip_prefix("Permanent address: ").unwrap();
        table.same(&format!("-P {device}"), permanent, &ours["permanent_mac_address"]);
        let link = lines(&table.facts.text(&format!("ethtool {name}")));
        table.same(&format!("{device} Link detected"), link["Link detected"] == "yes", &ours["has_carrier"]);
        let speed = link["Speed"].strip_suffix("Mb/s").map(|speed| speed.parse::<u64>().unwrap());
        table.same(&format!("{device} Speed"), json!(speed), &ours["speed_mbps"]);
        // Of these virtual cards none has a module.
        let module = table.facts.text(&format!("ethtool -m {name} 2>&1 || :"));
        table.same(&format!("-m {device}"), !module.contains("Vendor PN"), &json!(ours["module"].is_null()));
    }
}

fn ipmitool(table: &mut Table<'_>) {
    let controller = table.report["management_controller"].clone();
    let about = lines(&table.facts.text("ipmitool mc info"));
    table.same("mc info Firmware Revision", about["Firmware Revision"].as_str(), &controller["firmware_version"]);
    table.same("mc info IPMI Version", about["IPMI Version"].as_str(), &controller["ipmi_version"]);
    for (theirs, ours) in [("Manufacturer ID", "manufacturer_id"), ("Product ID", "product_id")] {
        let number = about[theirs].split(' ').next().unwrap().parse::<u64>().unwrap();
        table.same(&format!("mc info {theirs}"), number, &controller[ours]);
    }
    let channel = controller["channels"][0].clone();
    let lan = lines(&table.facts.text(&format!("ipmitool lan print {} || :", channel["number"])));
    table.same("lan print IP Address", lan["IP Address"].as_str(), &channel["ipv4_address"]);
    table.same("lan print Subnet Mask", lan["Subnet Mask"].as_str(), &channel["ipv4_mask"]);
    table.same("lan print MAC Address", lan["MAC Address"].as_str(), &channel["mac_address"]);
    table.same(
        "lan print IP Address Source",
        lan["IP Address Source"].starts_with("DHCP"),
        &json!(channel["ipv4_source"] == "dhcp"),
    );
}

fn tpm2_tools(table: &mut Table<'_>) {
    let tpm = table.report["security"]["tpms"][0].clone();
    let details = &tpm["details"];
    let fixed = table.facts.text("tpm2_getcap -T device:/dev/tpmrm0 properties-fixed");
    let raw = |name: &str| {
        let after = fixed.split(&format!("TPM2_PT_{name}:")).nth(1).unwrap_or_else(|| panic!("{name}: {fixed}"));
        let digits = after.split("raw: ").nth(1).unwrap().lines().next().unwrap().trim();
        digits.strip_prefix("0x").map_or_else(|| digits.parse().unwrap(), |hex| u32::from_str_radix(hex, 16).unwrap())
    };
    let text = |raw: u32| String::from_utf8_lossy(&raw.to_be_bytes()).trim_matches(['\0', ' ']).to_owned();
    table.same("FAMILY_INDICATOR", text(raw("FAMILY_INDICATOR")), &details["family"]);
    table.same("MANUFACTURER", text(raw("MANUFACTURER")), &details["manufacturer"]);
    table.same("REVISION", format!("{}.{:02}", raw("REVISION") / 100, raw("REVISION") % 100), &details["revision"]);
    table.same("YEAR, DAY", format!("{}-{:03}", raw("YEAR"), raw("DAY_OF_YEAR")), &details["specification_date"]);
    let halves = |raw: u32| format!("{}.{}", raw >> 16, raw & 0xffff);
    let firmware = format!("{}.{}", halves(raw("FIRMWARE_VERSION_1")), halves(raw("FIRMWARE_VERSION_2")));
    table.same("FIRMWARE_VERSION", firmware, &details["firmware_version"]);
    let variable = lines(&table.facts.text("tpm2_getcap -T device:/dev/tpmrm0 properties-variable"));
    for (theirs, ours) in [("ownerAuthSet", "has_owner_password"), ("inLockout", "is_locked_out")] {
        table.same(theirs, variable[theirs] == "1", &details[ours]);
    }
    for (theirs, ours) in [("LOCKOUT_COUNTER", "failed_tries"), ("MAX_AUTH_FAIL", "max_failed_tries")] {
        let value = u64::from_str_radix(variable[&format!("TPM2_PT_{theirs}")].trim_start_matches("0x"), 16).unwrap();
        table.same(theirs, value, &details[ours]);
    }
    let algorithms = table.facts.text("tpm2_getcap -T device:/dev/tpmrm0 algorithms");
    let named = algorithms.lines().filter(|line| !line.starts_with(' ')).map(|line| line.trim_end_matches(':'));
    let mut named: Vec<&str> = named.collect();
    named.sort_unstable();
    let mut ours: Vec<&str> = details["algorithms"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    ours.sort_unstable();
    table.same("algorithms", json!(named), &json!(ours));
    let banks = lines(&table.facts.text("tpm2_getcap -T device:/dev/tpmrm0 pcrs"));
    let banks = banks.keys().filter_map(|name| name.strip_prefix("- "));
    table.same("pcrs", json!(banks.collect::<Vec<_>>()), &tpm["pcr_banks"]);
    let values = lines(&table.facts.text("tpm2_pcrread -T device:/dev/tpmrm0 sha256"));
    for index in 0..8 {
        let value = values[&index.to_string()].trim_start_matches("0x").to_lowercase();
        table.same(&format!("pcrread {index}"), value, &tpm["pcrs"][index.to_string()]);
    }
}
