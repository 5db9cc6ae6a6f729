//! An image by HTTP from servers that misbehave, each on a real socket.

use super::*;
use crate::source::open;
use kernel::Cancel;
use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};
use testkit::{http::Server, port::Held};

/// A 200 with this length announced, of which `body` comes.
fn ok(headers: &str, announced: usize, body: &[u8]) -> Vec<u8> {
    testkit::http::cut("200 OK", headers, announced, body)
}

fn partial(headers: &str, first: usize, data: &[u8]) -> Vec<u8> {
    let range = format!("{headers}Content-Range: bytes {first}-{}/{}\r\n", data.len() - 1, data.len());
    testkit::http::reply("206 Partial Content", &range, &data[first..])
}

fn status(code: u16) -> Vec<u8> {
    testkit::http::reply(&format!("{code} No"), "", "")
}

/// The requests that it was sent, in lower case.
fn heads(server: Server) -> Vec<String> {
    server.finish().into_iter().map(|request| request.head.to_ascii_lowercase()).collect()
}

fn sample() -> Vec<u8> {
    (0u32..300_000).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect()
}

fn options(address: SocketAddr) -> InstallOptions {
    InstallOptions {
        source: Source::Url(format!("http://{address}/image?token=secret")),
        stall_timeout: testkit::wait::LIMIT,
        ..Default::default()
    }
}

/// What came, how it ended, and what failed in between.
fn fetch(options: &InstallOptions) -> (Vec<u8>, Result<(), SourceError>, Vec<Retry>) {
    let retries = Arc::new(Mutex::new(Vec::new()));
    let log = retries.clone();
    let mut data = Vec::new();
    let on_retry = Box::new(move |retry| {
        log.lock().unwrap().push(retry);
        true
    });
    let result = open(options, on_retry).and_then(|mut opened| match opened.reader.read_to_end(&mut data) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.downcast::<SourceError>().unwrap()),
    });
    let retries = std::mem::take(&mut *retries.lock().unwrap());
    (data, result, retries)
}

const TAG: &str = "ETag: \"v1\"\r\nAccept-Ranges: bytes\r\n";

#[test]
fn fetches_a_whole_file_without_asking_for_compression() {
    let data = sample();
    let server = Server::in_order(vec![ok(TAG, data.len(), &data)]);
    let (found, result, retries) = fetch(&options(server.address));
    result.unwrap();
    assert!(found == data && retries.is_empty());
    let request = heads(server).remove(0);
    assert!(request.contains("accept-encoding: identity\r\n") && !request.contains("range:"), "{request}");
}

#[test]
fn broken_body_is_resumed_by_range() {
    let data = sample();
    let server = Server::in_order(vec![ok(TAG, data.len(), &data[..150_000]), partial(TAG, 150_000, &data)]);
    let (found, result, retries) = fetch(&options(server.address));
    result.unwrap();
    assert!(found == data);
    assert_eq!(retries.len(), 1);
    assert_eq!(retries[0].offset, 150_000);
    assert!(!retries[0].error.contains("secret"), "{}", retries[0].error);
    let request = heads(server).remove(1);
    assert!(request.contains("range: bytes=150000-\r\n") && request.contains("if-range: \"v1\"\r\n"), "{request}");
}

#[test]
fn date_serves_where_the_tag_is_weak() {
    let headers = "ETag: W/\"v1\"\r\nLast-Modified: Tue, 01 Sep 2026 10:00:00 GMT\r\n";
    let data = sample();
    let server = Server::in_order(vec![ok(headers, data.len(), &data[..1000]), partial(headers, 1000, &data)]);
    let (found, result, _) = fetch(&options(server.address));
    result.unwrap();
    assert!(found == data);
    let request = heads(server).remove(1);
    assert!(request.contains("if-range: tue, 01 sep 2026 10:00:00 gmt\r\n"), "{request}");
}

#[test]
fn server_without_ranges_sends_all_again() {
    let data = sample();
    let again = || ok("", data.len(), &data);
    let server =
        Server::in_order(vec![ok("", data.len(), &data[..200_000]), ok("", data.len(), &data[..5000]), again()]);
    let (found, result, retries) = fetch(&options(server.address));
    result.unwrap();
    assert!(found == data);
    assert_eq!(retries.iter().map(|retry| retry.offset).collect::<Vec<_>>(), [200_000, 200_000]);
    assert!(heads(server).iter().all(|head| !head.contains("range:")));
}

#[test]
fn other_content_is_noticed() {
    let data = sample();
    let mut other = data.clone();
    other[10] ^= 1;
    let cut = |headers| ok(headers, data.len(), &data[..200_000]);
    let table: Vec<(Vec<Vec<u8>>, &str)> = vec![
        (vec![cut(""), ok("", data.len(), &other)], "what came before"),
        (vec![cut(""), ok("", data.len() + 1, &data)], "its length"),
        (vec![cut(TAG), ok("ETag: \"v2\"\r\n", data.len(), &data)], "its ETag"),
        (vec![cut(TAG), partial("ETag: \"v2\"\r\n", 200_000, &data)], "its ETag"),
        (vec![cut(TAG), partial(TAG, 199_999, &data)], "its Content-Range"),
        (vec![cut(TAG), status(416)], "its length"),
    ];
    for (replies, expected) in table {
        let server = Server::in_order(replies);
        match fetch(&options(server.address)).1 {
            Err(SourceError::Changed { what, offset: 200_000, .. }) => assert_eq!(what, expected),
            other => panic!("{expected}: {other:?}"),
        }
        server.finish();
    }
}

#[test]
fn passing_statuses_are_retried_and_others_are_not() {
    let data = sample();
    let server = Server::in_order(vec![status(503), status(429), ok(TAG, data.len(), &data)]);
    let (found, result, retries) = fetch(&options(server.address));
    result.unwrap();
    assert!(found == data && retries.len() == 2);
    server.finish();
    for code in [400, 401, 403, 404, 206] {
        let server = Server::in_order(vec![status(code)]);
        let (_, result, retries) = fetch(&options(server.address));
        assert!(matches!(result, Err(SourceError::Status { status, offset: 0, .. }) if status == code));
        assert!(retries.is_empty());
        assert_eq!(server.finish().len(), 1);
    }
}

#[test]
fn server_that_goes_and_returns_is_waited_for() {
    let data = sample();
    // Nobody else has the port while it is closed.
    let port = Held::default();
    let address = port.address();
    let first = Server::in_order_on(TcpListener::bind(address).unwrap(), vec![ok(TAG, data.len(), &data[..100_000])]);
    let half = data.clone();
    let second = thread::spawn(move || {
        // The port is closed until the first server is done, and for a while after.
        first.finish();
        thread::sleep(Duration::from_secs(2));
        Server::in_order_on(TcpListener::bind(address).unwrap(), [partial(TAG, 100_000, &half)]).finish()
    });
    let (found, result, retries) = fetch(&options(address));
    result.unwrap();
    assert!(found == data && !retries.is_empty());
    assert_eq!(second.join().unwrap().len(), 1);
}

#[test]
fn silence_is_bounded_and_says_where_it_began() {
    let data = sample();
    let server = Server::in_order(vec![ok(TAG, data.len(), &data[..1234])]);
    let options = InstallOptions { stall_timeout: Duration::from_secs(5), ..options(server.address) };
    let (found, result, _) = fetch(&options);
    assert_eq!(found.len(), 1234);
    match result {
        Err(SourceError::Stalled { offset: 1234, total: Some(300_000), .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn refused_connection_is_retried_until_the_time_is_up() {
    let nowhere = Held::default();
    let options = InstallOptions { stall_timeout: Duration::from_secs(2), ..options(nowhere.address()) };
    let (_, result, retries) = fetch(&options);
    match result {
        Err(SourceError::Stalled { offset: 0, total: None, source, .. }) => {
            assert!(matches!(*source, SourceError::Transport { .. }));
        }
        other => panic!("{other:?}"),
    }
    assert!(!retries.is_empty());
}

#[test]
fn retries_are_counted_until_the_server_has_answered() {
    let nowhere = Held::default();
    // The stall timeout has no say yet.
    let impatient = InstallOptions { stall_timeout: Duration::ZERO, ..options(nowhere.address()) };
    for count in [0, 2] {
        let (_, result, retries) = fetch(&InstallOptions { retries: Retries::Count(count), ..impatient.clone() });
        assert!(matches!(result, Err(SourceError::Transport { offset: 0, .. })), "{result:?}");
        assert_eq!(retries.len(), usize::try_from(count).unwrap());
    }
    // Afterwards it alone has.
    let data = sample();
    let server = Server::in_order(vec![ok(TAG, data.len(), &data[..1000]), partial(TAG, 1000, &data)]);
    let counted = InstallOptions { retries: Retries::Count(0), ..options(server.address) };
    let (found, result, retries) = fetch(&counted);
    result.unwrap();
    assert!(found == data && retries.len() == 1);
}

#[test]
fn forever_outlasts_every_silence() {
    let data = sample();
    let server = Server::in_order(vec![ok(TAG, data.len(), &data[..1000]), partial(TAG, 1000, &data)]);
    let options =
        InstallOptions { retries: Retries::Forever, stall_timeout: Duration::ZERO, ..options(server.address) };
    let (found, result, _) = fetch(&options);
    result.unwrap();
    assert!(found == data);
}

#[test]
fn cancelling_ends_a_pause() {
    let nowhere = Held::default();
    let options = options(nowhere.address());
    let cancel = options.cancel.clone();
    let on_retry = Box::new(move |_| {
        cancel.cancel();
        true
    });
    assert!(matches!(open(&options, on_retry).err(), Some(SourceError::Cancelled { offset: 0 })));
    // As does that nobody wants to hear of it any more.
    let options = InstallOptions { cancel: Cancel::default(), ..options };
    assert!(matches!(open(&options, Box::new(|_| false)).err(), Some(SourceError::Cancelled { offset: 0 })));
}

#[test]
fn chunked_body_ends_where_it_says() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let body = |tail: &str| format!("5\r\nhello\r\n{tail}");
    let replies = ["", "1\r\n!\r\n0\r\n\r\n"].map(|tail| (head.to_owned() + &body(tail)).into_bytes());
    let server = Server::in_order(replies);
    let (found, result, retries) = fetch(&options(server.address));
    result.unwrap();
    assert_eq!(found, b"hello!");
    assert_eq!(retries.len(), 1);
    server.finish();
}

#[test]
fn nonsense_is_no_url() {
    for url in ["", "ftp://host/x", "http://", "https:///x", "http://a b/"] {
        let options = InstallOptions { source: Source::Url(url.into()), ..Default::default() };
        assert!(matches!(open(&options, Box::new(|_| true)).err(), Some(SourceError::Url { .. })), "{url}");
    }
}

#[test]
fn unknown_host_is_not_waited_for() {
    let options = InstallOptions { source: Source::Url("http://no-such-host.invalid/x".into()), ..Default::default() };
    let (_, result, retries) = fetch(&options);
    assert!(matches!(result, Err(SourceError::Transport { .. })) && retries.is_empty());
}

#[test]
fn reads_content_ranges() {
    let range = |value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_RANGE, value.parse().unwrap());
        content_range(&headers)
    };
    assert_eq!(range("bytes 5-9/10"), Some((5, Some(10))));
    assert_eq!(range("bytes 5-9/*"), Some((5, None)));
    assert_eq!(["5-9/10", "bytes */10", "bytes 5-9", "bytes x-9/10"].map(range), [None; 4]);
}
