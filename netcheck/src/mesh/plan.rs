//! Decides from a request and the local interfaces which probes to send. Pure.

use super::{MeshOptions, request::RemoteHost};
use crate::{codec::echo::Family, interfaces::Interface};
use api::Mac;
use kernel::order::Gather;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// More probe packets than this are refused: the request would take minutes and much memory.
const MAX_PACKETS: usize = 1_000_000;
/// An interface with this MTU is not checked: it is what every path carries.
const ORDINARY_MTU: u32 = 1500;
/// Echoes of each size in an MTU check.
pub(crate) const MTU_PROBES: u16 = 3;
/// Payload of an ordinary echo, the default of `ping`.
pub(crate) const ECHO_PAYLOAD_BYTES: usize = 56;

/// An IPv4 neighbour to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArpAsk {
    /// Position in [`Plan::interfaces`].
    pub interface: usize,
    pub own_mac: Mac,
    /// The interface's address on the target's network, as the report names it.
    pub source: Ipv4Addr,
    /// The sender address in the packet: unspecified when we hold the target address ourselves, so that no neighbour
    /// learns anything from the question (RFC 5227).
    pub claimed: Ipv4Addr,
    pub target: Ipv4Addr,
}

/// An IPv6 neighbour to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NdpAsk {
    pub interface: usize,
    pub own_mac: Mac,
    pub source: Ipv6Addr,
    pub target: Ipv6Addr,
}

/// A path MTU to test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MtuAsk {
    pub interface: usize,
    pub target: IpAddr,
    pub mtu: u32,
    /// Echo payload that fills the MTU.
    pub payload_bytes: usize,
}

/// Network and ICMP header of an echo to `target`, bytes.
pub(crate) fn header_bytes(target: IpAddr) -> u32 {
    Family::from(target).network_header_bytes() + 8
}

/// All probes of one check. Each address is probed once, however many hosts claim it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub interfaces: Vec<Interface>,
    pub echoes: Vec<IpAddr>,
    pub arps: Vec<ArpAsk>,
    pub ndps: Vec<NdpAsk>,
    pub mtus: Vec<MtuAsk>,
    /// The Ethernet addresses of the hosts that each address belongs to.
    pub expected: BTreeMap<IpAddr, BTreeSet<Mac>>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    #[error("the request needs {packets} probe packets ({addresses} addresses); at most {limit} are sent in one check")]
    TooMany {
        packets: usize,
        /// Distinct addresses asked for.
        addresses: usize,
        limit: usize,
    },
}

/// Plans the check of `hosts` from `outgoing`; `all` are the interfaces whose addresses are ours.
pub(crate) fn plan(
    hosts: &[RemoteHost],
    outgoing: Vec<Interface>,
    all: &[Interface],
    options: &MeshOptions,
) -> Result<Plan, PlanError> {
    let targets: BTreeSet<IpAddr> = hosts.iter().flat_map(|host| &host.addresses).copied().gather();
    let per_target = 1 + 2 * outgoing.len();
    let packets =
        targets.len().saturating_mul(per_target).saturating_mul(usize::from(options.count.max(2 * MTU_PROBES)));
    if packets > MAX_PACKETS {
        return Err(PlanError::TooMany { packets, addresses: targets.len(), limit: MAX_PACKETS });
    }
    let ours: BTreeSet<IpAddr> = all.iter().flat_map(|interface| &interface.addresses).map(|own| own.ip).gather();
    let mut plan = Plan::default();
    for host in hosts {
        let macs = || host.macs.iter().filter_map(|mac| mac.parse::<Mac>().ok());
        for address in &host.addresses {
            plan.expected.entry(*address).or_default().extend(macs());
        }
    }
    for &target in &targets {
        if ours.contains(&target) {
            // As with `ping`. The service links two hosts only if every address answers, and there are addresses that
            // all hosts have: those of their BMC's virtual network cards. Who else holds one, ARP and NDP tell.
            tracing::warn!(address = %target, "a remote host claims an address of this host; our own kernel answers its echo");
        }
        plan.echoes.push(target);
        for (position, interface) in outgoing.iter().enumerate() {
            match target {
                IpAddr::V4(target) => plan.arps.extend(arp_ask(position, interface, target)),
                IpAddr::V6(target) => plan.ndps.extend(ndp_ask(position, interface, target)),
            }
            plan.mtus.extend(mtu_ask(position, interface, target));
        }
    }
    plan.interfaces = outgoing;
    Ok(plan)
}

/// ARP only on the target's own network: elsewhere an answer could only come from a proxy.
fn arp_ask(position: usize, interface: &Interface, target: Ipv4Addr) -> Option<ArpAsk> {
    let own_mac = interface.mac?;
    let source = interface.addresses.iter().find_map(|own| match own.ip {
        IpAddr::V4(ip) if own.network_contains(target.into()) => Some(ip),
        _ => None,
    })?;
    let is_ours = interface.addresses.iter().any(|own| own.ip == IpAddr::V4(target));
    let claimed = if is_ours { Ipv4Addr::UNSPECIFIED } else { source };
    Some(ArpAsk { interface: position, own_mac, source, claimed, target })
}

/// NDP also off the network: two prefixes on one segment are usual. The answer must find its way back, so the source is an
/// address on the target's network, else the link-local one, else any.
fn ndp_ask(position: usize, interface: &Interface, target: Ipv6Addr) -> Option<NdpAsk> {
    let own_mac = interface.mac?;
    if !interface.speaks_family_of(target.into()) {
        return None;
    }
    let rank =
        |own: &&crate::interfaces::InterfaceAddress| match (own.network_contains(target.into()), own.is_link_local()) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
    let usable = interface.addresses.iter().filter(|own| own.ip.is_ipv6() && own.ip != IpAddr::V6(target));
    match usable.min_by_key(rank)?.ip {
        IpAddr::V6(source) => Some(NdpAsk { interface: position, own_mac, source, target }),
        IpAddr::V4(_) => None,
    }
}

/// Only what can be tested is: an MTU out of the ordinary, and an address to be answered at.
fn mtu_ask(position: usize, interface: &Interface, target: IpAddr) -> Option<MtuAsk> {
    let mtu = interface.mtu.filter(|mtu| *mtu != ORDINARY_MTU)?;
    if !interface.speaks_family_of(target) {
        return None;
    }
    // The total length of an IPv4 packet is a 16-bit number.
    let payload = mtu.min(65_535).checked_sub(header_bytes(target))?;
    let payload_bytes = usize::try_from(payload).ok().filter(|bytes| *bytes >= ECHO_PAYLOAD_BYTES)?;
    Some(MtuAsk { interface: position, target, mtu, payload_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::InterfaceAddress;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn interface(name: &str, mtu: u32, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| {
            let (ip, bits) = text.split_once('/').unwrap();
            InterfaceAddress { ip: ip.parse().unwrap(), prefix_bits: bits.parse().unwrap() }
        });
        let addresses = addresses.collect();
        Interface { name: name.into(), index: 1, mac: Some(MAC), mtu: Some(mtu), has_link: true, addresses }
    }

    fn made(addresses: &[&str], interfaces: &[Interface]) -> Plan {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let host = RemoteHost { addresses, ..RemoteHost::default() };
        plan(&[host], interfaces.to_vec(), interfaces, &MeshOptions::default()).unwrap()
    }

    #[test]
    fn arp_leaves_once_from_the_first_address_on_the_network() {
        let nics = [
            interface("a", 1500, &["192.168.1.5/24", "10.0.0.5/24", "10.0.0.6/24"]),
            interface("b", 1500, &["192.168.2.5/24"]),
        ];
        let plan = made(&["10.0.0.9"], &nics);
        let source = "10.0.0.5".parse().unwrap();
        let target = "10.0.0.9".parse().unwrap();
        assert_eq!(plan.arps, [ArpAsk { interface: 0, own_mac: MAC, source, claimed: source, target }]);
        assert_eq!(plan.echoes.len(), 1);
        assert!(plan.ndps.is_empty() && plan.mtus.is_empty());
    }

    #[test]
    fn ndp_picks_the_source_the_answer_can_reach() {
        let nics = [
            interface("a", 1500, &["fd00:1::5/64", "fe80::5/64", "fd00:2::5/64"]),
            interface("b", 1500, &["fe80::6/64"]),
        ];
        let source =
            |target: &str| made(&[target], &nics).ndps.iter().map(|ask| ask.source.to_string()).collect::<Vec<_>>();
        assert_eq!(source("fd00:2::9"), ["fd00:2::5"]);
        assert_eq!(source("fd00:3::9"), ["fe80::5"]);
        assert_eq!(source("fe80::9"), ["fe80::5"]);
        let plain = [interface("a", 1500, &["fd00:1::5/64"])];
        assert_eq!(made(&["fd00:3::9"], &plain).ndps.len(), 1);
        assert!(made(&["fd00:1::9"], &[interface("v4", 1500, &["10.0.0.1/24"])]).ndps.is_empty());
    }

    #[test]
    fn an_address_of_ours_is_asked_for_without_claiming_it() {
        let nics = [interface("a", 9000, &["10.0.0.5/24", "fd00::5/64", "fe80::5/64"])];
        let plan = made(&["10.0.0.5", "fd00::5"], &nics);
        assert_eq!((plan.echoes.len(), plan.mtus.len()), (2, 2), "as everybody's");
        assert_eq!(plan.arps[0].claimed, Ipv4Addr::UNSPECIFIED);
        assert_eq!(plan.arps[0].source, "10.0.0.5".parse::<Ipv4Addr>().unwrap());
        assert_eq!(plan.ndps[0].source, "fe80::5".parse::<Ipv6Addr>().unwrap());
    }

    #[test]
    fn mtu_is_tested_only_where_it_can_be() {
        let jumbo = |addresses: &[&str]| [interface("a", 9000, addresses)];
        let sizes = |plan: Plan| plan.mtus.iter().map(|ask| ask.payload_bytes).collect::<Vec<_>>();
        assert_eq!(sizes(made(&["10.0.0.9", "fd00::9"], &jumbo(&["10.0.0.5/24", "fd00::5/64"]))), [8972, 8952]);
        assert_eq!(sizes(made(&["10.0.0.9", "fd00::9"], &jumbo(&["10.0.0.5/24", "fe80::5/64"]))), [8972]);
        assert_eq!(sizes(made(&["10.0.0.9"], &[interface("a", 1500, &["10.0.0.5/24"])])), [] as [usize; 0]);
        assert_eq!(sizes(made(&["10.0.0.9"], &[interface("a", 20, &["10.0.0.5/24"])])), [] as [usize; 0]);
        assert_eq!(sizes(made(&["10.0.0.9"], &[interface("a", 65_536, &["10.0.0.5/24"])])), [65_507]);
    }

    #[test]
    fn an_address_of_two_hosts_is_probed_once() {
        let host = RemoteHost { addresses: vec!["10.0.0.9".parse().unwrap()], ..RemoteHost::default() };
        let nics = [interface("a", 1500, &["10.0.0.5/24"])];
        let plan = plan(&[host.clone(), host], nics.to_vec(), &nics, &MeshOptions::default()).unwrap();
        assert_eq!((plan.echoes.len(), plan.arps.len()), (1, 1));
    }

    #[test]
    fn a_request_too_large_is_refused() {
        let addresses = (0..40_000u32).map(|n| Ipv4Addr::from_bits(0x0a00_0000 + n).into()).collect();
        let host = RemoteHost { addresses, ..RemoteHost::default() };
        let nics = [interface("a", 1500, &["10.0.0.5/8"])];
        let error = plan(&[host], nics.to_vec(), &nics, &MeshOptions::default()).unwrap_err();
        assert_eq!(error, PlanError::TooMany { packets: 1_200_000, addresses: 40_000, limit: 1_000_000 });
    }
}
