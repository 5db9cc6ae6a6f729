//! ICMPv4 (RFC 792) and ICMPv6 (RFC 4443) echo: one layout, two sets of type numbers.

use pnet_packet::{
    icmp::{
        IcmpCode, IcmpType,
        echo_request::{EchoRequestPacket, MutableEchoRequestPacket},
    },
    util::checksum,
};
use std::net::IpAddr;

/// Bytes of the ICMP header in front of the payload.
pub const HEADER_BYTES: usize = EchoRequestPacket::minimum_packet_size();
const ICMP_PROTOCOL: u8 = 1;
const IPV4_HEADER_BYTES: usize = 20;
const CHECKSUM_WORD: usize = 1;

/// Which protocol carries the echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// ICMP over IPv4.
    V4,
    /// ICMPv6 over IPv6.
    V6,
}

impl From<IpAddr> for Family {
    fn from(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl Family {
    /// Bytes of the network header without options.
    pub fn network_header_bytes(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    fn type_number(self, kind: Kind) -> u8 {
        match (self, kind) {
            (Self::V4, Kind::Request) => 8,
            (Self::V4, Kind::Reply) => 0,
            (Self::V6, Kind::Request) => 128,
            (Self::V6, Kind::Reply) => 129,
        }
    }
}

/// Question or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To be sent back.
    Request,
    /// Sent back.
    Reply,
}

/// One echo message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Question or answer.
    pub kind: Kind,
    pub identifier: u16,
    pub sequence: u16,
    /// Comes back unchanged.
    pub payload: &'a [u8],
}

impl<'a> Echo<'a> {
    /// Reads an ICMP message.
    ///
    /// The ICMPv4 checksum is verified: a raw socket gets packets before the kernel looks at it. That of ICMPv6 covers
    /// addresses not seen here and the kernel has verified it.
    pub fn parse(family: Family, message: &'a [u8]) -> Option<Self> {
        let packet = EchoRequestPacket::new(message)?;
        let number = packet.get_icmp_type().0;
        let kind = [Kind::Request, Kind::Reply].into_iter().find(|kind| family.type_number(*kind) == number)?;
        if packet.get_icmp_code().0 != 0 {
            return None;
        }
        if family == Family::V4 && packet.get_checksum() != checksum(message, CHECKSUM_WORD) {
            return None;
        }
        Some(Self {
            kind,
            identifier: packet.get_identifier(),
            sequence: packet.get_sequence_number(),
            payload: message.get(HEADER_BYTES..)?,
        })
    }

    /// The ICMP message. The ICMPv6 checksum is left zero: the kernel fills it in on raw sockets.
    pub fn to_bytes(&self, family: Family) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(self.payload);
        let mut packet = MutableEchoRequestPacket::new(&mut bytes).expect("the buffer is longer than the header");
        packet.set_icmp_type(IcmpType(family.type_number(self.kind)));
        packet.set_icmp_code(IcmpCode(0));
        packet.set_identifier(self.identifier);
        packet.set_sequence_number(self.sequence);
        if family == Family::V4 {
            let sum = checksum(&bytes, CHECKSUM_WORD).to_be_bytes();
            bytes[2..4].copy_from_slice(&sum);
        }
        bytes
    }
}

/// The identifier of the echo request that an ICMP error quotes, of which eight bytes are certain (RFC 792).
pub fn quoted_identifier(family: Family, message: &[u8]) -> Option<u16> {
    let (header, _) = message.split_first_chunk::<HEADER_BYTES>()?;
    (header[0] == family.type_number(Kind::Request)).then(|| u16::from_be_bytes([header[4], header[5]]))
}

/// What an IPv4 packet carries, if that is ICMP: raw IPv4 sockets deliver the network header too.
pub fn icmp_of_ipv4(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let header_bytes = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header_bytes < IPV4_HEADER_BYTES || *packet.get(9)? != ICMP_PROTOCOL {
        return None;
    }
    packet.get(header_bytes..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn family() -> impl Strategy<Value = Family> {
        prop_oneof![Just(Family::V4), Just(Family::V6)]
    }

    /// RFC 1071 by the letter, to hold the library's sum against.
    fn plain_checksum(bytes: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn a_request_has_the_bytes_of_rfc_792() {
        let request = Echo { kind: Kind::Request, identifier: 0x1234, sequence: 1, payload: &[0xab, 0xcd] };
        assert_eq!(request.to_bytes(Family::V4), [8, 0, 0x39, 0xfd, 0x12, 0x34, 0, 1, 0xab, 0xcd]);
        assert_eq!(request.to_bytes(Family::V6), [128, 0, 0, 0, 0x12, 0x34, 0, 1, 0xab, 0xcd]);
    }

    #[test]
    fn a_flipped_bit_is_seen() {
        let reply = Echo { kind: Kind::Reply, identifier: 7, sequence: 9, payload: b"payload" };
        let mut bytes = reply.to_bytes(Family::V4);
        bytes[10] ^= 4;
        assert_eq!(Echo::parse(Family::V4, &bytes), None);
    }

    #[test]
    fn the_ipv4_header_is_stripped_with_its_options() {
        let mut packet = vec![0x46, 0, 0, 0, 0, 0, 0, 0, 64, 1];
        packet.resize(24, 0);
        packet.extend_from_slice(b"icmp");
        assert_eq!(icmp_of_ipv4(&packet), Some(&b"icmp"[..]));
        packet[0] = 0x44;
        assert_eq!(icmp_of_ipv4(&packet), None, "a header length below 20");
        packet[0] = 0x4f;
        assert_eq!(icmp_of_ipv4(&packet), None, "a header length past the end");
        packet[0] = 0x45;
        packet[9] = 17;
        assert_eq!(icmp_of_ipv4(&packet), None, "UDP");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(family in family(), bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            let _ = Echo::parse(family, &bytes);
            let _ = icmp_of_ipv4(&bytes).and_then(|message| Echo::parse(family, message));
            let _ = quoted_identifier(family, &bytes);
        }

        #[test]
        fn what_is_written_is_read_back(
            family in family(), reply: bool, identifier: u16, sequence: u16,
            payload in prop::collection::vec(any::<u8>(), 0..1500),
        ) {
            let kind = if reply { Kind::Reply } else { Kind::Request };
            let echo = Echo { kind, identifier, sequence, payload: &payload };
            let bytes = echo.to_bytes(family);
            prop_assert_eq!(Echo::parse(family, &bytes), Some(echo));
            prop_assert_eq!(quoted_identifier(family, &bytes[..8]), (!reply).then_some(identifier));
            if family == Family::V4 {
                prop_assert_eq!(plain_checksum(&bytes), 0, "a message with its checksum sums to zero");
            }
        }
    }
}
