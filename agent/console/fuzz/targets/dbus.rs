#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    host_console::fuzzing::fuzz_dbus(bytes);
});
