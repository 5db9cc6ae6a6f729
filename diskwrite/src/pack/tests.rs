//! Packing disks over real loop devices; needs root.

use super::*;
use kernel::hex;
use std::collections::BTreeSet;
use testkit::disk::{Image, LoopDisk, MIB, ostree::OstreeDisk, skipped};

fn options(disk: &Path, sha256: &str) -> PackOptions {
    PackOptions {
        disk: disk.to_owned(),
        description: "Test OS 1".into(),
        architecture: "x86_64".into(),
        sha256: hex::parse(sha256).unwrap(),
        fast: true,
        cancel: Cancel::default(),
    }
}

/// The file, what was found, and what was counted.
fn packed(options: &PackOptions) -> Result<(Vec<u8>, Scan, Packed), PackError> {
    let mut file = tempfile::tempfile().unwrap();
    let (mut scan, mut packed) = (None, None);
    let (mut packing, mut verifying) = (0, 0);
    pack(options, &mut file, &mut |event| match event {
        PackEvent::Scanned(found) => scan = Some(found),
        PackEvent::Packed(counted) => packed = Some(counted),
        PackEvent::Packing { done, total } => {
            assert!((packing + 1..=total).contains(&done));
            packing = done;
        }
        PackEvent::Verifying { done, total } => {
            assert!((verifying + 1..=total).contains(&done));
            verifying = done;
        }
    })?;
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Ok((bytes, scan.unwrap(), packed.unwrap()))
}

/// Unpacks as a live system does; the reader compares the sum.
fn unpacked_bytes(osmet: &[u8], repo: &Path) -> Result<u64, OsmetError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(osmet).unwrap();
    file.rewind().unwrap();
    let mut reader = OsmetReader::over(BufReader::new(file), "test".into(), repo)?;
    let (mut total, mut buf) = (0, vec![0; 1 << 16]);
    loop {
        match reader.next(&mut buf)? {
            0 => return Ok(total),
            count => total += u64::try_from(count).unwrap(),
        }
    }
}

#[test]
fn a_disk_is_packed_and_is_the_same_again() {
    for (sector, kind) in [(512, "ext4"), (4096, "ext4"), (512, "xfs"), (4096, "xfs")] {
        // Copies that share bytes with objects, where the file system knows such.
        let more = if kind == "xfs" {
            "for file in ostree/repo/objects/*/*.file; do
                 sum=$(echo $file | sha256sum | cut -c1-62); cp --reflink=always $file $(dirname $file)/$sum.file
             done"
        } else {
            ""
        };
        let Some(made) = OstreeDisk::new(sector, kind, more) else { return };
        let sum = made.sha256();
        let options = options(&made.disk.path(), &sum);
        let (osmet, scan, counts) = packed(&options).unwrap();
        assert_eq!(sum, made.sha256(), "the disk was changed");
        let found = format::header(&mut &osmet[..]).unwrap();
        let header = Header { sector_bytes: sector, description: "Test OS 1".into(), architecture: "x86_64".into() };
        assert_eq!(found, header);
        assert_eq!((scan.boot_files, scan.packed), (1, 0), "{kind}: {scan:?}");
        let copies = if kind == "xfs" { 2 } else { 1 };
        assert_eq!((scan.mapped, scan.empty), ((made.objects - 1) * copies, copies), "{kind}: {scan:?}");
        assert!(kind != "xfs" || scan.root_overlaps.dropped >= made.objects - 1, "{scan:?}");
        // One has a hole.
        assert!(scan.root_extents >= made.objects, "{kind}: {scan:?}");
        // The kernel twice, and the other objects.
        assert!(counts.skipped > 8 * MIB, "{counts:?}");
        assert_eq!(counts.skipped + counts.written, made.disk.size());
        assert!(
            counts.compressed < counts.written / 4 && u64::try_from(osmet.len()).unwrap() < counts.compressed + 8192
        );
        if kind == "ext4" {
            assert_eq!(unpacked_bytes(&osmet, &made.repo()).unwrap(), made.disk.size());
            // Nothing depends on when and from where it is made.
            let again = PackOptions { disk: made.disk.file(), ..options.clone() };
            assert!(packed(&again).unwrap().0 == osmet, "an image file is packed otherwise than its disk");
            let best = PackOptions { fast: false, ..options };
            assert!(packed(&best).unwrap().2.compressed <= counts.compressed);
        }
    }
}

#[test]
fn what_is_not_plain_on_the_disk_is_packed() {
    // Space that was reserved and never written.
    let name = "ab".repeat(31);
    let more = format!("mkdir -p ostree/repo/objects/00; fallocate -l 100k ostree/repo/objects/00/{name}.file");
    let Some(made) = OstreeDisk::new(512, "ext4", &more) else { return };
    let (osmet, scan, _) = packed(&options(&made.disk.path(), &made.sha256())).unwrap();
    assert_eq!((scan.packed, scan.mapped), (1, made.objects - 1));
    assert_eq!(unpacked_bytes(&osmet, &made.repo()).unwrap(), made.disk.size());
}

#[test]
fn no_wrong_image_comes_of_it() {
    let Some(made) = OstreeDisk::new(512, "ext4", "") else { return };
    let sum = made.sha256();
    let good = options(&made.disk.path(), &sum);
    let other = PackOptions { sha256: [7; 32], ..good.clone() };
    let error = packed(&other).unwrap_err().to_string();
    assert_eq!(error, format!("unpacking test: got checksum {sum} but expected {}", "07".repeat(32)));
    let cancelled = PackOptions { cancel: Cancel::default(), ..good.clone() };
    cancelled.cancel.cancel();
    assert!(matches!(packed(&cancelled), Err(PackError::Cancelled)));
    let long = PackOptions { description: "x".repeat(5000), ..good.clone() };
    assert!(matches!(packed(&long), Err(PackError::Unpack(OsmetError::Format { .. }))));

    // A live system whose files are others.
    let (osmet, ..) = packed(&good).unwrap();
    let head = osmet.len() - 1000;
    assert!(unpacked_bytes(&osmet[..head], &made.repo()).is_err());
    let objects: BTreeSet<PathBuf> = fs::read_dir(made.repo().join("objects"))
        .unwrap()
        .flat_map(|dir| fs::read_dir(dir.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "file") && path.metadata().unwrap().len() > 0)
        .collect();
    for object in objects {
        let content = fs::read(&object).unwrap();
        let mut damaged = content.clone();
        damaged[content.len() / 2] ^= 1;
        fs::write(&object, damaged).unwrap();
        assert!(matches!(unpacked_bytes(&osmet, &made.repo()), Err(OsmetError::Sum { .. })), "{}", object.display());
        fs::write(&object, content).unwrap();
    }
    assert_eq!(unpacked_bytes(&osmet, &made.repo()).unwrap(), made.disk.size());
}

/// A disk on which a journal was not replayed would be another one once it is mounted.
#[test]
fn no_journal_is_replayed() {
    let Some(made) = OstreeDisk::new(512, "ext4", "") else { return };
    let boot = made.disk.extract(4 * MIB, 16 * MIB);
    testkit::disk::run("debugfs", &["-w", "-R", "feature needs_recovery", &boot.display().to_string()]);
    made.disk.write(4 * MIB, &fs::read(boot).unwrap());
    let sum = made.sha256();
    assert!(matches!(packed(&options(&made.disk.path(), &sum)), Err(PackError::Mount(MountError::Mount { .. }))));
    assert_eq!(made.sha256(), sum);
}

#[test]
fn what_is_not_such_a_disk_is_named() {
    if skipped() {
        return;
    }
    let error = |path: &Path| packed(&options(path, &"00".repeat(32))).unwrap_err().to_string();
    assert_eq!(error(Path::new("/no/such")), "canonicalizing /no/such");
    for other in ["/dev/null", "/", "/proc/version"] {
        assert!(error(Path::new(other)).contains("is neither a disk nor an image"), "{other}");
    }
    let disk = LoopDisk::new(64 * MIB, 512, false);
    let path = disk.path();
    assert_eq!(error(&path), format!("couldn't find any partitions on {}", path.display()));
    disk.write(0, &Image::new(512).data);
    assert_eq!(error(&path), format!("couldn't find root device for {}", path.display()));
}
