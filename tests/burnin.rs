//! `landfall burnin` as a program: its result, its exit code, and how a signal ends it.
#![allow(clippy::unwrap_used)]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs,
    process::{Command, Output, Stdio},
};
use testkit::wait::comes;

/// One CPU and little memory, whatever the machine has.
const SMALL: [&str; 6] = ["burnin", "--only", "cpu,memory", "--memory", "64MiB", "--json"];

fn landfall(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_signal_ends_it_and_what_was_found_is_printed() {
    let child = landfall(&[&SMALL[..], &["--for", "1h"]].concat()).spawn().unwrap();
    let id = child.id();
    let adjusted = || fs::read_to_string(format!("/proc/{id}/oom_score_adj")).is_ok_and(|text| text.trim() == "1000");
    assert!(comes(adjusted), "it is not the first to be killed");
    // It works once it has used a second of processors: in clock ticks, of which there are a hundred in a second (proc_pid_stat(5)).
    let ticks = || -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
        fields.map(|field| field.parse::<u64>().ok()).sum()
    };
    assert!(comes(|| ticks() > Some(100)), "it does not work");
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let found = json(&output);
    assert_eq!(
        (output.status.code(), &found["verdict"], &found["stopped"]),
        (Some(1), &"incomplete".into(), &true.into())
    );
    assert_eq!(found["planned_seconds"], 3600.0);
    let parts = found["parts"].as_array().unwrap();
    // On a busy machine memory alone has begun by then.
    let has_ended = |part: &Value| ["done", "waiting"].iter().any(|state| part["state"] == *state);
    assert!(parts.iter().all(has_ended) && parts.iter().any(|part| part["state"] == "done"), "{found:#}");
}

#[test]
fn a_machine_that_holds_passes() {
    let output = landfall(&[&SMALL[..], &["--for", "1s"]].concat()).output().unwrap();
    let found = json(&output);
    // A counter of the real machine may increase meanwhile.
    let code = if found["verdict"] == "faults" { 3 } else { 0 };
    assert_eq!((output.status.code(), &found["schema_version"]), (Some(code), &1.into()), "{found:#}");
    assert!(found["totals"][0]["measurements"]["read_bytes_per_second"].as_f64().unwrap() > 0.0, "{found:#}");
}

#[test]
fn what_cannot_be_tested_is_a_failure() {
    let output = landfall(&["burnin", "--only", "net", "--for", "1s"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no other end is given: use --peer or --ports"), "{error}");
    assert_eq!(landfall(&["burnin", "--for", "10"]).output().unwrap().status.code(), Some(2));
}
