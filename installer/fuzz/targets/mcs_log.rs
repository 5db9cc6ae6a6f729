#![no_main]

libfuzzer_sys::fuzz_target!(|line: &[u8]| installer::bootstrap::fuzz_mcs_log(line));
