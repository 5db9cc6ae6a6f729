//! Archives that are captures, and others.

use super::*;
use proptest::{collection::vec, prelude::*, sample::Index};
use std::os::unix::fs::MetadataExt;

fn entries() -> BTreeMap<PathBuf, Kind> {
    let long = format!("/sys/{}", "d".repeat(200));
    BTreeMap::from([
        ("/sys".into(), Kind::Directory),
        (long.clone().into(), Kind::Directory),
        (format!("{long}/file").into(), Kind::File(b"content".to_vec())),
        ("/sys/link".into(), Kind::Link("../sys/nowhere".into())),
        ("/sys/unread".into(), Kind::Unread),
        ("/sys/refused".into(), Kind::Refused(5)),
    ])
}

fn packed() -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(&entries(), &mut bytes).unwrap();
    bytes
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn what_is_packed_comes_out() {
    assert_eq!(packed(), packed());
    let tar = {
        let mut tar = Vec::new();
        MultiGzDecoder::new(packed().as_slice()).read_to_end(&mut tar).unwrap();
        tar
    };
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(&tar).unwrap();
    let zstd = zstd::encode_all(tar.as_slice(), 0).unwrap();
    for archive in [packed(), tar, xz.finish().unwrap(), zstd] {
        let (_dir, root) = unpack(file(&archive).path()).unwrap();
        let content = root.join(format!("sys/{}/file", "d".repeat(200)));
        assert_eq!(fs::read_to_string(content).unwrap(), "content");
        assert_eq!(fs::read_link(root.join("sys/link")).unwrap(), Path::new("../sys/nowhere"));
        assert_eq!(fs::read(root.join("sys/unread")).unwrap(), b"");
        assert!(root.join("sys/refused").exists());
    }
}

/// An archive whose entries are not what they should be.
fn hostile(build: impl FnOnce(&mut Builder<Vec<u8>>)) -> tempfile::NamedTempFile {
    let mut archive = Builder::new(Vec::new());
    build(&mut archive);
    file(&archive.into_inner().unwrap())
}

fn header(kind: EntryType, name: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    // Past the crate's own checks of names.
    let bytes = &mut header.as_old_mut().name;
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    header
}

#[test]
fn nothing_is_written_outside() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().to_str().unwrap();
    let through_link = hostile(|archive| {
        let mut link = header(EntryType::Symlink, "sys", 0);
        link.set_link_name(target).unwrap();
        link.set_cksum();
        archive.append(&link, io::empty()).unwrap();
        archive.append(&header(EntryType::Regular, "sys/planted", 1), &b"x"[..]).unwrap();
    });
    let (_dir, root) = unpack(through_link.path()).unwrap();
    assert_eq!(fs::read(root.join("sys/planted")).unwrap(), b"x");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    let upwards = hostile(|archive| {
        archive.append(&header(EntryType::Regular, "sys/../../planted", 1), &b"x"[..]).unwrap();
    });
    assert!(matches!(unpack(upwards.path()), Err(ArchiveError::Outside { .. })));
}

#[test]
fn files_that_are_no_captures() {
    assert!(matches!(unpack(Path::new("/nonexistent")), Err(ArchiveError::Io(_))));
    assert!(unpack(file(b"#!/bin/sh\n").path()).is_err());
    assert!(unpack(file(&packed()[..100]).path()).is_err());
    let large = hostile(|archive| {
        archive.append(&header(EntryType::Regular, "sys", MAX_BYTES + 1), io::empty()).unwrap();
    });
    assert!(matches!(unpack(large.path()), Err(ArchiveError::TooLarge)));
    let other = hostile(|archive| archive.append(&header(EntryType::Regular, "x", 1), &b"x"[..]).unwrap());
    assert!(unpack(other.path()).unwrap_err().to_string().contains("cannot unpack"));
}

#[test]
fn hard_links_took_more_room_than_the_limit() {
    let many = hostile(|archive| {
        archive.append(&header(EntryType::Regular, "sys/first", 4), &b"once"[..]).unwrap();
        for name in ["sys/a", "sys/b", "sys/first"] {
            let mut link = header(EntryType::Link, name, 0);
            link.set_link_name("sys/first").unwrap();
            link.set_cksum();
            archive.append(&link, io::empty()).unwrap();
        }
        // Not written into the file that sys/first and sys/b are, too.
        archive.append(&header(EntryType::Regular, "sys/a", 5), &b"other"[..]).unwrap();
    });
    let (_dir, root) = unpack(many.path()).unwrap();
    let inode = |name: &str| fs::metadata(root.join(name)).unwrap().ino();
    assert_eq!(inode("sys/first"), inode("sys/b"));
    assert_eq!(fs::read(root.join("sys/a")).unwrap(), b"other");
    assert_eq!(fs::read(root.join("sys/first")).unwrap(), b"once");
    for target in ["sys", "sys/missing", "sys/link"] {
        let wrong = hostile(|archive| {
            let mut link = header(EntryType::Symlink, "sys/link", 0);
            link.set_link_name("/etc/passwd").unwrap();
            link.set_cksum();
            archive.append(&link, io::empty()).unwrap();
            let mut link = header(EntryType::Link, "sys/x", 0);
            link.set_link_name(target).unwrap();
            link.set_cksum();
            archive.append(&link, io::empty()).unwrap();
        });
        assert!(matches!(unpack(wrong.path()), Err(ArchiveError::HardLink { .. })), "{target}");
    }
}

#[test]
fn long_names_were_read_whole_into_memory() {
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let size = MAX_NAME_BYTES + 1;
        let long = hostile(|archive| archive.append(&header(kind, "x", size), io::repeat(b'a').take(size)).unwrap());
        assert!(matches!(unpack(long.path()), Err(ArchiveError::TooLarge)), "{kind:?}");
    }
}

#[test]
fn names_in_pax_headers() {
    let (path, target) = (format!("sys/{}", "p".repeat(180)), "t".repeat(180));
    let archive = hostile(|archive| {
        archive.append_pax_extensions([("path", path.as_bytes()), ("linkpath", target.as_bytes())]).unwrap();
        archive.append(&header(EntryType::Symlink, "short", 0), io::empty()).unwrap();
        archive.append(&header(EntryType::Regular, "sys/next", 1), &b"x"[..]).unwrap();
    });
    let (_dir, root) = unpack(archive.path()).unwrap();
    assert_eq!(fs::read_link(root.join(path)).unwrap(), Path::new(&target));
    assert!(root.join("sys/next").exists());
}

#[test]
fn directories_that_no_entry_names_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut left = 2;
    create_directories(dir.path(), Path::new("a/b"), &mut left).unwrap();
    create_directories(dir.path(), Path::new("a/b"), &mut left).unwrap();
    let error = create_directories(dir.path(), Path::new("a/c"), &mut left).unwrap_err();
    assert!(matches!(error, ArchiveError::TooLarge));
}

fn len_of(dir: &Path) -> u64 {
    let len = |entry: fs::DirEntry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => len_of(&entry.path()),
        kind if kind.is_file() => entry.metadata().unwrap().len(),
        _ => 0,
    };
    fs::read_dir(dir).unwrap().map(|entry| len(entry.unwrap())).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_is_no_archive(bytes in vec(any::<u8>(), 0..2048)) {
        prop_assert!(unpack(file(&bytes).path()).is_err());
    }

    /// The checksum is corrected, or nothing behind it would be reached.
    #[test]
    fn a_damaged_archive_gives_no_more_than_it_holds(changes in vec((any::<Index>(), any::<u8>()), 0..8), mends in any::<bool>()) {
        let mut tar = Vec::new();
        MultiGzDecoder::new(packed().as_slice()).read_to_end(&mut tar).unwrap();
        for (at, byte) in changes {
            let at = at.index(tar.len());
            tar[at] = byte;
            if mends {
                let block = &mut tar[at / 512 * 512..][..512];
                let mut header = Header::new_old();
                header.as_mut_bytes().copy_from_slice(block);
                header.set_cksum();
                block.copy_from_slice(header.as_bytes());
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let _ = unpack_to(tar.as_slice(), dir.path());
        prop_assert!(len_of(dir.path()) <= u64::try_from(tar.len()).unwrap());
    }
}
