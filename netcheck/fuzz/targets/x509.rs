#![no_main]

use netcheck::codec::x509::Certificate;

// No terminal is commanded by what a certificate says, and nothing in it is longer than a message may be.
libfuzzer_sys::fuzz_target!(|der: &[u8]| {
    let Some(found) = Certificate::parse(der) else { return };
    assert!(found.names.len() <= 50);
    for text in found.names.iter().chain([&found.subject, &found.issuer]) {
        assert!(!text.contains(char::is_control), "{text:?}");
        // At most 50 attributes of 200 characters, with their kinds and commas.
        assert!(text.chars().count() <= 50 * 205, "{text:?}");
    }
    if found.is_self_issued {
        assert_eq!(found.subject, found.issuer);
    }
});
