//! The program under the name `rdcore`, which the initramfs of CoreOS systems calls: the same command line and errors.

use clap::{CommandFactory, FromArgMatches, Parser};
use installer::rdcore::Command;
use std::process::ExitCode;

pub(crate) const NAME: &str = "rdcore";

/// What the first boot of a CoreOS system asks, from its initramfs
#[derive(Debug, Parser)]
#[command(name = NAME, version = crate::coreos_installer::VERSION, max_term_width = 80, disable_help_subcommand = true)]
#[command(after_help = "This is landfall, called as rdcore. Run it as landfall for all of its commands.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// The program under this name.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    crate::log::start("warn", crate::log::wants_color(), &agent::dropin::Logging::default(), None, false);
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::complain(format_args!("Error: {error:?}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn zipl_says_where_it_is_whatever_its_arguments() {
        let cli = Cli::try_parse_from([NAME, "zipl", "--boot-mount", "/boot", "-k", "key", "--help"]).unwrap();
        let error = cli.command.run().unwrap_err().to_string();
        assert!(error.contains("s390x"), "{error}");
    }
}
