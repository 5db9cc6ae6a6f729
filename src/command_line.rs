//! The command line, built as far as it is asked for: all of it takes longer than most commands do.

use super::{Cli, Command, NAME};
use clap::{Args, CommandFactory, FromArgMatches};
use std::ffi::{OsStr, OsString};

/// A command by its name: its options, without those of all others.
macro_rules! commands {
    ($($name:literal => $arguments:ty,)*) => {
        /// Their names, as [`Command`] has them.
        pub const NAMES: &[&str] = &[$($name),*];

        fn command(name: &str) -> Option<clap::Command> {
            match name {
                $($name => Some(<$arguments>::augment_args(clap::Command::new($name))),)*
                _ => None,
            }
        }
    };
}

commands! {
    "agent" => agent::cli::Agent,
    "inventory" => inventory::cli::Inventory,
    "report" => inventory::report::cli::Report,
    "capture" => inventory::capture::cli::Capture,
    "netcheck" => netcheck::cli::Netcheck,
    "install" => installer::cli::Install,
    "download" => installer::download::Download,
    "list-stream" => installer::download::ListStream,
    "disk" => installer::disk_cli::Disk,
    "wipe" => installer::wipe_cli::Wipe,
    "boot-order" => installer::boot_order::cli::BootOrder,
    "reclaim" => installer::reclaim::cli::Reclaim,
    "ignition" => ignition::cli::Ignition,
    "iso" => rootfs_overlay::cli::Iso,
    "pxe" => rootfs_overlay::cli::Pxe,
    "dev" => rootfs_overlay::cli::Dev,
    "pack" => rootfs_overlay::cli::Pack,
    "image" => rootfs_overlay::image_cli::Image,
    "logs" => agent::logs::cli::Logs,
    "serve" => service_stub::cli::Serve,
    "cluster" => service_stub::control::cluster::Cluster,
    "infra-env" => service_stub::control::infra_env::InfraEnv,
    "host" => service_stub::control::host::Host,
    "event" => service_stub::control::event::Event,
    "wait" => service_stub::control::wait::Wait,
    "completion" => super::Completion,
    "man" => crate::man::Pages,
}

/// Whether this is one of our own commands.
pub fn is_command(word: &OsStr) -> bool {
    word == "help" || word.to_str().is_some_and(|word| NAMES.contains(&word))
}

/// The command that these words are, behind the name the program is called by.
pub fn parse(program: &OsStr, words: Vec<OsString>) -> Result<Command, clap::Error> {
    // Whoever doesn't begin with a command gets to hear of all of them.
    let one = words.first().and_then(|word| word.to_str()).and_then(command);
    let mut whole = match one {
        Some(one) => alone(one),
        None => Cli::command(),
    };
    let matches = whole.try_get_matches_from_mut(std::iter::once(program.to_owned()).chain(words))?;
    Ok(Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut whole))?.command)
}

/// What [`Cli`] says of the whole, with this command only.
fn alone(command: clap::Command) -> clap::Command {
    let whole = clap::Command::new(NAME).version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    whole.max_term_width(80).subcommand_required(true).arg_required_else_help(true).subcommand(command)
}

/// All that is said of a command and those below it.
#[cfg(test)]
pub fn said(command: &clap::Command) -> Vec<String> {
    let mut command = command.clone();
    let mut all = vec![format!("{:?} {:?}", command.get_name(), command.get_version())];
    all.push(command.render_long_help().to_string());
    all.extend(command.get_subcommands().flat_map(said));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_command_alone_is_the_one_among_all() {
        let mut whole = Cli::command();
        whole.build();
        let all: Vec<_> = whole.get_subcommands().filter(|command| command.get_name() != "help").collect();
        assert_eq!(all.iter().map(|command| command.get_name()).collect::<Vec<_>>(), NAMES);
        for among in all {
            let mut alone = alone(command(among.get_name()).unwrap());
            alone.build();
            let alone = alone.find_subcommand(among.get_name()).unwrap();
            assert_eq!(said(alone), said(among), "{}", among.get_name());
        }
    }

    /// Lines of the help of a command, and of those below it, that a terminal of 80 columns has to break.
    fn long_lines(path: &str, command: &mut clap::Command, found: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        let texts = [command.render_help().to_string(), command.render_long_help().to_string()];
        for line in texts.iter().flat_map(|text| text.lines()).filter(|line| line.chars().count() > 80) {
            found.push(format!("{path}: {line}"));
        }
        command.get_subcommands_mut().for_each(|command| long_lines(&path, command, found));
    }

    #[test]
    fn help_fits_80_columns() {
        let mut found = Vec::new();
        let mut whole = Cli::command();
        whole.build();
        long_lines("", &mut whole, &mut found);
        let mut coreos_installer = crate::coreos_installer::command(None);
        coreos_installer.build();
        long_lines("", &mut coreos_installer, &mut found);
        assert!(found.is_empty(), "{} lines are too long:\n{}", found.len(), found.join("\n"));
    }

    #[test]
    fn words_are_parsed_and_refused_as_by_all_of_it() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        for line in [
            "",
            "--version",
            "--help",
            "help iso",
            "nonsense",
            "iso",
            "iso --version",
            "iso kargs show",
            "iso kargs show --nonsense x",
            "install --version",
            "agent --url",
            "serve --check",
        ] {
            let whole = Cli::try_parse_from([vec![NAME.into()], words(line)].concat()).map(|_| ()).unwrap_err();
            let ours = parse(NAME.as_ref(), words(line)).map(|_| ()).unwrap_err();
            assert_eq!((ours.kind(), ours.to_string()), (whole.kind(), whole.to_string()), "{line}");
        }
        assert!(matches!(parse(NAME.as_ref(), words("iso kargs show a.iso")), Ok(Command::Iso(_))));
        assert!(matches!(parse(NAME.as_ref(), words("wait --help")), Err(error) if !error.use_stderr()));
    }
}
