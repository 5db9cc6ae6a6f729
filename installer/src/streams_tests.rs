//! Streams' metadata from a server of the tests' own.
#![allow(clippy::unwrap_used)]

use super::*;
use kernel::Cancel;
use testkit::http::{Server, ok};

const SUM: &str = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef";

fn artifact(name: &str) -> String {
    format!(
        r#"{{"disk": {{"location": "https://h/{name}", "signature": "https://h/{name}.sig", "sha256": "{SUM}",
            "uncompressed-sha256": "{SUM}", "later": 1}}}}"#
    )
}

/// As published, with a second architecture and platforms of several artifacts.
fn metadata() -> String {
    format!(
        r#"{{"stream": "stable", "metadata": {{"last-modified": "2026-01-01T00:00:00Z"}}, "architectures": {{
            "aarch64": {{"artifacts": {{"aws": {{"release": "44.1", "formats": {{}}}}}}}},
            "s390x": {{"artifacts": {{"metal": {{"release": "44.1", "formats": {{"raw.xz": {}}}}}}}}},
            "x86_64": {{"images": {{"aws": {{"regions": {{}}}}}}, "artifacts": {{
                "metal": {{"release": "44.20260101.3.0", "formats": {{
                    "4k.raw.xz": {}, "raw.xz": {},
                    "pxe": {{"kernel": {{"location": "https://h/k", "sha256": "{SUM}"}},
                             "rootfs": {{"location": "https://h/r", "sha256": "{SUM}"}}}}}}}}}}}}}}}}"#,
        artifact("s"),
        artifact("four"),
        artifact("image.raw.xz"),
    )
}

fn query<'a>(base_url: &'a str, architecture: &'a str, sector_bytes: u32) -> StreamQuery<'a> {
    StreamQuery { base_url, stream: "stable", architecture, sector_bytes, retries: Retries::Count(0) }
}

fn pick(json: &str, architecture: &str, sector_bytes: u32) -> Result<StreamImage, StreamError> {
    select(serde_json::from_str(json).unwrap(), &query("http://h", architecture, sector_bytes))
}

/// Where the server's streams are, for a client that knows a password.
fn base(server: &Server) -> String {
    format!("http://u:secret@{}/streams/", server.address)
}

fn busy() -> Vec<u8> {
    testkit::http::reply("503 Busy", "", "")
}

#[test]
fn image_for_each_sector_size() {
    let server = Server::in_order([ok(metadata())]);
    let found = resolve(&HttpConfig::default(), &query(&base(&server), "x86_64", 512), &Cancel::default()).unwrap();
    assert_eq!(server.finish()[0].target(), "/streams/stable.json");
    assert_eq!(found.image_url, "https://h/image.raw.xz");
    assert_eq!(found.signature_url.as_deref(), Some("https://h/image.raw.xz.sig"));
    assert_eq!(found.sha256.unwrap()[..3], [0x01, 0x23, 0x45]);
    assert_eq!(found.description, "stream stable 44.20260101.3.0 for x86_64 (metal, raw.xz)");
    assert_eq!(pick(&metadata(), "x86_64", 4096).unwrap().image_url, "https://h/four");
    // An odd size gets what coreos-installer takes.
    assert_eq!(pick(&metadata(), "x86_64", 520).unwrap().image_url, "https://h/image.raw.xz");
}

#[test]
fn what_is_missing_is_named_with_what_there_is() {
    let error = pick(&metadata(), "riscv64", 512).unwrap_err().to_string();
    assert_eq!(error, "stream stable has nothing for architecture riscv64; it has aarch64, s390x, x86_64");
    let error = pick(&metadata(), "aarch64", 512).unwrap_err().to_string();
    assert_eq!(error, "stream stable has no metal images for aarch64; its platforms are aws");
    let error = pick(&metadata(), "s390x", 4096).unwrap_err().to_string();
    assert!(error.contains("no 4k.raw.xz image for s390x") && error.ends_with("its formats are raw.xz"), "{error}");
}

#[test]
fn one_image_is_never_two() {
    let two = metadata().replacen(r#""raw.xz": {"disk""#, r#""raw.xz": {"other": {"location": "x"}, "disk""#, 2);
    let error = pick(&two, "x86_64", 512).unwrap_err();
    assert!(matches!(&error, StreamError::Artifacts { artifacts, .. } if artifacts.len() == 2), "{error}");
}

#[test]
fn sum_that_is_none_is_refused_and_none_is_none() {
    let error = pick(&metadata().replace(SUM, "0123"), "x86_64", 512).unwrap_err();
    assert!(matches!(&error, StreamError::Sha256 { found, .. } if found == "0123"), "{error}");
    let bare =
        r#"{"architectures": {"x": {"artifacts": {"metal": {"formats": {"raw.xz": {"disk": {"location": "l"}}}}}}}}"#;
    let found = pick(bare, "x", 512).unwrap();
    assert_eq!((found.signature_url, found.sha256), (None, None));
}

#[test]
fn names_and_bases_that_make_no_url() {
    for stream in ["", "a/b", "../x", "a?b", ".."] {
        let query = StreamQuery { stream, ..query("http://h", "x86_64", 512) };
        assert!(matches!(metadata_url(query.base_url, query.stream), Err(StreamError::Name { .. })), "{stream}");
    }
    assert!(matches!(metadata_url("file:///x", "stable"), Err(StreamError::BaseUrl { .. })));
    assert_eq!(metadata_url("HTTPS://h/s", "stable").unwrap(), "HTTPS://h/s/stable.json");
}

#[test]
fn failures_name_the_url_without_secrets() {
    let fail = |answer: Vec<u8>| {
        let server = Server::in_order([answer]);
        let error =
            resolve(&HttpConfig::default(), &query(&base(&server), "x86_64", 512), &Cancel::default()).unwrap_err();
        server.finish();
        assert!(error.to_string().contains("/streams/stable.json"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        error
    };
    let error = fail(testkit::http::reply("404 No", "", ""));
    assert!(error.to_string().ends_with("404 (is the stream's name right?)"), "{error}");
    assert!(matches!(fail(ok("<html>")), StreamError::Json { .. }));
    assert!(matches!(fail(ok("[]")), StreamError::Json { .. }));
    assert!(matches!(fail(ok(" ".repeat((4 << 20) + 1))), StreamError::Body { .. }));
}

#[test]
fn busy_server_is_asked_as_often_as_said() {
    let server = Server::in_order([busy(), busy(), ok(metadata())]);
    let base_url = base(&server);
    let asked = StreamQuery { retries: Retries::Count(2), ..query(&base_url, "x86_64", 512) };
    assert!(resolve(&HttpConfig::default(), &asked, &Cancel::default()).is_ok());
    assert_eq!(server.finish().len(), 3);
    let server = Server::in_order([busy()]);
    let error = resolve(&HttpConfig::default(), &query(&base(&server), "x86_64", 512), &Cancel::default()).unwrap_err();
    assert!(matches!(error, StreamError::Status { status: 503, .. }), "{error}");
    server.finish();
}

#[test]
fn pause_ends_when_cancelled() {
    let server = Server::in_order([busy()]);
    let base_url = base(&server);
    let asked = StreamQuery { retries: Retries::Forever, ..query(&base_url, "x86_64", 512) };
    let cancel = Cancel::default();
    cancel.cancel();
    let error = resolve(&HttpConfig::default(), &asked, &cancel).unwrap_err();
    assert!(matches!(error, StreamError::Cancelled), "{error}");
    server.finish();
}
