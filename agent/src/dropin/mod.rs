//! The names under which the real programs are called: the agent's one, the installer and the controller, each with its own command
//! line (docs/compatibility.md#agent-programs).
//!
//! A command line in those words is translated into one in ours, which the program then carries out: what a name does is what
//! one of our commands does, and can be done by hand.

mod controller;
pub mod cp;
mod disk_speed_check;
mod dry_run;
pub mod flags;
mod free_addresses;
mod installer;
mod inventory;
pub mod logging;
mod logs_sender;
mod runner;

use crate::dry::DryRun;
use flags::{FlagError, Values};
pub use logging::Logging;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::fd::AsRawFd,
    path::Path,
    process::ExitCode,
    str::FromStr,
};

/// A name of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Registers the host and does what the service asks.
    Agent,
    /// The same for a host that is registered.
    NextStepRunner,
    /// Prints the inventory.
    Inventory,
    /// Looks for free addresses.
    FreeAddresses,
    /// Measures a disk.
    DiskSpeedCheck,
    /// Collects and uploads logs.
    LogsSender,
    /// Installs the host in its role.
    Installer,
    /// Finishes an installation from inside the cluster.
    Controller,
}

impl Name {
    /// All, sorted by name.
    pub const ALL: [Self; 8] = [
        Self::Agent,
        Self::Controller,
        Self::DiskSpeedCheck,
        Self::FreeAddresses,
        Self::Installer,
        Self::Inventory,
        Self::LogsSender,
        Self::NextStepRunner,
    ];

    /// As it is called.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::NextStepRunner => "next_step_runner",
            Self::Inventory => "inventory",
            Self::FreeAddresses => "free_addresses",
            Self::DiskSpeedCheck => "disk_speed_check",
            Self::LogsSender => "logs_sender",
            Self::Installer => "installer",
            Self::Controller => "assisted-installer-controller",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not one of the names; the text is the real program's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown binary name {0}, expected one of {names}", names = Name::ALL.map(Name::as_str).join(", "))]
pub struct UnknownName(pub String);

impl FromStr for Name {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| UnknownName(text.to_owned()))
    }
}

/// What a command line comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    /// Where its log goes.
    log: Logging,
    work: Work,
    /// Exit code of a failure.
    failed: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    /// One of our commands.
    Command {
        /// Words behind `landfall`. The file with `document` stands in the place of [`DOCUMENT`].
        words: Vec<String>,
        /// What the command reads from a file, and was given as a word.
        document: Option<String>,
    },
    /// The inventory of a pretended host.
    PretendedInventory { dry: DryRun, limits: ::inventory::Limits },
    /// The speed of the disk of a pretended host.
    PretendedSpeed { request: String },
}

impl Work {
    fn command(words: Vec<String>) -> Self {
        Self::Command { words, document: None }
    }
}

/// Stands for the name of the file with the document.
const DOCUMENT: &str = "{document}";

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// A variable of the environment.
    #[error("{0}")]
    Environment(FlagError),
    #[error("--{0} is required, but missing or empty")]
    Missing(&'static str),
    /// What the real program does and this one doesn't.
    #[error("{0}")]
    Unable(&'static str),
    /// JSON of another form.
    #[error("--{0} is not a JSON list of strings")]
    NotAList(&'static str),
    /// The same of the sender of logs, in the real one's words.
    #[error("missing required -{0} argument/flag")]
    Required(&'static str),
    #[error("{name} takes exactly one argument, the request as JSON; {given} were given")]
    ArgCount { name: Name, given: usize },
}

/// Runs our own commands, which only the program's outermost part knows.
pub struct Landfall<'a> {
    /// Starts the log, once.
    pub start_log: &'a dyn Fn(&Logging),
    /// Carries out a command line, of which these are the words behind `landfall`.
    pub run: &'a dyn Fn(Vec<String>) -> anyhow::Result<ExitCode>,
}

/// The program under one of its names; `program` is how it was called, `words` what came behind that.
pub fn main(program: &Path, name: Name, words: Vec<String>, landfall: &Landfall) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let plan = match plan(program, name, words, &variable) {
        Ok(plan) => plan,
        Err((refusal, usage)) => return refuse(name, &refusal, usage),
    };
    if name == Name::Installer
        && let Err(error) = installer::enter_host()
    {
        complain(format_args!("{name}: cannot reach the host's files from this container: {error}"));
        return ExitCode::from(plan.failed);
    }
    (landfall.start_log)(&plan.log);
    carry_out(&plan, landfall).unwrap_or_else(|error| {
        // On standard error for the caller, in the log for a later search.
        if plan.log != Logging::default() {
            tracing::error!("{error:#}");
        }
        complain(format_args!("{error:#}"));
        ExitCode::from(plan.failed)
    })
}

fn plan(
    program: &Path,
    name: Name,
    words: Vec<String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Plan, (Refusal, String)> {
    let dry = dry_run::flags(variable).map_err(|error| (Refusal::Environment(error), String::new()))?;
    let flags = match name {
        Name::Agent | Name::NextStepRunner => runner::flags(dry),
        Name::Inventory => inventory::flags(dry),
        Name::FreeAddresses | Name::DiskSpeedCheck => common_flags(dry),
        Name::LogsSender => logs_sender::flags(dry),
        Name::Installer => installer::flags(dry, variable),
        Name::Controller => return Err((controller::refusal(), String::new())),
    };
    let usage = || flags::usage(program, &flags);
    let values = flags::parse(&flags, words).map_err(|error| (error.into(), usage()))?;
    let plan = match name {
        Name::Agent | Name::NextStepRunner => runner::plan(name, &values),
        Name::Inventory => Ok(inventory::plan(&values)),
        Name::FreeAddresses => free_addresses::plan(&values),
        Name::DiskSpeedCheck => disk_speed_check::plan(&values),
        Name::LogsSender => logs_sender::plan(&values, variable),
        Name::Installer => installer::plan(&values),
        Name::Controller => Err(controller::refusal()),
    };
    plan.map_err(|refusal| (refusal, usage()))
}

/// What every program but one has.
fn common_flags(dry: Vec<flags::Flag>) -> Vec<flags::Flag> {
    logging::flags(false).into_iter().chain([logging::stream_flag()]).chain(dry).collect()
}

fn refuse(name: Name, refusal: &Refusal, usage: String) -> ExitCode {
    let usage = usage.trim_end();
    match refusal {
        Refusal::Flags(FlagError::Help) => {
            complain(format_args!("{usage}"));
            ExitCode::SUCCESS
        }
        Refusal::Flags(error) => {
            complain(format_args!("{error}\n{usage}"));
            ExitCode::from(2)
        }
        Refusal::Required(_) => {
            complain(format_args!("{refusal}"));
            ExitCode::from(2)
        }
        Refusal::NotAList(_) => {
            complain(format_args!("{name}: {refusal}\n{usage}"));
            ExitCode::from(2)
        }
        Refusal::Missing(_) | Refusal::Environment(_) | Refusal::Unable(_) => {
            complain(format_args!("{name}: {refusal}"));
            ExitCode::FAILURE
        }
        Refusal::ArgCount { .. } => {
            complain(format_args!("{refusal}"));
            ExitCode::from(NEGATIVE)
        }
    }
}

/// What a negative exit code is at the border of a process.
const NEGATIVE: u8 = 255;

fn carry_out(plan: &Plan, landfall: &Landfall) -> anyhow::Result<ExitCode> {
    let answer = match &plan.work {
        Work::Command { words, document } => {
            // Open until the command has ended.
            let document = document.as_deref().map(in_memory).transpose()?;
            let file = document.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
            let words = words.iter().map(|word| if word == DOCUMENT { file.clone() } else { word.clone() });
            return (landfall.run)(words.collect());
        }
        Work::PretendedInventory { dry, limits } => {
            let root = ::inventory::Root::open("/")?;
            serde_json::to_string(
                &limits.apply(
                    dry.edit(::inventory::collect_without_controller(&root, &::inventory::GpuFilter::default())),
                ),
            )?
        }
        Work::PretendedSpeed { request } => crate::steps::dry_disk_speed(request)?,
    };
    io::stdout().write_all(answer.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A file without a name.
fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("request", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Not eprintln, which panics if the reader is gone.
fn complain(line: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Words of a command from texts and flags with values.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// `--name=value` for each flag that has a value, under the same name as ours.
fn passed_on<'a>(values: &'a Values, names: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
    let given = names.iter().filter(|name| !values.text(name).is_empty());
    given.map(|name| format!("--{name}={}", values.text(name)))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
