//! Which of a name's addresses is tried first: by RFC 6724 §6, and then the families by turns (RFC 8305 §4).

use std::{
    cmp::Reverse,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

/// Prefix, its length, precedence and label (RFC 6724 §2.1).
const POLICY: [(Ipv6Addr, u32, u8, u8); 9] = [
    (Ipv6Addr::LOCALHOST, 128, 50, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 35, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 1, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 30, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 1, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 1, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 3, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 40, 1),
];

/// Puts `addresses` into the order in which they are tried. `source` tells from which address packets to one would leave; `None`
/// where there is no route. Equal ones stay in the name server's order.
pub fn order(mut addresses: Vec<SocketAddr>, source: impl Fn(SocketAddr) -> Option<IpAddr>) -> Vec<SocketAddr> {
    addresses.sort_by_cached_key(|address| {
        let there = address.ip();
        let from = source(*address);
        let differs = |property: fn(IpAddr) -> u8| from.is_some_and(|from| property(from) != property(there));
        (from.is_none(), differs(scope), differs(label), Reverse(policy(there).0), scope(there))
    });
    let Some(first) = addresses.first().map(SocketAddr::is_ipv4) else { return addresses };
    let (one, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv4() == first);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut by_turns = Vec::with_capacity(one.len() + other.len());
    while one.len() + other.len() > 0 {
        by_turns.extend(one.next());
        by_turns.extend(other.next());
    }
    by_turns
}

/// The address that the kernel would send from; nothing is sent.
pub fn source_towards(address: SocketAddr) -> Option<IpAddr> {
    let unspecified: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((unspecified, 0)).ok()?;
    // Port 0 can't be connected to everywhere.
    let port = if address.port() == 0 { 9 } else { address.port() };
    let mut address = address;
    address.set_port(port);
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Precedence and label.
fn policy(address: IpAddr) -> (u8, u8) {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let fits = |prefix: &Ipv6Addr, len: u32| {
        let differing = prefix.to_bits() ^ address.to_bits();
        differing.leading_zeros() >= len
    };
    let row = POLICY.iter().find(|(prefix, len, ..)| fits(prefix, *len));
    row.map_or((40, 1), |(_, _, precedence, label)| (*precedence, *label))
}

fn label(address: IpAddr) -> u8 {
    policy(address).1
}

/// RFC 6724 §3.1 and §3.2: how far an address reaches, in multicast's numbers.
fn scope(address: IpAddr) -> u8 {
    const LINK: u8 = 2;
    const SITE: u8 = 5;
    const GLOBAL: u8 = 14;
    match address {
        IpAddr::V4(address) if address.is_loopback() || address.is_link_local() => LINK,
        IpAddr::V4(_) => GLOBAL,
        IpAddr::V6(address) if address.is_loopback() || address.is_unicast_link_local() => LINK,
        IpAddr::V6(address) if address.segments().first().is_some_and(|first| first & 0xffc0 == 0xfec0) => SITE,
        IpAddr::V6(_) => GLOBAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `addresses` in the order they are tried on a host that has `sources`: the one of the same family whose scope fits, else any.
    fn tried(addresses: &[&str], sources: &[&str]) -> Vec<String> {
        let sources: Vec<IpAddr> = sources.iter().map(|text| text.parse().unwrap()).collect();
        let source = |to: SocketAddr| {
            let same = |from: &&IpAddr| from.is_ipv4() == to.is_ipv4();
            let labelled = sources.iter().filter(same).find(|from| label(**from) == label(to.ip()));
            let fitting = sources.iter().filter(same).find(|from| scope(**from) == scope(to.ip()));
            labelled.or(fitting).or_else(|| sources.iter().find(same)).copied()
        };
        let addresses = addresses.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 80)).collect();
        order(addresses, source).iter().map(|address| address.ip().to_string()).collect()
    }

    #[test]
    fn addresses_that_fit_the_host_s_own_come_first() {
        for (first, last, sources) in [
            // No IPv6 but on the link.
            ("198.51.100.121", "2001:db8:1::1", &["fe80::1", "198.51.100.117"][..]),
            // No IPv4 but on the link.
            ("2001:db8:1::1", "198.51.100.121", &["2001:db8:1::2", "169.254.13.78"]),
            // Both are well.
            ("2001:db8:1::1", "10.1.2.3", &["2001:db8:1::2", "10.1.2.4"]),
            // No IPv6 at all, no IPv4 at all.
            ("10.1.2.3", "2001:db8:1::1", &["10.1.2.4"]),
            ("2001:db8:1::1", "10.1.2.3", &["2001:db8:1::2"]),
            // Unique local addresses reach less far than IPv4 does.
            ("10.1.2.3", "fd00:9::1", &["10.1.2.4", "fd00:9::2"]),
            // Neither is a tunnel better.
            ("198.51.100.121", "2002:c633:6401::1", &["198.51.100.117", "2002:c633:6401::2"]),
            ("2002:c633:6401::1", "2001:db8:1::1", &["2002:c633:6401::2", "fe80::2"]),
        ] {
            assert_eq!(tried(&[first, last], sources), [first, last], "{sources:?}");
            assert_eq!(tried(&[last, first], sources), [first, last], "{sources:?}");
        }
    }

    #[test]
    fn families_take_turns_and_a_server_s_order_stays() {
        let sources = ["2001:db8::9", "10.0.0.9"];
        let addresses = ["10.0.0.3", "10.0.0.1", "10.0.0.2", "2001:db8::2", "2001:db8::1"];
        let expected = ["2001:db8::2", "10.0.0.3", "2001:db8::1", "10.0.0.1", "10.0.0.2"];
        assert_eq!(tried(&addresses, &sources), expected);
    }

    #[test]
    fn the_loopback_is_reached_from_itself() {
        assert_eq!(source_towards("127.0.0.1:80".parse().unwrap()), Some(Ipv4Addr::LOCALHOST.into()));
    }

    proptest! {
        #[test]
        fn no_address_is_lost(addresses: Vec<(IpAddr, u16)>, has_route: Vec<bool>) {
            let addresses: Vec<SocketAddr> = addresses.into_iter().map(SocketAddr::from).collect();
            let source = |to: SocketAddr| has_route.get(usize::from(to.port()) % (has_route.len() + 1))
                .filter(|has| **has).map(|_| to.ip());
            let mut ordered = order(addresses.clone(), source);
            let mut expected = addresses;
            ordered.sort();
            expected.sort();
            prop_assert_eq!(ordered, expected);
        }
    }
}
