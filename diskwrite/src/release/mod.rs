//! Makes a disk free: takes down what an earlier life left stacked on it, the top first.
//!
//! LVM volumes, unlocked encryption, arrays and the like come up by themselves when a system starts, and hold the disk.
//! Only idle ones are taken down; if anything is mounted, swap or open, nothing is changed at all. Devices are found in
//! sysfs by number: `sda` never matches `sdaa`. Nothing is written to disks that were not named: of what is taken down, only the
//! signatures inside devices that lie on the disk alone are erased.

mod calls;
pub(crate) mod mapper;
mod plan;
mod stack;

use crate::disk::{Disk, DiskError, Target};
use calls::{Kernel, Live};
use kernel::{Cancel, Root};
use plan::{mapped, plan as look};
use serde::{Deserialize, Serialize};
use stack::{Device, Stack};
use std::{
    fmt, fs,
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use plan::Takedown;
pub use stack::Layer;

/// Of the documents' shape.
const SCHEMA_VERSION: u32 = 1;
/// LVM and MD reassemble what is found while their parts exist: what was seen twice will keep coming back.
const ROUNDS: u32 = 4;
/// Until an array has noted on all its members that it is at rest.
const REST_LOOKS: u32 = 300;
/// Until a device that goes by itself is gone.
const GONE_LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// As `mdadm --stop`: another process may have an array open for a moment.
const STOP_TRIES: u32 = 50;
/// udev holds its lock while it looks at a disk.
const LOCK_TRIES: u32 = 50;

/// What would be done to make a disk free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasePlan {
    /// Of this document's shape.
    pub schema_version: u32,
    /// Device node, links resolved.
    pub device: PathBuf,
    /// What goes, in order.
    pub steps: Vec<Takedown>,
    /// Why nothing will be done; empty if it will.
    pub refusals: Vec<String>,
}

/// What was done to make a disk free, which it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// Of this document's shape.
    pub schema_version: u32,
    /// Device node, links resolved.
    pub device: PathBuf,
    /// What went, in order.
    pub taken_down: Vec<Takedown>,
}

/// A device that stayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailure {
    pub step: Takedown,
    pub reason: String,
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step.label(), self.reason)
    }
}

/// Why a disk is not free.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("cannot find out what is stacked on {}", device.display())]
    Look { device: PathBuf, source: io::Error },
    #[error("{} is in use, and {}: {}", device.display(), so_far(taken_down), refusals.join("; "))]
    Refused {
        device: PathBuf,
        /// What uses it; not empty.
        refusals: Vec<String>,
        /// What was taken down before the disk was used again.
        taken_down: Vec<Takedown>,
    },
    #[error("cannot take down the devices on {}: {}; {}", device.display(), join(failures), so_far(taken_down))]
    Failed {
        device: PathBuf,
        /// All steps that failed; not empty.
        failures: Vec<StepFailure>,
        taken_down: Vec<Takedown>,
    },
    /// Something reassembles it.
    #[error("the devices on {} come back as soon as they are taken down: {}", device.display(), join(steps))]
    ComesBack {
        device: PathBuf,
        /// What is there again.
        steps: Vec<Takedown>,
    },
    #[error("stopped while taking down the devices on {}; {}", device.display(), so_far(taken_down))]
    Cancelled { device: PathBuf, taken_down: Vec<Takedown> },
}

fn join<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join("; ")
}

fn so_far(taken_down: &[Takedown]) -> String {
    match taken_down {
        [] => "nothing was changed".to_owned(),
        some => format!("taken down so far: {}", some.iter().map(Takedown::label).collect::<Vec<_>>().join(", ")),
    }
}

/// Finds out what would be taken down, or why not. Changes nothing.
pub fn plan(device: &Path) -> Result<ReleasePlan, ReleaseError> {
    let Target { path: device, sysfs, refusals } = Disk::target(device)?;
    let (steps, refusals) = if refusals.is_empty() {
        let found = look(&|| Stack::read(&Root::open("/")?, &sysfs), &Live);
        let found = found.map_err(|source| ReleaseError::Look { device: device.clone(), source })?;
        (found.steps.into_iter().map(|(step, _)| step).collect(), found.refusals)
    } else {
        (Vec::new(), refusals.iter().map(DiskError::to_string).collect())
    };
    Ok(ReleasePlan { schema_version: SCHEMA_VERSION, device, steps, refusals })
}

/// Takes down all devices on a disk. Each step is tried even if others fail; an error names all that failed.
///
/// While it runs, and until the [`Hold`] it returns is dropped, udev leaves the disk alone: nothing reassembles
/// what is there before its signatures are wiped.
pub fn release(device: &Path, cancel: &Cancel) -> Result<(Released, Hold), ReleaseError> {
    let Target { path: device, sysfs, refusals } = Disk::target(device)?;
    if let Some(refusal) = refusals.into_iter().next() {
        return Err(refusal.into());
    }
    let hold = Hold::new(&device);
    let taken_down = take_down(&device, &|| Stack::read(&Root::open("/")?, &sysfs), &Live, cancel)?;
    Ok((Released { schema_version: SCHEMA_VERSION, device, taken_down }, hold))
}

/// A lock on the disk that makes udev leave it alone (systemd's "Locking Block Device Access"). Gone when dropped.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "holds the lock")] Option<File>);

impl Hold {
    /// Without it a conflict is unlikely.
    fn new(device: &Path) -> Self {
        let Ok(file) = OpenOptions::new().read(true).open(device) else { return Self(None) };
        for _ in 0..LOCK_TRIES {
            if file.try_lock().is_ok() {
                return Self(Some(file));
            }
            std::thread::sleep(PAUSE);
        }
        tracing::debug!(device = %device.display(), "another program has locked the disk; continuing without the lock");
        Self(None)
    }
}

/// In rounds, until nothing is left.
fn take_down(
    device: &Path,
    read: &dyn Fn() -> io::Result<Stack>,
    kernel: &dyn Kernel,
    cancel: &Cancel,
) -> Result<Vec<Takedown>, ReleaseError> {
    let device = || device.to_owned();
    let mut taken_down = Vec::new();
    for _ in 0..ROUNDS {
        let plan = look(read, kernel).map_err(|source| ReleaseError::Look { device: device(), source })?;
        if !plan.refusals.is_empty() {
            return Err(ReleaseError::Refused { device: device(), refusals: plan.refusals, taken_down });
        }
        if plan.steps.is_empty() {
            return Ok(taken_down);
        }
        let mut failures = cut_off(&plan.steps, kernel);
        if !failures.is_empty() {
            return Err(ReleaseError::Failed { device: device(), failures, taken_down });
        }
        let mut stayed = Vec::new();
        for (step, layer) in plan.steps {
            if cancel.is_cancelled() {
                return Err(ReleaseError::Cancelled { device: device(), taken_down });
            }
            let result = match blocker(&layer, &stayed) {
                Some(above) => Err(io::Error::other(format!("not tried, as {above} is still on it"))),
                None => {
                    // Made anew with the same parameters, it would show the same again.
                    if layer.elsewhere.is_empty()
                        && let Err(error) = kernel.forget_contents(&layer.node.name, layer.node.number)
                    {
                        tracing::debug!(device = step.device, %error, "what is in it is not erased");
                    }
                    carry_out(&layer, kernel, cancel)
                }
            };
            match result {
                Ok(()) => {
                    tracing::info!(device = step.device, name = step.name, layer = %step.layer, "taken down");
                    taken_down.push(step);
                }
                Err(error) => {
                    let erased = if layer.elsewhere.is_empty() { "; the signatures in it are erased" } else { "" };
                    failures.push(StepFailure { step, reason: format!("{error}{erased}") });
                    stayed.push(layer);
                }
            }
        }
        if !failures.is_empty() {
            return Err(ReleaseError::Failed { device: device(), failures, taken_down });
        }
    }
    let steps = look(read, kernel).map(|plan| plan.steps).unwrap_or_default();
    match steps.is_empty() {
        true => Ok(taken_down),
        false => {
            Err(ReleaseError::ComesBack { device: device(), steps: steps.into_iter().map(|(step, _)| step).collect() })
        }
    }
}

/// Thin pools, caches and the like write a last time when they are taken down. Where that would reach other disks, what they lie on
/// is made to fail before: the lowest devices of the device mapper, which pass on what others write.
fn cut_off(steps: &[(Takedown, Device)], kernel: &dyn Kernel) -> Vec<StepFailure> {
    let is_step = |number| steps.iter().any(|(_, layer)| layer.node.number == number && mapped(layer).is_some());
    let mut failures = Vec::new();
    for (step, layer) in steps {
        let is_lowest = !layer.slaves.iter().any(|number| is_step(*number));
        let Some(mapped) = mapped(layer).filter(|_| is_lowest) else { continue };
        if layer.elsewhere.is_empty() || layer.holders.is_empty() {
            continue;
        }
        let sectors = fs::read_to_string(layer.node.dir.join("size")).unwrap_or_default();
        let sectors = sectors.trim().parse::<u64>().map_err(io::Error::other);
        match sectors.and_then(|sectors| kernel.cut(&mapped, sectors)) {
            Ok(true) => tracing::info!(device = step.device, name = step.name, "cut off from other disks"),
            Ok(false) => tracing::debug!(device = step.device, name = step.name, "cannot be cut off from other disks"),
            Err(error) => {
                let reason = format!("cannot be cut off from {}: {error}", layer.elsewhere.join(", "));
                failures.push(StepFailure { step: step.clone(), reason });
            }
        }
    }
    failures
}

/// Which of the remaining devices lies on this one, or on a partition of it.
fn blocker(layer: &Device, stayed: &[Device]) -> Option<String> {
    let lies_here = |above: &&Device| {
        let from_partition = || {
            fs::read_dir(above.node.dir.join("slaves")).is_ok_and(|slaves| {
                slaves.flatten().any(|slave| {
                    fs::canonicalize(slave.path()).is_ok_and(|slave| slave.parent() == Some(&*layer.node.dir))
                })
            })
        };
        above.slaves.contains(&layer.node.number) || from_partition()
    };
    stayed.iter().find(lies_here).map(Device::label)
}

fn carry_out(layer: &Device, kernel: &dyn Kernel, cancel: &Cancel) -> io::Result<()> {
    let dir = &layer.node.dir;
    if let Some(mapped) = mapped(layer) {
        return kernel.remove(&mapped);
    }
    match layer.layer {
        Some(Layer::Raid) => stop_array(layer, kernel, cancel),
        Some(Layer::Bcache) => {
            kernel.write(&dir.join("bcache/stop"), "1")?;
            wait_until(GONE_LOOKS, kernel, cancel, || !dir.join("dev").exists())
                .then_some(())
                .ok_or_else(|| io::Error::other("it still exists after it was stopped"))
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

/// Stops an array: `clear` does what the ioctl `STOP_ARRAY` does (kernel's Documentation/admin-guide/md.rst).
///
/// Stopping marks an array that is not at rest as such, on all its members. Where some of them are other disks, the kernel is given
/// the time to do that by itself, and then writes nothing more.
fn stop_array(layer: &Device, kernel: &dyn Kernel, cancel: &Cancel) -> io::Result<()> {
    let file = layer.node.dir.join("md/array_state");
    let state = || fs::read_to_string(&file).unwrap_or_default().trim().to_owned();
    let at_rest = || matches!(&*state(), "clear" | "inactive" | "readonly" | "read-auto" | "clean" | "broken" | "");
    if !layer.elsewhere.is_empty() && !wait_until(REST_LOOKS, kernel, cancel, at_rest) {
        return Err(io::Error::other(format!(
            "it has been '{}' for a long time, and stopping it now would write to {}",
            state(),
            layer.elsewhere.join(", ")
        )));
    }
    let mut tries = STOP_TRIES;
    loop {
        match kernel.write(&file, "clear") {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries > 0 => tries -= 1,
            // Gone meanwhile.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => return Ok(()),
            result => return result,
        }
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        kernel.pause(PAUSE);
    }
}

/// Whether it becomes true soon.
fn wait_until(looks: u32, kernel: &dyn Kernel, cancel: &Cancel, mut is_so: impl FnMut() -> bool) -> bool {
    for _ in 0..looks {
        if is_so() {
            return true;
        }
        if cancel.is_cancelled() {
            return false;
        }
        kernel.pause(PAUSE);
    }
    is_so()
}

/// Reads what the device mapper answered.
#[cfg(fuzzing)]
pub(crate) fn fuzz(answer: &[u8]) {
    let _ = mapper::status(answer);
    let _ = mapper::dependencies(answer);
}

#[cfg(test)]
mod tests;
