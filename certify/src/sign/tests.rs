use super::*;
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

fn none() -> io::Result<String> {
    panic!("asked for a password")
}

/// Runs the real program, which reads passwords from standard input.
fn minisign(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = Command::new("minisign");
    command.current_dir(folder).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn succeeds(folder: &Path, args: &[&str], input: &str) -> bool {
    minisign(folder, args, input).status.success()
}

#[test]
fn minisign_verifies_ours_and_we_verify_its() {
    if testkit::gpg::lacks("minisign") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let key = SecretKey::generate().unwrap();
    write("ours.pub", &key.public().to_text());
    write("file", "content");
    let ours = key.sign(b"content", "timestamp:1\tfile:file\thashed").unwrap();
    write("file.minisig", &ours);
    assert!(succeeds(folder, &["-V", "-p", "ours.pub", "-m", "file"], ""), "{ours}");
    for (from, to) in [("timestamp:1", "timestamp:2"), (&ours[80..84], "AAAA")] {
        write("file.minisig", &ours.replace(from, to));
        assert!(!succeeds(folder, &["-V", "-p", "ours.pub", "-m", "file"], ""), "{from}");
    }
    write("file.minisig", &ours);
    write("file", "Content");
    assert!(!succeeds(folder, &["-V", "-p", "ours.pub", "-m", "file"], ""));

    assert!(succeeds(folder, &["-G", "-W", "-p", "its.pub", "-s", "its.key"], ""));
    assert!(succeeds(folder, &["-S", "-H", "-s", "its.key", "-m", "file", "-t", "a comment"], ""));
    let (public, signature): (PublicKey, _) = (read("its.pub").parse().unwrap(), read("file.minisig"));
    let theirs = Signature::from_minisign(&signature).unwrap();
    public.verify(b"Content", &theirs).unwrap();
    assert!(matches!(public.verify(b"content", &theirs), Err(SignError::Mismatch)));
    assert!(matches!(key.public().verify(b"Content", &theirs), Err(SignError::OtherKey(id)) if id == public.id()));
    let other = Signature::from_minisign(&signature.replace("a comment", "b comment")).unwrap();
    assert!(matches!(public.verify(b"Content", &other), Err(SignError::Mismatch)));
    // It leaves out zeros at the front.
    let id = public.id().to_string();
    assert!(read("its.pub").contains(id.trim_start_matches('0')), "{id}");
    assert_eq!(public.to_string(), read("its.pub").lines().last().unwrap());
    // Its secret key signs here as well.
    let same = SecretKey::parse(&read("its.key"), &mut none).unwrap();
    assert_eq!(same.public(), public);
}

#[test]
fn minisign_opens_our_keys() {
    if testkit::gpg::lacks("minisign") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = SecretKey::generate().unwrap();
    fs::write(folder.join("file"), "content").unwrap();
    for (password, input, works) in
        [(None, "", true), (Some("pass word"), "pass word\n", true), (Some("x"), "y\n", false)]
    {
        fs::write(folder.join("key"), key.to_text(password).unwrap()).unwrap();
        let output = minisign(folder, &["-S", "-H", "-s", "key", "-m", "file"], input);
        assert_eq!(output.status.success(), works, "{password:?}: {output:?}");
    }
    let signature = Signature::from_minisign(&fs::read_to_string(folder.join("file.minisig")).unwrap()).unwrap();
    key.public().verify(b"content", &signature).unwrap();
}

#[test]
fn an_encrypted_key_needs_its_password() {
    let key = SecretKey::generate().unwrap();
    let text = key.to_text(Some("secret")).unwrap();
    let parse = |text: &str, password: &str| SecretKey::parse(text, &mut || Ok(password.to_owned()));
    assert_eq!(parse(&text, "secret").unwrap().public(), key.public());
    assert!(matches!(parse(&text, "Secret"), Err(SignError::Password)));
    let asked = SecretKey::parse(&text, &mut || Err(io::ErrorKind::NotFound.into()));
    assert!(matches!(asked, Err(SignError::Ask(_))));
    let plain = key.to_text(None).unwrap();
    assert_eq!(SecretKey::parse(&plain, &mut none).unwrap().public(), key.public());
    assert!(!format!("{key:?}").contains(&BASE64_STANDARD.encode(key.seed)[..8]));
    for bad in
        ["", "x", "untrusted comment: x\n", "untrusted comment: x\nAAAA\n", &plain[1..], &plain[..plain.len() - 3]]
    {
        assert!(matches!(SecretKey::parse(bad, &mut none), Err(SignError::SecretKey)), "{bad}");
    }
}

#[test]
fn the_work_that_keys_ask_for_is_bounded() {
    assert_eq!(work(OPERATIONS, MEMORY), Some((17, 1)));
    // What minisign asks for, and what it asks for where memory is short.
    assert_eq!(work(33_554_432, 1 << 30), Some((20, 1)));
    assert_eq!(work(524_288, 16 << 20), Some((14, 1)));
    assert_eq!(work(524_288, 1 << 30), Some((14, 1)));
    for (operations, memory) in [(u64::MAX, u64::MAX), (1 << 40, 1 << 31), (u64::MAX, 1 << 20)] {
        assert_eq!(work(operations, memory), None, "{operations} {memory}");
    }
}

#[test]
fn only_our_form_of_a_signature_is_taken() {
    let key = SecretKey::generate().unwrap();
    let text = key.sign(b"x", "a comment").unwrap();
    let signature: Signature = text.parse().unwrap();
    key.public().verify(b"x", &signature).unwrap();
    assert_eq!(signature.comment, "a comment");
    let cases = [
        text.replace("signature of", "signature  of"),
        text.replace('\n', "\r\n"),
        text.trim_end().to_owned(),
        text.clone() + "\n",
        text.replace("==\n", "\n"),
        text.lines().take(3).collect::<Vec<_>>().join("\n"),
        String::new(),
    ];
    for case in cases {
        assert!(matches!(case.parse::<Signature>(), Err(SignError::Form)), "{case}");
    }
    let public = key.public().to_text();
    assert_eq!(public.parse::<PublicKey>().unwrap(), key.public());
    assert_eq!(format!(" {} \n", key.public()).parse::<PublicKey>().unwrap(), key.public());
    for bad in ["", "RW", &public[30..60], "untrusted comment: x", &key.public().to_string().replace("RW", "RU")] {
        assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
    }
}
