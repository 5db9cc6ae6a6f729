//! What sort of fact a field is, by its name: what tells the elements of a list apart, what belongs to one machine alone,
//! and what changes while nothing was changed.

use kernel::order;
use serde_json::{Map, Value};

/// Names of fields that together tell what an element is.
pub(super) type Names = &'static [&'static str];

/// What an element of a list is known by, the best first.
const KNOWN_BY: [Names; 17] = [
    &["enclosure", "type", "number"],
    &["enclosure", "number"],
    &["controller", "bay"],
    &["controller", "number"],
    &["address"],
    &["name"],
    &["bank_locator", "locator"],
    &["locator"],
    &["designation"],
    &["socket"],
    &["number"],
    &["id"],
    &["level", "type"],
    &["product"],
    &["component"],
    &["nv_index"],
    &["handle"],
];

/// What only says where something is, or what it belongs to.
const PLACES: [&str; 20] = [
    "address",
    "bank_locator",
    "bay",
    "bus_address",
    "controller",
    "cpus",
    "designation",
    "disk",
    "enclosure",
    "functions",
    "hctl",
    "hosts",
    "id",
    "iommu_group",
    "locator",
    "name",
    "parent",
    "pci_address",
    "physical_function",
    "slot",
];

/// Facts that no other machine of the same make has, and what says nothing of the machine at all.
const OF_ONE_MACHINE: [&str; 28] = [
    "asset_tag",
    "command_line",
    "crash_records",
    "extra",
    "guid",
    "host_address",
    "host_id",
    "host_id_source",
    "hostname",
    "ipv4_address",
    "ipv4_gateway",
    "ipv4_mask",
    "ipv6_address",
    "keywords",
    "lid",
    "mac_address",
    "made",
    "manufacturing_date",
    "not_after",
    "not_before",
    "pcrs",
    "schema_version",
    "service_address",
    "service_hostname",
    "service_uuid",
    "subject",
    "subnet_manager_lid",
    "uuid",
];

/// Parts of names of what is unique in the world.
const UNIQUE: [&str; 9] = ["serial", "wwid", "wwn", "wwpn", "eui64", "nguid", "_guid", "mac_address", "public_key"];

/// Facts that are measured or counted.
const MEASURED: [&str; 54] = [
    "aer",
    "alarm",
    "board_temperature_celsius",
    "boot_up_state",
    "cache_problems",
    "carrier_losses",
    "charge_percent",
    "conditions",
    "corrected_errors",
    "corrected_persistent_errors",
    "corrected_volatile_errors",
    "current_milliamperes",
    "current_speed_mhz",
    "date",
    "dirty_shutdowns",
    "disparity_errors",
    "down_reason",
    "errors",
    "event_log",
    "failed_tries",
    "invalid_dwords",
    "last_attempt_status",
    "last_attempt_version",
    "link_downs",
    "media_errors",
    "memory_corrected_errors",
    "memory_uncorrected_errors",
    "other_errors",
    "pci_parity_errors",
    "pcie_correctable_errors",
    "pcie_fatal_errors",
    "pcie_nonfatal_errors",
    "power_on_hours",
    "power_state",
    "power_supply_state",
    "power_watts",
    "predicted_failures",
    "problems",
    "raised_flags",
    "reading",
    "reset_problems",
    "scsi_log",
    "sensor_state",
    "signals",
    "smart",
    "speed_rpm",
    "sync_losses",
    "temperature_celsius",
    "thermal_state",
    "tool_version",
    "uncorrected_errors",
    "uptime_seconds",
    "used_percent",
    "voltage_millivolts",
];

/// Facts that depend on what the kernel's version takes for itself.
const ROUGH: [&str; 2] = ["memory_bytes", "usable_bytes"];

/// Whether like machines have only about the same.
pub(super) fn is_rough(name: &str) -> bool {
    ROUGH.contains(&name)
}

/// Whether only one machine has this value: serial numbers and addresses, and where it happens to be.
pub(super) fn is_of_one_machine(name: &str) -> bool {
    OF_ONE_MACHINE.contains(&name) || UNIQUE.iter().any(|part| name.contains(part))
}

/// Whether the value changes by itself, or with the firmware's own numbering.
pub(super) fn is_passing(name: &str) -> bool {
    MEASURED.contains(&name) || is_handle(name)
}

/// Whether the value changes by itself.
pub(super) fn is_measured(name: &str) -> bool {
    MEASURED.contains(&name)
}

/// Whether it tells elements of a list apart, and not what they are.
pub(super) fn is_place(name: &str) -> bool {
    PLACES.contains(&name)
}

/// Whether it only ties structures of SMBIOS together.
pub(super) fn is_handle(name: &str) -> bool {
    name == "handle" || name.ends_with("_handle")
}

/// The names whose values tell all elements of each list apart.
pub(super) fn telling(lists: [&[Value]; 2]) -> Option<Names> {
    let tells = |names: &[&str], list: &[Value]| {
        let mut values: Vec<_> = list.iter().map(|element| known_as(names, element)).collect();
        order::sort(&mut values);
        values.iter().all(Option::is_some) && values.windows(2).all(|pair| pair[0] != pair[1])
    };
    KNOWN_BY.into_iter().find(|names| lists.iter().all(|list| tells(names, list)))
}

/// What an element is known as by these names.
pub(super) fn known_as(names: &[&str], element: &Value) -> Option<String> {
    joined(names, element.as_object()?)
}

fn joined(names: &[&str], element: &Map<String, Value>) -> Option<String> {
    let values: Option<Vec<String>> = names.iter().map(|name| plain(element.get(*name)?)).collect();
    values.map(|values| values.join(" "))
}

/// What an element is known as, and by which names.
pub(super) fn name_of(element: &Map<String, Value>) -> Option<(Names, String)> {
    KNOWN_BY.iter().find_map(|names| Some((*names, joined(names, element)?)))
}

/// The path of an element of a list, for people.
pub(super) fn element_path(path: &str, element: &Value) -> String {
    let name = element.as_object().and_then(name_of).map(|(_, name)| name).unwrap_or_default();
    format!("{path}[{name}]")
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::schema;

    #[test]
    fn every_name_is_of_a_field() {
        fn names(value: &Value, found: &mut Vec<String>) {
            if let Some(properties) = value.get("properties").and_then(Value::as_object) {
                found.extend(properties.keys().cloned());
            }
            match value {
                Value::Object(object) => object.values().for_each(|value| names(value, found)),
                Value::Array(values) => values.iter().for_each(|value| names(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        names(&schema::report(), &mut found);
        let known = KNOWN_BY.iter().flat_map(|names| names.iter());
        for name in known.chain(&PLACES).chain(&OF_ONE_MACHINE).chain(&MEASURED).chain(&ROUGH) {
            assert!(found.iter().any(|found| found == name), "{name} is not a field of a report");
        }
    }
}
