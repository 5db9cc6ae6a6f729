//! The program called as `ignition-apply`.
#![allow(clippy::unwrap_used)]

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

const CONFIG: &str = r#"{"ignition":{"version":"3.3.0"},"storage":{"files":[{"path":"/etc/motd","overwrite":true,"contents":{"source":"data:,hi"}}]},"bogus":1}"#;
const DISKS: &str =
    r#"{"ignition":{"version":"3.3.0"},"storage":{"disks":[{"device":"/dev/x"}],"files":[{"path":"/a"}]}}"#;

/// Exit code and standard output of a run in a container, or not.
fn run(program: &Path, args: &[&str], container: &str) -> (Option<i32>, String) {
    let output = Command::new(program).args(args).env("container", container).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_config_is_applied_as_often_as_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("ignition-apply");
    symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();
    let [root, config, disks] = ["root", "config.ign", "disks.ign"].map(|name| dir.path().join(name));
    fs::create_dir(&root).unwrap();
    fs::write(&config, CONFIG).unwrap();
    fs::write(&disks, DISKS).unwrap();
    let [root_text, config, disks] = [&root, &config, &disks].map(|path| path.to_str().unwrap());
    for _ in 0..2 {
        let (code, out) = run(&program, &["--root", root_text, config], "podman");
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("WARNING  : warning at $.bogus"), "{out}");
        assert_eq!(fs::read_to_string(root.join("etc/motd")).unwrap(), "hi");
    }
    // This is nobody's first boot.
    assert!(!root.join("etc/.ignition-result.json").exists());
    let (code, out) = run(&program, &["--root", root_text, disks], "podman");
    assert_eq!((code, root.join("a").exists()), (Some(1), false), "{out}");
    assert!(out.contains("CRITICAL : failed to apply: cannot apply $.storage.disks live"), "{out}");
    let (code, out) = run(&program, &["--root", root_text, "--ignore-unsupported", disks], "podman");
    assert_eq!((code, root.join("a").exists()), (Some(0), true), "{out}");
    let in_container = ["/run/.containerenv", "/.dockerenv"].iter().any(|path| Path::new(path).exists());
    let (code, out) = run(&program, &["--root", root_text, config], "");
    assert_eq!(code, Some(if in_container { 0 } else { 1 }), "{out}");
    assert!(in_container || out.contains("this tool is not designed to run on a host system"), "{out}");
}
