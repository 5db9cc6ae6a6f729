//! `landfall serve backup`, `restore` and `check`.

use super::backup;
use anyhow::{Context, bail};
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Back up a service's records and keys, while it runs or not
///
/// The file holds all of one moment: records, events, keys and manifests. Uploaded logs and images are left out. It appears only
/// when it is whole, in the place of an older one. Who has it has the service's secrets.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve backup --state-dir /var/lib/landfall /backup/landfall.backup
  landfall serve check /backup/landfall.backup")]
pub(crate) struct Backup {
    /// State directory of the service
    #[arg(long, value_name = "DIR", env = "LANDFALL_STATE_DIR")]
    state_dir: PathBuf,

    /// Where the backup goes
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Backup {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let counts = backup::back_up(&self.state_dir, &self.file)
            .with_context(|| format!("no backup of {} was made", self.state_dir.display()))?;
        Ok(writeln!(io::stdout(), "{}: {counts}", self.file.display())?)
    }
}

/// Bring a backup back into a state directory of no running service
///
/// The backup is read to its end before anything is written. Where there are records already, --replace keeps them under other
/// names.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve restore --state-dir /var/lib/landfall /backup/landfall.backup
  landfall serve restore --state-dir /var/lib/landfall --replace /backup/landfall.backup")]
pub(crate) struct Restore {
    /// State directory; made when it isn't there
    #[arg(long, value_name = "DIR", env = "LANDFALL_STATE_DIR")]
    state_dir: PathBuf,

    /// Replace records and keys that are there
    #[arg(long)]
    replace: bool,

    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Restore {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let counts = backup::restore(&self.state_dir, &self.file, self.replace)
            .with_context(|| format!("{} was not restored", self.file.display()))?;
        Ok(writeln!(io::stdout(), "{}: {counts}", self.state_dir.display())?)
    }
}

/// Check every record of a state directory, in use or not, or of a backup
///
/// What can't be read is named, and makes the exit code 1. Nothing is changed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve check /var/lib/landfall
  landfall serve check /backup/landfall.backup")]
pub(crate) struct Check {
    /// Key that the records are sealed with, when the service was given one
    #[arg(long, value_name = "FILE")]
    secrets_key: Option<PathBuf>,

    /// State directory or backup
    #[arg(value_name = "DIR|FILE", env = "LANDFALL_STATE_DIR")]
    place: PathBuf,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let checked = backup::check(&self.place, self.secrets_key.as_deref())
            .with_context(|| format!("{} can't be checked", self.place.display()))?;
        let mut out = io::stdout().lock();
        for damage in &checked.damage {
            writeln!(out, "damaged: {damage}")?;
        }
        writeln!(out, "{}: {}", self.place.display(), checked.counts)?;
        match checked.damage.len() {
            0 => Ok(()),
            count => {
                bail!("{count} damaged: the service leaves these out; `landfall serve restore` brings a backup back")
            }
        }
    }
}
