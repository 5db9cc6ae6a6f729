//! Kernel arguments made of NMState, as NetworkManager's own generator for the initramfs reads them: it must give the
//! addresses, ports, routes and servers that the NMState names.
#![allow(clippy::unwrap_used)]

use ignition::network::{State, kargs::kargs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn package() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/vm/packages/networkmanager");
    if path.join(".done").is_file() {
        return Some(path);
    }
    testkit::skip::because(format_args!("{} is missing: run .ci/setup", path.display()));
    None
}

/// Each profile's settings, `section.key`, by the profile's name.
fn generated(package: &Path, arguments: &[String]) -> BTreeMap<String, BTreeMap<String, String>> {
    let dirs = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|dir| package.join(dir));
    let loader = dirs.iter().map(|dir| dir.join("ld-linux-x86-64.so.2")).find(|path| path.exists()).unwrap();
    let output = Command::new(loader)
        .arg("--library-path")
        .arg(std::env::join_paths(&dirs).unwrap())
        .arg(package.join("usr/lib/NetworkManager/nm-initrd-generator"))
        .args(["-s", "--"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut profiles = BTreeMap::new();
    for part in text.split("*** Connection '").skip(1) {
        let (name, body) = part.split_once("' ***").unwrap();
        let mut settings = BTreeMap::new();
        let mut section = "";
        for line in body.lines().take_while(|line| !line.starts_with("***")) {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
            } else if let Some((key, value)) = line.split_once('=') {
                settings.insert(format!("{section}.{key}"), value.to_owned());
            }
        }
        profiles.insert(name.to_owned(), settings);
    }
    profiles
}

#[test]
fn network_managers_generator_understands_the_kernel_arguments() {
    let Some(package) = package() else { return };
    let state = State::parse(
        0,
        "
interfaces:
- {name: eth0, type: ethernet, state: up}
- {name: eth1, type: ethernet, state: up}
- name: bond0
  type: bond
  state: up
  mtu: 9000
  link-aggregation: {mode: active-backup, options: {miimon: 100, arp_ip_target: ''}, port: [eth0, eth1]}
  ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}, {ip: 192.0.2.11, prefix-length: 32}]}
  ipv6: {enabled: true, address: [{ip: '2001:db8::10', prefix-length: 64}]}
- {name: bond0.140, type: vlan, state: up, vlan: {base-iface: bond0, id: 140}}
- name: br0
  type: linux-bridge
  state: up
  bridge: {port: [{name: bond0.140}]}
  ipv4: {enabled: true, dhcp: true}
- {name: vlan7, type: vlan, state: up, vlan: {base-iface: enp9s0, id: 7}, ipv6: {enabled: true, autoconf: true, dhcp: true}}
- {name: enp9s0, type: ethernet, state: up}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0}
  - {destination: '::/0', next-hop-address: 'fe80::1', next-hop-interface: bond0}
  - {destination: 10.9.0.0/16, next-hop-address: 192.0.2.2, next-hop-interface: bond0}
  - {destination: '2001:db8:9::/48', next-hop-address: '2001:db8::2', next-hop-interface: bond0}
dns-resolver: {config: {server: [192.0.2.1, '2001:db8::1']}}
",
    )
    .unwrap();
    let arguments = kargs(&state, &[]).arguments;
    let profiles = generated(&package, &arguments);
    let uuid = |name: &str| profiles[name]["connection.uuid"].clone();
    let wanted = [
        ("bond0", "connection.type", "bond"),
        ("bond0", "bond.mode", "active-backup"),
        ("bond0", "bond.miimon", "100"),
        ("bond0", "ethernet.mtu", "9000"),
        ("bond0", "ipv4.method", "manual"),
        ("bond0", "ipv4.address1", "192.0.2.10/24,192.0.2.1"),
        ("bond0", "ipv4.address2", "192.0.2.11/32"),
        ("bond0", "ipv4.route1", "10.9.0.0/16,192.0.2.2"),
        ("bond0", "ipv4.dns", "192.0.2.1;"),
        ("bond0", "ipv6.method", "manual"),
        ("bond0", "ipv6.address1", "2001:db8::10/64,fe80::1"),
        ("bond0", "ipv6.route1", "2001:db8:9::/48,2001:db8::2"),
        ("bond0", "ipv6.dns", "2001:db8::1;"),
        ("eth0", "connection.master", &uuid("bond0")),
        ("eth1", "connection.master", &uuid("bond0")),
        ("eth1", "connection.slave-type", "bond"),
        ("bond0.140", "vlan.id", "140"),
        ("bond0.140", "vlan.parent", "bond0"),
        ("bond0.140", "connection.master", &uuid("br0")),
        ("br0", "connection.type", "bridge"),
        ("br0", "ipv4.method", "auto"),
        ("vlan7", "vlan.id", "7"),
        ("vlan7", "vlan.parent", "enp9s0"),
        ("vlan7", "ipv6.method", "auto"),
        ("enp9s0", "ipv4.method", "disabled"),
    ];
    for (profile, key, value) in wanted {
        let found = profiles.get(profile).and_then(|settings| settings.get(key)).map(String::as_str);
        assert_eq!(found, Some(value), "{profile}: {key} of {arguments:?}");
    }
}
