//! An image that lies on the very disk it should be written to, and not in a file there: reading it would give what was just
//! written.

use crate::disk::DiskError;
use crate::options::Source;
use kernel::DevNumber;
use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// The file that is open as standard input.
const STDIN: &str = "/proc/self/fd/0";

/// Refuses an image that is the disk itself or one of its partitions.
pub(crate) fn check(source: &Source, disk: &Path) -> Result<(), DiskError> {
    let path = match source {
        Source::File(path) => path.as_path(),
        Source::Stdin => Path::new(STDIN),
        Source::Url(_) | Source::Osmet(_) => return Ok(()),
    };
    match (sysfs_of(path), sysfs_of(disk)) {
        (Ok(image), Ok(target)) if image.starts_with(&target) => {
            Err(DiskError::OwnImage { path: disk.to_owned(), image: source.to_string() })
        }
        // If it is not a block device, or can't be looked at, other checks decide.
        _ => Ok(()),
    }
}

/// The directory of a block device; those of partitions are in their disk's.
fn sysfs_of(path: &Path) -> io::Result<PathBuf> {
    let meta = fs::metadata(path)?;
    if !meta.file_type().is_block_device() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    fs::canonicalize(format!("/sys/dev/block/{}", DevNumber::from_raw(meta.rdev())))
}
