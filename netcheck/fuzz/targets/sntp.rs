#![no_main]

use netcheck::codec::sntp::{Packet, Timestamp};

// A packet is written back as it came; what is made of it is a number.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(packet) = Packet::decode(bytes) else { return assert!(bytes.len() < 48) };
    assert!(bytes.starts_with(&packet.encode()));
    assert!(packet.root_distance_s().is_finite());
    let (sent, received) = (packet.reference, packet.transmit);
    for nonce in [packet.origin, Timestamp(0)] {
        if let Ok(sample) = packet.sample(nonce.0, sent, received) {
            assert!(sample.offset_s.is_finite() && sample.delay_s.is_finite());
        }
    }
});
