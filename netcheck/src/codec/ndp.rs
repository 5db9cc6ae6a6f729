//! Neighbour solicitation and advertisement (RFC 4861 §4.3, §4.4) as whole IPv6 packets.

use super::ethernet::{self, Frame};
use api::Mac;
use pnet_packet::{
    ip::IpNextHeaderProtocols,
    ipv6::{Ipv6Packet, MutableIpv6Packet},
    util::ipv6_checksum,
};
use std::net::Ipv6Addr;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Solicited and override: the answer to a question.
const ANSWER_FLAGS: u8 = 0x60;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// Packets that crossed a router have less (RFC 4861 §7.1): no off-link station can forge them.
const HOP_LIMIT: u8 = 255;
const IPV6_HEADER_BYTES: usize = Ipv6Packet::minimum_packet_size();
/// Type, code, checksum, flags and reserved, target.
const BODY_BYTES: usize = 24;
const LINK_ADDRESS_OPTION_BYTES: usize = 8;
const CHECKSUM_WORD: usize = 1;

/// Question or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Who has the target address?
    Solicitation,
    /// I have the target address.
    Advertisement,
}

/// One neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Question or answer.
    pub kind: Kind,
    /// Sender's address.
    pub source: Ipv6Addr,
    /// Receiver's address.
    pub destination: Ipv6Addr,
    /// The address asked for or answered for.
    pub target: Ipv6Addr,
    /// The source (question) or target (answer) link-layer address option.
    pub link_address: Option<Mac>,
}

impl Neighbour {
    /// Reads an IPv6 packet; `None` unless it is a valid solicitation or advertisement (RFC 4861 §7.1).
    ///
    /// Extension headers are not followed: a fragmented message must be ignored (RFC 6980).
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let header = Ipv6Packet::new(packet)?;
        let ours = header.get_version() == 6
            && header.get_next_header() == IpNextHeaderProtocols::Icmpv6
            && header.get_hop_limit() == HOP_LIMIT;
        if !ours {
            return None;
        }
        let (source, destination) = (header.get_source(), header.get_destination());
        // What follows the stated length is Ethernet padding.
        let message = packet.get(IPV6_HEADER_BYTES..)?.get(..usize::from(header.get_payload_length()))?;
        let (body, options) = message.split_first_chunk::<BODY_BYTES>()?;
        let (kind, option) = match body[0] {
            SOLICITATION => (Kind::Solicitation, SOURCE_LINK_ADDRESS),
            ADVERTISEMENT => (Kind::Advertisement, TARGET_LINK_ADDRESS),
            _ => return None,
        };
        let sum = ipv6_checksum(message, CHECKSUM_WORD, &[], &source, &destination, IpNextHeaderProtocols::Icmpv6);
        let target = Ipv6Addr::from(*body.last_chunk::<16>()?);
        if body[1] != 0 || [body[2], body[3]] != sum.to_be_bytes() || target.is_multicast() {
            return None;
        }
        Some(Self { kind, source, destination, target, link_address: link_address(options, option)? })
    }

    /// The IPv6 packet, checksum included.
    pub fn to_packet(&self) -> Vec<u8> {
        let (number, flags, option) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0, SOURCE_LINK_ADDRESS),
            Kind::Advertisement => (ADVERTISEMENT, ANSWER_FLAGS, TARGET_LINK_ADDRESS),
        };
        let mut message = vec![number, 0, 0, 0, flags, 0, 0, 0];
        message.extend_from_slice(&self.target.octets());
        let mut length: u16 = 24;
        if let Some(mac) = self.link_address {
            message.extend_from_slice(&[option, 1]);
            message.extend_from_slice(&mac.0);
            length += 8;
        }
        let protocol = IpNextHeaderProtocols::Icmpv6;
        let sum = ipv6_checksum(&message, CHECKSUM_WORD, &[], &self.source, &self.destination, protocol);
        message[2..4].copy_from_slice(&sum.to_be_bytes());

        let mut packet = vec![0; IPV6_HEADER_BYTES];
        let mut header = MutableIpv6Packet::new(&mut packet).expect("the buffer is as long as the header");
        header.set_version(6);
        header.set_payload_length(length);
        header.set_next_header(protocol);
        header.set_hop_limit(HOP_LIMIT);
        header.set_source(self.source);
        header.set_destination(self.destination);
        packet.extend_from_slice(&message);
        packet
    }
}

/// Finds an Ethernet address among the options. The outer `None` says that the options are malformed: a length of zero
/// or past the end voids the whole message.
fn link_address(mut options: &[u8], wanted: u8) -> Option<Option<Mac>> {
    let mut found = None;
    while !options.is_empty() {
        let &[kind, units, ..] = options else { return None };
        let bytes = usize::from(units) * 8;
        if bytes == 0 {
            return None;
        }
        let (option, rest) = options.split_at_checked(bytes)?;
        if kind == wanted && bytes == LINK_ADDRESS_OPTION_BYTES && found.is_none() {
            found = option.last_chunk::<6>().map(|mac| Mac(*mac));
        }
        options = rest;
    }
    Some(found)
}

/// The frame that asks for the owner of `target`, sent to its group.
///
/// With an unspecified `source` it is the question of duplicate address detection (RFC 4862 §5.4.2), which carries no
/// link-layer address; the answer then goes to all nodes.
pub fn question(own_mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let (destination, group_mac) = solicited_node(target);
    let link_address = (!source.is_unspecified()).then_some(own_mac);
    let payload = Neighbour { kind: Kind::Solicitation, source, destination, target, link_address }.to_packet();
    Frame { destination: group_mac, source: own_mac, ethertype: ethernet::IPV6, payload: &payload }.to_bytes()
}

/// The multicast group that the owner of `target` listens to (RFC 4291 §2.7.1), and its Ethernet address (RFC 2464 §7).
pub fn solicited_node(target: Ipv6Addr) -> (Ipv6Addr, Mac) {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    (group, Mac([0x33, 0x33, 0xff, a, b, c]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn advertisement() -> Neighbour {
        Neighbour {
            kind: Kind::Advertisement,
            source: "fd00::12".parse().unwrap(),
            destination: "fd00::11".parse().unwrap(),
            target: "fd00::12".parse().unwrap(),
            link_address: Some(Mac([0x52, 0x54, 0, 0xaa, 0xbb, 2])),
        }
    }

    /// Sets a byte and makes the checksum right again, so that only the rule under test can refuse.
    fn with_byte(offset: usize, value: u8) -> Vec<u8> {
        let mut packet = advertisement().to_packet();
        packet[offset] = value;
        let (source, destination) = (advertisement().source, advertisement().destination);
        let sum = ipv6_checksum(&packet[40..], 1, &[], &source, &destination, IpNextHeaderProtocols::Icmpv6);
        packet[42..44].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn the_rules_of_rfc_4861_hold() {
        assert_eq!(Neighbour::parse(&advertisement().to_packet()), Some(advertisement()));
        for (offset, value, why) in [
            (0, 0x40, "not version 6"),
            (6, 17, "UDP"),
            (7, 254, "crossed a router"),
            (5, 200, "longer than the packet"),
            (5, 10, "shorter than the body"),
            (40, 134, "router advertisement"),
            (41, 1, "code"),
            (48, 0xff, "multicast target"),
            (65, 0, "option of no length"),
            (65, 2, "option past the end"),
        ] {
            assert_eq!(Neighbour::parse(&with_byte(offset, value)), None, "{why}");
        }
        let mut packet = advertisement().to_packet();
        packet[42] ^= 1;
        assert_eq!(Neighbour::parse(&packet), None, "checksum");
    }

    #[test]
    fn another_option_gives_no_address_and_padding_is_ignored() {
        let other = Neighbour::parse(&with_byte(64, 14)).unwrap();
        assert_eq!(other.link_address, None);
        let mut padded = advertisement().to_packet();
        padded.extend_from_slice(&[0; 9]);
        assert_eq!(Neighbour::parse(&padded), Some(advertisement()));
    }

    #[test]
    fn a_question_names_the_asker_unless_it_is_for_duplicates() {
        let mac = Mac([0x52, 0x54, 0, 0xaa, 0xbb, 1]);
        let target: Ipv6Addr = "fd00::12".parse().unwrap();
        for (source, link_address) in [("fd00::11", Some(mac)), ("::", None)] {
            let source = source.parse().unwrap();
            let bytes = question(mac, source, target);
            let frame = Frame::parse(&bytes).unwrap();
            let (destination, group_mac) = solicited_node(target);
            assert_eq!((frame.destination, frame.source, frame.ethertype), (group_mac, mac, ethernet::IPV6));
            let expected = Neighbour { kind: Kind::Solicitation, source, destination, target, link_address };
            assert_eq!(Neighbour::parse(frame.payload), Some(expected));
        }
    }

    #[test]
    fn groups_come_from_the_last_three_bytes() {
        let (group, mac) = solicited_node("fd00:127::12:3456".parse().unwrap());
        assert_eq!(group, "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap());
        assert_eq!(mac.to_string(), "33:33:ff:12:34:56");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let _ = Neighbour::parse(&bytes);
        }

        #[test]
        fn any_options_are_survived(options in prop::collection::vec(any::<u8>(), 0..64), wanted: u8) {
            let _ = link_address(&options, wanted);
        }

        #[test]
        fn damage_is_survived(offset in 0usize..72, value: u8, length in 0usize..72) {
            let _ = Neighbour::parse(&with_byte(offset, value)[..length]);
        }

        #[test]
        fn what_is_written_is_read_back(
            answer: bool, source: [u8; 16], destination: [u8; 16], target: [u8; 16], mac: Option<[u8; 6]>,
        ) {
            prop_assume!(target[0] != 0xff);
            let neighbour = Neighbour {
                kind: if answer { Kind::Advertisement } else { Kind::Solicitation },
                source: source.into(),
                destination: destination.into(),
                target: target.into(),
                link_address: mac.map(Mac),
            };
            prop_assert_eq!(Neighbour::parse(&neighbour.to_packet()), Some(neighbour));
        }
    }
}
