//! Resources, one by one.

use crate::resources::certificates::Certificates;
use crate::resources::{error_text, gzip, hex, parsed, sha512};
use ignition::{
    data_url,
    fetch::{FetchOptions, Fetcher, Location},
};
use kernel::clock::Clock;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use testkit::{
    http::{Server, cut, ok, reply},
    log::Log,
};

fn redirect(to: &str) -> Vec<u8> {
    reply("302 Found", &format!("Location: {to}\r\n"), "over there")
}

fn at(source: &str) -> Location<'_> {
    Location { source, compression: None, headers: &[], hash: None }
}

/// One that does not really wait.
fn fetcher(options: FetchOptions) -> Fetcher {
    Fetcher::new(FetchOptions { clock: Clock::simulated(), ..options })
}

fn fetch(location: &Location<'_>) -> Result<String, String> {
    fetch_with(&fetcher(FetchOptions::default()), location)
}

fn fetch_with(fetcher: &Fetcher, location: &Location<'_>) -> Result<String, String> {
    let bytes = fetcher.fetch(location).map_err(error_text)?;
    Ok(String::from_utf8(bytes.into_owned()).unwrap())
}

#[test]
fn data_urls_need_no_network() {
    let offline = fetcher(FetchOptions { offline: true, ..FetchOptions::default() });
    let plain = offline.fetch(&at("data:,plain")).unwrap();
    assert!(matches!(plain, Cow::Borrowed(b"plain")));
    assert_eq!(fetch_with(&offline, &at("data:;base64,aGk=")), Ok("hi".into()));
    assert_eq!(fetch_with(&offline, &at("")), Ok(String::new()));
    let error = fetch_with(&offline, &at("http://user:hunter2@h/x?hunter2")).unwrap_err();
    assert_eq!(error, "cannot fetch http://h/x: it is on the network, which must not be used");
}

#[test]
fn the_hash_is_of_what_is_unpacked() {
    let packed = gzip(b"hello");
    let server = Server::start(move |_| ok(&packed));
    let sources = [server.url("/"), data_url::base64(&gzip(b"hello"))];
    let sha256 = format!("sha256-{}", hex(&Sha256::digest(b"hello")).to_uppercase());
    for source in &sources {
        for hash in [&sha512(b"hello"), &sha256] {
            let location = Location { compression: Some("gzip"), hash: Some(hash), ..at(source) };
            assert_eq!(fetch(&location), Ok("hello".into()));
            let unpacked = Location { compression: Some(""), ..location };
            let error = fetch(&unpacked).unwrap_err();
            assert!(error.contains(": hash verification failed (calculated ") && !error.contains("hunter"), "{error}");
            assert!(error.ends_with(&format!("but expected {})", hash[7..].to_lowercase())), "{error}");
        }
    }
    for hash in
        ["", "sha512", "sha512-00", "md5-d41d8cd98f00b204e9800998ecf8427e", &format!("sha256-{}", "g".repeat(64))]
    {
        assert!(
            fetch(&Location { hash: Some(hash), ..at("data:,") })
                .unwrap_err()
                .contains("its verification hash is not valid")
        );
    }
}

#[test]
fn what_is_not_gzip_is_not_unpacked() {
    let whole = gzip(b"hello");
    let mut damaged = whole.clone();
    let last = damaged.len() - 5;
    damaged[last] ^= 1;
    for bytes in
        [b"".to_vec(), b"hello".to_vec(), whole[..whole.len() - 1].to_vec(), damaged, [&whole[..], b"x"].concat()]
    {
        let source = data_url::base64(&bytes);
        let error = fetch(&Location { compression: Some("gzip"), ..at(&source) }).unwrap_err();
        assert!(error.starts_with("cannot fetch a data: URL: it can't be unpacked as gzip: "), "{error}");
    }
    // Parts in a row are one, as to gzip itself.
    let source = data_url::base64(&[gzip(b"hel"), gzip(b"lo")].concat());
    assert_eq!(fetch(&Location { compression: Some("gzip"), ..at(&source) }), Ok("hello".into()));
    let error = fetch(&Location { compression: Some("xz"), ..at("data:,") }).unwrap_err();
    assert_eq!(error, "cannot fetch a data: URL: invalid compression method 'xz': only gzip is supported");
}

#[test]
fn no_resource_is_larger_than_allowed() {
    let bomb = gzip(&vec![0; 80 << 20]);
    let server = Server::start(move |request| match request.target() {
        "/bomb" => ok(&bomb),
        // Ten gigabytes, it says.
        "/announced" => b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\nx".to_vec(),
        "/endless" => [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", &[b'x'; 1001][..]].concat(),
        _ => ok([b'x'; 1000]),
    });
    let fetcher = fetcher(FetchOptions { max_bytes: 1000, ..FetchOptions::default() });
    assert_eq!(fetch_with(&fetcher, &at(&server.url("/"))).unwrap().len(), 1000);
    for path in ["/announced", "/endless"] {
        let error = fetch_with(&fetcher, &at(&server.url(path))).unwrap_err();
        assert_eq!(error, format!("cannot fetch {}: it has more than 1000 bytes", server.url(path)));
    }
    let long = format!("data:,{}", "x".repeat(1001));
    assert_eq!(fetch_with(&fetcher, &at(&long)).unwrap_err(), "cannot fetch a data: URL: it has more than 1000 bytes");
    assert_eq!(fetch_with(&fetcher, &at(&long[..1006])).unwrap().len(), 1000);
    let url = server.url("/bomb");
    let error = fetch(&Location { compression: Some("gzip"), ..at(&url) }).unwrap_err();
    assert_eq!(error, format!("cannot fetch {url}: it has more than 67108864 bytes unpacked"));
}

#[test]
fn places_that_only_ignition_goes_to() {
    for source in
        ["tftp://h/x?hunter2", "s3://b/k?hunter2", "gs://b/k", "arn:aws:s3:::b/hunter2", "oem:///x", "relative"]
    {
        let error = fetch(&at(source)).unwrap_err();
        assert!(error.contains(": URLs are not supported here; use http:, https: or data:"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = fetch(&at("http://[::1]a?hunter2")).unwrap_err();
    assert_eq!(error, "cannot fetch http://[::1]a: unable to parse url");
}

#[test]
fn headers_are_sent_once_and_not_on() {
    let server = Server::start(|request| match request.target() {
        "/moved" => redirect("/here"),
        _ => {
            let names = ["user-agent", "accept", "accept-encoding", "x-key", "authorization", "host"];
            ok(names.map(|name| request.header(name).unwrap_or_default()).join("\n"))
        }
    });
    let config = format!(
        r#"{{"ignition":{{"version":"3.1.0","config":{{"replace":{{"source":"{}","httpHeaders":[
            {{"name":"X-Key","value":"hunter2"}},{{"name":"Host","value":"elsewhere"}},{{"name":"user-agent","value":"me"}}]}}}}}}}}"#,
        server.url("/here")
    );
    let config = parsed(&config);
    let reference = Location::from(&config.ignition.config.replace);
    let host = server.address;
    let accept = "application/vnd.coreos.ignition+json;version=3.6.0, */*;q=0.1";
    assert_eq!(fetch(&reference), Ok(format!("me\n{accept}\nidentity\nhunter2\n\n{host}")));
    let moved = server.url("/moved");
    let ours = format!("landfall/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(fetch(&Location { source: &moved, ..reference }), Ok(format!("{ours}\n*/*\nidentity\n\n\n{host}")));
    assert_eq!(fetch(&at(&server.url("/x"))), Ok(format!("{ours}\n{accept}\nidentity\n\n\n{host}")));
    let with_user = server.url("/x").replace("http://", "http://user:pass@");
    assert!(fetch(&at(&with_user)).unwrap().contains("Basic dXNlcjpwYXNz"));
}

#[test]
fn headers_that_no_request_can_have() {
    for (name, value) in [("a b", "\"x\""), ("a", "\"x\\ny\""), ("a", "null"), ("ü", "\"x\"")] {
        let config = format!(
            r#"{{"ignition":{{"version":"3.1.0","config":{{"replace":{{"source":"http://127.0.0.1:1/","httpHeaders":[{{"name":"{name}","value":{value}}}]}}}}}}}}"#
        );
        let error = fetch(&Location::from(&parsed(&config).ignition.config.replace)).unwrap_err();
        assert!(error.contains(&format!("unable to parse HTTP header '{name}'")), "{error}");
    }
}

#[test]
fn what_passes_is_tried_again() {
    let server = Server::start(|request| match (request.path(), request.earlier) {
        ("/busy", 0) => reply("503 Service Unavailable", "", "hunter2"),
        ("/busy", 1) => cut("200 OK", "", 100, "cut off"),
        ("/busy", 2) => Vec::new(),
        ("/busy", _) => ok("at last"),
        ("/down", _) => reply("500 Internal Server Error", "", "hunter2"),
        ("/empty", _) => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        ("/forbidden", _) => reply("403 Forbidden", "", "hunter2"),
        ("/loop", _) => redirect("loop"),
        ("/away", _) => redirect("file:///etc/passwd"),
        _ => reply("404 Not Found", "", "hunter2"),
    });
    let (fetched, lines) = Log::during(|| fetch(&at(&server.url("/busy"))));
    assert_eq!(fetched, Ok("at last".into()));
    let pause = |line: &String| Some(line.split_once("retry_in=")?.1.split(' ').next()?.to_owned());
    assert_eq!(lines.iter().filter_map(pause).collect::<Vec<_>>(), ["200ms", "400ms", "800ms"]);
    assert_eq!(fetch(&at(&server.url("/empty"))), Ok(String::new()));
    let once = fetcher(FetchOptions { retries: 1, ..FetchOptions::default() });
    for (path, requests, expected) in [
        ("/down", 2, "failed to fetch resource (HTTP status 500)"),
        ("/forbidden", 1, "failed to fetch resource (HTTP status 403)"),
        ("/gone", 1, "resource not found (HTTP status 404)"),
        ("/loop", 11, "stopped after 10 redirects"),
        ("/away", 1, "the server redirects to what is not an http: or https: URL"),
    ] {
        let error = fetch_with(&once, &at(&server.url(&format!("{path}?hunter2")))).unwrap_err();
        assert_eq!(error, format!("cannot fetch {}: {expected}", server.url(path)));
        let found = server.requests().iter().filter(|request| request.path() == path).count();
        assert_eq!(found, requests, "{path}");
    }
    let unreachable = { Server::start(|_| ok("")).url("/") };
    let error = fetch_with(&once, &at(&unreachable)).unwrap_err();
    assert!(error.contains("the request failed: io: cannot connect to 127.0.0.1:"), "{error}");
    assert!(error.contains(": Connection refused"), "{error}");
}

#[test]
fn a_config_names_whom_to_trust() {
    let certificates = Certificates::new();
    let server = Server::with_tls(certificates.server.clone(), |_| ok("secret"));
    let url = server.url("/");
    let trusting = |authorities: &str| {
        let config = format!(
            r#"{{"ignition":{{"version":"3.1.0","security":{{"tls":{{"certificateAuthorities":[{authorities}]}}}}}}}}"#
        );
        let mut fetcher = fetcher(FetchOptions::default());
        fetcher.configure(&parsed(&config).ignition).map(|()| fetcher).map_err(error_text)
    };
    let from = |pem: &str| format!(r#"{{"source":"{}"}}"#, data_url::base64(pem.as_bytes()));
    let (ca, other) = (&certificates.ca_pem, &certificates.other_ca_pem);
    for untrusted in [trusting(""), trusting(&from(other))] {
        let error = fetch_with(&untrusted.unwrap(), &at(&url)).unwrap_err();
        assert!(error.contains("UnknownIssuer"), "{error}");
    }
    // Asked once each: what a certificate is does not pass.
    assert_eq!(server.requests(), []);
    let bundle = format!("Both of them:\n{other}{ca}");
    let packed = data_url::base64(&gzip(bundle.as_bytes()));
    let packed = format!(
        r#"{{"source":"{packed}","compression":"gzip","verification":{{"hash":"{}"}}}}"#,
        sha512(bundle.as_bytes())
    );
    for authorities in [from(ca), from(&bundle), format!("{},{}", from(other), from(ca)), packed.clone()] {
        assert_eq!(fetch_with(&trusting(&authorities).unwrap(), &at(&url)), Ok("secret".into()));
    }
    let mut fetcher = trusting(&from(ca)).unwrap();
    // It stays trusted if a later config names no CA.
    fetcher.configure(&parsed(r#"{"ignition":{"version":"3.1.0"}}"#).ignition).unwrap();
    assert_eq!(fetch_with(&fetcher, &at(&url)), Ok("secret".into()));
    let given = FetchOptions { ca_bundles: vec![ca.clone().into_bytes()], ..FetchOptions::default() };
    assert_eq!(fetch_with(&Fetcher::new(given), &at(&url)), Ok("secret".into()));
    let error = trusting(&from("hunter2")).err().unwrap();
    assert_eq!(error, "cannot fetch a data: URL: it contains no PEM certificate");
    let wrong = packed.replace(&sha512(bundle.as_bytes()), &sha512(b"x"));
    assert!(trusting(&wrong).err().unwrap().contains("hash verification failed"));
}

#[test]
fn a_config_names_its_proxy() {
    let proxy = Server::start(|request| {
        ok(format!("{} {}", request.target(), request.header("proxy-authorization").unwrap_or_default()))
    });
    let direct = Server::start(|_| ok("direct"));
    let config = format!(
        r#"{{"ignition":{{"version":"3.1.0","proxy":{{"httpProxy":"{}","noProxy":["excepted.invalid","x"]}}}}}}"#,
        proxy.url("/").replace("http://", "http://user:pass@")
    );
    let mut fetcher = fetcher(FetchOptions { retries: 0, ..FetchOptions::default() });
    fetcher.configure(&parsed(&config).ignition).unwrap();
    let through = fetch_with(&fetcher, &at("http://elsewhere.invalid/x?y"));
    assert_eq!(through, Ok("http://elsewhere.invalid/x?y Basic dXNlcjpwYXNz".into()));
    assert!(fetch_with(&fetcher, &at("http://excepted.invalid/")).is_err());
    assert_eq!(
        fetch_with(&fetcher, &at(&direct.url("/"))),
        Ok("direct".into()),
        "loopback is never asked for elsewhere"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_makes_it_panic_or_exceeds_the_bound(
        text in "(data:)?(text/plain)?(;base64)?,?[a-zA-Z0-9%+/=,; \\n\"]{0,60}",
        is_packed in any::<bool>(),
    ) {
        let fetcher = fetcher(FetchOptions { offline: true, max_bytes: 20, ..FetchOptions::default() });
        let location = Location { compression: is_packed.then_some("gzip"), ..at(&text) };
        if let Ok(bytes) = fetcher.fetch(&location) {
            prop_assert!(bytes.len() <= 20);
        }
    }

    #[test]
    fn damaged_gzip_ends_in_an_error_or_in_bounds(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut packed = gzip(&bytes);
        for (place, byte) in &damage {
            *place.get_mut(&mut packed) = *byte;
        }
        let source = data_url::base64(&packed);
        let fetcher = fetcher(FetchOptions { max_bytes: 1000, ..FetchOptions::default() });
        let unpacked = fetcher.fetch(&Location { compression: Some("gzip"), ..at(&source) });
        match unpacked {
            Ok(unpacked) => prop_assert!(unpacked.len() <= 1000 && (*unpacked == bytes || !damage.is_empty())),
            Err(_) => prop_assert!(bytes.len() > 1000 || packed.len() > 1000 || !damage.is_empty()),
        }
    }
}
