//! UDP over IPv4 (RFC 768, RFC 791) in whole packets, as a packet socket sees them.

use pnet_packet::{
    ip::IpNextHeaderProtocols,
    ipv4::{Ipv4Packet, MutableIpv4Packet},
    udp::{MutableUdpPacket, UdpPacket},
    util::{checksum, ipv4_checksum},
};
use std::net::{Ipv4Addr, SocketAddrV4};

const IP_HEADER_BYTES: usize = Ipv4Packet::minimum_packet_size();
const HEADER_BYTES: usize = UdpPacket::minimum_packet_size();
const MORE_FRAGMENTS: u8 = 1;
const HOPS: u8 = 64;
const IP_CHECKSUM_WORD: usize = 5;
const CHECKSUM_WORD: usize = 3;
/// To the library: the sum is to leave no word out.
const NO_WORD: usize = usize::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: SocketAddrV4,
    /// Who is to read it.
    pub destination: SocketAddrV4,
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads an IPv4 packet; `None` unless it is a whole datagram with right checksums.
    ///
    /// A datagram sent on this machine (by a server in another network namespace, or to a virtual machine) comes with the
    /// checksum that the network card would have completed: the pseudo header's sum alone. That counts as right.
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv4Packet::new(packet)?;
        let header_bytes = usize::from(ip.get_header_length()) * 4;
        let total_bytes = usize::from(ip.get_total_length());
        let fragment = ip.get_fragment_offset() != 0 || ip.get_flags() & MORE_FRAGMENTS != 0;
        let ours = ip.get_version() == 4
            && header_bytes >= IP_HEADER_BYTES
            && ip.get_next_level_protocol() == IpNextHeaderProtocols::Udp
            && !fragment;
        // Behind the total length is what a driver padded a short frame with.
        let (header, body) = packet.get(..total_bytes).filter(|_| ours)?.split_at_checked(header_bytes)?;
        if checksum(header, IP_CHECKSUM_WORD) != ip.get_checksum() {
            return None;
        }
        let length = usize::from(UdpPacket::new(body)?.get_length());
        let body = body.get(..length)?;
        let udp = UdpPacket::new(body)?;
        let (from, to) = (ip.get_source(), ip.get_destination());
        let absent = udp.get_checksum() == 0;
        let unfinished = udp.get_checksum() == !checksum(&pseudo_header(from, to, udp.get_length()), NO_WORD);
        let right = udp.get_checksum() == udp_checksum(body, from, to);
        (absent || unfinished || right).then_some(Self {
            source: SocketAddrV4::new(from, udp.get_source()),
            destination: SocketAddrV4::new(to, udp.get_destination()),
            payload: body.get(HEADER_BYTES..)?,
        })
    }

    /// The IPv4 packet, with all checksums; `None` when the payload is too long for one.
    pub fn to_packet(&self) -> Option<Vec<u8>> {
        let length = u16::try_from(HEADER_BYTES + self.payload.len()).ok()?;
        let total = u16::try_from(IP_HEADER_BYTES).ok()?.checked_add(length)?;
        let (from, to) = (*self.source.ip(), *self.destination.ip());
        let mut bytes = vec![0; IP_HEADER_BYTES + HEADER_BYTES];
        bytes.extend_from_slice(self.payload);
        let (header, body) = bytes.split_at_mut(IP_HEADER_BYTES);

        let mut ip = MutableIpv4Packet::new(header).expect("the buffer is as long as the header");
        ip.set_version(4);
        ip.set_header_length(5);
        ip.set_total_length(total);
        ip.set_ttl(HOPS);
        ip.set_next_level_protocol(IpNextHeaderProtocols::Udp);
        ip.set_source(from);
        ip.set_destination(to);
        let sum = checksum(header, IP_CHECKSUM_WORD).to_be_bytes();
        header[10..12].copy_from_slice(&sum);

        let mut udp = MutableUdpPacket::new(body).expect("the buffer is longer than the header");
        udp.set_source(self.source.port());
        udp.set_destination(self.destination.port());
        udp.set_length(length);
        let sum = udp_checksum(body, from, to).to_be_bytes();
        body[6..8].copy_from_slice(&sum);
        Some(bytes)
    }
}

/// A sum of zero goes out as its other form, all ones: zero says that there is none.
fn udp_checksum(body: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> u16 {
    match ipv4_checksum(body, CHECKSUM_WORD, &[], &from, &to, IpNextHeaderProtocols::Udp) {
        0 => 0xffff,
        sum => sum,
    }
}

/// What the checksum covers besides the datagram (RFC 768).
fn pseudo_header(from: Ipv4Addr, to: Ipv4Addr, length: u16) -> [u8; 12] {
    let ([a, b, c, d], [e, f, g, h]) = (from.octets(), to.octets());
    let [high, low] = length.to_be_bytes();
    [a, b, c, d, e, f, g, h, 0, IpNextHeaderProtocols::Udp.0, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram(payload: &[u8]) -> Datagram<'_> {
        Datagram {
            source: SocketAddrV4::new(Ipv4Addr::new(192, 168, 127, 1), 67),
            destination: SocketAddrV4::new(Ipv4Addr::BROADCAST, 68),
            payload,
        }
    }

    #[test]
    fn headers_have_the_bytes_of_the_standards() {
        let sent = Datagram {
            source: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68),
            destination: SocketAddrV4::new(Ipv4Addr::BROADCAST, 67),
            payload: b"abc",
        };
        // Sums by hand: 4500+001f+4011+ffff+ffff = 8532 with its carry; 0011+000b+ffff+ffff+0044+0043+000b+6162+6300 = c510.
        let expected = [
            0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0x7a, 0xcf, 0, 0, 0, 0, 255, 255, 255, 255, //
            0, 68, 0, 67, 0, 11, 0x3a, 0xef, b'a', b'b', b'c',
        ];
        let packet = sent.to_packet().unwrap();
        assert_eq!(packet, expected, "{packet:02x?}");
    }

    #[test]
    fn a_flipped_bit_is_seen_wherever_it_is() {
        let good = datagram(b"payload").to_packet().unwrap();
        assert_eq!(Datagram::parse(&good), Some(datagram(b"payload")));
        for byte in 0..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 4;
            assert_eq!(Datagram::parse(&bad), None, "byte {byte}");
        }
    }

    #[test]
    fn a_checksum_left_to_the_network_card_counts_as_right() {
        let mut packet = datagram(b"payload").to_packet().unwrap();
        // c0a8 + 7f01 + ffff + ffff + 0011 + 000f = 13fc9 with its carries: 3fca.
        packet[26..28].copy_from_slice(&[0x3f, 0xca]);
        assert_eq!(Datagram::parse(&packet), Some(datagram(b"payload")));
        packet[26..28].copy_from_slice(&[0, 0]);
        assert_eq!(Datagram::parse(&packet), Some(datagram(b"payload")), "none at all");
        packet[26..28].copy_from_slice(&[0x3f, 0xcb]);
        assert_eq!(Datagram::parse(&packet), None);
    }

    #[test]
    fn a_payload_longer_than_a_packet_is_refused() {
        assert_eq!(datagram(&[0; 65508]).to_packet(), None);
        assert_eq!(datagram(&[0; 65507]).to_packet().map(|packet| packet.len()), Some(65535));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..96), like_ours: bool) {
            if let (true, Some(start)) = (like_ours, bytes.get_mut(..10)) {
                start[0] = 0x45 + (start[0] & 3);
                start[2] = 0;
                start[6..8].fill(0);
                start[9] = 17;
            }
            let _ = Datagram::parse(&bytes);
        }

        #[test]
        fn what_is_written_is_read_back(
            a: [u8; 4], b: [u8; 4], from: u16, to: u16,
            payload in prop::collection::vec(any::<u8>(), 0..1500), padding in 0usize..20,
        ) {
            let datagram = Datagram {
                source: SocketAddrV4::new(a.into(), from),
                destination: SocketAddrV4::new(b.into(), to),
                payload: &payload,
            };
            let mut packet = datagram.to_packet().unwrap();
            prop_assert_eq!(checksum(&packet[..20], NO_WORD), 0, "a header with its checksum sums to zero");
            packet.resize(packet.len() + padding, 0xaa);
            prop_assert_eq!(Datagram::parse(&packet), Some(datagram));
        }
    }
}
