//! Whether the live medium can still be read: a virtual CD may go away under a running system (docs/compatibility.md#polling).

use kernel::mounts::mounts;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Exit code of a step on a host whose medium is gone.
pub const EXIT_MEDIA_LOST: i64 = 256;

/// Aligned as direct reads need it; a CD's sector is half of it.
const BLOCK_BYTES: usize = 4096;

/// A virtual CD over a slow link takes a second.
const READ_LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Media {
    /// Where the live medium is mounted, if it is.
    pub mount_point: PathBuf,
    /// The table of mounts.
    pub mountinfo: PathBuf,
}

impl Default for Media {
    fn default() -> Self {
        Self { mount_point: "/run/media/iso".into(), mountinfo: "/proc/self/mountinfo".into() }
    }
}

/// The medium is gone; the text is the reply's.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The device is missing.
    #[error("cannot access the media (ISO) - media was likely disconnected: {}: {error}", device.display())]
    Access {
        device: PathBuf,
        /// Cause. Part of the text, since the text is all the service gets.
        error: io::Error,
    },
    /// The device exists, but can't be read.
    #[error("cannot read from the media (ISO) - media was likely disconnected: {}: {error}", device.display())]
    Read {
        device: PathBuf,
        /// Cause. Part of the text, since the text is all the service gets.
        error: io::Error,
    },
}

impl Media {
    /// Reads from the medium. Fine if there is none: not every live system has it mounted.
    pub fn check(&self) -> Result<(), MediaError> {
        if !self.mount_point.exists() {
            return Ok(());
        }
        let mounts = match fs::read_to_string(&self.mountinfo) {
            Ok(mounts) => mounts,
            Err(error) => {
                tracing::warn!(%error, "cannot see where the live medium is mounted, not checking it");
                return Ok(());
            }
        };
        match source_of(&mounts, &self.mount_point) {
            Some(device) => read_in_time(device),
            None => {
                tracing::debug!(mount_point = %self.mount_point.display(), "no live medium is mounted, not checking it");
                Ok(())
            }
        }
    }
}

/// The device mounted last at `mount_point` in a table as proc(5) describes it.
fn source_of(mountinfo: &str, mount_point: &Path) -> Option<PathBuf> {
    let mut mounts = mounts(mountinfo).into_iter().filter(|mount| Path::new(&mount.target) == mount_point);
    mounts.next_back().map(|mount| mount.source).filter(|source| source.starts_with("/dev")).map(PathBuf::from)
}

/// A medium that hangs is as lost as one that fails; its reader stays until the kernel releases it.
fn read_in_time(device: PathBuf) -> Result<(), MediaError> {
    let (done, result) = mpsc::channel();
    let reader = device.clone();
    let spawned = thread::Builder::new().name("medium".into()).spawn(move || {
        let _ = done.send(read_some(&reader));
    });
    match spawned.map(|_| result.recv_timeout(READ_LIMIT)) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(MediaError::Read { device, error: io::ErrorKind::TimedOut.into() }),
        // A thread that can't be started says nothing of the medium.
        Err(_) => Ok(()),
    }
}

/// Past the page cache, which would still know what a lost medium once held.
fn read_some(device: &Path) -> Result<(), MediaError> {
    let access = |error| MediaError::Access { device: device.to_owned(), error };
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device);
    let file = match direct {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => File::open(device),
        other => other,
    };
    let mut file = file.map_err(access)?;
    let mut buffer = vec![0; 2 * BLOCK_BYTES];
    // A buffer twice the size has an aligned block in it somewhere.
    let start = buffer.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
    let block = buffer.get_mut(start..start + BLOCK_BYTES).unwrap_or_default();
    let read = match file.read(block) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        other => other,
    };
    read.map(drop).map_err(|error| MediaError::Read { device: device.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 0:20 / / rw shared:1 - overlay overlay rw
30 22 11:0 / /run/media/iso ro,relatime shared:9 - iso9660 /dev/sr0 ro
31 22 0:9 / /run/a\\040b rw - tmpfs tmpfs rw
garbage
32 22 8:1 / /run/media/iso2 ro - ext4 /dev/sda1 ro";

    #[test]
    fn the_device_is_found_and_nothing_else_taken_for_it() {
        let source = |mounts, point: &str| source_of(mounts, Path::new(point));
        assert_eq!(source(MOUNTS, "/run/media/iso"), Some("/dev/sr0".into()));
        assert_eq!(source(MOUNTS, "/run/a b"), None);
        assert_eq!(source(MOUNTS, "/run/media"), None);
        let over = format!("{MOUNTS}\n40 30 8:17 / /run/media/iso ro - iso9660 /dev/sdb1 ro");
        assert_eq!(source(&over, "/run/media/iso"), Some("/dev/sdb1".into()));
        assert_eq!(source("", "/run/media/iso"), None);
    }

    #[test]
    fn a_lost_medium_is_distinguished_from_none() {
        let dir = std::env::temp_dir().join(format!("landfall-media-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let media = Media { mount_point: dir.join("iso"), mountinfo: dir.join("mountinfo") };
        assert!(media.check().is_ok(), "nothing mounted there");
        fs::create_dir_all(&media.mount_point).unwrap();
        assert!(media.check().is_ok(), "no table");
        let line = |device: &str| format!("30 22 11:0 / {} ro - iso9660 {device} ro\n", media.mount_point.display());
        fs::write(&media.mountinfo, line("/dev/landfall-none")).unwrap();
        let error = media.check().unwrap_err();
        assert!(error.to_string().starts_with("cannot access the media (ISO) - media was likely disconnected: "));
        // A device that gives no byte.
        fs::write(&media.mountinfo, line("/dev/null")).unwrap();
        let error = media.check().unwrap_err();
        assert!(
            error.to_string().starts_with("cannot read from the media (ISO) - media was likely disconnected: "),
            "{error}"
        );
        fs::write(&media.mountinfo, line("/dev/zero")).unwrap();
        assert!(media.check().is_ok());
        fs::remove_dir_all(&dir).unwrap();
    }
}
