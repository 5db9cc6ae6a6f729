//! Partitions that outlive an installation, on loop devices.
#![allow(clippy::unwrap_used)]

use crate::installs;

use diskwrite::{Changes, DiskState, Event, Failure, InstallOptions, LayoutError, Phase, SavedError, install, plan};
use installs::*;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use testkit::disk::{Image, LoopDisk, MIB, run, skipped};

/// What is kept: number, first MiB, sectors (0: up to the end of the disk), and its number afterwards.
const KEPT: [(u32, u64, u64, u32); 3] = [(2, 40, 512, 5), (7, 50, 64, 7), (9, 61, 0, 9)];

fn sgdisk(disk: &LoopDisk, args: &[String]) -> String {
    let device = disk.path().display().to_string();
    run("sgdisk", &args.iter().map(String::as_str).chain([device.as_str()]).collect::<Vec<_>>())
}

/// A disk with an old system, and partitions `data` around it; known bytes in all of them.
fn old_disk(sector: u32) -> LoopDisk {
    let disk = LoopDisk::new(64 * MIB, sector, false);
    let lba = |mib: u64| mib * MIB / u64::from(sector);
    let mut args = vec!["--set-alignment=1".into(), format!("--new=1:{}:{}", lba(1), lba(40) - 1)];
    args.push("--change-name=1:root".into());
    for (number, mib, sectors, _) in KEPT {
        let end = if sectors == 0 { "0".into() } else { (lba(mib) + sectors - 1).to_string() };
        args.extend([format!("--new={number}:{}:{end}", lba(mib)), format!("--change-name={number}:data-{number}")]);
        args.push(format!("--attributes={number}:set:60"));
    }
    sgdisk(&disk, &args);
    for (number, mib, sectors, _) in KEPT {
        disk.write(mib * MIB, &vec![u8::try_from(number).unwrap(); data_len(sector, sectors)]);
    }
    disk
}

fn data_len(sector: u32, sectors: u64) -> usize {
    let backup = 16384 + u64::from(sector);
    usize::try_from(if sectors == 0 { 3 * MIB - backup } else { sectors * u64::from(sector) }).unwrap()
}

/// All that sgdisk tells of a partition.
fn info(disk: &LoopDisk, number: u32) -> String {
    sgdisk(disk, &[format!("--info={number}")])
}

fn assert_sound(disk: &LoopDisk) {
    let report = sgdisk(disk, &["--verify".into()]);
    assert!(report.contains("No problems found"), "{report}");
}

fn assert_data(disk: &LoopDisk, sector: u32) {
    for (number, mib, sectors, _) in KEPT {
        let data = disk.read(mib * MIB, u64::try_from(data_len(sector, sectors)).unwrap());
        assert!(data.iter().all(|byte| u32::from(*byte) == number), "data of partition {number} is gone");
    }
}

fn keeping(disk: &LoopDisk, image: &Path) -> InstallOptions {
    InstallOptions {
        changes: Changes {
            save_partlabels: vec!["data-[27]".into()],
            save_partindexes: vec!["9-".into()],
            ..Default::default()
        },
        ..from_file(disk, image)
    }
}

#[test]
fn kept_partitions_survive_and_are_renumbered() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let (image, network) = (Image::new(sector), keyfiles());
        for damage in [None, Some(u64::from(sector)), Some(64 * MIB - u64::from(sector))] {
            let disk = old_disk(sector);
            let before = KEPT.map(|(number, ..)| info(&disk, number));
            if let Some(offset) = damage {
                disk.write(offset, &vec![0; usize::try_from(sector).unwrap()]);
            }
            let mut options = full(&disk, &image.packed(Some("zstd")), network.path());
            options.changes.save_partlabels = vec!["data-*".into()];
            let step = plan(&options).unwrap().steps[1].to_string();
            assert!(step.ends_with(r#": 2 ("data-2"), 7 ("data-7"), 9 ("data-9")"#), "{step}");
            let (result, events) = go(&options);
            result.unwrap();
            assert_sound(&disk);
            assert_configured(&disk, &image);
            assert_data(&disk, sector);
            for ((number, _, _, new), before) in KEPT.into_iter().zip(before) {
                assert_eq!(info(&disk, new), before, "{number}");
                let told = format!("Saving partition {number} (\"data-{number}\") to new partition {new}");
                assert!(
                    events.iter().any(|e| matches!(e, Event::Saving { partition } if partition.to_string() == told))
                );
            }
            assert_eq!(disk.partitions(), [1, 2, 3, 4, 5, 7, 9]);
            let from = usize::try_from(image.boot_start + image.boot_len).unwrap();
            assert!(disk.read(0, 32 * MIB)[from..] == image.data[from..]);
        }
    }
}

#[test]
fn kept_partitions_survive_every_failure() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let image = Image::new(sector);
        let packed = image.packed(Some("gzip"));
        let len = fs::metadata(&packed).unwrap().len() / 5 * 4;
        fs::OpenOptions::new().write(true).open(&packed).unwrap().set_len(len).unwrap();
        let raw = image.packed(None);
        for cancel in [false, true] {
            let disk = old_disk(sector);
            let before = KEPT.map(|(number, ..)| info(&disk, number));
            let options = keeping(&disk, if cancel { &raw } else { &packed });
            let stop = options.cancel.clone();
            let result = install(&options, &mut |event| {
                if cancel && matches!(event, Event::Phase { phase: Phase::Writing }) {
                    stop.cancel();
                }
            });
            let error = result.unwrap_err();
            assert!(matches!(error.disk, DiskState::OnlySaved { partitions: 3 }), "{error}");
            assert_sound(&disk);
            assert_data(&disk, sector);
            assert_eq!(KEPT.map(|(number, ..)| info(&disk, number)), before);
            assert_eq!(disk.partitions(), [2, 7, 9]);
            // And the second run completes.
            go(&keeping(&disk, &raw)).0.unwrap();
            assert_sound(&disk);
            assert_data(&disk, sector);
        }
    }
}

#[test]
fn preserved_failure_leaves_the_saved_table_in_a_file() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = old_disk(512);
    let packed = image.packed(Some("gzip"));
    let len = fs::metadata(&packed).unwrap().len() / 5 * 4;
    fs::OpenOptions::new().write(true).open(&packed).unwrap().set_len(len).unwrap();
    let (error, _) = fail(&InstallOptions { preserve_on_error: true, ..keeping(&disk, &packed) });
    let DiskState::KeptBeside { stash: Ok(path) } = &error.disk else { panic!("{error}") };
    assert!(error.to_string().contains(&path.display().to_string()));
    assert!(path.file_name().unwrap().to_string_lossy().starts_with("coreos-installer-partitions."));
    let meta = fs::metadata(path).unwrap();
    assert_eq!((meta.permissions().mode() & 0o777, meta.len()), (0o600, 64 * MIB));
    let stash = path.display().to_string();
    let report = run("sgdisk", &["--verify", &stash]);
    let found = run("sgdisk", &["--info=9", &stash]);
    fs::remove_file(path).unwrap();
    assert!(report.contains("No problems found"), "{report}");
    assert_eq!(found, info(&disk, 9));
    assert_data(&disk, 512);
}

#[test]
fn image_that_reaches_a_kept_partition_is_refused() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let image = Image::new(sector);
        let place = |offset: u64| {
            let disk = LoopDisk::new(64 * MIB, sector, false);
            let lba = offset / u64::from(sector);
            sgdisk(&disk, &["--set-alignment=1".into(), format!("--new=6:{lba}:+1M"), "--change-name=6:data".into()]);
            let before = disk.read(0, MIB);
            (disk, before)
        };
        for (offset, tool) in
            [(20 * MIB, None), (20 * MIB, Some("xz")), (32 * MIB - 4096, None), (512 << 10, Some("xz"))]
        {
            let (disk, before) = place(offset);
            let options = InstallOptions {
                changes: Changes { save_partindexes: vec!["6".into()], ..Default::default() },
                ..from_file(&disk, &image.packed(tool))
            };
            let (error, cause) = fail(&options);
            assert_eq!(cause.to_string(), format!("collision with partition 6 (\"data\") at offset {offset}"));
            assert!(matches!(error.disk, DiskState::Untouched), "{error}");
            assert!(disk.read(0, MIB) == before);
        }
        // Behind the image's last partition, where its own backup table is: only its end shows that.
        let (disk, _) = place(32 * MIB - 4096);
        disk.write(32 * MIB - 4096, &[7; 4096]);
        let options = InstallOptions {
            changes: Changes { save_partindexes: vec!["6".into()], ..Default::default() },
            ..from_file(&disk, &image.packed(Some("xz")))
        };
        let (error, cause) = fail(&options);
        assert!(matches!(cause, Failure::Saved(SavedError::Collision { number: 6, .. })), "{cause}");
        assert!(matches!(error.disk, DiskState::OnlySaved { partitions: 1 }), "{error}");
        assert_sound(&disk);
        assert_eq!(disk.read(32 * MIB - 4096, 4096), [7; 4096]);
        // Right behind its end there is room.
        let (disk, _) = place(32 * MIB);
        go(&InstallOptions { device: disk.path(), ..options }).0.unwrap();
        assert_sound(&disk);
        assert_eq!(disk.partitions(), [1, 2, 3, 4, 6]);
    }
}

#[test]
fn kept_partition_in_use_is_refused() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = old_disk(512);
    let options = keeping(&disk, &image.packed(None));
    go(&options).0.unwrap();
    let (partition, mount_point) = (format!("{}p5", disk.path().display()), image.dir.path().join("mnt"));
    fs::create_dir(&mount_point).unwrap();
    run("mke2fs", &["-q", "-t", "ext4", &partition]);
    run("mount", &[&partition, &mount_point.display().to_string()]);
    let (error, cause) = fail(&options);
    run("umount", &[&mount_point.display().to_string()]);
    assert!(matches!(error.disk, DiskState::Untouched));
    assert!(cause.to_string().contains(&format!("{}p5 is mounted on", disk.name())), "{cause}");
    assert_sound(&disk);
}

#[test]
fn table_that_cannot_be_restored_is_refused_before_the_first_byte() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = old_disk(512);
    let guid = "--partition-guid={}:01234567-89AB-4DEF-8123-456789ABCDEF";
    sgdisk(&disk, &[guid.replace("{}", "2"), guid.replace("{}", "7")]);
    let before = disk.read(0, MIB);
    let options = keeping(&disk, &image.packed(None));
    let (error, cause) = fail(&options);
    assert!(matches!(error.disk, DiskState::Untouched));
    assert!(matches!(cause, Failure::Saved(SavedError::DryRun(LayoutError::SameGuid { first: 2, second: 7 }))));
    assert!(plan(&options).is_err());
    assert!(disk.read(0, MIB) == before);
    // Neither of them kept: nothing to restore.
    let options = InstallOptions {
        changes: Changes { save_partlabels: vec![], save_partindexes: vec!["9".into()], ..Default::default() },
        ..options
    };
    go(&options).0.unwrap();
    assert_sound(&disk);
}

#[test]
fn nothing_kept_is_a_plain_installation() {
    if skipped() {
        return;
    }
    let image = Image::new(512);
    let disk = old_disk(512);
    let options = InstallOptions {
        changes: Changes { save_partlabels: vec!["other".into()], ..Default::default() },
        ..from_file(&disk, &image.packed(None))
    };
    go(&options).0.unwrap();
    assert_installed(&disk, &image);
    // With a GUID of its own, and the backup where it belongs.
    let guid = |disk: &LoopDisk| disk.read(512 + 56, 16);
    let old = guid(&disk);
    go(&InstallOptions { new_disk_guid: true, ..options }).0.unwrap();
    assert_sound(&disk);
    assert!(guid(&disk) != old);
    assert!(disk.read(34 * 512, 32 * MIB - 34 * 512) == image.data[34 * 512..]);
}
