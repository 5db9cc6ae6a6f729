//! `iso kargs`.

use super::{Target, print};
use crate::area::LiveIso;
use crate::kargs::Edit;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// Change or print the kernel arguments of a live ISO
///
/// They apply to the live system, under BIOS and UEFI. For the installed system use `iso customize --dest-karg-append`.
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

/// Add, remove and change kernel arguments
///
/// Arguments are deleted first, then appended, then replaced.
#[derive(Debug, Args)]
struct Modify {
    /// Argument to append; may be repeated
    #[arg(short, long, value_name = "KARG")]
    append: Vec<String>,
    /// Argument to remove; may be repeated
    #[arg(short, long, value_name = "KARG")]
    delete: Vec<String>,
    /// Argument whose value to change from OLDVAL to NEWVAL; may be repeated
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

/// Restore the original arguments of the ISO
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

/// Print the arguments
#[derive(Debug, Args)]
struct Show {
    /// Print the original arguments of the ISO
    #[arg(short, long)]
    default: bool,
    /// The live ISO
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
