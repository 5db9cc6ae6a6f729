//! ARP for IPv4 over Ethernet (RFC 826; the probe form is RFC 5227).

use super::ethernet::{self, Frame};
use api::Mac;
use pnet_packet::{
    arp::{ArpHardwareType, ArpOperation, ArpPacket, MutableArpPacket},
    ethernet::EtherType,
};
use std::net::Ipv4Addr;

const ETHERNET: u16 = 1;
const IPV4: u16 = 0x0800;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;
const PACKET_BYTES: usize = ArpPacket::minimum_packet_size();

/// Question or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has the sender address.
    Reply,
}

/// One ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Question or answer.
    pub operation: Operation,
    /// The speaker's hardware address.
    pub sender_mac: Mac,
    /// The speaker's address; unspecified in a probe.
    pub sender_ip: Ipv4Addr,
    /// Zero in a request.
    pub target_mac: Mac,
    /// The address asked for, or in a reply the asker's.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// Reads the payload of an ARP frame; `None` unless it is a request or reply for IPv4 over Ethernet.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let packet = ArpPacket::new(payload)?;
        let ours = packet.get_hardware_type().0 == ETHERNET
            && packet.get_protocol_type().0 == IPV4
            && packet.get_hw_addr_len() == 6
            && packet.get_proto_addr_len() == 4;
        if !ours {
            return None;
        }
        let operation = match packet.get_operation().0 {
            REQUEST => Operation::Request,
            REPLY => Operation::Reply,
            _ => return None,
        };
        Some(Self {
            operation,
            sender_mac: Mac(packet.get_sender_hw_addr().octets()),
            sender_ip: packet.get_sender_proto_addr(),
            target_mac: Mac(packet.get_target_hw_addr().octets()),
            target_ip: packet.get_target_proto_addr(),
        })
    }

    /// The payload of an ARP frame.
    pub fn to_bytes(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        let mut packet = MutableArpPacket::new(&mut bytes).expect("the buffer is as long as the packet");
        packet.set_hardware_type(ArpHardwareType(ETHERNET));
        packet.set_protocol_type(EtherType(IPV4));
        packet.set_hw_addr_len(6);
        packet.set_proto_addr_len(4);
        packet.set_operation(ArpOperation(match self.operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        }));
        packet.set_sender_hw_addr(self.sender_mac.0.into());
        packet.set_sender_proto_addr(self.sender_ip);
        packet.set_target_hw_addr(self.target_mac.0.into());
        packet.set_target_proto_addr(self.target_ip);
        bytes
    }
}

/// The broadcast frame that asks for the owner of `target_ip`.
///
/// With a `sender_ip` of 0.0.0.0 it is a probe (RFC 5227 §1.1): no station learns an address from it.
pub fn question(sender_mac: Mac, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Vec<u8> {
    let request = Arp { operation: Operation::Request, sender_mac, sender_ip, target_mac: Mac([0; 6]), target_ip };
    let payload = request.to_bytes();
    Frame { destination: ethernet::BROADCAST, source: sender_mac, ethertype: ethernet::ARP, payload: &payload }
        .to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_has_the_bytes_of_rfc_826() {
        let mac = Mac([0x52, 0x54, 0, 0xaa, 0xbb, 1]);
        let frame = question(mac, Ipv4Addr::new(192, 168, 126, 11), Ipv4Addr::new(192, 168, 126, 12));
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x52, 0x54, 0, 0xaa, 0xbb, 1, 8, 6, //
            0, 1, 8, 0, 6, 4, 0, 1, 0x52, 0x54, 0, 0xaa, 0xbb, 1, 192, 168, 126, 11, 0, 0, 0, 0, 0, 0, 192, 168, 126,
            12,
        ];
        assert_eq!(frame, expected);
    }

    #[test]
    fn other_hardware_and_operations_are_not_ours() {
        let good = Arp {
            operation: Operation::Reply,
            sender_mac: Mac([2; 6]),
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: Mac([4; 6]),
            target_ip: Ipv4Addr::new(10, 0, 0, 2),
        };
        assert_eq!(Arp::parse(&good.to_bytes()), Some(good));
        for (offset, value) in [(1, 32), (3, 1), (4, 20), (5, 16), (7, 3), (7, 0)] {
            let mut bytes = good.to_bytes();
            bytes[offset] = value;
            assert_eq!(Arp::parse(&bytes), None, "byte {offset} = {value}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(arp) = Arp::parse(&bytes) {
                prop_assert_eq!(&arp.to_bytes()[..], &bytes[..PACKET_BYTES]);
            }
        }

        #[test]
        fn what_is_written_is_read_back(reply: bool, a: [u8; 6], b: [u8; 4], c: [u8; 6], d: [u8; 4], padding in 0usize..20) {
            let arp = Arp {
                operation: if reply { Operation::Reply } else { Operation::Request },
                sender_mac: Mac(a),
                sender_ip: b.into(),
                target_mac: Mac(c),
                target_ip: d.into(),
            };
            let mut bytes = arp.to_bytes().to_vec();
            bytes.resize(bytes.len() + padding, 0);
            prop_assert_eq!(Arp::parse(&bytes), Some(arp));
        }
    }
}
