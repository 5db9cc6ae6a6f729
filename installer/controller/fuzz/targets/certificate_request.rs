#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| controller::requests::fuzz_certificate_request(bytes));
