#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ignition::fuzzing::fuzz_butane(input));
