//! `landfall iso`.

use crate::area::{LiveIso, Output};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// A larger input is no config for an area of 256 KiB, however well it compresses.
const MAX_CONFIG_BYTES: u64 = 64 << 20;

/// Look into and change CoreOS-style live ISO images.
#[derive(Debug, Args)]
pub struct Iso {
    #[command(subcommand)]
    command: IsoCommand,
}

#[derive(Debug, Subcommand)]
enum IsoCommand {
    Ignition(Ignition),
}

impl Iso {
    /// Runs the subcommand.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            IsoCommand::Ignition(ignition) => ignition.run(),
        }
    }
}

/// The Ignition config embedded in a live ISO.
///
/// A live ISO has a small area (256 KiB) for an Ignition config, which the live system applies while it boots. Network settings
/// kept in the same area are left as they are.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall iso ignition embed -i discovery.ign -o discovery.iso fedora-coreos-live.x86_64.iso\n  \
    landfall iso ignition show discovery.iso\n  \
    landfall iso ignition remove discovery.iso")]
pub struct Ignition {
    #[command(subcommand)]
    command: IgnitionCommand,
}

#[derive(Debug, Subcommand)]
enum IgnitionCommand {
    Embed(Embed),
    Show(Show),
    Remove(Remove),
}

impl Ignition {
    /// Runs the subcommand.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            IgnitionCommand::Embed(embed) => embed.run(),
            IgnitionCommand::Show(show) => show.run(),
            IgnitionCommand::Remove(remove) => remove.run(),
        }
    }
}

/// Embed an Ignition config in an ISO image
///
/// The image is changed in place unless --output says otherwise.
#[derive(Debug, Args)]
pub struct Embed {
    /// Overwrite an existing Ignition config
    #[arg(short, long)]
    force: bool,
    /// Ignition config to embed [default: standard input]
    #[arg(short, long, value_name = "PATH")]
    ignition_file: Option<PathBuf>,
    /// Write the changed image to a new file, or to standard output with -
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// ISO image
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

impl Embed {
    /// Embeds.
    pub fn run(self) -> anyhow::Result<()> {
        let output = output(self.output)?;
        let config = read_config(self.ignition_file.as_deref())?;
        let iso = LiveIso::open(self.input)?;
        let patch = iso.embed(&config, self.force)?;
        iso.write(patch, &output)?;
        Ok(())
    }
}

/// Show the embedded Ignition config of an ISO image
///
/// It is printed as it was embedded, byte by byte. Without one, the exit status is 1.
#[derive(Debug, Args)]
pub struct Show {
    /// ISO image
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

impl Show {
    /// Prints the config.
    pub fn run(self) -> anyhow::Result<()> {
        let config = LiveIso::open(self.input)?.ignition()?;
        let mut out = std::io::stdout().lock();
        out.write_all(&config).and_then(|()| out.flush()).context("standard output can't be written")
    }
}

/// Remove an existing embedded Ignition config from an ISO image
///
/// An image without one stays as it is.
#[derive(Debug, Args)]
pub struct Remove {
    /// Write the changed image to a new file, or to standard output with -
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// ISO image
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

impl Remove {
    /// Removes.
    pub fn run(self) -> anyhow::Result<()> {
        let output = output(self.output)?;
        let iso = LiveIso::open(self.input)?;
        let patch = iso.remove()?;
        iso.write(patch, &output)?;
        Ok(())
    }
}

fn output(path: Option<PathBuf>) -> anyhow::Result<Output> {
    Ok(match path {
        None => Output::InPlace,
        Some(path) if path == Path::new("-") => {
            anyhow::ensure!(
                !std::io::stdout().is_terminal(),
                "refusing to write an ISO image to a terminal; redirect it"
            );
            Output::Stdout
        }
        Some(path) => Output::NewFile(path),
    })
}

fn read_config(path: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let (name, input): (_, Box<dyn Read>) = match path {
        None => ("standard input".to_owned(), Box::new(std::io::stdin().lock())),
        Some(path) => {
            let name = path.display().to_string();
            let file = std::fs::File::open(path).with_context(|| format!("{name} can't be opened"))?;
            (name, Box::new(file))
        }
    };
    let mut config = Vec::new();
    input.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut config).with_context(|| format!("{name} can't be read"))?;
    let fits = u64::try_from(config.len()).is_ok_and(|len| len <= MAX_CONFIG_BYTES);
    anyhow::ensure!(fits, "{name} is larger than {MAX_CONFIG_BYTES} bytes");
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        iso: Iso,
    }

    fn parse(arguments: &str) -> Result<IgnitionCommand, clap::Error> {
        let words = std::iter::once("iso").chain(arguments.split_whitespace());
        Program::try_parse_from(words).map(|program| match program.iso.command {
            IsoCommand::Ignition(ignition) => ignition.command,
        })
    }

    #[test]
    fn the_flags_are_those_of_coreos_installer() {
        let embed = parse("ignition embed -f -i a.ign -o - live.iso").unwrap();
        let IgnitionCommand::Embed(embed) = embed else { panic!("{embed:?}") };
        assert!(embed.force);
        assert_eq!(embed.ignition_file.as_deref(), Some(Path::new("a.ign")));
        assert_eq!(embed.output.as_deref(), Some(Path::new("-")));
        for good in [
            "ignition embed --force --ignition-file a.ign --output b.iso live.iso",
            "ignition embed live.iso",
            "ignition show live.iso",
            "ignition remove -o b.iso live.iso",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["ignition embed", "ignition show -o a live.iso", "ignition show a b", "ignition"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn in_place_is_the_default() {
        assert_eq!(output(None).unwrap(), Output::InPlace);
        assert_eq!(output(Some("b.iso".into())).unwrap(), Output::NewFile("b.iso".into()));
    }
}
