//! A bill of materials of the hardware: CycloneDX 1.6, with the properties of its taxonomy `cdx:device`.

use super::{end, timestamp};
use crate::result::{HostResult, Run};
use serde_json::{Map, Value, json};

/// Kinds of parts: function, place in a report, and in a part there the places of its name, its manufacturer, the version of its firmware, and
/// where it is. The first place that has something counts; `/pci` is the PCI function of the part.
const KINDS: &str = "\
baseboard | /system/baseboards | /product | /manufacturer | | /location
chassis | /system/chassis | /chassis_type | /manufacturer | |
processor | /processors/packages | /model_name | /vendor_id | /microcode | /id
memory | /memory/devices | /part_number /memory_type | /manufacturer | /firmware_version | /locator
storage controller | /storage/raid_controllers | /model | /pci/vendor | /firmware_version /package_version | /address
storage | /storage/raid_drives | /model | /vendor | /firmware_version | /bay
storage | /storage/disks | /model /transport | /vendor | /firmware_version | /name
network | /network/interfaces | /pci/device | /pci/vendor | /firmware_version | /name
accelerator | /accelerators | /model /pci/device | /pci/vendor | /vbios_version | /address
power supply | /power_supply_units | /model /name | /manufacturer | /revision | /name
management controller | /management_controller | | | /firmware_version |";
/// The place of a serial number.
const SERIALS: &str = "/serial_number /serial /pci/vpd/serial_number";
pub(super) fn document(run: &Run, hosts: &[(&HostResult, Option<&Value>)]) -> String {
    let machines: Vec<Value> = hosts.iter().map(|(host, report)| machine(host, *report)).collect();
    let bom = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(end(run)),
            "tools": { "components": [{ "type": "application", "name": "landfall", "version": run.tool_version }] },
            "properties": [property("landfall:certification:run", &run.id), property("landfall:certification:plan", &run.plan.name)],
        },
        "components": machines,
    });
    let mut text = serde_json::to_string_pretty(&bom).unwrap_or_default();
    text.push('\n');
    text
}

fn property(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

/// A text or a number at a place, unless it is empty.
pub(super) fn text(value: &Value, at: &str) -> Option<String> {
    match value.pointer(at)? {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn machine(host: &HostResult, report: Option<&Value>) -> Value {
    let mut properties = vec![
        property("cdx:device:function", "machine"),
        property("cdx:device:serialNumber", &host.serial),
        property("landfall:certification:verdict", host.verdict.name()),
    ];
    properties.extend(host.sku.as_deref().map(|sku| property("cdx:device:sku", sku)));
    let name = host.product.as_deref().unwrap_or("machine");
    let mut machine = component("device", &host.serial, name, host.manufacturer.as_deref());
    machine.insert("properties".to_owned(), properties.into());
    let mut parts = Vec::new();
    if let Some(report) = report {
        let bios = |at: &str| text(report, &format!("/firmware/bios{at}"));
        if let Some(version) = bios("/version") {
            let id = format!("{}/bios", host.serial);
            let mut firmware = component("firmware", &id, "BIOS", bios("/vendor").as_deref());
            firmware.insert("version".to_owned(), version.into());
            parts.push(Value::Object(firmware));
        }
        for kind in KINDS.lines() {
            let mut fields = kind.split('|').map(str::trim);
            let mut field = || fields.next().unwrap_or_default();
            let (function, at) = (field(), field());
            let places = [field(), field(), field(), field()];
            let found = match report.pointer(at) {
                Some(Value::Array(elements)) => elements.iter().collect(),
                Some(one @ Value::Object(_)) => vec![one],
                _ => Vec::new(),
            };
            for element in found.into_iter().filter(|element| is_present(element)) {
                let id = format!("{}/{}", host.serial, parts.len());
                parts.push(part(function, places, &id, element, report));
            }
        }
    }
    if !parts.is_empty() {
        machine.insert("components".to_owned(), parts.into());
    }
    machine.into()
}

/// A memory socket or a bay may be empty, and an interface may be no device.
fn is_present(element: &Value) -> bool {
    let is_false = |name: &str| element.get(name) == Some(&Value::Bool(false));
    !is_false("installed") && !is_false("is_present")
}

fn part(function: &str, places: [&str; 4], id: &str, element: &Value, report: &Value) -> Value {
    // Where a part is a PCI function, that has the names.
    let address = ["/pci_address", "/address"].into_iter().find_map(|at| text(element, at));
    let pci = report.get("pci").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let pci = pci.iter().find(|function| address.is_some() && text(function, "/address") == address);
    let first = |places: &str| {
        places.split(' ').filter(|at| !at.is_empty()).find_map(|at| match at.strip_prefix("/pci/") {
            Some(at) => text(pci?, &format!("/{at}")),
            None => text(element, at),
        })
    };
    let [name, manufacturer, version, location] = places.map(first);
    let name = name.unwrap_or_else(|| function.to_owned());
    let mut part = component("device", id, &name, manufacturer.as_deref());
    let more = [
        ("function", Some(function.to_owned())),
        ("location", location),
        ("serialNumber", first(SERIALS)),
        ("macAddress", text(element, "/permanent_mac_address")),
    ];
    let more = more.into_iter().filter_map(|(name, value)| Some(property(&format!("cdx:device:{name}"), &value?)));
    part.insert("properties".to_owned(), more.collect());
    if let Some(version) = version {
        let mut firmware = component("firmware", &format!("{id}/firmware"), &format!("firmware of {name}"), None);
        firmware.insert("version".to_owned(), version.into());
        part.insert("components".to_owned(), vec![Value::Object(firmware)].into());
    }
    part.into()
}

fn component(kind: &str, id: &str, name: &str, manufacturer: Option<&str>) -> Map<String, Value> {
    let mut component = Map::new();
    component.insert("type".to_owned(), kind.into());
    component.insert("bom-ref".to_owned(), id.into());
    component.insert("name".to_owned(), name.into());
    if let Some(manufacturer) = manufacturer {
        component.insert("manufacturer".to_owned(), json!({ "name": manufacturer }));
    }
    component
}
