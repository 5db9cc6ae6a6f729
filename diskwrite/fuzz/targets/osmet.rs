#![no_main]

libfuzzer_sys::fuzz_target!(|head: &[u8]| diskwrite::fuzzing::fuzz_osmet(head));
