//! Runs one step in a child process, with bounds on its time and its output.

pub use crate::outcome::Outcome;
use crate::{
    confine::{self, ConfineError, Named},
    ourselves,
    settings::Limits,
    steps::{self, Run},
};
use api::{
    StepType,
    proxy::{self, ProxyVariables},
};
use journal::RELAYED;
use kernel::{
    Cancel,
    confine::{Confinement, confine as confine_child},
    outputs::{Keep, Outputs},
};
use nix::{
    sys::{
        memfd::{MFdFlags, memfd_create},
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use std::{
    env,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time between SIGTERM and SIGKILL, and for the pipes of an ended child to close.
const GRACE: Duration = Duration::from_secs(5);
/// What a child finds in its environment: nothing that could be a secret. The token comes, where needed, on its standard input,
/// proxies in a file.
const PASSED_ON: [&str; 20] = [
    "CONTAINERS_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_STORAGE_CONF",
    "DRY_HOST_ID",
    "HOME",
    "LANDFALL_LOG",
    "LANG",
    "LC_ALL",
    "LLVM_PROFILE_FILE",
    "PATH",
    "PCIDB_PATH",
    "REGISTRY_AUTH_FILE",
    "RUST_BACKTRACE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];
/// Gives a child the id of its step; its log then has no times, as ours has.
const STEP_VARIABLE: &str = "LANDFALL_STEP";
/// Gives it the type of that step.
pub(crate) const TYPE_VARIABLE: &str = "LANDFALL_STEP_TYPE";

/// Why a child was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Deadline(Duration),
    Flood,
    Stop,
}

/// Runs `program` as `run` says for the step `step_id` of type `kind`, and waits for it.
pub fn run(program: &Path, run: &Run, kind: &StepType, step_id: &str, limits: Limits, stop: &Cancel) -> Outcome {
    run_with_start(program, run, kind, step_id, limits, stop, |_| ())
}

/// As [`run`]; `on_start` gets the child's process id once it has started.
pub(crate) fn run_with_start(
    program: &Path,
    run: &Run,
    kind: &StepType,
    step_id: &str,
    limits: Limits,
    stop: &Cancel,
    on_start: impl FnOnce(u32),
) -> Outcome {
    let started =
        command(program, run, kind, step_id).and_then(|command| Watched::start(command, run, limits, on_start));
    let mut watched = match started {
        Ok(watched) => watched,
        Err(error) => return Outcome::failed(format!("cannot start {}: {error}", program.display())),
    };
    let (status, cut) = watched.wait(run, stop);
    let [output, error] = watched.collect();
    outcome(run, status, cut, output, error, limits)
}

/// Where this process is a step of the agent's, holds it to the rules of its type for good. To be called while it has one thread.
pub fn enter_if_step() -> Result<(), ConfineError> {
    let Some(name) = env::var(TYPE_VARIABLE).ok() else { return Ok(()) };
    // Every text is a type: an unknown one gets the narrowest rules.
    let kind = api::json::from_value(name.into()).unwrap_or(StepType::Execute);
    let named = Named::from_environment();
    confine::enter(steps::privileges(&kind, named.action.as_deref()).reach, &named)
}

fn command(program: &Path, run: &Run, kind: &StepType, step_id: &str) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.args(run.args.iter().map(AsRef::<str>::as_ref));
    command.env_clear().envs(PASSED_ON.iter().filter_map(|name| Some((name, env::var_os(name)?))));
    command.env(STEP_VARIABLE, printable(step_id)).env(TYPE_VARIABLE, kind.to_string());
    command.envs(run.named.variables());
    command.stdin(Stdio::piped());
    if program == Path::new(ourselves::PROGRAM) {
        // What ps and usage texts show.
        command.arg0("landfall");
    }
    let privileges = steps::privileges(kind, run.named.action.as_deref());
    let file = if privileges.proxies { proxy_file()? } else { None };
    if let Some(file) = &file {
        command.env(proxy::FILE_VARIABLE, format!("/proc/self/fd/{}", file.as_raw_fd()));
    }
    let confinement = Confinement {
        dies_with_us: run.dies_with_agent,
        capabilities: privileges.capabilities.iter().fold(0, |set, capability| set | capability.bitmask()),
        memory_bytes: privileges.memory_bytes,
        oom_score_adj: privileges.oom_score_adj,
        file,
    };
    confine_child(&mut command, confinement);
    Ok(command)
}

/// The proxies of our environment in a file without a name, if there are any.
fn proxy_file() -> io::Result<Option<OwnedFd>> {
    let lines = ProxyVariables::from_env().to_lines();
    if lines.is_empty() {
        return Ok(None);
    }
    let mut file = File::from(memfd_create("proxies", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(lines.expose().as_bytes())?;
    Ok(Some(file.into()))
}

fn outcome(
    run: &Run,
    status: io::Result<ExitStatus>,
    cut: Option<Cut>,
    output: String,
    mut error: String,
    limits: Limits,
) -> Outcome {
    let exit_code = match (&status, cut) {
        (Ok(status), None) => status.code().map_or(-1, i64::from),
        _ => -1,
    };
    let reason = match (cut, status) {
        (Some(Cut::Deadline(deadline)), _) => {
            format!("the step was ended: it took longer than {} s", deadline.as_secs())
        }
        (Some(Cut::Flood), _) => format!("the step was ended: it printed more than {} bytes", limits.stdout_bytes),
        (Some(Cut::Stop), _) => "the step was ended with the agent".to_owned(),
        (None, Err(cause)) => format!("cannot wait for the step: {cause}"),
        // ExitStatus says "exit status: 1" or "signal: 9 (SIGKILL)".
        (None, Ok(status)) if exit_code != 0 && error.is_empty() => status.to_string().replace("status: ", "status "),
        _ => String::new(),
    };
    if !reason.is_empty() {
        let separator = if error.is_empty() || error.ends_with('\n') { "" } else { "\n" };
        error = format!("{error}{separator}{reason}");
    }
    let error = match exit_code {
        0 if run.answers_on_stderr => error.trim_end().to_owned(),
        // The log of a success is ours alone; a reply needs none.
        0 => String::new(),
        _ => error,
    };
    let output = if exit_code == 0 || cut.is_none() { output } else { String::new() };
    Outcome { exit_code, output, error }
}

/// A running child and its pipes.
struct Watched {
    child: Child,
    outputs: Outputs<2>,
}

impl Watched {
    fn start(mut command: Command, run: &Run, limits: Limits, on_start: impl FnOnce(u32)) -> io::Result<Self> {
        let (outputs, [stdout, stderr]) =
            Outputs::apart([Keep::Start(limits.stdout_bytes), Keep::End(limits.stderr_bytes)])?;
        let child = command.stdout(stdout).stderr(stderr).spawn()?;
        // It has our copies of the pipes' other ends.
        drop(command);
        on_start(child.id());
        let mut watched = Self { child, outputs: outputs.relaying_errors(relay) };
        if let Some(mut pipe) = watched.child.stdin.take() {
            let input = run.stdin.clone();
            // A child that doesn't read its input closes the pipe at its end, which ends this thread.
            let thread = thread::Builder::new().name("step input".to_owned());
            if let Err(error) = thread.spawn(move || drop(pipe.write_all(&input))) {
                watched.signal_group(Signal::SIGKILL);
                let _ = watched.child.wait();
                return Err(error);
            }
        }
        Ok(watched)
    }

    /// Waits for the end, which comes early when the child takes too long, prints too much or we stop.
    fn wait(&mut self, run: &Run, stop: &Cancel) -> (io::Result<ExitStatus>, Option<Cut>) {
        let start = Instant::now();
        let cut = |outputs: &Outputs<2>| match run.deadline.filter(|&deadline| start.elapsed() >= deadline) {
            Some(deadline) => Some(Cut::Deadline(deadline)),
            None if outputs.is_flooded() => Some(Cut::Flood),
            None if run.dies_with_agent && stop.is_cancelled() => Some(Cut::Stop),
            None => None,
        };
        let ended = self.outputs.follow(Duration::ZERO, || self.child.try_wait(), |outputs| cut(outputs).is_some());
        match ended {
            Ok(Some(status)) => (Ok(status), self.outputs.is_flooded().then_some(Cut::Flood)),
            Ok(None) => {
                let cut = cut(&self.outputs);
                (self.end(), cut)
            }
            Err(error) => (Err(error), None),
        }
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            self.signal_group(signal);
            let start = Instant::now();
            let ended = self.outputs.follow(Duration::ZERO, || self.child.try_wait(), |_| start.elapsed() >= GRACE)?;
            if let Some(status) = ended {
                return Ok(status);
            }
        }
        // Blocked in the kernel, on a device that does not answer, say. It ends when it can, as our zombie; steps of its type
        // must continue.
        Err(io::Error::other("it does not end even when killed; it is blocked in the kernel"))
    }

    /// The child leads its own group, with all it started in it.
    fn signal_group(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(-pid), signal);
        }
    }

    /// What came through the pipes. A grandchild may hold them open: it gets a moment, then SIGKILL, then is left alone.
    fn collect(mut self) -> [String; 2] {
        let _ = self.outputs.finish(GRACE);
        if !self.outputs.are_closed() {
            self.signal_group(Signal::SIGKILL);
            let _ = self.outputs.finish(GRACE);
        }
        self.outputs.texts()
    }
}

/// Shows a line of the child's log.
fn relay(line: &str) {
    let text = printable(line);
    if !text.is_empty() {
        // A child of ours has sent it to the journal itself.
        tracing::info!(target: RELAYED, "{text}");
    }
}

/// Text without what a terminal would act upon.
fn printable(text: &str) -> String {
    text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script in the place of the program.
    fn script(script: &'static str, deadline: Option<Duration>) -> Outcome {
        let limits = Limits { stdout_bytes: 1000, stderr_bytes: 10 };
        let run = Run {
            args: vec!["-c".into(), script.into()],
            stdin: b"the input".to_vec(),
            deadline,
            dies_with_agent: true,
            answers_on_stderr: false,
            named: Named::default(),
        };
        super::run(Path::new("/bin/sh"), &run, &StepType::DomainResolution, "x-1", limits, &Cancel::default())
    }

    #[test]
    fn output_exit_code_and_log_come_back() {
        let outcome = script("cat; echo noise >&2", None);
        assert_eq!(outcome, Outcome { exit_code: 0, output: "the input".into(), error: String::new() });
        let outcome = script("echo half; echo 0123456789abcdef >&2; exit 3", None);
        assert_eq!(outcome, Outcome { exit_code: 3, output: "half\n".into(), error: "789abcdef\n".into() });
        assert_eq!(script("exit 1", None), Outcome::failed_with(1, "exit status 1"));
        assert_eq!(script("kill -9 $$", None), Outcome::failed_with(-1, "signal: 9 (SIGKILL)"));
    }

    #[test]
    fn what_cannot_start_is_a_failed_step() {
        let run = Run {
            args: vec![],
            stdin: vec![],
            deadline: None,
            dies_with_agent: true,
            answers_on_stderr: false,
            named: Named::default(),
        };
        let outcome = super::run(
            Path::new("/nonexistent/landfall"),
            &run,
            &StepType::Inventory,
            "x-1",
            Limits::default(),
            &Cancel::default(),
        );
        assert_eq!(outcome.exit_code, -1);
        assert!(outcome.error.starts_with("cannot start /nonexistent/landfall: "), "{outcome:?}");
    }

    #[test]
    fn a_hanging_child_and_what_it_started_are_ended() {
        let outcome = script("sleep 1000 & sleep 1000", Some(Duration::from_millis(50)));
        assert_eq!(outcome, Outcome::failed_with(-1, "the step was ended: it took longer than 0 s"));
    }

    #[test]
    fn a_flood_ends_the_child() {
        let outcome = script("exec yes", None);
        assert_eq!(outcome, Outcome::failed_with(-1, "the step was ended: it printed more than 1000 bytes"));
        let outcome = script("yes | head -c 5000 >&2", None);
        assert_eq!(outcome.exit_code, 0, "a long log is not a flood: {outcome:?}");
    }

    #[test]
    fn stopping_ends_children_but_not_an_installation() {
        let stop = Cancel::default();
        stop.cancel();
        let run = |script: &'static str, dies_with_agent| {
            let run = Run {
                args: vec!["-c".into(), script.into()],
                stdin: vec![],
                deadline: None,
                dies_with_agent,
                answers_on_stderr: false,
                named: Named::default(),
            };
            super::run(Path::new("/bin/sh"), &run, &StepType::DomainResolution, "x-1", Limits::default(), &stop)
        };
        assert_eq!(run("sleep 1000", true).exit_code, -1);
        assert_eq!(run("sleep 0.1; echo done", false).output, "done\n");
    }

    #[test]
    fn a_child_has_its_own_session_and_no_token() {
        // Field 6 of stat(5) is the session, 1 the process itself.
        let outcome = script(
            "cut -d' ' -f1,6 /proc/$$/stat; echo ${PULL_SECRET_TOKEN-none} $LANDFALL_STEP $LANDFALL_STEP_TYPE ${LANDFALL_STEP_TARGETS-none}",
            None,
        );
        let mut words = outcome.output.split_whitespace();
        assert_eq!(words.next(), words.next());
        assert_eq!(words.collect::<Vec<_>>(), ["none", "x-1", "domain-resolution", "none"]);
    }

    impl Outcome {
        fn failed_with(exit_code: i64, error: &str) -> Self {
            Self { exit_code, output: String::new(), error: error.into() }
        }
    }
}
