//! OCP Test & Validation, version 2.0: JSON lines of one test run on one device.

use super::{bom::text, end, timestamp};
use crate::{
    plan::Mismatch,
    result::{HostResult, Run, State, StepResult, Verdict},
};
use serde_json::{Value, json};

/// Units at the ends of names.
const UNITS: [(&str, &str); 11] = [
    ("_bytes_per_second", "B/s"),
    ("_bits_per_second", "bit/s"),
    ("_mbit", "Mbit/s"),
    ("_bytes", "B"),
    ("_microseconds", "us"),
    ("_milliseconds", "ms"),
    ("_ms", "ms"),
    ("_seconds", "s"),
    ("_celsius", "Cel"),
    ("_percent", "%"),
    ("_watts", "W"),
];

/// Lines, numbered as they are written.
struct Lines {
    text: String,
    count: u64,
}

impl Lines {
    fn push(&mut self, seconds: u64, kind: &str, artifact: Value) {
        let line = json!({ "sequenceNumber": self.count, "timestamp": timestamp(seconds), kind: artifact });
        self.text += &line.to_string();
        self.text.push('\n');
        self.count += 1;
    }

    fn step(&mut self, seconds: u64, id: &str, kind: &str, artifact: Value) {
        self.push(seconds, "testStepArtifact", json!({ "testStepId": id, kind: artifact }));
    }
}

pub(super) fn lines(run: &Run, host: &HostResult, report: Option<&Value>) -> String {
    let mut lines = Lines { text: String::new(), count: 0 };
    let start = run.started_unix_seconds;
    lines.push(start, "schemaVersion", json!({ "major": 2, "minor": 0 }));
    let parameters = json!({ "run": run.id, "planSha256": run.plan_sha256 });
    let test = json!({
        "name": run.plan.name,
        "version": run.tool_version,
        "commandLine": "landfall certify",
        "parameters": parameters,
        "dutInfo": device(host, report),
    });
    lines.push(start, "testRunArtifact", json!({ "testRunStart": test }));
    for step in &host.steps {
        let more: &[String] = if step.index == 0 { &host.differences } else { &[] };
        write_step(&mut lines, run, step, more);
    }
    let (status, result) = match host.verdict {
        Verdict::Pass => ("COMPLETE", "PASS"),
        Verdict::Fail => ("COMPLETE", "FAIL"),
        Verdict::Incomplete if host.steps.iter().any(|step| step.state == State::Error) => ("ERROR", "NOT_APPLICABLE"),
        Verdict::Incomplete => ("SKIP", "NOT_APPLICABLE"),
    };
    lines.push(end(run), "testRunArtifact", json!({ "testRunEnd": { "status": status, "result": result } }));
    lines.text
}

fn device(host: &HostResult, report: Option<&Value>) -> Value {
    let name = host.product.as_deref().unwrap_or("machine");
    let mut hardware = json!({ "hardwareInfoId": "system", "name": name, "serialNumber": host.serial });
    if let Some(manufacturer) = &host.manufacturer {
        hardware["manufacturer"] = manufacturer.as_str().into();
    }
    let mut device = json!({ "dutInfoId": host.serial, "name": name, "hardwareInfos": [hardware] });
    let versions = [("bios", "/firmware/bios/version"), ("bmc", "/management_controller/firmware_version")];
    let software = versions.into_iter().filter_map(|(name, at)| {
        let version = text(report?, at)?;
        Some(json!({ "softwareInfoId": name, "name": name, "version": version, "softwareType": "FIRMWARE" }))
    });
    device["softwareInfos"] = software.collect();
    device
}

fn write_step(lines: &mut Lines, run: &Run, step: &StepResult, differences: &[String]) {
    let start = step.started_unix_seconds.unwrap_or(run.started_unix_seconds);
    let end = step.ended_unix_seconds.unwrap_or(start);
    let id = step.index.to_string();
    lines.step(start, &id, "testStepStart", json!({ "name": step.action }));
    for (name, value) in &step.measurements {
        let mut measurement = json!({ "name": name, "value": value });
        if let Some((_, unit)) = UNITS.iter().find(|(suffix, _)| name.ends_with(suffix)) {
            measurement["unit"] = (*unit).into();
        }
        lines.step(end, &id, "measurement", measurement);
    }
    let diagnosis = |kind: &str, word: &str, message: &str| json!({ "type": kind, "verdict": format!("{}-{word}", step.action), "message": message });
    let mismatch = if run.plan.policy.mismatch == Mismatch::Block { "FAIL" } else { "UNKNOWN" };
    for line in differences.iter().filter(|line| !step.findings.contains(line)) {
        lines.step(end, &id, "diagnosis", diagnosis(mismatch, "mismatch", line));
    }
    for finding in &step.findings {
        match step.state {
            State::Failed => lines.step(end, &id, "diagnosis", diagnosis("FAIL", "failed", finding)),
            State::Error => lines.step(end, &id, "error", json!({ "symptom": "not-carried-out", "message": finding })),
            _ => lines.step(end, &id, "log", json!({ "severity": "INFO", "message": finding })),
        }
    }
    match step.state {
        State::Passed => {
            lines.step(end, &id, "diagnosis", diagnosis("PASS", "passed", "everything is as the plan requires"))
        }
        State::Failed if step.findings.is_empty() => {
            lines.step(end, &id, "diagnosis", diagnosis("FAIL", "failed", "something is not as the plan requires"));
        }
        _ => {}
    }
    for file in &step.files {
        lines.step(end, &id, "file", json!({ "displayName": file, "uri": file, "isSnapshot": true }));
    }
    let status = match step.state {
        State::Passed | State::Failed => "COMPLETE",
        State::Error => "ERROR",
        State::Waiting | State::Running | State::Skipped => "SKIP",
    };
    lines.step(end, &id, "testStepEnd", json!({ "status": status }));
}
