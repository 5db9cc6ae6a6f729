#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node_certificates::fuzz_certificate_request(bytes));
