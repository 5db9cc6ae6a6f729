//! The kernel's tables of links, addresses and routes (rtnetlink(7)), as far as the stations need them. The namespace is the
//! calling thread's.

use super::Error;
use api::Mac;
use netlink_packet_core::{
    DecodeError, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NlaBuffer, NlasIterator, Parseable, ParseableParametrized,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressHeader, AddressMessage},
    link::{self, LinkAttribute, LinkHeader, LinkInfo, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteLwEnCapType, RouteMessage, RouteType, RouteVia},
};
use nix::sys::{
    socket::{
        AddressFamily as SocketFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        setsockopt, socket, sockopt::ReceiveTimeout,
    },
    time::{TimeVal, TimeValLike},
};
use std::{io, net::IpAddr, os::fd::AsRawFd};

/// The kernel answers at once; this is for one that never does.
const TIMEOUT_S: i64 = 2;
/// The kernel's datagrams are 32 KiB at most, or as large as the largest message.
const DATAGRAM_BYTES: usize = 256 << 10;
/// A router's table of routes is not read to its end.
const MAX_ENTRIES: usize = 100_000;
const SEQUENCE: u32 = 1;

// Lengths of `struct ifinfomsg`, `ifaddrmsg`, `rtmsg`; attributes follow.
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
const ROUTE_BYTES: usize = 12;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub index: u32,
    pub name: String,
    /// ARPHRD_ number.
    pub technology: u16,
    /// IFF_ flags.
    pub flags: u32,
    pub mac: Option<Mac>,
    /// Waits for an event outside (RFC 2863).
    pub is_dormant: bool,
    /// What software interface it is (`bond`, `vlan`); absent on hardware.
    pub kind: Option<String>,
    /// The interface that it is a port of.
    pub master: Option<u32>,
}

impl Link {
    fn parse(entry: &[u8]) -> Option<Self> {
        let header = LinkHeader::parse(entry).ok()?;
        let mut link = Self {
            index: header.index,
            technology: header.link_layer_type.into(),
            flags: header.flags.bits(),
            ..Self::default()
        };
        let parse = |raw| LinkAttribute::parse_with_param(&raw, header.interface_family).ok();
        for attribute in attributes(entry, LINK_BYTES).filter_map(parse) {
            match attribute {
                LinkAttribute::Address(octets) => link.mac = octets.try_into().ok().map(Mac),
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Controller(index) => link.master = Some(index),
                LinkAttribute::OperState(state) => link.is_dormant = state == link::State::Dormant,
                LinkAttribute::LinkInfo(facts) => {
                    link.kind = facts.iter().find_map(|fact| match fact {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        (!link.name.is_empty()).then_some(link)
    }
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub link: u32,
    pub ip: IpAddr,
    pub prefix_bits: u8,
    /// IFA_F_ flags.
    pub flags: u32,
}

impl Address {
    fn parse(entry: &[u8]) -> Option<Self> {
        let header = AddressHeader::parse(entry).ok()?;
        let (mut local, mut address, mut flags) = (None, None, u32::from(header.flags.bits()));
        for attribute in attributes(entry, ADDRESS_BYTES).filter_map(|raw| AddressAttribute::parse(&raw).ok()) {
            match attribute {
                // On a point-to-point link the first is the other end's.
                AddressAttribute::Address(ip) => address = Some(ip),
                AddressAttribute::Local(ip) => local = Some(ip),
                AddressAttribute::Flags(all) => flags = all.bits(),
                _ => {}
            }
        }
        Some(Self { link: header.index, ip: local.or(address)?, prefix_bits: header.prefix_len, flags })
    }
}

/// A way for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
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
    pub link: Option<u32>,
    /// Lower wins.
    pub metric: u32,
}

impl Route {
    /// Of several next hops the first is taken.
    fn parse(entry: &[u8]) -> Option<Self> {
        let header = RouteHeader::parse(entry).ok()?;
        let is_ipv4 = match header.address_family {
            AddressFamily::Inet => true,
            AddressFamily::Inet6 => false,
            _ => return None,
        };
        let main = RouteHeader::RT_TABLE_MAIN;
        let mut route = Self {
            is_ipv4,
            prefix_bits: header.destination_prefix_length,
            is_main: header.table == main,
            is_local: header.kind == RouteType::Local,
            is_dead_end: matches!(
                header.kind,
                RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit | RouteType::Throw
            ),
            gateway: None,
            link: None,
            metric: 0,
        };
        let context = (header.address_family, header.kind, RouteLwEnCapType::None);
        let parse = |raw| RouteAttribute::parse_with_param(&raw, context).ok();
        for attribute in attributes(entry, ROUTE_BYTES).filter_map(parse) {
            match attribute {
                RouteAttribute::Priority(metric) => route.metric = metric,
                RouteAttribute::Table(table) => route.is_main = table == u32::from(main),
                RouteAttribute::MultiPath(hops) => {
                    let Some(first) = hops.into_iter().next() else { continue };
                    route.link = Some(first.interface_index);
                    first.attributes.into_iter().for_each(|attribute| route.take_hop(attribute));
                }
                other => route.take_hop(other),
            }
        }
        Some(route)
    }

    fn take_hop(&mut self, attribute: RouteAttribute) {
        match attribute {
            RouteAttribute::Oif(index) => self.link = Some(index),
            RouteAttribute::Gateway(RouteAddress::Inet(v4)) | RouteAttribute::Via(RouteVia::Inet(v4)) => {
                self.gateway = Some(v4.into());
            }
            RouteAttribute::Gateway(RouteAddress::Inet6(v6)) | RouteAttribute::Via(RouteVia::Inet6(v6)) => {
                self.gateway = Some(v6.into());
            }
            _ => {}
        }
    }
}

/// The attributes behind the header of an entry. Callers take one that can't be decoded, because this kernel writes it in another
/// way, as absent: a message parsed as a whole would be lost with it.
fn attributes(entry: &[u8], header_bytes: usize) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(entry.get(header_bytes..).unwrap_or_default()).map_while(Result::ok)
}

pub(super) fn links() -> Result<Vec<Link>, Error> {
    table(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP, "interfaces", Link::parse)
}

pub(super) fn addresses() -> Result<Vec<Address>, Error> {
    table(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP, "addresses", Address::parse)
}

/// Default routes of the main table, the preferred first.
pub(super) fn default_routes() -> Result<Vec<Route>, Error> {
    let request = RouteNetlinkMessage::GetRoute(RouteMessage::default());
    let mut routes = table(request, NLM_F_DUMP, "routes", Route::parse)?;
    routes.retain(|route| route.prefix_bits == 0 && route.is_main && !route.is_dead_end && route.link.is_some());
    routes.sort_by_key(|route| (!route.is_ipv4, route.metric, route.gateway));
    Ok(routes)
}

/// The way to an address; `None` where the kernel has none.
pub(super) fn route_to(destination: IpAddr) -> Result<Option<Route>, Error> {
    let mut message = RouteMessage::default();
    let (family, bits) = if destination.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
    message.header.address_family = family;
    message.header.destination_prefix_length = bits;
    message.attributes.push(RouteAttribute::Destination(destination.into()));
    match table(RouteNetlinkMessage::GetRoute(message), 0, "a route", Route::parse) {
        Ok(routes) => Ok(routes.into_iter().next().filter(|route| !route.is_dead_end)),
        Err(Error::Netlink { source, .. }) if leads_nowhere(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

fn leads_nowhere(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL))
}

/// A message of a table, behind its netlink header.
#[derive(Debug, PartialEq, Eq)]
struct Entry(Vec<u8>);

impl NetlinkDeserializable for Entry {
    type Error = DecodeError;
    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(payload.to_vec()))
    }
}

/// What a datagram holds for us: entries, and whether more datagrams follow.
fn entries(datagram: &[u8]) -> io::Result<(Vec<Entry>, bool)> {
    let (mut found, mut rest) = (Vec::new(), datagram);
    while let Ok(NetlinkMessage { header, payload, .. }) = NetlinkMessage::deserialize(rest) {
        let length = usize::try_from(header.length).map_err(io::Error::other)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        if header.sequence_number != SEQUENCE {
            continue;
        }
        let errno = match payload {
            NetlinkPayload::InnerMessage(entry) => {
                found.push(entry);
                continue;
            }
            NetlinkPayload::Done(done) => done.code,
            NetlinkPayload::Error(error) => error.raw_code(),
            _ => continue,
        };
        return if errno == 0 { Ok((found, false)) } else { Err(io::Error::from_raw_os_error(errno.saturating_neg())) };
    }
    Ok((found, true))
}

fn table<T>(
    request: RouteNetlinkMessage,
    flags: u16,
    what: &'static str,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let fail = |source: io::Error| Error::Netlink { what, source };
    let socket = socket(SocketFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
        .map_err(|errno| fail(errno.into()))?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(TIMEOUT_S)).map_err(|errno| fail(errno.into()))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = SEQUENCE;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &bytes, &kernel, MsgFlags::empty()).map_err(|errno| fail(errno.into()))?;
    let mut found = Vec::new();
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        let length = match recv(socket.as_raw_fd(), &mut datagram, MsgFlags::empty()) {
            Err(nix::errno::Errno::EINTR) => continue,
            other => other.map_err(|errno| fail(errno.into()))?,
        };
        let (some, more) = entries(datagram.get(..length).unwrap_or_default()).map_err(fail)?;
        found.extend(some.iter().filter_map(|Entry(bytes)| parse(bytes)));
        if !more || flags & NLM_F_DUMP == 0 || found.len() > MAX_ENTRIES {
            return Ok(found);
        }
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

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len() + 16).unwrap();
        let kind = u32::from(kind);
        [&[length, kind, sequence, 0].map(u32::to_ne_bytes).concat(), payload].concat()
    }

    #[test]
    fn entries_are_read() {
        let mut link =
            [&[0; 2][..], &1u16.to_ne_bytes(), &3u32.to_ne_bytes(), &0x1003u32.to_ne_bytes(), &[0; 4]].concat();
        // A table of VLANs nobody can read.
        link.extend(attribute(26, &[1, 2, 3]));
        link.extend(attribute(3, b"bond0\0"));
        link.extend(attribute(1, &[2, 0, 0, 0, 0, 1]));
        link.extend(attribute(16, &[5]));
        link.extend(attribute(0x8000 | 18, &attribute(1, b"bond\0")));
        let expected = Link {
            index: 3,
            name: "bond0".into(),
            technology: 1,
            flags: 0x1003,
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            is_dormant: true,
            kind: Some("bond".into()),
            master: None,
        };
        assert_eq!(Link::parse(&link), Some(expected));

        let mut address = [&[2, 32, 0x80, 0][..], &3u32.to_ne_bytes()].concat();
        address.extend(attribute(1, &[10, 0, 0, 2]));
        address.extend(attribute(2, &[10, 0, 0, 1]));
        address.extend(attribute(8, &0x280u32.to_ne_bytes()));
        let expected = Address { link: 3, ip: [10, 0, 0, 1].into(), prefix_bits: 32, flags: 0x280 };
        assert_eq!(Address::parse(&address), Some(expected));
    }

    #[test]
    fn routes_lead_to_their_first_hop() {
        let header = [2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        let route = |attributes: &[Vec<u8>]| Route::parse(&[&header[..], &attributes.concat()].concat()).unwrap();
        let link = |index: u32| attribute(4, &index.to_ne_bytes());
        let plain = Route {
            is_ipv4: true,
            prefix_bits: 0,
            is_main: true,
            is_local: false,
            is_dead_end: false,
            gateway: Some([10, 0, 0, 1].into()),
            link: Some(3),
            metric: 100,
        };
        let metric = || attribute(6, &100u32.to_ne_bytes());
        assert_eq!(route(&[metric(), attribute(5, &[10, 0, 0, 1]), link(3)]), plain);
        let hop = |last, index: u32| {
            let gateway = attribute(5, &[10, 0, 0, last]);
            [&[16, 0, 0, 0][..], &index.to_ne_bytes(), &gateway].concat()
        };
        assert_eq!(route(&[metric(), attribute(9, &[hop(1, 3), hop(2, 4)].concat())]), plain);
        let sixth: IpAddr = "fe80::1".parse().unwrap();
        let via = [&10u16.to_ne_bytes()[..], &[0xfe, 0x80], &[0; 13], &[1]].concat();
        assert_eq!(route(&[metric(), attribute(18, &via), link(3)]), Route { gateway: Some(sixth), ..plain });
        let elsewhere = [metric(), attribute(5, &[10, 0, 0, 1]), link(3), attribute(15, &1000u32.to_ne_bytes())];
        assert_eq!(route(&elsewhere), Route { is_main: false, ..plain });
    }

    #[test]
    fn refusals_are_told_from_the_end() {
        let error = |errno: i32| message(2, SEQUENCE, &[errno.saturating_neg().to_ne_bytes(), [0; 4]].concat());
        assert_eq!(entries(&error(101)).unwrap_err().raw_os_error(), Some(101));
        assert_eq!(entries(&error(0)).unwrap(), (vec![], false));
        let table = [message(16, SEQUENCE, b"ours"), message(16, 2, b"them"), message(16, SEQUENCE, b"mine")].concat();
        let found = || vec![Entry(b"ours".to_vec()), Entry(b"mine".to_vec())];
        assert_eq!(entries(&table).unwrap(), (found(), true));
        let whole = [table, message(3, SEQUENCE, &[0; 4])].concat();
        assert_eq!(entries(&whole).unwrap(), (found(), false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = entries(&bytes);
            let _ = (Link::parse(&bytes), Address::parse(&bytes), Route::parse(&bytes));
        }

        #[test]
        fn any_attributes_are_survived(
            family in prop::sample::select(vec![2u8, 10, 0]),
            kinds in prop::collection::vec((0u16..70, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        ) {
            let attributes: Vec<u8> = kinds.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect();
            let entry = |header_bytes: usize| [&[family][..], &vec![0; header_bytes - 1], &attributes].concat();
            let _ = Link::parse(&entry(LINK_BYTES));
            let _ = Address::parse(&entry(ADDRESS_BYTES));
            let _ = Route::parse(&entry(ROUTE_BYTES));
        }
    }
}
