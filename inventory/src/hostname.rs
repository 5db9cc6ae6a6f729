//! The host's name (docs/compatibility.md#hostname).

use crate::Root;
use api::{FORBIDDEN_HOSTNAMES, Interface};
use std::net::IpAddr;

/// The kernel's own names before anyone set one.
const UNSET: [&str; 2] = ["(none)", ""];
/// Kinds of interfaces that a name may be taken from.
const NAMING_KINDS: [&str; 3] = ["physical", "vlan", "bond"];

/// The kernel's node name, or, where that says nothing, the MAC address of the first interface by name that a cluster could
/// reach the host at.
pub(crate) fn hostname(root: &Root, interfaces: &[Interface]) -> String {
    let name = root.attribute("/proc/sys/kernel/hostname").unwrap_or_default();
    if FORBIDDEN_HOSTNAMES.contains(&name.as_str()) || UNSET.contains(&name.as_str()) {
        from_mac(interfaces).unwrap_or(name)
    } else {
        name
    }
}

fn from_mac(interfaces: &[Interface]) -> Option<String> {
    let names_a_host = |interface: &&Interface| {
        let mut addresses = interface.ipv4_addresses.iter().chain(&interface.ipv6_addresses);
        NAMING_KINDS.contains(&interface.kind.as_str())
            && !interface.mac_address.is_empty()
            && addresses.any(|address| is_global_unicast(address))
    };
    let first = interfaces.iter().filter(names_a_host).min_by(|a, b| a.name.cmp(&b.name))?;
    Some(first.mac_address.to_lowercase().replace(':', "-"))
}

/// Private ranges count.
fn is_global_unicast(cidr: &str) -> bool {
    let address = cidr.split_once('/').map_or(cidr, |(address, _)| address);
    match address.parse() {
        Ok(IpAddr::V4(ip)) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_link_local() || ip.is_broadcast())
        }
        Ok(IpAddr::V6(ip)) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_unicast_link_local())
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn interface(name: &str, kind: &str, mac: &str, v4: &[&str], v6: &[&str]) -> Interface {
        Interface {
            name: name.to_owned(),
            kind: kind.to_owned(),
            mac_address: mac.to_owned(),
            ipv4_addresses: v4.iter().map(|a| (*a).to_owned()).collect(),
            ipv6_addresses: v6.iter().map(|a| (*a).to_owned()).collect(),
            ..Interface::default()
        }
    }

    #[test]
    fn a_name_or_a_mac() {
        let named = |name: &str, interfaces: &[Interface]| {
            hostname(&Tree::new(&[("proc/sys/kernel/hostname", &format!("{name}\n"))]).root(), interfaces)
        };
        let interfaces = [
            interface("eth9", "physical", "a8:cd:16:ae:79:09", &["10.0.0.9/24"], &[]),
            interface("eth1", "physical", "a8:cd:16:ae:79:01", &[], &["fd00::1/64"]),
            interface("eth0", "physical", "a8:cd:16:ae:79:00", &[], &[]),
            interface("br0", "bridge", "a8:cd:16:ae:79:0b", &["10.0.0.1/24"], &[]),
            interface("bond0", "bond", "", &["10.0.0.2/24"], &[]),
            interface("lo", "device", "", &["127.0.0.1/8"], &["::1/128"]),
        ];
        assert_eq!(named("node-7", &interfaces), "node-7");
        assert_eq!(named("localhost.example.com", &interfaces), "localhost.example.com");
        for name in FORBIDDEN_HOSTNAMES.into_iter().chain(UNSET) {
            assert_eq!(named(name, &interfaces), "a8-cd-16-ae-79-01", "{name}");
            assert_eq!(named(name, &interfaces[2..]), name);
        }
    }

    #[test]
    fn addresses_that_reach_a_host() {
        for good in ["10.0.0.1/8", "192.168.1.1/16", "2001:db8::1/64", "fd00::1/64"] {
            assert!(is_global_unicast(good), "{good}");
        }
        let bad =
            "0.0.0.0/0 127.0.0.1/8 169.254.1.1/16 224.0.0.1/4 255.255.255.255/32 ::/0 ::1/128 fe80::1/64 ff02::1/8 x";
        for bad in bad.split(' ') {
            assert!(!is_global_unicast(bad), "{bad}");
        }
    }
}
