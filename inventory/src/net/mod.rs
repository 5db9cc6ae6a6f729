//! Network interfaces and routes (docs/compatibility.md#interfaces).
//!
//! The kernel is asked by netlink. Without its answer, as in a tree captured by another program, sysfs has the links, but
//! neither their addresses nor routes.

mod biosdevname;
mod link;
mod route;

pub(crate) use biosdevname::name_by_firmware;

use crate::{
    Root,
    ask::{Question, Table, messages},
};
use api::{Interface, Route};
use kernel::order::Gather;
use kernel::{order, rtnetlink};
use link::Link;
use std::{collections::BTreeMap, net::IpAddr};

const NET: &str = "/sys/class/net";

/// Interfaces and routes of one moment.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// By interface index, the kernel's order.
    pub interfaces: Vec<Interface>,
    /// IPv4 then IPv6, by destination.
    pub routes: Vec<Route>,
}

/// Looks at the machine's network.
pub(crate) fn network(root: &Root) -> Network {
    let [links, addresses, ipv4_routes, ipv6_routes] = tables(root);
    let links = match parsed(&links, link::parse_link) {
        links if links.is_empty() => link::from_sysfs(root),
        links => links,
    };
    let mut routes = parsed(&ipv4_routes, route::parse_route);
    routes.extend(parsed(&ipv6_routes, route::parse_route));
    assemble(root, links, &parsed(&addresses, rtnetlink::Address::parse), &routes)
}

/// The MAC addresses of all interfaces, from sysfs alone.
pub(crate) fn sysfs_macs(root: &Root) -> Vec<String> {
    link::from_sysfs(root).into_iter().filter_map(|link| link.mac).collect()
}

/// The kernel's tables, each empty if it can't be read. A failure of one does not affect the others.
fn tables(root: &Root) -> [Vec<u8>; 4] {
    let requests = [Table::Links, Table::Addresses, Table::Ipv4Routes, Table::Ipv6Routes];
    let mut answers = root.ask_all(&requests.map(Question::Table)).into_iter();
    requests.map(|request| match answers.next() {
        Some(Ok(table)) => table,
        Some(Err(error)) if root.is_live() => {
            tracing::warn!(table = request.name(), %error, "missing from the inventory");
            Vec::new()
        }
        _ => Vec::new(),
    })
}

fn parsed<T>(table: &[u8], parse: impl Fn(&[u8]) -> Option<T>) -> Vec<T> {
    messages(table).filter_map(parse).collect()
}

fn assemble(
    root: &Root,
    mut links: Vec<Link>,
    addresses: &[rtnetlink::Address],
    routes: &[rtnetlink::Route],
) -> Network {
    order::sort_by(&mut links, |a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    let names: BTreeMap<u32, &str> = links.iter().map(|link| (link.index, link.name.as_str())).gather();
    let speeds = root.measured(&links.iter().map(|link| format!("{NET}/{}/speed", link.name)).collect::<Vec<_>>());
    let with_speed = |(link, speed): (&Link, Option<String>)| Interface {
        speed_mbps: speed.and_then(|speed| speed.parse().ok()).unwrap_or(0),
        ..interface(root, link, addresses, routes)
    };
    let interfaces = links.iter().zip(speeds).map(with_speed).collect();
    let routes = route::report(routes, &names);
    Network { interfaces, routes }
}

fn interface(root: &Root, link: &Link, addresses: &[rtnetlink::Address], routes: &[rtnetlink::Route]) -> Interface {
    let sys = format!("{NET}/{}", link.name);
    let own = || addresses.iter().filter(|address| address.link == link.index);
    let text = |address: &rtnetlink::Address| match address.ip {
        IpAddr::V4(ip) => (!ip.is_link_local()).then(|| format!("{ip}/{}", address.prefix_len)),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => None,
        IpAddr::V6(ip) => {
            let len = route::advertised_prefix_len(ip, link.index, routes).unwrap_or(address.prefix_len);
            Some(format!("{ip}/{len}"))
        }
    };
    Interface {
        flags: link.flag_names(),
        has_carrier: link.has_carrier,
        ipv4_addresses: own().filter(|address| address.ip.is_ipv4()).filter_map(text).collect(),
        ipv6_addresses: own().filter(|address| address.ip.is_ipv6()).filter_map(text).collect(),
        mac_address: link.mac.clone().unwrap_or_default(),
        mtu: link.mtu,
        name: link.name.clone(),
        product: root.attribute(format!("{sys}/device/device")).unwrap_or_default(),
        kind: kind(root, &sys, link),
        vendor: root.attribute(format!("{sys}/device/vendor")).unwrap_or_default(),
        ..Interface::default()
    }
}

/// `physical` for what hangs on a bus, else the kernel's kind. A link that sysfs does not list, which is so when its mount
/// belongs to another network namespace, is only taken for physical if the kernel names no kind either.
fn kind(root: &Root, sys: &str, link: &Link) -> String {
    let place = root.resolve(sys);
    let kind = match (place, &link.kind) {
        (Some(path), _) if !path.components().any(|part| part.as_os_str() == "virtual") => "physical",
        (None, None) if !link.is_loopback() => "physical",
        (_, Some(kind)) if kind == "tun" => "tuntap",
        (_, Some(kind)) => kind,
        (_, None) => "device",
    };
    kind.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn machine() -> Tree {
        let tree = Tree::new(&[]);
        let link = |name: &str, place: &str, files: &[(&str, &str)]| {
            for (file, content) in files {
                tree.add(&format!("sys/devices/{place}/net/{name}/{file}"), format!("{content}\n"));
            }
            tree.link(&format!("sys/class/net/{name}"), &format!("../../devices/{place}/net/{name}"));
        };
        let lo =
            [("ifindex", "1"), ("address", "00:00:00:00:00:00"), ("flags", "0x9"), ("mtu", "65536"), ("carrier", "1")];
        link("lo", "virtual", &lo);
        let port = [
            ("ifindex", "3"),
            ("address", "52:54:00:AA:BB:01"),
            ("flags", "0x1003"),
            ("mtu", "9000"),
            ("carrier", "1"),
            ("speed", "10000"),
            ("bonding_slave/perm_hwaddr", "52:54:00:aa:bb:03"),
        ];
        link("ens3", "pci0000:00/0000:00:03.0", &port);
        tree.add("sys/devices/pci0000:00/0000:00:03.0/net/ens3/device/vendor", "0x8086\n");
        tree.add("sys/devices/pci0000:00/0000:00:03.0/net/ens3/device/device", "0x1572\n");
        link("ens2", "pci0000:00/0000:00:02.0", &[("ifindex", "2"), ("address", "52:54:00:aa:bb:02"), ("speed", "-1")]);
        link("bond0", "virtual", &[("ifindex", "10"), ("address", "52:54:00:aa:bb:01"), ("uevent", "DEVTYPE=bond")]);
        link("tap0", "virtual", &[("ifindex", "11"), ("tun_flags", "0x1002"), ("address", "52:54:00:aa:bb:11")]);
        tree.add("sys/class/net/bonding_masters", "bond0\n");
        tree
    }

    #[test]
    fn a_captured_machine() {
        let tree = machine();
        let found = network(&tree.root());
        assert!(found.routes.is_empty());
        let kinds: Vec<_> = found.interfaces.iter().map(|i| (i.name.as_str(), i.kind.as_str())).collect();
        let expected =
            [("lo", "device"), ("ens2", "physical"), ("ens3", "physical"), ("bond0", "bond"), ("tap0", "tuntap")];
        assert_eq!(kinds, expected);
        let ens3 = &found.interfaces[2];
        assert_eq!(ens3.mac_address, "52:54:00:aa:bb:03");
        assert_eq!((ens3.mtu, ens3.speed_mbps, ens3.has_carrier), (9000, 10000, true));
        assert_eq!((ens3.vendor.as_str(), ens3.product.as_str()), ("0x8086", "0x1572"));
        assert_eq!(ens3.flags, ["up", "broadcast", "multicast"]);
        assert_eq!(found.interfaces[1].speed_mbps, -1);
        let lo = &found.interfaces[0];
        assert_eq!((lo.mac_address.as_str(), lo.mtu, lo.has_carrier), ("", 65536, true));
    }

    #[test]
    fn addresses_and_routes_come_together() {
        let tree = machine();
        let links = link::from_sysfs(&tree.root());
        let address =
            |link, ip: &str, prefix_len| rtnetlink::Address { link, ip: ip.parse().unwrap(), prefix_len, flags: 0 };
        let addresses = [
            address(3, "192.168.127.10", 24),
            address(3, "169.254.3.4", 16),
            address(3, "fe80::1", 64),
            address(3, "fd00:127::10", 128),
            address(3, "fd00:99::10", 128),
        ];
        let advertised = rtnetlink::Route {
            link: Some(3),
            is_by_router: true,
            ..rtnetlink::Route::new("fd00:127::".parse().unwrap(), 64)
        };
        let found = assemble(&tree.root(), links, &addresses, &[advertised]);
        assert_eq!(found.interfaces[2].ipv4_addresses, ["192.168.127.10/24"]);
        assert_eq!(found.interfaces[2].ipv6_addresses, ["fd00:127::10/64", "fd00:99::10/128"]);
        assert_eq!(found.routes[0].interface, "ens3");
    }
}
