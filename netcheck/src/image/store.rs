//! The host's own podman, asked to pull and keep images. The one program that netcheck starts: the image must get into the
//! storage of the host's containers, whose format is podman's own affair.

use super::process::{self, Ended};
use api::proxy::{FILE_VARIABLE, ProxyVariables};
use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

/// Storage for images on the host.
pub trait Store {
    /// Whether it has the image.
    fn holds(&self, image: &str, timeout: Duration) -> Result<bool, StoreError>;
    /// Fetches the image and keeps it.
    fn pull(&self, image: &str, timeout: Duration) -> Result<(), StoreError>;
    /// How large the image is as stored, which is uncompressed.
    fn size_bytes(&self, image: &str, timeout: Duration) -> Result<u64, StoreError>;
}

/// Why the store did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Can't be started or waited for.
    #[error("cannot run {}", program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("podman {action} failed with {status}: {message}")]
    Failed {
        /// What it should do.
        action: &'static str,
        status: ExitStatus,
        /// The last line that it printed.
        message: String,
    },
    #[error("podman {action} was stopped after {} s", after.as_secs())]
    Timeout {
        /// What it should do.
        action: &'static str,
        /// The time it was given.
        after: Duration,
    },
    /// Printed something else than a size.
    #[error("podman reported an image size of '{message}' bytes")]
    Size { message: String },
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

    /// The podman at `program`; `None` if it is missing. It finds credentials by itself unless they are given.
    pub fn find(program: &Path, authfile: Option<&Path>) -> Option<Self> {
        program.exists().then(|| Self { program: program.to_owned(), authfile: authfile.map(Path::to_owned) })
    }

    fn run(
        &self,
        action: &'static str,
        timeout: Duration,
        command: &Command,
    ) -> Result<(ExitStatus, String), StoreError> {
        let failed = |source| StoreError::Run { program: self.program.clone(), source };
        let Ended { status, stdout, stderr } =
            process::run(command, timeout).map_err(failed)?.ok_or(StoreError::Timeout { action, after: timeout })?;
        let message = if status.success() { stdout } else { stderr };
        Ok((status, super::reference::shorten(message.trim().lines().last().unwrap_or_default())))
    }

    fn succeed(&self, action: &'static str, timeout: Duration, command: &Command) -> Result<String, StoreError> {
        match self.run(action, timeout, command)? {
            (status, message) if status.success() => Ok(message),
            (status, message) => Err(StoreError::Failed { action, status, message }),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // The agent keeps proxies out of the environment, and podman looks nowhere else.
        command.args(arguments).envs(ProxyVariables::from_env().pairs()).env_remove(FILE_VARIABLE);
        command
    }
}

impl Store for Podman {
    fn holds(&self, image: &str, timeout: Duration) -> Result<bool, StoreError> {
        let action = "image exists";
        match self.run(action, timeout, &self.command(&["image", "exists", "--", image]))? {
            (status, _) if status.success() => Ok(true),
            (status, _) if status.code() == Some(1) => Ok(false),
            (status, message) => Err(StoreError::Failed { action, status, message }),
        }
    }

    fn pull(&self, image: &str, timeout: Duration) -> Result<(), StoreError> {
        let mut command = self.command(&["pull", "--quiet"]);
        if let Some(authfile) = &self.authfile {
            command.arg("--authfile").arg(authfile);
        }
        self.succeed("pull", timeout, command.args(["--", image])).map(drop)
    }

    fn size_bytes(&self, image: &str, timeout: Duration) -> Result<u64, StoreError> {
        let command = self.command(&["image", "inspect", "--format={{.Size}}", "--", image]);
        let message = self.succeed("image inspect", timeout, &command)?;
        message.parse().map_err(|_| StoreError::Size { message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    const MINUTE: Duration = Duration::from_secs(60);

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
        assert!(podman.holds("here", MINUTE).unwrap());
        assert!(!podman.holds("absent", MINUTE).unwrap());
        let error = podman.holds("damaged", MINUTE).unwrap_err().to_string();
        assert_eq!(error, "podman image exists failed with exit status: 125: Error: \u{fffd}[31mno");
        podman.pull("here", MINUTE).unwrap();
        assert!(podman.pull("--all-tags", MINUTE).is_err());
        assert_eq!(podman.size_bytes("here", MINUTE).unwrap(), 123);
        assert_eq!(
            podman.size_bytes("odd", MINUTE).unwrap_err().to_string(),
            "podman reported an image size of 'many' bytes"
        );
    }

    #[test]
    fn a_pull_ends_with_its_time() {
        let (_directory, podman) = podman("sleep 1000");
        let error = podman.pull("slow", Duration::from_secs(1)).unwrap_err().to_string();
        assert_eq!(error, "podman pull was stopped after 1 s");
    }

    #[test]
    fn no_podman_is_no_error() {
        assert!(Podman::find(Path::new("/nonexistent/podman"), None).is_none());
    }
}
