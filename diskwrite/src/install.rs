//! The installation from first check to last flush.

use crate::disk::{Disk, DiskError};
use crate::event::Event;
use crate::options::InstallOptions;
use std::{fmt, io, path::PathBuf};

/// What an installation came to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Installed {
    /// The disk, links resolved.
    pub device: PathBuf,
    /// Bytes of the unpacked image.
    pub written_bytes: u64,
    /// Bytes taken from the source.
    pub source_bytes: u64,
}

/// What a failed installation left on the disk.
#[derive(Debug)]
pub enum DiskState {
    /// What was there before.
    Untouched,
    /// First and last MiB are zero: nothing boots from it.
    Cleared,
    /// Whatever had been written, as asked for.
    Kept,
    /// Clearing failed too: it may hold half an image that looks bootable.
    NotCleared(io::Error),
}

impl fmt::Display for DiskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untouched => f.write_str("nothing was written"),
            Self::Cleared => f.write_str("its partition table was cleared"),
            Self::Kept => f.write_str("what was written is kept as asked"),
            Self::NotCleared(error) => {
                write!(f, "its partition table could not be cleared ({error}): wipe it before the machine boots")
            }
        }
    }
}

/// A failed installation.
#[derive(Debug, thiserror::Error)]
#[error("cannot install to {} ({disk})", device.display())]
pub struct InstallError {
    /// The disk, as asked for.
    pub device: PathBuf,
    /// What is on it now.
    pub disk: DiskState,
    /// What failed.
    #[source]
    pub cause: Failure,
}

/// What failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The target is no disk, or not a free one.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The caller asked to stop.
    #[error("cancelled after {written_bytes} bytes were written")]
    Cancelled {
        /// Bytes of the image on the disk by then.
        written_bytes: u64,
    },
}

/// Writes an image to a disk and prepares its first boot.
pub fn install(options: &InstallOptions, _on_event: &mut dyn FnMut(Event)) -> Result<Installed, InstallError> {
    let fail = |cause| InstallError { device: options.device.clone(), disk: DiskState::Untouched, cause };
    Disk::open(&options.device).map_err(|error| fail(error.into()))?;
    Err(fail(Failure::Cancelled { written_bytes: 0 }))
}
