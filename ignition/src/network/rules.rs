//! The service's rules for a list of hosts' networks (docs/compatibility.md#static-network).

use super::{HostNetwork, Mac, NetworkError, State};
use nmstate::{Interface, InterfaceIdentifier, InterfaceState, InterfaceType, Interfaces};
use std::collections::{BTreeMap, BTreeSet};

/// More hosts than any cluster has: each costs the library some time.
const MAX_HOSTS: usize = 4096;
/// A logical name is replaced on the host, so it need not fit the kernel's 15 characters; it becomes part of a file's name.
const MAX_LOGICAL_CHARS: usize = 64;

/// Checks `configs` by the rules; gives each host's network, parsed.
///
/// Every host has a MAC address; no two interfaces of any hosts have the same, no two of one host the same name; and
/// every Ethernet interface can be identified on the host, as can what others are made of, unless it is made itself.
pub fn check(configs: &[HostNetwork]) -> Result<Vec<State>, NetworkError> {
    if configs.len() > MAX_HOSTS {
        return Err(NetworkError::TooManyHosts { found: configs.len(), max: MAX_HOSTS });
    }
    let mut owners: BTreeMap<Mac, (usize, &str)> = BTreeMap::new();
    let mut states = Vec::new();
    for (host, config) in configs.iter().enumerate() {
        if config.mac_interface_map.is_empty() {
            return Err(NetworkError::NoMac { host });
        }
        let mut names = BTreeSet::new();
        for entry in &config.mac_interface_map {
            let name = entry.logical_nic_name.as_str();
            if !is_logical_name(name) {
                return Err(NetworkError::Name { host, name: name.chars().take(80).collect() });
            }
            if !names.insert(name) {
                return Err(NetworkError::SameInterface { host, interface: name.to_owned() });
            }
            let mac: Mac = entry.mac_address.parse().map_err(|source| NetworkError::Mac {
                host,
                interface: name.to_owned(),
                source,
            })?;
            if let Some((other_host, other)) = owners.insert(mac, (host, name)) {
                return Err(NetworkError::SameMac {
                    host,
                    interface: name.to_owned(),
                    mac: mac.to_string(),
                    other_host,
                    other_interface: other.to_owned(),
                });
            }
        }
        let state = State::parse(host, &config.network_yaml)?;
        let unmapped = state.network.interfaces.iter().find(|interface| !is_identifiable(interface, &names));
        if let Some(interface) = unmapped {
            return Err(NetworkError::Unmapped { host, interface: interface.name().chars().take(80).collect() });
        }
        let missing = state.needed.iter().find(|(name, _)| {
            let name = name.as_str();
            !names.contains(name) && !is_predictable(name) && !makes(&state.network.interfaces, name)
        });
        if let Some((interface, place)) = missing {
            let interface = interface.chars().take(80).collect();
            return Err(NetworkError::Missing { host, interface, place: place.clone() });
        }
        states.push(state);
    }
    Ok(states)
}

fn is_logical_name(name: &str) -> bool {
    let chars = name.chars().count();
    (1..=MAX_LOGICAL_CHARS).contains(&chars)
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control())
}

/// Whether a host can identify the interface. Those that aren't Ethernet, as is one without a type, are created by name.
fn is_identifiable(interface: &Interface, names: &BTreeSet<&str>) -> bool {
    let base = interface.base_iface();
    let name = base.name.as_str();
    let made = match interface {
        Interface::Ethernet(_) => base.iface_type == InterfaceType::Veth,
        // Nothing is made of it then.
        Interface::Unknown(_) => base.state != InterfaceState::Up,
        _ => true,
    };
    made || names.contains(name) || base.identifier == Some(InterfaceIdentifier::MacAddress) || is_predictable(name)
}

/// Whether the host has an interface of that name by the network itself.
fn makes(interfaces: &Interfaces, name: &str) -> bool {
    interfaces.iter().any(|interface| {
        let peer = match interface {
            Interface::Ethernet(ethernet) => ethernet.veth.as_ref().map(|veth| veth.peer.as_str()),
            _ => None,
        };
        interface.name() == name && !interface.is_absent() || peer == Some(name)
    })
}

/// Names that udev makes of where an interface is (systemd.net-naming-scheme(7)), by the service's pattern `^en[PsvxXbucaipod]`.
fn is_predictable(name: &str) -> bool {
    name.strip_prefix("en").is_some_and(|rest| rest.starts_with(|c| "PsvxXbucaipod".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::MacInterface;

    fn host(yaml: &str, map: &[(&str, &str)]) -> HostNetwork {
        let entry = |(mac, name): &(&str, &str)| MacInterface {
            mac_address: (*mac).to_owned(),
            logical_nic_name: (*name).to_owned(),
        };
        HostNetwork { network_yaml: yaml.to_owned(), mac_interface_map: map.iter().map(entry).collect() }
    }

    const ETH0: &str = "interfaces: [{name: eth0, type: ethernet, state: up}]";
    const A: &str = "52:54:00:00:00:0a";
    const B: &str = "52:54:00:00:00:0B";

    #[test]
    fn each_broken_rule_names_host_and_interface() {
        let good = host(ETH0, &[(A, "eth0")]);
        assert_eq!(check(std::slice::from_ref(&good)).unwrap().len(), 1);
        for (bad, said) in [
            (host(ETH0, &[]), "host1: mac_interface_map is empty"),
            (
                host(ETH0, &[(B, "eth0"), ("52:54:00:00:00:0c", "eth0")]),
                "host1: two interfaces of mac_interface_map are named eth0",
            ),
            (
                host(ETH0, &[("52:54:00:00:00:0A", "eth1")]),
                "host1: interface eth1 has the MAC address 52:54:00:00:00:0A, as has interface eth0 of host0",
            ),
            (
                host(ETH0, &[(B, "eth1"), ("52-54-00-00-00-0b", "eth0")]),
                "host1: interface eth0 has the MAC address 52:54:00:00:00:0B, as has interface eth1 of host1",
            ),
            (host(ETH0, &[(B, "eth1")]), "host1: interface eth0 is not in mac_interface_map"),
            (host(ETH0, &[("5254", "eth0")]), "host1: mac_interface_map, interface \"eth0\""),
            (host(ETH0, &[(B, "../eth0")]), "host1: \"../eth0\" is not a logical interface name"),
            (host("", &[(B, "eth0")]), "host1: network_yaml names no interface"),
            (host("{", &[(B, "eth0")]), "host1: network_yaml is not NMState: "),
            (
                host("interfaces: [{name: eth0, type: ethernet, stat: up}]", &[(B, "eth0")]),
                "host1: network_yaml is not NMState: ",
            ),
            (
                host(&format!("#{}", "x".repeat(300 << 10)), &[(B, "eth0")]),
                "host1: the NMState has 307201 bytes, more than 65536",
            ),
            (
                // Closed in comments only.
                host(&"{a: #}\n".repeat(7000), &[(B, "eth0")]),
                "host1: the NMState is refused: it is nested too deeply",
            ),
            (
                host(&"[".repeat(60_000), &[(B, "eth0")]),
                "host1: the NMState is refused: it is nested too deeply: at most 128 levels of lists and mappings are allowed",
            ),
        ] {
            let error = check(&[good.clone(), bad]).unwrap_err();
            assert!(error.to_string().starts_with(said), "{error}");
        }
    }

    #[test]
    fn an_interface_is_identified_by_map_by_identifier_or_by_name() {
        for identifiable in
            ["enp1s0", "eno1", "enX0, identifier: name", "wan, identifier: mac-address, mac-address: 52:54:00:00:00:01"]
        {
            let yaml = format!("interfaces: [{{name: {identifiable}, type: ethernet, state: up}}]");
            assert!(check(&[host(&yaml, &[(A, "eth0")])]).is_ok(), "{identifiable}");
        }
        for ambiguous in ["eth1", "en", "ent0", "xenp1s0"] {
            let yaml = format!("interfaces: [{{name: {ambiguous}, type: ethernet, state: up}}]");
            assert!(matches!(check(&[host(&yaml, &[(A, "eth0")])]), Err(NetworkError::Unmapped { .. })), "{ambiguous}");
        }
        let typeless = |state: &str| {
            host(&format!("interfaces: [{{name: eth0, state: up}}, {{name: eth7, state: {state}}}]"), &[(A, "eth0")])
        };
        assert!(matches!(check(&[typeless("up")]), Err(NetworkError::Unmapped { .. })));
        assert!(check(&[typeless("absent")]).is_ok());
        // Made by name, whatever the name.
        assert!(
            check(&[host("interfaces: [{name: v0, type: veth, state: up, veth: {peer: v1}}]", &[(A, "eth0")])]).is_ok()
        );
        assert!(check(&[host("interfaces: [{name: br7, type: linux-bridge, state: up}]", &[(A, "eth0")])]).is_ok());
    }
    #[test]
    fn what_others_are_made_of_is_identified_or_made() {
        let eth0 = "{name: eth0, type: ethernet, state: up}";
        let bond = |name: &str| {
            format!(
                "{{name: bond0, type: bond, state: up, link-aggregation: {{mode: active-backup, port: [eth0, {name}]}}}}"
            )
        };
        for (interfaces, place) in [
            (bond("eth9"), "interfaces[bond0].link-aggregation.port[1]"),
            (
                "{name: br0, type: linux-bridge, state: up, bridge: {port: [{name: eth9}]}}".to_owned(),
                "interfaces[br0].bridge.port[eth9].name",
            ),
            (
                "{name: br0, type: ovs-bridge, state: up, bridge: {port: [{name: eth9}]}}".to_owned(),
                "interfaces[br0].bridge.port[eth9].name",
            ),
            (
                "{name: br0, type: ovs-bridge, state: up, bridge: {port: [{name: b1, link-aggregation: {mode: balance-slb, \
                 port: [{name: eth0}, {name: eth9}]}}]}}"
                    .to_owned(),
                "interfaces[br0].bridge.port[b1].link-aggregation.port[eth9].name",
            ),
            (
                "{name: storage, type: vlan, state: up, vlan: {base-iface: eth9, id: 404}}".to_owned(),
                "interfaces[storage].vlan.base-iface",
            ),
            (
                "{name: x0, type: vxlan, state: up, vxlan: {base-iface: eth9, id: 4, remote: 192.0.2.1}}".to_owned(),
                "interfaces[x0].vxlan.base-iface",
            ),
            (
                "{name: m0, type: mac-vlan, state: up, mac-vlan: {base-iface: eth9, mode: vepa}}".to_owned(),
                "interfaces[m0].mac-vlan.base-iface",
            ),
            (
                "{name: v0, type: vrf, state: up, vrf: {port: [eth9], route-table-id: 5}}".to_owned(),
                "interfaces[v0].vrf.port[0]",
            ),
        ] {
            let network = |interfaces: &str| host(&format!("interfaces: [{eth0}, {interfaces}]"), &[(A, "eth0")]);
            let error = check(&[network(&interfaces)]).unwrap_err().to_string();
            let said = format!("host0: interface eth9 is not in mac_interface_map, and network_yaml does not define it: {place} names it");
            assert!(error.starts_with(&said), "{error}");
            // In the map, by a predictable name, or made by another entry.
            let mut mapped = network(&interfaces);
            mapped.mac_interface_map.push(MacInterface { mac_address: B.to_owned(), logical_nic_name: "eth9".to_owned() });
            check(&[mapped]).unwrap();
            check(&[network(&interfaces.replace("eth9", "enp9s0"))]).unwrap();
            check(&[network(&format!("{interfaces}, {{name: eth9, type: dummy, state: up}}"))]).unwrap();
        }
    }
}
