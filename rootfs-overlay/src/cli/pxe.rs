//! `pxe`.

use super::{network, note, print, read_or_stdin};
use crate::area::{CONFIG_NAME, Features, NETWORK_PREFIX, features};
use crate::customize::Customizations;
use crate::initrd::{Archive, Compression, Names, scan};
use crate::output::{Output, OutputError, Unfinished, stdout};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A member that only live initrds have.
const LIVE_STAMP: &str = "etc/coreos-live-initramfs";
/// The system's declared features.
const FEATURES_PATH: &str = "etc/coreos/features.json";

/// Prepare CoreOS-style live systems that boot from the network
///
/// What an ISO would embed goes into an additional initrd here, which the boot loader loads after the system's initrd, or which is
/// appended to it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall pxe customize --dest-device /dev/sda --dest-ignition node.ign \\
    -o custom.img live-initramfs.img
  landfall pxe ignition wrap -i discovery.ign -o ignition.img
  landfall pxe network wrap -k eth0.nmconnection -o network.img

The kernel arguments must include ignition.firstboot ignition.platform.id=metal for an Ignition config to be applied.")]
pub struct Pxe {
    #[command(subcommand)]
    command: PxeCommand,
}

#[derive(Debug, Subcommand)]
enum PxeCommand {
    Customize(Customize),
    Bake(super::bake::PxeBake),
    /// Create or read an initrd with an Ignition config
    #[command(subcommand)]
    Ignition(Ignition),
    /// Create or read an initrd with network settings
    #[command(subcommand)]
    Network(Network),
}

#[derive(Debug, Subcommand)]
enum Ignition {
    Wrap(IgnitionWrap),
    Unwrap(IgnitionUnwrap),
}

#[derive(Debug, Subcommand)]
enum Network {
    Wrap(NetworkWrap),
    Unwrap(NetworkUnwrap),
}

impl Pxe {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            PxeCommand::Customize(customize) => customize.run(),
            PxeCommand::Bake(bake) => bake.run(),
            PxeCommand::Ignition(Ignition::Wrap(wrap)) => wrap.run(),
            PxeCommand::Ignition(Ignition::Unwrap(unwrap)) => unwrap.run(),
            PxeCommand::Network(Network::Wrap(wrap)) => wrap.run(),
            PxeCommand::Network(Network::Unwrap(unwrap)) => unwrap.run(),
        }
    }
}

/// Create an initrd whose live system configures itself or installs
///
/// The result is the live system's initrd followed by another archive.
#[derive(Debug, Args)]
struct Customize {
    #[command(flatten)]
    customizations: Customizations,
    /// Output file, or standard output with -
    #[arg(short, long, value_name = "path")]
    output: PathBuf,
    /// Initramfs of a CoreOS-style live system
    #[arg(value_name = "path")]
    input: PathBuf,
}

impl Customize {
    fn run(self) -> anyhow::Result<()> {
        let opening = || format!("opening {}", self.input.display());
        let mut input = File::open(&self.input).with_context(opening)?;
        match Output::from_path(Some(&self.output)) {
            Output::NewFile(path) => {
                let mut unfinished = Unfinished::create(&path)?;
                let packed = self.packed(&input)?;
                input.seek(SeekFrom::Start(0)).map_err(OutputError::Copy)?;
                io::copy(&mut input, unfinished.file()).map_err(OutputError::Copy)?;
                unfinished.file().write_all(&packed).context("writing initrd")?;
                Ok(unfinished.finish()?)
            }
            _ => {
                let mut out = stdout()?;
                // Only a regular file can be read twice.
                if input.stream_position().is_err() {
                    let packed = self.packed(Tee { from: input, to: &mut out })?;
                    return out.write_all(&packed).context("writing initrd");
                }
                let packed = self.packed(&input)?;
                input.seek(SeekFrom::Start(0)).map_err(OutputError::Stream)?;
                io::copy(&mut input, &mut out).map_err(OutputError::Stream)?;
                out.write_all(&packed).context("writing initrd")
            }
        }
    }

    /// What to append to the initrd read from `input`.
    fn packed(&self, input: impl Read) -> anyhow::Result<Vec<u8>> {
        let network = format!("{NETWORK_PREFIX}*");
        let names = Names::new(&[LIVE_STAMP, FEATURES_PATH, CONFIG_NAME, &network])?;
        let base = scan(input, &names).context("reading/copying input initrd")?;
        if base.get(LIVE_STAMP).is_none() {
            bail!("not a CoreOS live initramfs image");
        }
        if base.get(CONFIG_NAME).is_some() || !base.names_below(NETWORK_PREFIX).is_empty() {
            bail!("input is already customized");
        }
        let features = base.get(FEATURES_PATH).map_or(Ok(Features::default()), features)?;
        let archive = self.customizations.apply(features, &mut note)?;
        if archive.get(CONFIG_NAME).is_some() {
            note("PXE configuration must include kernel arguments:\n\tignition.firstboot ignition.platform.id=metal");
        }
        Ok(archive.pack(Compression::Xz)?)
    }
}

/// Copies what is read.
struct Tee<'a> {
    from: File,
    to: &'a mut File,
}

impl Read for Tee<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buf)?;
        self.to.write_all(&buf[..count])?;
        Ok(count)
    }
}

/// Put an Ignition config into a separate initrd
#[derive(Debug, Args)]
struct IgnitionWrap {
    /// The Ignition config [default: standard input]
    #[arg(short, long, value_name = "path")]
    ignition_file: Option<PathBuf>,
    /// File to write; an existing one is replaced [default: standard output]
    #[arg(short, long, value_name = "path")]
    output: Option<PathBuf>,
}

impl IgnitionWrap {
    fn run(self) -> anyhow::Result<()> {
        not_to_a_terminal(self.output.as_deref())?;
        let mut archive = Archive::new();
        archive.add(CONFIG_NAME, 0o600, read_or_stdin(self.ignition_file.as_deref())?)?;
        write(&archive, self.output.as_deref())
    }
}

/// Print the Ignition config in an initrd
#[derive(Debug, Args)]
struct IgnitionUnwrap {
    /// The initrd [default: standard input]
    #[arg(value_name = "initrd")]
    input: Option<PathBuf>,
}

impl IgnitionUnwrap {
    fn run(self) -> anyhow::Result<()> {
        let archive = scan(open(self.input.as_deref())?, &Names::new(&[CONFIG_NAME])?)?;
        print(archive.get(CONFIG_NAME).context("couldn't find Ignition config in archive")?)
    }
}

/// Put NetworkManager profiles into a separate initrd
#[derive(Debug, Args)]
struct NetworkWrap {
    /// NetworkManager profile, as a keyfile; may be repeated
    #[arg(short, long, required = true, value_name = "path")]
    keyfile: Vec<PathBuf>,
    /// File to write; an existing one is replaced [default: standard output]
    #[arg(short, long, value_name = "path")]
    output: Option<PathBuf>,
}

impl NetworkWrap {
    fn run(self) -> anyhow::Result<()> {
        not_to_a_terminal(self.output.as_deref())?;
        let mut archive = Archive::new();
        network::add_to(&mut archive, &self.keyfile)?;
        write(&archive, self.output.as_deref())
    }
}

/// Print or save the network settings in an initrd
#[derive(Debug, Args)]
struct NetworkUnwrap {
    /// Write each profile to this directory instead of printing them
    #[arg(short = 'C', long, value_name = "path")]
    directory: Option<PathBuf>,
    /// The initrd [default: standard input]
    #[arg(value_name = "initrd")]
    input: Option<PathBuf>,
}

impl NetworkUnwrap {
    fn run(self) -> anyhow::Result<()> {
        let names = Names::new(&[format!("{NETWORK_PREFIX}*")])?;
        network::extract_to(&scan(open(self.input.as_deref())?, &names)?, self.directory.as_deref())
    }
}

fn not_to_a_terminal(output: Option<&Path>) -> Result<(), OutputError> {
    if output.is_none() { stdout().map(drop) } else { Ok(()) }
}

/// Writes a file, replacing an existing one, or to standard output.
fn write(archive: &Archive, output: Option<&Path>) -> anyhow::Result<()> {
    let packed = archive.pack(Compression::Xz)?;
    match output {
        Some(path) => std::fs::write(path, packed).with_context(|| format!("writing {}", path.display())),
        None => stdout()?.write_all(&packed).context("writing output"),
    }
}

/// A file, or standard input.
pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Box<dyn Read>> {
    Ok(match path {
        Some(path) => Box::new(File::open(path).with_context(|| format!("opening {}", path.display()))?),
        None => Box::new(io::stdin().lock()),
    })
}
