//! The same program under the name `coreos-installer`, for the scripts and units that call it: its command line, its errors.

use clap::{CommandFactory, FromArgMatches, Parser};
use std::process::ExitCode;

/// The program whose place is taken, and the version whose command line ours is.
pub const NAME: &str = "coreos-installer";
const VERSION: &str = concat!("0.27.0 (landfall ", env!("CARGO_PKG_VERSION"), ")");

/// Installer for Fedora CoreOS and RHEL CoreOS, as landfall does it
#[derive(Debug, Parser)]
#[command(name = NAME, version = VERSION, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
This is landfall under another name; landfall's own commands are there under its own."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Install(installer::cli::Install),
    /// Commands to manage a CoreOS live ISO image
    #[command(subcommand)]
    Iso(rootfs_overlay::cli::IsoCommand),
    Download(installer::download::Download),
    ListStream(installer::download::ListStream),
    /// Commands to manage a CoreOS live PXE image
    Pxe(rootfs_overlay::cli::Pxe),
    #[command(hide = true)]
    Pack(rootfs_overlay::cli::Pack),
    #[command(hide = true)]
    Dev(rootfs_overlay::cli::Dev),
}

/// Its command line: what only landfall has is there, and not told of.
fn command() -> clap::Command {
    let without_bake = |image: clap::Command| image.mut_subcommand("bake", |bake| bake.hide(true));
    Cli::command().mut_subcommand("iso", without_bake).mut_subcommand("pxe", without_bake)
}

/// The program under this name.
pub fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    // What people and programs read is standard error; only what they should know is added to it.
    crate::log::start("warn", &agent::dropin::Logging::default(), None);
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            crate::complain(format_args!("Error: {error:?}"));
            ExitCode::FAILURE
        }
    }
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Install(install) => install.run_as(installer::cli::Voice::CoreosInstaller, &crate::send_logs),
            Self::Iso(iso) => iso.run().map(|()| ExitCode::SUCCESS),
            Self::Download(download) => download.run().map(|()| ExitCode::SUCCESS),
            Self::ListStream(list) => list.run().map(|()| ExitCode::SUCCESS),
            Self::Pxe(pxe) => pxe.run().map(|()| ExitCode::SUCCESS),
            Self::Pack(pack) => pack.run().map(|()| ExitCode::SUCCESS),
            Self::Dev(dev) => dev.run().map(|()| ExitCode::SUCCESS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_not_there_says_so_whatever_is_said_to_it() {
        let cli = Cli::try_parse_from([NAME, "pack", "osmet", "--help"]).unwrap();
        let error = cli.command.run().unwrap_err().to_string();
        assert!(error.contains("use coreos-installer"), "{error}");
    }
}
