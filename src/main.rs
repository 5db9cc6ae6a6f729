//! Landfall takes a bare machine that booted a CoreOS-style live ISO to an installed node.
//!
//! One static program with a subcommand for each part: `agent` registers the host with the service and does what it asks
//! by running the others, each of which also runs alone on a sick machine. This file only dispatches.

mod command_line;
mod coreos_installer;
mod log;
mod man;
mod memory;

use agent::{
    confine,
    dropin::{self, Landfall, Logging, Name, UnknownName, cp},
    logs,
};
use clap::{CommandFactory, Parser};
use command_line::is_command;
use installer::document::Document;
use log::STEP_VARIABLE;
use service_stub::control;
use std::{
    ffi::{OsStr, OsString},
    fmt,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator::new();

/// The name of this program, and what the names of its builds start with.
const NAME: &str = "landfall";

/// From a bare machine booted from a CoreOS-style live ISO to an installed node
#[derive(Debug, Parser)]
#[command(name = "landfall", version, propagate_version = true, max_term_width = 80)]
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
    Download(installer::download::Download),
    ListStream(installer::download::ListStream),
    Disk(installer::disk_cli::Disk),
    Wipe(installer::wipe_cli::Wipe),
    BootOrder(installer::boot_order::cli::BootOrder),
    Reclaim(installer::reclaim::cli::Reclaim),
    Ignition(ignition::cli::Ignition),
    Iso(rootfs_overlay::cli::Iso),
    Pxe(rootfs_overlay::cli::Pxe),
    #[command(hide = true)]
    Dev(rootfs_overlay::cli::Dev),
    #[command(hide = true)]
    Pack(rootfs_overlay::cli::Pack),
    Image(rootfs_overlay::image_cli::Image),
    Logs(logs::cli::Logs),
    Serve(service_stub::cli::Serve),
    Cluster(control::cluster::Cluster),
    InfraEnv(control::infra_env::InfraEnv),
    Host(control::host::Host),
    Event(control::event::Event),
    Wait(control::wait::Wait),
    Completion(Completion),
    #[command(hide = true)]
    Man(man::Pages),
}

/// Print a script that completes our commands in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall completion bash > /etc/bash_completion.d/landfall
  landfall completion zsh > \"${fpath[1]}/_landfall\"
  landfall completion fish > ~/.config/fish/completions/landfall.fish")]
struct Completion {
    /// Which shell
    shell: clap_complete::Shell,
}

impl Completion {
    fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), NAME, &mut script);
        Ok(io::stdout().write_all(&script)?)
    }
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Agent(agent) => agent.run(),
            Self::Inventory(inventory) => inventory.run().map(success),
            Self::Report(report) => report.run(),
            Self::Capture(capture) => capture.run().map(success),
            Self::Netcheck(netcheck) => netcheck.run(|json| Ok(ignition::day2::filtered(json)?)),
            Self::Install(install) => install.run(&send_logs),
            Self::Download(download) => download.run().map(success),
            Self::ListStream(list) => list.run().map(success),
            Self::Disk(disk) => disk.run(),
            Self::Wipe(wipe) => wipe.run(),
            Self::BootOrder(order) => order.run(),
            Self::Reclaim(reclaim) => reclaim.run(),
            Self::Ignition(ignition) => ignition.run(),
            Self::Iso(iso) => iso.run().map(success),
            Self::Pxe(pxe) => pxe.run().map(success),
            Self::Dev(dev) => dev.run().map(success),
            Self::Pack(pack) => pack.run().map(success),
            Self::Image(image) => image.run().map(success),
            Self::Logs(logs) => logs.run(),
            Self::Serve(serve) => serve.run().map(success),
            Self::Cluster(cluster) => cluster.run(),
            Self::InfraEnv(infra_env) => infra_env.run(),
            Self::Host(host) => host.run(),
            Self::Event(event) => event.run(),
            Self::Wait(wait) => wait.run(),
            Self::Completion(completion) => completion.run().map(success),
            Self::Man(pages) => pages.run(Cli::command()).map(success),
        }
    }

    fn logging(&self) -> Logging {
        match self {
            Self::Agent(agent) => agent.logging(),
            _ => Logging::default(),
        }
    }

    /// What the agent's records and those of its steps are called in the journal, where people and the gathering of logs look
    /// for them. What is run by hand writes none.
    fn tag(&self) -> Option<&'static str> {
        match self {
            Self::Agent(agent) => agent.logging().journal.then_some("agent"),
            _ if std::env::var_os(STEP_VARIABLE).is_none() => None,
            Self::Install(_) => Some("installer"),
            _ => Some("agent"),
        }
    }

    /// Runs it and says why it failed.
    fn carry_out(self) -> ExitCode {
        let only_prints = self.only_prints();
        match self.run() {
            Ok(code) => code,
            // Whoever read our result has seen enough.
            Err(error) if only_prints && is_broken_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                match std::env::var_os(STEP_VARIABLE) {
                    // The service and people look for the start of some of these texts.
                    Some(_) => {
                        complain(format_args!("{error:#}"));
                        tracing::error!(target: log::SAID, "{error:#}");
                    }
                    None => complain(format_args!("landfall: error: {error:#}")),
                }
                ExitCode::FAILURE
            }
        }
    }

    /// Whether its purpose is what it prints. A broken pipe in the others is a connection that failed.
    fn only_prints(&self) -> bool {
        match self {
            Self::Inventory(_)
            | Self::Report(_)
            | Self::Netcheck(_)
            | Self::Ignition(_)
            | Self::Cluster(_)
            | Self::InfraEnv(_)
            | Self::Host(_)
            | Self::Event(_)
            | Self::ListStream(_)
            | Self::Completion(_) => true,
            Self::Agent(_)
            | Self::Capture(_)
            | Self::Install(_)
            | Self::Download(_)
            | Self::Disk(_)
            | Self::Wipe(_)
            | Self::BootOrder(_)
            | Self::Reclaim(_)
            | Self::Iso(_)
            | Self::Pxe(_)
            | Self::Dev(_)
            | Self::Pack(_)
            | Self::Image(_)
            | Self::Logs(_)
            | Self::Serve(_)
            | Self::Wait(_)
            | Self::Man(_) => false,
        }
    }
}

/// An installation's logs, before the host reboots into what may be silent (docs/compatibility.md#log-upload).
fn send_logs(document: &Document, bootstrap: bool) -> anyhow::Result<()> {
    let request = &document.request;
    let settings = logs::Settings {
        client: document.service.client_config(),
        cluster_id: request.cluster_id,
        infra_env_id: Some(request.infra_env_id),
        wanted: logs::Wanted {
            host_id: request.host_id,
            since: String::new(),
            bootstrap,
            installer_gather: false,
            masters: Vec::new(),
        },
        keep: false,
        places: logs::Places::default(),
    };
    let left_out = logs::run(&settings)?;
    if !left_out.is_empty() {
        tracing::warn!("the logs are not complete: {left_out}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let called = Path::new(&program).file_name().unwrap_or_default().to_owned();
    let words: Vec<_> = words.collect();
    match called.to_str() {
        Some(coreos_installer::NAME) => return coreos_installer::main(),
        // Only a standard stream that nobody reads is an error.
        Some("ignition-validate") => {
            return ignition::cli::ignition_validate(std::env::args_os()).unwrap_or(ExitCode::FAILURE);
        }
        Some("ignition-apply") => {
            return ignition::cli::ignition_apply(std::env::args_os()).unwrap_or(ExitCode::FAILURE);
        }
        _ => {}
    }
    if let Some(code) = drop_in(&program, &called, &words) {
        return code;
    }
    // The name of the program, and then that of what it stands in for.
    if let Some((first, rest)) = words.split_first()
        && !is_command(first)
        && let Some(code) = drop_in(first, first, rest)
    {
        return code;
    }
    if !is_ours(&called)
        && !words.first().is_some_and(|word| is_command(word) || word.as_encoded_bytes().starts_with(b"-"))
    {
        complain(format_args!("{}", UnknownName(called.to_string_lossy().into_owned())));
        return ExitCode::FAILURE;
    }
    let command = command_line::parse(&program, words).unwrap_or_else(|error| error.exit());
    if let Command::Serve(_) = command {
        ALLOCATOR.serve_many_threads();
    }
    log::start("info", &command.logging(), command.tag());
    if let Err(error) = confine::enter_if_step() {
        complain(format_args!("this step cannot be held to its rules and is not run: {:#}", anyhow::Error::new(error)));
        return ExitCode::FAILURE;
    }
    command.carry_out()
}

/// Does what the program under this name does; `None` where that is nothing but ours.
fn drop_in(program: &OsStr, called: &OsStr, words: &[OsString]) -> Option<ExitCode> {
    if called == cp::NAME {
        return Some(cp::main(words));
    }
    let name: Name = called.to_str()?.parse().ok()?;
    let words = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let tag = if name == Name::Installer { "installer" } else { "agent" };
    let level = |logging: &Logging| if logging.is_verbose { "debug" } else { "info" };
    let landfall = Landfall {
        start_log: &|logging| log::start(level(logging), logging, logging.journal.then_some(tag)),
        run: &|words| command_line::parse(NAME.as_ref(), words.into_iter().map(OsString::from).collect())?.run(),
    };
    Some(dropin::main(Path::new(program), name, words, &landfall))
}

/// Whether the program goes by its own name, or by that of no file: /proc/self/exe, or a descriptor.
fn is_ours(called: &OsStr) -> bool {
    called.to_str().is_none_or(|name| {
        name.starts_with(NAME) || name.is_empty() || name == "exe" || name.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Not eprintln: nobody listening is no reason to panic.
fn complain(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn success((): ()) -> ExitCode {
    ExitCode::SUCCESS
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
