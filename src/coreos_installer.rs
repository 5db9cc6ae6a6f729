//! The same program under the name `coreos-installer`, for the scripts and units that call it: its command line, its errors.

use clap::Parser;
use std::{ffi::OsString, process::ExitCode};

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
    Iso(Iso),
    /// Download a CoreOS image (not there yet)
    Download(NotYet),
    /// List available images in a Fedora CoreOS stream (not there yet)
    ListStream(NotYet),
    /// Commands to manage a CoreOS live PXE image (not there yet)
    Pxe(NotYet),
    /// Metadata packing commands
    #[command(hide = true)]
    Pack(NotYet),
    /// Development commands
    #[command(hide = true)]
    Dev(NotYet),
}

#[derive(Debug, clap::Subcommand)]
enum Iso {
    Ignition(rootfs_overlay::cli::Ignition),
    /// Customize a CoreOS live ISO image (not there yet)
    Customize(NotYet),
    /// Embed network settings in an ISO image (not there yet)
    Network(NotYet),
    /// Modify kernel args in an ISO image (not there yet)
    Kargs(NotYet),
    /// Extract files from an ISO image (not there yet)
    Extract(NotYet),
    /// Restore an ISO image to default settings (not there yet)
    Reset(NotYet),
}

/// Whatever is said to a command that is not there.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
struct NotYet {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// The program under this name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
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
            Self::Download(command) => command.run("download"),
            Self::ListStream(command) => command.run("list-stream"),
            Self::Pxe(command) => command.run("pxe"),
            Self::Pack(command) => command.run("pack"),
            Self::Dev(command) => command.run("dev"),
        }
    }
}

impl Iso {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Ignition(ignition) => ignition.run(),
            Self::Customize(command) => command.run("iso customize"),
            Self::Network(command) => command.run("iso network"),
            Self::Kargs(command) => command.run("iso kargs"),
            Self::Extract(command) => command.run("iso extract"),
            Self::Reset(command) => command.run("iso reset"),
        }
    }
}

impl NotYet {
    fn run<T>(&self, name: &str) -> anyhow::Result<T> {
        anyhow::bail!(
            "landfall, which was called as {NAME} here, has no '{name}' yet (asked for with {} arguments); \
             use {NAME} itself for it",
            self.words.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_not_there_yet_says_so_whatever_is_said_to_it() {
        for line in [
            &["download", "-s", "stable", "-f", "iso"][..],
            &["list-stream"],
            &["pxe", "customize", "--help"],
            &["iso", "kargs", "modify", "-a", "x"],
            &["dev", "show"],
        ] {
            let cli = Cli::try_parse_from([&[NAME], line].concat()).unwrap();
            let error = cli.command.run().unwrap_err().to_string();
            assert!(error.contains("yet"), "{line:?}: {error}");
        }
        let help = Cli::command().render_help().to_string();
        assert_eq!(help.matches("(not there yet)").count(), 3, "{help}");
    }
}
