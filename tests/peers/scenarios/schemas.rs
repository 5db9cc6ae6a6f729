//! What `landfall certify export` makes of machines that were captured, by the schemas that their publishers judge it by. The validator is
//! the Python package `jsonschema`; the schemas are in the folder `schemas` (docs/development.md).

use crate::{
    report::{Peers, line},
    site::landfall,
};
use certify::{
    Plan, SecretKey, Step, pack,
    result::{HostResult, Run, SCHEMA_VERSION, State, StepResult},
};
use serde_json::Value;
use std::{
    fs,
    io::{Cursor, Write},
    path::Path,
    process::{Command, Stdio},
};

/// Forms, the folders of their schemas, and the schema of a line.
const FORMS: [(&str, &str, &str); 2] =
    [("cyclonedx", "cyclonedx", "bom-1.6.schema.json"), ("ocptv", "ocp-diag-core", "root.json")];
const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/inventory/tests/captures");
const VALIDATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/validate.py");
const PYTHON: &str = "python-jsonschema";
const NAME: &str = "certify: exports by the published schemas";

/// What the schema refuses of these lines.
fn refused(peers: &Peers, folder: &str, schema: &str, lines: &str) -> String {
    let mut python = Command::new(peers.program(PYTHON));
    python.arg(VALIDATOR).arg(peers.program("schemas").join(folder)).arg(schema);
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{PYTHON} does not end well");
    String::from_utf8(output.stdout).unwrap()
}

/// A machine with a step of each outcome.
fn certified(serial: &str) -> HostResult {
    let states = [State::Passed, State::Failed, State::Error, State::Skipped];
    let step = |(index, state): (usize, &State)| StepResult {
        index: index.try_into().unwrap(),
        action: if index == 0 { "report" } else { "attest" }.to_owned(),
        state: *state,
        attempts: 1,
        started_unix_seconds: Some(1_700_000_000),
        ended_unix_seconds: Some(1_700_000_060),
        findings: vec!["found \u{1b}[2J".to_owned()],
        measurements: [("read_bytes_per_second".to_owned(), 2.5e9), ("count".to_owned(), 1.0)].into(),
        files: if index == 0 { vec!["report.json".to_owned()] } else { Vec::new() },
    };
    HostResult {
        serial: serial.to_owned(),
        host_id: "00000000-0000-0000-0000-000000000001".to_owned(),
        steps: states.iter().enumerate().map(step).collect(),
        ..HostResult::default()
    }
}

fn archive(path: &Path, serial: &str, report: &[u8]) {
    let steps = vec![Step::Report, Step::Attest, Step::Attest, Step::Attest];
    let plan = Plan { name: "any".to_owned(), steps, ..Plan::default() };
    let mut run = Run {
        schema_version: SCHEMA_VERSION,
        id: "run-1".to_owned(),
        plan_sha256: plan.sha256(),
        plan,
        tool_version: "0".to_owned(),
        started_unix_seconds: 1_700_000_000,
        ended_unix_seconds: Some(1_700_000_100),
        hosts: vec![certified(serial)],
        ..Run::default()
    };
    run.judge();
    let key = SecretKey::generate().unwrap();
    let mut open = |_: &HostResult, _: &str| -> std::io::Result<(u64, Box<dyn std::io::Read>)> {
        Ok((report.len().try_into().unwrap(), Box::new(Cursor::new(report.to_vec()))))
    };
    pack(&mut fs::File::create(path).unwrap(), &run, &key, 1_700_000_200, &mut open).unwrap();
}

#[test]
fn exports_are_what_the_published_schemas_permit() {
    let schemas = FORMS.map(|(_, folder, schema)| format!("schemas/{folder}/{schema}"));
    let needed: Vec<&str> = schemas.iter().map(String::as_str).chain([PYTHON]).collect();
    let Some(peers) = Peers::in_folder(NAME, &needed) else { return };
    let directory = tempfile::tempdir().unwrap();
    let tar = directory.path().join("run.tar");
    let landfall = |arguments: &[&str]| {
        let output = Command::new(landfall()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (mut count, mut wrong) = (0, Vec::new());
    for capture in fs::read_dir(CAPTURES).unwrap() {
        let capture = capture.unwrap().path().join("capture.tar.gz");
        let report = landfall(&["report", "--json", "--root", capture.to_str().unwrap()]);
        archive(&tar, "S1", report.as_bytes());
        for (form, folder, schema) in FORMS {
            let text = landfall(&["certify", "export", tar.to_str().unwrap(), "--as", form]);
            // A document is one line, too.
            let lines = match form {
                "ocptv" => text,
                _ => serde_json::from_str::<Value>(&text).unwrap().to_string(),
            };
            count += lines.lines().count();
            let found = refused(&peers, folder, schema, &lines);
            wrong.extend(found.lines().map(|line| format!("{} {form}: {line}", capture.display())));
            // What it must refuse.
            let spoilt = lines.replacen("\"timestamp\"", "\"time\"", 1);
            assert_ne!(refused(&peers, folder, schema, &spoilt), "", "{form}: the validator refuses nothing");
        }
    }
    line(NAME, if wrong.is_empty() { "same" } else { "DIFFERENT" }, &format!("{count} documents and lines; {wrong:?}"));
    assert!(wrong.is_empty() && count > 0, "{}", wrong.join("\n"));
}
