//! The kernel's tables of links, addresses and routes, as far as the checks need them (rtnetlink(7), linux/rtnetlink.h).
//!
//! Only wanted attributes are decoded: a kernel that changes another costs nothing.

use api::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER_BYTES: usize = 16;
const FLAG_REQUEST: u16 = 1;
const FLAG_DUMP: u16 = 0x300;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const MAIN_TABLE: u32 = 254;
/// `struct rtnexthop`: length, flags, hops, interface.
const NEXT_HOP_BYTES: usize = 8;

/// `RTM_NEWLINK`.
pub const NEW_LINK: u16 = 16;
/// `RTM_NEWADDR`.
pub const NEW_ADDRESS: u16 = 20;
/// `RTM_NEWROUTE`.
pub const NEW_ROUTE: u16 = 24;

/// What to ask the kernel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// All interfaces.
    Links,
    /// All addresses.
    Addresses,
    /// All routes of both families.
    Routes,
    /// The way a packet to this address takes.
    RouteTo(IpAddr),
}

impl Request {
    /// The datagram that asks.
    pub fn to_bytes(self, sequence: u32) -> Vec<u8> {
        let (kind, flags) = match self {
            Self::Links => (18, FLAG_REQUEST | FLAG_DUMP),
            Self::Addresses => (22, FLAG_REQUEST | FLAG_DUMP),
            Self::Routes => (26, FLAG_REQUEST | FLAG_DUMP),
            Self::RouteTo(_) => (26, FLAG_REQUEST),
        };
        let mut body = vec![0; if matches!(self, Self::Addresses) { 8 } else { 16 }];
        if let Self::RouteTo(destination) = self {
            let (family, bits, octets) = match destination {
                IpAddr::V4(v4) => (AF_INET, 32, v4.octets().to_vec()),
                IpAddr::V6(v6) => (AF_INET6, 128, v6.octets().to_vec()),
            };
            body.truncate(12);
            if let [first, second, ..] = body.as_mut_slice() {
                (*first, *second) = (family, bits);
            }
            body.extend(u16::try_from(octets.len() + 4).unwrap_or_default().to_ne_bytes());
            body.extend(1u16.to_ne_bytes());
            body.extend(octets);
        }
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or_default();
        let mut message = length.to_ne_bytes().to_vec();
        message.extend([kind, flags].map(u16::to_ne_bytes).concat());
        message.extend([sequence, 0].map(u32::to_ne_bytes).concat());
        message.extend(body);
        message
    }
}

/// A message of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// An entry of a table: its type and what follows the netlink header.
    Entry(u16, &'a [u8]),
    /// Nothing follows.
    End,
    /// Refused, with this errno.
    Refused(i32),
}

/// The messages of a datagram that answer the request of this number, up to the first malformed one.
pub fn messages(datagram: &[u8], sequence: u32) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        loop {
            let length = usize::try_from(u32_at(rest, 0)?).ok()?;
            let message = rest.get(..length)?;
            let payload = message.get(HEADER_BYTES..)?;
            rest = rest.get(length.checked_next_multiple_of(4)?..).unwrap_or_default();
            if u32_at(message, 8)? != sequence {
                continue;
            }
            let errno = || u32_at(payload, 0).map_or(0, |raw| raw.cast_signed().saturating_neg());
            match u16_at(message, 4)? {
                1 => {}
                2 | 3 if errno() != 0 => return Some(Message::Refused(errno())),
                2 | 3 => return Some(Message::End),
                kind => return Some(Message::Entry(kind, payload)),
            }
        }
    })
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// ARPHRD_ number of its technology.
    pub technology: u16,
    /// IFF_ flags.
    pub flags: u32,
    /// An Ethernet address.
    pub mac: Option<Mac>,
    /// IF_OPER_ number (RFC 2863).
    pub operstate: u8,
    /// What software interface it is (`bond`, `vlan`); absent on hardware.
    pub kind: Option<String>,
    /// The interface that it is a port of.
    pub master: Option<u32>,
}

impl Link {
    /// Reads an entry of the table.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut link = Self {
            index: u32_at(payload, 4)?,
            technology: u16_at(payload, 2)?,
            flags: u32_at(payload, 8)?,
            ..Self::default()
        };
        for (kind, value) in attributes(payload.get(16..)?) {
            match kind {
                1 => link.mac = value.try_into().ok().map(Mac),
                3 => link.name = text(value),
                10 => link.master = u32_at(value, 0),
                16 => link.operstate = value.first().copied().unwrap_or_default(),
                18 => link.kind = attributes(value).find(|(kind, _)| *kind == 1).map(|(_, value)| text(value)),
                _ => {}
            }
        }
        (!link.name.is_empty()).then_some(link)
    }
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's number.
    pub link: u32,
    /// The address.
    pub ip: IpAddr,
    /// Length of its network's prefix.
    pub prefix_bits: u8,
    /// IFA_F_ flags.
    pub flags: u32,
}

impl Address {
    /// Reads an entry of the table.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let &[family, prefix_bits, flags, _, ..] = payload else { return None };
        let (mut local, mut address, mut flags) = (None, None, u32::from(flags));
        for (kind, value) in attributes(payload.get(8..)?) {
            match kind {
                // On a point-to-point link the first is the other end's.
                1 => address = ip(family, value),
                2 => local = ip(family, value),
                8 => flags = u32_at(value, 0).unwrap_or(flags),
                _ => {}
            }
        }
        Some(Self { link: u32_at(payload, 4)?, ip: local.or(address)?, prefix_bits, flags })
    }
}

/// A way for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// IPv4 or IPv6.
    pub is_ipv4: bool,
    /// Length of the destination's prefix; 0 for a default route.
    pub prefix_bits: u8,
    /// In the main table.
    pub is_main: bool,
    /// To an address of our own.
    pub is_local: bool,
    /// Leads nowhere: blackhole, unreachable, prohibit, throw.
    pub is_dead_end: bool,
    /// Next hop; absent where the destination is a neighbour.
    pub gateway: Option<IpAddr>,
    /// Outgoing interface.
    pub link: Option<u32>,
    /// Lower wins.
    pub metric: u32,
}

impl Route {
    /// Reads an entry of the table, or the answer to [`Request::RouteTo`]. Of several next hops the first is taken.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let &[family, prefix_bits, _, _, table, _, _, kind, ..] = payload else { return None };
        let mut table = u32::from(table);
        let mut route = Self {
            is_ipv4: family == AF_INET,
            prefix_bits,
            is_main: false,
            is_local: kind == 2,
            is_dead_end: (6..=9).contains(&kind),
            gateway: None,
            link: None,
            metric: 0,
        };
        for (kind, value) in attributes(payload.get(12..)?) {
            match kind {
                6 => route.metric = u32_at(value, 0)?,
                9 => {
                    let hop = value.get(..usize::from(u16_at(value, 0)?))?;
                    route.link = u32_at(hop, 4);
                    for (kind, value) in attributes(hop.get(NEXT_HOP_BYTES..)?) {
                        route.take_hop(family, kind, value);
                    }
                }
                15 => table = u32_at(value, 0)?,
                _ => route.take_hop(family, kind, value),
            }
        }
        route.is_main = table == MAIN_TABLE;
        matches!(family, AF_INET | AF_INET6).then_some(route)
    }

    fn take_hop(&mut self, family: u8, kind: u16, value: &[u8]) {
        match kind {
            4 => self.link = u32_at(value, 0),
            5 => self.gateway = ip(family, value),
            // A gateway of the other family, behind its family.
            18 => {
                let family = u16_at(value, 0).and_then(|family| u8::try_from(family).ok());
                self.gateway = family.zip(value.get(2..)).and_then(|(family, value)| ip(family, value));
            }
            _ => {}
        }
    }
}

fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        // The upper two bits say how the value is to be read, which is known.
        let kind = u16_at(rest, 2)? & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn text(value: &[u8]) -> String {
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

fn ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::from(*value.first_chunk::<4>()?).into()),
        AF_INET6 => Some(Ipv6Addr::from(*value.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_question_for_a_route_reads_like_one() {
        let request = Request::RouteTo("10.0.0.9".parse().unwrap()).to_bytes(7);
        let found: Vec<_> = messages(&request, 7).collect();
        let [Message::Entry(26, payload)] = found[..] else { panic!("{found:?}") };
        assert_eq!(attributes(&payload[12..]).collect::<Vec<_>>(), [(1, &[10, 0, 0, 9][..])]);
        assert_eq!(messages(&request, 8).count(), 0, "another's");
    }

    #[test]
    fn entries_are_read() {
        let mut link =
            [&[0; 2][..], &1u16.to_ne_bytes(), &3u32.to_ne_bytes(), &0x1003u32.to_ne_bytes(), &[0; 4]].concat();
        link.extend(attribute(3, b"bond0\0"));
        link.extend(attribute(1, &[2, 0, 0, 0, 0, 1]));
        link.extend(attribute(16, &[2]));
        link.extend(attribute(0x8000 | 18, &attribute(1, b"bond\0")));
        let expected = Link {
            index: 3,
            name: "bond0".into(),
            technology: 1,
            flags: 0x1003,
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            operstate: 2,
            kind: Some("bond".into()),
            master: None,
        };
        assert_eq!(Link::parse(&link), Some(expected));

        let mut route = vec![2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        route.extend(attribute(5, &[10, 0, 0, 1]));
        route.extend(attribute(4, &3u32.to_ne_bytes()));
        let route = Route::parse(&route).unwrap();
        assert_eq!((route.gateway, route.link), (Some([10, 0, 0, 1].into()), Some(3)));
        assert!(route.is_main && !route.is_local && !route.is_dead_end);
    }

    #[test]
    fn refusals_are_told_from_the_end() {
        let error = |errno: i32| {
            [
                &20u32.to_ne_bytes()[..],
                &2u16.to_ne_bytes(),
                &[0; 2],
                &1u32.to_ne_bytes(),
                &[0; 4],
                &(-errno).to_ne_bytes(),
            ]
            .concat()
        };
        assert_eq!(messages(&error(101), 1).collect::<Vec<_>>(), [Message::Refused(101)]);
        assert_eq!(messages(&error(0), 1).collect::<Vec<_>>(), [Message::End]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for message in messages(&bytes, 0) {
                if let Message::Entry(_, payload) = message {
                    let _ = (Link::parse(payload), Address::parse(payload), Route::parse(payload));
                }
            }
            let _ = (Link::parse(&bytes), Address::parse(&bytes), Route::parse(&bytes));
        }
    }
}
