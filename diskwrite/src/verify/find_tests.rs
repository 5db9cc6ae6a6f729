//! Where signatures and sums are looked for, and what is said when there is none.
#![allow(clippy::unwrap_used)]

use super::*;
use testkit::http::Server;

fn from(source: Source) -> InstallOptions {
    InstallOptions { source, retries: Retries::Count(1), ..Default::default() }
}

#[test]
fn signature_is_beside_the_image() {
    let at = |url: &str| place(&from(Source::Url(url.into())), ".sig");
    let url = |text: &str| Some(SignatureAt::Url(text.into()));
    assert_eq!(at("https://h/a.raw.xz"), url("https://h/a.raw.xz.sig"));
    assert_eq!(at("https://h/a.raw.xz?key=1?2#part"), url("https://h/a.raw.xz.sig?key=1?2"));
    let file = place(&from(Source::File("/x/a.xz".into())), ".minisig");
    assert_eq!(file, Some(SignatureAt::File("/x/a.xz.minisig".into())));
    assert_eq!(place(&from(Source::Stdin), ".sig"), None);
    let mut named = from(Source::Stdin);
    named.trust.signature = Some(SignatureAt::File("/s".into()));
    assert_eq!(place(&named, ".sig"), Some(SignatureAt::File("/s".into())));
}

#[test]
fn file_may_be_missing_only_beside_the_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sig");
    let at = SignatureAt::File(path.clone());
    let mut options = from(Source::File(dir.path().join("a")));
    assert_eq!(read(&options, &at).unwrap(), None);
    options.trust.signature = Some(at.clone());
    assert!(matches!(read(&options, &at), Err(VerifyError::ReadSignature { .. })));
    std::fs::write(&path, vec![0; 64 << 10]).unwrap();
    assert_eq!(read(&options, &at).unwrap().unwrap().len(), 64 << 10);
    std::fs::write(&path, vec![0; (64 << 10) + 1]).unwrap();
    assert!(matches!(read(&options, &at), Err(VerifyError::TooLong { .. })));
}

#[test]
fn server_without_it_is_no_failure() {
    let options = from(Source::default());
    let answer = |status, body: &[u8]| testkit::http::reply(status, "", body);
    let get = |answers: Vec<Vec<u8>>| {
        let server = Server::in_order(answers);
        let found = read(&options, &SignatureAt::Url(server.url("/a.sig"))).unwrap();
        server.finish();
        found
    };
    assert_eq!(get(vec![answer("200 OK", b"sig")]).unwrap(), b"sig");
    assert_eq!(get(vec![answer("404 No", b"page")]), None);
    assert_eq!(get(vec![answer("200 OK", &vec![0; 65_537])]), None);
    // One more try, as the options say.
    assert_eq!(get(vec![answer("503 Busy", b""), answer("200 OK", b"sig")]).unwrap(), b"sig");
    assert_eq!(get(vec![answer("503 Busy", b""), answer("503 Busy", b"")]), None);
}
