//! The program as a child process, which never outlives the run.

use crate::directory::{Directory, Fill};
use kernel::outputs::{Keep, Outputs};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};
use std::{
    cell::Cell,
    ffi::OsString,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Stored of the output's start, which errors show, and of its end, which the log shows.
const KEPT_BYTES: usize = 1024;
/// An error shows output up to this length whole …
const SHOWN_BYTES: usize = 524;
/// … and of longer output this much.
const SHORTENED_BYTES: usize = 500;
/// How long output is read after the program's end.
const LINGER: Duration = Duration::from_secs(1);
/// Between two looks at the directory.
const MEASURE_EVERY: Duration = Duration::from_millis(250);
/// Another thread's child may hold a program that was just written, until it executes its own.
const BUSY_TRIES: u32 = 40;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Why a command of the program didn't succeed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("the preparation was cancelled")]
    Cancelled,
    #[error("{} can't be started{}", program.display(), hint(program, source))]
    Start { program: PathBuf, source: io::Error },
    /// Its output may have any characters.
    #[error("{}error running openshift-install {command},  {output}: exit status {code}", prefix(command))]
    Failed { command: &'static str, output: String, code: i32 },
    #[error("{}openshift-install create {command} was ended by {signal}; its output: {output}", prefix(command))]
    Signalled { command: &'static str, output: String, signal: String },
    #[error("openshift-install create {command} had not finished after {limit:?} and was ended")]
    TookTooLong { command: &'static str, limit: Duration },
    #[error("openshift-install create {command} used more than {} and was ended", kernel::units::binary(*max_bytes))]
    TooManyBytes { command: &'static str, max_bytes: u64 },
    #[error("openshift-install create {command} made more than {max} files and was ended")]
    TooManyFiles { command: &'static str, max: usize },
    #[error("openshift-install create {command} can't be watched")]
    Watch { command: &'static str, source: io::Error },
}

/// The command for a single node.
pub(super) const SINGLE_NODE: &str = "single-node-ignition-config";

fn prefix(command: &str) -> &'static str {
    if command == SINGLE_NODE { "Failed to create single node ignitions: " } else { "" }
}

fn hint(program: &Path, source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound if program.exists() => ": this machine lacks the interpreter that it names",
        _ => "",
    }
}

/// The program, and what it may take.
pub(super) struct Program<'a> {
    pub path: &'a Path,
    /// All of it: nothing is inherited.
    pub environment: Vec<(String, OsString)>,
    pub directory: &'a Directory,
    /// For a command.
    pub time: Duration,
    pub directory_bytes: u64,
    pub stop: &'a dyn Fn() -> bool,
}

impl Program<'_> {
    /// Runs `create COMMAND --dir DIRECTORY`.
    ///
    /// The kernel ends the program with the thread that started it (prctl(2), `PR_SET_PDEATHSIG`), so this must be called on a thread
    /// that lives as long; it waits here anyway.
    pub(super) fn create(&self, command: &'static str) -> Result<(), ProgramError> {
        if (self.stop)() {
            return Err(ProgramError::Cancelled);
        }
        let failed = |source| ProgramError::Start { program: self.path.to_owned(), source };
        let (mut outputs, ends) = Outputs::merged(Keep::Ends(KEPT_BYTES)).map_err(failed)?;
        let mut group = self.start(command, ends).map_err(failed)?;
        let deadline = Instant::now().checked_add(self.time);
        let (over, measured) = (Cell::new(None), Cell::new(Instant::now()));
        let is_over = || {
            let found = if (self.stop)() {
                Some(ProgramError::Cancelled)
            } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                Some(ProgramError::TookTooLong { command, limit: self.time })
            } else if measured.get().elapsed() >= MEASURE_EVERY {
                let found = self.overfull(command);
                measured.set(Instant::now());
                found
            } else {
                None
            };
            let is_over = found.is_some();
            over.set(found);
            is_over
        };
        let status = outputs.follow(LINGER, || group.ended(), |_| is_over());
        drop(group);
        let status = status.map_err(|source| ProgramError::Watch { command, source })?;
        let Some(status) = status else { return Err(over.take().unwrap_or(ProgramError::Cancelled)) };
        let [output] = outputs.texts();
        if status.success() {
            return self.overfull(command).map_or(Ok(()), Err);
        }
        tracing::warn!(command, %status, output = ?end(&output), "openshift-install failed");
        let output = shortened(&output);
        Err(match (status.code(), status.signal()) {
            (Some(code), _) => ProgramError::Failed { command, output, code },
            (None, signal) => ProgramError::Signalled { command, output, signal: signal_name(signal) },
        })
    }

    fn start(&self, command: &str, [stdout, stderr]: [std::os::fd::OwnedFd; 2]) -> io::Result<Group> {
        // Relative to our directory, not to the child's.
        let mut program = Command::new(std::path::absolute(self.path)?);
        program.args(["create", command, "--dir"]).arg(self.directory.cluster());
        program.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        program.current_dir(self.directory.path()).process_group(0);
        program.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        kernel::fork::end_with_this_thread(&mut program, Signal::SIGKILL);
        for _ in 0..BUSY_TRIES {
            match program.spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::sleep(BUSY_PAUSE),
                started => return Ok(Group { child: started?, is_over: false }),
            }
        }
        Err(io::ErrorKind::ExecutableFileBusy.into())
    }

    fn overfull(&self, command: &'static str) -> Option<ProgramError> {
        match self.directory.fill(self.directory_bytes) {
            Fill::Within => None,
            Fill::TooManyBytes => Some(ProgramError::TooManyBytes { command, max_bytes: self.directory_bytes }),
            Fill::TooManyEntries { max } => Some(ProgramError::TooManyFiles { command, max }),
        }
    }
}

/// A program with all that it started. Dropping it ends them.
struct Group {
    child: Child,
    /// Its number may be another's.
    is_over: bool,
}

impl Group {
    fn pid(&self) -> io::Result<Pid> {
        i32::try_from(self.child.id()).map(Pid::from_raw).map_err(io::Error::other)
    }

    /// The program's end, after which nothing of the group runs.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.pid()?), look) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => self.end().map(Some),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Kills what runs. As long as the program is not waited for, its number can't be that of another group.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_over {
            let _ = killpg(self.pid()?, Signal::SIGKILL);
        }
        let status = self.child.wait();
        self.is_over = true;
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Output as errors show it.
fn shortened(output: &str) -> String {
    match output.as_bytes().get(..SHORTENED_BYTES) {
        Some(start) if output.len() > SHOWN_BYTES => format!("{} <TRUNCATED>", String::from_utf8_lossy(start)),
        _ => output.to_owned(),
    }
}

/// The last of the output, where programs say why they end.
fn end(output: &str) -> &str {
    let mut start = output.len().saturating_sub(KEPT_BYTES);
    while !output.is_char_boundary(start) {
        start += 1;
    }
    output.get(start..).unwrap_or_default()
}

fn signal_name(signal: Option<i32>) -> String {
    let known = signal.and_then(|number| Signal::try_from(number).ok());
    known.map_or_else(|| "an unknown signal".to_owned(), |signal| signal.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_shortened() {
        for (output, expected) in [
            (String::new(), String::new()),
            ("x".repeat(524), "x".repeat(524)),
            ("x".repeat(525), format!("{} <TRUNCATED>", "x".repeat(500))),
            (format!("{}é{}", "x".repeat(499), "x".repeat(99)), format!("{}\u{fffd} <TRUNCATED>", "x".repeat(499))),
        ] {
            assert_eq!(shortened(&output), expected);
        }
        assert_eq!(end("short"), "short");
        assert_eq!(end(&format!("{}é{}", "x".repeat(99), "y".repeat(1023))), "y".repeat(1023));
    }

    #[test]
    fn errors_are_worded_as_clients_know_them() {
        let failed = |command| ProgramError::Failed { command, output: "out".to_owned(), code: 3 }.to_string();
        assert_eq!(failed("manifests"), "error running openshift-install manifests,  out: exit status 3");
        let single = "Failed to create single node ignitions: error running openshift-install \
                      single-node-ignition-config,  out: exit status 3";
        assert_eq!(failed(SINGLE_NODE), single);
    }
}
