use super::*;

#[test]
fn names_what_is_not_a_disk() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    let message = |path: &Path| Disk::inspect(path).unwrap_err().to_string();
    assert!(message(dir.path()).contains("not a disk but a directory"));
    assert!(message(&file).contains("not a disk but a regular file"));
    assert!(message(Path::new("/dev/null")).contains("not a disk but a character device"));
    assert!(matches!(Disk::inspect(&dir.path().join("no")), Err(DiskError::Open { .. })));
    assert!(matches!(Disk::inspect(Path::new("")), Err(DiskError::Open { .. })));
    assert!(message(Path::new("no-such-disk")).starts_with("no disk has the path, name, link, WWN or serial number"));
}

#[test]
fn live_medium_is_known_by_its_label() {
    assert_eq!(live_label("quiet coreos.liveiso=fedora-coreos-42 x=y\n"), Some("fedora-coreos-42"));
    assert_eq!(live_label("coreos.liveiso= a"), None);
    let mut stick = vec![0; 4 << 20];
    stick[32768..32775].copy_from_slice(b"\x01CD001\x01");
    stick[32808..32824].copy_from_slice(b"fedora-coreos-42");
    let contents = probe(&stick, 4 << 20, 512);
    assert_eq!(live_sign(&contents, "fedora-coreos-42").as_deref(), Some("it holds the ISO 'fedora-coreos-42'"));
    assert_eq!(live_sign(&contents, "fedora-coreos-41"), None);
}
