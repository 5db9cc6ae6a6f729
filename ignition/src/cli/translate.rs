//! `landfall ignition translate`.

use super::butane::Butane;
use super::{print_config, read};
use crate::model::Version;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Translate a config to another version of the specification.
///
/// Upwards as Ignition does it; downwards only if nothing is lost, else the error names what would be lost. Prints
/// compact JSON.
///
/// A Butane document becomes the config that butane makes of it, of the version that belongs to the document's unless --to is
/// given. One of variant openshift becomes a MachineConfig in YAML, unless --raw or --to is given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition translate --to 3.4.0 host.ign > host-3.4.ign\n  \
    landfall ignition translate --strict --files-dir files host.bu > host.ign")]
pub(super) struct Translate {
    /// The config, or - for standard input
    file: PathBuf,
    /// The version; without it, the newest stable one, or the one that belongs to a Butane document
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Option<Version>,
    /// Make an Ignition config of a Butane document of variant openshift, not a MachineConfig
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    butane: Butane,
}

fn version(text: &str) -> Result<Version, String> {
    let known = || Version::ALL.map(Version::name).join(", ");
    Version::parse(text).map_err(|error| format!("{error}; known versions: {}", known()))
}

impl Translate {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut text = read(&self.file)?;
        let mut to = self.to.or(Some(Version::NEWEST_STABLE));
        if kernel::butane::is_butane(&text) {
            to = self.to;
            text = self.butane.translate(&self.file, &text, !self.raw && to.is_none())?.text;
        }
        if let Some(to) = to {
            text =
                crate::translate(&text, to).with_context(|| format!("{} can't be translated", self.file.display()))?;
        }
        print_config(&text)
    }
}
