//! Room on the disk: what is left must let the store grow.

use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};

/// The file system is as full as it may get.
#[derive(Debug, thiserror::Error)]
#[error("the service has {free} bytes left on its disk and keeps {needed}")]
pub struct NoRoom {
    /// A directory on it.
    pub(crate) path: PathBuf,
    /// Bytes that are free.
    pub(crate) free: u64,
    /// Bytes that stay free.
    pub(crate) needed: u64,
}

/// Refuses to write where less than `needed` bytes are free. Where that can't be known, writing shows it.
pub(crate) fn check(directory: &Path, needed: u64) -> Result<(), NoRoom> {
    let Some(free) =
        statvfs(directory).ok().map(|status| status.blocks_available().saturating_mul(status.fragment_size()))
    else {
        return Ok(());
    };
    if free >= needed {
        return Ok(());
    }
    tracing::error!(free, needed, directory = %directory.display(), "nothing is written: the file system is full");
    Err(NoRoom { path: directory.into(), free, needed })
}
