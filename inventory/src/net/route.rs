//! Main-table routes (docs/compatibility.md#routes). Pure.

use api::Route;
use kernel::{
    order,
    rtnetlink::{self, MAIN_TABLE},
};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

/// The route of a netlink message; `None` for other tables, cached routes, and those that lead nowhere (blackhole and the like).
pub(crate) fn parse_route(message: &[u8]) -> Option<rtnetlink::Route> {
    rtnetlink::Route::parse(message).filter(|route| route.table == MAIN_TABLE && !route.is_dead_end && !route.is_cached)
}

/// The routes whose interface is known, IPv4 first, in an order that does not depend on when they were made.
pub(crate) fn report(routes: &[rtnetlink::Route], names: &BTreeMap<u32, &str>) -> Vec<Route> {
    let mut known: Vec<(&rtnetlink::Route, &str)> =
        routes.iter().filter_map(|route| Some((route, *names.get(&route.link?)?))).collect();
    order::sort_by_key(&mut known, |(route, name)| {
        (route.destination, route.prefix_len, route.metric, *name, route.gateway)
    });
    let to_wire = |(route, name): (&rtnetlink::Route, &str)| Route {
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
pub(crate) fn advertised_prefix_len(address: Ipv6Addr, link: u32, routes: &[rtnetlink::Route]) -> Option<u8> {
    let contains = |route: &&rtnetlink::Route| match route.destination {
        IpAddr::V6(network) => {
            let shift = 128 - u32::from(route.prefix_len);
            network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
        }
        IpAddr::V4(_) => false,
    };
    let on_link = |route: &&rtnetlink::Route| {
        route.is_by_router && route.link == Some(link) && (1..=128).contains(&route.prefix_len)
    };
    routes.iter().filter(on_link).find(contains).map(|route| route.prefix_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::attribute;

    // linux/rtnetlink.h
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    const RTA_GATEWAY: u16 = 5;
    const RTA_PRIORITY: u16 = 6;
    const RTA_TABLE: u16 = 15;

    /// `struct rtmsg`: family, destination length, …, table, protocol, scope, type, flags.
    fn route(family: u8, len: u8, kind: u8, flags: u32, attributes: &[Vec<u8>]) -> Option<rtnetlink::Route> {
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
        let entry = |ip: &str, metric| rtnetlink::Route {
            link: Some(1),
            metric,
            ..rtnetlink::Route::new(ip.parse().unwrap(), 0)
        };
        let names = BTreeMap::from([(1, "e")]);
        let routes =
            report(&[entry("::", 1), entry("10.0.0.0", 1), entry("0.0.0.0", u32::MAX), entry("0.0.0.0", 5)], &names);
        let shown: Vec<_> = routes.iter().map(|r| (r.destination.as_str(), r.family, r.metric)).collect();
        assert_eq!(shown, [("0.0.0.0", 2, 5), ("0.0.0.0", 2, -1), ("10.0.0.0", 2, 1), ("::", 10, 1)]);
    }

    #[test]
    fn prefixes_by_router_only() {
        let entry = |ip: &str, prefix_len, is_by_router| rtnetlink::Route {
            link: Some(2),
            is_by_router,
            ..rtnetlink::Route::new(ip.parse().unwrap(), prefix_len)
        };
        let address = "fd00:1::5".parse().unwrap();
        let of = |routes: &[rtnetlink::Route]| advertised_prefix_len(address, 2, routes);
        assert_eq!(of(&[entry("::", 0, true), entry("fd00:1::", 48, false), entry("fd00:1::", 64, true)]), Some(64));
        assert_eq!(of(&[entry("fd00:2::", 64, true)]), None);
        assert_eq!(of(&[entry("fd00:1::5", 128, true)]), Some(128));
        assert_eq!(of(&[entry("fd00:1::5", 255, true)]), None);
        assert_eq!(advertised_prefix_len(address, 3, &[entry("fd00:1::", 64, true)]), None);
    }
}
