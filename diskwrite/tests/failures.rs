//! What is refused, and what is left on a disk after each way to fail: no table, primary or backup.

use crate::installs;

use diskwrite::{
    DecodeError, DiskError, DiskState, Event, Failure, ImageError, InstallOptions, Source, SourceError, WriteError,
    install, plan,
};
use installs::*;
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    thread,
    time::Duration,
};
use testkit::disk::{Image, Loop, LoopDisk, MIB, accept, run, skipped};

#[test]
fn truncated_image_clears_the_table() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    for tool in ["gzip", "xz", "zstd"] {
        let disk = LoopDisk::new(64 * MIB, 512, true);
        disk.put_old_tables(512);
        let packed = image.packed(Some(tool));
        let len = fs::metadata(&packed).unwrap().len() / 5 * 4;
        fs::OpenOptions::new().write(true).open(&packed).unwrap().set_len(len).unwrap();
        let (error, cause) = fail(&from_file(&disk, &packed));
        assert!(
            matches!(cause, Failure::Source(DecodeError::Truncated { offset, .. }) if offset == len),
            "{tool}: {cause}"
        );
        assert!(matches!(error.disk, DiskState::Cleared), "{error}");
        disk.assert_cleared();
    }
}

/// What follows the last partition is zeros, and then the backup table.
#[test]
fn raw_image_that_was_cut_is_recognized_by_its_table() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let raw = image.packed(None);
    let whole = fs::metadata(&raw).unwrap().len();
    for cut in [whole - 512 * 33, 20 * MIB] {
        disk.put_old_tables(512);
        fs::OpenOptions::new().write(true).open(&raw).unwrap().set_len(cut).unwrap();
        let refused = |source: &Path| {
            let (error, cause) = fail(&from_file(&disk, source));
            let Failure::Image(cause) = cause else { panic!("{cause}") };
            match cause {
                ImageError::Incomplete { image_bytes, .. } => assert_eq!((image_bytes, cut), (20 * MIB, 20 * MIB)),
                ImageError::NoBackup { image_bytes, end } => assert_eq!((image_bytes, end), (cut, whole)),
                other => panic!("{other}"),
            }
            error.disk
        };
        assert!(matches!(refused(&raw), DiskState::Untouched));
        disk.assert_untouched(512);
        // Packed after it was cut, so that only the end shows it.
        assert!(matches!(refused(&image.packed(Some("gzip"))), DiskState::Cleared));
        disk.assert_cleared();
    }
}

#[test]
fn image_that_is_its_own_target_is_refused() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    disk.write(0, &fs::read(image.packed(None)).unwrap());
    let link = image.dir.path().join("link");
    std::os::unix::fs::symlink(disk.path(), &link).unwrap();
    for path in [disk.path(), link] {
        let before = disk.read(0, 4 * MIB);
        let (error, cause) = fail(&from_file(&disk, &path));
        assert!(matches!(cause, Failure::Disk(DiskError::OwnImage { .. })), "{cause}");
        assert!(matches!(error.disk, DiskState::Untouched), "{error}");
        assert_eq!(disk.read(0, 4 * MIB), before);
        let plan = plan(&from_file(&disk, &path)).unwrap();
        assert!(plan.refusals.iter().any(|refusal| refusal.contains("is the target disk")), "{plan:?}");
    }
}

#[test]
fn larger_image_is_refused_as_soon_as_it_shows() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(16 * MIB, 512, false);
    disk.put_old_tables(512);
    let (error, cause) = fail(&from_file(&disk, &image.packed(None)));
    assert!(matches!(cause, Failure::Image(ImageError::TooLarge { image_bytes, disk_bytes })
        if image_bytes == 32 * MIB && disk_bytes == 16 * MIB));
    assert!(matches!(error.disk, DiskState::Untouched));
    let (error, cause) = fail(&from_file(&disk, &image.packed(Some("xz"))));
    assert!(matches!(cause, Failure::Image(ImageError::PartitionPastEnd { number: 4, .. })), "{cause}");
    assert!(matches!(error.disk, DiskState::Untouched));
    disk.assert_untouched(512);
    // Without a table to tell, it shows at the end of the disk.
    let blank = image.dir.path().join("blank.gz");
    let mut encoder = flate2::write::GzEncoder::new(fs::File::create(&blank).unwrap(), flate2::Compression::fast());
    encoder.write_all(&vec![1; 17 << 20]).unwrap();
    encoder.finish().unwrap();
    let (error, cause) = fail(&from_file(&disk, &blank));
    assert!(
        matches!(cause, Failure::Write(WriteError::PastEnd { image_bytes, disk_bytes, .. })
        if image_bytes == 17 * MIB && disk_bytes == 16 * MIB),
        "{cause}"
    );
    assert!(matches!(error.disk, DiskState::Cleared));
    disk.assert_cleared();
}

#[test]
fn sector_sizes_must_match() {
    if skipped() {
        return;
    }
    for (image_sector, disk_sector) in [(512, 4096), (4096, 512)] {
        let image = Image::new(image_sector);
        let disk = LoopDisk::new(64 * MIB, disk_sector, false);
        disk.put_old_tables(disk_sector);
        let (error, cause) = fail(&from_file(&disk, &image.packed(Some("gzip"))));
        assert!(
            matches!(cause, Failure::Image(ImageError::SectorSize { image, disk })
            if image == image_sector && disk == disk_sector),
            "{cause}"
        );
        assert!(matches!(error.disk, DiskState::Untouched));
        disk.assert_untouched(disk_sector);
    }
}

#[test]
fn disk_in_use_is_refused_by_name() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let options = from_file(&disk, &image.packed(None));
    go(&options).0.unwrap();
    let before = disk.read(0, MIB);
    let mount_point = image.dir.path().join("mnt");
    fs::create_dir(&mount_point).unwrap();
    let partition = format!("{}p3", disk.path().display());
    run("mount", &[&partition, &mount_point.display().to_string()]);
    let outcome = fail(&options);
    let planned = plan(&options).unwrap().refusals;
    run("umount", &[&mount_point.display().to_string()]);
    let expected =
        format!("{} is in use: {}p3 is mounted on {}", disk.path().display(), disk.name(), mount_point.display());
    assert_eq!(outcome.1.to_string(), expected);
    assert_eq!(planned, [expected]);
    assert!(matches!(outcome.0.disk, DiskState::Untouched));
    assert!(disk.read(0, MIB) == before);
    assert_eq!(disk.partitions(), [1, 2, 3, 4]);

    let (_, cause) = fail(&InstallOptions { device: partition.into(), ..options.clone() });
    assert!(matches!(cause, Failure::Disk(DiskError::Partition { number: 3, .. })), "{cause}");
    // The whole disk mounted.
    let disk = LoopDisk::new(16 * MIB, 512, false);
    let device = disk.path().display().to_string();
    run("mke2fs", &["-q", "-t", "ext4", &device]);
    run("mount", &[&device, &mount_point.display().to_string()]);
    let (_, cause) = fail(&from_file(&disk, &image.packed(None)));
    run("umount", &[&mount_point.display().to_string()]);
    assert!(matches!(cause, Failure::Disk(DiskError::InUse { .. })), "{cause}");
}

/// A loop device claims nothing of the disk that it shows: opening the disk for itself alone succeeds, also while it is mounted.
#[test]
fn a_mounted_loop_device_on_the_disk_is_a_use_of_it() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, false);
    let device = disk.path().display().to_string();
    let offset = 8 * MIB;
    let user = Loop::over(&disk.path(), &["--offset", &offset.to_string()]);
    let above = user.node().display().to_string();
    let mount_point = image.dir.path().join("mnt").display().to_string();
    fs::create_dir(&mount_point).unwrap();
    run("mke2fs", &["-q", "-t", "ext4", &above]);
    run("mount", &[&above, &mount_point]);
    let before = disk.read(0, offset);
    let options = from_file(&disk, &image.packed(None));
    let outcome = fail(&options);
    let released = diskwrite::release::plan(&disk.path()).unwrap().refusals;
    run("umount", &[&mount_point]);
    let idle = fail(&options).1.to_string();
    let by = user.name();
    drop(user);
    let user = format!("{} is in use by {by}, from byte {offset} on", disk.name());
    assert_eq!(outcome.1.to_string(), format!("{device} is in use: {user}, mounted on {mount_point}"));
    assert_eq!(released, [format!("{user}, mounted on {mount_point}")]);
    assert_eq!(idle, format!("{device} is in use: {user}"));
    assert!(disk.read(0, offset) == before, "nothing was written before the file system");
    go(&options).0.unwrap();
}

#[test]
fn open_partition_is_not_taken_away() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let options = from_file(&disk, &image.packed(None));
    go(&options).0.unwrap();
    let reader = fs::File::open(format!("{}p4", disk.path().display())).unwrap();
    let (error, cause) = fail(&options);
    assert!(matches!(cause, Failure::Partitions(_)), "{cause}");
    assert!(matches!(error.disk, DiskState::Untouched));
    drop(reader);
    go(&options).0.unwrap();
    assert_installed(&disk, &image);
}

#[test]
fn what_is_not_a_disk_is_refused() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(16 * MIB, 512, false);
    let raw = image.packed(None);
    for path in [raw.as_path(), image.dir.path(), Path::new("/dev/null")] {
        let (error, cause) = fail(&InstallOptions { device: path.to_owned(), ..from_file(&disk, &raw) });
        assert!(matches!(cause, Failure::Disk(DiskError::NotADisk { .. })), "{cause}");
        assert!(matches!(error.disk, DiskState::Untouched));
    }
    assert!(fs::read(&raw).unwrap() == image.data);
}

#[test]
fn missing_image_leaves_the_disk_alone() {
    if skipped() {
        return;
    }
    let disk = LoopDisk::new(16 * MIB, 512, false);
    disk.put_old_tables(512);
    let dir = tempfile::tempdir().unwrap();
    let (error, cause) = fail(&from_file(&disk, &dir.path().join("no")));
    assert!(matches!(cause, Failure::Source(DecodeError::Source(SourceError::Open { .. }))), "{cause}");
    assert!(matches!(error.disk, DiskState::Untouched));
    let tiny = dir.path().join("tiny");
    fs::write(&tiny, "not an image").unwrap();
    let (_, cause) = fail(&from_file(&disk, &tiny));
    assert!(matches!(cause, Failure::Image(ImageError::TooShort { bytes: 12 })), "{cause}");
    disk.assert_untouched(512);
}

#[test]
fn failure_on_the_boot_file_system_clears_the_table() {
    if skipped() {
        return;
    }
    let mut image = Image::new(512);
    let network = keyfiles();
    // No file system where boot should be.
    let at = usize::try_from(image.boot_start).unwrap();
    image.data[at..at + (1 << 20)].fill(0);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    disk.put_old_tables(512);
    let (error, cause) = fail(&full(&disk, &image.packed(None), network.path()));
    assert!(matches!(cause, Failure::Mount(_)), "{cause}");
    assert!(matches!(error.disk, DiskState::Cleared));
    disk.assert_cleared();
}

#[test]
fn failure_can_be_preserved() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let packed = image.packed(Some("gzip"));
    let len = fs::metadata(&packed).unwrap().len() / 5 * 4;
    fs::OpenOptions::new().write(true).open(&packed).unwrap().set_len(len).unwrap();
    let options = InstallOptions { preserve_on_error: true, ..from_file(&disk, &packed) };
    let (error, _) = fail(&options);
    assert!(matches!(error.disk, DiskState::Kept));
    assert!(disk.read(4 * MIB, MIB) == image.data[4 << 20..5 << 20], "data stays");
    assert!(disk.read(0, MIB).iter().all(|byte| *byte == 0), "the table was not there yet");
}

#[test]
fn cancelling_clears_the_table() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    disk.put_old_tables(512);
    // A server that stops in mid-body and keeps the line open.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let half = image.data[..16 << 20].to_vec();
    let total = image.data.len();
    let server = thread::spawn(move || {
        let (mut stream, _) = accept(&listener);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n").unwrap();
        stream.write_all(&half).unwrap();
        // Until the client hangs up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut options = from_file(&disk, Path::new(""));
    options.source = Source::Url(format!("http://{address}/image"));
    let cancel = options.cancel.clone();
    let result = install(&options, &mut |event| {
        if matches!(event, Event::Progress { written_bytes, .. } if written_bytes > 8 * MIB) {
            cancel.cancel();
        }
    });
    let error = result.unwrap_err();
    assert!(matches!(*error.cause, Failure::Cancelled { written_bytes } if written_bytes > 8 * MIB), "{}", error.cause);
    assert!(matches!(error.disk, DiskState::Cleared));
    disk.assert_cleared();
    drop(server);
}

#[test]
fn server_that_dies_for_good_clears_the_table() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    disk.put_old_tables(512);
    let data = image.data.clone();
    let port = testkit::port::Held::default();
    let address = port.address();
    let listener = TcpListener::bind(address).unwrap();
    let server = thread::spawn(move || serve_once(&listener, &data, 16 << 20));
    let options = InstallOptions { stall_timeout: Duration::from_secs(10), ..from_server(&disk, address) };
    let (error, cause) = fail(&options);
    server.join().unwrap();
    assert!(
        matches!(cause, Failure::Source(DecodeError::Source(SourceError::Stalled { offset, total, .. }))
            if offset == 16 * MIB && total == Some(32 * MIB)),
        "{cause}"
    );
    assert!(matches!(error.disk, DiskState::Cleared));
    disk.assert_cleared();
}
