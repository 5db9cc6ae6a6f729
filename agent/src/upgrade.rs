//! The step that brings another agent: `landfall netcheck upgrade`, and then going on as what came.
//!
//! The real agent pulls the image and registers again, which starts the runner that the service wants. Here the image may
//! hold this very program in another version (its label says so): then the process becomes that. What else the image holds
//! is of no use to a host that runs this agent without containers, and the program stays.

use crate::action::{Named, Refusal, Run, only_arg};
use api::Step;
use serde::Deserialize;
use std::{
    borrow::Cow,
    ffi::OsString,
    fs, io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Where the step puts the program. Only root writes below /run.
pub const STAGED: &str = "/run/landfall/agent.new";
/// Where it runs from, so that a later one can be staged.
const CURRENT: &str = "/run/landfall/agent";
/// Pulling and fetching watch their own time, [`FETCH_SECONDS`] each.
const DEADLINE: Duration = Duration::from_secs(960);
const FETCH_SECONDS: &str = "450";
/// Longest time for a program to tell its version.
const TRIAL: Duration = Duration::from_secs(5);
const TRIAL_LOOK: Duration = Duration::from_millis(20);
const MAX_IMAGE_CHARS: usize = 1000;

#[derive(Deserialize)]
struct Request {
    agent_image: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: String,
}

/// The child process for the step.
pub(crate) fn action(step: &Step) -> Result<Run, Refusal> {
    let argument = only_arg(step)?;
    let Request { agent_image } =
        serde_json::from_str(argument).map_err(|error| Refusal::Json { what: "upgrade agent request", error })?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/' | '@' | '?');
    let starts_well = agent_image.starts_with(|c: char| c.is_ascii_alphanumeric());
    if agent_image.len() > MAX_IMAGE_CHARS || !starts_well || !agent_image.chars().all(fits) {
        let value = agent_image.chars().take(80).collect();
        return Err(Refusal::Type { what: "agent_image", kind: "image reference", value });
    }
    Ok(Run {
        args: ["netcheck", "upgrade", "--request", "-", "--stage", STAGED, "--timeout-s", FETCH_SECONDS]
            .map(Cow::from)
            .into(),
        stdin: argument.as_bytes().to_vec(),
        deadline: Some(DEADLINE),
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named::default(),
    })
}

/// Whether the step's answer says that the image is there.
pub(crate) fn succeeded(output: &str) -> bool {
    serde_json::from_str::<Answer>(output).is_ok_and(|answer| answer.result == "success")
}

/// Whether a program has come that is not ours yet.
pub fn is_staged() -> bool {
    Path::new(STAGED).exists()
}

/// Why the program was not changed.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// It is no program of this machine, say.
    #[error("{} does not run", program.display())]
    Run { program: std::path::PathBuf, source: io::Error },
    /// It runs, and is not what it should be.
    #[error("{} is no agent: asked for its version it {how}", program.display())]
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
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("agent"));
    tracing::info!("going on as the agent from the image");
    Err(run(Command::new(CURRENT).arg0(name).args(words).exec()))
}

/// Whether it tells a version within seconds.
fn try_out(program: &Path) -> Result<(), UpgradeError> {
    let failed = |source| UpgradeError::Run { program: program.to_owned(), source };
    let mut command = Command::new(program);
    command.arg0("landfall").arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let start = Instant::now();
    let unfit = |how| Err(UpgradeError::Unfit { program: program.to_owned(), how });
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if ExitStatus::success(&status) => return Ok(()),
            Some(status) => return unfit(format!("ended with {status}")),
            None if start.elapsed() >= TRIAL => {
                let _ = child.kill();
                let _ = child.wait();
                return unfit(format!("said nothing for {} s", TRIAL.as_secs()));
            }
            None => thread::sleep(TRIAL_LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::StepType;

    fn act(args: &[&str]) -> Result<Run, String> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let step = Step { args, step_id: "u-1".into(), step_type: StepType::UpgradeAgent };
        action(&step).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn the_request_goes_in_as_it_came_if_it_names_an_image() {
        let request = r#"{"agent_image":"r.example.com:5000/ns/agent:v3@sha256:aa","new":1}"#;
        let run = act(&[request]).unwrap();
        assert_eq!((run.args[1].as_ref(), run.stdin.as_slice()), ("upgrade", request.as_bytes()));
        assert!(run.dies_with_agent && run.deadline.is_some());
        assert_eq!(act(&[]).unwrap_err(), "upgrade-agent cmd accepts 1 params in args, given args []");
        assert!(act(&["{}"]).unwrap_err().starts_with("validation failure list:\nupgrade agent request: "));
        for image in ["", "--all-tags", "a b", "a\nb", "r.io/a:1;reboot", &"a".repeat(2000)] {
            let error = act(&[&serde_json::json!({"agent_image": image}).to_string()]).unwrap_err();
            assert!(error.starts_with("validation failure list:\nagent_image in body"), "{error}");
        }
    }

    #[test]
    fn only_success_is_success() {
        assert!(succeeded(r#"{"agent_image":"x","result":"success"}"#));
        for output in [r#"{"agent_image":"x","result":"failure"}"#, r#"{"agent_image":"x"}"#, "", "success"] {
            assert!(!succeeded(output), "{output}");
        }
    }

    #[test]
    fn a_program_is_tried_before_it_is_trusted() {
        let text = |path: &str| try_out(Path::new(path)).unwrap_err().to_string();
        assert!(try_out(Path::new("/bin/true")).is_ok());
        assert_eq!(text("/bin/false"), "/bin/false is no agent: asked for its version it ended with exit status: 1");
        assert_eq!(text("/etc/passwd"), "/etc/passwd does not run");
        let start = Instant::now();
        assert!(text("/usr/bin/yes-that-is-not-there").ends_with("does not run") && start.elapsed() < TRIAL);
    }
}
