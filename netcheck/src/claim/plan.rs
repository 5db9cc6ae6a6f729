//! Where and how to ask for each address. Pure.

use crate::interfaces::Interface;
use api::Mac;
use kernel::order::Gather;
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A series of questions for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// To all stations behind [`Plan::links`]`[link]`.
    Arp { link: usize, target: Ipv4Addr },
    /// To the address' group behind [`Plan::links`]`[link]`.
    Ndp { link: usize, target: Ipv6Addr },
    /// Along the routes.
    Echo { target: IpAddr },
}

impl Ask {
    pub(super) fn target(&self) -> IpAddr {
        match *self {
            Self::Arp { target, .. } => target.into(),
            Self::Ndp { target, .. } => target.into(),
            Self::Echo { target } => target,
        }
    }

    pub(super) fn link(&self) -> Option<usize> {
        match *self {
            Self::Arp { link, .. } | Self::Ndp { link, .. } => Some(link),
            Self::Echo { .. } => None,
        }
    }
}

/// All questions of one check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Interfaces that ARP and NDP can be spoken on, each with its MAC.
    pub links: Vec<(Interface, Mac)>,
    pub asks: Vec<Ask>,
    /// All of ours: a host answers for any of its addresses on any of its interfaces.
    pub own_macs: BTreeSet<Mac>,
}

/// Asks for `addresses` on those of `links` that have them on their network, or on all of them if requested.
pub(crate) fn holders(addresses: &[IpAddr], all: &[Interface], links: &[&Interface], on_all: bool) -> Plan {
    let mut plan = Plan::without_asks(all, links);
    for target in addresses.iter().copied().gather::<BTreeSet<_>>() {
        let is_near =
            |interface: &Interface| on_all || interface.addresses.iter().any(|own| own.network_contains(target));
        let near: Vec<_> =
            (0..).zip(&plan.links).filter(|(_, (link, _))| is_near(link)).map(|(link, _)| link).collect();
        if near.is_empty() && !is_ours(all, target) {
            plan.asks.push(Ask::Echo { target });
        }
        plan.asks.extend(near.into_iter().map(|link| on_link(link, target)));
    }
    plan
}

/// Asks for all addresses of `links`, each on its own link.
pub(crate) fn duplicates(all: &[Interface], links: &[&Interface]) -> Plan {
    let mut plan = Plan::without_asks(all, links);
    for (position, (link, _)) in (0..).zip(&plan.links).filter(|(_, (link, _))| link.has_link) {
        plan.asks.extend(link.addresses.iter().map(|own| on_link(position, own.ip)));
    }
    plan
}

pub(crate) fn is_ours(all: &[Interface], address: IpAddr) -> bool {
    all.iter().flat_map(|interface| &interface.addresses).any(|own| own.ip == address)
}

fn on_link(link: usize, target: IpAddr) -> Ask {
    match target {
        IpAddr::V4(target) => Ask::Arp { link, target },
        IpAddr::V6(target) => Ask::Ndp { link, target },
    }
}

impl Plan {
    fn without_asks(all: &[Interface], links: &[&Interface]) -> Self {
        let links = links.iter().filter_map(|&interface| Some((interface.clone(), interface.mac?))).collect();
        Self { links, asks: Vec::new(), own_macs: all.iter().filter_map(|interface| interface.mac).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::InterfaceAddress;

    fn interface(name: &str, mac: Option<u8>, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| {
            let (ip, bits) = text.split_once('/').unwrap();
            InterfaceAddress { ip: ip.parse().unwrap(), prefix_bits: bits.parse().unwrap() }
        });
        let (mac, addresses) = (mac.map(|last| Mac([2, 0, 0, 0, 0, last])), addresses.collect());
        Interface { name: name.into(), index: 1, mac, mtu: Some(1500), has_link: true, addresses }
    }

    fn ours() -> [Interface; 4] {
        [
            interface("lo", None, &["127.0.0.1/8"]),
            interface("a", Some(1), &["10.0.0.1/24", "fd00::1/64", "fe80::1/64"]),
            interface("b", Some(2), &["10.0.0.2/24"]),
            interface("tun", None, &["10.8.0.1/24"]),
        ]
    }

    fn asks(addresses: &[&str], named: &[&str]) -> Vec<Ask> {
        let all = ours();
        let is_link = |interface: &&Interface| named.is_empty() || named.contains(&&*interface.name);
        let links: Vec<_> = all.iter().filter(is_link).collect();
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        holders(&addresses, &all, &links, !named.is_empty()).asks
    }

    #[test]
    fn every_link_of_the_network_is_asked_and_elsewhere_an_echo_goes() {
        let v4 = |link, text: &str| Ask::Arp { link, target: text.parse().unwrap() };
        let v6 = |link, text: &str| Ask::Ndp { link, target: text.parse().unwrap() };
        let echo = |text: &str| Ask::Echo { target: text.parse().unwrap() };
        assert_eq!(asks(&["10.0.0.9"], &[]), [v4(0, "10.0.0.9"), v4(1, "10.0.0.9")]);
        assert_eq!(asks(&["fd00::9", "fd00::9"], &[]), [v6(0, "fd00::9")], "asked for once");
        assert_eq!(asks(&["192.0.2.1"], &[]), [echo("192.0.2.1")]);
        assert_eq!(asks(&["10.8.0.9"], &[]), [echo("10.8.0.9")], "ARP is not used in a tunnel");
        assert_eq!(asks(&["10.8.0.1", "127.0.0.1"], &[]), [], "our own needs no echo");
        assert_eq!(asks(&["192.0.2.1"], &["b"]), [v4(0, "192.0.2.1")], "a named link needs no address");
    }

    #[test]
    fn our_own_are_asked_for_where_they_are() {
        let mut all = ours();
        all[2].has_link = false;
        let plan = duplicates(&all, &all.iter().collect::<Vec<_>>());
        let targets: Vec<_> = plan.asks.iter().map(|ask| (ask.link(), ask.target().to_string())).collect();
        let expected = ["10.0.0.1", "fd00::1", "fe80::1"].map(|text| (Some(0), text.to_owned()));
        assert_eq!(targets, expected);
        assert_eq!(plan.own_macs.len(), 2, "whatever the link");
    }
}
