//! A machine with 15,000 disks: the time grows with their number and no faster, memory stays small, and the service's limit is
//! kept.

#![allow(clippy::unwrap_used)]

use inventory::{Limits, Root, collect};
use std::{fs, process::Command, time::Instant};
use testkit::process::own_test;
use testkit::tree::Tree;

const DISKS: usize = 15_000;
/// Neither write-protected nor in use.
const ELIGIBLE: usize = DISKS / 100 * 99 - 1;
/// Set in the child process that collects, whose peak is that of the inventory alone.
const TREE: &str = "LANDFALL_TEST_TREE_OF_DISKS";
/// Peak resident memory, KiB. The inventory itself is some 20 MiB of disks; the rest is the test runner's.
const MAX_KIB: u64 = 96 << 10;

/// `sda` … `sdz`, `sdaa` …
fn name(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'a' + u8::try_from(number % 26).unwrap());
        match (number / 26).checked_sub(1) {
            Some(next) => number = next,
            None => break,
        }
    }
    letters.reverse();
    format!("sd{}", String::from_utf8(letters).unwrap())
}

/// A SAN's disks: sysfs, udev's entry of the usual length, two links each. One in a hundred is write-protected.
fn machine(disks: usize) -> Tree {
    let tree = Tree::in_memory();
    tree.add("proc/1/mountinfo", "1 2 8:1 / / rw - ext4 /dev/sda1 rw\n");
    let noise: String =
        (0..40).map(|n| format!("E:ID_SOMETHING_OF_NO_INTEREST_{n}=with a value of its own {n}\n")).collect();
    // What is the same for all disks is one file under many names.
    let common = [
        ("ro", "0\n".as_bytes()),
        ("removable", b"0\n"),
        ("queue/rotational", b"1\n"),
        ("vendor", b"PURE\n"),
        ("vpd_pg83", &[0, 0x83, 0, 4, 1, 0, 0, 0]),
    ];
    for (file, content) in common {
        tree.add(&format!("common/{file}"), content);
    }
    let same = |file: &str, to: &str| {
        fs::hard_link(tree.path().join("common").join(file), tree.path().join(to).join(file)).unwrap();
    };
    for number in 0..disks {
        let name = name(number);
        let (major, minor) = (8 + number / 256, number % 256);
        let place =
            format!("devices/pci0000:00/0000:00:02.0/host1/rport-1:0-{number}/target1:0:{number}/1:0:0:{number}");
        let dir = format!("sys/{place}/block/{name}");
        for new in ["holders", "queue"] {
            fs::create_dir_all(tree.path().join(&dir).join(new)).unwrap();
        }
        tree.add(&format!("{dir}/dev"), format!("{major}:{minor}\n"));
        tree.add(&format!("{dir}/size"), format!("{}\n", 1_000_000 + number));
        if number % 100 == 99 {
            tree.add(&format!("{dir}/ro"), "1\n");
        } else {
            same("ro", &dir);
        }
        same("removable", &dir);
        same("queue/rotational", &dir);
        same("vendor", &format!("sys/{place}"));
        same("vpd_pg83", &format!("sys/{place}"));
        fs::create_dir_all(tree.path().join(format!("sys/{place}/scsi_device/1:0:0:{number}"))).unwrap();
        tree.link(&format!("{dir}/device"), "../..");
        tree.link(&format!("sys/block/{name}"), &format!("../{place}/block/{name}"));
        let (wwn, path) = (format!("0x624a9370{number:016x}"), format!("pci-0000:00:02.0-fc-0x50-lun-{number}"));
        tree.add(
            &format!("run/udev/data/b{major}:{minor}"),
            format!("{noise}E:ID_MODEL=FlashArray\nE:ID_SERIAL=3624a{number}\nE:ID_PATH={path}\nE:ID_WWN={wwn}\n"),
        );
        tree.link(&format!("dev/disk/by-id/wwn-{wwn}"), &format!("../../{name}"));
        tree.link(&format!("dev/disk/by-path/{path}"), &format!("../../{name}"));
    }
    tree
}

/// Runs in its own process, started by the test below; by itself it does nothing.
#[test]
fn child_that_collects() {
    let Ok(tree) = std::env::var(TREE) else { return };
    let root = Root::open(tree).unwrap();
    let begun = Instant::now();
    let inventory = collect(&root);
    let elapsed = begun.elapsed();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    println!("{} disks in {} ms, VmHWM {peak}", inventory.disks.len(), elapsed.as_millis());
}

#[test]
fn fifteen_thousand_disks() {
    let tree = machine(DISKS);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &own_test(module_path!(), "child_that_collects"), "--nocapture", "--test-threads=1"])
        .env(TREE, tree.path())
        .output()
        .unwrap();
    let shown = String::from_utf8(child.stdout).unwrap();
    let line = shown.lines().find(|line| line.contains("VmHWM")).unwrap_or_else(|| panic!("{shown}"));
    println!("{line}");
    assert!(line.contains(&format!("{DISKS} disks in")), "{line}");
    let peak_kib: u64 = line.rsplit_once("VmHWM ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert!(peak_kib < MAX_KIB, "{line}");

    let whole = collect(&Root::open(tree.path()).unwrap());
    assert_eq!(whole.disks.iter().filter(|disk| disk.installation_eligibility.eligible).count(), ELIGIBLE);
    let last = whole.disks.iter().find(|disk| disk.name == name(DISKS - 1)).unwrap();
    assert_eq!((last.drive_type.as_str(), last.hctl.as_str()), ("FC", "1:0:0:14999"));
    assert_eq!(last.id, format!("/dev/disk/by-id/wwn-0x624a9370{:016x}", DISKS - 1));
    assert!(last.has_uuid && last.by_path.ends_with("-lun-14999"));

    let max = 1 << 20;
    let limits = Limits { output_max_bytes: Some(max), disk_min_bytes: None };
    let cut = limits.apply(whole.clone());
    let len = serde_json::to_vec(&cut).unwrap().len();
    assert!(len <= 1 << 20 && len > (1 << 20) - 2000, "{len}");
    let truncation = cut.truncation.unwrap();
    assert_eq!((truncation.kind.as_str(), truncation.reasons.len()), ("partial", 1));
    let dropped = ELIGIBLE - cut.disks.len();
    let reason = format!("left out {dropped} of {} eligible disks to fit {max} bytes", ELIGIBLE);
    assert_eq!(truncation.reasons, [reason]);
    assert!(cut.disks.iter().all(|disk| disk.installation_eligibility.eligible));
    assert!(cut.cpu.is_some() && cut.memory.is_some());

    // A limit on size alone is not a truncation.
    let large =
        Limits { output_max_bytes: None, disk_min_bytes: Some((1_000_000 + 14_000) * 512) }.apply(whole.clone());
    assert_eq!((large.disks.len(), large.truncation), (1000, None));
    let none = Limits { output_max_bytes: Some(200), disk_min_bytes: None }.apply(whole);
    assert_eq!((none.truncation.unwrap().kind.as_str(), none.disks.len()), ("full", 0));
}
