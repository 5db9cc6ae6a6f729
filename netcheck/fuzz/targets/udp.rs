#![no_main]

use netcheck::codec::udp::Datagram;

// What is understood can be said again. As it came, and with a header that carries all of it and no checksum below.
libfuzzer_sys::fuzz_target!(|packet: &[u8]| {
    check(packet);
    let mut packet = packet.to_vec();
    if packet.len() < 28 || packet.len() > 2000 {
        return;
    }
    let length = packet.len() as u16;
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[6..8].copy_from_slice(&[0, 0]);
    packet[9] = 17;
    packet[10..12].copy_from_slice(&[0, 0]);
    packet[26..28].copy_from_slice(&[0, 0]);
    let mut sum = packet[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    check(&packet);
});

fn check(packet: &[u8]) {
    if let Some(datagram) = Datagram::parse(packet) {
        let written = datagram.to_packet().expect("no longer than what it came from");
        assert!(written.len() <= packet.len());
        assert_eq!(Datagram::parse(&written), Some(datagram));
    }
}
