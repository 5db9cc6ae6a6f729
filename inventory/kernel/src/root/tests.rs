//! The root on trees that lead elsewhere, or hold entries that are not files.

use super::*;
use std::{fs, os::unix::fs::symlink};
use tempfile::TempDir;

fn tree() -> (TempDir, Root) {
    let outer = tempfile::tempdir().unwrap();
    fs::write(outer.path().join("secret"), "outside").unwrap();
    let inner = outer.path().join("root");
    fs::create_dir_all(inner.join("a/b")).unwrap();
    fs::write(inner.join("a/b/file"), " inside \n").unwrap();
    fs::write(inner.join("secret"), "own").unwrap();
    let root = Root::open(&inner).unwrap();
    (outer, root)
}

#[test]
fn links_never_lead_out() {
    let (outer, root) = tree();
    let inner = outer.path().join("root");
    symlink("../../../../secret", inner.join("a/up")).unwrap();
    symlink(outer.path().join("secret"), inner.join("a/absolute")).unwrap();
    symlink("/a/b/../b/file", inner.join("a/home")).unwrap();
    symlink("loop", inner.join("loop")).unwrap();
    assert_eq!(root.attribute("/a/up").as_deref(), Some("own"));
    assert_eq!(root.attribute("../../secret").as_deref(), Some("own"));
    assert_eq!(root.attribute("/a/absolute"), None);
    assert_eq!(root.attribute("/a/home").as_deref(), Some("inside"));
    assert_eq!(root.resolve("/a/home"), Some(PathBuf::from("/a/b/file")));
    assert_eq!(root.attribute("/loop"), None);
    assert_eq!(root.link_target("/a/up"), Some(PathBuf::from("/secret")));
    assert_eq!(root.link_target("/loop"), Some(PathBuf::from("/loop")));
}

#[test]
fn reads_are_bounded_and_only_of_files() {
    let (outer, root) = tree();
    let inner = outer.path().join("root");
    nix::unistd::mkfifo(&inner.join("pipe"), Mode::S_IRWXU).unwrap();
    fs::write(inner.join("big"), vec![b'x'; 5000]).unwrap();
    assert_eq!(root.read("/pipe", 10).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(root.read("/a", 10).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(root.read("/big", 4999).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(root.read("/big", 5000).unwrap().len(), 5000);
    assert_eq!(root.attribute("/big"), None);
    assert_eq!(root.list("/"), ["a", "big", "pipe", "secret"]);
    assert!(root.is_dir("/a/b") && !root.is_dir("/big") && root.exists("/big") && !root.exists("/none"));
}

#[test]
fn a_missing_root_is_an_error() {
    assert!(Root::open("/nonexistent-root").is_err());
    assert!(Root::open("/").unwrap().is_live());
    assert!(!tree().1.is_live());
}
