//! What sort of fact a field is, by its name: what tells the elements of a list apart, what belongs to one machine alone,
//! and what changes while nothing was changed.

use serde_json::{Map, Value};

/// Names of fields that together tell what an element is.
pub(super) type Names = &'static [&'static str];

/// What an element of a list is known by, the best first.
const KNOWN_BY: [Names; 10] = [
    &["address"],
    &["name"],
    &["path"],
    &["bank_locator", "locator"],
    &["locator"],
    &["designation"],
    &["socket"],
    &["id"],
    &["level", "type"],
    &["handle"],
];

/// What only says where something is, or what it belongs to.
const PLACES: [&str; 14] = [
    "address",
    "bank_locator",
    "bus_address",
    "cpus",
    "designation",
    "handle",
    "id",
    "iommu_group",
    "locator",
    "name",
    "parent",
    "path",
    "physical_function",
    "slot",
];

/// Facts that no other machine of the same make has, and what says nothing of the machine at all.
const OF_ONE_MACHINE: [&str; 14] = [
    "asset_tag",
    "command_line",
    "eui64",
    "guid",
    "host_id",
    "host_id_source",
    "hostname",
    "ipv4_address",
    "ipv6_address",
    "mac_address",
    "schema_version",
    "uuid",
    "wwid",
    "wwn",
];

/// Facts that are measured or counted.
const MEASURED: [&str; 3] = ["aer", "power_state", "uptime_seconds"];

/// Facts of which the kernel takes a part that changes with its version.
const ROUGH: [&str; 1] = ["memory_bytes"];

/// Whether like machines have only about the same.
pub(super) fn is_rough(name: &str) -> bool {
    ROUGH.contains(&name)
}

/// Whether only one machine has this value: serial numbers and addresses, and where it happens to be.
pub(super) fn is_of_one_machine(name: &str) -> bool {
    OF_ONE_MACHINE.contains(&name) || name.contains("serial")
}

/// Whether the value changes by itself.
pub(super) fn is_measured(name: &str) -> bool {
    MEASURED.contains(&name)
}

/// Whether it tells elements of a list apart, and not what they are.
pub(super) fn is_place(name: &str) -> bool {
    PLACES.contains(&name) || name.ends_with("_handle")
}

/// The names whose values tell all elements of each list apart.
pub(super) fn telling(lists: [&[Value]; 2]) -> Option<Names> {
    let tells = |names: &[&str], list: &[Value]| {
        let mut values: Vec<_> = list.iter().map(|element| known_as(names, element)).collect();
        values.sort();
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
