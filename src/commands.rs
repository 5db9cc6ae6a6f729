//! The commands: each is declared once. Only the one that is called is built; building all takes longer than most commands run.

use crate::{
    NAME, complain,
    log::{self, STEP_VARIABLE},
    shell::Completion,
    topics::{self, Topic},
};
use agent::dropin::Logging;
use clap::{ArgAction, Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

/// From a bare machine booted from a CoreOS-style live ISO to an installed node
#[derive(Debug, Parser)]
#[command(name = NAME, version, propagate_version = true, max_term_width = 80)]
#[command(after_help = "\
`landfall COMMAND --help` describes a command, with examples. Results go to standard output, the log to standard error. \
LANDFALL_LOG sets the log level by part: info,diskwrite=debug. Exit codes: 0 success, 1 failure, 2 wrong usage; a command \
with further codes lists them in its help.")]
pub struct Cli<C: Subcommand> {
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: C,
}

/// What every command takes.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Log more: -v debug, -vv trace
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Log warnings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Colors: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(long, global = true, value_name = "WHEN", hide_possible_values = true, hide_default_value = true, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl Output {
    /// The log's level where LANDFALL_LOG says nothing else. Below a progress bar, warnings only.
    pub(crate) fn level(self, has_bar: bool) -> &'static str {
        match (self.quiet, self.verbose) {
            (true, _) => "warn",
            (false, 0) if has_bar => "warn",
            (false, 0) => "info",
            (false, 1) => "debug",
            _ => "trace",
        }
    }

    /// Whether a log on a terminal has colors.
    pub(crate) fn has_color(self) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => log::wants_color(),
        }
    }
}

/// `--color` among the words: help and errors have their colors before the words are understood.
fn color(words: &[OsString]) -> ColorChoice {
    let words = || words.iter().filter_map(|word| word.to_str());
    let after = words().zip(words().skip(1)).find_map(|(word, next)| (word == "--color").then_some(next));
    let value = after.or_else(|| words().find_map(|word| word.strip_prefix("--color=")));
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// The commands of one program. `commands!` makes one of a table.
pub trait Commands: Subcommand + Sized {
    /// Whether they include the service and its clients.
    const HAS_SERVICE: bool = false;

    /// The command `name` with its options, without building the others.
    fn alone(name: &str) -> Option<clap::Command>;

    /// What the command `name` is about.
    fn topic(name: &str) -> Option<Topic>;

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// Why it failed, for the person who started it.
    fn run(self) -> anyhow::Result<ExitCode>;

    /// What it is for.
    fn purpose(&self) -> Purpose;

    /// Names that complete a value, with what each is: by the value's name in the help, what is typed of it, and the line's options.
    fn names(_kind: &str, _typed: &str, _options: &[String]) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Where its log goes.
    fn logging(&self) -> Logging {
        Logging::default()
    }

    /// Whether it shows people a bar in the place of the log.
    fn has_bar(&self) -> bool {
        false
    }

    /// Whether its log is that of a server or agent, in which times count.
    fn is_server(&self) -> bool {
        false
    }

    /// Whether it runs on many threads.
    fn has_many_threads(&self) -> bool {
        false
    }

    /// The identifier of its records in the journal; `None` if it writes none there, such as a command run by hand.
    fn tag(&self) -> Option<&'static str> {
        env::var_os(STEP_VARIABLE).map(|_| "agent")
    }
}

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Acts on the system.
    Acts,
    /// Prints: a reader that closes the pipe early is not a failure. In other commands a broken pipe is a failed connection.
    Prints,
}

/// Declares a set of commands. One row for each: name, variant, options, purpose, topic, and whether help hides it. Within a topic
/// help has the order of the rows. The rest of `impl Commands` follows the table.
macro_rules! commands {
    (
        $(#[$attribute:meta])* $set:ident {
            $($name:literal $variant:ident($arguments:ty) $purpose:ident $topic:ident $([$hide:ident])?;)*
        }
        $($method:item)*
    ) => {
        $(#[$attribute])*
        #[derive(Debug, ::clap::Subcommand)]
        pub enum $set {
            $(
                #[allow(missing_docs)] // the command's options say what it is
                #[command(name = $name $(, $hide = true)?)]
                $variant($arguments),
            )*
        }

        impl $crate::commands::Commands for $set {
            fn alone(name: &str) -> Option<::clap::Command> {
                match name {
                    $($name => Some(<$arguments as ::clap::Args>::augment_args(::clap::Command::new($name))),)*
                    _ => None,
                }
            }

            fn topic(name: &str) -> Option<$crate::topics::Topic> {
                match name {
                    $($name => Some($crate::topics::Topic::$topic),)*
                    _ => None,
                }
            }

            fn run(self) -> ::anyhow::Result<::std::process::ExitCode> {
                match self {
                    $(Self::$variant(arguments) => $crate::commands::Outcome::code(arguments.run()?),)*
                }
            }

            fn purpose(&self) -> $crate::commands::Purpose {
                match self {
                    $(Self::$variant(_) => $crate::commands::Purpose::$purpose,)*
                }
            }

            $($method)*
        }
    };
}

commands! {
    /// What a host needs from the live system to its first boot, and what prepares its boot images.
    Host {
        "install" Install(installer::cli::Install) Acts Install;
        "wipe" Wipe(installer::wipe_cli::Wipe) Acts Install;
        "boot-order" BootOrder(installer::boot_order::cli::BootOrder) Acts Install;
        "reclaim" Reclaim(installer::reclaim::cli::Reclaim) Acts Install;
        "report" Report(inventory::report::cli::Report) Prints Machine;
        "netcheck" Netcheck(netcheck::cli::Netcheck) Prints Machine;
        "disk" Disk(installer::disk_cli::Disk) Acts Machine;
        "burnin" Burnin(burnin::cli::Burnin) Acts Machine;
        "attest" Attest(inventory::attest::cli::Attest) Prints Machine;
        "logs" Logs(logs::cli::Logs) Acts Machine;
        "capture" Capture(inventory::capture::cli::Capture) Acts Machine;
        "inventory" Inventory(inventory::cli::Inventory) Prints Machine;
        "iso" Iso(rootfs_overlay::cli::Iso) Acts Images;
        "pxe" Pxe(rootfs_overlay::cli::Pxe) Acts Images;
        "download" Download(installer::download::Download) Acts Images;
        "list-stream" ListStream(installer::download::ListStream) Prints Images;
        "ignition" Ignition(ignition::cli::Ignition) Prints Images;
        "image" Image(rootfs_overlay::image_cli::Image) Acts Images;
        "dev" Dev(rootfs_overlay::cli::Dev) Acts Images [hide];
        "pack" Pack(rootfs_overlay::cli::Pack) Acts Images [hide];
        "console" Console(host_console::cli::Console) Acts Machine;
        "agent" Agent(agent::cli::Agent) Acts Service;
        "completion" Completion(Completion) Prints Other;
        "version" Version(Version) Prints Other;
    }

    fn logging(&self) -> Logging {
        match self {
            Self::Agent(agent) => agent.logging(),
            // Its screen is where the log would go.
            Self::Console(_) => Logging { stream: false, runs_for_long: false, ..Logging::default() },
            _ => Logging::default(),
        }
    }

    fn has_bar(&self) -> bool {
        match self {
            Self::Install(install) => install.has_bar(),
            Self::Download(_) => io::stderr().is_terminal(),
            Self::Burnin(burnin) => burnin.has_view(),
            _ => false,
        }
    }

    fn is_server(&self) -> bool {
        matches!(self, Self::Agent(_) | Self::Burnin(_))
    }

    fn tag(&self) -> Option<&'static str> {
        match self {
            Self::Agent(agent) => agent.logging().journal.then_some("agent"),
            _ if env::var_os(STEP_VARIABLE).is_none() => None,
            Self::Install(_) => Some("installer"),
            _ => Some("agent"),
        }
    }
}

/// Print the version, and the processor it is for
#[derive(Debug, clap::Args)]
pub struct Version {}

impl Version {
    fn run(self) -> io::Result<()> {
        writeln!(io::stdout(), "{NAME} {} ({})", env!("CARGO_PKG_VERSION"), env::consts::ARCH)
    }
}

/// What a command ends with.
pub trait Outcome {
    /// The code it ends with.
    ///
    /// # Errors
    ///
    /// Printing what it found.
    fn code(self) -> anyhow::Result<ExitCode>;
}

impl Outcome for () {
    fn code(self) -> anyhow::Result<ExitCode> {
        Ok(ExitCode::SUCCESS)
    }
}

impl Outcome for ExitCode {
    fn code(self) -> anyhow::Result<ExitCode> {
        Ok(self)
    }
}

impl Outcome for netcheck::cli::Outcome {
    fn code(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Done(code) => Ok(code),
            Self::Document(document) => {
                let config = ignition::day2::filtered(&document.json);
                document.print(config.map_err(Into::into))
            }
        }
    }
}

/// Runs it and prints why it failed.
pub(crate) fn carry_out(command: impl Commands) -> ExitCode {
    let purpose = command.purpose();
    match command.run() {
        Ok(code) => code,
        Err(error) if purpose == Purpose::Prints && is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            match env::var_os(STEP_VARIABLE) {
                // The service and users match the start of some of these texts.
                Some(_) => {
                    complain(format_args!("{error:#}"));
                    tracing::error!(target: log::PRINTED, "{error:#}");
                }
                None => complain(format_args!("landfall: error: {error:#}")),
            }
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Whether this is one of the program's commands.
pub(crate) fn is_command<C: Commands>(word: &OsStr) -> bool {
    word == "help" || word.to_str().is_some_and(C::has_subcommand)
}

/// Parses the words that follow the program's name.
pub(crate) fn parse<C: Commands>(program: &OsStr, words: Vec<OsString>) -> Result<(C, Output), clap::Error> {
    let mut whole = line::<C>(words.first().and_then(|word| word.to_str())).color(color(&words));
    let matches = whole.try_get_matches_from_mut(std::iter::once(program.to_owned()).chain(words))?;
    let cli: Cli<C> = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut whole))?;
    Ok((cli.command, cli.output))
}

/// The command line that begins with this word; with all commands if it is not one, for help to list them.
pub(crate) fn line<C: Commands>(first: Option<&str>) -> clap::Command {
    first.and_then(C::alone).map_or_else(whole::<C>, alone)
}

/// All commands, which help lists by topic.
pub fn whole<C: Commands>() -> clap::Command {
    topics::grouped(Cli::<C>::command(), C::topic)
}

/// [`Cli`] with this command only.
fn alone(command: clap::Command) -> clap::Command {
    let whole = clap::Command::new(NAME).version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    let whole = Output::augment_args(whole);
    whole.max_term_width(80).subcommand_required(true).arg_required_else_help(true).subcommand(command)
}

/// The help of a command and of those below it.
#[cfg(test)]
pub(crate) fn texts(command: &clap::Command) -> Vec<String> {
    let mut command = command.clone();
    let mut all = vec![format!("{:?} {:?}", command.get_name(), command.get_version())];
    all.push(command.render_long_help().to_string());
    all.extend(command.get_subcommands().flat_map(texts));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The larger set: what holds for it holds for the host's.
    #[cfg(not(feature = "hub"))]
    type All = Host;
    #[cfg(feature = "hub")]
    type All = crate::Whole;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::<All>::command().debug_assert();
        Cli::<Host>::command().debug_assert();
    }

    #[test]
    fn every_subcommand_teaches() {
        for command in Cli::<All>::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }

    #[test]
    fn help_lists_every_command_once_below_its_topic() {
        let help = whole::<All>().render_help().to_string();
        let listed = |line: &&str| line.starts_with("  ") && line.as_bytes().get(2).is_some_and(u8::is_ascii_lowercase);
        let mut listed: Vec<_> =
            help.lines().filter(listed).filter_map(|line| line.split_whitespace().next()).collect();
        let all = Cli::<All>::command();
        let mut shown: Vec<_> =
            all.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| one.get_name()).collect();
        assert_eq!(listed.first(), Some(if All::HAS_SERVICE { &"up" } else { &"install" }), "{help}");
        listed.sort_unstable();
        shown.sort_unstable();
        assert_eq!(listed, shown, "{help}");
        assert!(help.contains("\n\nThis machine:\n  report") && help.contains("\n\nOptions:\n  -"), "{help}");
        assert!(!whole::<Host>().render_help().to_string().contains("cluster  "));
    }

    #[test]
    fn below_a_bar_the_log_has_warnings_only() {
        let level = |verbose, quiet, has_bar| Output { verbose, quiet, color: ColorChoice::Auto }.level(has_bar);
        assert_eq!([level(0, false, true), level(1, false, true), level(0, true, true)], ["warn", "debug", "warn"]);
        assert_eq!([level(0, false, false), level(2, false, false)], ["info", "trace"]);
    }

    #[test]
    fn a_reader_that_left_is_not_a_failure() {
        let broken = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(is_broken_pipe(&broken));
        assert!(!is_broken_pipe(&anyhow::anyhow!("Broken pipe")));
    }

    #[test]
    fn a_command_alone_is_the_one_among_all() {
        let mut whole = Cli::<All>::command();
        whole.build();
        let all: Vec<_> = whole.get_subcommands().filter(|command| command.get_name() != "help").collect();
        assert!(all.len() >= 19, "{all:?}");
        for among in all {
            let mut alone = alone(All::alone(among.get_name()).unwrap());
            alone.build();
            let alone = alone.find_subcommand(among.get_name()).unwrap();
            assert_eq!(texts(alone), texts(among), "{}", among.get_name());
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
        let mut whole = whole::<All>();
        whole.build();
        long_lines("", &mut whole, &mut found);
        let mut coreos_installer = crate::coreos_installer::command(None);
        coreos_installer.build();
        long_lines("", &mut coreos_installer, &mut found);
        let mut rdcore = crate::rdcore::command();
        rdcore.build();
        long_lines("", &mut rdcore, &mut found);
        assert!(found.is_empty(), "{} lines are too long:\n{}", found.len(), found.join("\n"));
    }

    /// Groups of options that are too long to be read, in the help of a command and of those below it.
    fn long_groups(path: &str, command: &clap::Command, found: &mut Vec<String>) {
        const MAX: usize = 14;
        let path = format!("{path} {}", command.get_name());
        let mut groups = std::collections::BTreeMap::<_, usize>::new();
        for option in command.get_arguments().filter(|argument| !argument.is_positional() && !argument.is_hide_set()) {
            *groups.entry(option.get_help_heading().unwrap_or("Options")).or_default() += 1;
        }
        found.extend(
            groups.iter().filter(|(_, count)| **count > MAX).map(|(name, count)| format!("{path}: {count} {name}")),
        );
        command.get_subcommands().for_each(|command| long_groups(&path, command, found));
    }

    #[test]
    fn help_groups_many_options_by_topic() {
        let mut found = Vec::new();
        let mut whole = Cli::<All>::command();
        whole.build();
        long_groups("", &whole, &mut found);
        assert!(found.is_empty(), "{found:#?}");
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
            let all = [vec![NAME.into()], words(line)].concat();
            let whole = whole::<All>().try_get_matches_from(all).unwrap_err();
            let ours = parse::<All>(NAME.as_ref(), words(line)).map(|_| ()).unwrap_err();
            assert_eq!((ours.kind(), ours.to_string()), (whole.kind(), whole.to_string()), "{line}");
        }
        assert!(matches!(parse(NAME.as_ref(), words("iso kargs show a.iso")), Ok((Host::Iso(_), _))));
        assert!(matches!(parse::<All>(NAME.as_ref(), words("logs --help")), Err(error) if !error.use_stderr()));
    }
}
