//! Replacing this agent by another one, which a step of type `upgrade-agent` brought.
//!
//! The real agent pulls the image and registers again, which starts the runner that the service wants. Here the image may
//! hold this very program in another version (its label says so): then the process becomes that. What else the image holds
//! is of no use to a host that runs this agent without containers, and the program stays.

use crate::{ourselves, steps::STAGED};
use kernel::outputs::{Keep, Outputs};
use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Where it runs from, so that a later one can be staged.
const CURRENT: &str = "/run/landfall/agent";
/// Longest time for a program to print its version.
const TRIAL: Duration = Duration::from_secs(5);

/// Whether a program has come that is not ours yet.
pub fn is_staged() -> bool {
    Path::new(STAGED).exists()
}

/// Why the program was not changed.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// It is not a program for this machine, say.
    #[error("cannot run {}", program.display())]
    Run { program: std::path::PathBuf, source: io::Error },
    /// It runs, but is not an agent.
    #[error("{} is not an agent: when asked for its version, it {how}", program.display())]
    Unfit { program: std::path::PathBuf, how: String },
}

/// Becomes the staged program, with our own arguments and environment; returns only if there is none (`Ok`) or it is unfit.
pub fn become_staged() -> Result<(), UpgradeError> {
    let staged = Path::new(STAGED);
    if !staged.exists() {
        return Ok(());
    }
    let tried = try_out(staged);
    if tried.is_err() {
        let _ = fs::remove_file(staged);
    }
    tried?;
    let run = |source| UpgradeError::Run { program: staged.to_owned(), source };
    fs::rename(staged, CURRENT).map_err(run)?;
    tracing::info!("continuing as the agent from the image");
    Err(run(ourselves::go_on_as(Path::new(CURRENT), &[])))
}

/// Whether it prints a version within seconds.
fn try_out(program: &Path) -> Result<(), UpgradeError> {
    let failed = |source| UpgradeError::Run { program: program.to_owned(), source };
    let (mut outputs, [stdout, stderr]) = Outputs::errors(Keep::End(0)).map_err(failed)?;
    let mut command = Command::new(program);
    command.arg0("landfall").arg("--version").stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().map_err(failed)?;
    let start = Instant::now();
    let ended = outputs.follow(Duration::ZERO, || child.try_wait(), |_| start.elapsed() >= TRIAL).map_err(failed)?;
    let how = match ended {
        Some(status) if status.success() => return Ok(()),
        Some(status) => format!("ended with {status}"),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            format!("printed nothing for {} s", TRIAL.as_secs())
        }
    };
    Err(UpgradeError::Unfit { program: program.to_owned(), how })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_tried_before_it_is_trusted() {
        let text = |path: &str| try_out(Path::new(path)).unwrap_err().to_string();
        assert!(try_out(Path::new("/bin/true")).is_ok());
        assert_eq!(
            text("/bin/false"),
            "/bin/false is not an agent: when asked for its version, it ended with exit status: 1"
        );
        assert_eq!(text("/etc/passwd"), "cannot run /etc/passwd");
        assert!(text("/usr/bin/yes-that-is-not-there").starts_with("cannot run"));
    }
}
