//! Which interface asks on which network. Pure.

use super::request::Network;
use crate::interfaces::{Interface, InterfaceAddress};
use api::Mac;
use kernel::order::Gather;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

/// One network to sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub network: Network,
    pub interface: Interface,
    pub own_mac: Mac,
    /// The interface's address on the network.
    pub own_ip: Ipv4Addr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In the order of the request, without the networks that can't be asked.
    pub asks: Vec<Ask>,
    /// Our addresses, and where they are.
    pub ours: BTreeMap<Ipv4Addr, String>,
    /// A host answers for its addresses on any of its interfaces.
    pub own_macs: BTreeSet<Mac>,
}

/// Why a network can't be swept from here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// Not a network of ours.
    #[error("no interface to sweep {network} from: this host is on {present}")]
    NoInterface {
        network: Network,
        /// The networks it could sweep.
        present: String,
    },
    /// A network of ours, but the cable is out.
    #[error("cannot sweep {network}: {interface} has no link")]
    NoLink {
        network: Network,
        /// The interface that has an address on it.
        interface: String,
    },
    /// Nothing asked for, and nothing of our own.
    #[error(
        "no interface of this host has a network to sweep (2 to 65536 IPv4 addresses); name a network or an --interface"
    )]
    NothingOwn,
}

/// Plans a sweep from `outgoing`; `all` are the interfaces whose addresses are ours.
///
/// The service asks for every small network of the host's inventory: one whose cable is out must not keep it from hearing
/// of the others. Only when none is left is that an error, for the service fails on an empty reply.
pub(crate) fn plan(networks: &[Network], outgoing: &[Interface], all: &[Interface]) -> Result<Plan, PlanError> {
    let mut asks = Vec::new();
    let mut obstacle = None;
    for &network in networks {
        match ask(network, outgoing) {
            Ok(ask) => asks.push(ask),
            Err(error) => {
                tracing::warn!(%network, %error, "left out of the reply");
                obstacle.get_or_insert(error);
            }
        }
    }
    if let (true, Some(error)) = (asks.is_empty(), obstacle) {
        return Err(error);
    }
    let ours = all.iter().flat_map(|interface| addresses(interface).map(|(ip, _)| (ip, interface.name.clone())));
    let own_macs = all.iter().filter_map(|interface| interface.mac).gather();
    Ok(Plan { asks, ours: ours.gather(), own_macs })
}

fn ask(network: Network, outgoing: &[Interface]) -> Result<Ask, PlanError> {
    let on_network = |(ip, prefix): &(Ipv4Addr, u32)| {
        network.contains(*ip)
            || (*prefix <= network.prefix_bits() && Network::containing(*ip, *prefix).contains(network.base()))
    };
    let candidates: Vec<_> = outgoing
        .iter()
        .filter_map(|interface| Some((interface, interface.mac?, addresses(interface).find(on_network)?.0)))
        .collect();
    if let Some((interface, own_mac, own_ip)) = candidates.iter().find(|(interface, ..)| interface.has_link) {
        return Ok(Ask { network, interface: (*interface).clone(), own_mac: *own_mac, own_ip: *own_ip });
    }
    if let Some((interface, ..)) = candidates.first() {
        return Err(PlanError::NoLink { network, interface: interface.name.clone() });
    }
    let named = |interface: &Interface| -> Vec<String> {
        let text = |(ip, prefix)| format!("{} ({})", Network::containing(ip, prefix), interface.name);
        addresses(interface).map(text).collect()
    };
    let mut present: Vec<_> = outgoing.iter().filter(|interface| interface.mac.is_some()).flat_map(named).collect();
    present.dedup();
    let present = if present.is_empty() { "no network that it could sweep".to_owned() } else { present.join(", ") };
    Err(PlanError::NoInterface { network, present })
}

/// The networks that `outgoing` can sweep, each once.
pub(crate) fn own_networks(outgoing: &[Interface]) -> Vec<Network> {
    let mut networks = Vec::new();
    for interface in outgoing.iter().filter(|interface| interface.mac.is_some()) {
        for (ip, prefix) in addresses(interface).filter(|(ip, prefix)| !ip.is_link_local() && *prefix < 32) {
            let network = Network::containing(ip, prefix);
            if !network.is_sweepable() {
                tracing::warn!(%network, interface = interface.name, "larger than a /16: not swept; name parts of it");
            } else if !networks.contains(&network) {
                networks.push(network);
            }
        }
    }
    networks
}

fn addresses(interface: &Interface) -> impl Iterator<Item = (Ipv4Addr, u32)> {
    interface.addresses.iter().filter_map(|InterfaceAddress { ip, prefix_bits }| match ip {
        IpAddr::V4(ip) => Some((*ip, *prefix_bits)),
        IpAddr::V6(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, mac: Option<u8>, has_link: bool, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| {
            let (ip, bits) = text.split_once('/').unwrap();
            InterfaceAddress { ip: ip.parse().unwrap(), prefix_bits: bits.parse().unwrap() }
        });
        let (mac, addresses) = (mac.map(|last| Mac([2, 0, 0, 0, 0, last])), addresses.collect());
        Interface { name: name.into(), index: 1, mac, mtu: Some(1500), has_link, addresses }
    }

    fn ours() -> [Interface; 4] {
        [
            interface("a", Some(1), false, &["10.0.0.1/24", "fd00::1/64"]),
            interface("b", Some(2), true, &["10.0.0.2/24", "10.2.0.1/16"]),
            interface("c", Some(3), true, &["10.0.0.3/24", "10.7.0.1/8", "192.0.2.9/32"]),
            interface("tun", None, true, &["10.8.0.1/24"]),
        ]
    }

    fn chosen(network: &str, outgoing: &[Interface]) -> Result<(String, String), PlanError> {
        let plan = plan(&[network.parse().unwrap()], outgoing, outgoing)?;
        Ok((plan.asks[0].interface.name.clone(), plan.asks[0].own_ip.to_string()))
    }

    #[test]
    fn the_first_interface_with_a_link_and_an_address_there_asks() {
        let is = |name: &str, ip: &str| Ok((name.to_owned(), ip.to_owned()));
        let all = ours();
        assert_eq!(chosen("10.0.0.0/24", &all), is("b", "10.0.0.2"), "a has no link");
        assert_eq!(chosen("10.0.0.0/22", &all), is("b", "10.0.0.2"), "it has an address there");
        assert_eq!(chosen("10.2.4.0/22", &all), is("b", "10.2.0.1"), "a part of its network");
        assert_eq!(chosen("10.9.0.0/24", &all), is("c", "10.7.0.1"));
        let no_link = chosen("10.0.0.0/24", &all[..1]).unwrap_err();
        assert_eq!(no_link.to_string(), "cannot sweep 10.0.0.0/24: a has no link");
        let far = chosen("198.51.100.0/24", &all[1..]).unwrap_err().to_string();
        let present = "10.0.0.0/24 (b), 10.2.0.0/16 (b), 10.0.0.0/24 (c), 10.0.0.0/8 (c), 192.0.2.9/32 (c)";
        assert_eq!(far, format!("no interface to sweep 198.51.100.0/24 from: this host is on {present}"));
        let none = chosen("10.8.0.0/24", &all[3..]).unwrap_err().to_string();
        assert_eq!(none, "no interface to sweep 10.8.0.0/24 from: this host is on no network that it could sweep");
    }

    #[test]
    fn a_network_that_cannot_be_asked_is_left_out_unless_it_is_the_last() {
        let all = ours();
        let planned = |networks: &[&str], outgoing: &[Interface]| {
            let networks: Vec<_> = networks.iter().map(|text| text.parse().unwrap()).collect();
            let plan = plan(&networks, outgoing, &all)?;
            Ok::<_, PlanError>(plan.asks.iter().map(|ask| ask.network.to_string()).collect::<Vec<_>>())
        };
        let mixed = ["198.51.100.0/24", "10.2.0.0/24", "10.8.0.0/24", "10.0.0.0/24"];
        assert_eq!(planned(&mixed, &all[..2]).unwrap(), ["10.2.0.0/24", "10.0.0.0/24"]);
        let error = planned(&["10.0.0.0/24", "10.2.0.0/24"], &all[..1]).unwrap_err();
        assert_eq!(error.to_string(), "cannot sweep 10.0.0.0/24: a has no link", "the first of them");
    }

    #[test]
    fn our_own_networks_are_swept_once_and_only_what_can_be() {
        let networks: Vec<_> = own_networks(&ours()).iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["10.0.0.0/24", "10.2.0.0/16"]);
    }
}
