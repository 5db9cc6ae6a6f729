//! The host's own tools; failures are reported with their output.

use anyhow::{Context, Result, ensure};
use std::{
    ffi::OsStr,
    io::Write,
    process::{Command, Stdio},
};

/// A command for `program`, also from the sbin directories that an ordinary user's PATH lacks.
pub(super) fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// `program` with `args`, run to its end; gives its stdout.
pub(super) fn run<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Result<String> {
    let mut command = tool(program);
    command.args(args);
    finish(command)
}

/// Runs `command` to its end; gives its stdout. An exit status other than 0 is an error that contains its stderr.
pub(super) fn finish(mut command: Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("starting {program} (the machine set-up script installs it)"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed ({}): {}", output.status, stderr.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `command` with `input` on its stdin; its output goes where the command says.
pub(super) fn feed(mut command: Command, input: &[u8]) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdin(Stdio::piped()).spawn().with_context(|| format!("starting {program}"))?;
    let mut stdin = child.stdin.take().with_context(|| format!("{program} has no stdin"))?;
    let written = stdin.write_all(input);
    drop(stdin);
    let status = child.wait().with_context(|| format!("waiting for {program}"))?;
    ensure!(status.success(), "{program} failed ({status})");
    written.with_context(|| format!("writing to {program}"))
}
