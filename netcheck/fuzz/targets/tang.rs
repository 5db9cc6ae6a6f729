#![no_main]

use netcheck::tang::{from_json, parse_advertisement};

// A step's request, and a server's answer.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = from_json(bytes);
    let Ok(answer) = parse_advertisement(bytes, "http://tang/adv/x".to_owned()) else { return };
    // What goes to the service is what came.
    let reply = serde_json::to_vec(&answer).expect("it is made of texts");
    assert_eq!(parse_advertisement(&reply, answer.tang_url.clone()).expect("as it came"), answer);
});
