//! A service that crashes is started again, with all that it had answered.
#![allow(clippy::unwrap_used)]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};
use testkit::wait;

/// A service; both of its processes end with it.
struct Running {
    supervisor: Child,
    url: String,
}

impl Running {
    fn start(state: &Path, listen: &str) -> Self {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_landfall"));
        serve.args(["serve", "--listen", listen, "--state-dir"]).arg(state).env("LANDFALL_LOG", "error");
        let mut supervisor = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { supervisor, url: line.trim().strip_prefix("listening on ").unwrap().to_owned() }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.supervisor.id().try_into().unwrap())
    }

    /// The process that works, once there is one.
    fn worker(&self) -> Pid {
        let worker = wait::found(|| testkit::process::worker(self.supervisor.id())).expect("it is started again");
        Pid::from_raw(worker.try_into().unwrap())
    }

    fn clusters(&self) -> String {
        self.landfall(&["cluster", "list"])
    }

    fn landfall(&self, words: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_landfall")).args(words).env("LANDFALL_URL", &self.url).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

fn is_gone(pid: Pid) -> bool {
    // One that nobody waits for stays as a zombie.
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn a_crashed_service_goes_on_with_what_it_had_answered() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("pull-secret.json");
    fs::write(&secret, r#"{"auths":{"r.io":{"auth":"YTpi","email":"a@example.com"}}}"#).unwrap();
    let state = directory.path().join("state");
    let mut running = Running::start(&state, "127.0.0.1:0");
    let create = ["cluster", "create", "rack", "--openshift-version", "4.22", "--base-domain", "example.com"];
    let options = ["--user-managed-networking", "--pull-secret-file", secret.to_str().unwrap()];
    running.landfall(&[&create[..], &options].concat());
    for signal in [Signal::SIGABRT, Signal::SIGILL, Signal::SIGKILL] {
        let worker = running.worker();
        kill(worker, signal).unwrap();
        assert!(running.clusters().contains("rack"), "at the same address, after {signal}");
        assert_ne!(running.worker(), worker);
    }
    kill(running.pid(), Signal::SIGTERM).unwrap();
    assert!(running.supervisor.wait().unwrap().success(), "it stops in order");

    // Without its supervisor a worker ends, and the store is free for the next service.
    let running = Running::start(&state, "127.0.0.1:0");
    let worker = running.worker();
    drop(running);
    let next = Running::start(&state, "127.0.0.1:0");
    assert!(next.clusters().contains("rack"));
    assert!(wait::comes(|| is_gone(worker)));
}
