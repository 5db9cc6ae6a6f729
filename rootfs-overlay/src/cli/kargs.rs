//! `iso kargs`.

use super::{Target, print};
use crate::area::LiveIso;
use crate::kargs::Edit;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// Modify kernel args in a CoreOS live ISO image
///
/// Those of the live system, for BIOS and UEFI alike. Those of the installed system are `iso customize --dest-karg-append`'s.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall iso kargs modify -a console=ttyS0,115200n8 -d quiet live.iso
  landfall iso kargs modify -r mitigations=auto,nosmt=off live.iso
  landfall iso kargs show --default live.iso
  landfall iso kargs reset live.iso")]
pub struct Kargs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Modify(Modify),
    Reset(Reset),
    Show(Show),
}

impl Kargs {
    pub(super) fn image(&self) -> &Path {
        match &self.command {
            Command::Modify(modify) => &modify.target.input,
            Command::Reset(reset) => &reset.target.input,
            Command::Show(show) => &show.input,
        }
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Modify(modify) => modify.run(),
            Command::Reset(reset) => reset.run(),
            Command::Show(show) => show.run(),
        }
    }
}

/// Modify kernel args in an ISO image
///
/// Arguments are deleted first, then appended, then replaced.
#[derive(Debug, Args)]
struct Modify {
    /// Kernel argument to append
    #[arg(short, long, value_name = "KARG")]
    append: Vec<String>,
    /// Kernel argument to delete
    #[arg(short, long, value_name = "KARG")]
    delete: Vec<String>,
    /// Kernel argument to replace
    #[arg(short, long, value_name = "KARG=OLDVAL=NEWVAL")]
    replace: Vec<String>,
    #[command(flatten)]
    target: Target,
}

impl Modify {
    fn run(self) -> anyhow::Result<()> {
        let (iso, output) = self.target.open()?;
        let kargs = iso.kargs()?;
        let edit = Edit { delete: self.delete, append: self.append, replace: self.replace };
        Ok(iso.write(kargs.patches(&edit.apply(kargs.current())?)?, &output)?)
    }
}

/// Reset kernel args in an ISO image to defaults
#[derive(Debug, Args)]
struct Reset {
    #[command(flatten)]
    target: Target,
}

impl Reset {
    fn run(self) -> anyhow::Result<()> {
        let (iso, output) = self.target.open()?;
        let kargs = iso.kargs()?;
        Ok(iso.write(kargs.patches(kargs.default_arguments())?, &output)?)
    }
}

/// Show kernel args from an ISO image
#[derive(Debug, Args)]
struct Show {
    /// Show default kernel args
    #[arg(short, long)]
    default: bool,
    /// ISO image
    #[arg(value_name = "ISO")]
    input: PathBuf,
}

impl Show {
    fn run(self) -> anyhow::Result<()> {
        let iso = LiveIso::open(self.input)?;
        let kargs = iso.kargs()?;
        let arguments = if self.default { kargs.default_arguments() } else { kargs.current() };
        print(format!("{arguments}\n").as_bytes())
    }
}
