//! The host's own podman, asked to pull and keep images. The one program that netcheck starts: the image must get into the
//! storage of the host's containers, whose format is podman's own affair.

use nix::{sys::signal, unistd::Pid};
use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// Enough for what podman says at the end.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Questions about the storage take milliseconds, unless another podman holds its lock.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Storage for images on the host.
pub trait Store {
    /// Whether it has the image.
    fn holds(&self, image: &str) -> Result<bool, StoreError>;
    /// Fetches the image and keeps it.
    fn pull(&self, image: &str, timeout: Duration) -> Result<(), StoreError>;
    /// How large the image is as stored, which is uncompressed.
    fn size_bytes(&self, image: &str) -> Result<u64, StoreError>;
}

/// Why the store did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Can't be started or waited for.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Ended without success.
    #[error("podman {action} ends with {status}: {said}")]
    Failed {
        /// What it should do.
        action: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last line that it printed.
        said: String,
    },
    /// Was stopped.
    #[error("podman {action} was stopped after {} s", after.as_secs())]
    Timeout {
        /// What it should do.
        action: &'static str,
        /// The time it was given.
        after: Duration,
    },
    /// Printed something else than a size.
    #[error("podman says that the image has '{said}' bytes")]
    Size {
        /// What it printed.
        said: String,
    },
}

/// podman(1).
#[derive(Clone, Debug)]
pub struct Podman {
    program: PathBuf,
    authfile: Option<PathBuf>,
}

impl Podman {
    /// Where it is on every host that has it from its distribution; no search path decides what root runs.
    pub const PATH: &str = "/usr/bin/podman";

    /// The podman at `program`; `None` where there is none. It finds credentials by itself unless told.
    pub fn find(program: &Path, authfile: Option<&Path>) -> Option<Self> {
        program.exists().then(|| Self { program: program.to_owned(), authfile: authfile.map(Path::to_owned) })
    }

    fn run(
        &self,
        action: &'static str,
        timeout: Duration,
        command: &mut Command,
    ) -> Result<(ExitStatus, String), StoreError> {
        let failed = |source| StoreError::Run { program: self.program.clone(), source };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            let stdout = scope.spawn(|| stdout.map(tail).unwrap_or_default());
            let stderr = scope.spawn(|| stderr.map(tail).unwrap_or_default());
            let status = wait(&mut child, timeout);
            let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().unwrap_or_default());
            let status = status.map_err(failed)?.ok_or(StoreError::Timeout { action, after: timeout })?;
            let said = if status.success() { stdout } else { stderr };
            Ok((status, super::reference::shorten(said.trim().lines().last().unwrap_or_default())))
        })
    }

    fn succeed(&self, action: &'static str, timeout: Duration, command: &mut Command) -> Result<String, StoreError> {
        match self.run(action, timeout, command)? {
            (status, said) if status.success() => Ok(said),
            (status, said) => Err(StoreError::Failed { action, status, said }),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }
}

impl Store for Podman {
    fn holds(&self, image: &str) -> Result<bool, StoreError> {
        let action = "image exists";
        match self.run(action, QUESTION_TIMEOUT, &mut self.command(&["image", "exists", "--", image]))? {
            (status, _) if status.success() => Ok(true),
            (status, _) if status.code() == Some(1) => Ok(false),
            (status, said) => Err(StoreError::Failed { action, status, said }),
        }
    }

    fn pull(&self, image: &str, timeout: Duration) -> Result<(), StoreError> {
        let mut command = self.command(&["pull", "--quiet"]);
        if let Some(authfile) = &self.authfile {
            command.arg("--authfile").arg(authfile);
        }
        self.succeed("pull", timeout, command.args(["--", image])).map(drop)
    }

    fn size_bytes(&self, image: &str) -> Result<u64, StoreError> {
        let mut command = self.command(&["image", "inspect", "--format={{.Size}}", "--", image]);
        let said = self.succeed("image inspect", QUESTION_TIMEOUT, &mut command)?;
        said.parse().map_err(|_| StoreError::Size { said })
    }
}

/// Waits for the child; when the time is up ends it and all that it has started, and gives `None`.
fn wait(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= timeout {
            let group = i32::try_from(child.id()).map_err(io::Error::other)?;
            signal::killpg(Pid::from_raw(group), signal::Signal::SIGKILL)?;
            child.wait()?;
            return Ok(None);
        }
        sleep(POLL_INTERVAL);
    }
}

/// Reads all and keeps the end.
fn tail(mut output: impl Read) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = output.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..length]);
        if kept.len() > MAX_OUTPUT_BYTES {
            kept.drain(..kept.len() - MAX_OUTPUT_BYTES);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    /// A podman that is a shell script.
    fn podman(script: &str) -> (tempfile::TempDir, Podman) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("podman");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let podman = Podman::find(&program, Some(Path::new("/a b.json"))).unwrap();
        (directory, podman)
    }

    #[test]
    fn questions_and_answers() {
        let (_directory, podman) = podman(
            r#"case "$*" in
            "image exists -- here") exit 0;; "image exists -- absent") exit 1;;
            "pull --quiet --authfile /a b.json -- here") echo id;;
            "image inspect --format={{.Size}} -- here") echo 123;; "image inspect --format={{.Size}} -- odd") echo many;;
            *) echo first >&2; printf 'Error: \033[31mno\n\n' >&2; exit 125;; esac"#,
        );
        assert!(podman.holds("here").unwrap());
        assert!(!podman.holds("absent").unwrap());
        let error = podman.holds("damaged").unwrap_err().to_string();
        assert_eq!(error, "podman image exists ends with exit status: 125: Error: \u{fffd}[31mno");
        podman.pull("here", Duration::from_secs(60)).unwrap();
        assert!(podman.pull("--all-tags", Duration::from_secs(60)).is_err());
        assert_eq!(podman.size_bytes("here").unwrap(), 123);
        assert_eq!(podman.size_bytes("odd").unwrap_err().to_string(), "podman says that the image has 'many' bytes");
    }

    #[test]
    fn a_pull_ends_with_its_time_and_takes_its_children_along() {
        let (directory, podman) = podman("sleep 1000 & echo $! > \"${0%/*}/child\"; wait");
        // On a loaded machine the script may not get to its child in a second.
        let child = [1, 10, 60].into_iter().find_map(|seconds| {
            let error = podman.pull("slow", Duration::from_secs(seconds)).unwrap_err();
            assert!(matches!(error, StoreError::Timeout { .. }), "{error}");
            let written = fs::read_to_string(directory.path().join("child")).unwrap_or_default();
            written.trim().parse::<u32>().ok()
        });
        let child = child.expect("the script starts a child");
        let state = || fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_else(|_| "gone".into());
        // A process that is killed is still there for a moment.
        let end = Instant::now() + Duration::from_secs(30);
        while !(state() == "gone" || state().contains(") Z ")) {
            assert!(Instant::now() < end, "{}", state());
            sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn no_podman_is_no_error() {
        assert!(Podman::find(Path::new("/nonexistent/podman"), None).is_none());
    }
}
