//! The program under the name `coreos-installer`, for scripts and units that call it: the same command line and errors.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// The program replaced, and the version whose command line we follow.
pub(crate) const NAME: &str = "coreos-installer";
pub(crate) const VERSION: &str = concat!("0.27.0 (landfall ", env!("CARGO_PKG_VERSION"), ")");

/// Install CoreOS systems and prepare their images
#[derive(Debug, Parser)]
#[command(name = NAME, version = VERSION, max_term_width = 80, disable_help_subcommand = true)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
This is landfall, called as coreos-installer. Run it as landfall for all of its commands."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Install(installer::cli::Install),
    /// Inspect and modify live ISO images
    #[command(subcommand)]
    Iso(rootfs_overlay::cli::IsoCommand),
    Download(installer::download::Download),
    ListStream(installer::download::ListStream),
    /// Prepare live systems that boot from the network
    Pxe(rootfs_overlay::cli::Pxe),
    #[command(hide = true)]
    Pack(rootfs_overlay::cli::Pack),
    #[command(hide = true)]
    Dev(rootfs_overlay::cli::Dev),
}

/// Its command line; only that of the subcommand `first` if there is one.
pub(crate) fn command(first: Option<&str>) -> clap::Command {
    let Some(one) = first.and_then(one) else {
        let whole = Cli::command().mut_subcommand("iso", without_bake).mut_subcommand("pxe", without_bake);
        // Users of the replaced program get its usage line with errors.
        let usage = |osmet: clap::Command| osmet.override_usage("coreos-installer pack osmet [OPTIONS]");
        return whole.mut_subcommand("pack", |pack| pack.mut_subcommand("osmet", usage));
    };
    let whole = clap::Command::new(NAME).version(VERSION).max_term_width(80).disable_help_subcommand(true);
    whole.subcommand_required(true).arg_required_else_help(true).subcommand(one)
}

/// One of [`Command`], by its name.
fn one(name: &str) -> Option<clap::Command> {
    let new = |name: &'static str| clap::Command::new(name);
    Some(match name {
        "install" => installer::cli::Install::augment_args(new("install")),
        "iso" => {
            let iso = rootfs_overlay::cli::IsoCommand::augment_subcommands(new("iso")).subcommand_required(true);
            without_bake(iso.arg_required_else_help(true)).about("Inspect and modify live ISO images")
        }
        "download" => installer::download::Download::augment_args(new("download")),
        "list-stream" => installer::download::ListStream::augment_args(new("list-stream")),
        "pxe" => {
            let pxe = without_bake(rootfs_overlay::cli::Pxe::augment_args(new("pxe")));
            pxe.about("Prepare live systems that boot from the network").long_about(None)
        }
        _ => return None,
    })
}

/// `bake` is landfall's only: it works, but help does not list it.
fn without_bake(image: clap::Command) -> clap::Command {
    image.mut_subcommand("bake", |bake| bake.hide(true))
}

/// The program under this name.
pub(crate) fn main() -> ExitCode {
    let first = std::env::args_os().nth(1);
    let matches = command(first.as_deref().and_then(|word| word.to_str())).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // Users and programs read standard error: log warnings and errors only.
    crate::log::start("warn", crate::log::wants_color(), &agent::dropin::Logging::default(), None, false);
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
            Self::Install(install) => install.run_as(installer::cli::Voice::CoreosInstaller),
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
    use crate::commands::texts;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_alone_is_the_one_among_all() {
        let mut whole = command(None);
        whole.build();
        let all: Vec<_> = whole.get_subcommands().filter(|command| !command.is_hide_set()).collect();
        assert_eq!(all.len(), 5);
        for among in all {
            let mut alone = command(Some(among.get_name()));
            alone.build();
            let alone = alone.find_subcommand(among.get_name()).unwrap();
            assert_eq!(texts(alone), texts(among), "{}", among.get_name());
        }
    }

    #[test]
    fn what_only_image_builders_need_is_in_the_full_program() {
        let osmet = ["--output", "/no/such/file", "--checksum", "00", "--description", "OS", "/dev/null"];
        let cli = Cli::try_parse_from([NAME, "pack", "osmet"].into_iter().chain(osmet)).unwrap();
        let error = cli.command.run().unwrap_err().to_string();
        let expected = if cfg!(feature = "hub") { "'00' is not a SHA-256" } else { "use the full program" };
        assert!(error.contains(expected), "{error}");
    }
}
