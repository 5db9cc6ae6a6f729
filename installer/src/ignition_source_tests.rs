use super::*;
use std::thread;
use testkit::{
    http::{Server, ok, reply},
    tls,
};

const CONFIG: &[u8] = b"{\"ignition\":{\"version\":\"3.4.0\"}}";
const HASH: &str = "sha256-3c1a0f3d2fc2b7f0bd5d4a0ba8c8c7b9d5bfe1a3f3ae0c5a2f9b6dfbd4fdfb51";

fn good() -> Vec<u8> {
    ok(CONFIG)
}

fn get(server: &Server, retries: Retries) -> Result<Vec<u8>, IgnitionSourceError> {
    let url = format!("http://u:secret@{}/c.ign?token=secret", server.address);
    fetch(&url, None, true, &HttpConfig::default(), retries, &Cancel::default())
}

#[test]
fn plain_http_needs_a_hash_or_a_word() {
    let fetch = |url: &str, hash, insecure| {
        fetch(url, hash, insecure, &HttpConfig::default(), Retries::Count(0), &Cancel::default())
    };
    let refused = fetch("http://127.0.0.1:1/x", None, false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "refusing to fetch Ignition config over HTTP without --ignition-hash or --insecure-ignition"
    );
    assert!(matches!(fetch("HTTP://127.0.0.1:1/x", None, false), Err(IgnitionSourceError::Insecure)));
    for url in ["ftp://h/x", "file:///etc/x", "h/x", "data:,{}"] {
        let error = fetch(url, None, true).unwrap_err();
        assert!(error.to_string().starts_with(&format!("unknown protocol for URL '{url}'")), "{error}");
    }
    assert!(matches!(fetch("http://127.0.0.1:1/x", Some("sha256-00"), false), Err(IgnitionSourceError::Hash(_))));
    assert!(matches!(fetch("http://127.0.0.1:1/x", None, true), Err(IgnitionSourceError::Transport { .. })));
}

#[test]
fn hash_is_compared() {
    let server = Server::in_order([good(), good()]);
    let url = server.url("/c.ign");
    let wrong = fetch(&url, Some(HASH), false, &HttpConfig::default(), Retries::Forever, &Cancel::default());
    // A wrong config is not asked for again.
    let Err(IgnitionSourceError::Hash(IgnitionHashError::Mismatch { found, .. })) = wrong else { panic!("{wrong:?}") };
    let right = format!("sha256-{found}");
    let config = fetch(&url, Some(&right), false, &HttpConfig::default(), Retries::Forever, &Cancel::default());
    assert_eq!(config.unwrap(), CONFIG);
    assert_eq!(server.finish()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn passing_failures_are_retried_as_often_as_allowed() {
    let cut = || testkit::http::cut("200 OK", "", CONFIG.len(), &CONFIG[..9]);
    let busy = || reply("503 Busy", "", "");
    let server = Server::in_order([busy(), cut(), good()]);
    assert_eq!(get(&server, Retries::Count(2)).unwrap(), CONFIG);
    assert_eq!(server.finish().len(), 3);
    let server = Server::in_order([busy(), busy()]);
    let error = get(&server, Retries::Count(1)).unwrap_err();
    assert!(matches!(error, IgnitionSourceError::Status { status: 503, .. }));
    assert!(!error.to_string().contains("secret"), "{error}");
    server.finish();
    let server = Server::in_order([busy(), good()]);
    assert_eq!(get(&server, Retries::UntilStalled).unwrap(), CONFIG);
    server.finish();
    let server = Server::in_order([reply("404 Not Found", "", "")]);
    assert!(matches!(get(&server, Retries::Forever), Err(IgnitionSourceError::Status { status: 404, .. })));
    server.finish();
}

#[test]
fn size_is_bounded() {
    let large = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
    let server = Server::in_order([ok(&large)]);
    assert!(matches!(get(&server, Retries::Forever), Err(IgnitionSourceError::Size { .. })));
    server.finish();
}

#[test]
fn cancelling_ends_the_wait() {
    let cancel = Cancel::default();
    let nowhere = testkit::port::Held::default();
    let url = format!("http://{}/x", nowhere.address());
    let stop = cancel.clone();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        stop.cancel();
    });
    let result = fetch(&url, None, true, &HttpConfig::default(), Retries::Forever, &cancel);
    assert!(matches!(result, Err(IgnitionSourceError::Cancelled { .. })));
    stopper.join().unwrap();
}

#[test]
fn reads_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.ign");
    std::fs::write(&path, CONFIG).unwrap();
    assert_eq!(read(&path).unwrap(), CONFIG);
    assert!(matches!(read(&dir.path().join("no")), Err(IgnitionSourceError::Read { .. })));
    File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
    assert!(matches!(read(&path), Err(IgnitionSourceError::Size { .. })));
}

#[test]
fn https_is_left_for_http_only_with_a_hash() {
    let plain = Server::in_order([good()]);
    let (certificate, key) = tls::self_signed(&tls::self_signing());
    let location = format!("Location: {}\r\n", plain.url("/c.ign"));
    let secure = Server::with_tls(tls::server_config(&certificate, &key), move |_| reply("302 Found", &location, ""));
    let url = secure.url("/c.ign");
    let trusted = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&trusted, tls::pem(&certificate)).unwrap();
    let http = HttpConfig { ca_cert: Some(trusted.path().to_owned()), ..HttpConfig::default() };
    let get = |hash, insecure| fetch(&url, hash, insecure, &http, Retries::Count(0), &Cancel::default());
    for insecure in [false, true] {
        let error = format!("{:?}", get(None, insecure).unwrap_err());
        assert!(error.contains("RequireHttpsOnly"), "{insecure}: {error}");
    }
    // It comes, and is not what the hash says.
    assert!(matches!(get(Some(HASH), true), Err(IgnitionSourceError::Hash(_))));
    assert_eq!(plain.finish().len(), 1);
}

#[test]
fn a_config_is_json_or_yaml_with_a_variant_at_the_top() {
    for json in ["{}", "[1]", r#"{"ignition":{"version":"3.9.0"}}"#, r#"{"variant":"fcos"}"#] {
        assert_eq!(form(json.as_bytes()).unwrap(), Form::Ignition, "{json}");
    }
    for butane in ["variant: fcos\nversion: 1.5.0\n", "# node\n{version: 1.5.0, 'variant': fcos}", "variant:\n"] {
        assert_eq!(form(butane.as_bytes()).unwrap(), Form::Butane, "{butane}");
    }
    for other in [
        "",
        "{",
        "{} x",
        "version: 1.5.0\n",
        "a:\n  variant: fcos\n",
        "- variant: fcos\n",
        "<html>\nvariant: x\n</html>",
        "variant: a\n---\nvariant: b\n",
        "variant",
        "variant: *a\n",
    ] {
        let error = form(other.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "specified file is not a valid Ignition JSON config or Butane YAML config", "{other}");
    }
    assert_eq!(form(b"\xEF\xBB\xBFvariant: fcos\nversion: 1.6.0\n").unwrap(), Form::Butane);
    assert_eq!(form(b"\xFF\xFEv\0a\0r\0i\0a\0n\0t\0:\0 \0a\0").unwrap(), Form::Butane);
    let error = form(b"\xEF\xBB\xBF{}").unwrap_err().to_string();
    assert!(error.contains("byte order mark"), "{error}");
}
