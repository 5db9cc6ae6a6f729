#![no_main]

libfuzzer_sys::fuzz_target!(|start: &[u8]| diskwrite::fuzzing::fuzz_superblock(start));
