//! Holds a step to the rules of its type ([`crate::steps`]): the files and ports that Landlock lets it reach, and the system
//! calls that seccomp lets it make. What is refused fails with EACCES or EPERM, as for want of a permission, so it ends up in the
//! step's own error; the kernel's audit log has a line for it, too.
//!
//! The child does it to itself, before it reads its request: only then can it lose the power to execute programs.
//! If its type needs programs all the same, it first forks an assistant that starts them by a table ([`assist`]).

pub(crate) mod calls;
mod files;
mod filters;
mod named;

pub(crate) use named::CA_VARIABLE;
pub use named::Named;

use crate::privileges::{Assistant, Calls, Reach, When};
use assist::Table;
use kernel::filter::Instruction;
use seccompiler::{BackendError, BpfProgram, TargetArch, sock_filter};
use std::{env, io, path::Path};

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
    /// No process to do what the step itself may not.
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

/// Logs once which rules hold steps on this kernel.
pub fn log_means() {
    let means = Means::detect();
    match means.missing().as_slice() {
        [] => tracing::debug!(landlock = means.landlock, "steps are restricted to their files, ports and system calls"),
        missing => tracing::warn!(
            landlock = means.landlock,
            "this kernel restricts steps by capabilities and limits, but not by their rules for {}",
            missing.join(", ")
        ),
    }
}

/// Holds this process to these rules for good. To be called while it has one thread.
pub(crate) fn enter(reach: Reach, named: &Named) -> Result<(), ConfineError> {
    let means = Means::detect();
    let arch = architecture().filter(|_| means.seccomp);
    let instruction = |i: &sock_filter| Instruction { code: i.code, if_true: i.jt, if_false: i.jf, operand: i.k };
    // seccompiler makes filters and can't have them logged.
    let filter = |program: &BpfProgram, logged| {
        let program: Vec<_> = program.iter().map(instruction).collect();
        kernel::confine::filter_calls(&program, logged).map_err(ConfineError::Seccomp)
    };
    let rules = match reach {
        Reach::Only(rules) => rules,
        Reach::Assisted(rules, assistant) => {
            // The assistant is held to it, too.
            if let Some(arch) = arch {
                filter(&filters::refusing(&[assistant.forbidden], arch)?, true)?;
            }
            assist::fork(table(&assistant, named)).map_err(ConfineError::Assistant)?;
            rules
        }
    };
    if rules.asks_controllers {
        kernel::megaraid::prepare();
    }
    // Before the filter, which forbids more of it.
    if means.landlock > 0 {
        files::restrict(&rules, named)?;
    }
    let Some(arch) = arch else { return Ok(()) };
    let calls = match rules.calls {
        Calls::Only(calls) => calls,
        Calls::AllBut(calls) => return filter(&filters::refusing(calls, arch)?, true),
    };
    let filters = filters::allowing(&rules, calls, arch)?;
    // Not an offence, and not logged.
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
