//! What is done to the disk that was written, before the machine starts from it.

mod copy;
mod machine_config;
mod registry;
mod retry;
mod skip_reboot;
mod space;

pub(crate) use machine_config::{MachineConfig, MachineConfigError};
pub(crate) use registry::copy_registry_data;
pub(crate) use skip_reboot::skip_mco_reboot;

use crate::programs::ProgramError;
use diskwrite::WrittenError;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Numbers of the partitions that every CoreOS image has (docs/compatibility.md#disk-layout).
const BOOT: u32 = 3;
const ROOT: u32 = 4;

/// How long things take; tests make it short.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between attempts of a step.
    pub retry: Duration,
    /// Between looks at the machine-config server.
    pub poll: Duration,
    /// How long that may take to answer.
    pub patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { retry: seconds(5), poll: seconds(5), patience: seconds(20 * 60) }
    }
}

/// Why the disk was not changed, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    MachineConfig(#[from] MachineConfigError),
    #[error(transparent)]
    Disk(#[from] WrittenError),
    /// No CoreOS.
    #[error("{} has no partition {number}, which every CoreOS image has", device.display())]
    NoPartition { device: PathBuf, number: u32 },
    /// The words are those that people look for (docs/compatibility.md#registry-data).
    #[error("device {} is not large enough to fit the registry data ({bytes} bytes)", device.display())]
    TooSmall {
        device: PathBuf,
        /// Size of the data.
        bytes: u64,
    },
    /// One of the host's programs.
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("cannot {action} {}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// SIGINT or SIGTERM.
    #[error("cancelled by a signal")]
    Cancelled,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TargetError {
    let path = path.to_owned();
    move |source| TargetError::File { action, path, source }
}

#[cfg(test)]
mod tests;
