//! What was acknowledged survives the service being killed at any moment.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod common;

use common::{API, pull_secret};
use serde_json::json;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
};

const STATE: &str = "LANDFALL_TEST_STATE_DIR";

/// Not a test by itself: the service that the test below starts as another process, and kills.
#[test]
fn service_to_be_killed() {
    let Some(state_dir) = std::env::var_os(STATE) else { return };
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        serve: service_stub::cli::Serve,
    }
    let args = ["serve", "--listen", "127.0.0.1:0", "--agent-binary", "/dev/null", "--state-dir"].map(Into::into);
    let cli = <Cli as clap::Parser>::parse_from(args.into_iter().chain([state_dir]));
    cli.serve.run().unwrap();
}

struct Served {
    child: Child,
    url: String,
    // Kept open: the test runner in it has more to say.
    _stdout: BufReader<ChildStdout>,
}

impl Served {
    fn start(state: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["service_to_be_killed", "--exact", "--nocapture"])
            .env(STATE, state)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        // The test runner shares the line: it says which test runs before the service says where it listens.
        let url = loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "the service must say where it listens");
            if let Some((_, url)) = line.trim_end().split_once("listening on ") {
                break url.to_owned();
            }
        };
        Self { child, url, _stdout: stdout }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn every_acknowledged_write_is_there_after_a_kill() {
    let state = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..3 {
        let served = Served::start(state.path());
        let http: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let listed = common::send(&http, &served.url, "GET", &format!("{API}/v2/infra-envs"), &[], b"").document();
        let listed: Vec<&str> =
            listed.as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap()).collect();
        let lost: Vec<_> = acknowledged.iter().filter(|id| !listed.contains(&id.as_str())).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} of {} were lost", acknowledged.len());

        let acks = Arc::new(Mutex::new(Vec::new()));
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let (acks, url) = (acks.clone(), served.url.clone());
                std::thread::spawn(move || {
                    let http: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
                    let body = json!({"name": "x", "pull_secret": pull_secret()}).to_string();
                    // Until the service dies under us.
                    loop {
                        let request = ureq::http::Request::builder()
                            .method("POST")
                            .uri(format!("{url}{API}/v2/infra-envs"))
                            .body(body.as_bytes())
                            .unwrap();
                        let Ok(mut answer) = http.run(request) else { return };
                        let Ok(document) = answer.body_mut().read_to_vec() else { return };
                        if answer.status().as_u16() == 201 {
                            let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
                            acks.lock().unwrap().push(document["id"].as_str().unwrap().to_owned());
                        }
                    }
                })
            })
            .collect();
        // In the middle of writing: the writers never pause.
        while acks.lock().unwrap().len() < 25 {
            std::thread::yield_now();
        }
        drop(served);
        for writer in writers {
            writer.join().unwrap();
        }
        acknowledged.append(&mut acks.lock().unwrap());
    }
    let served = Served::start(state.path());
    let second = Command::new(std::env::current_exe().unwrap())
        .args(["service_to_be_killed", "--exact", "--nocapture"])
        .env(STATE, state.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&second.stderr).into_owned() + &String::from_utf8_lossy(&second.stdout);
    assert!(!second.status.success() && error.contains("in use by another process"), "{error}");
    drop(served);
}

#[test]
fn a_signal_stops_the_service_cleanly() {
    let state = tempfile::tempdir().unwrap();
    let mut served = Served::start(state.path());
    let pid = served.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(served.child.wait().unwrap().success(), "the test in it must pass, and with it the service end");
}
