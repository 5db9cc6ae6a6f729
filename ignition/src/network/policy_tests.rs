use super::*;
use crate::network::{MacInterface, State};

const YAML: &str = "
interfaces:
- {name: eth0, type: ethernet, state: up, ipv4: {enabled: true, address: [{prefix-length: 28, ip: 192.0.2.6}]}, ipv6: {enabled: true}}
- {name: eth1, type: ethernet, state: up}
- {name: bond0, type: bond, state: up, description: eth0, ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: false},
   link-aggregation: {mode: active-backup, options: {primary: eth1}, port: [eth1]}}
- {name: eth0.5, type: vlan, state: up, vlan: {base-iface: eth0, id: 5}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.9, next-hop-interface: eth0}]}
";

fn made() -> String {
    let entry = |mac: &str, name: &str| MacInterface { mac_address: mac.to_owned(), logical_nic_name: name.to_owned() };
    let map = vec![entry("52:54:00:00:00:0a", "eth0"), entry("52:54:00:00:00:0b", "eth1")];
    text(0, &HostNetwork { network_yaml: YAML.to_owned(), mac_interface_map: map }).unwrap()
}

#[test]
fn names_become_captures_and_nothing_else_does() {
    let text = made();
    for line in [
        "  iface1: interfaces.mac-address == \"52:54:00:00:00:0B\"\n",
        "      primary: \"{{ capture.iface1.interfaces.0.name }}\"\n",
        "      - \"{{ capture.iface1.interfaces.0.name }}\"\n",
        "      base-iface: \"{{ capture.iface0.interfaces.0.name }}\"\n",
        "      next-hop-interface: \"{{ capture.iface0.interfaces.0.name }}\"",
        "  - description: eth0\n",
        "  - name: eth0.5\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    // What the text leaves open is set where an address family is enabled.
    let policy: Value = serde_norway::from_str(&text).unwrap();
    let interfaces = &policy["desiredState"]["interfaces"];
    assert_eq!((&interfaces[0]["ipv4"]["dhcp"], &interfaces[0]["ipv6"]["autoconf"]), (&false.into(), &false.into()));
    assert_eq!((&interfaces[2]["ipv4"]["dhcp"], interfaces[2]["ipv6"].get("dhcp")), (&true.into(), None));
}

#[test]
fn a_policy_is_resolved_to_what_it_was_made_of() {
    let find = |mac: Mac| Some(if mac.to_string().ends_with('A') { "ens3" } else { "ens4" });
    let resolved = resolve(&made(), find).unwrap();
    assert!(!resolved.contains("capture"), "{resolved}");
    let renamed = YAML.replace("eth0", "ens3").replace("eth1", "ens4");
    let files = |yaml: &str| -> Vec<(String, String)> {
        State::parse(0, yaml).unwrap().keyfiles().iter().cloned().map(|file| (file.name, file.text)).collect()
    };
    // Neither the VLAN's own name nor a description is a captured one.
    let mut wanted = files(&renamed.replace("ens3.5", "eth0.5").replace("description: ens3", "description: eth0"));
    wanted.sort();
    assert_eq!(files(&resolved), wanted);
}

#[test]
fn policies_of_other_kinds_are_refused() {
    let find = |_| None;
    let refused = |text: &str| format!("{:?}", resolve(text, find).unwrap_err());
    assert!(refused(&made()).contains("NotHere"));
    for (text, said) in [
        ("{", "can't be read at line 2 column 1"),
        (&"[".repeat(60_000), "nested too deeply"),
        ("capture: {a: interfaces.name == \"eth0\"}\ndesiredState: {}", "the capture \\\"a\\\""),
        ("capture: {}", "no desiredState"),
        ("desiredState: {interfaces: [{name: '{{ capture.x.interfaces.0.name }}'}]}", "no capture \\\"x\\\""),
        ("desiredState: {interfaces: [{name: '{{ capture.x.routes }}'}]}", "not the name of a capture"),
    ] {
        assert!(refused(text).contains(said), "{text}: {}", refused(text));
    }
}
