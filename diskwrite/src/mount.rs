//! Runs something inside a file system that no other process sees: mounted in a mount namespace of one thread, which has
//! it as its root directory, so that no link in it leads out.

use crate::disk::Disk;
use crate::gpt::Partition;
use crate::partitions;
use assist::{INSTALLATION_DIRECTORY, PrivateMounts};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::MsFlags;
use nix::sys::stat::Mode;
use nix::unistd::{chroot, fchdir};
use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// Something may look at the disk or the mount for a moment, as udev's helpers do: as patient as the installer this replaces.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Why the file system can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Neither a partition node nor a loop device can be had.
    #[error("partition {name} of {} has no device node, and no loop device can be bound to it", device.display())]
    Loop {
        device: PathBuf,
        /// GPT name of the partition.
        name: String,
        source: io::Error,
    },
    /// No private namespace or directory to mount on.
    #[error("cannot prepare a private mount: {step} failed")]
    Prepare { step: &'static str, source: io::Error },
    /// Not a file system that can be mounted.
    #[error("cannot mount {} as {}", device.display(), reasons(tries))]
    Mount {
        /// Partition or loop device.
        device: PathBuf,
        /// As what, and why not.
        tries: Vec<(&'static str, Errno)>,
    },
    /// What was written may not be on the disk.
    #[error("cannot unmount {}", device.display())]
    Unmount {
        /// Partition or loop device.
        device: PathBuf,
        source: io::Error,
    },
    /// The thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

fn reasons(tries: &[(&'static str, Errno)]) -> String {
    tries.iter().map(|(kind, why)| format!("{kind} ({why})")).collect::<Vec<_>>().join(" or as ")
}

/// A block device for one partition.
#[derive(Debug)]
pub(crate) struct PartitionDevice {
    path: PathBuf,
    /// Keeps a loop device bound; it is released when this is dropped and nothing is mounted from it.
    _bound: Option<File>,
    flags: MsFlags,
}

/// How every file system of a disk is mounted.
const FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);

impl PartitionDevice {
    /// The partition's node, else a loop device over its part of the disk.
    pub(crate) fn open(disk: &Disk, partition: &Partition) -> Result<Self, MountError> {
        match partitions::node_of(disk, partition) {
            Some(path) => Ok(Self { path, _bound: None, flags: FLAGS }),
            None => Self::bind(disk, partition),
        }
    }

    /// For a partition of a disk or of an image file that is open for reading only: not a byte of it changes, a journal's replay
    /// included.
    pub(crate) fn read_only(backing: &File, device: &Path, partition: &Partition) -> Result<Self, MountError> {
        let bound = Self::over(backing, device, partition)?;
        Ok(Self { flags: FLAGS | MsFlags::MS_RDONLY, ..bound })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn bind(disk: &Disk, partition: &Partition) -> Result<Self, MountError> {
        Self::over(disk.file(), &disk.geometry().path, partition)
    }

    fn over(backing: &File, device: &Path, partition: &Partition) -> Result<Self, MountError> {
        let bound = assist::bind_loop(backing, partition.start, partition.len);
        let (path, file) = bound.map_err(|source| MountError::Loop {
            device: device.to_owned(),
            name: partition.name.clone(),
            source,
        })?;
        Ok(Self { path, _bound: Some(file), flags: FLAGS })
    }

    /// Mounts the device, runs `inside` with the file system as `/`, and unmounts it again.
    pub(crate) fn enter<T: Send, E: Send>(
        &self,
        inside: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<Result<T, E>, MountError> {
        enter_thread(&self.path, &["ext4", "xfs"], self.flags, inside)
    }
}

/// Mounts the device as the first of these kinds that it is, runs `inside` with the file system as `/`, and unmounts it again.
///
/// # Errors
///
/// It can't be mounted or unmounted.
pub fn enter_device<T: Send, E: Send>(
    device: &Path,
    kinds: &[&'static str],
    inside: impl FnOnce() -> Result<T, E> + Send,
) -> Result<Result<T, E>, MountError> {
    enter_thread(device, kinds, FLAGS, inside)
}

fn enter_thread<T: Send, E: Send>(
    device: &Path,
    kinds: &[&'static str],
    flags: MsFlags,
    inside: impl FnOnce() -> Result<T, E> + Send,
) -> Result<Result<T, E>, MountError> {
    thread::scope(|scope| {
        let run = || enter(device, kinds, flags, inside);
        let thread = thread::Builder::new().name("boot".into()).spawn_scoped(scope, run).map_err(MountError::Thread)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn step<T>(step: &'static str, result: Result<T, impl Into<io::Error>>) -> Result<T, MountError> {
    result.map_err(|source| MountError::Prepare { step, source: source.into() })
}

/// Runs in its own thread, which ends afterwards: namespace and root directory are the thread's.
fn enter<T, E>(
    device: &Path,
    kinds: &[&'static str],
    flags: MsFlags,
    inside: impl FnOnce() -> Result<T, E>,
) -> Result<Result<T, E>, MountError> {
    let mounts = step("unsharing the namespace", PrivateMounts::enter())?;
    // To go back to, which needs no right to read it. With musl, std's OpenOptions drop this flag.
    let path_only = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let outside = step("opening /", open("/", path_only, Mode::empty()))?;
    let dir = mount_point()?;
    let mount_as = |kind: &str| while_busy(|| mounts.mount(device, dir.path(), kind, flags));
    mount_as_one(device, kinds, mount_as)?;
    let result = step("entering it", chroot(dir.path())).and_then(|()| {
        let result = step("entering it", std::env::set_current_dir("/")).map(|()| inside());
        step("leaving it", fchdir(&outside).and_then(|()| chroot(".")))?;
        result
    });
    unmount(&mounts, dir.path()).map_err(|source| MountError::Unmount { device: device.to_owned(), source })?;
    result
}

/// Mounts as the first of these kinds that it is.
pub(crate) fn mount_as_one(
    device: &Path,
    kinds: &[&'static str],
    mount_as: impl Fn(&str) -> Result<(), Errno>,
) -> Result<(), MountError> {
    let mut tries = Vec::new();
    for kind in kinds {
        match mount_as(kind) {
            Ok(()) => return Ok(()),
            Err(why) => tries.push((*kind, why)),
        }
    }
    Err(MountError::Mount { device: device.to_owned(), tries })
}

pub(crate) fn unmount(mounts: &PrivateMounts, dir: &Path) -> io::Result<()> {
    while_busy(|| mounts.unmount(dir)).map_err(io::Error::from)
}

/// Retries while another process holds the device.
fn while_busy<T>(action: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut tries = BUSY_TRIES;
    loop {
        match action() {
            Err(Errno::EBUSY) if tries > 0 => tries -= 1,
            result => return result,
        }
        thread::sleep(BUSY_PAUSE);
    }
}

/// An empty directory that is removed when it is dropped.
fn mount_point() -> Result<TempDir, MountError> {
    let mut names = tempfile::Builder::new();
    names.prefix("landfall-boot-");
    // Where it can't be made, the directory for temporary files serves.
    let has_private = DirBuilder::new().recursive(true).mode(0o700).create(INSTALLATION_DIRECTORY).is_ok();
    step("making a directory", if has_private { names.tempdir_in(INSTALLATION_DIRECTORY) } else { names.tempdir() })
}

#[cfg(test)]
#[path = "mount_tests.rs"]
mod tests;
