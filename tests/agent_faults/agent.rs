//! The agent as a process of its own, and what can be seen of it from outside.

use crate::agent_faults::service::{HOST, INFRA_ENV};
use std::{
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub(crate) struct Agent {
    process: Child,
    log: PathBuf,
}

/// The program that is built for hosts, where there is one: its memory is what counts.
fn program() -> PathBuf {
    std::env::var_os("LANDFALL_BIN").map_or_else(|| env!("CARGO_BIN_EXE_landfall").into(), PathBuf::from)
}

impl Agent {
    /// Below `dir` it keeps its status and its log. What it waits for, it waits for a short time, but for steps. `prelude` is run by a
    /// shell first, in a mount name space of its own.
    pub(crate) fn start(dir: &Path, url: &str, prelude: &str, more: &[&OsStr], environment: &[(&str, &str)]) -> Self {
        let log = dir.join("agent.log");
        let mut command = if prelude.is_empty() {
            Command::new(program())
        } else {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-ec", &format!("{prelude}\nexec \"$@\"")]);
            command.arg("sh").arg(program());
            command
        };
        command.args(["agent", "--url", url, "--infra-env-id", INFRA_ENV, "--host-id", HOST, "--interval", "1"]);
        command.args(["--refused-interval", "1", "--answer-timeout", "3", "--check-deadline", "20", "--state-dir"]);
        command.arg(dir.join("state")).args(more);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().to_lowercase().ends_with("_proxy") || name == "LANDFALL_LOG" {
                command.env_remove(name);
            }
        }
        command.env("PULL_SECRET_TOKEN", "t0ken");
        command.envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        Self { process, log }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Memory of its own that is in use, KiB.
    pub(crate) fn memory_kib(&self) -> i64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The file systems as it sees them.
    pub(crate) fn root(&self) -> PathBuf {
        format!("/proc/{}/root", self.process.id()).into()
    }

    /// The step that it runs.
    pub(crate) fn child(&self) -> Option<i32> {
        let us = self.process.id();
        let tasks = fs::read_dir(format!("/proc/{us}/task")).unwrap().flatten();
        let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        children.collect::<String>().split_whitespace().next()?.parse().ok()
    }

    /// All it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.log();
        let complaints = log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR "));
        complaints.map(str::to_owned).collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
