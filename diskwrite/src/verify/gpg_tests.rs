//! Signatures that gpg and minisign made.
#![allow(clippy::unwrap_used)]

use super::{keyring, openpgp::OpenPgp, *};
use crate::options::{InstallOptions, Source};
use crate::trust::{SignatureAt, Trust};
use sha2::Digest;
use std::{path::Path, process::Command};
use testkit::gpg::{Gpg, lacks};

const DATA: &[u8] = b"an image\r\nof two lines\n";

fn now() -> i64 {
    api::Timestamp::now().unix_seconds()
}

/// Checks a signature of `data`, which comes in pieces.
fn check(signature: &[u8], keys: &[u8], data: &[u8]) -> Result<(), VerifyError> {
    let keys = parse_keys(keys).keys;
    let mut tap = Box::new(OpenPgp::new("a.sig".into(), signature, &keys, now())?);
    data.chunks(7).for_each(|piece| tap.update(piece));
    tap.finish()
}

#[test]
fn signatures_of_gpg_are_good_or_bad() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let file = gpg.file("image", DATA);
    let stranger = gpg.key("Stranger <s@example.com>", "ed25519", "sign,cert", "never", &[]);
    for (algorithm, digest) in [
        ("rsa2048", "SHA256"),
        ("rsa4096", "SHA512"),
        ("ed25519", "SHA256"),
        ("nistp256", "SHA384"),
        ("nistp384", "SHA512"),
    ] {
        let user = format!("{algorithm} <k@example.com>");
        let key = gpg.key(&user, algorithm, "sign,cert", "never", &[]);
        for armor in [&["--digest-algo", digest][..], &["--digest-algo", digest, "--armor"]] {
            let signature = gpg.sign(&key, &file, armor);
            for armored in [false, true] {
                let ring = gpg.export(&[&stranger, &key], armored);
                check(&signature, &ring, DATA).unwrap();
                let error = check(&signature, &ring, &[DATA, b"x"].concat()).unwrap_err();
                assert!(
                    matches!(&error, VerifyError::Bad { key: by, user: who, .. } if *by == key && *who == user),
                    "{error}"
                );
            }
            let error = check(&signature, &gpg.export(&[&stranger], false), DATA).unwrap_err();
            assert!(
                matches!(&error, VerifyError::UnknownKey { made_by, trusted, .. }
                if *made_by == key && *trusted == stranger),
                "{error}"
            );
            // Cut off anywhere, it is none, or a bad one.
            for len in (0..signature.len() - 2).step_by(1 + signature.len() / 40) {
                assert!(check(&signature[..len], &gpg_ring(&gpg, &key), DATA).is_err(), "{algorithm} {len}");
            }
        }
    }
}

/// The key alone, exported once.
fn gpg_ring(gpg: &Gpg, key: &str) -> Vec<u8> {
    let path = gpg.path(&format!("ring-{key}"));
    std::fs::read(&path).unwrap_or_else(|_| {
        let ring = gpg.export(&[key], false);
        std::fs::write(&path, &ring).unwrap();
        ring
    })
}

#[test]
fn one_good_signature_suffices_but_no_bad_one() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let (file, other) = (gpg.file("image", DATA), gpg.file("other", b"other"));
    let [ours, second, stranger] =
        ["Ours", "Second", "Stranger"].map(|name| gpg.key(name, "ed25519", "sign,cert", "never", &[]));
    // A ring of several armored blocks with text between them.
    let ring = [gpg.export(&[&ours], true), b"second:\n".to_vec(), gpg.export(&[&second], true)].concat();
    let good = gpg.sign(&ours, &file, &[]);
    check(&[gpg.sign(&stranger, &file, &[]), good.clone()].concat(), &ring, DATA).unwrap();
    check(&[good.clone(), gpg.sign(&second, &file, &[])].concat(), &ring, DATA).unwrap();
    for both in [[good.clone(), gpg.sign(&second, &other, &[])], [gpg.sign(&second, &other, &[]), good]] {
        let error = check(&both.concat(), &ring, DATA).unwrap_err();
        assert!(matches!(&error, VerifyError::Bad { key, .. } if *key == second), "{error}");
    }
}

#[test]
fn weak_and_other_signatures_are_refused() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let file = gpg.file("image", DATA);
    let key = gpg.key("Ours", "rsa2048", "sign,cert", "never", &[]);
    let ring = gpg.export(&[&key], false);
    for (more, word) in [
        (&["--digest-algo", "SHA1"][..], "SHA1, which is too weak"),
        (&["--digest-algo", "RIPEMD160"], "its digest is RIPEMD160; SHA-256"),
        (&["--textmode"], "of a binary file"),
        (&["--set-notation", "!a@example.com=b"], "critical notation"),
        (&["--faked-system-time", "20200101T000000!", "--ignore-time-conflict"], "after the signature of"),
    ] {
        let error = check(&gpg.sign(&key, &file, more), &ring, DATA).unwrap_err();
        assert!(error.to_string().contains(word), "{more:?}: {error}");
    }
    let signature = gpg.sign(&key, &file, &["--default-sig-expire", "1d"]);
    let keys = parse_keys(&ring).keys;
    assert!(OpenPgp::new("a".into(), &signature, &keys, now()).is_ok());
    let at = |now| OpenPgp::new("a".into(), &signature, &keys, now).map(drop).unwrap_err().to_string();
    assert!(at(now() + 2 * 86400).contains("it expired at"));
    // A clock that was never set.
    assert!(at(86400).contains("check the clock"), "{}", at(86400));
    for rubbish in [
        &b""[..],
        b"-----BEGIN PGP SIGNATURE-----\n",
        &[0x88, 0xff],
        &ring,
        b"<html>",
        &[0xC2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
    ] {
        assert!(matches!(check(rubbish, &ring, DATA), Err(VerifyError::NoSignature { .. })));
    }
}

#[test]
fn keys_that_may_not_sign() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let file = gpg.file("image", DATA);
    let refused = |signature: &[u8], ring: &[u8], word: &str| {
        let error = check(signature, ring, DATA).unwrap_err();
        assert!(matches!(&error, VerifyError::UnusableKey { reason, .. } if reason.contains(word)), "{word}: {error}");
    };
    let past = ["--faked-system-time", "20200101T000000!"];
    let expired = gpg.key("Expired", "ed25519", "sign,cert", "1y", &past);
    refused(&gpg.sign(&expired, &file, &past), &gpg.export(&[&expired], true), "expired at 2020-12-31T");
    let revoked = gpg.key("Revoked", "ed25519", "sign,cert", "never", &[]);
    let signature = gpg.sign(&revoked, &file, &[]);
    check(&signature, &gpg.export(&[&revoked], false), DATA).unwrap();
    let certificate = std::fs::read_to_string(gpg.path(&format!("openpgp-revocs.d/{revoked}.rev"))).unwrap();
    let certificate = gpg.file("revocation", certificate.replace(":-----BEGIN", "-----BEGIN").as_bytes());
    gpg.run(&["--import", &certificate.display().to_string()]);
    refused(&signature, &gpg.export(&[&revoked], false), "has revoked it");
}

#[test]
fn subkeys_sign_where_both_keys_say_so() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let file = gpg.file("image", DATA);
    let owner = gpg.key("Owner", "rsa2048", "cert", "never", &[]);
    for algorithm in ["rsa2048", "ed25519"] {
        gpg.run(&["--quick-add-key", &owner, algorithm, "sign", "never"]);
    }
    gpg.run(&["--quick-add-key", &owner, "cv25519", "encr", "never"]);
    let ring = gpg.export(&[&owner], false);
    let subkeys = gpg.fingerprints("Owner");
    for subkey in &subkeys[1..3] {
        check(&gpg.sign(&format!("{subkey}!"), &file, &[]), &ring, DATA).unwrap();
    }
    let keys = parse_keys(&ring).keys;
    assert!(keys[0].flaw.unwrap().contains("not for signing") && keys[3].flaw.unwrap().contains("not for signing"));
    // Somebody hangs his own subkey, with its own binding, on a key we trust.
    let thief = gpg.key("Thief", "rsa2048", "cert", "never", &[]);
    gpg.run(&["--quick-add-key", &thief, "rsa2048", "sign", "never"]);
    let theirs = gpg.export(&[&thief], false);
    let grafted = [&ring[..first_subkey(&ring)], &theirs[first_subkey(&theirs)..]].concat();
    assert_eq!(parse_keys(&grafted).keys.len(), 2);
    let stolen = format!("{}!", gpg.fingerprints("Thief")[1]);
    let error = check(&gpg.sign(&stolen, &file, &[]), &grafted, DATA).unwrap_err();
    assert!(matches!(&error, VerifyError::UnusableKey { reason, .. } if reason.contains("binding")), "{error}");
}

/// Where the first subkey's packet begins, in the form of packets that gpg writes.
fn first_subkey(ring: &[u8]) -> usize {
    let len = |packet: packet::Packet| packet.body.len() + if packet.body.len() < 256 { 2 } else { 3 };
    let all = packet::packets(ring).map(Result::unwrap);
    all.take_while(|packet| packet.tag != packet::tag::PUBLIC_SUBKEY).map(len).sum()
}

/// Hostile bytes are near to good ones: none of them panics, and none makes another image good.
#[test]
fn damaged_keys_and_signatures_vouch_for_nothing() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let file = gpg.file("image", DATA);
    let mut random = fastrand::Rng::with_seed(7);
    for armored in [false, true] {
        let armor: &[&str] = if armored { &["--armor"] } else { &[] };
        let key = gpg.key(&format!("Ours {armored}"), "ed25519", "sign,cert", "never", &[]);
        gpg.run(&["--quick-add-key", &key, "rsa2048", "sign", "never"]);
        let (ring, signature) = (gpg.export(&[&key], armored), gpg.sign(&key, &file, armor));
        check(&signature, &ring, DATA).unwrap();
        for _ in 0..400 {
            let mut damaged = [ring.clone(), signature.clone()];
            for bytes in &mut damaged {
                for _ in 0..random.usize(0..4) {
                    let at = random.usize(..bytes.len());
                    match random.u8(..3) {
                        0 => bytes[at] = random.u8(..),
                        1 => drop(bytes.remove(at)),
                        _ => bytes.insert(at, random.u8(..)),
                    }
                }
            }
            let _ = check(&damaged[1], &ring, DATA);
            for ring in [&ring, &damaged[0]] {
                assert!(check(&damaged[1], ring, b"another image").is_err());
            }
        }
    }
}

#[test]
fn of_the_systems_keys_only_coreos_are_trusted() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let [signs, other] = ["Signs", "Other"].map(|name| gpg.key(name, "ed25519", "sign,cert", "never", &[]));
    let dir = gpg.path("keys");
    std::fs::create_dir_all(dir.join("sub")).unwrap();
    std::fs::write(dir.join("RPM-GPG-KEY-b"), gpg.export(&[&signs, &other], true)).unwrap();
    std::fs::write(dir.join("RPM-GPG-KEY-a"), gpg.export(&[&signs], true)).unwrap();
    std::fs::write(dir.join("junk"), "junk").unwrap();
    let next = gpg.key("Fedora (99)", "ed25519", "sign,cert", "never", &[]);
    std::fs::write(dir.join("RPM-GPG-KEY-fedora-99-primary"), gpg.export(&[&next], true)).unwrap();
    let known = keyring::parse(&gpg.export(&[&signs], true)).keys;
    let found = keyring::with_dirs(&[&dir, Path::new("/nonexistent")], known);
    assert_eq!(found.iter().map(|key| &key.fingerprint).collect::<Vec<_>>(), [&signs, &next]);
    // Without any in the system there are those built in.
    assert!(keyring::of_coreos().len() >= 4);
}

#[test]
fn keys_of_key_rings_are_trusted_beside_those_of_coreos() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let key = gpg.key("Ours", "ed25519", "sign,cert", "never", &[]);
    let ring = gpg.file("ring", &gpg.export(&[&key], true));
    let trusted = |keyrings: &[&PathBuf], keyrings_only: bool| -> Vec<String> {
        let keyrings = keyrings.iter().map(|ring| ring.to_path_buf()).collect();
        let keys = keyring::trusted(&Trust { keyrings, keyrings_only, ..Default::default() }).unwrap();
        keys.into_iter().map(|key| key.fingerprint).collect()
    };
    let coreos = trusted(&[], false);
    assert!(coreos.len() >= 4);
    // A ring that is named twice adds its key once.
    assert_eq!(trusted(&[&ring, &ring], false), [coreos.clone(), vec![key.clone()]].concat());
    assert_eq!(trusted(&[&ring], true), std::slice::from_ref(&key));

    // What is trusted is named where a signature is by another key.
    let file = gpg.file("image", DATA);
    let stranger = gpg.key("Stranger", "ed25519", "sign,cert", "never", &[]);
    gpg.file("image.sig", &gpg.sign(&stranger, &file, &[]));
    for keyrings_only in [false, true] {
        let trust = Trust { required: true, keyrings: vec![ring.clone()], keyrings_only, ..Default::default() };
        let error = run(&options(&file, trust)).unwrap_err();
        let VerifyError::UnknownKey { made_by, trusted, .. } = error else { panic!("{error}") };
        assert_eq!(made_by, stranger);
        assert!(trusted.contains(&key), "{trusted}");
        assert_eq!(trusted.contains(&coreos[0]), !keyrings_only, "{trusted}");
    }
}

/// Where a log is written to.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As with an installation that a service drives: nothing is required of the image.
#[test]
fn an_image_that_nothing_vouches_for_is_named_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::write(&image, DATA).unwrap();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let taps = tracing::subscriber::with_default(subscriber, || run(&options(&image, Trust::default())));
    assert_eq!(taps.unwrap(), 0);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let expected = format!("looked for {}.sig): nothing vouches for the image", image.display());
    assert!(text.contains("WARN") && text.contains(&expected), "{text}");
}

#[test]
fn a_sum_vouches_without_a_signature() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::write(&image, DATA).unwrap();
    let sum = sha2::Sha256::digest(DATA).into();
    let trust = Trust { required: true, sha256: Some(sum), ..Default::default() };
    assert_eq!(run(&options(&image, trust.clone())).unwrap(), 1);
    let wrong = Trust { sha256: Some([7; 32]), ..trust.clone() };
    assert!(matches!(run(&options(&image, wrong)), Err(VerifyError::Sha256 { .. })));
    // Not one that came with the image, nor where a signature is named.
    let published = Trust { sha256: None, published_sha256: Some(sum), ..trust.clone() };
    assert!(matches!(run(&options(&image, published)), Err(VerifyError::Missing { .. })));
    let named = Trust { signature: Some(SignatureAt::File(dir.path().join("none"))), ..trust };
    assert!(matches!(run(&options(&image, named)), Err(VerifyError::ReadSignature { .. })));
}

fn options(image: &Path, trust: Trust) -> InstallOptions {
    InstallOptions { source: Source::File(image.into()), trust, ..Default::default() }
}

fn run(options: &InstallOptions) -> Result<usize, VerifyError> {
    let mut taps = taps(options)?;
    taps.iter_mut().for_each(|tap| tap.update(DATA));
    let count = taps.len();
    taps.into_iter().try_for_each(|tap| tap.finish())?;
    Ok(count)
}

#[test]
fn what_is_required_must_be_there() {
    if lacks("gpg") {
        return;
    }
    let gpg = Gpg::default();
    let file = gpg.file("image", DATA);
    let key = gpg.key("Ours", "ed25519", "sign,cert", "never", &[]);
    let ring = gpg.file("ring", &gpg.export(&[&key], true));
    let required = Trust { required: true, keyrings: vec![ring.clone()], ..Default::default() };
    let error = run(&options(&file, required.clone())).unwrap_err().to_string();
    assert!(
        error.starts_with("--insecure not specified and signature not found") && error.contains("image.sig"),
        "{error}"
    );
    let stdin = InstallOptions { trust: required.clone(), ..Default::default() };
    assert!(matches!(taps(&stdin), Err(VerifyError::Missing { .. })));
    assert_eq!(run(&options(&file, Trust::default())).unwrap(), 0);

    gpg.file("image.sig", &gpg.sign(&key, &file, &[]));
    assert_eq!(run(&options(&file, required.clone())).unwrap(), 1);
    // By a key that this system does not know, and no other is named.
    let unknown = Trust { required: true, ..Default::default() };
    assert!(matches!(run(&options(&file, unknown)), Err(VerifyError::UnknownKey { .. })));
    assert_eq!(run(&options(&file, Trust::default())).unwrap(), 0);

    // A bad one is refused whatever is said.
    let wrong = gpg.file("wrong", b"other");
    gpg.file("image.sig", &gpg.sign(&key, &wrong, &[]));
    let lax = Trust { keyrings: vec![ring], ..Default::default() };
    assert!(matches!(run(&options(&file, lax.clone())), Err(VerifyError::Bad { .. })));
    let elsewhere = gpg.file("elsewhere", &gpg.sign(&key, &file, &["--armor"]));
    let named = Trust { signature: Some(SignatureAt::File(elsewhere)), ..required };
    assert_eq!(run(&options(&file, named)).unwrap(), 1);
    let no_ring = Trust { keyrings: vec![file.clone()], ..lax };
    assert!(matches!(run(&options(&file, no_ring)), Err(VerifyError::NoKey { .. })));
}

#[test]
fn sums_go_with_signatures() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image.xz");
    let sums = dir.path().join("SHA256SUMS");
    std::fs::write(&image, DATA).unwrap();
    let output = Command::new("sha256sum").current_dir(dir.path()).arg("image.xz").output().unwrap();
    std::fs::write(&sums, &output.stdout).unwrap();
    let trust = Trust { sha256_sums: Some(sums.clone()), ..Default::default() };
    assert_eq!(run(&options(&image, trust.clone())).unwrap(), 1);
    let both = Trust { sha256: Some([7; 32]), ..trust.clone() };
    assert!(matches!(run(&options(&image, both)), Err(VerifyError::Sha256 { .. })));
    std::fs::write(&sums, "nothing\n").unwrap();
    assert!(matches!(run(&options(&image, trust)), Err(VerifyError::NoSum { .. })));
}

#[test]
fn minisign_signatures() {
    // It knows no --version, but starts.
    if lacks("minisign") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let minisign = |args: &[&str]| {
        let output = Command::new("minisign").current_dir(dir.path()).args(args).output().unwrap();
        assert!(output.status.success(), "minisign {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    std::fs::write(path("image"), DATA).unwrap();
    for key in ["a", "b"] {
        minisign(&["-G", "-W", "-p", &format!("{key}.pub"), "-s", &format!("{key}.key")]);
    }
    let trust = |key: &str| Trust { required: true, minisign_key: Some(path(key)), ..Default::default() };
    let check = |key: &str| run(&options(&path("image"), trust(key)));
    assert!(matches!(check("a.pub"), Err(VerifyError::Missing { .. })));
    minisign(&["-S", "-H", "-s", "a.key", "-m", "image", "-t", "for a test"]);
    assert_eq!(check("a.pub").unwrap(), 1);
    let error = check("b.pub").unwrap_err().to_string();
    assert!(error.contains("different key") && error.contains("b.pub"), "{error}");
    assert!(matches!(check("image"), Err(VerifyError::NoKey { .. })));
    // The comment is signed as well.
    let signature = std::fs::read_to_string(path("image.minisig")).unwrap();
    std::fs::write(path("image.minisig"), signature.replace("for a test", "for a jest")).unwrap();
    assert!(matches!(check("a.pub"), Err(VerifyError::Minisign { .. })));
    std::fs::write(path("image.minisig"), &signature[..signature.len() / 2]).unwrap();
    assert!(matches!(check("a.pub"), Err(VerifyError::NoSignature { .. })));
    std::fs::write(path("other"), "other").unwrap();
    minisign(&["-S", "-H", "-s", "a.key", "-m", "other", "-x", "image.minisig"]);
    assert!(matches!(check("a.pub"), Err(VerifyError::Minisign { .. })));
}
