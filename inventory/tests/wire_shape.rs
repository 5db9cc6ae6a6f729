//! The inventory's JSON: as the service's own definition has it, and as the real agent sends it.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{MACHINES, recorded_inventories};
use inventory::{Root, collect};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::OnceLock,
};
use testkit::tree::Tree;
use testkit::wire::Swagger;

/// What stands at each place of a document, entries of lists taken together: the kinds of values.
fn shape(value: &Value, at: &str, found: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    found.entry(at.to_owned()).or_default().insert(kind);
    for (key, value) in value.as_object().into_iter().flatten() {
        shape(value, &format!("{at}.{key}"), found);
    }
    for value in value.as_array().into_iter().flatten() {
        shape(value, &format!("{at}[]"), found);
    }
}

/// Every machine there is: recorded by others, captured by us, and the one this runs on.
fn machines() -> &'static [(String, Value)] {
    static FOUND: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    FOUND.get_or_init(all_machines)
}

fn all_machines() -> Vec<(String, Value)> {
    let mut roots: Vec<(String, Root)> = MACHINES
        .iter()
        .filter_map(|name| {
            Some(((*name).to_owned(), Root::open(testkit::recordings::path(&format!("data/{name}"))?).unwrap()))
        })
        .collect();
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    for entry in fs::read_dir(captures).into_iter().flatten() {
        for file in fs::read_dir(entry.unwrap().path()).into_iter().flatten() {
            let path = file.unwrap().path();
            if path.to_string_lossy().contains(".tar") {
                roots.push((path.display().to_string(), Root::open(&path).unwrap()));
            }
        }
    }
    roots.push(("the running machine".to_owned(), Root::open("/").unwrap()));
    roots.push(("a machine of nothing".to_owned(), Root::open(Tree::empty().path()).unwrap()));
    let value = |(name, root): (String, Root)| (name, serde_json::to_value(collect(&root)).unwrap());
    roots.into_iter().map(value).collect()
}

#[test]
fn every_inventory_is_as_the_service_defines_it() {
    let Some(swagger) = Swagger::read() else { return };
    for (name, inventory) in machines() {
        assert_eq!(swagger.faults("inventory", inventory), Vec::<String>::new(), "{name}");
    }
    for real in recorded_inventories() {
        assert_eq!(swagger.faults("inventory", &real), Vec::<String>::new());
    }
    // The check itself can fail.
    let bad = serde_json::json!({
        "tpm_version": "3", "truncation": {}, "colour": 1, "disks": [{"size_bytes": "8"}], "routes": [{"metric": 3e10}],
    });
    assert_eq!(swagger.faults("inventory", &bad).len(), 5);
}

#[test]
fn keys_and_types_are_the_real_agents() {
    let real = recorded_inventories();
    let mut seen = BTreeMap::new();
    real.iter().for_each(|inventory| shape(inventory, "", &mut seen));
    if real.is_empty() {
        return;
    }
    // What it sends though it is empty, it always sends.
    let mut always = BTreeSet::new();
    real.iter().for_each(|inventory| empty_keys(inventory, "", &mut always));
    assert!(always.contains(".interfaces[].ipv6_addresses") && always.contains(".gpus"), "{always:?}");
    for (name, own) in machines() {
        let mut shown = BTreeMap::new();
        shape(own, "", &mut shown);
        for (place, kinds) in &shown {
            if let Some(known) = seen.get(place) {
                let alike = |kind: &&str| known.contains(*kind) || **kind == *"null" || known.contains("null");
                assert!(kinds.iter().all(alike), "{name}: {place} is {kinds:?} here and {known:?} there");
            }
        }
        for never in ["smart", "io_perf", "partitionTypes", "client_id"] {
            assert!(!shown.keys().any(|place| place.ends_with(&format!(".{never}"))), "{name}: {never}");
        }
        for key in real[0].as_object().unwrap().keys() {
            // Others' recordings hold no host name.
            let is_known = *name == "the running machine" || name.contains("captures") || key != "hostname";
            assert!(!is_known || own.get(key).is_some(), "{name} lacks {key}");
        }
        for place in &always {
            lacks(own, place.trim_start_matches('.'), name);
        }
    }
}

fn empty_keys(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if is_empty {
        found.insert(at.to_owned());
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        empty_keys(value, &format!("{at}.{key}"), found);
    }
    for value in value.as_array().into_iter().flatten() {
        empty_keys(value, &format!("{at}[]"), found);
    }
}

/// Fails when an object at that place lacks the last of its keys.
fn lacks(value: &Value, place: &str, name: &str) {
    let (key, rest) = place.split_once('.').map_or((place, None), |(key, rest)| (key, Some(rest)));
    let inner = value.get(key.trim_end_matches("[]"));
    match (inner, rest) {
        (None, _) => panic!("{name} lacks {key} of {place}: {value}"),
        (Some(_), None) => {}
        (Some(inner), Some(rest)) if key.ends_with("[]") => {
            inner.as_array().into_iter().flatten().for_each(|item| lacks(item, rest, name));
        }
        (Some(inner), Some(rest)) => lacks(inner, rest, name),
    }
}

/// Messages of a netlink table as a capture keeps them.
fn table(messages: &[Vec<u8>]) -> Vec<u8> {
    let framed = |message: &Vec<u8>| [&u32::try_from(message.len()).unwrap().to_le_bytes()[..], message].concat();
    messages.iter().flat_map(framed).collect()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn link(index: u32, flags: u32, name: &str, mtu: u32, mac: [u8; 6]) -> Vec<u8> {
    let header = [&[0, 0, 1, 0][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat();
    let name = [name.as_bytes(), b"\0"].concat();
    [header, attribute(1, &mac), attribute(3, &name), attribute(4, &mtu.to_ne_bytes()), attribute(33, &[1])].concat()
}

fn address(family: u8, prefix_len: u8, index: u32, ip: &[u8]) -> Vec<u8> {
    [&[family, prefix_len, 0, 0][..], &index.to_ne_bytes(), &attribute(1, ip)].concat()
}

fn route(family: u8, prefix_len: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    [&[family, prefix_len, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0][..], &attributes.concat()].concat()
}

/// The machine that the real agent described, made up again from what it said of it.
fn recorded_host(real: &Map<String, Value>) -> Tree {
    let tree = Tree::empty();
    let text = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
    tree.add("proc/cmdline", text(&real["boot"], "command_line"));
    let flags: Vec<_> = real["cpu"]["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect();
    let model = text(&real["cpu"], "model_name");
    tree.add("proc/cpuinfo", format!("processor\t: 0\nmodel name\t: {model}\nflags\t\t: {}\n", flags.join(" ")));
    tree.add("sys/devices/system/cpu/present", "0-1\n");
    tree.add("proc/sys/kernel/arch", "x86_64\n");
    tree.add("proc/sys/kernel/hostname", format!("{}\n", real["hostname"].as_str().unwrap()));
    let usable = real["memory"]["usable_bytes"].as_u64().unwrap() / 1024;
    tree.add("proc/meminfo", format!("MemTotal:       {usable} kB\n"));
    tree.add("sys/devices/system/memory/block_size_bytes", "8000000\n");
    for block in 0..real["memory"]["physical_bytes"].as_u64().unwrap() >> 27 {
        tree.add(&format!("sys/devices/system/memory/memory{block}/state"), "online\n");
    }
    let vendor = &real["system_vendor"];
    for (file, key) in
        [("sys_vendor", "manufacturer"), ("product_name", "product_name"), ("product_serial", "serial_number")]
    {
        tree.add(&format!("sys/class/dmi/id/{file}"), format!("{}\n", text(vendor, key)));
    }
    let disk = &real["disks"][0];
    let place = "sys/devices/pci0000:00/0000:00:01.0/virtio0";
    let size = disk["size_bytes"].as_u64().unwrap() / 512;
    for (file, content) in
        [("dev", "254:0".to_owned()), ("size", size.to_string()), ("queue/rotational", "1".to_owned())]
    {
        tree.add(&format!("{place}/block/vda/{file}"), format!("{content}\n"));
    }
    tree.add(&format!("{place}/vendor"), format!("{}\n", text(disk, "vendor")));
    tree.link(&format!("{place}/block/vda/device"), "../..");
    tree.link("sys/block/vda", "../devices/pci0000:00/0000:00:01.0/virtio0/block/vda");
    let entry = format!("E:ID_MODEL={}\nE:ID_SERIAL={}\n", text(disk, "model"), text(disk, "serial"));
    tree.add("run/udev/data/b254:0", entry);
    let port = "sys/devices/pci0000:00/0000:00:02.0/virtio1";
    tree.add(&format!("{port}/net/eth0/speed"), "1000\n");
    tree.link(&format!("{port}/net/eth0/device"), "../..");
    tree.add(&format!("{port}/vendor"), "0x1af4\n");
    tree.add(&format!("{port}/device"), "0x0001\n");
    tree.link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:02.0/virtio1/net/eth0");
    tree.add("sys/devices/virtual/net/lo/mtu", "65536\n");
    tree.link("sys/class/net/lo", "../../devices/virtual/net/lo");
    let links = [link(1, 0x10049, "lo", 65536, [0; 6]), link(2, 0x11043, "eth0", 1500, [0x52, 0x54, 0, 0xaa, 0x13, 0])];
    let link_local = [&[0xfe, 0x80, 0, 0, 0, 0, 0, 0][..], &[1; 8]].concat();
    let loopback = [&[0; 15][..], &[1]].concat();
    let addresses = [
        address(2, 8, 1, &[127, 0, 0, 1]),
        address(2, 24, 2, &[192, 168, 131, 10]),
        address(10, 128, 1, &loopback),
        address(10, 64, 2, &link_local),
    ];
    let oif = attribute(4, &2u32.to_ne_bytes());
    let ipv4 = [
        route(2, 0, &[attribute(5, &[192, 168, 131, 1]), oif.clone()]),
        route(2, 24, &[attribute(1, &[192, 168, 131, 0]), oif.clone()]),
    ];
    let network = [&link_local[..8], &[0; 8]].concat();
    let ipv6 = [route(10, 64, &[attribute(1, &network), attribute(6, &256u32.to_ne_bytes()), oif])];
    for (name, messages) in
        [("links", &links[..]), ("addresses", &addresses), ("IPv4-routes", &ipv4), ("IPv6-routes", &ipv6)]
    {
        tree.add(&format!("landfall/netlink/{name}"), table(messages));
    }
    tree
}

#[test]
fn the_recorded_host_gives_the_recorded_json() {
    let Some(Value::Object(real)) = recorded_inventories().into_iter().next() else { return };
    let tree = recorded_host(&real);
    let own = serde_json::to_value(collect(&Root::open(tree.path()).unwrap())).unwrap();
    for (key, value) in &real {
        assert_eq!(&own[key], value, "{key}");
    }
    assert_eq!(own, Value::Object(real));
}
