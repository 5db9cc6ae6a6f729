//! A disk with a new system on it, changed further before its first boot: its last partition grown, its file systems
//! mounted where no other process sees them.

use crate::LayoutError;
use crate::disk::{Disk, DiskError};
use crate::gpt::{self, Partition};
use crate::layout::{Layout, ReadLayoutError};
use crate::mount::{MountError, PartitionDevice, mount_as_one, unmount};
use assist::PrivateMounts;
use nix::mount::MsFlags;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
};

/// What partitions end at a multiple of.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// Why the disk can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum WrittenError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Layout(#[from] ReadLayoutError),
    #[error("{} has no partition {number}", device.display())]
    NoPartition { device: PathBuf, number: u32 },
    #[error("cannot grow partition {number} of {}", device.display())]
    Grow { device: PathBuf, number: u32, source: LayoutError },
    #[error("cannot write the partition table of {}", device.display())]
    Write { device: PathBuf, source: io::Error },
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A file system that is full to the partition's old end.
    #[error("cannot grow the XFS file system at {}", path.display())]
    GrowXfs {
        /// Where it is mounted.
        path: PathBuf,
        source: io::Error,
    },
}

/// A disk that is not in use.
#[derive(Debug)]
pub struct WrittenDisk {
    disk: Disk,
}

impl WrittenDisk {
    /// Opens it, and locks it against udev.
    pub fn open(device: &Path) -> Result<Self, WrittenError> {
        let mut disk = Disk::open(device)?;
        disk.release()?;
        Ok(Self { disk })
    }

    fn path(&self) -> &Path {
        &self.disk.geometry().path
    }

    pub fn layout(&self) -> Result<Layout, WrittenError> {
        let geometry = self.disk.geometry();
        Ok(Layout::read(self.disk.file(), &geometry.path, geometry.size_bytes, geometry.sector_bytes)?)
    }

    /// Lets a partition go on up to the next one, or to the end of the disk less `free_percent` of it, as growpart's
    /// `--free-percent` does; it never shrinks. Returns its length in bytes. The table's copies are written one after the other, so
    /// that one of them is good at any moment.
    pub fn grow(&self, number: u32, free_percent: u64) -> Result<u64, WrittenError> {
        let geometry = self.disk.geometry();
        let (device, size, sector) = (|| self.path().to_owned(), geometry.size_bytes, u64::from(geometry.sector_bytes));
        let mut read = |offset, len| {
            let mut bytes = vec![0; len];
            self.disk.file().read_exact_at(&mut bytes, offset).map(|()| bytes)
        };
        let found = gpt::find(&mut read, size, geometry.sector_bytes);
        let found = found.map_err(|source| ReadLayoutError::Find { path: device(), source })?;
        let mut table = found.ok_or_else(|| ReadLayoutError::None { path: device() })?.table;
        let failed = |source| WrittenError::Grow { device: device(), number, source };
        table.resize(size).map_err(failed)?;
        let entry = table.entries().find(|(other, _)| *other == number).map(|(_, entry)| entry);
        let entry = entry.ok_or_else(|| WrittenError::NoPartition { device: device(), number })?;
        let starts = table.entries().map(|(_, other)| other.first_lba());
        let next = starts.filter(|start| *start > entry.first_lba()).min();
        let reserved = u64::try_from(u128::from(size) * u128::from(free_percent.min(100)) / 100).unwrap_or(size);
        let end =
            table.usable_end().min(next.unwrap_or(u64::MAX)).saturating_mul(sector).min(size.saturating_sub(reserved));
        let last_lba = (end / ALIGNMENT_BYTES * ALIGNMENT_BYTES / sector).saturating_sub(1);
        let len = |last_lba: u64| last_lba.saturating_add(1).saturating_sub(entry.first_lba()).saturating_mul(sector);
        if last_lba <= entry.last_lba() {
            return Ok(len(entry.last_lba()));
        }
        let grown = entry.ending_at(last_lba);
        table.set(number, &grown).and_then(|()| table.check()).map_err(failed)?;
        let (offset, backup) = table.backup();
        for (offset, bytes) in [(offset, backup), (sector, table.primary())] {
            let written = self.disk.file().write_all_at(&bytes, offset).and_then(|()| self.disk.file().sync_all());
            written.map_err(|source| WrittenError::Write { device: device(), source })?;
        }
        self.tell_kernel(number, entry.first_lba().saturating_mul(sector), len(last_lba));
        Ok(len(last_lba))
    }

    /// A kernel that has no node for the partition does not take it; then it is reached through a loop device.
    fn tell_kernel(&self, number: u32, start: u64, len: u64) {
        if let Err(error) = kernel::disk::resize_partition(self.disk.file(), number, start, len) {
            tracing::debug!(number, %error, "the kernel does not know of the partition's new size");
        }
    }

    /// Mounts partitions of these numbers, in this order, on directories that are created if missing; runs `inside`, which
    /// sees them, as do the programs it starts; and unmounts them. No other process sees them, and nothing stays mounted
    /// if this one is killed.
    pub fn mounted<T: Send>(
        &self,
        mounts: &[(u32, &Path)],
        inside: impl FnOnce() -> T + Send,
    ) -> Result<T, WrittenError> {
        let layout = self.layout()?;
        let mut devices = Vec::new();
        for (number, at) in mounts {
            let partition = layout.partition(*number);
            let partition = partition
                .ok_or_else(|| WrittenError::NoPartition { device: self.path().to_owned(), number: *number })?;
            let (start, len, name) = (partition.start, partition.len, partition.name.clone());
            let partition = Partition { number: *number, name, start, len };
            devices.push((PartitionDevice::open(&self.disk, &partition)?, *at));
        }
        let result = thread::scope(|scope| {
            let run = || in_private(&devices, inside);
            let thread =
                thread::Builder::new().name("target".into()).spawn_scoped(scope, run).map_err(MountError::Thread)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok(result?)
    }
}

/// Runs in its own thread, whose mount namespace ends with it.
fn in_private<T>(devices: &[(PartitionDevice, &Path)], inside: impl FnOnce() -> T) -> Result<T, MountError> {
    let failed = |step: &'static str| move |source: io::Error| MountError::Prepare { step, source };
    let mounts = PrivateMounts::enter().map_err(failed("unsharing the namespace"))?;
    let mut mounted: Vec<(&Path, &Path)> = Vec::new();
    let mut result = Ok(());
    for (device, at) in devices {
        result = fs::create_dir_all(at).map_err(failed("making a directory")).and_then(|()| {
            let mount_as = |kind: &str| mounts.mount(device.path(), at, kind, MsFlags::empty());
            mount_as_one(device.path(), &["xfs", "ext4"], mount_as)
        });
        if result.is_err() {
            break;
        }
        mounted.push((device.path(), *at));
    }
    let result = result.map(|()| inside());
    let mut unmounted = Ok(());
    for (device, at) in mounted.into_iter().rev() {
        // The boot loader reads file systems, and replays no journals.
        let settled = File::open(at).and_then(|root| kernel::file_system::settle(&root));
        if let Err(error) = settled {
            tracing::debug!(path = %at.display(), %error, "cannot settle the file system before it is unmounted");
        }
        if let Err(source) = unmount(&mounts, at) {
            unmounted = Err(MountError::Unmount { device: device.to_owned(), source });
        }
    }
    let value = result?;
    unmounted.map(|()| value)
}

/// Lets the XFS file system mounted at `path` fill its device. False if it does already.
pub fn grow_xfs(path: &Path, device_bytes: u64) -> Result<bool, WrittenError> {
    let root = File::open(path);
    root.and_then(|root| kernel::file_system::grow_xfs(&root, device_bytes))
        .map_err(|source| WrittenError::GrowXfs { path: path.to_owned(), source })
}

#[cfg(test)]
#[path = "written_tests.rs"]
mod tests;
