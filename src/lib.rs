//! Landfall turns a bare machine that booted a CoreOS-style live ISO into an installed node.
//!
//! One static program with a subcommand for each part: `agent` registers the host with the service and runs the other
//! subcommands as it instructs. Each also runs alone on a sick machine. This file only dispatches.

mod bash;
#[macro_use]
mod commands;
mod complete;
mod coreos_installer;
mod environment;
#[cfg(feature = "hub")]
mod hub;
mod log;
mod rdcore;
mod shell;
mod topics;
#[cfg(all(target_env = "musl", panic = "abort"))]
mod unwinding;

pub use commands::{Cli, Commands, Host, Outcome, Output, Purpose, whole};
#[cfg(feature = "hub")]
pub use hub::{Hub, Whole};
pub use shell::{Completion, Shell};
pub use topics::{Topic, by_topic};

use agent::{
    child,
    dropin::{self, Landfall, Logging, Name, UnknownName, cp},
};
use clap::error::ErrorKind;
use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

/// The name of this program, and what the names of its builds start with.
pub const NAME: &str = "landfall";

/// The command that is also the program `assisted-installer-controller`.
const CONTROLLER: &str = "controller";

/// Runs the command line with these commands, or as another program when called by that program's name.
///
/// `many_threads` is called before a command that runs on many threads.
pub fn main<C: Commands>(many_threads: fn()) -> ExitCode {
    let mut words = env::args_os();
    let program = words.next().unwrap_or_default();
    let called = Path::new(&program).file_name().unwrap_or_default();
    let (called, words) = command_of_name::<C>(called, words.collect());
    if let Some((_, asked)) = words.split_first().filter(|(first, _)| is_ours(called) && *first == complete::NAME) {
        return complete(complete::answer(asked, commands::line::<C>, C::names));
    }
    if C::HAS_SERVICE && called == bash::NAME {
        return fail(format_args!("{}", bash::refusal(&words)));
    }
    // Our name, followed by the name of another program.
    let first = words.split_first().filter(|(first, _)| !commands::is_command::<C>(first));
    let code =
        other_program(&program, called, &words).or_else(|| first.and_then(|(first, rest)| drop_in(first, first, rest)));
    if let Some(code) = code {
        return code;
    }
    if !is_ours(called)
        && !words
            .first()
            .is_some_and(|word| commands::is_command::<C>(word) || word.as_encoded_bytes().starts_with(b"-"))
    {
        return fail(format_args!("{}", UnknownName(called.to_string_lossy().into_owned())));
    }
    let (command, output): (C, _) = commands::parse(&program, words).unwrap_or_else(|error| {
        let _ = error.print();
        if error.kind() == ErrorKind::InvalidSubcommand && !C::HAS_SERVICE {
            complain(format_args!(
                "This is the host's program: the service and its clients are in the full program, landfall."
            ));
        }
        std::process::exit(error.exit_code())
    });
    if command.has_many_threads() {
        many_threads();
    }
    log::start(
        output.level(command.has_bar()),
        output.has_color(),
        &command.logging(),
        command.tag(),
        !command.is_server(),
    );
    if let Some(stray) = environment::stray(variables()) {
        complain(format_args!("{stray}"));
        // A server is set by its unit, and nobody sees a line of its log: a key that is not read would be no key.
        if command.is_server() {
            return ExitCode::from(2);
        }
    }
    if let Err(error) = child::enter_if_step() {
        let error = anyhow::Error::new(error);
        return fail(format_args!("this step cannot be confined and does not run: {error:#}"));
    }
    commands::carry_out(command)
}

/// Those of the environment that are text.
fn variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

/// The controller is a command, and the name of a program.
fn command_of_name<C: Commands>(called: &OsStr, mut words: Vec<OsString>) -> (&OsStr, Vec<OsString>) {
    let name = OsStr::new(Name::Controller.as_str());
    if !C::HAS_SERVICE {
        return (called, words);
    }
    if called == name {
        words.insert(0, CONTROLLER.into());
        return (OsStr::new(NAME), words);
    }
    if let Some(first) = words.first_mut().filter(|first| is_ours(called) && *first == name) {
        *first = CONTROLLER.into();
    }
    (called, words)
}

/// Answers a script of `landfall completion`.
fn complete(answer: Option<String>) -> ExitCode {
    let Some(answer) = answer else {
        complain(format_args!("landfall {} is for the scripts of landfall completion", complete::NAME));
        return ExitCode::from(2);
    };
    // The shell may have stopped waiting.
    let _ = io::stdout().write_all(answer.as_bytes());
    ExitCode::SUCCESS
}

/// Runs as the program named `called`; `None` if that is us.
fn other_program(program: &OsStr, called: &OsStr, words: &[OsString]) -> Option<ExitCode> {
    // Ignition's programs return an error only if standard output or error cannot be written.
    match called.to_str() {
        Some(coreos_installer::NAME) => Some(coreos_installer::main()),
        Some(rdcore::NAME) => Some(rdcore::main()),
        Some(installer::live_units::GENERATOR) => Some(installer::live_units::generator()),
        Some("ignition-validate") => {
            Some(ignition::cli::ignition_validate(env::args_os()).unwrap_or(ExitCode::FAILURE))
        }
        Some("ignition-apply") => Some(ignition::cli::ignition_apply(env::args_os()).unwrap_or(ExitCode::FAILURE)),
        _ => drop_in(program, called, words),
    }
}

/// The same for the programs in the real agent's image, whose names may also be our first argument.
fn drop_in(program: &OsStr, called: &OsStr, words: &[OsString]) -> Option<ExitCode> {
    if called == cp::NAME {
        return Some(cp::main(words));
    }
    let name: Name = called.to_str()?.parse().ok()?;
    let words = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let tag = if name == Name::Installer { "installer" } else { "agent" };
    let level = |logging: &Logging| if logging.is_verbose { "debug" } else { "info" };
    let landfall = Landfall {
        start_log: &|logging| {
            log::start(level(logging), log::wants_color(), logging, logging.journal.then_some(tag), false)
        },
        run: &|words| commands::parse::<Host>(NAME.as_ref(), words.into_iter().map(OsString::from).collect())?.0.run(),
    };
    Some(dropin::main(Path::new(program), name, words, &landfall))
}

/// Whether it was called by our name, or as /proc/self/exe or a descriptor, which have no name.
fn is_ours(called: &OsStr) -> bool {
    called.to_str().is_none_or(|name| {
        name.starts_with(NAME) || name.is_empty() || name == "exe" || name.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn fail(reason: fmt::Arguments) -> ExitCode {
    complain(reason);
    ExitCode::FAILURE
}

/// Not eprintln, which panics if standard error is closed.
fn complain(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}
