//! The disks stage of `landfall ignition apply` on loop devices: what it makes is what blkid and sgdisk find. Arrays and encrypted
//! devices are made in a machine, by `disks_stage` of `qemu-tests`.
#![allow(clippy::unwrap_used)]

use ignition::{
    apply::{AllowedDisk, DisksDone, DisksRequest, newest},
    fetch::{FetchOptions, Fetcher},
};
use installer::ignition_disks::stage;
use serde_json::{Value, json};
use std::process::Command;
use testkit::{
    disk::{LoopDisk, MIB, run, skipped},
    skip,
};

const DISK_BYTES: u64 = 512 * MIB;
/// How the config calls the disk.
const NAME: &str = "/dev/disk/by-id/virtio-data";

fn disk() -> LoopDisk {
    LoopDisk::new(DISK_BYTES, 512, true)
}

/// The stage for a config's storage section, `NAME` being this disk.
fn staged(disk: &LoopDisk, storage: &Value, dry_run: bool) -> Result<DisksDone, String> {
    let text = json!({"ignition": {"version": "3.6.0"}, "storage": storage}).to_string();
    let (config, version, report) = ignition::parse(text.as_bytes()).unwrap();
    assert!(!report.is_fatal(), "{report}");
    let config = newest(config, version);
    let allowed = [AllowedDisk { name: Some(NAME.to_owned()), device: disk.path() }];
    let fetcher = Fetcher::new(FetchOptions { offline: true, ..FetchOptions::default() });
    let request = DisksRequest { config: &config, allowed: &allowed, dry_run, fetcher: &fetcher };
    stage(&request).map_err(|error| format!("{error:#}"))
}

fn shown(done: &DisksDone) -> Vec<String> {
    done.actions.iter().map(|action| format!("{} {}", action.what, action.to)).collect()
}

/// What libblkid says of a device.
fn blkid(device: &str, tag: &str) -> String {
    let output = Command::new("blkid").args(["-p", "-o", "value", "-s", tag, device]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn cannot_run(programs: &[&str]) -> bool {
    let is_there = |program: &&&str| Command::new(program).arg("-V").output().is_ok();
    skipped() || !programs.iter().all(|program| skip::unless(program, is_there(&program)))
}

fn partitions(more: &Value) -> Value {
    let mut all = json!([
        {"number": 1, "label": "boot", "startMiB": 1, "sizeMiB": 64, "guid": "11111111-2222-4333-8444-555555555555"},
        {"number": 2, "label": "data", "sizeMiB": 384, "typeGuid": "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"},
    ]);
    all.as_array_mut().unwrap().extend(more.as_array().unwrap().iter().cloned());
    all
}

#[test]
fn a_disk_becomes_what_the_config_says_once() {
    if cannot_run(&["mkfs.ext4", "mkfs.xfs", "mkswap"]) {
        return;
    }
    let disk = disk();
    let device = disk.path().display().to_string();
    let storage = json!({
        "disks": [{"device": NAME, "wipeTable": false, "partitions": partitions(&json!([{"label": "swap"}]))}],
        "filesystems": [
            {"device": format!("{NAME}-part1"), "format": "ext4", "label": "boot", "path": "/boot",
             "uuid": "5ae01f0f-6f76-4b8d-a4c1-6a0a5e1a7c7a"},
            {"device": "/dev/disk/by-partlabel/data", "format": "xfs", "label": "data", "mountOptions": ["noatime"]},
            {"device": "/dev/disk/by-partlabel/swap", "format": "swap"},
        ],
    });
    let planned = staged(&disk, &storage, true).unwrap();
    assert!(disk.read(0, MIB).iter().all(|byte| *byte == 0), "a dry run writes nothing");
    let done = staged(&disk, &storage, false).unwrap();
    assert_eq!(done.actions, planned.actions);
    assert_eq!(
        shown(&done)[..4],
        [
            format!("make partition 1 of {device}"),
            format!("make partition 2 of {device}"),
            format!("make partition 3 of {device}"),
            format!("make file system on {NAME}-part1 ({device} partition 1)"),
        ]
    );
    assert_eq!(disk.partitions(), [1, 2, 3]);
    run("sgdisk", &["--verify", &device]);
    assert!(run("sgdisk", &["--verify", &device]).contains("No problems found"));
    let info = run("sgdisk", &["--info=1", "--info=2", "--info=3", &device]);
    for line in [
        "Partition unique GUID: 11111111-2222-4333-8444-555555555555",
        "First sector: 2048 ",
        "Last sector: 133119 ",
        "Partition GUID code: 4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
        "First sector: 133120 ",
        "Last sector: 1048542 ",
        "Partition name: 'swap'",
    ] {
        assert!(info.contains(line), "{line} in {info}");
    }
    for (number, kind, label) in [(1, "ext4", "boot"), (2, "xfs", "data"), (3, "swap", "")] {
        let node = format!("{device}p{number}");
        assert_eq!((blkid(&node, "TYPE").as_str(), blkid(&node, "LABEL").as_str()), (kind, label));
    }
    assert_eq!(blkid(&format!("{device}p1"), "UUID"), "5ae01f0f-6f76-4b8d-a4c1-6a0a5e1a7c7a");
    // Once more: all is as it should be, but a partition without a number is always another one.
    let mut again = storage.clone();
    again["disks"][0]["partitions"] = partitions(&json!([{"number": 3, "label": "swap"}]));
    let before = disk.read(0, 2 * MIB);
    let shown = shown(&staged(&disk, &again, false).unwrap());
    assert!(shown.iter().all(|line| line.starts_with("keep ")), "{shown:?}");
    assert_eq!(disk.read(0, 2 * MIB), before);
}

#[test]
fn a_table_with_other_sectors_is_changed_in_place() {
    if cannot_run(&[]) {
        return;
    }
    let disk = LoopDisk::new(DISK_BYTES, 4096, true);
    let device = disk.path().display().to_string();
    run("sgdisk", &["--new=1:256:+64M", "--change-name=1:old", "--new=2:0:+64M", "--new=5:0:0", &device]);
    run("partx", &["--update", &device]);
    let guids = || run("sgdisk", &["--info=2", &device]);
    let kept = guids();
    let with = |partitions: Value| json!({"disks": [{"device": NAME, "partitions": partitions}]});
    let error = staged(&disk, &with(json!([{"number": 1, "label": "new"}])), false).unwrap_err();
    assert!(error.contains(r#"partition 1 didn't match: label did not match (specified "new", got "old")"#), "{error}");
    let gone = json!([{"number": 5, "shouldExist": false}]);
    assert!(staged(&disk, &with(gone), false).unwrap_err().contains("wipePartitionEntry is false"));
    let storage = with(json!([
        {"number": 5, "shouldExist": false, "wipePartitionEntry": true},
        {"number": 1, "label": "new", "sizeMiB": 32, "wipePartitionEntry": true},
        {"number": 6, "label": "rest", "sizeMiB": 100},
    ]));
    let done = staged(&disk, &storage, false).unwrap();
    let expected = [
        format!("delete partition 5 of {device}"),
        format!("replace partition 1 of {device}"),
        format!("make partition 6 of {device}"),
    ];
    assert_eq!((shown(&done), disk.partitions()), (expected.to_vec(), vec![1, 2, 6]));
    assert!(run("sgdisk", &["--verify", &device]).contains("No problems found"));
    assert_eq!(guids(), kept);
    // Grown, and emptied.
    let grown = with(json!([{"number": 6, "label": "rest", "sizeMiB": 200, "resize": true}]));
    assert_eq!(shown(&staged(&disk, &grown, false).unwrap()), [format!("resize partition 6 of {device}")]);
    let sectors = std::fs::read_to_string(format!("/sys/block/{0}/{0}p6/size", disk.name())).unwrap();
    assert_eq!(sectors.trim(), (200 * MIB / 512).to_string());
    let wiped = json!({"disks": [{"device": NAME, "wipeTable": true}]});
    staged(&disk, &wiped, false).unwrap();
    assert_eq!((disk.partitions(), blkid(&device, "PTTYPE").as_str()), (Vec::new(), ""));
}

#[test]
fn what_is_not_allowed_or_in_use_is_not_written_to() {
    if cannot_run(&["mkfs.ext4"]) {
        return;
    }
    let (disk, other) = (disk(), disk());
    disk.put_old_tables(512);
    let elsewhere = json!({"disks": [{"device": other.path(), "wipeTable": true}]});
    let error = staged(&disk, &elsewhere, false).unwrap_err();
    assert!(error.contains("is not one of the devices given with --disks"), "{error}");
    let file_system = json!({"filesystems": [{"device": other.path(), "format": "ext4"}]});
    assert!(staged(&disk, &file_system, false).unwrap_err().contains("is not one of the devices"));
    assert!(other.read(0, MIB).iter().all(|byte| *byte == 0));
    let damaged = json!({"disks": [{"device": NAME, "partitions": [{"number": 1}]}]});
    let error = staged(&disk, &damaged, false).unwrap_err();
    assert!(error.contains("cannot read the partition table"), "{error}");
    disk.assert_untouched(512);
    // Mounted.
    let device = other.path().display().to_string();
    run("mkfs.ext4", &["-q", &device]);
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display().to_string();
    run("mount", &[&device, &at]);
    let storage = json!({"disks": [{"device": NAME, "wipeTable": true}]});
    let error = staged(&other, &storage, false).map(|done| shown(&done));
    run("umount", &[&at]);
    assert!(error.clone().unwrap_err().contains("is in use"), "{error:?}");
    assert_eq!(blkid(&device, "TYPE"), "ext4");
    // Something else is there.
    let xfs = json!({"filesystems": [{"device": NAME, "format": "xfs"}]});
    assert!(staged(&other, &xfs, false).unwrap_err().contains("found ext4"));
    // A program fails: what was done before is named.
    let storage = json!({
        "disks": [{"device": NAME, "wipeTable": true, "partitions": [{"number": 1, "sizeMiB": 8}]}],
        "filesystems": [{"device": format!("{NAME}-part1"), "format": "ext4", "options": ["--no-such-option"]}],
    });
    let error = staged(&other, &storage, false).unwrap_err();
    let done = format!(
        "done: $.storage.disks.0.wipeTable: wipe partition table of {device}, $.storage.disks.0.partitions.0: make partition \
         1 of {device}; not done: "
    );
    assert!(error.contains(&done), "{error}");
    assert!(error.contains("not done: $.storage.filesystems.0: make file system on"), "{error}");
}

/// What `ext4` labelled `data`, which may not be made, finds on a disk.
fn kept(disk: &LoopDisk, format: &str, label: Option<&str>) -> Result<Vec<String>, String> {
    let mut file_system = json!({"device": NAME, "format": format, "wipeFilesystem": false});
    if let Some(label) = label {
        file_system["label"] = label.into();
    }
    staged(disk, &json!({"filesystems": [file_system]}), false).map(|done| shown(&done))
}

#[test]
fn a_file_system_of_another_kind_is_not_written_over() {
    if cannot_run(&[]) {
        return;
    }
    let disk = disk();
    let mut jfs = vec![0; 512];
    for (at, bytes) in
        [(0, &b"JFS1"[..]), (17, b"\x10"), (20, b"\x0c\0\x03"), (25, b"\x02"), (28, b"\x09"), (136, &[7; 16])]
    {
        jfs[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let found = [
        (32 << 10, jfs, "jfs, \"\", 07070707-0707-0707-0707-070707070707"),
        (0, b"HM\x01\0".to_vec(), "LVM1_member, \"\", "),
        (2 * MIB, b"\x5e\xf1\xab\x2f".to_vec(), "VMFS, \"\", "),
        (DISK_BYTES - 63 * 512, b"Promise Technology, Inc.".to_vec(), "promise_fasttrack_raid_member, \"\", "),
    ];
    for (at, bytes, found) in found {
        disk.write(at, &bytes);
        let error = kept(&disk, "xfs", None).unwrap_err();
        let words = format!(
            "is not of the correct type, label, or UUID (found {found}) and a filesystem wipe was not requested"
        );
        assert!(error.contains(&words), "{error}");
        assert_eq!(disk.read(at, u64::try_from(bytes.len()).unwrap()), bytes);
        disk.write(at, &vec![0; bytes.len()]);
    }
}

#[test]
fn a_pools_leftovers_do_not_decide() {
    if cannot_run(&["mkfs.ext4"]) {
        return;
    }
    let disk = disk();
    run("mkfs.ext4", &["-q", "-F", "-L", "data", &disk.path().display().to_string()]);
    for count in 1..=4u64 {
        let at = DISK_BYTES - (128 << 10) + count * 4096;
        disk.write(at, b"\x0c\xb1\xba\0\0\0\0\0\x88\x13\0\0\0\0\0\0");
        let kept = kept(&disk, "ext4", Some("data"));
        match count {
            4 => assert!(kept.clone().unwrap_err().contains("ext4, zfs_member were found at once"), "{kept:?}"),
            _ => assert!(kept.clone().unwrap()[0].starts_with("keep file system"), "{kept:?}"),
        }
    }
}

#[test]
fn fat_is_known_without_its_text_and_by_the_name_in_its_directory() {
    if cannot_run(&["mkfs.vfat"]) {
        return;
    }
    let disk = disk();
    let device = disk.path().display().to_string();
    for (width, text, label) in [("16", 54, 43), ("32", 82, 71)] {
        run("mkfs.vfat", &["-I", "-F", width, "-n", "CIDATA", &device]);
        disk.write(text, b"        ");
        // As Windows leaves the copy in the boot sector.
        disk.write(label, b"NO NAME    ");
        assert_eq!((blkid(&device, "TYPE").as_str(), blkid(&device, "LABEL").as_str()), ("vfat", "CIDATA"));
        let kept = kept(&disk, "vfat", Some("CIDATA")).unwrap();
        assert!(kept[0].starts_with("keep file system"), "{kept:?}");
    }
}

#[test]
fn the_cause_is_in_what_a_failed_program_said_first() {
    if cannot_run(&["mkfs.xfs"]) {
        return;
    }
    let disk = disk();
    let storage = json!({
        "disks": [{"device": NAME, "wipeTable": true, "partitions": [{"label": "small", "sizeMiB": 200}]}],
        "filesystems": [{"device": "/dev/disk/by-partlabel/small", "format": "xfs"}],
    });
    let error = staged(&disk, &storage, false).unwrap_err();
    assert!(error.contains("Filesystem must be larger than 300MB."), "{error}");
}
