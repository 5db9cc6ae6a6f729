#![no_main]

use netcheck::codec::http::{Response, could_be};

/// What makes the rest a body in chunks.
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

// As it came, and as the chunks of a body.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let chunked = [CHUNKED, bytes].concat();
    assert!(check(&chunked).is_some_and(|response| response.status == 200));
});

fn check(bytes: &[u8]) -> Option<Response> {
    let found = Response::parse(bytes)?;
    assert!(could_be(bytes) && (100..1000).contains(&found.status));
    assert!(found.headers.len() <= 100 && found.body.len() <= bytes.len());
    // A body that is complete stays what it is, whatever comes behind it.
    let more = Response::parse(&[bytes, b"more"].concat()).expect("its head is the same");
    assert_eq!((more.status, &more.headers), (found.status, &found.headers));
    if found.is_complete {
        assert_eq!(more, found);
    }
    Some(found)
}
