//! Configs and trees made to lead out of the root: nothing outside it is changed.
#![allow(clippy::unwrap_used)]

use crate::real;

use ignition::apply::{Now, Root, apply, newest};
use ignition::fetch::{FetchOptions, Fetcher};
use proptest::{collection::vec, prelude::*, sample::select};
use real::{base, snapshot};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink, path::Path};

/// Where links are put, all of which a config's files, users and units go through.
const LINKS: [&str; 12] = [
    "a",
    "a/b",
    "etc/systemd/system",
    "etc/systemd/system-preset",
    "etc/.ignition-result.json",
    "etc/passwd",
    "etc/shadow-",
    "etc/.pwd.lock",
    "home/core",
    "home/old/.ssh",
    "etc/skel",
    "var/mail",
];
const PATHS: [&str; 7] = ["/a", "/a/x", "/a/b", "/a/b/y/z", "/lnk/../a", "/etc/passwd", "/home/core/.ssh"];

fn targets() -> impl Strategy<Value = String> {
    // OUTSIDE stands for the absolute path of what must not be touched.
    select(vec![
        "OUTSIDE",
        "OUTSIDE/dir",
        "../outside",
        "../../outside/dir",
        "../../../../../../OUTSIDE/file",
        "/",
        "a",
        "..",
    ])
    .prop_map(str::to_owned)
}

fn entry() -> impl Strategy<Value = (u8, Value)> {
    let path = select(PATHS.to_vec());
    (0..3u8, path, any::<bool>(), targets(), any::<bool>()).prop_map(|(kind, path, overwrite, target, hard)| {
        let rest = match kind {
            0 if overwrite => json!({"contents": {"source": "data:,x"}, "mode": 511}),
            0 => json!({"append": [{"source": "data:,x"}], "mode": 511, "user": {"id": 7}}),
            1 => json!({"mode": 511, "user": {"id": 7}}),
            _ => json!({"target": target, "hard": hard}),
        };
        let mut entry = rest;
        entry["path"] = path.replace("/lnk/..", "").into();
        entry["overwrite"] = overwrite.into();
        (kind, entry)
    })
}

fn config(entries: &[(u8, Value)], outside: &str) -> String {
    let of =
        |wanted: u8| entries.iter().filter(|(kind, _)| *kind == wanted).map(|(_, entry)| entry).collect::<Vec<_>>();
    let config = json!({
        "ignition": {"version": "3.3.0"},
        "passwd": {"groups": [{"name": "app"}], "users": [
            {"name": "core", "sshAuthorizedKeys": ["k"], "groups": ["app"]},
            {"name": "old", "uid": 1600, "sshAuthorizedKeys": ["k"], "passwordHash": "x"},
        ]},
        "storage": {"files": of(0), "directories": of(1), "links": of(2)},
        "systemd": {"units": [
            {"name": "a.service", "enabled": true, "contents": "[Unit]\n", "dropins": [{"name": "a.conf", "contents": "[Unit]\n"}]},
            {"name": "b.service", "enabled": false},
            {"name": "../../../../outside/c.service", "mask": true},
        ]},
    });
    config.to_string().replace("OUTSIDE", outside)
}

fn run(links: &[(&str, String)], entries: &[(u8, Value)], whole: &Path) {
    let (root, outside) = (whole.join("root"), whole.join("outside"));
    base(&root);
    fs::create_dir_all(outside.join("dir/core/.ssh")).unwrap();
    for file in ["file", "dir/b.service", "dir/x", "passwd"] {
        fs::write(outside.join(file), "root:x:0:0::/:/bin/sh\n").unwrap();
    }
    for (place, target) in links {
        let place = root.join(place);
        let target = target.replace("OUTSIDE", outside.to_str().unwrap());
        let _ = fs::remove_file(&place).or_else(|_| fs::remove_dir_all(&place));
        if place.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok()) {
            let _ = symlink(target, place);
        }
    }
    let text = config(entries, outside.to_str().unwrap());
    let before = snapshot(&outside);
    let (document, version, _) = ignition::parse(text.as_bytes()).unwrap();
    let (now, fetcher) = (Now::read(), Fetcher::new(FetchOptions { offline: true, ..FetchOptions::default() }));
    let _ = apply(&Root::open(&root).unwrap(), &newest(document, version), &now, &fetcher);
    assert_eq!(snapshot(&outside), before, "{links:?} {text}");
}

#[test]
fn nothing_outside_is_touched() {
    if !testkit::skip::unless("root, to give files to others", nix::unistd::geteuid().is_root()) {
        return;
    }
    let links = vec((select(LINKS.to_vec()), targets()), 0..6);
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(links in links, entries in vec(entry(), 0..6))| {
        let dir = tempfile::tempdir().unwrap();
        run(&links, &entries, dir.path());
    });
}
