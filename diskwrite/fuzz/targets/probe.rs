#![no_main]

libfuzzer_sys::fuzz_target!(|disk: &[u8]| diskwrite::fuzzing::fuzz_probe(disk));
