//! `landfall iso` and `landfall pxe`, and coreos-installer's commands of the same names, also `dev` and `pack`: the same flags, output
//! and errors (docs/compatibility.md#coreos-installer-commands), so that scripts for one work with the other.

mod bake;
mod customize;
mod dev;
mod extract;
mod ignition;
mod kargs;
mod network;
#[cfg(feature = "pack-osmet")]
mod osmet;
mod pxe;
#[cfg(test)]
mod tests;

pub use self::dev::{Dev, Pack};
pub use self::ignition::Ignition;
pub use self::pxe::Pxe;

use crate::area::{LiveIso, Output};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Inspect and modify CoreOS-style live ISO images
///
/// A live ISO has areas for an Ignition config, network settings and kernel arguments. Commands change it in place, into a new
/// file (--output FILE, which must not exist) or into a pipe (--output -).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall iso customize --dest-device /dev/sda --dest-ignition node.ign \\
    -o install.iso live.iso
  landfall iso ignition embed -i discovery.ign -o discovery.iso live.iso
  landfall iso kargs modify -a console=ttyS0,115200n8 -d quiet live.iso
  landfall iso bake --url https://service.example.com --infra-env-id 5a1e… \\
    -o discovery.iso live.iso
  landfall iso reset live.iso")]
pub struct Iso {
    #[command(subcommand)]
    command: IsoCommand,
}

/// The commands, under both names.
#[derive(Debug, Subcommand)]
pub enum IsoCommand {
    /// Embed an Ignition config in a live ISO
    #[command(hide = true)]
    Embed(ignition::OldEmbed),
    /// Print the Ignition config in a live ISO
    #[command(hide = true)]
    Show(ignition::Show),
    /// Remove the Ignition config from a live ISO
    #[command(hide = true)]
    Remove(ignition::Remove),
    Customize(customize::IsoCustomize),
    Ignition(Ignition),
    Network(network::Network),
    Kargs(kargs::Kargs),
    #[command(subcommand)]
    Extract(extract::Extract),
    Reset(Reset),
    Bake(bake::IsoBake),
}

impl Iso {
    /// Runs the subcommand. Adds the image to errors, as coreos-installer's texts often lack it.
    pub fn run(self) -> anyhow::Result<()> {
        let image = self.command.image().display().to_string();
        self.command.run().map_err(|error| match format!("{error:#}").contains(&image) {
            true => error,
            false => error.context(image),
        })
    }
}

impl IsoCommand {
    /// Its image.
    fn image(&self) -> &Path {
        match self {
            Self::Embed(embed) => embed.image(),
            Self::Show(show) => show.image(),
            Self::Remove(remove) => remove.image(),
            Self::Customize(customize) => customize.image(),
            Self::Ignition(ignition) => ignition.image(),
            Self::Network(network) => network.image(),
            Self::Kargs(kargs) => kargs.image(),
            Self::Extract(extract) => extract.image(),
            Self::Reset(reset) => &reset.target.input,
            Self::Bake(bake) => bake.image(),
        }
    }

    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Embed(embed) => embed.run(),
            Self::Show(show) => {
                deprecated("show");
                show.run()
            }
            Self::Remove(remove) => {
                deprecated("remove");
                remove.run()
            }
            Self::Customize(customize) => customize.run(),
            Self::Ignition(ignition) => ignition.run(),
            Self::Network(network) => network.run(),
            Self::Kargs(kargs) => kargs.run(),
            Self::Extract(extract) => extract.run(),
            Self::Reset(reset) => reset.run(),
            Self::Bake(bake) => bake.run(),
        }
    }
}

/// Undo all changes to a live ISO
///
/// Removes the Ignition config and the network settings, and restores the original kernel arguments.
#[derive(Debug, Args)]
pub struct Reset {
    #[command(flatten)]
    target: Target,
}

impl Reset {
    fn run(self) -> anyhow::Result<()> {
        let (iso, output) = self.target.open()?;
        let mut patches = iso.replace(&crate::initrd::Archive::new())?;
        if let Some(kargs) = iso.kargs_if_any() {
            patches.extend(kargs.patches(kargs.default_arguments())?);
        }
        Ok(iso.write(patches, &output)?)
    }
}

/// An ISO to change, and where to write it.
#[derive(Debug, Args)]
pub struct Target {
    /// New file for the changed ISO, or - for standard output [default: the ISO is changed in place]
    #[arg(short, long, value_name = "path")]
    output: Option<PathBuf>,
    /// The live ISO
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

impl Target {
    fn open(&self) -> anyhow::Result<(LiveIso, Output)> {
        let output = Output::from_path(self.output.as_deref());
        Ok((LiveIso::open_for(&self.input, &output)?, output))
    }
}

/// Notes that a command has a newer name.
fn deprecated(name: &str) {
    note(&format!("`iso {name}` is deprecated; use `iso ignition {name}`.  Continuing."));
}

/// Prints a line on standard error. A closed one is not a failure.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a result. A closed pipe is not a failure.
fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("writing output"),
    }
}

/// The bytes of a file, or of standard input.
fn read_or_stdin(path: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    match path {
        Some(path) => crate::customize::read(path),
        None => {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).context("reading stdin")?;
            Ok(bytes)
        }
    }
}
