#![no_main]

use netcheck::codec::arp::Arp;

// What is understood is written back as it came, padding aside.
libfuzzer_sys::fuzz_target!(|payload: &[u8]| {
    if let Some(arp) = Arp::parse(payload) {
        assert!(payload.starts_with(&arp.to_bytes()));
    }
});
