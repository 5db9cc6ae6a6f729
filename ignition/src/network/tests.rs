use super::*;
use crate::data_url;
use serde_json::json;

const YAML: &str = "\
interfaces:
- {name: lan, type: ethernet, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.7, prefix-length: 26}]}}
dns-resolver: {config: {server: [198.51.100.1]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 198.51.100.1, next-hop-interface: lan, table-id: 254}]}
";

const POLICY: &str = r#"capture:
  iface0: interfaces.mac-address == "02:00:00:AB:CD:EF"
desiredState:
  dns-resolver:
    config:
      server:
      - 198.51.100.1
  interfaces:
  - ipv4:
      address:
      - ip: 198.51.100.7
        prefix-length: 26
      dhcp: false
      enabled: true
    name: "{{ capture.iface0.interfaces.0.name }}"
    state: up
    type: ethernet
  routes:
    config:
    - destination: 0.0.0.0/0
      next-hop-address: 198.51.100.1
      next-hop-interface: "{{ capture.iface0.interfaces.0.name }}"
      table-id: 254
"#;

fn sample() -> Vec<HostNetwork> {
    let interfaces = json!([{"mac_address": "02:00:00:ab:cd:ef", "logical_nic_name": "lan"}]);
    serde_json::from_value(json!([{"network_yaml": YAML, "mac_interface_map": interfaces}])).unwrap()
}

#[test]
fn a_policy_names_interfaces_by_their_addresses() {
    let files = files(&sample(), Flow::of_version("4.22")).unwrap();
    let texts: Vec<_> = files.iter().map(|file| (&*file.path, String::from_utf8_lossy(&file.bytes))).collect();
    let map = ("/etc/assisted/network/host0/mac_interface.ini", "02:00:00:ab:cd:ef=lan".into());
    assert!(texts.contains(&map), "{texts:?}");
    assert!(texts.contains(&("/etc/assisted/network/host0/ymlFile0.yml", POLICY.trim_end().into())), "{texts:?}");
    assert_eq!(texts.len(), 2);
    for file in &files {
        let entry = file.ignition_file();
        assert_eq!((&*entry.path, entry.mode, entry.overwrite), (&*file.path, Some(0o600), Some(true)));
        let source = data_url::decode(entry.contents.source.as_deref().unwrap()).unwrap();
        assert_eq!(source.data, file.bytes);
    }
}

#[test]
fn the_same_host_before_policies_gets_a_keyfile_and_its_map() {
    let files = files(&sample(), Flow::of_version("4.17.3")).unwrap();
    let [keyfile, map] = &files[..] else { panic!("{files:?}") };
    assert_eq!(keyfile.path, "/etc/assisted/network/host0/lan.nmconnection");
    let text = String::from_utf8_lossy(&keyfile.bytes);
    for line in [
        "interface-name=lan\n",
        "autoconnect=true\nautoconnect-priority=1\n\n",
        "address0=198.51.100.7/26\n",
        "dns=198.51.100.1\n",
        "route0=0.0.0.0/0,198.51.100.1,0\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(map.path, "/etc/assisted/network/host0/mac_interface.ini");
    assert_eq!(map.bytes, b"02:00:00:ab:cd:ef=lan");
    assert!(!format!("{:?}{files:?}", sample()).contains("198.51"));
}

#[test]
fn policies_begin_with_4_18() {
    for (version, flow) in [
        ("", Flow::Keyfiles),
        ("4.17.99", Flow::Keyfiles),
        ("4.9", Flow::Keyfiles),
        ("latest", Flow::Keyfiles),
        ("4.18", Flow::Policy),
        ("4.18.0-ec.0", Flow::Policy),
        ("4.22-multi", Flow::Policy),
        ("5.0", Flow::Policy),
    ] {
        assert_eq!(Flow::of_version(version), flow, "{version}");
    }
}

fn host(yaml: &str) -> HostNetwork {
    let map = [("52:54:00:00:00:0a", "eth0"), ("52:54:00:00:00:0b", "eth1")];
    let entry = |(mac, name): (&str, &str)| MacInterface { mac_address: mac.into(), logical_nic_name: name.into() };
    HostNetwork { network_yaml: yaml.to_owned(), mac_interface_map: map.map(entry).to_vec() }
}

const NETWORKS: [(&str, &str, &[&str]); 10] = [
    (
        "{name: bond0, type: bond, state: up, link-aggregation: {mode: 802.3ad, options: {miimon: '100'}, port: [eth0, eth1]}}, \
         {name: eth0, type: ethernet, state: up}",
        "bond0",
        &["[bond]", "miimon=100", "mode=802.3ad"],
    ),
    (
        "{name: bond0, type: bond, state: up, link-aggregation: {mode: active-backup, port: [eth0]}}, \
         {name: eth0, type: ethernet, state: up}",
        "eth0",
        &["interface-name=eth0", "master=bond0", "slave-type=bond"],
    ),
    (
        "{name: eth0.5, type: vlan, state: up, vlan: {base-iface: eth0, id: 5}}",
        "eth0.5",
        &["[vlan]", "id=5", "parent=eth0"],
    ),
    (
        "{name: bond0, type: bond, state: up, link-aggregation: {mode: active-backup, port: [eth0]}}, \
         {name: storage, type: vlan, state: up, vlan: {base-iface: bond0, id: 140}}",
        "storage",
        &["interface-name=storage", "id=140", "parent=bond0"],
    ),
    (
        "{name: br0, type: linux-bridge, state: up, bridge: {options: {stp: {enabled: false}}, port: [{name: eth0}]}}",
        "br0",
        &["type=bridge", "stp=false"],
    ),
    (
        "{name: eth0, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}}",
        "eth0",
        &["type=802-3-ethernet", "[ipv4]", "method=auto"],
    ),
    (
        "{name: eth0, type: ethernet, state: up, ipv4: {enabled: true, address: [{prefix-length: 27, ip: 203.0.113.5}]}, \
         ipv6: {enabled: true, address: [{ip: '2001:db8::1', prefix-length: 64}]}}",
        "eth0",
        &["address0=203.0.113.5/27", "address0=2001:db8::1/64", "method=manual"],
    ),
    (
        "{name: wan, type: ethernet, state: up, identifier: mac-address, mac-address: '52:54:00:00:00:0c'}",
        "wan",
        &["[ethernet]", "mac-address=52:54:00:00:00:0C"],
    ),
    ("{name: eth0, type: ethernet, state: up, mtu: 9000}", "eth0", &["mtu=9000"]),
    ("{name: eth0, profile-name: uplink, type: ethernet, state: up}", "uplink", &["id=uplink", "interface-name=eth0"]),
];

#[test]
fn keyfiles_say_what_the_networks_are() {
    for (interfaces, name, lines) in NETWORKS {
        let files = files(&[host(&format!("interfaces: [{interfaces}]"))], Flow::Keyfiles).unwrap();
        let path = format!("{HOSTS_DIR}/host0/{name}.nmconnection");
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} in {files:?}"));
        let text = String::from_utf8_lossy(&file.bytes);
        for line in lines.iter().chain(&["autoconnect=true", "autoconnect-priority=1"]) {
            assert!(text.lines().any(|found| found == *line), "{line} in {text}");
        }
        assert!(name != "wan" || !text.contains("interface-name"), "{text}");
    }
}

const ROUTED: &str = "
interfaces:
- {name: eth0, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}}
dns-resolver: {config: {server: [192.0.2.1], search: [example.com]}}
routes: {config: [{destination: 10.9.0.0/16, next-hop-address: 192.0.2.2, next-hop-interface: eth0, metric: 150, table-id: 7}]}
";

#[test]
fn routes_and_servers_are_in_the_profile_of_their_interface() {
    let state = State::parse(0, ROUTED).unwrap();
    let [keyfile] = state.keyfiles() else { panic!("{state:?}") };
    for line in
        ["route0=10.9.0.0/16,192.0.2.2,150", "route0_options=table=7", "dns=192.0.2.1", "dns-search=example.com"]
    {
        assert!(keyfile.text.lines().any(|found| found == line), "{line} in {}", keyfile.text);
    }
}

#[test]
fn what_is_down_or_absent_stays_down() {
    let yaml = "interfaces: [{name: eth0, type: ethernet, state: up}, {name: eth1, type: ethernet, state: down, mtu: 9000}, \
                {name: eth2, type: ethernet, state: absent}, {name: bond0, type: bond, state: absent}]";
    let files = State::parse(0, yaml).unwrap().keyfiles().to_vec();
    let lines = |name: &str| {
        let file = files.iter().find(|file| file.name == format!("{name}.nmconnection"));
        file.map(|file| file.text.lines().map(str::to_owned).collect::<Vec<_>>()).unwrap_or_default()
    };
    for (name, activation) in
        [("eth0", "autoconnect=true"), ("eth1", "autoconnect=false"), ("eth2", "autoconnect=false")]
    {
        let found = lines(name);
        let said: Vec<_> = found.iter().filter(|line| line.starts_with("autoconnect=")).collect();
        assert_eq!(said, [activation], "{name}: {found:?}");
        assert!(found.contains(&format!("interface-name={name}")), "{found:?}");
    }
    assert!(lines("eth1").contains(&"mtu=9000".to_owned()));
    // Nothing makes a bond that no profile is of.
    assert_eq!(files.len(), 3);
}

/// A mistake of each kind that the conversion refuses, and what is said of it.
const UNCONVERTIBLE: [(&str, &str); 22] = [
    (
        "interfaces: [{E}], routes: {config: [{destination: 10.0.0.0/8, next-hop-address: 192.0.2.2, next-hop-interface: eth5}]}",
        "eth5",
    ),
    (
        "interfaces: [{E}], routes: {config: [{destination: 10.0.0.0/8, next-hop-address: 192.0.2.2}]}",
        "empty next hop interface",
    ),
    (
        "interfaces: [{D}], routes: {config: [{destination: 10.0.0.0/8, next-hop-address: 192.0.2.2, next-hop-interface: eth1}]}",
        "IPv4 disabled",
    ),
    (
        "interfaces: [{E}], routes: {config: [{destination: 10.0.0.0/40, next-hop-address: 192.0.2.2, next-hop-interface: eth0}]}",
        "10.0.0.0/40",
    ),
    (
        "interfaces: [{E}], routes: {config: [{destination: 10.0.0.0/8, next-hop-address: 192.0.2.2, next-hop-interface: eth0, vrf-name: v0}]}",
        "v0",
    ),
    ("interfaces: [{E}], route-rules: {config: [{priority: 5, route-table: 200}]}", "ip-from"),
    ("interfaces: [{E}], route-rules: {config: [{ip-from: 192.0.2.0/24, route-table: 200, iif: eth5}]}", "eth5"),
    ("interfaces: [{E}], dns-resolver: {config: {server: ['fe80::1%eth5']}}", "eth5"),
    ("interfaces: [{E}], dns-resolver: {config: {server: [nonsense]}}", "nonsense"),
    ("interfaces: [{D, ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 33}]}}]", "33"),
    ("interfaces: [{D, ipv6: {enabled: true, autoconf: true}}]", "Autoconf without DHCP"),
    ("interfaces: [{D, ipv4: {enabled: true, dhcp: true, auto-route-metric: 5, prefix-route-metric: 6}}]", "metric"),
    ("interfaces: [{D, mac-address: nonsense}]", "nonsense"),
    ("interfaces: [{D, controller: br0}]", "br0 not found"),
    ("interfaces: [{D, dispatch: {post-activation: 'true'}}]", "Dispatch script"),
    (
        "interfaces: [{D}, {name: bond0, type: bond, state: up, link-aggregation: {port: [eth1]}}]",
        "Bond mode is mandatory",
    ),
    (
        "interfaces: [{E}, {name: bond0, type: bond, state: up, link-aggregation: {mode: active-backup, port: [eth0]}}]",
        "IP enabled",
    ),
    (
        "interfaces: [{D}, {name: bond0, type: bond, state: up, copy-mac-from: eth5, link-aggregation: {mode: balance-rr, port: [eth1]}}]",
        "eth5",
    ),
    (
        "interfaces: [{D}, {name: b0, type: linux-bridge, state: up, bridge: {port: [{name: eth1, vlan: {mode: trunk, tag: 5}}]}}]",
        "tag",
    ),
    (
        "interfaces: [{D}, {name: b0, type: ovs-bridge, state: up, mac-address: '52:54:00:00:00:99', bridge: {port: []}}]",
        "MAC address",
    ),
    ("interfaces: [{D}, {name: v0, type: vrf, state: up, vrf: {port: [eth1]}}]", "v0"),
    (
        "interfaces: [{D}, {name: m0, type: macsec, state: up, macsec: {encrypt: true, base-iface: eth1, port: 1, validation: strict, \
      send-sci: true, mka-cak: '00'}}]",
        "mka",
    ),
];

#[test]
fn what_cant_be_converted_is_refused_before_anything_is_made_of_it() {
    let eth0 = "name: eth0, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}, \
                ipv6: {enabled: true, address: [{ip: '2001:db8::1', prefix-length: 64}]}";
    let mut accepted = Vec::new();
    for (text, said) in UNCONVERTIBLE {
        let text = text.replace("{E", &format!("{{{eth0}")).replace("{D", "{name: eth1, type: ethernet, state: up");
        let config = [host(&format!("{{{text}}}"))];
        let found = [Flow::Keyfiles, Flow::Policy]
            .map(|flow| files(&config, flow).map_or_else(|e| e.to_string(), |_| String::new()));
        let checked = check(&config).map_or_else(|error| error.to_string(), |_| String::new());
        if found.iter().any(|found| *found != checked) || !checked.starts_with("host0: ") || !checked.contains(said) {
            accepted.push(format!("{text}: {checked} {found:?}"));
        }
    }
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

#[test]
fn profiles_that_are_no_files_or_one_file() {
    let error = |yaml: &str| State::parse(3, yaml).unwrap_err().to_string();
    let up = "type: ethernet, state: up";
    let said = error(&format!("interfaces: [{{name: eth0, profile-name: ../../x, {up}}}]"));
    assert!(said.starts_with("host3: the profile name \"../../x.nmconnection\""), "{said}");
    let said =
        error(&format!("interfaces: [{{name: eth0, profile-name: a, {up}}}, {{name: eth1, profile-name: a, {up}}}]"));
    assert!(said.starts_with("host3: two profiles would have the file name a.nmconnection"), "{said}");
}

#[test]
fn no_error_tells_a_key() {
    let wrong = [
        "interfaces: [{name: eth0, type: ethernet, state: up, 802.1x: {identity: me, eap-methods: [tls], private-key-password: {hunter2: x, y: hunter2}}}]",
        "interfaces: [{name: eth0, type: ethernet, state: hunter2, 802.1x: {password: hunter2}}]",
        "interfaces: [{name: ipsec, type: ipsec, libreswan: {psk: [hunter2]}}]",
    ];
    for yaml in wrong {
        let error = files(&[host(yaml)], Flow::Keyfiles).unwrap_err();
        assert!(matches!(error, NetworkError::Parse { .. }), "{error:?}");
        assert!(!yaml.contains("state: hunter2") || error.to_string().contains("*****"), "{error}");
        assert!(
            !error.to_string().contains("y: hunter2") && !format!("{error:?}").contains("\"hunter2\""),
            "{error:?}"
        );
    }
}

/// A network, changed at random: lines lost, doubled or moved in, words of others inserted, bytes changed.
fn mutated(rng: &mut fastrand::Rng) -> String {
    const WORDS: [&str; 16] = [
        "eth0",
        "bond0",
        "br0",
        "-1",
        "4294967296",
        "''",
        "null",
        "[]",
        "{}",
        "true",
        "absent",
        "::/0",
        "ovs-bridge",
        "vrf",
        "*x",
        "&x [*x]",
    ];
    let (interfaces, _, _) = NETWORKS[rng.usize(..NETWORKS.len())];
    let mut text = if rng.bool() { ROUTED.to_owned() } else { format!("interfaces: [{interfaces}]") };
    for _ in 0..rng.usize(..3) {
        let at = (0..=rng.usize(..text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        match rng.u8(..5) {
            0 => text.truncate(at.max(1)),
            1 => text.insert_str(at, WORDS[rng.usize(..WORDS.len())]),
            2 => drop(text.remove(at.min(text.len() - 1))),
            3 => {
                let words: Vec<&str> = text.split(' ').collect();
                let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
                let place = rng.usize(..words.len());
                words[place] = WORDS[rng.usize(..WORDS.len())].to_owned() + ",";
                text = words.join(" ");
            }
            _ => text = format!("{text}\n{text}").replace("\ninterfaces: [", "\n- ").chars().take(4000).collect(),
        }
        if text.is_empty() || !text.is_char_boundary(1) {
            return "x".to_owned();
        }
    }
    text
}

#[test]
fn no_text_makes_the_library_or_us_panic() {
    // For repeating it: a failure prints the seed.
    let seed = 7;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut good = 0;
    let count = std::env::var("LANDFALL_NETWORKS").ok().and_then(|count| count.parse().ok()).unwrap_or(1500);
    for index in 0..count {
        let yaml = mutated(&mut rng);
        let flow = if index % 2 == 0 { Flow::Keyfiles } else { Flow::Policy };
        match files(&[host(&yaml)], flow) {
            Ok(files) => {
                good += 1;
                let state = State::parse(0, &yaml).unwrap();
                let kargs = kargs::kargs(&state, &host("").mac_interface_map);
                assert!(kargs.arguments.iter().all(|argument| !argument.contains(char::is_whitespace)), "{kargs:?}");
                assert!(files.iter().all(|file| file.path.starts_with("/etc/assisted/network/host0/")));
            }
            Err(NetworkError::Library { text, .. }) => panic!("{index} of seed {seed}: {text}: {yaml}"),
            Err(_) => {}
        }
    }
    assert!(good > count / 20, "only {good} of {count} were networks");
}
