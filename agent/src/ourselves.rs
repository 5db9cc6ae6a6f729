//! This program, which the agent starts for each step, and execs when its environment or its version must change.

use api::Secret;
use std::{env, io, os::unix::process::CommandExt, path::Path, process::Command};

/// Also when its file was replaced or removed.
pub(crate) const PROGRAM: &str = "/proc/self/exe";

/// Replaces this process by `program` with our own arguments, and these variables besides our own; returns only when that fails.
pub(crate) fn go_on_as(program: &Path, variables: &[(&'static str, Secret)]) -> io::Error {
    let mut arguments = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value.expose()))).exec()
}
