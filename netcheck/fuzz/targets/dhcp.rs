#![no_main]

use dhcproto::v4::OptionCode;
use netcheck::codec::dhcp::Answer;

// As it came, and with those bytes made right that no fuzzer comes by: a reply to an Ethernet station, and the magic cookie.
libfuzzer_sys::fuzz_target!(|payload: &[u8]| {
    check(payload);
    let mut payload = payload.to_vec();
    if let Some(fixed) = payload.get_mut(..240) {
        fixed[..3].copy_from_slice(&[2, 1, 6]);
        fixed[236..].copy_from_slice(&[99, 130, 83, 99]);
        check(&payload);
    }
});

/// Every option is read in every way, and none is longer than the message.
fn check(payload: &[u8]) {
    let Some(answer) = Answer::parse(payload) else { return };
    for code in (0..=255).map(OptionCode::from) {
        let bytes = answer.options.bytes(code).map_or(0, <[u8]>::len);
        assert!(bytes <= payload.len());
        assert!(answer.options.addresses(code).len() <= bytes / 4);
        assert!(answer.options.text(code).is_none_or(|text| !text.contains(char::is_control)));
        answer.options.address(code);
        answer.options.seconds(code);
    }
}
