//! `iso network`, and what `pxe network` has in common with it.

use super::{Target, print};
use crate::area::{LiveIso, NETWORK_PREFIX};
use crate::customize::{file_name, read};
use crate::initrd::Archive;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::fs::{OpenOptions, create_dir_all};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Embed, print or remove the network settings of a live ISO
///
/// They are NetworkManager profiles that apply before Ignition runs, unlike network settings in an Ignition config.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall iso network embed -k eth0.nmconnection \\
    -k bond0.nmconnection live.iso
  landfall iso network extract -C keyfiles live.iso
  landfall iso network remove live.iso")]
pub struct Network {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Embed(Embed),
    Extract(Extract),
    Remove(Remove),
}

impl Network {
    pub(super) fn image(&self) -> &Path {
        match &self.command {
            Command::Embed(embed) => &embed.target.input,
            Command::Extract(extract) => &extract.input,
            Command::Remove(remove) => &remove.target.input,
        }
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Embed(embed) => embed.run(),
            Command::Extract(extract) => {
                extract_to(LiveIso::open(extract.input)?.archive(), extract.directory.as_deref())
            }
            Command::Remove(remove) => remove.run(),
        }
    }
}

/// Embed NetworkManager profiles in a live ISO
///
/// With --force they replace all existing profiles.
#[derive(Debug, Args)]
struct Embed {
    /// NetworkManager profile, as a keyfile; may be repeated
    #[arg(short, long, required = true, value_name = "path")]
    keyfile: Vec<PathBuf>,
    /// Replace existing profiles
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    target: Target,
}

impl Embed {
    fn run(self) -> anyhow::Result<()> {
        let (mut iso, output) = self.target.open()?;
        if !iso.features()?.live_initrd_network {
            bail!("This OS image does not support customizing network settings.");
        }
        let mut archive = iso.archive().clone();
        if !remove_from(&mut archive).is_empty() && !self.force {
            bail!("This ISO image already has embedded network settings; use -f to force.");
        }
        add_to(&mut archive, &self.keyfile)?;
        Ok(iso.write(iso.replace(&archive)?, &output)?)
    }
}

/// Print the network settings in a live ISO, or save them
///
/// Without --directory they are printed, each below its name. Files that exist are not overwritten.
#[derive(Debug, Args)]
struct Extract {
    /// Write each profile to this directory instead of printing them
    #[arg(short = 'C', long, value_name = "path")]
    directory: Option<PathBuf>,
    /// The live ISO
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

/// Remove the network settings from a live ISO
///
/// An image without any stays as it is.
#[derive(Debug, Args)]
struct Remove {
    #[command(flatten)]
    target: Target,
}

impl Remove {
    fn run(self) -> anyhow::Result<()> {
        let (iso, output) = self.target.open()?;
        let mut archive = iso.archive().clone();
        remove_from(&mut archive);
        Ok(iso.write(iso.replace(&archive)?, &output)?)
    }
}

/// Removes all network settings; returns their paths.
fn remove_from(archive: &mut Archive) -> Vec<String> {
    let paths = archive.names_below(NETWORK_PREFIX);
    for path in &paths {
        archive.remove(path);
    }
    paths
}

/// Adds keyfiles.
pub(super) fn add_to(archive: &mut Archive, keyfiles: &[PathBuf]) -> anyhow::Result<()> {
    for path in keyfiles {
        let content = read(path)?;
        let name = file_name(path)?;
        let path = format!("{NETWORK_PREFIX}{name}");
        if archive.get(&path).is_some() {
            bail!("multiple input files named '{name}'");
        }
        archive.add(&path, 0o600, content)?;
    }
    Ok(())
}

/// Writes all network settings into a directory, or prints them.
pub(super) fn extract_to(archive: &Archive, directory: Option<&Path>) -> anyhow::Result<()> {
    let paths = archive.names_below(NETWORK_PREFIX);
    if paths.is_empty() {
        bail!("No embedded network settings.");
    }
    if let Some(directory) = directory {
        create_dir_all(directory)?;
    }
    let mut text = Vec::new();
    for path in &paths {
        let content = archive.get(path).unwrap_or_default();
        let name = file_name(Path::new(path))?;
        if let Some(directory) = directory {
            let path = directory.join(name);
            write_new(&path, content)?;
            print(format!("{}\n", path.display()).as_bytes())?;
        } else {
            if !text.is_empty() {
                text.push(b'\n');
            }
            text.extend_from_slice(format!("########## {name} ##########\n").as_bytes());
            text.extend_from_slice(content);
        }
    }
    print(&text)
}

/// Writes a new file.
pub(super) fn write_new(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let file = OpenOptions::new().create_new(true).write(true).open(path);
    let mut file = file.with_context(|| format!("opening {}", path.display()))?;
    file.write_all(content).with_context(|| format!("writing {}", path.display()))
}
