//! Main-table routes (docs/compatibility.md#routes). Pure.

use super::{
    link::ip_of,
    netlink::{attributes, u32_of},
};
use api::Route;
use netlink_packet_route::{
    AddressFamily,
    route::{RouteFlags, RouteHeader, RouteProtocol, RouteType},
};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

const HEADER_BYTES: usize = 12;
// linux/rtnetlink.h
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
/// `struct rtnexthop`: length (2 bytes), flags, hops, interface index (4 bytes), attributes.
const NEXT_HOP_BYTES: usize = 8;

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteEntry {
    pub destination: IpAddr,
    pub prefix_len: u8,
    pub gateway: Option<IpAddr>,
    /// Index of the output interface; of the first next hop if there are several.
    pub link: Option<u32>,
    pub metric: u32,
    /// Learnt from a router advertisement.
    pub by_router: bool,
}

/// `RTM_NEWROUTE`; `None` for other tables, cached routes, and those that lead nowhere (blackhole and the like).
pub(crate) fn parse_route(message: &[u8]) -> Option<RouteEntry> {
    let header = RouteHeader::parse(message).ok()?;
    let is_dead_end =
        matches!(header.kind, RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit | RouteType::Throw);
    if is_dead_end || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let mut destination = match header.address_family {
        AddressFamily::Inet => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (mut table, mut metric, mut first_hop) = (u32::from(header.table), 0, None);
    let mut own = Hop::default();
    for (attribute, value) in attributes(message, HEADER_BYTES) {
        match attribute {
            RTA_DST => destination = ip_of(header.address_family, value)?,
            RTA_PRIORITY => metric = u32_of(value)?,
            RTA_TABLE => table = u32_of(value)?,
            RTA_MULTIPATH => first_hop = Hop::first(header.address_family, value),
            _ => own.take(header.address_family, attribute, value),
        }
    }
    if table != u32::from(RouteHeader::RT_TABLE_MAIN) {
        return None;
    }
    let hop = first_hop.unwrap_or(own);
    Some(RouteEntry {
        destination,
        prefix_len: header.destination_prefix_length,
        gateway: hop.gateway,
        link: hop.link,
        metric,
        by_router: header.protocol == RouteProtocol::Ra,
    })
}

#[derive(Default)]
struct Hop {
    gateway: Option<IpAddr>,
    link: Option<u32>,
}

impl Hop {
    fn take(&mut self, family: AddressFamily, attribute: u16, value: &[u8]) {
        match attribute {
            RTA_OIF => self.link = u32_of(value),
            RTA_GATEWAY => self.gateway = ip_of(family, value),
            // A gateway of the other family: its family in two bytes, then the address.
            RTA_VIA => {
                self.gateway = value.split_first_chunk::<2>().and_then(|(family, address)| {
                    let family = u8::try_from(u16::from_ne_bytes(*family)).ok()?;
                    ip_of(AddressFamily::from(family), address)
                });
            }
            _ => {}
        }
    }

    fn first(family: AddressFamily, hops: &[u8]) -> Option<Self> {
        let len = usize::from(u16::from_ne_bytes([*hops.first()?, *hops.get(1)?]));
        let hop = hops.get(..len)?;
        let mut found = Self { gateway: None, link: u32_of(hop.get(4..NEXT_HOP_BYTES)?) };
        for (attribute, value) in attributes(hop, NEXT_HOP_BYTES) {
            found.take(family, attribute, value);
        }
        Some(found)
    }
}

/// The routes whose interface is known, IPv4 first, in an order that does not depend on when they were made.
pub(crate) fn report(routes: &[RouteEntry], names: &BTreeMap<u32, &str>) -> Vec<Route> {
    let mut known: Vec<(&RouteEntry, &str)> =
        routes.iter().filter_map(|route| Some((route, *names.get(&route.link?)?))).collect();
    known.sort_by_key(|(route, name)| (route.destination, route.prefix_len, route.metric, *name, route.gateway));
    let to_wire = |(route, name): (&RouteEntry, &str)| Route {
        destination: route.destination.to_string(),
        family: if route.destination.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 },
        gateway: route.gateway.map(|gateway| gateway.to_string()).unwrap_or_default(),
        interface: name.to_owned(),
        metric: route.metric.cast_signed(),
    };
    known.into_iter().map(to_wire).collect()
}

/// The length of the advertised prefix that an address lies in. An address leased by DHCPv6 has length 128 itself, while the
/// network it is in is only known from the router.
pub(crate) fn advertised_prefix_len(address: Ipv6Addr, link: u32, routes: &[RouteEntry]) -> Option<u8> {
    let contains = |route: &&RouteEntry| match route.destination {
        IpAddr::V6(network) => {
            let shift = 128 - u32::from(route.prefix_len);
            network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
        }
        IpAddr::V4(_) => false,
    };
    let on_link =
        |route: &&RouteEntry| route.by_router && route.link == Some(link) && (1..=128).contains(&route.prefix_len);
    routes.iter().filter(on_link).find(contains).map(|route| route.prefix_len)
}

#[cfg(test)]
mod tests {
    use super::super::netlink::tests::attribute;
    use super::*;

    /// `struct rtmsg`: family, destination length, …, table, protocol, scope, type, flags.
    fn route(family: u8, len: u8, kind: u8, flags: u32, attributes: &[Vec<u8>]) -> Option<RouteEntry> {
        parse_route(&[&[family, len, 0, 0, 254, 9, 0, kind][..], &flags.to_ne_bytes(), &attributes.concat()].concat())
    }

    #[test]
    fn a_default_route() {
        let parts = [
            attribute(RTA_GATEWAY, &[192, 168, 127, 1]),
            attribute(RTA_OIF, &2u32.to_ne_bytes()),
            attribute(RTA_PRIORITY, &100u32.to_ne_bytes()),
        ];
        let found = route(2, 0, 1, 0, &parts).unwrap();
        let names = BTreeMap::from([(2, "eth0")]);
        let wire = Route {
            destination: "0.0.0.0".to_owned(),
            family: 2,
            gateway: "192.168.127.1".to_owned(),
            interface: "eth0".to_owned(),
            metric: 100,
        };
        assert_eq!(report(std::slice::from_ref(&found), &names), [wire]);
        assert_eq!(report(&[found], &BTreeMap::new()), []);
    }

    #[test]
    fn several_next_hops_and_other_families() {
        let hop = |link: u32, gateway: [u8; 4]| {
            let gateway = attribute(RTA_GATEWAY, &gateway);
            [&16u16.to_ne_bytes()[..], &[0, 0], &link.to_ne_bytes(), &gateway].concat()
        };
        let multipath = attribute(RTA_MULTIPATH, &[hop(3, [10, 0, 0, 1]), hop(4, [10, 0, 0, 2])].concat());
        let found = route(2, 0, 1, 0, &[multipath]).unwrap();
        assert_eq!((found.link, found.gateway), (Some(3), Some([10, 0, 0, 1].into())));
        let via =
            attribute(RTA_VIA, &[&10u16.to_ne_bytes()[..], &"fe80::1".parse::<Ipv6Addr>().unwrap().octets()].concat());
        let found = route(2, 0, 1, 0, &[attribute(RTA_OIF, &2u32.to_ne_bytes()), via]).unwrap();
        assert_eq!(found.gateway, Some("fe80::1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_route_of_a_host() {
        let oif = attribute(RTA_OIF, &1u32.to_ne_bytes());
        assert!(route(2, 0, 1, 0, std::slice::from_ref(&oif)).is_some());
        for dead_end in 6..=9 {
            assert_eq!(route(10, 0, dead_end, 0, std::slice::from_ref(&oif)), None, "{dead_end}");
        }
        assert_eq!(route(2, 0, 1, 0x200, std::slice::from_ref(&oif)), None);
        assert_eq!(route(2, 0, 1, 0, &[oif.clone(), attribute(RTA_TABLE, &255u32.to_ne_bytes())]), None);
        assert_eq!(route(2, 24, 1, 0, &[oif.clone(), attribute(RTA_DST, &[1, 2, 3])]), None);
        assert_eq!(route(128, 0, 1, 0, &[oif]), None);
    }

    #[test]
    fn order_and_metrics() {
        let entry = |ip: &str, metric| RouteEntry {
            destination: ip.parse().unwrap(),
            prefix_len: 0,
            gateway: None,
            link: Some(1),
            metric,
            by_router: false,
        };
        let names = BTreeMap::from([(1, "e")]);
        let routes =
            report(&[entry("::", 1), entry("10.0.0.0", 1), entry("0.0.0.0", u32::MAX), entry("0.0.0.0", 5)], &names);
        let shown: Vec<_> = routes.iter().map(|r| (r.destination.as_str(), r.family, r.metric)).collect();
        assert_eq!(shown, [("0.0.0.0", 2, 5), ("0.0.0.0", 2, -1), ("10.0.0.0", 2, 1), ("::", 10, 1)]);
    }

    #[test]
    fn prefixes_by_router_only() {
        let entry = |ip: &str, prefix_len, by_router| RouteEntry {
            destination: ip.parse().unwrap(),
            prefix_len,
            gateway: None,
            link: Some(2),
            metric: 0,
            by_router,
        };
        let address = "fd00:1::5".parse().unwrap();
        let of = |routes: &[RouteEntry]| advertised_prefix_len(address, 2, routes);
        assert_eq!(of(&[entry("::", 0, true), entry("fd00:1::", 48, false), entry("fd00:1::", 64, true)]), Some(64));
        assert_eq!(of(&[entry("fd00:2::", 64, true)]), None);
        assert_eq!(of(&[entry("fd00:1::5", 128, true)]), Some(128));
        assert_eq!(of(&[entry("fd00:1::5", 255, true)]), None);
        assert_eq!(advertised_prefix_len(address, 3, &[entry("fd00:1::", 64, true)]), None);
    }
}
