//! The host's logs, gathered and sent to the service (docs/compatibility.md#logs), without helper programs except LVM's
//! displays and the cluster's scripts that query its other hosts.

mod archive;
mod blocks;
mod bootstrap;
pub mod cli;
mod collect;
mod cores;
mod guard;
mod item;
mod kmsg;
mod mounts;
mod programs;
mod report;
mod send;
mod upload;

#[cfg(test)]
mod tests;

use api::{ClientConfig, ClientError, ClusterId, HostId, InfraEnvId};
use std::{io, net::IpAddr, path::PathBuf, process::ExitCode, time::Duration};

pub use collect::Collected;

/// The service takes no larger upload (swagger's maximum).
pub const MAX_ARCHIVE_BYTES: u64 = 262_144_000;
/// Gathering and sending may take this long: a step has an hour, and cleaning up is part of it.
pub const LIMIT: Duration = Duration::from_secs(3600 - 30);
/// Exit code of what took longer, as timeout(1) has it.
pub const EXIT_LATE: u8 = 124;

/// What to gather, and of which host.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Names the directory in the archive.
    pub host_id: HostId,
    /// Journal entries before this are left out; journalctl's syntax, empty for all.
    pub since: String,
    /// Whether this host carries the temporary control plane.
    pub bootstrap: bool,
    /// Whether all is wanted: kernel's log, crashes, the whole journal, and the bootstrap host's bundle.
    pub installer_gather: bool,
    /// Control plane hosts that a bootstrap host asks for theirs.
    pub masters: Vec<IpAddr>,
}

/// Settings of `logs_sender`.
#[derive(Clone, Debug)]
pub struct Settings {
    pub client: ClientConfig,
    /// Where the logs are stored.
    pub cluster_id: ClusterId,
    /// The host's; without it no progress can be reported.
    pub infra_env_id: Option<InfraEnvId>,
    pub wanted: Wanted,
    /// Leave what was gathered on the host.
    pub keep: bool,
    pub places: Places,
}

/// Where things are on the host; tests have other places.
#[derive(Clone, Debug)]
pub struct Places {
    /// Of the work directory and the stored archive.
    pub var_log: PathBuf,
    /// Of journal files.
    pub journals: Vec<PathBuf>,
    /// systemd-coredump's.
    pub cores: PathBuf,
    /// The kernel's log.
    pub kmsg: PathBuf,
    /// The root that sysfs, procfs and udev's database are below.
    pub root: PathBuf,
    /// Bytes of the file system below `var_log` that must stay free.
    pub reserve_bytes: u64,
    pub max_archive_bytes: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            var_log: "/var/log".into(),
            journals: journal::directories(),
            cores: "/var/lib/systemd/coredump".into(),
            kmsg: "/dev/kmsg".into(),
            root: "/".into(),
            reserve_bytes: 256 << 20,
            max_archive_bytes: MAX_ARCHIVE_BYTES,
        }
    }
}

/// Why no logs were sent.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The archive can't be made.
    #[error("cannot make the archive of logs")]
    Archive(#[source] io::Error),
    /// The service did not get it.
    #[error("cannot send the logs")]
    Send(#[from] ClientError),
}

/// Gathers and sends. Gives the report of what could not be gathered, empty when all was.
pub fn run(settings: &Settings) -> Result<String, LogsError> {
    send::send(settings)
}

/// The whole command: also ends itself after [`LIMIT`] and cleans up on SIGTERM. Prints the result as `logs_sender` does; 0, or
/// 255 when nothing was sent. To be called before other threads are started.
pub fn run_to_end(settings: &Settings) -> ExitCode {
    let cleanup = if settings.keep { Vec::new() } else { send::leftovers(settings) };
    if let Err(error) = guard::watch(cleanup, LIMIT) {
        tracing::warn!(%error, "cannot watch signals: if ended early, this leaves its files behind");
    }
    use io::Write;
    let mut out = io::stdout().lock();
    match run(settings) {
        Ok(report) => {
            let _ = writeln!(out, "Logs were sent\n{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let error = anyhow::Error::from(error);
            let _ = writeln!(out, "Failed to run send logs  {error:#}");
            tracing::error!("{error:#}");
            ExitCode::from(255)
        }
    }
}
