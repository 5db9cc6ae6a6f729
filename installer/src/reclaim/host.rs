//! What reclaiming does to the node; tests put a fake in its place.

use super::programs;
use crate::writable::{WritableError, make_writable};
use nix::sys::statvfs::statvfs;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// For the agent to post its reply.
const REBOOT_DELAY: Duration = Duration::from_secs(10);

/// The node whose root is mounted at some directory.
pub trait Host {
    /// Makes the file system at `boot` writable.
    fn make_writable(&self, boot: &Path) -> Result<(), HostError>;
    /// Bytes that can still be written to the file system at `boot`.
    fn free_bytes(&self, boot: &Path) -> Result<u64, HostError>;
    /// Removes the node's rollback deployment.
    fn remove_rollback(&self) -> Result<(), HostError>;
    /// Writes the boot record of the discovery kernel with these options (s390x).
    fn write_boot_record(&self, options: &str) -> Result<(), HostError>;
    /// The kernel's command line.
    fn command_line(&self) -> Result<String, HostError>;
    /// Reboots, soon; returns before.
    fn reboot(&self) -> Result<(), HostError>;
}

/// Why the node did not do it.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Writable(#[from] WritableError),
    #[error("cannot find out how much space is left at {}", path.display())]
    Space { path: PathBuf, source: io::Error },
    #[error("cannot run the node's {program}")]
    Start { program: &'static str, source: io::Error },
    #[error("the node's {program} failed ({status}): {output}")]
    Failed {
        program: &'static str,
        /// As the system says it.
        status: String,
        /// The end of its log.
        output: String,
    },
    #[error("cannot read /proc/cmdline")]
    CommandLine { source: io::Error },
    #[error("rebooting is not allowed: the request must say \"reboot\": true")]
    RebootNotAllowed,
    #[error("cannot start the reboot")]
    Reboot { source: io::Error },
}

#[derive(Debug)]
pub struct NodeHost {
    pub root: PathBuf,
    /// Whether [`Host::reboot`] does it; refused otherwise.
    pub allow_reboot: bool,
}

impl Host for NodeHost {
    fn make_writable(&self, boot: &Path) -> Result<(), HostError> {
        Ok(make_writable(boot)?)
    }

    fn free_bytes(&self, boot: &Path) -> Result<u64, HostError> {
        let space = statvfs(boot).map_err(|errno| HostError::Space { path: boot.to_owned(), source: errno.into() })?;
        // Their types differ between C libraries.
        #[allow(clippy::useless_conversion)]
        let (blocks, size) = (u64::from(space.blocks_available()), u64::from(space.fragment_size()));
        Ok(blocks.saturating_mul(size))
    }

    fn remove_rollback(&self) -> Result<(), HostError> {
        programs::rpm_ostree_cleanup(&self.root)
    }

    fn write_boot_record(&self, options: &str) -> Result<(), HostError> {
        programs::zipl(&self.root, options)
    }

    fn command_line(&self) -> Result<String, HostError> {
        std::fs::read_to_string("/proc/cmdline").map_err(|source| HostError::CommandLine { source })
    }

    /// A separate process asks the node's systemd, which is PID 1 here too, and reboots by reboot(2) where there is none.
    fn reboot(&self) -> Result<(), HostError> {
        if !self.allow_reboot {
            return Err(HostError::RebootNotAllowed);
        }
        let systemd = self.root.join("run/systemd/system").is_dir();
        kernel::fork::reboot_later(REBOOT_DELAY, systemd).map_err(|source| HostError::Reboot { source })
    }
}
