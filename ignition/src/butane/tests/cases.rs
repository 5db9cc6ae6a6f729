//! Documents, and what becomes of them in essence. The same are given to the real program by `make peers-check`.

use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::symlink, path::Path};

/// What each document of OpenShift begins with, unless it is `bare`.
const METADATA: &str = "metadata: {name: a, labels: {machineconfiguration.openshift.io/role: worker}}\n";

pub(crate) struct Case {
    pub name: &'static str,
    /// The Ignition config alone, without a MachineConfig.
    pub raw: bool,
    pub document: String,
    /// `POINTER = JSON`, `POINTER ~ CONTENTS` of a data URL, `POINTER -` for what is missing, `error PATH LINE:COL` and
    /// `warning PATH LINE:COL`.
    #[allow(dead_code, reason = "the real program says by itself what is expected")]
    pub expected: Vec<&'static str>,
}

/// A case is `## NAME`, a line `VARIANT VERSION [raw] [bare]`, the document, and what is expected, each after `> `.
pub(crate) fn all() -> Vec<Case> {
    let cases = include_str!("cases.txt").split("\n## ").skip(1);
    cases.map(read).collect()
}

fn read(case: &'static str) -> Case {
    let mut lines = case.lines();
    let name = lines.next().unwrap();
    let words: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let (variant, version) = (words[0], words[1]);
    let mut document = format!("variant: {variant}\nversion: {version}\n");
    if variant == "openshift" && !words.contains(&"bare") {
        document.push_str(METADATA);
    }
    let mut expected = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix("> ") {
            Some(line) => expected.push(line),
            None => document.extend([line, "\n"]),
        }
    }
    Case { name, raw: words.contains(&"raw"), document, expected }
}

/// The directory of local files that the documents name.
pub(crate) fn files(directory: &Path) {
    for (name, contents) in [
        ("hello.txt", b"hello\n".to_vec()),
        ("long.txt", b"0123456789\n".repeat(300)),
        ("binary", (0..=255).collect()),
        ("unit.service", b"[Service]\nExecStart=/bin/true\n".to_vec()),
        ("keys", b"ssh-ed25519 AAAA a\r\n\nssh-ed25519 BBBB b\n".to_vec()),
        ("config.ign", br#"{"ignition":{"version":"3.4.0"}}"#.to_vec()),
        ("tree/etc/motd", b"hi\n".to_vec()),
        ("tree/etc/long", b"abc".repeat(500)),
        ("tree/usr/bin/tool", b"#!/bin/sh\n".to_vec()),
    ] {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        let mode = if name.contains("/bin/") { 0o700 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(directory.join("tree/empty")).unwrap();
    symlink("motd", directory.join("tree/etc/issue")).unwrap();
    symlink("hello.txt", directory.join("inner")).unwrap();
}
