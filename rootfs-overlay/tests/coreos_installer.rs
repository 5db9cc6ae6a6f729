//! Against the real coreos-installer, when it is there: each reads what the other wrote.

use crate::common;

use common::{LIVE, SYNTHETIC, iso};
use rootfs_overlay::area::{LiveIso, Output};
use rootfs_overlay::ignition_patch;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Exit};

const CONFIG: &[u8] = br#"{"ignition":{"version":"3.1.0"},"systemd":{"units":[{"name":"a.service"}]}}"#;

/// The program named by COREOS_INSTALLER, or one in PATH; none with a printed reason.
fn installer() -> Option<PathBuf> {
    let named = std::env::var_os("COREOS_INSTALLER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join("coreos-installer"));
    let found = named.into_iter().chain(in_path).find(|path| path.is_file());
    if found.is_none() {
        testkit::skip::because("there is no coreos-installer; name one in COREOS_INSTALLER");
    }
    found
}

fn run(program: &Path, arguments: &[&str], iso: &Path) -> Exit {
    Command::new(program).arg("iso").args(arguments).arg(iso).output().expect("the program runs")
}

fn succeed(program: &Path, arguments: &[&str], iso: &Path) -> Vec<u8> {
    let exit = run(program, arguments, iso);
    assert!(exit.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&exit.stderr));
    exit.stdout
}

#[test]
fn it_shows_and_removes_what_we_embedded() {
    let (Some(program), directory) = (installer(), tempfile::tempdir().unwrap()) else { return };
    for name in LIVE {
        let Some(path) = iso(name, directory.path()) else { return };
        let before = std::fs::read(&path).unwrap();

        let live = LiveIso::open_for(&path, &Output::InPlace).unwrap();
        live.write(live.embed(CONFIG, false).unwrap(), &Output::InPlace).unwrap();
        assert_eq!(succeed(&program, &["ignition", "show"], &path), CONFIG, "{name}");
        succeed(&program, &["ignition", "remove"], &path);
        assert!(std::fs::read(&path).unwrap() == before, "{name} is as it was");

        let patch = ignition_patch(&path, CONFIG).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&patch.bytes, patch.offset).unwrap();
        assert_eq!(succeed(&program, &["ignition", "show"], &path), CONFIG, "{name}, as the service streams it");
    }
}

#[test]
fn we_show_and_remove_what_it_embedded_and_leave_its_network_settings() {
    let (Some(program), directory) = (installer(), tempfile::tempdir().unwrap()) else { return };
    let config = directory.path().join("config.ign");
    let keyfile = directory.path().join("eth0.nmconnection");
    std::fs::write(&config, CONFIG).unwrap();
    std::fs::write(&keyfile, "[connection]\nid=eth0\ntype=ethernet\n").unwrap();
    for name in LIVE {
        let Some(path) = iso(name, directory.path()) else { return };
        let before = std::fs::read(&path).unwrap();
        succeed(&program, &["ignition", "embed", "-i", config.to_str().unwrap()], &path);
        let live = LiveIso::open_for(&path, &Output::InPlace).unwrap();
        assert_eq!(live.ignition().unwrap(), CONFIG, "{name}");
        live.write(live.remove().unwrap(), &Output::InPlace).unwrap();
        assert!(std::fs::read(&path).unwrap() == before, "{name} is as it was");

        succeed(&program, &["network", "embed", "-k", keyfile.to_str().unwrap()], &path);
        let with_network = std::fs::read(&path).unwrap();
        let live = LiveIso::open_for(&path, &Output::InPlace).unwrap();
        live.write(live.embed(CONFIG, false).unwrap(), &Output::InPlace).unwrap();
        let out = directory.path().join(format!("{name}.network"));
        std::fs::create_dir(&out).unwrap();
        succeed(&program, &["network", "extract", "-C", out.to_str().unwrap()], &path);
        assert_eq!(std::fs::read(out.join("eth0.nmconnection")).unwrap(), std::fs::read(&keyfile).unwrap(), "{name}");
        assert_eq!(succeed(&program, &["ignition", "show"], &path), CONFIG, "{name}");
        let live = LiveIso::open_for(&path, &Output::InPlace).unwrap();
        live.write(live.remove().unwrap(), &Output::InPlace).unwrap();
        let archive = |bytes: &[u8]| {
            let extent = live.area().extent;
            let (start, end) = (usize::try_from(extent.offset).unwrap(), usize::try_from(extent.end()).unwrap());
            rootfs_overlay::initrd::Archive::unpack(&bytes[start..end]).unwrap()
        };
        assert_eq!(archive(&std::fs::read(&path).unwrap()), archive(&with_network), "{name}");
    }
}

#[test]
fn both_refuse_the_same_isos() {
    let (Some(program), directory) = (installer(), tempfile::tempdir().unwrap()) else { return };
    let Some(path) = iso(SYNTHETIC, directory.path()) else { return };
    assert!(!run(&program, &["ignition", "show"], &path).status.success());
    assert!(LiveIso::open(&path).is_err());
    let Some(path) = iso(LIVE[0], directory.path()) else { return };
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 2048]).unwrap();
    assert!(!run(&program, &["ignition", "show"], &path).status.success());
    assert!(LiveIso::open(&path).is_err());
}
