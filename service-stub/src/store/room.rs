//! Free space on the disk: enough must remain for the store to grow.

use kernel::units::beside;
use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};

/// The file system is too full to write.
#[derive(Debug, thiserror::Error)]
#[error("the service's disk has {} free, less than the reserve of {}", beside(*free, *needed), beside(*needed, *free))]
pub struct NoRoom {
    /// A directory on it.
    pub(crate) path: PathBuf,
    /// Bytes that are free.
    pub(crate) free: u64,
    /// Bytes that stay free.
    pub(crate) needed: u64,
}

/// Refuses to write if less than `needed` bytes are free. If that is unknown, the write itself will show it.
pub(crate) fn check(directory: &Path, needed: u64) -> Result<(), NoRoom> {
    let Some(free) =
        statvfs(directory).ok().map(|status| status.blocks_available().saturating_mul(status.fragment_size()))
    else {
        return Ok(());
    };
    if free >= needed {
        return Ok(());
    }
    tracing::error!(free, needed, directory = %directory.display(), "the file system is full: refusing to write");
    Err(NoRoom { path: directory.into(), free, needed })
}
