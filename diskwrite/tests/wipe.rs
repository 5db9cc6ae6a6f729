//! Emptying a disk full of leftovers, by each level that a loop device can do.
#![allow(clippy::unwrap_used)]

use diskwrite::wipe::{Level, Outcome, WipeError, WipeOptions, Wiped, plan, wipe};
use kernel::Cancel;
use std::{fs, path::PathBuf, process::Command};
use testkit::disk::{LoopDisk, MIB, run, skipped};

const DISK_BYTES: u64 = 96 * MIB;

fn options(device: PathBuf, level: Level) -> WipeOptions {
    WipeOptions { device, level, release: false, allow_weaker: false, verify_all: false, cancel: Cancel::default() }
}

fn wiped(options: &WipeOptions) -> Result<Wiped, WipeError> {
    wipe(options, &mut |_| {})
}

/// Noise with GPT, ext4 over LVM, MD, LUKS 1 and 2 and swap in partitions, and ZFS labels of an earlier life at both ends.
fn leftovers(sector: u32) -> LoopDisk {
    let disk = LoopDisk::new(DISK_BYTES, sector, false);
    // Of no kind that anything would recognize.
    disk.write(0, &vec![0xA5; usize::try_from(DISK_BYTES).unwrap()]);
    let device = disk.path().display().to_string();
    let mut args = vec!["--zap-all".to_owned()];
    run("sgdisk", &["--zap-all", &device]);
    args.clear();
    let start = |number: u64| number * 8 * MIB;
    for number in 1..=5 {
        args.push(format!("--new={number}:{}:+8M", start(number) / u64::from(sector)));
    }
    args.push(device);
    run("sgdisk", &args.iter().map(String::as_str).collect::<Vec<_>>());
    let made = |program: &str, args: &[&str]| {
        let file = disk.extract(start(1), 8 * MIB);
        let path = file.display().to_string();
        run(program, &[args, &[&path]].concat());
        fs::read(&file).unwrap()
    };
    disk.write(start(1), &made("mke2fs", &["-q", "-F", "-t", "ext4", "-L", "boot"]));
    disk.write(start(2), &made("mkswap", &["-q"]));
    let put = |at: u64, data: &[u8]| {
        let page = at - at % 4096;
        let mut bytes = disk.read(page, 4096);
        let from = usize::try_from(at - page).unwrap();
        bytes[from..from + data.len()].copy_from_slice(data);
        disk.write(page, &bytes);
    };
    // LVM's label lies before the file system.
    put(start(1) + 512, b"LABELONE\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0LVM2 001");
    let mut raid = vec![0; 512];
    raid[..8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
    raid[144] = 8;
    put(start(3) + 4096, &raid);
    put(start(4), b"LUKS\xba\xbe\0\x01");
    put(start(5), b"LUKS\xba\xbe\0\x02");
    let mut second = vec![0; 512];
    second[..8].copy_from_slice(b"SKUL\xba\xbe\0\x02");
    second[256..264].copy_from_slice(&0x4000u64.to_be_bytes());
    put(start(5) + 0x4000, &second);
    for label in [0, 256 << 10, DISK_BYTES - (512 << 10), DISK_BYTES - (256 << 10)] {
        for index in 0..8 {
            put(label + (128 << 10) + index * 4096, &0x00BA_B10Cu64.to_le_bytes());
        }
    }
    disk
}

/// util-linux finds nothing at all.
fn assert_unknown(disk: &LoopDisk) {
    let device = disk.path().display().to_string();
    assert_eq!(run("wipefs", &["--no-act", &device]), "");
    // 2 is "nothing found".
    let blkid = Command::new("blkid").args(["-p", &device]).output().unwrap();
    assert_eq!((blkid.status.code(), blkid.stdout.as_slice()), (Some(2), &b""[..]));
    // Nor would it in the old partitions.
    for number in 1..=5 {
        let part = disk.extract(number * 8 * MIB, 8 * MIB).display().to_string();
        assert_eq!(run("wipefs", &["--no-act", &part]), "", "partition {number}");
    }
    assert_eq!(disk.partitions(), Vec::<u32>::new());
}

fn done(wiped: &Wiped) -> Vec<(Level, u64, u64)> {
    let rungs = wiped.rungs.iter().filter_map(|rung| match &rung.outcome {
        Outcome::Done { bytes, verified_bytes, .. } => Some((rung.level, *bytes, *verified_bytes)),
        Outcome::Refused { .. } => None,
    });
    rungs.collect()
}

#[test]
fn signatures_go_and_every_other_byte_stays() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let disk = leftovers(sector);
        let device = disk.path().display().to_string();
        assert!(run("wipefs", &["--no-act", &device]).contains("zfs_member"));
        let before = disk.read(0, DISK_BYTES);
        let planned = plan(&options(disk.path(), Level::Signatures)).unwrap();
        assert_eq!(planned.refusals, Vec::<String>::new());
        let text = planned.to_string();
        for word in ["goes: GPT", "LVM physical volume", "ext4 file system 'boot'", "LUKS", "RAID", "swap", "ZFS"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(disk.read(0, DISK_BYTES) == before, "a plan wrote");
        let report = wiped(&options(disk.path(), Level::Signatures)).unwrap();
        assert_eq!(report.found, planned.found);
        let [(Level::Signatures, bytes, verified)] = done(&report)[..] else { panic!("{report:?}") };
        assert_eq!(bytes, verified);
        assert_unknown(&disk);
        let after = disk.read(0, DISK_BYTES);
        let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!(u64::try_from(changed).unwrap() <= bytes && changed > 0, "{changed} of {bytes}");
        assert!(before.iter().zip(&after).all(|(before, after)| after == before || *after == 0));
        // GPT thrice, 32 uberblocks, LVM twice, ext4, swap, MD, LUKS thrice.
        assert_eq!(bytes, 2 + 2 * 8 + 32 * 8 + 2 * 8 + 2 + 10 + 4 + 3 * 6, "{sector}");
        // There is nothing more to do.
        assert_eq!(done(&wiped(&options(disk.path(), Level::Signatures)).unwrap()), [(Level::Signatures, 0, 0)]);
    }
}

#[test]
fn a_table_without_entries_goes_too() {
    if skipped() {
        return;
    }
    let disk = LoopDisk::new(8 * MIB, 512, false);
    disk.write(510, &[0x55, 0xAA]);
    assert_eq!(done(&wiped(&options(disk.path(), Level::Signatures)).unwrap()), [(Level::Signatures, 2, 2)]);
    assert_eq!(run("wipefs", &["--no-act", &disk.path().display().to_string()]), "");
}

/// The copy of a mirror's contents on this disk goes with its superblock: made anew, the array would show it.
#[test]
fn what_is_in_a_mirror_goes_too() {
    if skipped() {
        return;
    }
    let disk = LoopDisk::new(32 * MIB, 512, false);
    let mut raid = vec![0; 512];
    raid[..8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
    // Of level 1, its data from 1 MiB on for 30 MiB, the superblock in sector 8.
    for (at, value) in [(72, 1), (128, 2048u64), (136, 30 * 2048), (144, 8)] {
        raid[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    disk.write(4096, &raid);
    disk.write(MIB + 1080, &[0x53, 0xEF]);
    disk.write(MIB + 65600, b"_BHRfS_M");
    // Not of the array.
    disk.write(31 * MIB + 1080, &[0x53, 0xEF]);
    assert_eq!(done(&wiped(&options(disk.path(), Level::Signatures)).unwrap()), [(Level::Signatures, 14, 14)]);
    assert_eq!(disk.read(MIB + 1080, 2), [0; 2]);
    assert_eq!(disk.read(31 * MIB + 1080, 2), [0x53, 0xEF]);
}

#[test]
fn zero_leaves_zeros() {
    if skipped() {
        return;
    }
    for (sector, verify_all) in [(512, true), (4096, false)] {
        let disk = leftovers(sector);
        let mut last = 0;
        let options = WipeOptions { verify_all, ..options(disk.path(), Level::Zero) };
        let report = wipe(&options, &mut |progress| {
            if !progress.verifying {
                assert!(progress.done_bytes >= last && progress.done_bytes <= DISK_BYTES);
                last = progress.done_bytes;
            }
        });
        let rungs = done(&report.unwrap());
        let verified = rungs[0].2;
        assert_eq!(rungs, [(Level::Zero, DISK_BYTES, verified), (Level::Signatures, 0, 0)]);
        assert_eq!(verified == DISK_BYTES, verify_all);
        assert!(verified >= 9 * MIB);
        assert!(disk.read(0, DISK_BYTES).iter().all(|byte| *byte == 0));
        assert_unknown(&disk);
    }
}

#[test]
fn a_stopped_zeroing_leaves_no_table() {
    if skipped() {
        return;
    }
    let disk = leftovers(512);
    let options = options(disk.path(), Level::Zero);
    let result = wipe(&options, &mut |_| options.cancel.cancel());
    assert!(matches!(result, Err(WipeError::Cancelled { done_bytes, .. }) if done_bytes < DISK_BYTES), "{result:?}");
    disk.assert_cleared();
    assert!(disk.read(40 * MIB, MIB).contains(&0xA5));
}

#[test]
fn discard_is_followed_by_a_look_for_signatures() {
    if skipped() {
        return;
    }
    let disk = leftovers(512);
    let report = wiped(&options(disk.path(), Level::Discard)).unwrap();
    // A loop device punches holes.
    assert_eq!(done(&report), [(Level::Discard, DISK_BYTES, 0), (Level::Signatures, 0, 0)]);
    assert!(report.rungs[0].to_string().contains("not promised"));
    assert_unknown(&disk);
}

#[test]
fn a_loop_device_cannot_erase_itself() {
    if skipped() {
        return;
    }
    let disk = leftovers(4096);
    let before = disk.read(0, DISK_BYTES);
    let options = options(disk.path(), Level::Secure);
    let Err(WipeError::Refused { level: Level::Secure, source, .. }) = wiped(&options) else { panic!("not refused") };
    assert_eq!(source.to_string(), format!("{} is neither an NVMe nor an ATA disk", disk.name()));
    assert!(disk.read(0, DISK_BYTES) == before);
    let report = wiped(&WipeOptions { allow_weaker: true, ..options }).unwrap();
    assert_eq!(report.done(), Some(Level::Zero));
    let Outcome::Refused { reason } = &report.rungs[0].outcome else { panic!("{report:?}") };
    assert!(reason.contains("neither an NVMe nor an ATA disk"));
    assert_eq!(
        report.rungs.iter().map(|rung| rung.level).collect::<Vec<_>>(),
        [Level::Secure, Level::Zero, Level::Signatures]
    );
    assert!(disk.read(0, DISK_BYTES).iter().all(|byte| *byte == 0));
}

#[test]
fn a_disk_in_use_is_refused() {
    if skipped() {
        return;
    }
    let disk = LoopDisk::new(16 * MIB, 512, false);
    run("mke2fs", &["-q", "-F", "-t", "ext2", &disk.path().display().to_string()]);
    let mount = tempfile::tempdir().unwrap();
    let at = mount.path().display().to_string();
    run("mount", &[&disk.path().display().to_string(), &at]);
    let results = Level::ALL.map(|level| wiped(&options(disk.path(), level)));
    let refusals = plan(&options(disk.path(), Level::Zero)).map(|plan| plan.refusals);
    run("umount", &[&at]);
    for result in results {
        assert!(matches!(result, Err(WipeError::Disk(_))), "{result:?}");
    }
    assert!(refusals.unwrap()[0].contains("is in use"));
    run("e2fsck", &["-f", "-n", &disk.path().display().to_string()]);
}
