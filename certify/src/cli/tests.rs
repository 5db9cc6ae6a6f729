use super::*;
use crate::testing::{archive, run};
use clap::Parser;
use std::{fs, os::unix::fs::PermissionsExt};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Offline,
}

fn command(words: &[&str]) -> anyhow::Result<ExitCode> {
    Cli::try_parse_from(["certify"].iter().chain(words))?.command.run()
}

fn error(words: &[&str]) -> String {
    format!("{:#}", command(words).unwrap_err())
}

#[test]
fn a_key_is_written_once_for_its_owner_only_and_signs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("password"), "a b\nrest").unwrap();
    fs::write(path("empty"), "\n").unwrap();
    let (key, password) = (path("lab.key"), path("password"));
    assert!(
        error(&["key", "--generate", &key, "--password-file", &path("empty")]).starts_with("the password is empty")
    );
    assert_eq!(command(&["key", "--generate", &key, "--password-file", &password]).unwrap(), ExitCode::SUCCESS);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(error(&["key", "--generate", &key, "--no-password"]).contains("no key is overwritten"));
    let opened = secret_key(Path::new(&key), Some(Path::new(&password))).unwrap();
    let public: PublicKey = fs::read_to_string(path("lab.key.pub")).unwrap().parse().unwrap();
    assert_eq!(opened.public(), public);
    let wrong = secret_key(Path::new(&key), Some(Path::new(&path("empty")))).unwrap_err();
    assert!(format!("{wrong:#}").ends_with("the password is wrong, or the key was altered"), "{wrong:#}");
    assert!(error(&["key", "--generate", &path("none/key"), "--no-password"]).starts_with("cannot write "));
}

#[test]
fn exit_codes_say_what_an_archive_is() {
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = archive(&run, &files, &key);
    let (good, altered, public) = (path("good.tar"), path("altered.tar"), path("key.pub"));
    fs::write(&good, &bytes).unwrap();
    bytes[600] ^= 1;
    fs::write(&altered, &bytes).unwrap();
    fs::write(&public, key.public().to_text()).unwrap();
    for options in
        [&["--key-file", &public][..], &["--key", &key.public().to_string()], &["--key-file", &public, "--json"]]
    {
        assert_eq!(command(&[&["verify", &good], options].concat()).unwrap(), ExitCode::SUCCESS);
        assert_eq!(command(&[&["verify", &altered], options].concat()).unwrap(), ExitCode::from(BAD));
    }
    assert!(error(&["verify", &good]).starts_with("the signer was not checked"));
    assert_eq!(command(&["verify", &altered]).unwrap(), ExitCode::from(BAD));
    assert!(error(&["verify", &path("none")]).starts_with("cannot open "));
    assert!(error(&["verify", &good, "--key", "RWx"]).contains("not a public key as minisign writes it"));
    let refused = error(&["export", &altered, "--as", "html", "-o", &path("page.html")]);
    assert!(refused.contains("is not as it was signed: files: certification.json was altered"), "{refused}");
    assert!(!Path::new(&path("page.html")).exists());
    command(&["export", &good, "--as", "html", "-o", &path("page.html")]).unwrap();
    assert!(fs::read_to_string(path("page.html")).unwrap().starts_with("<!DOCTYPE html>"));
    assert!(error(&["export", &good, "--as", "pdf"]).contains("the forms are ocptv, cyclonedx and html"));
}

#[test]
fn a_table_has_a_line_for_each_check() {
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    let bytes = archive(&run, &files, &key);
    let table = table(&verify(&mut &bytes[..], None));
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 10, "{table}");
    assert_eq!(lines[0], "archive      ok           7 members, every byte in canonical form");
    assert_eq!(lines[9], "TPM          not checked  B2: no evidence");
}

#[test]
fn a_plan_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certify.toml");
    let path = path.to_str().unwrap();
    command(&["init", path]).unwrap();
    assert_eq!(crate::Plan::read(Path::new(path)).unwrap().name, "Model X, edition 3");
    assert!(error(&["init", path]).contains("no file is overwritten"));
}
