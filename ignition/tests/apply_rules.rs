//! What Ignition does to units and groups since 2.25, checked where no Ignition of that age is available.
#![allow(clippy::unwrap_used)]

use crate::real;

use ignition::apply::{Now, Root, apply, newest};
use ignition::fetch::{FetchOptions, Fetcher};
use real::base;
use serde_json::{Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;

/// A tree with this config applied to it. Files get owners, so it needs root.
fn applied(config: &Value) -> TempDir {
    assert!(nix::unistd::geteuid().is_root(), "this test needs root");
    let dir = tempfile::tempdir().unwrap();
    base(dir.path());
    let mut config = config.clone();
    config["ignition"] = json!({"version": "3.2.0"});
    let text = config.to_string();
    let (document, version, report) = ignition::parse(text.as_bytes()).unwrap();
    assert!(!report.is_fatal(), "{report}");
    let root = Root::open(dir.path()).unwrap();
    let fetcher = Fetcher::new(FetchOptions { offline: true, ..FetchOptions::default() });
    apply(&root, &newest(document, version), &Now::read(), &fetcher).unwrap();
    dir
}

fn lines(dir: &TempDir, path: &str, names: &[&str]) -> Vec<String> {
    let text = fs::read_to_string(dir.path().join(path)).unwrap();
    let named = text.lines().filter(|line| names.iter().any(|name| line.split(':').next() == Some(name)));
    named.map(str::to_owned).collect()
}

#[test]
fn a_unit_is_unmasked_where_the_config_says_so() {
    let units = ["masked.service", "alias.service", "nothing.service"].map(|name| json!({"name": name, "mask": false}));
    let dir = applied(&json!({"systemd": {"units": units}}));
    let link = |name: &str| fs::read_link(dir.path().join("etc/systemd/system").join(name)).ok();
    assert_eq!(link("masked.service"), None);
    assert_eq!(link("alias.service").as_deref(), Some(Path::new("/usr/lib/systemd/system/b.service")));
}

#[test]
fn presets_are_in_order_and_disable_what_is_enabled() {
    let unit = |name: &str, enabled: bool| json!({"name": name, "enabled": enabled});
    let dir = applied(&json!({"systemd": {"units": [
        unit("z.service", true),
        unit("off.service", false),
        unit("none.service", false),
        unit("b.service", false),
        unit("t@one.service", false),
        unit("t@two.service", false),
        unit("t@c.service", true),
        unit("a.service", true),
    ]}}));
    let preset = fs::read_to_string(dir.path().join("etc/systemd/system-preset/20-ignition.preset")).unwrap();
    let expected =
        "enable a.service\ndisable b.service\ndisable t@.service one\nenable t@.service c\nenable z.service\n";
    assert_eq!(preset, expected);
}

#[test]
fn a_group_that_is_there_is_changed() {
    let dir = applied(&json!({"passwd": {"groups": [
        {"name": "wheel"},
        {"name": "users", "gid": 1500},
        {"name": "sudo", "passwordHash": "hash"},
        {"name": "new"},
    ]}}));
    let names = ["wheel", "users", "sudo", "new"];
    let group = ["wheel:x:10:", "sudo:x:27:old", "users:x:1500:", "new:x:1501:"];
    assert_eq!(lines(&dir, "etc/group", &names), group);
    assert_eq!(lines(&dir, "etc/gshadow", &names), ["wheel:*::", "sudo:hash::old", "users:*::", "new:!::"]);
    // Whose primary group it is goes with it.
    assert_eq!(lines(&dir, "etc/passwd", &["other"]), ["other:x:1010:1500::/srv/other:/bin/sh"]);
}
