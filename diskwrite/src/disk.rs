//! The disk to write: opened exclusively, and only if it is a whole, writable disk that nobody uses.

use crate::in_use::{DevNumber, Node, Use, nodes, uses};
use crate::sys;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Why a path is not a disk to write to. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// There is nothing, or it can't be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// As given.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Something else than a block device.
    #[error("{} is not a disk but a {kind}: name a disk such as /dev/sda", path.display())]
    NotADisk {
        /// As given.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A partition.
    #[error("{} is partition {number} of {disk}: name the whole disk", path.display())]
    Partition {
        /// As given.
        path: PathBuf,
        /// Its number.
        number: u32,
        /// Kernel name of its disk.
        disk: String,
    },
    /// The kernel lets nobody write.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// Links resolved.
        path: PathBuf,
    },
    /// Somebody uses it.
    #[error("{} is in use: {}", path.display(), list(uses))]
    InUse {
        /// Links resolved.
        path: PathBuf,
        /// By whom; not empty.
        uses: Vec<Use>,
    },
    /// Somebody who can't be seen from here has claimed it, such as a mount in another namespace.
    #[error("{} is in use by a process or mount that cannot be seen from here", path.display())]
    Claimed {
        /// Links resolved.
        path: PathBuf,
    },
    /// The kernel does not tell something that must be known.
    #[error("cannot read the {what} of {}", path.display())]
    Query {
        /// Links resolved.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// Too small for what is written before the image.
    #[error("{} has {size_bytes} bytes, too few for any image", path.display())]
    TooSmall {
        /// Links resolved.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
    },
}

fn list(uses: &[Use]) -> String {
    uses.iter().map(Use::to_string).collect::<Vec<_>>().join("; ")
}

/// What is known of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Device node, links resolved.
    pub path: PathBuf,
    /// Size in bytes (`BLKGETSIZE64`).
    pub size_bytes: u64,
    /// Logical sector size in bytes (`BLKSSZGET`).
    pub sector_bytes: u32,
}

/// An open disk nobody else uses.
#[derive(Debug)]
pub(crate) struct Disk {
    geometry: Geometry,
    sysfs: PathBuf,
    number: DevNumber,
    file: File,
}

/// Less can't hold a head and a tail of one MiB.
const MIN_BYTES: u64 = 4 << 20;
/// udev may hold the lock while it looks at the disk.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

impl Disk {
    /// Opens the disk for writing, claiming it (`O_EXCL`) against mounts and the like as long as it is open.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Self::check_and_open(path, true)
    }

    /// Makes the same checks without asking for write access.
    pub fn inspect(path: &Path) -> Result<Geometry, DiskError> {
        Self::check_and_open(path, false).map(|disk| disk.geometry)
    }

    fn check_and_open(given: &Path, write: bool) -> Result<Self, DiskError> {
        let open_error = |source| DiskError::Open { path: given.to_owned(), source };
        let path = fs::canonicalize(given).map_err(open_error)?;
        let meta = fs::metadata(&path).map_err(open_error)?;
        if let Some(kind) = other_kind(meta.file_type()) {
            return Err(DiskError::NotADisk { path: given.to_owned(), kind });
        }
        let query = |what| move |path: &Path, source| DiskError::Query { path: path.to_owned(), what, source };
        let number = DevNumber::from_raw(meta.rdev());
        let sysfs = fs::canonicalize(format!("/sys/dev/block/{number}"))
            .map_err(|source| query("sysfs entry")(&path, source))?;
        if let Ok(text) = fs::read_to_string(sysfs.join("partition")) {
            let disk = sysfs.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
            return Err(DiskError::Partition {
                path: given.to_owned(),
                number: text.trim().parse().unwrap_or_default(),
                disk,
            });
        }
        let read_only =
            fs::read_to_string(sysfs.join("ro")).map_err(|source| query("read-only flag")(&path, source))?;
        if read_only.trim() != "0" {
            return Err(DiskError::ReadOnly { path });
        }
        let uses = find_uses(&sysfs).map_err(|source| query("users")(&path, source))?;
        if !uses.is_empty() {
            return Err(DiskError::InUse { path, uses });
        }
        let file = match OpenOptions::new().read(true).write(write).custom_flags(libc::O_EXCL).open(&path) {
            Ok(file) => file,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(DiskError::Claimed { path }),
            Err(source) => return Err(DiskError::Open { path, source }),
        };
        // The node may have been replaced since it was looked at.
        let opened = file.metadata().map_err(open_error)?;
        if DevNumber::from_raw(opened.rdev()) != number || !opened.file_type().is_block_device() {
            let source = io::Error::other("the device node changed while it was being opened");
            return Err(DiskError::Open { path, source });
        }
        let size_bytes = sys::size_bytes(&file).map_err(|source| query("size")(&path, source))?;
        let sector_bytes = sys::sector_bytes(&file).map_err(|source| query("sector size")(&path, source))?;
        if size_bytes < MIN_BYTES {
            return Err(DiskError::TooSmall { path, size_bytes });
        }
        Ok(Self { geometry: Geometry { path, size_bytes, sector_bytes }, sysfs, number, file })
    }

    /// What is known of it.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The claimed descriptor.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The partitions the kernel knows at the moment, by number.
    pub fn partitions(&self) -> io::Result<Vec<Node>> {
        Ok(nodes(&self.sysfs)?.into_iter().filter(|node| node.partition.is_some()).collect())
    }

    /// Gives up the claim, which would keep a partition from being mounted, and locks the disk instead: udev leaves a
    /// locked disk alone (systemd's "Locking Block Device Access"), so that it does not reread the table under us.
    pub fn release(&mut self) -> Result<(), DiskError> {
        let path = &self.geometry.path;
        let error = |source| DiskError::Open { path: path.clone(), source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(error)?;
        if DevNumber::from_raw(file.metadata().map_err(error)?.rdev()) != self.number {
            return Err(error(io::Error::other("the device node changed during the installation")));
        }
        let mut left = LOCK_TRIES;
        // The lock is a courtesy: without it things go well but for unlucky moments.
        while file.try_lock().is_err() && left > 0 {
            left -= 1;
            thread::sleep(LOCK_PAUSE);
        }
        self.file = file;
        Ok(())
    }
}

fn other_kind(kind: fs::FileType) -> Option<&'static str> {
    if kind.is_block_device() {
        None
    } else if kind.is_dir() {
        Some("directory")
    } else if kind.is_file() {
        Some("regular file")
    } else if kind.is_char_device() {
        Some("character device")
    } else if kind.is_fifo() {
        Some("pipe")
    } else {
        Some("socket")
    }
}

fn find_uses(sysfs: &Path) -> io::Result<Vec<Use>> {
    let nodes = nodes(sysfs)?;
    let mountinfo = fs::read_to_string("/proc/self/mountinfo")?;
    // A kernel without swap has no such file.
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let number_of = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        meta.file_type().is_block_device().then(|| DevNumber::from_raw(meta.rdev()))
    };
    Ok(uses(&nodes, &mountinfo, &swaps, &number_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_not_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"x").unwrap();
        let message = |path: &Path| Disk::inspect(path).unwrap_err().to_string();
        assert!(message(dir.path()).contains("not a disk but a directory"));
        assert!(message(&file).contains("not a disk but a regular file"));
        assert!(message(Path::new("/dev/null")).contains("not a disk but a character device"));
        assert!(matches!(Disk::inspect(&dir.path().join("no")), Err(DiskError::Open { .. })));
        assert!(matches!(Disk::inspect(Path::new("")), Err(DiskError::Open { .. })));
    }
}
