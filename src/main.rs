//! Landfall takes a bare machine that booted a CoreOS-style live ISO to an installed node.
//!
//! One static program with a subcommand for each part: `agent` registers the host with the service and does what it asks
//! by running the others, each of which also runs alone on a sick machine. This file only dispatches.

mod coreos_installer;

use clap::Parser;
use std::{
    fmt,
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
};
use tracing_subscriber::EnvFilter;

/// Names the log levels: a level, or per part as in `info,diskwrite=debug`.
const LOG_VARIABLE: &str = "LANDFALL_LOG";
/// Set by the agent for its steps: what they say goes into the reply.
const STEP_VARIABLE: &str = "LANDFALL_STEP";
/// Set by whoever adds the time to each line of our log itself: the journal, and the agent.
const TIMED_BY_OTHERS: [&str; 2] = ["JOURNAL_STREAM", STEP_VARIABLE];

/// From a bare machine booted from a CoreOS-style live ISO to an installed node
#[derive(Debug, Parser)]
#[command(name = "landfall", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Results go to standard output, the log to standard error. LANDFALL_LOG sets its level: error, warn, info, debug or \
trace, also by part as in info,diskwrite=debug. Exit codes: 0 success, 1 failure, 2 wrong usage; commands with others \
name them.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Agent(agent::cli::Agent),
    Inventory(inventory::cli::Inventory),
    Report(inventory::report::cli::Report),
    Capture(inventory::capture::cli::Capture),
    Netcheck(netcheck::cli::Netcheck),
    Install(installer::cli::Install),
    Disk(installer::disk_cli::Disk),
    Wipe(installer::wipe_cli::Wipe),
    Ignition(ignition::cli::Ignition),
    Iso(rootfs_overlay::cli::Iso),
    Serve(service_stub::cli::Serve),
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Agent(agent) => agent.run(),
            Self::Inventory(inventory) => inventory.run().map(success),
            Self::Report(report) => report.run(),
            Self::Capture(capture) => capture.run().map(success),
            Self::Netcheck(netcheck) => netcheck.run(|json| Ok(ignition::day2::filtered(json)?)),
            Self::Install(install) => install.run(),
            Self::Disk(disk) => disk.run(),
            Self::Wipe(wipe) => wipe.run(),
            Self::Ignition(ignition) => ignition.run(),
            Self::Iso(iso) => iso.run().map(success),
            Self::Serve(serve) => serve.run().map(success),
        }
    }

    /// Whether its purpose is what it prints. A broken pipe in the others is a connection that failed.
    fn only_prints(&self) -> bool {
        match self {
            Self::Inventory(_) | Self::Report(_) | Self::Netcheck(_) | Self::Ignition(_) => true,
            Self::Agent(_)
            | Self::Capture(_)
            | Self::Install(_)
            | Self::Disk(_)
            | Self::Wipe(_)
            | Self::Iso(_)
            | Self::Serve(_) => false,
        }
    }
}

fn main() -> ExitCode {
    if is_called(coreos_installer::NAME) {
        return coreos_installer::main();
    }
    if is_called("ignition-validate") {
        // Only a standard stream that nobody reads is an error.
        return ignition::cli::ignition_validate(std::env::args_os()).unwrap_or(ExitCode::FAILURE);
    }
    let cli = Cli::parse();
    start_log("info");
    let only_prints = cli.command.only_prints();
    match cli.command.run() {
        Ok(code) => code,
        // Whoever read our result has seen enough.
        Err(error) if only_prints && is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            match std::env::var_os(STEP_VARIABLE) {
                // The service and people look for the start of some of these texts.
                Some(_) => complain(format_args!("{error:#}")),
                None => complain(format_args!("landfall: error: {error:#}")),
            }
            ExitCode::FAILURE
        }
    }
}

/// Whether the program was called by this name.
fn is_called(name: &str) -> bool {
    std::env::args_os().next().is_some_and(|path| Path::new(&path).file_name() == Some(name.as_ref()))
}

/// Not eprintln: nobody listening is no reason to panic.
fn complain(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn success((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

fn start_log(default: &str) {
    let filter = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let filter = if filter.trim().is_empty() { default.to_owned() } else { filter };
    let (filter, bad) = match EnvFilter::try_new(&filter) {
        Ok(parsed) => (parsed, None),
        Err(error) => (EnvFilter::new(default), Some(error)),
    };
    // A log that nobody reads any more is no reason to stop: an installation outlives the agent at its pipe.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .log_internal_errors(false);
    if TIMED_BY_OTHERS.iter().any(|name| std::env::var_os(name).is_some()) {
        log.without_time().init();
    } else {
        log.init();
    }
    if let Some(error) = bad {
        tracing::warn!(%error, "{LOG_VARIABLE} is not understood, logging at level {default}");
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
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
    fn every_subcommand_teaches() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }

    #[test]
    fn a_reader_that_left_is_told_from_a_failure() {
        let broken = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(is_broken_pipe(&broken));
        assert!(!is_broken_pipe(&anyhow::anyhow!("Broken pipe")));
    }
}
