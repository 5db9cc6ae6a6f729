//! The measurement beside fio's on the same device in the same run. Run with `--nocapture` for the figures.
#![allow(clippy::unwrap_used)]

use diskwrite::{
    DiskError,
    speed::{Contents, SpeedError, SpeedOptions, measure},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};
use testkit::disk::{LoopDisk, MIB, skipped};

/// Runs of each, in turn; and how many are made at most until the figures are alike.
const RUNS: usize = 3;
const MOST_RUNS: usize = 25;
const SIZE: u64 = 4 * MIB;
/// The figures may differ by so much: the machine has other things to do, and not the same in every run.
const FACTOR: u64 = 3;

/// Noise, so that what was not put back is seen, wherever it is.
fn noise(bytes: u64) -> Vec<u8> {
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..bytes).map(next).collect()
}

fn sum(disk: &LoopDisk) -> Vec<u8> {
    Sha256::digest(disk.read(0, disk.size())).to_vec()
}

fn fio(device: &Path) -> Child {
    let arguments =
        ["--name=test", "--rw=write", "--ioengine=sync", "-bs=2300", "--fdatasync=1", "--output-format=json"];
    let mut command = Command::new("fio");
    command.args(arguments).arg(format!("--size={SIZE}")).arg("--filename").arg(device);
    command.stdout(Stdio::piped()).spawn().expect("fio is missing")
}

/// 99th percentile in nanoseconds of the slower of two fio at once, as the service's agent has it, and flushes of each.
fn fio_p99_ns(device: &Path) -> (u64, u64) {
    let runs = [fio(device), fio(device)];
    let results = runs.map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let latency = &report["jobs"][0]["sync"]["lat_ns"];
        (latency["percentile"]["99.000000"].as_u64().unwrap(), latency["N"].as_u64().unwrap())
    });
    results.into_iter().max().unwrap()
}

#[test]
fn the_figure_is_the_one_fio_gives() {
    if skipped() {
        return;
    }
    let (disk, content) = (LoopDisk::new(32 * MIB, 512, false), noise(32 * MIB));
    disk.write(0, &content);
    let before = sum(&disk);
    let options = SpeedOptions { size_bytes: SIZE, ..SpeedOptions::new(disk.path()) };
    // Whatever else the machine does makes the slowest flushes slower: the quietest run of each is compared.
    let (mut ours, mut theirs) = (u64::MAX, u64::MAX);
    let alike = |ours: u64, theirs: u64| ours <= theirs * FACTOR && theirs <= ours * FACTOR;
    for run in 1..=MOST_RUNS {
        let speed = measure(&options, &mut |_| ()).unwrap();
        assert_eq!((speed.writers.len(), speed.contents), (2, Contents::Restored));
        assert_eq!(sum(&disk), before, "the contents are not what they were");
        let p99 = speed.writers.iter().map(|writer| writer.p99_ns).max().unwrap();
        let (fio_p99, flushes) = fio_p99_ns(&disk.path());
        assert!(speed.writers.iter().all(|writer| writer.writes == flushes), "{flushes}: {speed:?}");
        println!(
            "p99 of fdatasync: ours {} us, fio's {} us, {flushes} flushes by each writer",
            p99 / 1000,
            fio_p99 / 1000
        );
        (ours, theirs) = (ours.min(p99), theirs.min(fio_p99));
        // fio puts nothing back.
        assert_ne!(sum(&disk), before);
        disk.write(0, &content);
        if run >= RUNS && alike(ours, theirs) {
            return;
        }
    }
    panic!("ours {ours} ns, fio's {theirs} ns, of {MOST_RUNS} runs");
}

#[test]
fn disks_that_are_claimed_or_too_small_are_left_alone() {
    if skipped() {
        return;
    }
    let content = noise(8 * MIB);
    for sector in [512, 4096] {
        let disk = LoopDisk::new(8 * MIB, sector, false);
        disk.write(0, &content);
        let fails = |size_bytes| {
            let options = SpeedOptions { size_bytes, ..SpeedOptions::new(disk.path()) };
            measure(&options, &mut |_| ()).unwrap_err()
        };
        let error = fails(22 * MIB);
        assert!(matches!(error, SpeedError::TooSmall { size_bytes, .. } if size_bytes == 8 * MIB), "{error}");
        let claim = File::options().read(true).custom_flags(libc::O_EXCL).open(disk.path()).unwrap();
        let error = fails(MIB);
        assert!(matches!(error, SpeedError::Disk(DiskError::Claimed { .. })), "{error}");
        drop(claim);
        assert!(disk.read(0, 8 * MIB) == content);
        // To the very end, with a length that is no whole number of sectors.
        let options =
            SpeedOptions { size_bytes: 8 * MIB, block_bytes: 65_521, writers: 3, ..SpeedOptions::new(disk.path()) };
        let speed = measure(&options, &mut |_| ()).unwrap();
        assert_eq!((speed.writers.len(), speed.writers[0].writes), (3, 128));
        assert!(disk.read(0, 8 * MIB) == content);
    }
}
