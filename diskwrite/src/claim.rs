//! A disk that another crate writes to: checked and claimed as one that is installed to.

use crate::disk::{Disk, DiskError, Geometry};
use std::{fs::File, path::Path};

/// An open disk that has no other user, as long as it is held.
#[derive(Debug)]
pub struct ClaimedDisk(Disk);

impl ClaimedDisk {
    /// Opens it for writing. Disks in use, partitions, and the medium this system was booted from are refused.
    pub fn open(given: &Path) -> Result<Self, DiskError> {
        let disk = Disk::open(given)?;
        // udev must not look at what is there meanwhile.
        if let Err(error) = disk.file().try_lock() {
            tracing::debug!(%error, "another program has locked the disk; continuing without the lock");
        }
        Ok(Self(disk))
    }

    /// Its path, size and sectors.
    pub fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    /// The file to write to, after making sure that it still is the disk that was opened.
    pub fn file(&self) -> Result<&File, DiskError> {
        self.0.check_unchanged()?;
        Ok(self.0.file())
    }
}
