#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| diskwrite::fuzzing::fuzz_xz(input));
