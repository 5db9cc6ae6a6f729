//! Ethernet II framing.

use api::Mac;
use pnet_packet::ethernet::{EtherType, EthernetPacket, MutableEthernetPacket};

/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of LLDP.
pub const LLDP: u16 = 0x88cc;
/// The address every station listens to.
pub const BROADCAST: Mac = Mac([0xff; 6]);

const HEADER_BYTES: usize = EthernetPacket::minimum_packet_size();

/// One frame, without preamble and check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Who is to read it.
    pub destination: Mac,
    /// Who sent it.
    pub source: Mac,
    /// What the payload is; host byte order.
    pub ethertype: u16,
    /// The rest, padding included.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame; `None` when it is shorter than a header.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = EthernetPacket::new(bytes)?;
        Some(Self {
            destination: Mac(header.get_destination().octets()),
            source: Mac(header.get_source().octets()),
            ethertype: header.get_ethertype().0,
            payload: bytes.get(HEADER_BYTES..)?,
        })
    }

    /// The frame as it goes to the wire; the driver pads it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let mut header = MutableEthernetPacket::new(&mut bytes).expect("the buffer is as long as the header");
        header.set_destination(self.destination.0.into());
        header.set_source(self.source.0.into());
        header.set_ethertype(EtherType(self.ethertype));
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(frame) = Frame::parse(&bytes) {
                prop_assert_eq!(frame.to_bytes(), bytes);
            } else {
                prop_assert!(bytes.len() < HEADER_BYTES);
            }
        }
    }
}
