//! `iso ignition`.

use super::{Target, deprecated, note, print, read_or_stdin};
use crate::area::LiveIso;
use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use std::path::{Path, PathBuf};

/// Embed, print or remove the Ignition config of a live ISO
///
/// A live ISO has a small area (256 KiB) for an Ignition config, which the live system applies while it boots. Network settings in
/// the same area are left as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall iso ignition embed -i discovery.ign \\
    -o discovery.iso fedora-coreos-live.x86_64.iso
  landfall iso ignition show discovery.iso
  landfall iso ignition remove discovery.iso")]
pub struct Ignition {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Embed(Embed),
    Show(Show),
    Remove(Remove),
}

impl Ignition {
    pub(super) fn image(&self) -> &Path {
        match &self.command {
            Command::Embed(embed) => &embed.target.input,
            Command::Show(show) => show.image(),
            Command::Remove(remove) => remove.image(),
        }
    }

    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Embed(embed) => embed.run(),
            Command::Show(show) => show.run(),
            Command::Remove(remove) => remove.run(),
        }
    }
}

/// Embed an Ignition config in a live ISO
///
/// The image is changed in place unless --output says otherwise.
#[derive(Debug, Args)]
pub(super) struct Embed {
    /// Replace an existing config
    #[arg(short, long)]
    force: bool,
    /// Ignition config [default: standard input]
    #[arg(short, long, value_name = "path")]
    ignition_file: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

impl Embed {
    fn run(self) -> anyhow::Result<()> {
        let config = read_or_stdin(self.ignition_file.as_deref())?;
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(&config) {
            note(&format!(
                "Warning: the Ignition config is not valid JSON ({error}), and the live system will not boot with it; \
                 a Butane config must be translated first"
            ));
        }
        let (iso, output) = self.target.open()?;
        Ok(iso.write(iso.embed(&config, self.force)?, &output)?)
    }
}

/// The same under its former name and flag.
#[derive(Debug, Args)]
pub struct OldEmbed {
    /// Ignition config [default: standard input]
    #[arg(short, long, value_name = "path")]
    config: Option<PathBuf>,
    /// Replace an existing config
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    target: Target,
}

impl OldEmbed {
    pub(super) fn image(&self) -> &Path {
        &self.target.input
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        deprecated("embed");
        Embed { force: self.force, ignition_file: self.config, target: self.target }.run()
    }
}

/// Print the Ignition config in a live ISO
///
/// It is printed as embedded, byte for byte. Without one, the exit status is 1.
#[derive(Debug, Args)]
pub struct Show {
    /// The live ISO
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

impl Show {
    pub(super) fn image(&self) -> &Path {
        &self.input
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        print(&LiveIso::open(self.input)?.ignition()?)
    }
}

/// Remove the Ignition config from a live ISO
///
/// An image without one stays as it is.
#[derive(Debug, Args)]
pub struct Remove {
    #[command(flatten)]
    target: Target,
}

impl Remove {
    pub(super) fn image(&self) -> &Path {
        &self.target.input
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        let (iso, output) = self.target.open()?;
        Ok(iso.write(iso.remove()?, &output)?)
    }
}
