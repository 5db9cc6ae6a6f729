//! A journald of the test's own: it sees a /run and a /var/log that nothing else does.
#![allow(clippy::unwrap_used, dead_code)]

use journal::Sender;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Runs until it is dropped or ended.
pub(crate) struct Journald {
    child: Child,
    pub directory: TempDir,
}

/// Whether a journald can be run here; says why not.
pub(crate) fn can_run() -> bool {
    let why = if !nix::unistd::geteuid().is_root() {
        "this needs root"
    } else if !Path::new(JOURNALD).exists() {
        "systemd-journald is missing: run .ci/setup"
    } else {
        return true;
    };
    testkit::skip::because(why);
    false
}

impl Journald {
    /// With variables that say how its files are laid out.
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let directory = TempDir::new().unwrap();
        let at = |path: &str| directory.path().join(path);
        let machine = fs::read_to_string("/etc/machine-id").unwrap();
        fs::create_dir_all(at("run/systemd/journal")).unwrap();
        fs::create_dir_all(at("run/log")).unwrap();
        fs::create_dir_all(at("log/journal").join(machine.trim())).unwrap();
        // Else it writes to /run until it is told that /var is there.
        fs::write(at("run/systemd/journal/flushed"), "").unwrap();
        let script = r#"mount --bind "$1/run" /run && mount --bind "$1/log" /var/log && exec "$2""#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(directory.path()).arg(JOURNALD);
        let child = command.envs(variables.iter().copied()).stderr(Stdio::null()).spawn().unwrap();
        let journald = Self { child, directory };
        wait("its socket", || journald.socket().exists());
        journald
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("run/systemd/journal/socket")
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.directory.path().join("log/journal")
    }

    pub(crate) fn send(&self, fields: &[(&str, &[u8])]) {
        Sender::new(&self.socket()).unwrap().send(fields).unwrap();
    }

    /// Has it archive its file and start another (SIGUSR2, systemd-journald.service(8)).
    pub(crate) fn rotate(&self) {
        self.signal(nix::sys::signal::Signal::SIGUSR2);
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, signal);
    }

    /// Ends it: its files are closed then.
    pub(crate) fn end(&mut self) {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Drop for Journald {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) use testkit::wait::until as wait;

/// What journalctl says about the same files.
pub(crate) fn journalctl(directory: &Path, args: &[&str]) -> String {
    let mut command = Command::new("journalctl");
    let output = command.arg("--all").arg("-D").arg(directory).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
