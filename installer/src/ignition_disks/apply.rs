//! Does what is planned, step by step.

use super::content::{Decision, decide, luks_format, luks_open, mkfs, program};
use super::names::Device;
use super::plan::{Devices, KnownDisk, Step, Work, mdadm};
use crate::programs::{Program, run};
use anyhow::Context;
use diskwrite::{
    probe::{Signature, Span, probe_part},
    repartition::{self, RepartitionError},
};
use ignition::{
    apply::Action,
    fetch::{Fetcher, Location},
    model::{Filesystem, Luks, Raid},
};
use kernel::{Cancel, DevNumber};
use serde_json::Value;
use std::{
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::NamedTempFile;

/// Where programs for disks are, whatever PATH says.
const SYSTEM_PATHS: &str = "/usr/sbin:/sbin:/usr/bin:/bin";
/// In memory on any system with systemd.
const RUN_DIR: &str = "/run";
/// Exists while udev runs.
const UDEV: &str = "/run/udev/control";
/// How long the node of a new device may take.
const NODE_TRIES: u32 = 100;
const NODE_PAUSE: Duration = Duration::from_millis(100);

struct Stage<'a> {
    disks: &'a [KnownDisk<'a>],
    devices: &'a Devices<'a>,
    path: String,
    cancel: Cancel,
}

/// Returns the identifiers of encrypted devices.
pub(super) fn apply(
    steps: &[Step<'_>],
    disks: &[KnownDisk<'_>],
    devices: &Devices<'_>,
    fetcher: &Fetcher,
) -> anyhow::Result<Vec<String>> {
    let path = env::var("PATH").map_or_else(|_| SYSTEM_PATHS.to_owned(), |path| format!("{path}:{SYSTEM_PATHS}"));
    for step in steps {
        let Some(program) = step.program else { continue };
        let is_there = env::split_paths(&path).any(|dir| dir.join(program.path()).is_file());
        anyhow::ensure!(is_there, "{} needs the program {}, which is not installed", first(step), program.path());
    }
    // All that can fail without a write, first.
    let is_waiting = |step: &Step<'_>| !matches!(step.work, Work::Nothing | Work::Table(_));
    let is_mapped = |step: &Step<'_>| match step.work {
        Work::Table(place) => disks.get(place).is_some_and(|disk| repartition::is_mapped(&disk.table.disk)),
        _ => false,
    };
    if let Some(step) = steps.iter().find(|step| is_mapped(step)).filter(|_| steps.iter().any(is_waiting)) {
        anyhow::ensure!(
            Path::new(UDEV).exists(),
            "{}: only udev makes the partitions of a multipath device, and it does not run here; nothing was written",
            first(step)
        );
    }
    let mut keys = Vec::new();
    for step in steps {
        if let Work::Volume(luks, _) = step.work {
            keys.push(key(luks, fetcher).with_context(|| format!("{}: its key", first(step)))?);
        }
    }
    let mut keys = keys.iter();
    let stage = Stage { disks, devices, path, cancel: Cancel::default() };
    stage.cancel.on_signals().context("cannot wait for signals")?;
    let mut volumes = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        if stage.cancel.is_cancelled() {
            anyhow::bail!("stopped by a signal; {}", state(steps, number));
        }
        let mut done_steps = number;
        let done = match step.work {
            Work::Nothing => Ok(()),
            Work::Table(disk) => stage.table(disk).inspect_err(|error| {
                // The table is written; what fails then is the kernel's knowledge of it.
                done_steps += usize::from(error.downcast_ref().is_some_and(RepartitionError::is_after_write));
            }),
            Work::Array(raid) => stage.array(raid),
            Work::Volume(luks, decision) => {
                let key = keys.next().map(NamedTempFile::path).unwrap_or(Path::new(""));
                stage.volume(luks, decision, key).map(|uuid| volumes.push(uuid))
            }
            Work::FileSystem(file_system) => stage.file_system(file_system),
        };
        done.with_context(|| format!("{} failed; {}", first(step), state(steps, done_steps)))?;
    }
    Ok(volumes)
}

fn first(step: &Step<'_>) -> String {
    step.actions.first().map_or_else(|| "a step".to_owned(), shown)
}

fn shown(action: &Action) -> String {
    format!("{}: {} {}", action.at, action.what, action.to)
}

/// What is on the disks, if this step is not done.
fn state(steps: &[Step<'_>], number: usize) -> String {
    let list = |steps: &[Step<'_>]| {
        let written = steps.iter().filter(|step| !matches!(step.work, Work::Nothing));
        written.flat_map(|step| &step.actions).map(shown).collect::<Vec<_>>().join(", ")
    };
    let (done, left) = steps.split_at(number);
    let done = list(done);
    let done = if done.is_empty() { "no step was finished before".to_owned() } else { format!("done: {done}") };
    match list(left) {
        left if left.is_empty() => done,
        left => format!("{done}; not done: {left}"),
    }
}

/// The key in a file that only this user reads, in memory where there is a directory for that.
fn key(luks: &Luks<'_>, fetcher: &Fetcher) -> anyhow::Result<NamedTempFile> {
    let bytes = fetcher.fetch(&Location::from(&luks.key_file))?;
    let mut file = NamedTempFile::new_in(RUN_DIR).or_else(|_| NamedTempFile::new())?;
    file.write_all(&bytes)?;
    Ok(file)
}

impl Stage<'_> {
    fn run(&self, program: Program, words: &[String]) -> anyhow::Result<String> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        Ok(run(program, &words, &[("PATH".to_owned(), self.path.clone())], &self.cancel)?)
    }

    fn table(&self, disk: usize) -> anyhow::Result<()> {
        let disk = self.disks.get(disk).context("a disk is missing in the plan")?;
        repartition::apply(&disk.table)?;
        // What needs a partition of a multipath device waits for it.
        if repartition::is_mapped(&disk.table.disk) {
            return Ok(());
        }
        for partition in &disk.table.partitions {
            repartition::node(&disk.table.disk, partition)?;
        }
        Ok(())
    }

    /// The node of a device that exists by now.
    fn node(&self, name: &str) -> anyhow::Result<PathBuf> {
        let device = self.devices.find(name)?;
        if let Some((disk, partition)) = self.devices.on_disk(device) {
            return Ok(match partition {
                Some(partition) => repartition::node(&disk.table.disk, partition)?,
                None => disk.table.disk.path.clone(),
            });
        }
        let (path, prefix) = match device {
            Device::Volume(_) => {
                (Path::new("/dev/mapper").join(Path::new(name).file_name().unwrap_or_default()), "dm-")
            }
            _ => (name.into(), "md"),
        };
        self.await_node(&path)?;
        // Whatever the name was made to stand for.
        let number = DevNumber::of_block_device(&path).context("it is not a block device")?;
        let kernel = fs::canonicalize(format!("/sys/dev/block/{number}"))?;
        let is_stacked = kernel.file_name().is_some_and(|kernel| kernel.to_string_lossy().starts_with(prefix));
        anyhow::ensure!(is_stacked, "{} is another device", path.display());
        Ok(path)
    }

    fn await_node(&self, path: &Path) -> anyhow::Result<()> {
        for _ in 0..NODE_TRIES {
            if path.exists() {
                return Ok(());
            }
            if self.cancel.sleep(NODE_PAUSE) {
                break;
            }
        }
        anyhow::bail!("{} did not appear", path.display())
    }

    fn array(&self, raid: &Raid<'_>) -> anyhow::Result<()> {
        let mut members = Vec::new();
        for name in raid.devices.iter() {
            let node = self.node(name)?;
            claim(&node)?;
            members.push(node.display().to_string());
        }
        self.run(Program::Mdadm, &mdadm(raid, &members))?;
        let name = if raid.name.starts_with("/dev") { raid.name.to_string() } else { format!("/dev/md/{}", raid.name) };
        self.await_node(Path::new(&name))
    }

    fn volume(&self, luks: &Luks<'_>, decision: Decision, key: &Path) -> anyhow::Result<String> {
        let node = self.node(luks.device.as_deref().unwrap_or_default())?;
        let file = claim(&node)?;
        let found = signatures(&file)?;
        let (device, key) = (node.display().to_string(), key.display().to_string());
        // On a new array, what is there shows only now.
        let decision = if decision == Decision::Make { super::content::decide_volume(luks, &found)? } else { decision };
        match decision {
            Decision::Make => {
                erase(&file)?;
                drop(file);
                self.run(Program::Cryptsetup, &luks_format(luks, &key, &device))?;
            }
            Decision::Keep => {
                drop(file);
                let dump = ["luksDump", "--dump-json-metadata", &device].map(str::to_owned);
                let dump = self.run(Program::Cryptsetup, &dump)?;
                let found = allows_discards(&dump);
                let wanted = luks.discard == Some(true);
                anyhow::ensure!(
                    found == wanted,
                    "volume allow-discards flag {found} doesn't match expected value {wanted}"
                );
            }
        }
        self.run(Program::Cryptsetup, &luks_open(luks, &key, &device))?;
        let file = File::open(&node).with_context(|| format!("cannot open {device}"))?;
        let uuid = signatures(&file)?.into_iter().next().and_then(|found| found.uuid);
        self.await_node(&Path::new("/dev/mapper").join(&*luks.name))?;
        uuid.with_context(|| format!("{device} has no UUID"))
    }

    fn file_system(&self, file_system: &Filesystem<'_>) -> anyhow::Result<()> {
        let node = self.node(&file_system.device)?;
        let file = claim(&node)?;
        if decide(file_system, &signatures(&file)?)? == Decision::Keep {
            return Ok(());
        }
        erase(&file)?;
        // The program claims the device itself.
        drop(file);
        let Some(program) = program(file_system) else { return Ok(()) };
        let mut words = mkfs(file_system);
        words.push(node.display().to_string());
        self.run(program, &words)?;
        Ok(())
    }
}

/// Opens a device that has no other user.
fn claim(node: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(node);
    opened.map_err(|error| {
        let is_busy = error.raw_os_error() == Some(libc::EBUSY);
        let why = if is_busy { " is in use" } else { " can't be opened" };
        anyhow::Error::new(error).context(format!("{}{why}", node.display()))
    })
}

fn signatures(device: &File) -> anyhow::Result<Vec<Signature>> {
    let (len, sector_bytes) = (kernel::disk::size_bytes(device)?, kernel::disk::sector_bytes(device)?);
    Ok(probe_part(device, Span { offset: 0, len }, sector_bytes))
}

fn erase(device: &File) -> anyhow::Result<()> {
    let (len, sector_bytes) = (kernel::disk::size_bytes(device)?, kernel::disk::sector_bytes(device)?);
    repartition::erase(device, len, sector_bytes).context("cannot wipe its signatures")
}

fn allows_discards(dump: &str) -> bool {
    let metadata: Value = serde_json::from_str(dump).unwrap_or_default();
    let flags = metadata.pointer("/config/flags").and_then(Value::as_array);
    flags.is_some_and(|flags| flags.iter().any(|flag| flag == "allow-discards"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_are_allowed_by_a_flag() {
        assert!(allows_discards(r#"{"config":{"flags":["x","allow-discards"]}}"#));
        assert!(!allows_discards(r#"{"config":{}}"#) && !allows_discards("no JSON"));
    }
}
