//! What the role flow does to the machine it runs on; tests put a fake in its place.
//!
//! Everything that only the host's own programs can do goes through [`Host::run`]; the rest is native.

use crate::{
    boot_order,
    plan::{Image, ImageWrite},
    programs::{self, Program, ProgramError},
    source::{self, Choice},
    writable::{self, WritableError},
};
use api::http::HttpConfig;
use diskwrite::{
    DecodeError, DiskError, Event, Failure, InstallOptions, PartitionError, Source, SourceError, install,
    wipe::{self, WipeError},
};
use kernel::Cancel;
use logs::{LogsError, Wanted};
use std::{error::Error, ffi::OsStr, fmt, io, path::Path, time::Duration};

pub trait Host: Sync {
    /// The live system's root: `/`. All that is read and written natively is below it.
    fn root(&self) -> &Path;
    /// Runs one of the host's programs. Returns what it wrote, both streams merged, trimmed. Ended when `cancel` is set.
    fn run(&self, program: Program, args: &[&OsStr], cancel: &Cancel) -> Result<String, ProgramError>;
    /// Zeroes the first 512 bytes of a disk that is not in use.
    fn clear_boot_sector(&self, device: &Path) -> Result<(), HostError>;
    /// Takes down idle devices on a disk, and wipes its signatures; other disks are not changed.
    fn clean_disk(&self, device: &Path, cancel: &Cancel) -> Result<(), HostError>;
    /// Writes an image once.
    fn write_image(
        &self,
        write: &ImageWrite,
        ignition: Option<&[u8]>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), WriteError>;
    /// Makes the file system mounted at `path` writable.
    fn make_writable(&self, path: &Path) -> Result<(), HostError>;
    /// Makes the firmware start from this disk at the next boot and after it.
    fn set_boot_order(&self, device: &Path, cancel: &Cancel) -> Result<(), HostError>;
    /// Sends the host's logs to the service; `bootstrap` adds those of the temporary control plane.
    fn send_logs(&self, bootstrap: bool) -> Result<(), HostError>;
    /// Reboots after `delay`; returns before.
    fn reboot(&self, delay: Duration) -> Result<(), HostError>;
}

/// Why the machine did not do it.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// What is on a disk.
    #[error(transparent)]
    Wipe(#[from] WipeError),
    #[error("{0}")]
    BootOrder(#[source] Box<dyn Error + Send + Sync>),
    /// No logs at the service.
    #[error("the host's logs were not sent")]
    Logs(#[source] Box<LogsError>),
    /// One of the host's programs.
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Writable(#[from] WritableError),
    #[error("rebooting is not allowed: the request must say \"reboot\": true")]
    RebootNotAllowed,
    #[error("cannot start the reboot")]
    Reboot { source: io::Error },
}

/// Why an image was not written: its cause, of any type, and what that means for another attempt.
#[derive(Debug)]
pub struct WriteError {
    /// Whether another attempt can help.
    pub transient: bool,
    /// Cause. Its text and its causes stand for this error, which adds none.
    pub cause: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// The machine itself.
pub struct LiveHost {
    /// TLS for images by URL.
    pub http: HttpConfig,
    /// What the host's programs get in their environment besides ours: proxies.
    pub environment: Vec<(String, String)>,
    /// Where the host's logs are sent; `None` for nowhere.
    pub logs: Option<logs::Settings>,
    /// Whether [`Host::reboot`] does it; refused otherwise.
    pub allow_reboot: bool,
}

impl LiveHost {
    /// The image writer's options.
    pub fn options(&self, write: &ImageWrite, ignition: Option<&[u8]>, cancel: &Cancel) -> InstallOptions {
        InstallOptions {
            source: match &write.image {
                Image::Url(url) => Source::Url(url.clone()),
                Image::File(path) => Source::File(path.clone()),
                // Until it is chosen.
                Image::Live => InstallOptions::default().source,
            },
            http: self.http.clone(),
            device: write.device.clone(),
            ignition: ignition.map(Into::into),
            changes: write.changes.clone(),
            preserve_on_error: write.preserve_on_error,
            cancel: cancel.clone(),
            ..InstallOptions::default()
        }
    }
}

impl Host for LiveHost {
    fn root(&self) -> &Path {
        Path::new("/")
    }

    fn run(&self, program: Program, args: &[&OsStr], cancel: &Cancel) -> Result<String, ProgramError> {
        programs::run(program, args, &self.environment, cancel)
    }

    fn clean_disk(&self, device: &Path, cancel: &Cancel) -> Result<(), HostError> {
        let cleaned = wipe::clean(device, cancel)?;
        for step in &cleaned.taken_down {
            tracing::info!(device = %device.display(), "taken down: {step}");
        }
        let partitions = cleaned.found.partitions.iter().flat_map(|partition| &partition.signatures);
        for signature in cleaned.found.signatures.iter().chain(partitions) {
            tracing::info!(device = %device.display(), "wiped: {signature}");
        }
        Ok(())
    }

    fn make_writable(&self, path: &Path) -> Result<(), HostError> {
        Ok(writable::make_writable(path)?)
    }

    fn set_boot_order(&self, device: &Path, cancel: &Cancel) -> Result<(), HostError> {
        let done = boot_order::set(self, device, false, cancel);
        done.map(drop).map_err(|error| HostError::BootOrder(error.into()))
    }

    fn send_logs(&self, bootstrap: bool) -> Result<(), HostError> {
        let Some(settings) = &self.logs else { return Ok(()) };
        let wanted = Wanted { bootstrap, ..settings.wanted.clone() };
        let sent = logs::run(&logs::Settings { wanted, ..settings.clone() });
        let missing = sent.map_err(|error| HostError::Logs(error.into()))?;
        if !missing.is_empty() {
            tracing::warn!("the logs are incomplete: {missing}");
        }
        Ok(())
    }

    fn clear_boot_sector(&self, device: &Path) -> Result<(), HostError> {
        Ok(wipe::clear_boot_sector(device)?)
    }

    fn write_image(
        &self,
        write: &ImageWrite,
        ignition: Option<&[u8]>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), WriteError> {
        let mut options = self.options(write, ignition, cancel);
        if write.image == Image::Live {
            let origin = source::choose(&Choice::default(), &mut options)
                .map_err(|error| WriteError { transient: true, cause: error.into() })?;
            tracing::info!("{origin}");
        }
        match install(&options, &mut |event| on_event(&event)) {
            Ok(_) => Ok(()),
            Err(error) => Err(WriteError { transient: may_pass(&error.cause), cause: error.into() }),
        }
    }

    fn reboot(&self, delay: Duration) -> Result<(), HostError> {
        if !self.allow_reboot {
            return Err(HostError::RebootNotAllowed);
        }
        // The test sd_booted(3) makes.
        let systemd = Path::new("/run/systemd/system").is_dir();
        kernel::fork::reboot_later(delay, systemd).map_err(|source| HostError::Reboot { source })
    }
}

/// Whether another attempt from the start can help. The image writer has resumed broken downloads by itself already.
fn may_pass(cause: &Failure) -> bool {
    match cause {
        // udev and LVM look at a disk after every change of its table, and let go of it again.
        Failure::Disk(DiskError::InUse { .. } | DiskError::Claimed { .. }) => true,
        Failure::Partitions(PartitionError::Forget { .. }) => true,
        // A server that restarts, or that got a newer image meanwhile.
        Failure::Source(DecodeError::Source(SourceError::Stalled { .. } | SourceError::Changed { .. })) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Action, plan, tests::request};
    use api::InstallRequest;

    fn live_host() -> LiveHost {
        LiveHost { http: HttpConfig::default(), environment: Vec::new(), logs: None, allow_reboot: false }
    }

    #[test]
    fn a_machine_reboots_only_when_that_was_allowed() {
        let host = live_host();
        assert!(matches!(host.reboot(Duration::ZERO), Err(HostError::RebootNotAllowed)));
    }

    #[test]
    fn the_writer_gets_the_partitions_to_keep() {
        let host = live_host();
        let args = r#"["--save-partlabel","data*","--save-partindex","5-,2","--image-file","/i"]"#;
        let request = InstallRequest { installer_args: Some(args.into()), ..request() };
        let plan = plan(&request, false, Duration::ZERO).unwrap();
        let write = plan.actions.iter().find_map(|action| match action {
            Action::WriteImage(write) => Some(write),
            _ => None,
        });
        let options = host.options(write.unwrap(), None, &Cancel::default());
        assert_eq!(options.changes.save_partlabels, ["data*"]);
        assert_eq!(options.changes.save_partindexes, ["5-", "2"]);
    }

    #[test]
    fn only_block_devices_lose_their_boot_sector() {
        let host = live_host();
        let path = std::env::temp_dir().join(format!("landfall-boot-sector-{}", std::process::id()));
        std::fs::write(&path, [7; 1024]).unwrap();
        let refused = host.clear_boot_sector(&path);
        let after = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(&refused, Err(HostError::Wipe(WipeError::Disk(DiskError::NotADisk { .. })))), "{refused:?}");
        assert_eq!(after, [7; 1024]);
        for path in [&path, Path::new("/dev/null")] {
            assert!(matches!(host.clear_boot_sector(path), Err(HostError::Wipe(WipeError::Disk(_)))));
            assert!(matches!(host.clean_disk(path, &Cancel::default()), Err(HostError::Wipe(_))));
        }
    }

    #[test]
    fn a_busy_disk_and_a_silent_server_are_worth_another_attempt() {
        let source = |error: SourceError| Failure::Source(DecodeError::Source(error));
        let stalled = SourceError::Stalled {
            url: "http://h/i".into(),
            offset: 1,
            total: None,
            silent: Duration::from_secs(600),
            source: Box::new(SourceError::Status { url: "http://h/i".into(), status: 503, offset: 1 }),
        };
        assert!(may_pass(&source(stalled)));
        assert!(may_pass(&Failure::Disk(DiskError::Claimed { path: "/dev/x".into() })));
        assert!(!may_pass(&source(SourceError::Status { url: "http://h/i".into(), status: 404, offset: 0 })));
        assert!(!may_pass(&Failure::Disk(DiskError::ReadOnly { path: "/dev/x".into() })));
        assert!(!may_pass(&Failure::Cancelled { written_bytes: 1 }));
    }
}
