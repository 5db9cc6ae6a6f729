//! Boots copies of disks, beside the machine that installs.

use crate::crash::medium::State;
use qemu_tests::{
    paths,
    vm::{Bus, Disk, Vm, with_path},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

/// Ten times what a boot takes under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
/// For a disk with a boot sector that does nothing: five times what a boot loader needs to find that there is nothing.
const SILENCE: Duration = Duration::from_secs(6);
const POLL: Duration = Duration::from_millis(50);

/// What a system says of itself when it boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    pub name: &'static str,
    /// SHA-256 of its config.
    pub config: String,
}

/// A disk to boot.
pub(crate) struct Copy {
    pub path: PathBuf,
    pub state: State,
    /// Which system is on it, if any.
    pub installed: Installed,
}

/// An interruption that is over, and what the disk was after it and after the second installation.
pub(crate) struct Job {
    pub line: String,
    pub interrupted: Option<Copy>,
    pub completed: Option<Copy>,
    pub problems: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Totals {
    pub moments: usize,
    pub could_not_half_boot: usize,
    pub second_installations: usize,
    pub booted: usize,
    pub problems: Vec<String>,
}

/// Boots and tells, in its own thread.
pub(crate) struct Checker {
    jobs: SyncSender<Job>,
    thread: JoinHandle<Totals>,
}

impl Checker {
    /// Numbers what it takes from there.
    pub(crate) fn start(from: usize) -> Self {
        // Copies that wait take space.
        let (jobs, received) = sync_channel(2);
        Self { jobs, thread: thread::spawn(move || work(&received, from)) }
    }

    pub(crate) fn take(&self, job: Job) {
        self.jobs.send(job).expect("the checker is there");
    }

    /// All that was taken, checked.
    pub(crate) fn finish(self) -> Totals {
        drop(self.jobs);
        self.thread.join().unwrap()
    }
}

fn work(jobs: &Receiver<Job>, from: usize) -> Totals {
    let mut totals = Totals::default();
    for (number, mut job) in (from..).zip(jobs) {
        totals.moments += 1;
        let boots = [job.interrupted.take(), job.completed.take()].map(|copy| {
            copy.map(|copy| {
                let booted = boot(&copy);
                if let Err(problem) = &booted {
                    job.problems.push(problem.clone());
                    keep(&copy.path, number);
                }
                let _ = fs::remove_file(&copy.path);
                booted
            })
        });
        let [interrupted, completed] = boots.map(|boot| boot.and_then(Result::ok));
        totals.could_not_half_boot += usize::from(interrupted.is_some());
        totals.second_installations += usize::from(job.problems.is_empty() || completed.is_some());
        totals.booted += usize::from(completed.is_some());
        let [then, at_last] = [interrupted, completed].map(|said| said.unwrap_or_else(|| "NO".into()));
        println!("{number:>3}  {} | then {then} | second: {at_last}", job.line);
        for problem in &job.problems {
            println!("     WRONG: {problem}");
            totals.problems.push(format!("moment {number}, {}: {problem}", job.line));
        }
    }
    totals
}

/// For people to look at.
fn keep(disk: &Path, moment: usize) {
    let copy = paths::log_dir("crash").unwrap().join(format!("moment-{moment}.raw"));
    if fs::copy(disk, &copy).is_ok() {
        println!("     the disk is stored in {}", copy.display());
    }
}

/// What came of starting from a copy; an error where that is not what its state promises.
fn boot(copy: &Copy) -> Result<String, String> {
    let began = Instant::now();
    let firmware = copy.path.with_extension("firmware");
    let disk =
        Disk { path: copy.path.clone(), size_bytes: 0, serial: "CHECKED".into(), sector_bytes: 512, bus: Bus::Virtio };
    // SeaBIOS writes its log to this port.
    let mut vm = Vm::builder("crash", "check")
        .memory_mib(256)
        .disk(disk)
        .with("-chardev", with_path("file,id=firmware,path=", &firmware, ""))
        .with("-device", "isa-debugcon,iobase=0x402,chardev=firmware")
        .reboot(false)
        .start()
        .map_err(|error| error.to_string())?;
    let expected = format!("system name={} config={}", copy.installed.name, copy.installed.config);
    let must_boot = matches!(copy.state, State::Untouched | State::Complete);
    let said = |vm: &Vm| vm.markers().first().map(|marker| marker.text.clone());
    let nothing = |firmware: &str, since: Option<Instant>| {
        firmware.contains("No bootable device") || since.is_some_and(|since| since.elapsed() > SILENCE)
    };
    let mut sector_started = None;
    loop {
        let text = fs::read_to_string(&firmware).unwrap_or_default();
        if sector_started.is_none() && text.contains("Booting from 0000:7c00") {
            sector_started = Some(Instant::now());
        }
        let seconds = began.elapsed().as_secs_f64();
        match said(&vm) {
            Some(said) if said == expected && (must_boot || copy.state == State::NoWayIn) => {
                return Ok(format!("{} booted in {seconds:.1} s", copy.installed.name));
            }
            Some(said) => return Err(format!("booted a disk that was {:?} and said: {said}", copy.state)),
            None if !must_boot && nothing(&text, sector_started) => return Ok("nothing to boot".into()),
            None if began.elapsed() > LIMIT => {
                let _ = vm.check();
                return Err(format!("did not boot in {seconds:.0} s: {:?}; see {}", copy.state, vm.log().display()));
            }
            // A panic of the kernel, or an end without a word.
            None => {
                if let Err(error) = vm.check()
                    && said(&vm).is_none()
                {
                    return Err(format!("did not boot: {:?}: {error}", copy.state));
                }
            }
        }
        sleep(POLL);
    }
}
