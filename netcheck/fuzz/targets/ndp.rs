#![no_main]

use netcheck::codec::ndp::{Neighbour, solicited_node};

const IPV6_HEADER_BYTES: usize = 40;

// As it came, and with those bytes made right that no fuzzer comes by: version, next header, hop limit, length, checksum.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut packet = bytes.to_vec();
    let Some(message_bytes) = packet.len().checked_sub(IPV6_HEADER_BYTES).filter(|bytes| *bytes >= 24) else { return };
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&u16::try_from(message_bytes).unwrap_or(u16::MAX).to_be_bytes());
    packet[6..8].copy_from_slice(&[58, 255]);
    packet[42..44].copy_from_slice(&[0, 0]);
    let sum = checksum(&packet).to_be_bytes();
    packet[42..44].copy_from_slice(&sum);
    check(&packet);
});

/// What is understood can be said again, and is no longer than what was heard.
fn check(packet: &[u8]) {
    if let Some(neighbour) = Neighbour::parse(packet) {
        let written = neighbour.to_packet();
        assert!(written.len() <= packet.len());
        assert_eq!(Neighbour::parse(&written), Some(neighbour));
        assert!(solicited_node(neighbour.target).0.is_multicast());
    }
}

/// RFC 4443 §2.3 by the letter.
fn checksum(packet: &[u8]) -> u16 {
    let (header, message) = packet.split_at(IPV6_HEADER_BYTES);
    let mut sum = message.len() as u64 + 58;
    for pair in header[8..].chunks(2).chain(message.chunks(2)) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
