//! `landfall ignition translate`.

use super::{print_config, read};
use crate::model::Version;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Translate a config to another version of the specification.
///
/// Upwards as Ignition does it; downwards only if nothing is lost, else the error names what would be lost. Prints
/// compact JSON.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition translate --to 3.4.0 host.ign > host-3.4.ign")]
pub(super) struct Translate {
    /// The config, or - for standard input
    file: PathBuf,
    /// The version
    #[arg(long, value_name = "VERSION", default_value = Version::NEWEST_STABLE.name(), value_parser = version)]
    to: Version,
}

fn version(text: &str) -> Result<Version, String> {
    let known = || Version::ALL.map(Version::name).join(", ");
    Version::parse(text).map_err(|error| format!("{error}; known versions: {}", known()))
}

impl Translate {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let translated = crate::translate(&read(&self.file)?, self.to)
            .with_context(|| format!("{} can't be translated", self.file.display()))?;
        print_config(&translated)
    }
}
