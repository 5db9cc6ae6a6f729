//! Holds a step to the rules of its type ([`crate::privileges`]): the files and ports that Landlock lets it reach, and the system
//! calls that seccomp lets it make. What is refused fails with EACCES or EPERM, as for want of a permission, so it ends up in the
//! step's own error; the kernel's audit log has a line for it, too.
//!
//! The child does it to itself, before it reads its request: only then can it lose the power to execute programs.
//! If its type needs programs all the same, it first forks an assistant that starts them by a table ([`assist`]).

mod calls;
mod files;

pub(crate) use calls::{
    CHANGE_FILES, FILE_USER, FORK, OF_INSTALLATIONS, REBOOT, REPLACE_FILES, SIGNAL, SIGNALS_BY_FILE, SYNC,
};

use crate::{
    privileges::{self, Assistant, Reach},
    sys,
};
use api::StepType;
use assist::Table;
use seccompiler::{BackendError, BpfProgram, TargetArch};
use std::{
    env, io,
    path::{Path, PathBuf},
};

/// Tells a child the type of its step.
pub const TYPE_VARIABLE: &str = "LANDFALL_STEP_TYPE";
/// Tells it the disk that it may write to, or the root of the node that it may change.
pub const TARGET_VARIABLE: &str = "LANDFALL_STEP_TARGET";
/// Tells it the file of certificates that its request names.
pub const CA_VARIABLE: &str = "LANDFALL_STEP_CA";

/// Why a step could not be held to its rules. It must not run then.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel has Landlock and would not take these rules.
    #[error("cannot restrict files and ports (Landlock)")]
    Landlock(#[from] landlock::RulesetError),
    /// The filter could not be made.
    #[error("cannot make a filter of system calls")]
    Filter(#[from] BackendError),
    /// The kernel has filters and would not take this one.
    #[error("cannot restrict system calls (seccomp)")]
    Seccomp(#[source] io::Error),
    /// No process for what the step itself may not do.
    #[error("cannot fork the assistant that starts programs and mounts")]
    Assistant(#[source] io::Error),
}

/// What this kernel can hold a step to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Means {
    /// Landlock's version; 0 for none.
    landlock: i64,
    seccomp: bool,
}

impl Means {
    fn detect() -> Self {
        Self { landlock: sys::landlock_version(), seccomp: architecture().is_some() && sys::has_seccomp() }
    }

    /// What steps are not held to here.
    fn missing(self) -> Vec<&'static str> {
        let since = |version, what| (self.landlock < version).then_some(what);
        let missing = [
            since(1, "files (no Landlock)"),
            since(4, "TCP ports (Landlock before version 4)"),
            since(5, "ioctls of devices (Landlock before version 5)"),
            since(6, "signals and abstract sockets (Landlock before version 6)"),
            (!self.seccomp).then_some("system calls (no seccomp filters)"),
        ];
        missing.into_iter().flatten().collect()
    }
}

/// The filters' name of this machine; `None` where they are not known.
fn architecture() -> Option<TargetArch> {
    env::consts::ARCH.try_into().ok()
}

/// Says once what steps are held to on this kernel.
pub fn log_means() {
    let means = Means::detect();
    match means.missing().as_slice() {
        [] => tracing::debug!(landlock = means.landlock, "steps are held to their files, ports and system calls"),
        missing => tracing::warn!(
            landlock = means.landlock,
            "on this kernel, steps have their capabilities and limits but are not held to their rules for {}",
            missing.join(", ")
        ),
    }
}

/// Where this process is a step of the agent's, holds it to the rules of its type for good. To be called while it has one thread.
pub fn enter_if_step() -> Result<(), ConfineError> {
    let Some(name) = env::var(TYPE_VARIABLE).ok() else { return Ok(()) };
    // Every text is a type: one without a name of its own gets the narrowest rules.
    let kind = serde_json::from_value(name.into()).unwrap_or(StepType::Execute);
    enter(&kind, env::var_os(TARGET_VARIABLE).map(PathBuf::from))
}

fn enter(kind: &StepType, target: Option<PathBuf>) -> Result<(), ConfineError> {
    let means = Means::detect();
    let arch = architecture().filter(|_| means.seccomp);
    let target = target.as_deref();
    let filter = |program: &BpfProgram, logged| sys::filter_calls(program, logged).map_err(ConfineError::Seccomp);
    let rules = match privileges::of(kind).reach {
        Reach::Only(rules) => rules,
        Reach::Assisted(rules, assistant) => {
            // The assistant is held to it, too.
            if let Some(arch) = arch {
                filter(&calls::refusing(assistant.forbidden, arch)?, true)?;
            }
            assist::fork(table(&assistant, target)).map_err(ConfineError::Assistant)?;
            rules
        }
        Reach::Everything => return arch.map_or(Ok(()), |arch| filter(&calls::refusing(&[], arch)?, true)),
    };
    // Before the filter, which forbids more of it.
    if means.landlock > 0 {
        files::restrict(&rules, target)?;
    }
    let Some(arch) = arch else { return Ok(()) };
    let filters = calls::allowing(&rules, arch)?;
    // No offence, and not logged.
    filter(&filters.no_clone3, false)?;
    filter(&filters.main, true)
}

/// What the assistant does for a step with this target.
fn table(assistant: &Assistant, target: Option<&Path>) -> Table {
    let node = target.filter(|node| node.is_absolute());
    Table {
        programs: assistant.programs,
        roots: node.map(Path::to_owned).into_iter().collect(),
        remounts: node.into_iter().flat_map(|node| assistant.remounts.iter().map(|below| node.join(below))).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests;
