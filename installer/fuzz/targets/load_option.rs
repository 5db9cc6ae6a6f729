#![no_main]

libfuzzer_sys::fuzz_target!(|variable: &[u8]| installer::boot_order::fuzz_load_option(variable));
