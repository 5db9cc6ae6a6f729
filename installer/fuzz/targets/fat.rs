#![no_main]

libfuzzer_sys::fuzz_target!(|partition: &[u8]| installer::boot_order::fuzz_fat(partition));
