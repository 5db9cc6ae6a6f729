#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| inventory::fuzzing::fuzz_cxl(bytes));
