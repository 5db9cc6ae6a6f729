//! LLDP (IEEE 802.1AB-2016): what a switch says of the port we are plugged into.

use super::text::printable;
use api::Mac;
use kernel::hex;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// OUI of the extensions of IEEE 802.1 (802.1Q-2018 annex D).
const IEEE_802_1: [u8; 3] = [0x00, 0x80, 0xc2];
/// OUI of the extensions of IEEE 802.3 (802.3-2018 clause 79).
const IEEE_802_3: [u8; 3] = [0x00, 0x12, 0x0f];
/// IANA's numbers of address families.
const FAMILY_IPV4: u8 = 1;
const FAMILY_IPV6: u8 = 2;
const FAMILY_802: u8 = 6;

/// One advertisement. Texts are as the switch wrote them, made [`printable`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advertisement {
    /// Who: a switch, and the port of it.
    pub chassis: Identifier,
    /// See `chassis`.
    pub port: Identifier,
    /// How long this is true, seconds; zero takes back what was said.
    pub valid_s: u16,
    /// What the port is called by people.
    pub port_description: Option<String>,
    /// The switch's name.
    pub system_name: Option<String>,
    /// Make and version.
    pub system_description: Option<String>,
    /// Where it is managed.
    pub management_addresses: Vec<IpAddr>,
    /// The VLAN that untagged frames belong to (802.1 subtype 1); zero means none.
    pub port_vlan: Option<u16>,
    /// VLANs with names (802.1 subtype 3).
    pub vlans: Vec<Vlan>,
    /// The port's part in a bond.
    pub aggregation: Option<Aggregation>,
    /// The largest frame the port takes (802.3 subtype 4), bytes. That is with header and check sequence, 18 or 22 bytes more
    /// than the MTU; but some agents, lldpd for one, write the MTU.
    pub max_frame_bytes: Option<u16>,
}

/// A chassis or a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Identifier {
    /// What it is: one of `chassis component`, `interface alias`, `port component`, `MAC address`, `network address`,
    /// `interface name`, `circuit ID`, `local`, or `subtype N`.
    pub kind: String,
    /// In the form usual for that.
    pub value: String,
}

/// A VLAN of the port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vlan {
    /// 1 to 4094.
    pub id: u16,
    /// May be empty.
    pub name: String,
}

/// Link aggregation (802.1AX-2014 annex F; formerly 802.3 annex G, with the same fields).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Aggregation {
    /// The port can be part of a bond.
    pub capable: bool,
    /// It is.
    pub active: bool,
    /// Of which: the aggregate's interface number.
    pub port: u32,
}

impl Advertisement {
    /// Reads the payload of an LLDP frame; `None` unless chassis, port and time to live come first, in this order.
    ///
    /// What follows is read up to the first element that is cut short; elements that are not known or damaged are skipped.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut elements = Elements(payload);
        let mandatory = |wanted| move |element: &Element<'_>| element.kind == wanted;
        let chassis = elements.next().filter(mandatory(1))?;
        let port = elements.next().filter(mandatory(2))?;
        let ttl = elements.next().filter(mandatory(3))?;
        let mut found = Self {
            chassis: identifier(chassis.value, CHASSIS_KINDS)?,
            port: identifier(port.value, PORT_KINDS)?,
            valid_s: u16::from_be_bytes(*ttl.value.first_chunk()?),
            ..Self::default()
        };
        for element in elements.take_while(|element| element.kind != 0) {
            match element.kind {
                4 => found.port_description = text(element.value),
                5 => found.system_name = text(element.value),
                6 => found.system_description = text(element.value),
                8 => found.management_addresses.extend(management_address(element.value)),
                127 => found.read_organisational(element.value),
                _ => {}
            }
        }
        Some(found)
    }

    fn read_organisational(&mut self, value: &[u8]) {
        let Some((organisation, [subtype, value @ ..])) = value.split_first_chunk::<3>() else { return };
        match (*organisation, *subtype, value) {
            (IEEE_802_1, 1, &[high, low]) => self.port_vlan = Some(u16::from_be_bytes([high, low])),
            (IEEE_802_1, 3, &[high, low, length, ref name @ ..]) => {
                if let Some(name) = name.get(..usize::from(length)) {
                    let id = u16::from_be_bytes([high, low]);
                    self.vlans.push(Vlan { id, name: text(name).unwrap_or_default() });
                }
            }
            (IEEE_802_1, 7, value) | (IEEE_802_3, 3, value) => {
                self.aggregation = aggregation(value).or(self.aggregation);
            }
            (IEEE_802_3, 4, &[high, low]) => self.max_frame_bytes = Some(u16::from_be_bytes([high, low])),
            _ => {}
        }
    }
}

struct Element<'a> {
    kind: u8,
    value: &'a [u8],
}

/// Type in seven bits, length in nine, value.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let ([first, second], rest) = self.0.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([first & 1, *second]));
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Element { kind: first >> 1, value })
    }
}

/// Names of the subtypes from 1 on (802.1AB-2016 tables 8-2 and 8-3).
type Kinds = [&'static str; 7];
const CHASSIS_KINDS: Kinds = [
    "chassis component",
    "interface alias",
    "port component",
    "MAC address",
    "network address",
    "interface name",
    "local",
];
const PORT_KINDS: Kinds =
    ["interface alias", "port component", "MAC address", "network address", "interface name", "circuit ID", "local"];

fn identifier(value: &[u8], kinds: Kinds) -> Option<Identifier> {
    let (subtype, value) = value.split_first()?;
    let kind = usize::from(*subtype).checked_sub(1).and_then(|index| kinds.get(index)).copied();
    let value = match (kind, value) {
        (Some("MAC address"), value) => mac(value),
        (Some("network address"), [family, address @ ..]) => match (family, ip(*family, address)) {
            (_, Some(ip)) => Some(ip.to_string()),
            (&FAMILY_802, None) => mac(address),
            _ => None,
        },
        (Some(_), value) => text(value),
        (None, _) => None,
    }
    .unwrap_or_else(|| hex::colons(value));
    let kind = kind.map_or_else(|| format!("subtype {subtype}"), str::to_owned);
    Some(Identifier { kind, value })
}

fn mac(value: &[u8]) -> Option<String> {
    Some(Mac(value.try_into().ok()?).to_string())
}

fn ip(family: u8, address: &[u8]) -> Option<IpAddr> {
    match family {
        FAMILY_IPV4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).into()),
        FAMILY_IPV6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).into()),
        _ => None,
    }
}

/// Length of family and address, family, address; what follows (interface number, object) is not wanted.
fn management_address(value: &[u8]) -> Option<IpAddr> {
    let (length, value) = value.split_first()?;
    let (family, address) = value.get(..usize::from(*length))?.split_first()?;
    ip(*family, address)
}

fn aggregation(value: &[u8]) -> Option<Aggregation> {
    let (status, port) = value.split_first()?;
    let port = u32::from_be_bytes(port.try_into().ok()?);
    Some(Aggregation { capable: status & 1 != 0, active: status & 2 != 0, port })
}

fn text(value: &[u8]) -> Option<String> {
    Some(printable(value)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(kind: u8, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).unwrap();
        assert!(length < 512);
        let mut bytes = (u16::from(kind) << 9 | length).to_be_bytes().to_vec();
        bytes.extend_from_slice(value);
        bytes
    }

    /// An advertisement's bytes with the given elements behind the mandatory ones.
    fn advertisement(elements: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = element(1, &[4, 0x52, 0x54, 0, 0xaa, 0xbb, 1]);
        bytes.extend(element(2, b"\x05Ethernet1/7"));
        bytes.extend(element(3, &[0, 120]));
        bytes.extend(elements.iter().flat_map(|(kind, value)| element(*kind, value)));
        bytes
    }

    #[test]
    fn a_switch_says_all_there_is() {
        let mut bytes = advertisement(&[
            (4, b"rack 7 unit 12"),
            (5, b"leaf-07\0"),
            (6, b"NX-OS 10.3"),
            (7, &[0, 4, 0, 4]),
            (8, &[5, 1, 10, 0, 0, 7, 2, 0, 0, 0, 1, 0]),
            (8, &[17, 2, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 2, 0, 0, 0, 1, 0]),
            (8, &[7, 6, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0]),
            (127, &[0x00, 0x80, 0xc2, 1, 0, 126]),
            (127, b"\x00\x80\xc2\x03\x00\x7e\x07machine"),
            (127, b"\x00\x80\xc2\x03\x00\x7f\x00"),
            (127, &[0x00, 0x80, 0xc2, 7, 3, 0, 0, 0, 101]),
            (127, &[0x00, 0x12, 0x0f, 4, 0x24, 0x12]),
            (127, &[0x00, 0x01, 0x42, 1, 1]),
            (0, &[]),
        ]);
        bytes.extend(element(5, b"behind the end"));
        let expected = Advertisement {
            chassis: Identifier { kind: "MAC address".into(), value: "52:54:00:aa:bb:01".into() },
            port: Identifier { kind: "interface name".into(), value: "Ethernet1/7".into() },
            valid_s: 120,
            port_description: Some("rack 7 unit 12".into()),
            system_name: Some("leaf-07".into()),
            system_description: Some("NX-OS 10.3".into()),
            management_addresses: vec!["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()],
            port_vlan: Some(126),
            vlans: vec![Vlan { id: 126, name: "machine".into() }, Vlan { id: 127, name: String::new() }],
            aggregation: Some(Aggregation { capable: true, active: true, port: 101 }),
            max_frame_bytes: Some(9234),
        };
        assert_eq!(Advertisement::parse(&bytes), Some(expected));
    }

    #[test]
    fn identifiers_have_the_form_of_their_kind() {
        for (value, kind, text) in [
            (&[4, 2, 0, 0, 0, 0, 1][..], "MAC address", "02:00:00:00:00:01"),
            (&[4, 2, 0, 0], "MAC address", "02:00:00"),
            (&[5, 1, 10, 0, 0, 7], "network address", "10.0.0.7"),
            (&[5, 6, 2, 0, 0, 0, 0, 1], "network address", "02:00:00:00:00:01"),
            (&[5, 9, 1], "network address", "09:01"),
            (&[5], "network address", ""),
            (b"\x07leaf", "local", "leaf"),
            (b"\x01leaf", "chassis component", "leaf"),
            (&[7, 0xff, b'a'], "local", "\u{fffd}a"),
            (&[0, 1], "subtype 0", "01"),
            (&[8, 0xab, 0xcd], "subtype 8", "ab:cd"),
        ] {
            let expected = Identifier { kind: kind.to_owned(), value: text.to_owned() };
            assert_eq!(identifier(value, CHASSIS_KINDS), Some(expected), "{value:?}");
        }
        assert_eq!(identifier(b"\x06agent", PORT_KINDS).unwrap().kind, "circuit ID");
        assert_eq!(identifier(&[], PORT_KINDS), None);
    }

    #[test]
    fn without_who_where_and_how_long_it_is_nothing() {
        assert!(Advertisement::parse(&advertisement(&[])).is_some());
        let wrong_order = [element(2, b"\x05a"), element(1, b"\x07b"), element(3, &[0, 1])].concat();
        assert_eq!(Advertisement::parse(&wrong_order), None);
        assert_eq!(Advertisement::parse(&advertisement(&[])[..22]), None, "no time to live");
    }

    #[test]
    fn a_damaged_element_costs_itself_only() {
        let damaged = [
            (127, &[0x00, 0x80, 0xc2, 1, 0][..]),
            (127, &[0x00, 0x80, 0xc2, 3, 0, 1, 200, b'a']),
            (127, &[0x00, 0x12, 0x0f, 3, 1]),
            (127, &[0x00, 0x12]),
            (8, &[200, 1, 10]),
            (8, &[]),
        ];
        let mut expected = Advertisement::parse(&advertisement(&[])).unwrap();
        let mut elements = damaged.to_vec();
        elements.push((5, b"leaf-07"));
        expected.system_name = Some("leaf-07".into());
        assert_eq!(Advertisement::parse(&advertisement(&elements)), Some(expected));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(rest in prop::collection::vec(any::<u8>(), 0..600), mandatory: bool) {
            let mut bytes = if mandatory { advertisement(&[]) } else { Vec::new() };
            bytes.extend_from_slice(&rest);
            let found = Advertisement::parse(&bytes);
            prop_assert!(found.is_some() || !mandatory);
        }

        #[test]
        fn any_element_is_survived(kind in prop_oneof![Just(8u8), Just(127), 0u8..128], value in prop::collection::vec(any::<u8>(), 0..300), of in 0usize..3) {
            let mut whole = [&IEEE_802_1[..], &IEEE_802_3, &[]][of].to_vec();
            whole.extend_from_slice(&value);
            prop_assert!(Advertisement::parse(&advertisement(&[(kind, &whole)])).is_some());
        }
    }
}
