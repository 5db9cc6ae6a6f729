//! Holds a step to the rules of its type ([`crate::privileges`]): the files and ports that Landlock lets it reach, and the system
//! calls that seccomp lets it make. What is refused fails with EACCES or EPERM, as for want of a permission, so it ends up in the
//! step's own error; the kernel's audit log has a line for it, too.
//!
//! The child does it to itself, before it reads its request: only then can it lose the power to execute programs.
//! If its type needs programs all the same, it first forks an assistant that starts them by a table ([`assist`]).

mod calls;
mod files;

pub(crate) use calls::{
    CHANGE_FILES, DONE_BY_ASSISTANTS, FILE_USER, FORK, NO_INSTALLATION, OF_INSTALLATIONS, REBOOT, REPLACE_FILES,
    SIGNAL, SIGNALS_BY_FILE, SYNC,
};

use crate::privileges::{self, Assistant, Calls, Reach, When};
use api::StepType;
use assist::Table;
use kernel::filter::Instruction;
use seccompiler::{BackendError, BpfProgram, TargetArch, sock_filter};
use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Tells a child the type of its step.
pub const TYPE_VARIABLE: &str = "LANDFALL_STEP_TYPE";
/// Tells it [`Named::targets`], a line each.
pub const TARGETS_VARIABLE: &str = "LANDFALL_STEP_TARGETS";
/// Tells it [`Named::ca_cert`].
pub const CA_VARIABLE: &str = "LANDFALL_STEP_CA";
/// Tells it [`Named::progress`].
pub const PROGRESS_VARIABLE: &str = "LANDFALL_STEP_PROGRESS";
/// Set for [`Named::changes_live_system`].
pub const LIVE_SYSTEM_VARIABLE: &str = "LANDFALL_STEP_CHANGES_LIVE_SYSTEM";

/// What a child's rules depend on. It learns of that beside its request, which it reads once the rules hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The disks that it may write to, or the root of the node that it may change.
    pub targets: Vec<PathBuf>,
    /// Certificates that the agent was told to trust.
    pub ca_cert: Option<PathBuf>,
    /// The directory that it writes its progress to.
    pub progress: Option<PathBuf>,
    /// Whether it may change the live system, too.
    pub changes_live_system: bool,
}

impl Named {
    /// As [`Named::from_environment`] reads it.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> + '_ {
        let targets: Vec<_> = self.targets.iter().map(|path| path.as_os_str()).collect();
        let targets = (!targets.is_empty()).then(|| targets.join(OsStr::new("\n")));
        let path = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
        let variables = [
            (TARGETS_VARIABLE, targets),
            (CA_VARIABLE, path(&self.ca_cert)),
            (PROGRESS_VARIABLE, path(&self.progress)),
            (LIVE_SYSTEM_VARIABLE, self.changes_live_system.then(|| "1".into())),
        ];
        variables.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    fn from_environment() -> Self {
        let path = |name| env::var_os(name).map(PathBuf::from);
        let targets = env::var_os(TARGETS_VARIABLE).unwrap_or_default();
        let lines = targets.as_bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Self {
            targets: lines.map(|line| OsStr::from_bytes(line).into()).collect(),
            ca_cert: path(CA_VARIABLE),
            progress: path(PROGRESS_VARIABLE),
            changes_live_system: env::var_os(LIVE_SYSTEM_VARIABLE).is_some(),
        }
    }

    /// The root of a node.
    fn node(&self) -> Option<&Path> {
        self.targets.iter().map(PathBuf::as_path).find(|path| path.is_dir())
    }
}

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
        Self {
            landlock: kernel::confine::landlock_version(),
            seccomp: architecture().is_some() && kernel::confine::has_seccomp(),
        }
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
    enter(&kind, &Named::from_environment())
}

fn enter(kind: &StepType, named: &Named) -> Result<(), ConfineError> {
    let means = Means::detect();
    let arch = architecture().filter(|_| means.seccomp);
    let instruction = |i: &sock_filter| Instruction { code: i.code, if_true: i.jt, if_false: i.jf, operand: i.k };
    // seccompiler makes filters and can't have them logged.
    let filter = |program: &BpfProgram, logged| {
        let program: Vec<_> = program.iter().map(instruction).collect();
        kernel::confine::filter_calls(&program, logged).map_err(ConfineError::Seccomp)
    };
    let rules = match privileges::of(kind).reach {
        Reach::Only(rules) => rules,
        Reach::Assisted(rules, assistant) => {
            // The assistant is held to it, too.
            if let Some(arch) = arch {
                filter(&calls::refusing(&[assistant.forbidden], arch)?, true)?;
            }
            assist::fork(table(&assistant, named)).map_err(ConfineError::Assistant)?;
            rules
        }
    };
    // Before the filter, which forbids more of it.
    if means.landlock > 0 {
        files::restrict(&rules, named)?;
    }
    let Some(arch) = arch else { return Ok(()) };
    let calls = match rules.calls {
        Calls::Only(calls) => calls,
        Calls::AllBut(calls) => return filter(&calls::refusing(calls, arch)?, true),
    };
    let filters = calls::allowing(&rules, calls, arch)?;
    // No offence, and not logged.
    filter(&filters.no_clone3, false)?;
    filter(&filters.main, true)
}

/// What the assistant does for a step with these targets.
fn table(assistant: &Assistant, named: &Named) -> Table {
    let node = named.node().filter(|node| node.is_absolute());
    let live = named.changes_live_system.then_some(Path::new("/"));
    let changed = node.or(live);
    let allowed = |when: &When| match when {
        When::Always => true,
        When::LiveSystemChanges => named.changes_live_system,
        When::There(path) => Path::new(path).exists(),
    };
    let programs = assistant.programs.iter().filter(|(when, _)| allowed(when));
    Table {
        programs: programs.flat_map(|(_, programs)| *programs).copied().collect(),
        roots: node.map(Path::to_owned).into_iter().collect(),
        remounts: changed
            .into_iter()
            .flat_map(|root| assistant.remounts.iter().map(|below| root.join(below)))
            .collect(),
        disks: if assistant.mount_points.is_empty() { Vec::new() } else { named.targets.clone() },
        mount_points: assistant.mount_points,
    }
}

#[cfg(test)]
mod tests;
