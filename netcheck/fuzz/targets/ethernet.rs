#![no_main]

use netcheck::codec::ethernet::Frame;

// A frame is written back as it came; only what is shorter than a header is none.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Frame::parse(bytes) {
        Some(frame) => assert_eq!(frame.to_bytes(), bytes),
        None => assert!(bytes.len() < 14),
    }
});
