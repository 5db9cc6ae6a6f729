//! Whatever happens to the program, the power, the disk or the source in the middle of an installation: the disk afterwards is
//! complete, or as it was, or has no partition table. And burn-in finds a disk that fails.
#![allow(clippy::unwrap_used)]

mod medium;
mod storage;

use medium::{Random, State, judge};
use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};
use storage::Storage;
use testkit::{
    disk::{Image, LoopDisk, MIB, accept, run, skipped},
    port::Held,
};

const DISK_BYTES: u64 = 64 * MIB;
/// Interruptions of each kind.
const POINTS: usize = 200;

fn landfall() -> Command {
    let program = std::env::var_os("LANDFALL_BIN").map_or_else(|| env!("CARGO_BIN_EXE_landfall").into(), PathBuf::from);
    Command::new(program)
}

/// An image, what a machine gets on its first boot, and the words for both.
struct Job {
    image: Image,
    sector: u32,
    ignition: PathBuf,
}

impl Job {
    fn new(sector: u32) -> Self {
        let image = Image::new(sector);
        let ignition = image.dir.path().join("config.ign");
        fs::write(&ignition, r#"{"ignition":{"version":"3.3.0"}}"#).unwrap();
        Self { image, sector, ignition }
    }

    fn command(&self, source: &[&str], disk: &Path) -> Command {
        let mut command = landfall();
        command.args(["install", "--insecure", "--append-karg", "foo=bar", "--ignition-file"]);
        command.arg(&self.ignition).args(source).arg(disk).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn install(&self, source: &[&str], disk: &Path) -> Output {
        self.command(source, disk).output().unwrap()
    }

    fn must_install(&self, disk: &Path) {
        let raw = self.image.packed(None);
        let output = self.install(&["--image-file", raw.to_str().unwrap()], disk);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Complete but for the boot partition, whose journal and time stamps differ from one installation to the next: there it
    /// must be a sound file system with the config.
    fn assert_complete(&self, disk: &LoopDisk) {
        let data = &self.image.data;
        let (from, to) = (self.image.boot_start, self.image.boot_start + self.image.boot_len);
        let len = u64::try_from(data.len()).unwrap();
        let at = |offset: u64| usize::try_from(offset).unwrap();
        assert!(disk.read(0, from) == data[..at(from)], "before the boot partition");
        assert!(disk.read(to, len - to) == data[at(to)..], "after the boot partition");
        let shown = self.image.debugfs(disk, "cat ignition/config.ign");
        assert!(shown.contains("3.3.0"), "{shown}");
    }

    /// Names the state of a disk after something went wrong, and stops at any that must not be.
    fn assert_safe(&self, disk: &LoopDisk, before: &[u8]) -> State {
        let medium = disk.read(0, DISK_BYTES);
        let state = judge(&medium, before, self.sector);
        if state == State::NewTable {
            self.assert_complete(disk);
        }
        state
    }
}

fn count(states: &[State], state: State) -> usize {
    states.iter().filter(|found| **found == state).count()
}

#[test]
fn power_cut_at_any_write_leaves_a_complete_disk_or_no_table() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let job = Job::new(sector);
        let storage = Storage::recording(DISK_BYTES, sector);
        storage.write(0, &medium::with_old_system(DISK_BYTES, sector));
        let before = storage.medium();
        let from = storage.writes_so_far();
        job.must_install(storage.path());
        let (log, done) = storage.into_log(from);
        let mut random = Random::new();
        let mut states = Vec::new();
        for _ in 0..POINTS / 2 {
            let (cut, medium) = log.after_power_cut(&before, &mut random);
            let state = judge(&medium, &before, sector);
            if state == State::NewTable {
                let wrong = medium.iter().zip(&done).position(|(a, b)| a != b);
                assert_eq!(wrong, None, "cut after write {cut} of {}: a table, but not all it leads to", log.len());
            }
            states.push(state);
        }
        println!(
            "{sector}-byte sectors, {} writes: {} cuts, {} with the old system untouched, {} without a table, {} complete",
            log.len(),
            states.len(),
            count(&states, State::Untouched),
            count(&states, State::NoTable),
            count(&states, State::NewTable)
        );
        assert!(count(&states, State::NoTable) > 0);
    }
}

#[test]
fn killed_at_any_moment_it_leaves_a_complete_disk_or_no_table_and_a_second_run_completes() {
    if skipped() {
        return;
    }
    let job = Job::new(512);
    let disk = LoopDisk::new(DISK_BYTES, 512, true);
    let installed_in = || {
        let started = Instant::now();
        job.must_install(&disk.path());
        started.elapsed()
    };
    let mut whole = installed_in();
    let raw = job.image.packed(None);
    let mut random = Random::new();
    let mut states = Vec::new();
    for round in 0..POINTS {
        let before = medium::with_old_system(DISK_BYTES, 512);
        // Only the ends differ from what the last round left, and the old system in the middle from what this one did.
        disk.write(0, &before);
        let mut child = job.command(&["--image-file", raw.to_str().unwrap()], &disk.path()).spawn().unwrap();
        thread::sleep(whole.mul_f64(random.unit() * 1.1));
        let _ = child.kill();
        child.wait().unwrap();
        let state = job.assert_safe(&disk, &before);
        states.push(state);
        if round % 20 == 0 {
            // By now the machine may be slower or faster.
            whole = installed_in();
            job.assert_complete(&disk);
        }
    }
    println!(
        "{POINTS} kills within {:.0} ms: {} with the old system untouched, {} without a table, {} complete",
        whole.as_secs_f64() * 1100.0,
        count(&states, State::Untouched),
        count(&states, State::NoTable),
        count(&states, State::NewTable)
    );
    assert!(count(&states, State::NoTable) > 0);
}

#[test]
fn write_errors_leave_no_table_and_name_the_place() {
    if skipped() {
        return;
    }
    let job = Job::new(512);
    let raw = job.image.packed(None);
    // Where the table goes; in the boot file system; in the root. Zeros are no writes to this layer.
    for byte in [512, job.image.boot_start + 1024, 18 * MIB] {
        let before = medium::with_old_system(DISK_BYTES, 512);
        let storage = Storage::failing_writes_at(DISK_BYTES, byte, &before);
        let output = job.install(&["--image-file", raw.to_str().unwrap()], storage.path());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "a write error at byte {byte} went unnoticed: {text}");
        let state = judge(&storage.medium(), &before, 512);
        println!("write error at byte {byte}: {state:?}: {}", text.lines().last().unwrap_or_default());
        assert_ne!(state, State::NewTable, "{text}");
        // What can't be overwritten stays, and the message must say so.
        if matches!(state, State::Untouched | State::OldTable) {
            assert!(text.contains("wipe it before"), "{text}");
        }
    }
}

#[test]
fn burn_in_finds_what_cannot_be_read() {
    if skipped() {
        return;
    }
    // The start of a page: the loop device reads its file in pages.
    const LBA: u64 = 16 * MIB / 512 + 1000;
    let storage = Storage::failing_reads_at(DISK_BYTES, LBA * 512);
    let disk = storage.path().to_str().unwrap();
    let output =
        landfall().args(["burnin", "--only", "disk", "--for", "2s", "--json", "--disk", disk]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &found["verdict"]), (Some(3), &"faults".into()), "{found:#}");
    let fault = &found["faults"][0];
    assert_eq!((&fault["kind"], &fault["lba"]), (&"disk".into(), &LBA.into()), "{found:#}");
    // Each C library has its own words for the error.
    let message = fault["message"].as_str().unwrap();
    let starts = message.starts_with(&format!("cannot be read, up to LBA {LBA}: "));
    assert!(starts && message.ends_with("(os error 5)"), "{found:#}");
    let after = fault["found_after_seconds"].as_f64().unwrap();
    assert!(after <= found["elapsed_seconds"].as_f64().unwrap(), "{found:#}");
    println!("found after {after:.1} s: {message}");
}

#[test]
fn slow_disk_is_waited_for() {
    if skipped() {
        return;
    }
    let job = Job::new(512);
    let raw = job.image.packed(None);
    let storage = Storage::slow(DISK_BYTES, MIB);
    let started = Instant::now();
    let output = job.install(&["--stall-timeout", "5", "--image-file", raw.to_str().unwrap()], storage.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(started.elapsed() > Duration::from_secs(5), "the disk was not slow: {:?}", started.elapsed());
    println!("a disk of 1 MiB/s took {:.1} s", started.elapsed().as_secs_f64());
}

/// The image in each packing that shows damage by itself.
fn packed(image: &Image) -> Vec<(&'static str, Vec<u8>)> {
    let raw = image.packed(None);
    let blocks =
        Command::new("xz").args(["-1", "-T2", "--block-size=4MiB", "--stdout"]).arg(&raw).output().unwrap().stdout;
    let read = |tool| fs::read(image.packed(Some(tool))).unwrap();
    vec![("gzip", read("gzip")), ("zstd", read("zstd")), ("xz", read("xz")), ("xz in blocks", blocks)]
}

#[test]
fn damaged_sources_leave_no_table() {
    if skipped() {
        return;
    }
    let job = Job::new(512);
    let disk = LoopDisk::new(DISK_BYTES, 512, true);
    let path = job.image.dir.path().join("damaged");
    let source = ["--image-file", path.to_str().unwrap()];
    let before = medium::with_old_system(DISK_BYTES, 512);
    let mut formats = packed(&job.image);
    formats.push(("raw", job.image.data.clone()));
    for (name, good) in formats {
        let middle = good.len() * 3 / 5;
        let mut corrupt = good.clone();
        corrupt[middle..middle + 4096].fill(0x5A);
        let mut cases = vec![("truncated", good[..middle].to_vec())];
        if name != "raw" {
            cases.push(("cut by one byte", good[..good.len() - 1].to_vec()));
            cases.push(("corrupt in the middle", corrupt.clone()));
            cases.push(("with more after its end", [&good[..], b"more"].concat()));
        }
        for (what, data) in cases {
            disk.write(0, &before);
            fs::write(&path, data).unwrap();
            let output = job.install(&source, &disk.path());
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{name} {what}: {text}");
            let state = job.assert_safe(&disk, &before);
            assert!(matches!(state, State::NoTable | State::Untouched), "{name} {what}: {state:?}");
            println!("{name} {what}: {state:?}: {}", text.lines().last().unwrap_or_default());
        }
        // A raw image shows it only by its sum; the others by that too.
        fs::write(&path, &corrupt).unwrap();
        let sum = run("sha256sum", &[path.to_str().unwrap()]);
        fs::write(&path, &good).unwrap();
        disk.write(0, &before);
        let output = job.install(&["--sha256", &sum[..64], source[0], source[1]], &disk.path());
        assert!(!output.status.success());
        assert!(matches!(job.assert_safe(&disk, &before), State::NoTable | State::Untouched), "{name}: wrong sum");
        fs::write(&path, &good).unwrap();
        let sum = run("sha256sum", &[path.to_str().unwrap()]);
        let output = job.install(&["--sha256", &sum[..64], source[0], source[1]], &disk.path());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        job.assert_complete(&disk);
    }
}

/// A server that hangs up after half of the first answer, is away for a while, and comes back.
fn unsteady_server(data: Vec<u8>) -> (String, thread::JoinHandle<usize>) {
    let port = Held::default();
    let address = port.address();
    let listener = TcpListener::bind(address).unwrap();
    let server = thread::spawn(move || {
        // While it is away, nobody else has its port.
        let _held = port;
        let half = data.len() / 2;
        let mut requests = 0;
        let mut listener = Some(listener);
        loop {
            let open = listener.get_or_insert_with(|| TcpListener::bind(address).unwrap());
            let (mut stream, request) = accept(open);
            requests += 1;
            let end = if requests == 1 { half } else { data.len() };
            let sent = stream.write_all(&testkit::http::resumed(&request, &data, end)).is_ok();
            drop(stream);
            if requests == 1 {
                listener = None;
                thread::sleep(Duration::from_secs(2));
            } else if sent {
                return requests;
            }
        }
    });
    (format!("http://{address}/image"), server)
}

#[test]
fn source_that_goes_away_and_comes_back_is_resumed() {
    if skipped() {
        return;
    }
    let job = Job::new(512);
    let disk = LoopDisk::new(DISK_BYTES, 512, true);
    for (name, data) in packed(&job.image) {
        disk.write(0, &medium::with_old_system(DISK_BYTES, 512));
        let (url, server) = unsteady_server(data);
        let output = job.install(&["--image-url", &url], &disk.path());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(server.join().unwrap() >= 2, "{name} came in one answer");
        job.assert_complete(&disk);
    }
}

/// Feeds a child half of `data` and then nothing.
fn feed_half(child: &mut Child, data: &[u8]) -> std::process::ChildStdin {
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&data[..data.len() / 2]).unwrap();
    stdin.flush().unwrap();
    stdin
}

#[test]
fn source_that_stalls_is_told_from_a_slow_one() {
    if skipped() {
        return;
    }
    let job = Job::new(512);
    let disk = LoopDisk::new(DISK_BYTES, 512, true);
    let before = medium::with_old_system(DISK_BYTES, 512);
    disk.write(0, &before);
    let (_, data) = packed(&job.image).remove(0);
    let start = |timeout: &str| {
        let mut command = job.command(&["--stall-timeout", timeout, "--image-file", "-"], &disk.path());
        command.stdin(Stdio::piped()).spawn().unwrap()
    };
    let mut child = start("5");
    let stdin = feed_half(&mut child, &data);
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("has stalled: no data for 5 s"), "{text}");
    assert_eq!(job.assert_safe(&disk, &before), State::NoTable);
    // A byte now and then is slow, and goes on.
    let mut child = start("15");
    let mut stdin = feed_half(&mut child, &data);
    let mut rest = &data[data.len() / 2..];
    for _ in 0..6 {
        thread::sleep(Duration::from_secs(3));
        stdin.write_all(&rest[..1]).unwrap();
        rest = &rest[1..];
    }
    stdin.write_all(rest).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    job.assert_complete(&disk);
}

#[test]
fn leftovers_of_other_systems_do_not_stay_in_the_way() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let job = Job::new(sector);
        let disk = LoopDisk::new(DISK_BYTES, sector, true);
        disk.write(0, &medium::full_of_leftovers(DISK_BYTES, sector));
        job.must_install(&disk.path());
        job.assert_complete(&disk);
        // Nothing at the disk's end that a kernel or tool would take for a member of something else.
        let tail = disk.read(DISK_BYTES - MIB, MIB);
        assert!(tail.iter().all(|byte| *byte == 0), "{sector}");
        let found = run("wipefs", &["--noheadings", "--output", "TYPE", disk.path().to_str().unwrap()]);
        let mut found: Vec<_> = found.split_whitespace().collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, ["PMBR", "gpt"], "{sector}");
        // The same disk, and an image that breaks off.
        disk.write(0, &medium::full_of_leftovers(DISK_BYTES, sector));
        let path = job.image.dir.path().join("cut.gz");
        let packed = fs::read(job.image.packed(Some("gzip"))).unwrap();
        fs::write(&path, &packed[..packed.len() / 2]).unwrap();
        assert!(!job.install(&["--image-file", path.to_str().unwrap()], &disk.path()).status.success());
        disk.assert_cleared();
    }
}
