//! `landfall serve backup`, `restore` and `check`.

use super::backup;
use anyhow::{Context, bail};
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Back up a service's records and keys, while it runs or not
///
/// The file is a snapshot of records, events, keys, manifests and runs of certifications, without uploaded logs and images. It replaces an existing file
/// only when complete. It contains the service's secrets.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve backup --state-dir /var/lib/landfall /backup/landfall.backup
  landfall serve check /backup/landfall.backup")]
pub(crate) struct Backup {
    /// State directory of the service
    #[arg(long, value_name = "DIR", env = "LANDFALL_STATE_DIR")]
    state_dir: PathBuf,

    /// Backup file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Backup {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let counts = backup::back_up(&self.state_dir, &self.file)
            .with_context(|| format!("cannot back up {}", self.state_dir.display()))?;
        Ok(writeln!(io::stdout(), "{}: {counts}", self.file.display())?)
    }
}

/// Restore a backup into a state directory while no service uses it
///
/// The backup is verified before anything is written. If there are records already, --replace renames them.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve restore --state-dir /var/lib/landfall /backup/landfall.backup
  landfall serve restore --state-dir /var/lib/landfall \\
    --replace /backup/landfall.backup")]
pub(crate) struct Restore {
    /// State directory, created if missing
    #[arg(long, value_name = "DIR", env = "LANDFALL_STATE_DIR")]
    state_dir: PathBuf,

    /// Replace existing records and keys
    #[arg(long)]
    replace: bool,

    /// Backup file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Restore {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let counts = backup::restore(&self.state_dir, &self.file, self.replace)
            .with_context(|| format!("cannot restore {}", self.file.display()))?;
        Ok(writeln!(io::stdout(), "{}: {counts}", self.state_dir.display())?)
    }
}

/// Check every record of a state directory, in use or not, or of a backup
///
/// Lists what cannot be read, and then exits with 1. Changes nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve check /var/lib/landfall
  landfall serve check /backup/landfall.backup")]
pub(crate) struct Check {
    /// Key file, if the service runs with --secrets-key
    #[arg(long, value_name = "FILE")]
    secrets_key: Option<PathBuf>,

    /// State directory or backup
    #[arg(value_name = "DIR|FILE", env = "LANDFALL_STATE_DIR")]
    place: PathBuf,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let checked = backup::check(&self.place, self.secrets_key.as_deref())
            .with_context(|| format!("cannot check {}", self.place.display()))?;
        let mut out = io::stdout().lock();
        for damage in &checked.damage {
            writeln!(out, "damaged: {damage}")?;
        }
        writeln!(out, "{}: {}", self.place.display(), checked.counts)?;
        match checked.damage.len() {
            0 => Ok(()),
            count => {
                bail!("{count} damaged: the service ignores these; `landfall serve restore` restores a backup")
            }
        }
    }
}
