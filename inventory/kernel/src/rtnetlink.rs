//! Messages of rtnetlink(7): requests for links, addresses and routes, and the entries that answer them. Pure.
//!
//! Only the attributes that are used are decoded, and one that can't be decoded counts as missing: an attribute that a
//! kernel changes must not cost the entire interface. A route is lost with it, since it would lead elsewhere.

use crate::netlink::{Request, attribute, attributes, u32_of};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, BorrowedFd},
};

// linux/rtnetlink.h
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
/// Of `struct ifinfomsg`: family, padding, type (2 bytes), index (4), flags (4), changed flags (4).
const LINK_HEADER_BYTES: usize = 16;
/// Of `struct ifaddrmsg`: family, length of the prefix, flags, scope, index (4 bytes).
const ADDRESS_HEADER_BYTES: usize = 8;
/// Of `struct rtmsg`: family, lengths of destination and source, tos, table, protocol, scope, type, flags (4 bytes).
const ROUTE_HEADER_BYTES: usize = 12;
/// Of `struct rtnexthop`: length (2 bytes), flags, hops, interface index (4 bytes); attributes follow.
const NEXT_HOP_BYTES: usize = 8;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
/// The table that packets of a host go by.
pub const MAIN_TABLE: u32 = 254;
const RTPROT_RA: u8 = 9;
const RTN_LOCAL: u8 = 2;
/// `RTN_BLACKHOLE`, `RTN_UNREACHABLE`, `RTN_PROHIBIT`, `RTN_THROW`.
const DEAD_ENDS: [u8; 4] = [6, 7, 8, 9];
const RTM_F_CLONED: u32 = 0x200;
// linux/if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_CARRIER: u16 = 33;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_BOND_SLAVE_PERM_HWADDR: u16 = 4;
// linux/if_addr.h
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// `IFF_UP` of linux/if.h.
const IFF_UP: u32 = 1;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// 2.
    Inet,
    /// 10.
    Inet6,
}

impl Family {
    fn new(number: u8) -> Option<Self> {
        [Self::Inet, Self::Inet6].into_iter().find(|family| family.number() == number)
    }

    fn number(self) -> u8 {
        match self {
            Self::Inet => 2,
            Self::Inet6 => 10,
        }
    }

    fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Inet } else { Self::Inet6 }
    }

    /// The address `0.0.0.0` or `::`.
    fn unspecified(self) -> IpAddr {
        match self {
            Self::Inet => Ipv4Addr::UNSPECIFIED.into(),
            Self::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// An address of the family's length.
    fn address(self, value: &[u8]) -> Option<IpAddr> {
        Some(match self {
            Self::Inet => Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into(),
            Self::Inet6 => Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into(),
        })
    }
}

/// Asks for all links.
pub fn links() -> Request {
    Request { kind: RTM_GETLINK, body: vec![0; LINK_HEADER_BYTES] }
}

/// Asks for the addresses of all links, of both families.
pub fn addresses() -> Request {
    Request { kind: RTM_GETADDR, body: vec![0; ADDRESS_HEADER_BYTES] }
}

/// Asks for the routes of both families in all tables.
pub fn routes() -> Request {
    Request { kind: RTM_GETROUTE, body: vec![0; ROUTE_HEADER_BYTES] }
}

/// Asks for the family's routes in the main table.
pub fn main_routes(family: Family) -> Request {
    let mut request = routes();
    request.body[0] = family.number();
    request.body[4] = 254;
    request
}

/// Asks for the route of packets to an address.
pub fn route_to(destination: IpAddr) -> Request {
    let mut request = routes();
    request.body[0] = Family::of(destination).number();
    let (bits, octets) = match destination {
        IpAddr::V4(v4) => (32, v4.octets().to_vec()),
        IpAddr::V6(v6) => (128, v6.octets().to_vec()),
    };
    request.body[1] = bits;
    request.body.extend(attribute(RTA_DST, &octets));
    request
}

/// Moves a link to the network namespace behind a descriptor.
pub fn move_link(index: u32, namespace: BorrowedFd<'_>) -> Request {
    let mut body = link_header(index, 0);
    body.extend([8, IFLA_NET_NS_FD].map(u16::to_ne_bytes).concat());
    body.extend(namespace.as_raw_fd().to_ne_bytes());
    Request { kind: RTM_NEWLINK, body }
}

/// Switches a link on.
pub fn set_up(index: u32) -> Request {
    Request { kind: RTM_NEWLINK, body: link_header(index, IFF_UP) }
}

/// Gives a link an address.
pub fn add_address(index: u32, address: Ipv4Addr, prefix_len: u8) -> Request {
    let mut body = vec![Family::Inet.number(), prefix_len, 0, 0];
    body.extend(index.to_ne_bytes());
    for attribute in [IFA_ADDRESS, IFA_LOCAL] {
        body.extend([8, attribute].map(u16::to_ne_bytes).concat());
        body.extend(address.octets());
    }
    Request { kind: RTM_NEWADDR, body }
}

/// A `struct ifinfomsg` that sets these flags.
fn link_header(index: u32, flags: u32) -> Vec<u8> {
    [[0; 4], index.to_ne_bytes(), flags.to_ne_bytes(), flags.to_ne_bytes()].concat()
}

/// `RTM_NEWLINK`: a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number in this namespace.
    pub index: u32,
    /// Not empty.
    pub name: String,
    /// `ARPHRD_` number.
    pub technology: u16,
    /// `IFF_` flags.
    pub flags: u32,
    /// Bytes.
    pub mtu: u32,
    /// Hardware address; of a bond's port its permanent one. `None` for all zeros or none.
    pub address: Option<Vec<u8>>,
    /// Whether the driver sees a carrier.
    pub has_carrier: bool,
    /// State of operation (RFC 2863, `IF_OPER_` numbers).
    pub state: u8,
    /// What software interface it is (`bond`, `vlan`); absent on hardware.
    pub kind: Option<String>,
    /// The interface that it is a port of.
    pub master: Option<u32>,
}

impl Link {
    /// Reads an entry, without its netlink header.
    pub fn parse(entry: &[u8]) -> Option<Self> {
        let header = entry.first_chunk::<LINK_HEADER_BYTES>()?;
        let [_, _, t0, t1, i0, i1, i2, i3, f0, f1, f2, f3, ..] = *header;
        let mut link = Self {
            technology: u16::from_ne_bytes([t0, t1]),
            index: u32::from_ne_bytes([i0, i1, i2, i3]),
            flags: u32::from_ne_bytes([f0, f1, f2, f3]),
            ..Self::default()
        };
        let mut permanent = None;
        for (attribute, value) in attributes(entry, LINK_HEADER_BYTES) {
            match attribute {
                IFLA_IFNAME => link.name = crate::bytes::text(value),
                IFLA_MTU => link.mtu = u32_of(value).unwrap_or(0),
                IFLA_ADDRESS => link.address = hardware_address(value),
                IFLA_CARRIER => link.has_carrier = value == [1],
                IFLA_OPERSTATE => link.state = value.first().copied().unwrap_or(0),
                IFLA_MASTER => link.master = u32_of(value),
                IFLA_LINKINFO => {
                    let find = |wanted| find(value, 0, wanted);
                    link.kind = find(IFLA_INFO_KIND).map(crate::bytes::text);
                    if find(IFLA_INFO_SLAVE_KIND).is_some_and(|kind| crate::bytes::text(kind) == "bond") {
                        let port = attributes(find(IFLA_INFO_SLAVE_DATA).unwrap_or_default(), 0);
                        let own = port.filter(|(attribute, _)| *attribute == IFLA_BOND_SLAVE_PERM_HWADDR);
                        permanent = own.filter_map(|(_, value)| hardware_address(value)).next();
                    }
                }
                _ => {}
            }
        }
        link.address = permanent.or(link.address);
        (!link.name.is_empty()).then_some(link)
    }
}

fn hardware_address(value: &[u8]) -> Option<Vec<u8>> {
    value.iter().any(|byte| *byte != 0).then(|| value.to_vec())
}

fn find(message: &[u8], header_bytes: usize, wanted: u16) -> Option<&[u8]> {
    attributes(message, header_bytes).find(|(attribute, _)| *attribute == wanted).map(|(_, value)| value)
}

/// `RTM_NEWADDR`: an address of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the link.
    pub link: u32,
    /// The local address, which on a point-to-point link is not the one the message is named by.
    pub ip: IpAddr,
    /// Bits.
    pub prefix_len: u8,
    /// `IFA_F_` flags.
    pub flags: u32,
}

impl Address {
    /// Reads an entry, without its netlink header.
    pub fn parse(entry: &[u8]) -> Option<Self> {
        let [family, prefix_len, flags, _, i0, i1, i2, i3] = *entry.first_chunk::<ADDRESS_HEADER_BYTES>()?;
        let find = |wanted| find(entry, ADDRESS_HEADER_BYTES, wanted);
        let ip = Family::new(family)?.address(find(IFA_LOCAL).or_else(|| find(IFA_ADDRESS))?)?;
        let flags = find(IFA_FLAGS).and_then(u32_of).unwrap_or(flags.into());
        Some(Self { link: u32::from_ne_bytes([i0, i1, i2, i3]), ip, prefix_len, flags })
    }
}

/// `RTM_NEWROUTE`: a way for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Of the destination.
    pub family: Family,
    /// [`MAIN_TABLE`] or another.
    pub table: u32,
    /// The network that it leads to.
    pub destination: IpAddr,
    /// Of the destination, in bits; 0 for a default route.
    pub prefix_len: u8,
    /// Next hop; absent where the destination is a neighbour.
    pub gateway: Option<IpAddr>,
    /// Index of the output interface. Of several next hops, this and the gateway are the first one's.
    pub link: Option<u32>,
    /// Lower wins.
    pub metric: u32,
    /// Learnt from a router advertisement.
    pub is_by_router: bool,
    /// To an address of this host.
    pub is_local: bool,
    /// Leads nowhere: blackhole, unreachable, prohibit, throw.
    pub is_dead_end: bool,
    /// A cached answer of the kernel, not an entry of the table.
    pub is_cached: bool,
}

impl Route {
    /// A route of the main table that goes nowhere yet.
    pub fn new(destination: IpAddr, prefix_len: u8) -> Self {
        Self {
            family: Family::of(destination),
            table: MAIN_TABLE,
            destination,
            prefix_len,
            gateway: None,
            link: None,
            metric: 0,
            is_by_router: false,
            is_local: false,
            is_dead_end: false,
            is_cached: false,
        }
    }

    /// Reads an entry, without its netlink header.
    pub fn parse(entry: &[u8]) -> Option<Self> {
        let [family, prefix_len, _, _, table, protocol, _, kind, f0, f1, f2, f3] =
            *entry.first_chunk::<ROUTE_HEADER_BYTES>()?;
        let family = Family::new(family)?;
        let mut route = Self {
            table: table.into(),
            is_by_router: protocol == RTPROT_RA,
            is_local: kind == RTN_LOCAL,
            is_dead_end: DEAD_ENDS.contains(&kind),
            is_cached: u32::from_ne_bytes([f0, f1, f2, f3]) & RTM_F_CLONED != 0,
            ..Self::new(family.unspecified(), prefix_len)
        };
        let mut hops = None;
        for (attribute, value) in attributes(entry, ROUTE_HEADER_BYTES) {
            match attribute {
                RTA_DST => route.destination = family.address(value)?,
                RTA_PRIORITY => route.metric = u32_of(value)?,
                RTA_TABLE => route.table = u32_of(value)?,
                RTA_MULTIPATH => hops = Some(value),
                _ => route.take_hop(attribute, value),
            }
        }
        if let Some(hops) = hops {
            route.take_first(hops);
        }
        Some(route)
    }

    fn take_hop(&mut self, attribute: u16, value: &[u8]) {
        match attribute {
            RTA_OIF => self.link = u32_of(value),
            RTA_GATEWAY => self.gateway = self.family.address(value),
            // A gateway of the other family: its family in two bytes, then the address.
            RTA_VIA => {
                self.gateway = value.split_first_chunk::<2>().and_then(|(family, address)| {
                    Family::new(u8::try_from(u16::from_ne_bytes(*family)).ok()?)?.address(address)
                });
            }
            _ => {}
        }
    }

    fn take_first(&mut self, hops: &[u8]) {
        let first = hops.first_chunk::<NEXT_HOP_BYTES>().and_then(|header| {
            let [l0, l1, _, _, i0, i1, i2, i3] = *header;
            Some((u32::from_ne_bytes([i0, i1, i2, i3]), hops.get(..usize::from(u16::from_ne_bytes([l0, l1])))?))
        });
        if let Some((link, hop)) = first {
            (self.link, self.gateway) = (Some(link), None);
            for (attribute, value) in attributes(hop, NEXT_HOP_BYTES) {
                self.take_hop(attribute, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_the_kernels_structures() {
        assert_eq!((links().kind, links().body.len()), (18, 16));
        assert_eq!((addresses().kind, addresses().body.len()), (22, 8));
        assert_eq!(main_routes(Family::Inet6).body, [10, 0, 0, 0, 254, 0, 0, 0, 0, 0, 0, 0]);
        let header = [2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(route_to([192, 0, 2, 1].into()).body, [&header[..], &attribute(1, &[192, 0, 2, 1])].concat());
        let header = [10, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        assert_eq!(route_to(address.into()).body, [&header[..], &attribute(1, &address.octets())].concat());
    }

    #[test]
    fn links_are_read() {
        let header =
            [&[0; 2][..], &1u16.to_ne_bytes(), &3u32.to_ne_bytes(), &0x1003u32.to_ne_bytes(), &[0; 4]].concat();
        let parts = [
            // A table of VLANs that is not one.
            attribute(26, &[1, 2, 3]),
            attribute(IFLA_IFNAME, b"bond0\0"),
            attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
            attribute(IFLA_MTU, &1400u32.to_ne_bytes()),
            attribute(IFLA_OPERSTATE, &[5]),
            attribute(IFLA_CARRIER, &[1]),
            attribute(IFLA_MASTER, &7u32.to_ne_bytes()),
            attribute(0x8000 | IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, b"bond\0")),
        ];
        let expected = Link {
            index: 3,
            name: "bond0".into(),
            technology: 1,
            flags: 0x1003,
            mtu: 1400,
            address: Some(vec![2, 0, 0, 0, 0, 1]),
            has_carrier: true,
            state: 5,
            kind: Some("bond".into()),
            master: Some(7),
        };
        assert_eq!(Link::parse(&[header.clone(), parts.concat()].concat()), Some(expected));
        assert_eq!(Link::parse(&header), None);
        assert_eq!(Link::parse(&header[..15]), None);
    }

    #[test]
    fn addresses_are_the_local_ones() {
        let peer = attribute(IFA_ADDRESS, &[10, 0, 0, 2]);
        let local = attribute(IFA_LOCAL, &[10, 0, 0, 1]);
        let header = |family| [&[family, 32, 0x80, 0][..], &7u32.to_ne_bytes()].concat();
        let address = Address { link: 7, ip: [10, 0, 0, 1].into(), prefix_len: 32, flags: 0x80 };
        let message = [header(2), peer.clone(), local.clone()].concat();
        assert_eq!(Address::parse(&message), Some(address.clone()));
        let flags = attribute(IFA_FLAGS, &0x280u32.to_ne_bytes());
        assert_eq!(Address::parse(&[message, flags].concat()), Some(Address { flags: 0x280, ..address }));
        assert_eq!(Address::parse(&[header(10), local].concat()), None);
    }

    #[test]
    fn a_port_of_a_bond_keeps_its_address() {
        let port = attribute(IFLA_BOND_SLAVE_PERM_HWADDR, &[2, 0, 0, 0, 0, 9]);
        let info = [attribute(IFLA_INFO_SLAVE_KIND, b"bond\0"), attribute(IFLA_INFO_SLAVE_DATA, &port)].concat();
        let parts = [
            attribute(IFLA_IFNAME, b"eth1\0"),
            attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
            attribute(IFLA_LINKINFO, &info),
        ];
        let link = Link::parse(&[vec![0; LINK_HEADER_BYTES], parts.concat()].concat()).unwrap();
        assert_eq!(link.address, Some(vec![2, 0, 0, 0, 0, 9]));
    }

    #[test]
    fn routes_lead_to_their_first_hop() {
        let header = [2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        let route = |attributes: &[Vec<u8>]| Route::parse(&[&header[..], &attributes.concat()].concat()).unwrap();
        let link = |index: u32| attribute(RTA_OIF, &index.to_ne_bytes());
        let to_all = Route::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let plain = Route { gateway: Some([10, 0, 0, 1].into()), link: Some(3), metric: 100, ..to_all };
        let metric = || attribute(RTA_PRIORITY, &100u32.to_ne_bytes());
        assert_eq!(route(&[metric(), attribute(RTA_GATEWAY, &[10, 0, 0, 1]), link(3)]), plain);
        let hop = |last, index: u32| {
            let gateway = attribute(RTA_GATEWAY, &[10, 0, 0, last]);
            [&16u16.to_ne_bytes()[..], &[0, 0], &index.to_ne_bytes(), &gateway].concat()
        };
        assert_eq!(route(&[metric(), attribute(RTA_MULTIPATH, &[hop(1, 3), hop(2, 4)].concat())]), plain);
        let sixth: IpAddr = "fe80::1".parse().unwrap();
        let via = [&10u16.to_ne_bytes()[..], &[0xfe, 0x80], &[0; 13], &[1]].concat();
        assert_eq!(route(&[metric(), attribute(RTA_VIA, &via), link(3)]), Route { gateway: Some(sixth), ..plain });
        let table = attribute(RTA_TABLE, &1000u32.to_ne_bytes());
        assert_eq!(
            route(&[metric(), attribute(RTA_GATEWAY, &[10, 0, 0, 1]), link(3), table]),
            Route { table: 1000, ..plain }
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Link::parse(&bytes), Address::parse(&bytes), Route::parse(&bytes));
        }

        #[test]
        fn any_attributes_are_survived(
            family in prop::sample::select(vec![2u8, 10, 0]),
            kinds in prop::collection::vec((0u16..70, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        ) {
            let attributes: Vec<u8> = kinds.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect();
            let entry = |header_bytes: usize| [&[family][..], &vec![0; header_bytes - 1], &attributes].concat();
            let _ = Link::parse(&entry(LINK_HEADER_BYTES));
            let _ = Address::parse(&entry(ADDRESS_HEADER_BYTES));
            let _ = Route::parse(&entry(ROUTE_HEADER_BYTES));
        }
    }
}
