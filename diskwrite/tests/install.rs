//! Whole installations to loop devices.

use crate::installs;

use diskwrite::{Event, InstallOptions, Installed, Phase, plan};
use installs::*;
use std::{fs, net::TcpListener, path::Path, thread, time::Duration};
use testkit::disk::{Image, LoopDisk, MIB, run, skipped};

#[test]
fn installs_every_format() {
    if skipped() {
        return;
    }
    let (image, network) = (Image::new(512), keyfiles());
    for (tool, scan) in [(None, true), (Some("gzip"), false), (Some("xz"), true), (Some("zstd"), false)] {
        let disk = LoopDisk::new(64 * MIB, 512, scan);
        disk.put_old_tables(512);
        let packed = image.packed(tool);
        let source_bytes = fs::metadata(&packed).unwrap().len();
        let (result, events) = go(&full(&disk, &packed, network.path()));
        let installed = result.unwrap();
        assert_eq!(installed, Installed { device: disk.path(), written_bytes: 32 * MIB, source_bytes });
        assert_installed(&disk, &image);
        assert_configured(&disk, &image);

        let phases: Vec<_> =
            events.iter().filter_map(|e| if let Event::Phase { phase } = e { Some(*phase) } else { None }).collect();
        use Phase::*;
        assert_eq!(phases, [Checking, Writing, Verifying, ConfiguringBoot, Finishing, RereadingTable]);
        let read = events.iter().rev().find(|event| matches!(event, Event::ReadBack { .. }));
        // All but the head, which comes last.
        assert_eq!(read, Some(&Event::ReadBack { checked_bytes: 31 * MIB, total_bytes: 31 * MIB }));
        assert!(matches!(&events[1], Event::Started { total_bytes, device_bytes, sector_bytes: 512, .. }
            if *total_bytes == Some(source_bytes) && *device_bytes == 64 * MIB));
        let last = events.iter().rev().find(|event| matches!(event, Event::Progress { .. })).unwrap();
        let Event::Progress { source_bytes_read, source_total, written_bytes, percent, .. } = *last else { panic!() };
        assert_eq!((source_bytes_read, source_total), (source_bytes, Some(source_bytes)));
        assert_eq!((written_bytes, percent), (32 * MIB, Some(100)));
        assert!(matches!(events.last(), Some(Event::Finished { .. })));
    }
}

#[test]
fn installs_to_4k_sectors() {
    if skipped() {
        return;
    }
    let (image, network) = (Image::new(4096), keyfiles());
    let disk = LoopDisk::new(64 * MIB, 4096, true);
    disk.put_old_tables(4096);
    let (result, _) = go(&full(&disk, &image.packed(Some("zstd")), network.path()));
    result.unwrap();
    assert_installed(&disk, &image);
    assert_configured(&disk, &image);
    // Again over itself, as a retry of the whole installation does.
    let (result, _) = go(&full(&disk, &image.packed(Some("zstd")), network.path()));
    result.unwrap();
    assert_configured(&disk, &image);
}

#[test]
fn image_as_large_as_the_disk_is_written_verbatim() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(32 * MIB, 512, false);
    let (result, _) = go(&from_file(&disk, &image.packed(None)));
    result.unwrap();
    assert!(disk.read(0, 32 * MIB) == image.data);
    // The disk is whole, so its tables are too.
    let report = run("sgdisk", &["--verify", &disk.path().display().to_string()]);
    assert!(report.contains("No problems found"), "{report}");
}

#[test]
fn link_to_a_disk_is_followed() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = LoopDisk::new(64 * MIB, 512, true);
    let link = image.dir.path().join("by-id");
    std::os::unix::fs::symlink(disk.path(), &link).unwrap();
    let options = InstallOptions { device: link, ..from_file(&disk, &image.packed(None)) };
    assert_eq!(go(&options).0.unwrap().device, disk.path());
    assert_installed(&disk, &image);
}

#[test]
fn server_that_dies_at_half_and_returns_is_resumed() {
    if skipped() {
        return;
    }
    let (image, network) = (Image::new(512), keyfiles());
    let disk = LoopDisk::new(64 * MIB, 512, true);
    disk.put_old_tables(512);
    let data = fs::read(image.packed(Some("zstd"))).unwrap();
    let half = data.len() / 2;
    let port = testkit::port::Held::default();
    let address = port.address();
    let listener = TcpListener::bind(address).unwrap();
    let server = thread::spawn(move || {
        serve_once(&listener, &data, half);
        drop(listener);
        thread::sleep(Duration::from_secs(3));
        serve_once(&TcpListener::bind(address).unwrap(), &data, data.len());
    });
    let options =
        InstallOptions { source: from_server(&disk, address).source, ..full(&disk, Path::new(""), network.path()) };
    let (result, events) = go(&options);
    result.unwrap();
    server.join().unwrap();
    let half = u64::try_from(half).unwrap();
    assert!(
        events.iter().any(|event| matches!(event, Event::Retrying { source_offset, .. } if *source_offset == half))
    );
    assert_installed(&disk, &image);
    assert_configured(&disk, &image);
}

#[test]
fn plan_changes_nothing() {
    if skipped() {
        return;
    }
    let network = keyfiles();
    let disk = LoopDisk::new(16 * MIB, 512, false);
    disk.put_old_tables(512);
    let plan = plan(&full(&disk, Path::new("/no/such/image"), network.path())).unwrap();
    assert_eq!(plan.disk.size_bytes, 16 * MIB);
    let step = "copy network keyfiles [eth0.nmconnection] to the initramfs, or to the boot file system if the image reads them there";
    assert!(plan.steps.iter().any(|other| other.to_string() == step), "{:?}", plan.steps);
    disk.assert_untouched(512);
}
