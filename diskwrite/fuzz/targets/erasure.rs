#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| diskwrite::fuzzing::fuzz_erasure(bytes));
