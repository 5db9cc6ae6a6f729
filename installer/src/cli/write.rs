//! Installing to one disk by hand.

use super::{Install, Voice, config::InstallConfig, source};
use crate::{
    cancel::Cancel,
    ignition_source::{self, IgnitionSourceError},
};
use diskwrite::{DiskState, InstallError, InstallOptions};
use std::{
    io::{self, Write},
    process::ExitCode,
};

impl Install {
    pub(super) fn run_disk(&self, voice: Voice) -> anyhow::Result<ExitCode> {
        let mut options = self.config.options()?;
        let cancel = if self.dry_run { Cancel::default() } else { self.cancel_on_signals()? };
        options.cancel = cancel.flag();
        options.ignition = self.ignition(&options, &cancel)?;
        let origin = source::choose(&self.config, &mut options)?;
        if self.dry_run {
            let plan = diskwrite::plan(&options)?;
            self.print(&plan, &plan.to_string())?;
            return Ok(if plan.is_refused() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        if voice == Voice::CoreosInstaller {
            say(&origin);
        }
        let mut display = self.display();
        let result = diskwrite::install(&options, &mut |event| display.show(&event));
        if let Err(error) = &result {
            display.failed(error);
        }
        display.close();
        match result {
            Ok(_) => say("Install complete."),
            Err(error) if voice == Voice::CoreosInstaller => return Err(error.into()),
            Err(error) if cancel.is_cancelled() => {
                return Err(anyhow::Error::new(error).context("cancelled by a signal while writing the disk"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn ignition(&self, options: &InstallOptions, cancel: &Cancel) -> Result<Option<Vec<u8>>, IgnitionSourceError> {
        let InstallConfig { ignition_file, ignition_url, insecure_ignition, .. } = &self.config;
        let hash = options.ignition_hash.as_deref();
        match (ignition_file, ignition_url) {
            (Some(path), _) => ignition_source::read(path).map(Some),
            (None, Some(url)) => {
                let (http, retries) = (&options.http, options.retries);
                ignition_source::fetch(url, hash, *insecure_ignition, http, retries, cancel).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}

/// Not eprintln: nobody listening is no reason to panic.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// coreos-installer names what failed; when the disk was written to already it does so at once, and ends with a general word.
pub(super) fn in_its_words(error: InstallError) -> anyhow::Error {
    let preserved = matches!(error.disk, DiskState::Kept);
    if matches!(error.disk, DiskState::Untouched) {
        return anyhow::Error::new(*error.cause);
    }
    say(&format!("\nError: {:?}\n", anyhow::Error::new(error)));
    if preserved {
        say("Preserving partition table as requested");
    }
    anyhow::anyhow!("install failed")
}
