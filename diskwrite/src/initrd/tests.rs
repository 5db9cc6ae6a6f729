//! Archives written, read back, concatenated, damaged.

use super::*;
use proptest::prelude::*;

fn sample() -> Archive {
    let mut archive = Archive::new();
    archive.add("config.ign", 0o600, "{}").unwrap();
    archive.add("/etc/coreos-firstboot-network/a.nmconnection", 0o600, "[connection]\n").unwrap();
    archive.add("usr/bin/x", 0o755, vec![1; 5000]).unwrap();
    archive.add_symlink("usr/bin/y", "x").unwrap();
    archive.add_member("usr/private", Member::Directory { mode: 0o700 }).unwrap();
    archive
}

/// What comes back has the directories that were left out.
fn files(archive: &Archive) -> Vec<(&str, &Member)> {
    archive.members().filter(|(_, member)| !matches!(member, Member::Directory { mode: 0o755 })).collect()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[test]
fn members_are_sorted_below_their_directories() {
    let cpio = sample().to_cpio().unwrap();
    let read = Archive::unpack(&cpio).unwrap();
    let names: Vec<&str> = read.members().map(|(name, _)| name).collect();
    let expected = [
        "config.ign",
        "etc",
        "etc/coreos-firstboot-network",
        "etc/coreos-firstboot-network/a.nmconnection",
        "usr",
        "usr/bin",
        "usr/bin/x",
        "usr/bin/y",
        "usr/private",
    ];
    assert_eq!(names, expected);
    assert_eq!(files(&read), files(&sample()));
    assert_eq!(cpio, sample().to_cpio().unwrap());
}

#[test]
fn every_form_and_any_row_of_them_is_read() {
    let archive = sample();
    let cpio = archive.to_cpio().unwrap();
    let forms =
        [cpio.clone(), archive.pack(Compression::Gzip).unwrap(), archive.pack(Compression::Xz).unwrap(), zstd(&cpio)];
    for form in &forms {
        assert_eq!(files(&Archive::unpack(form).unwrap()), files(&archive));
    }
    let mut last = Archive::new();
    last.add("config.ign", 0o644, "last").unwrap();
    for first in &forms {
        for second in [
            last.to_cpio().unwrap(),
            last.pack(Compression::Gzip).unwrap(),
            last.pack(Compression::Xz).unwrap(),
            zstd(&last.to_cpio().unwrap()),
        ] {
            let row = [first.as_slice(), &[0; 7], &second, &[0; 512]].concat();
            let read = Archive::unpack(&row).unwrap();
            assert_eq!(read.get("config.ign"), Some(&b"last"[..]));
            assert_eq!(read.get("usr/bin/x"), archive.get("usr/bin/x"));
        }
    }
    assert!(Archive::unpack(&[]).unwrap().is_empty());
    assert!(Archive::unpack(&[0; 1024]).unwrap().is_empty());
}

#[test]
fn names_that_could_leave_the_root_are_refused() {
    let mut archive = Archive::new();
    for name in ["", "/", ".", "..", "../x", "a/../x", "a//b", "a/", "a\0b", newc::TRAILER] {
        assert!(matches!(archive.add(name, 0o644, ""), Err(ArchiveError::Name { .. })), "{name:?}");
    }
    archive.add("a", 0o644, "").unwrap();
    assert!(matches!(archive.add("a/b", 0o644, ""), Err(ArchiveError::BelowFile { .. })));

    let mut cpio = Vec::new();
    newc::append(&mut cpio, 1, newc::REGULAR | 0o644, "../../etc/passwd", b"x").unwrap();
    newc::finish(&mut cpio);
    assert!(matches!(Archive::unpack(&cpio), Err(ArchiveError::Name { .. })));
}

#[test]
fn a_later_member_takes_the_place_of_another_kind() {
    let mut cpio = Vec::new();
    for (name, mode, data) in [
        ("a", newc::DIRECTORY | 0o755, &b""[..]),
        ("a/b", newc::REGULAR | 0o644, b"1"),
        ("ab", newc::REGULAR | 0o644, b"2"),
        ("a", newc::SYMLINK | 0o777, b"ab"),
        ("ab/c", newc::REGULAR | 0o644, b"3"),
    ] {
        newc::append(&mut cpio, 1, mode, name, data).unwrap();
    }
    newc::finish(&mut cpio);
    let archive = Archive::unpack(&cpio).unwrap();
    assert_eq!(archive.members().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "ab/c"]);
    assert_eq!(Archive::unpack(&archive.to_cpio().unwrap()).unwrap().get("ab/c"), Some(&b"3"[..]));
}

#[test]
fn hard_links_all_get_the_content() {
    let mut cpio = Vec::new();
    for (name, data) in [("a", &b""[..]), ("b", b"content")] {
        let start = cpio.len();
        newc::append(&mut cpio, 5, newc::REGULAR | 0o600, name, data).unwrap();
        cpio[start + 6 + 4 * 8..start + 6 + 5 * 8].copy_from_slice(b"00000002");
    }
    newc::finish(&mut cpio);
    let archive = Archive::unpack(&cpio).unwrap();
    assert_eq!((archive.get("a"), archive.get("b")), (Some(&b"content"[..]), Some(&b"content"[..])));
}

#[test]
fn more_than_the_limits_is_refused_before_it_is_in_memory() {
    let mut archive = Archive::new();
    archive.add("zeros", 0o644, vec![0; 4 << 20]).unwrap();
    let limits = Limits { total_bytes: 1 << 20, ..Limits::default() };
    for packed in [
        archive.pack(Compression::Gzip).unwrap(),
        archive.pack(Compression::Xz).unwrap(),
        zstd(&archive.to_cpio().unwrap()),
    ] {
        let result = Archive::unpack_limited(&packed, limits);
        assert!(matches!(result, Err(ArchiveError::Limit { limit: 1_048_576, what: "bytes" })), "{result:?}");
    }
    let limits = Limits { members: 5, ..Limits::default() };
    let result = Archive::unpack_limited(&sample().to_cpio().unwrap(), limits);
    assert!(matches!(result, Err(ArchiveError::Limit { limit: 5, what: "members" })));
}

#[test]
fn damage_is_named_with_its_place() {
    let text = |bytes: &[u8]| Archive::unpack(bytes).unwrap_err().to_string();
    assert!(text(b"\0\0\0\0hello world").contains("no archive at offset 4: it starts with 68656c6c6f20"));
    let cpio = sample().to_cpio().unwrap();
    assert!(text(&cpio[..cpio.len() - 124]).contains("the header of the member at offset"));
    assert!(text(&cpio[..115]).contains("the name of the member at offset 0"));
    let xz = sample().pack(Compression::Xz).unwrap();
    assert!(text(&xz[..xz.len() / 2]).contains("cannot unpack the xz archive at offset 0"));
}

#[test]
fn xz_is_as_the_kernel_wants_it() {
    let small = sample().pack(Compression::Xz).unwrap();
    // Stream flags: CRC32 is check type 1. Block header: one filter, LZMA2, and the dictionary's size, 64 MiB, in its last byte.
    assert_eq!(small[..8], *b"\xfd7zXZ\0\0\x01");
    assert_eq!((small[14], small[16]), (0x21, 28));
}

/// Names, types and inodes as they are written.
#[test]
fn directories_come_right_before_what_is_first_in_them() {
    let mut archive = Archive::new();
    for name in ["srv/www", "srv/db/log/1/wal", "var", "srv-old", "etc/ssh/key"] {
        archive.add(name, 0o600, "x").unwrap();
    }
    let cpio = archive.to_cpio().unwrap();
    let headers = cpio.windows(6).enumerate().filter(|(_, w)| *w == b"070701").map(|(at, _)| at);
    let text = |at: usize, len: usize| std::str::from_utf8(&cpio[at..at + len]).unwrap();
    let number = |at: usize, field: usize| u32::from_str_radix(text(at + 6 + field * 8, 8), 16).unwrap();
    let written: Vec<_> = headers
        .map(|at| {
            let len = usize::try_from(number(at, 11)).unwrap() - 1;
            assert_eq!(number(at, 4), 1, "one link");
            (number(at, 0), number(at, 1), text(at + 110, len))
        })
        .collect();
    let (file, directory) = (0o100_600, 0o040_755);
    let expected = [
        (0, directory, "etc"),
        (1, directory, "etc/ssh"),
        (2, file, "etc/ssh/key"),
        (3, file, "srv-old"),
        (4, directory, "srv"),
        (5, directory, "srv/db"),
        (6, directory, "srv/db/log"),
        (7, directory, "srv/db/log/1"),
        (8, file, "srv/db/log/1/wal"),
        (9, file, "srv/www"),
        (10, file, "var"),
        (0, 0, newc::TRAILER),
    ];
    assert_eq!(written, expected);
}

#[test]
fn a_scan_keeps_what_is_asked_for_of_every_form() {
    let archive = sample();
    let cpio = archive.to_cpio().unwrap();
    let forms =
        [cpio.clone(), archive.pack(Compression::Gzip).unwrap(), archive.pack(Compression::Xz).unwrap(), zstd(&cpio)];
    let names = |patterns: &[&str]| Names::new(patterns).unwrap();
    let list = |bytes: &[u8], patterns: &[&str]| {
        let found = scan(bytes, &names(patterns)).unwrap();
        found.members().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    let keyfile = "etc/coreos-firstboot-network/a.nmconnection";
    for first in &forms {
        for second in &forms {
            let row = [first, &[0; 7][..], second, &[0; 512]].concat();
            assert_eq!(list(&row, &[]), ["config.ign", keyfile, "usr/bin/x"]);
            assert_eq!(list(&row, &["etc/*"]), [keyfile]);
            assert_eq!(list(&row, &["*.ign", "usr/*"]), ["config.ign", "usr/bin/x"]);
            assert!(list(&row, &["y"]).is_empty());
        }
    }
    assert!(list(&[], &[]).is_empty());
    assert!(Names::new(&["***"]).is_err());
    let error = |bytes: &[u8]| kernel::in_full(&scan(bytes, &names(&[])).unwrap_err());
    assert_eq!(error(b"hello world"), "reading CPIO entry: Invalid magic number");
    assert_eq!(error(&cpio[..50]), "reading CPIO entry: failed to fill whole buffer");
    let garbage = zstd(&[&cpio[..], b"x"].concat());
    assert_eq!(error(&garbage), "found trailing garbage inside compressed archive");
}

proptest! {
    #[test]
    fn what_is_packed_is_read_back(members in proptest::collection::btree_map("[a-c]{1,3}", proptest::collection::vec(any::<u8>(), 0..64), 0..8), xz in any::<bool>()) {
        let mut archive = Archive::new();
        for (name, data) in members {
            archive.add(&name, 0o640, data).unwrap();
        }
        let packed = archive.pack(if xz { Compression::Xz } else { Compression::Gzip }).unwrap();
        prop_assert_eq!(Archive::unpack(&packed).unwrap(), archive);
    }

    #[test]
    fn no_bytes_make_it_panic(form in 0..4_usize, changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<prop::sample::Index>()) {
        let cpio = sample().to_cpio().unwrap();
        let mut bytes = match form {
            0 => cpio,
            1 => sample().pack(Compression::Gzip).unwrap(),
            2 => sample().pack(Compression::Xz).unwrap(),
            _ => zstd(&cpio),
        };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Archive::unpack(&bytes);
        let _ = scan(&bytes[..], &Names::new(&["*"]).unwrap());
        bytes.truncate(cut.index(bytes.len()));
        let _ = Archive::unpack(&bytes);
        let _ = scan(&bytes[..], &Names::new(&["*"]).unwrap());
    }
}
