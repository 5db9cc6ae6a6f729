//! File systems made by mkfs.vfat and mtools, whole and damaged.

use super::*;
use crate::boot_order::tests::file_system;
use std::{fs, path::Path};

fn image(dir: &Path, bytes: u64, width: &str, files: &[&str]) -> Vec<u8> {
    let path = dir.join("image");
    file_system(&path, bytes, width, files);
    fs::read(path).unwrap()
}

fn reader(bytes: &[u8]) -> impl Fn(u64, &mut [u8]) -> io::Result<()> {
    |offset, buf| {
        let from = usize::try_from(offset).unwrap();
        let found = bytes.get(from..).and_then(|rest| rest.get(..buf.len()));
        found.map(|found| buf.copy_from_slice(found)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

#[test]
fn finds_files_in_each_width_whatever_their_case() {
    let dir = tempfile::tempdir().unwrap();
    let long = "EFI/a directory of a longer name/and a file whose name takes four entries.efi";
    for (bytes, width, kind) in
        [(2 << 20, "12", Kind::Fat12), (16 << 20, "16", Kind::Fat16), (40 << 20, "32", Kind::Fat32)]
    {
        let bytes = image(dir.path(), bytes, width, &["EFI/BOOT/BOOTX64.EFI", "EFI/redhat/shimx64.efi", long]);
        let read = reader(&bytes);
        let fat = Fat::open(&read).unwrap();
        assert_eq!(fat.kind, kind);
        assert!(fat.has_file(&["efi", "boot", "bootx64.efi"]).unwrap());
        assert!(fat.has_file(&["EFI", "redhat", "SHIMX64.EFI"]).unwrap());
        assert!(fat.has_file(&long.split('/').collect::<Vec<_>>()).unwrap());
        for missing in
            [&["EFI", "redhat"][..], &["EFI", "centos", "shimx64.efi"], &["EFI", "redhat", "shim"], &["x"], &[]]
        {
            assert!(!fat.has_file(missing).unwrap(), "{missing:?}");
        }
        // A file is no directory.
        assert!(!fat.has_file(&["EFI", "redhat", "shimx64.efi", "x"]).unwrap());
    }
}

#[test]
fn a_directory_of_many_clusters_is_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    for (bytes, width) in [(2 << 20, "12"), (16 << 20, "16"), (40 << 20, "32")] {
        let names: Vec<String> = (0..60).map(|number| format!("EFI/a rather long name {number}")).collect();
        let bytes = image(dir.path(), bytes, width, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let read = reader(&bytes);
        let fat = Fat::open(&read).unwrap();
        assert!(fat.has_file(&["EFI", "a rather long name 59"]).unwrap());
        assert!(!fat.has_file(&["EFI", "a rather long name 60"]).unwrap());
    }
}

#[test]
fn what_is_no_fat_is_refused_and_damage_ends() {
    let dir = tempfile::tempdir().unwrap();
    let good = image(dir.path(), 2 << 20, "12", &["EFI/BOOT/BOOTX64.EFI"]);
    let open = |bytes: &[u8]| Fat::open(&reader(bytes)).err().map(|error| error.to_string());
    assert_eq!(open(&good), None);
    assert!(open(&[0; 600]).unwrap().ends_with("its signature is 0"));
    assert!(open(&good[..100]).unwrap().starts_with("cannot read 512 bytes at byte 0 of"));
    for (at, value, expected) in [
        (11, 7, "sector size"),
        (13, 3, "sectors in a cluster"),
        (16, 0, "tables is 0"),
        (19, 1, "number of sectors is"),
    ] {
        let mut bytes = good.clone();
        (bytes[at], bytes[20]) = (value, 0);
        assert!(open(&bytes).unwrap().contains(expected), "{expected}: {:?}", open(&bytes));
    }
    // Any few bytes changed: an answer or an error, soon.
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..1000 {
        let mut bytes = good[..64 << 10].to_vec();
        for _ in 0..random.usize(1..10) {
            // Boot sector, allocation table, directories.
            let at = if random.bool() { random.usize(..64) } else { random.usize(512..bytes.len()) };
            bytes[at] = random.u8(..);
        }
        crate::boot_order::fuzz_fat(&bytes);
    }
    // A directory whose chain leads back to itself.
    let mut bytes = image(dir.path(), 16 << 20, "16", &["EFI/BOOT/BOOTX64.EFI"]);
    let fat_at = usize::from(u16::from_le_bytes([bytes[14], bytes[15]])) * 512;
    bytes[fat_at + 4..fat_at + 6].copy_from_slice(&[2, 0]);
    let error = Fat::open(&reader(&bytes)).unwrap().has_file(&["EFI", "BOOT", "BOOTX64.EFI"]).unwrap_err();
    assert!(matches!(error, FatError::Chain { cluster: 2 }), "{error}");
}
