//! What the role flow does to the machine it runs on; tests put a fake in its place.

use crate::{cancel::Cancel, plan::ImageWrite, sys};
use api::http::HttpConfig;
use diskwrite::{DiskError, Event, Failure, InstallOptions, install};
use nix::fcntl::{Flock, FlockArg};
use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// The machine.
pub trait Host {
    /// The device node behind a link, or the path itself when there is none.
    fn resolve(&self, device: &Path) -> PathBuf;
    /// Zeroes the first 512 bytes of a disk nobody uses.
    fn clear_boot_sector(&self, device: &Path) -> Result<(), HostError>;
    /// Writes an image once.
    fn write_image(
        &self,
        write: &ImageWrite,
        ignition: Option<&[u8]>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), WriteError>;
    /// Reboots after `delay`; returns before.
    fn reboot(&self, delay: Duration) -> Result<(), HostError>;
}

/// Why the machine did not do it.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Can't be opened alone.
    #[error("cannot open {} exclusively (mounted, or part of another device?)", device.display())]
    Open {
        /// The disk.
        device: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file, say.
    #[error("{} is no block device", device.display())]
    NotABlockDevice {
        /// As given.
        device: PathBuf,
    },
    /// Writing failed.
    #[error("cannot zero the first sector of {}", device.display())]
    Write {
        /// The disk.
        device: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Nobody said it may.
    #[error("rebooting is not allowed: the request must say \"reboot\": true")]
    RebootNotAllowed,
    /// No process for it.
    #[error("cannot start the reboot")]
    Reboot {
        /// Cause.
        source: io::Error,
    },
    /// The lock file.
    #[error("cannot use the lock file {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Why an image was not written.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct WriteError {
    /// Whether another attempt can help.
    pub transient: bool,
    /// Cause. Its text stands for this error, which adds none.
    pub source: Box<dyn Error + Send + Sync>,
}

/// The machine itself.
#[derive(Debug)]
pub struct LiveHost {
    /// TLS for images by URL.
    pub http: HttpConfig,
    /// Whether [`Host::reboot`] does it; refused otherwise.
    pub allow_reboot: bool,
}

impl Host for LiveHost {
    fn resolve(&self, device: &Path) -> PathBuf {
        std::fs::canonicalize(device).unwrap_or_else(|_| device.to_owned())
    }

    fn clear_boot_sector(&self, device: &Path) -> Result<(), HostError> {
        let device = &self.resolve(device);
        let open_error = |source| HostError::Open { device: device.clone(), source };
        // O_EXCL on a block device: refused while it is mounted or held by another device.
        let mut disk = OpenOptions::new().write(true).custom_flags(libc::O_EXCL).open(device).map_err(open_error)?;
        if !disk.metadata().map_err(open_error)?.file_type().is_block_device() {
            return Err(HostError::NotABlockDevice { device: device.clone() });
        }
        let written = disk.write_all(&[0; 512]).and_then(|()| disk.sync_all());
        written.map_err(|source| HostError::Write { device: device.clone(), source })
    }

    fn write_image(
        &self,
        write: &ImageWrite,
        ignition: Option<&[u8]>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), WriteError> {
        let options = InstallOptions {
            source: write.image.clone().into(),
            http: self.http.clone(),
            device: write.device.clone(),
            ignition: ignition.map(Into::into),
            append_kargs: write.append_kargs.clone(),
            delete_kargs: write.delete_kargs.clone(),
            network_dir: write.network_dir.clone(),
            preserve_on_error: write.preserve_on_error,
            cancel: cancel.flag(),
            ..InstallOptions::default()
        };
        match install(&options, &mut |event| on_event(&event)) {
            Ok(_) => Ok(()),
            Err(error) => Err(WriteError { transient: may_pass(&error.cause), source: error.into() }),
        }
    }

    fn reboot(&self, delay: Duration) -> Result<(), HostError> {
        if !self.allow_reboot {
            return Err(HostError::RebootNotAllowed);
        }
        // The test sd_booted(3) makes.
        let systemd = Path::new("/run/systemd/system").is_dir();
        sys::reboot_later(delay, systemd).map_err(|source| HostError::Reboot { source })
    }
}

/// A disk in use may be free in a second: udev and LVM look at it after every change of its table.
fn may_pass(cause: &Failure) -> bool {
    matches!(cause, Failure::Disk(DiskError::InUse { .. } | DiskError::Claimed { .. }))
}

/// Held while an installation runs; dropping it releases it.
#[derive(Debug)]
pub struct InstallLock(#[allow(dead_code)] Flock<File>);

/// Takes the lock file at `path`; `None` when another process has it.
pub fn lock(path: &Path) -> Result<Option<InstallLock>, HostError> {
    let error = |source| HostError::Lock { path: path.to_owned(), source };
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(error)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(InstallLock(lock))),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(error(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_reboots_only_when_that_was_allowed() {
        let host = LiveHost { http: HttpConfig::default(), allow_reboot: false };
        assert!(matches!(host.reboot(Duration::ZERO), Err(HostError::RebootNotAllowed)));
    }

    #[test]
    fn only_block_devices_lose_their_boot_sector() {
        let host = LiveHost { http: HttpConfig::default(), allow_reboot: false };
        let path = std::env::temp_dir().join(format!("landfall-boot-sector-{}", std::process::id()));
        std::fs::write(&path, [7; 1024]).unwrap();
        let refused = host.clear_boot_sector(&path);
        let after = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(refused, Err(HostError::NotABlockDevice { .. })), "{refused:?}");
        assert_eq!(after, [7; 1024]);
        assert!(matches!(host.clear_boot_sector(&path), Err(HostError::Open { .. })));
    }

    #[test]
    fn the_lock_has_one_holder() {
        let path = std::env::temp_dir().join(format!("landfall-lock-{}", std::process::id()));
        let held = lock(&path).unwrap();
        assert!(held.is_some());
        assert!(lock(&path).unwrap().is_none());
        drop(held);
        assert!(lock(&path).unwrap().is_some());
        std::fs::remove_file(&path).unwrap();
    }
}
