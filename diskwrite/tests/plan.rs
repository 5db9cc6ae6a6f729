//! What is said of a disk before its first byte is written.
#![allow(clippy::unwrap_used)]

use diskwrite::probe::Kind;
use diskwrite::{Changes, Fate, InstallError, InstallOptions, Plan, Source, plan};
use std::{fs, path::PathBuf};
use testkit::disk::{Image, LoopDisk, MIB, run, skipped};

fn options(device: PathBuf) -> InstallOptions {
    // Read but once, so not for a plan.
    InstallOptions { source: Source::Stdin, device, ..Default::default() }
}

fn planned(device: PathBuf) -> Result<Plan, InstallError> {
    plan(&options(device))
}

/// GPT, a file system, LVM and RAID in partitions, and ZFS of an earlier life at the disk's end.
fn leftovers(sector: u32) -> LoopDisk {
    let disk = LoopDisk::new(128 * MIB, sector, false);
    let device = disk.path().display().to_string();
    run(
        "sgdisk",
        &["--new=1:0:+16M", "--change-name=1:boot", "--new=2:0:+16M", "--typecode=2:8e00", "--new=3:0:+16M", &device],
    );
    let start = |number: &str| {
        let text = run("sgdisk", &[&format!("--info={number}"), &device]);
        let line = text.lines().find_map(|line| line.strip_prefix("First sector: ")).unwrap();
        line.split(' ').next().unwrap().parse::<u64>().unwrap() * u64::from(sector)
    };
    let file = disk.extract(0, 16 * MIB);
    fs::write(&file, vec![0; 16 << 20]).unwrap();
    run("mke2fs", &["-q", "-F", "-t", "ext4", "-L", "boot", &file.display().to_string()]);
    disk.write(start("1"), &fs::read(&file).unwrap());
    let mut label = vec![0; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[20] = 32;
    label[24..32].copy_from_slice(b"LVM2 001");
    disk.write(start("2") + 512, &[label, vec![0; 3584]].concat());
    let mut raid = vec![0; 4096];
    raid[..8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
    raid[144] = 8;
    disk.write(start("3") + 4096, &raid);
    let mut uberblock = vec![0; 4096];
    uberblock[..8].copy_from_slice(&0x00BA_B10Cu64.to_le_bytes());
    disk.write(128 * MIB - (128 << 10), &uberblock);
    disk
}

#[test]
fn disk_full_of_leftovers_is_described_and_left_alone() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let disk = leftovers(sector);
        let before = disk.read(0, disk.size());
        let plan = planned(disk.path()).unwrap();
        assert!(disk.read(0, disk.size()) == before, "the plan changed the disk");
        assert_eq!(plan.refusals, Vec::<String>::new());
        assert_eq!(plan.identity.name, disk.name());
        assert_eq!((plan.disk.size_bytes, plan.disk.sector_bytes), (128 * MIB, sector));
        assert_eq!(plan.signatures.iter().map(|sig| sig.kind).collect::<Vec<_>>(), [Kind::Gpt, Kind::Zfs]);
        let kinds: Vec<_> = plan.partitions.iter().map(|part| part.contents.signatures[0].kind).collect();
        assert_eq!(kinds, [Kind::Ext4, Kind::Lvm2, Kind::MdRaid]);
        assert!(plan.partitions.iter().all(|part| part.fate == Fate::Goes));
        let text = plan.to_string();
        for line in [
            "goes: partition 1 'boot', 16 MiB at byte 1048576, type Linux file system, ext4 file system 'boot' ",
            "goes: GPT ",
            "goes: ZFS pool member (1 of 4 labels)",
            "type Linux LVM, LVM physical volume",
            "Linux RAID member",
            "1. check that the image is for",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let json = serde_json::to_value(&plan).unwrap();
        assert_eq!(json["schema"], diskwrite::PLAN_SCHEMA);
        assert_eq!(json["partitions"][1]["signatures"][0]["kind"], "LVM2_member");
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), plan);
    }
}

#[test]
fn image_is_looked_at_before_anything_is_done_with_it() {
    if skipped() {
        return;
    }
    let disk = LoopDisk::new(64 * MIB, 512, false);
    let (image, native, dir) = (Image::new(512), Image::new(4096), tempfile::tempdir().unwrap());
    let refusals = |source: Source| {
        let plan = plan(&InstallOptions { source, ..options(disk.path()) }).unwrap();
        assert!(disk.read(0, MIB).iter().all(|byte| *byte == 0));
        (plan.refusals, plan.warnings)
    };
    let none = Vec::<String>::new();
    for tool in [None, Some("xz")] {
        assert_eq!(refusals(Source::File(image.packed(tool))), (none.clone(), none.clone()));
    }
    let (native, _) = refusals(Source::File(native.packed(None)));
    assert!(native[0].starts_with("the image is for disks with 4096-byte sectors"), "{native:?}");
    let (missing, _) = refusals(Source::File("/no/such/image".into()));
    assert_eq!(missing, ["cannot open the image /no/such/image: No such file or directory (os error 2)"]);
    // Nobody writes to it, nor could it be read again.
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert_eq!(refusals(Source::File(pipe)), (none.clone(), none.clone()));
    // A server may be there later.
    let nowhere = testkit::port::Held::default();
    let (refused, warned) = refusals(Source::Url(format!("http://{}/image", nowhere.address())));
    assert_eq!(refused, none);
    assert!(warned[0].starts_with("the image cannot be checked now: http://127.0.0.1:"), "{warned:?}");
    // What is kept must not lie where the image goes.
    run("sgdisk", &["--new=7:2M:+2M", "--change-name=7:data", &disk.path().display().to_string()]);
    let source = Source::File(image.packed(None));
    let keeping = InstallOptions {
        source,
        changes: Changes { save_partlabels: vec!["data".into()], ..Default::default() },
        ..options(disk.path())
    };
    let refusals = plan(&keeping).unwrap().refusals;
    assert_eq!(refusals, ["collision with partition 7 (\"data\") at offset 2097152"]);
}

#[test]
fn refused_disk_is_described_too() {
    if skipped() {
        return;
    }
    let disk = leftovers(512);
    let device = disk.path().display().to_string();
    run("blockdev", &["--setro", &device]);
    let plan = planned(disk.path()).unwrap();
    run("blockdev", &["--setrw", &device]);
    assert_eq!(plan.refusals, [format!("{device} is read-only")]);
    assert_eq!(plan.partitions.len(), 3);
    let text = plan.to_string();
    assert!(text.contains(&format!("Refused: {device} is read-only")) && !text.contains("1. "), "{text}");
    let small = LoopDisk::new(2 * MIB, 512, false);
    let refusals = planned(small.path()).unwrap().refusals;
    assert!(refusals[0].ends_with("has only 2 MiB, too little for any image"), "{refusals:?}");
}

#[test]
fn kernel_name_means_the_disk_and_unknown_names_list_what_there_is() {
    if skipped() {
        return;
    }
    let disk = LoopDisk::new(8 * MIB, 512, false);
    assert_eq!(planned(disk.name().into()).unwrap().disk.path, disk.path());
    let error = planned("no-such-disk".into()).unwrap_err();
    let text = error.cause.to_string();
    assert!(text.contains("'no-such-disk'; found: "), "{text}");
}
