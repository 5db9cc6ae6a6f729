//! A step of a certification: one of several commands, each with its own bounds (docs/agent.md#certification). The reply has what the
//! command printed, also where it failed.

mod bounds;

pub(super) use bounds::{ACTIONS, privileges};

use super::{
    kind::{Act, Deadline, Dry, Kind, Run, only_arg, read, write},
    refusal::Refusal,
};
use crate::{confine::Named, dry::DryRun, outcome::Outcome, privileges::CHECK, settings::Settings};
use api::{
    DiskSpeedCheckRequest, DiskSpeedCheckResponse, HostId, Step, StepType,
    certify::{CertifyAction, CertifyReply, CertifyRequest, MAX_DOCUMENT_BYTES, MAX_SECONDS},
    http::public_url,
};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
    time::Duration,
};

const WHAT: &str = "certify request";
/// For what has no time in the request.
const SECONDS: u64 = 300;
/// A command that loads the machine ends by itself, and gives back what it took.
const GRACE: Duration = Duration::from_secs(120);
/// The port of `landfall burnin serve-net`.
const LINK_PORT: u16 = 7117;
const MAX_DISKS: usize = 256;

pub(crate) const REPORT: &str = "report";

pub(super) static KIND: Kind = Kind {
    step_type: StepType::Certify,
    fields: &[],
    act: Act::Answered { run: act, answer },
    deadline: Deadline::Requested { grace: GRACE },
    dry: Dry::AnsweredOrEdited(dry, edit),
    failed: 1,
    prints_json: true,
    answers_on_stderr: false,
    // Of no action.
    privileges: CHECK,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    let CertifyRequest { action, .. } = read(only_arg(step)?, WHAT)?;
    let mut named = Named { action: Some(action.name().into()), ..Named::default() };
    let mut stdin = Vec::new();
    let mut limit = SECONDS;
    let mut time = |what, seconds: u64| {
        limit = bounded(what, seconds)?;
        Ok::<_, Refusal>(format!("{seconds}s"))
    };
    let args: Vec<String> = match &action {
        CertifyAction::Report => words(&["report", "--json"]),
        CertifyAction::Capture => words(&["capture", "--json"]),
        CertifyAction::Doctor => {
            named.ca_cert = settings.http.ca_cert.clone();
            let ca_cert = named.ca_cert.iter().map(|path| format!("--ca-cert={}", path.display()));
            let insecure = settings.http.insecure.then(|| "--insecure".to_owned());
            let url = format!("--url={}", public_url(&settings.url));
            words(&["netcheck", "doctor", "--json"]).into_iter().chain([url]).chain(ca_cert).chain(insecure).collect()
        }
        CertifyAction::NetworkServe { seconds } => {
            [words(&["burnin", "serve-net", "--listen", "::", "--for"]), vec![time("seconds", *seconds)?]].concat()
        }
        CertifyAction::NetworkTest { peer, seconds } => [
            words(&["burnin", "--json", "--only", "net", "--peer"]),
            vec![peer.to_string(), "--for".to_owned(), time("seconds", *seconds)?],
        ]
        .concat(),
        CertifyAction::DiskSpeed { disk, seconds } => {
            limit = bounded("seconds", *seconds)?;
            named.targets = vec![device("disk", disk)?];
            stdin = write(&DiskSpeedCheckRequest { path: disk.clone() }, WHAT)?;
            let words = words(&["disk", "speed", "--request", "-", "--json", "--timeout"]);
            [words, vec![seconds.to_string()]].concat()
        }
        CertifyAction::Burnin { seconds, only, memory_bytes, disks, destroy } => {
            let mut args = words(&["burnin", "--json"]);
            args.extend(["--for".to_owned(), time("seconds", *seconds)?]);
            if let Some(other) = only.iter().find(|part| !["cpu", "memory", "disk"].contains(&part.as_str())) {
                return Err(refused("only", "cpu, memory or disk", other));
            }
            if !only.is_empty() {
                args.push(format!("--only={}", only.join(",")));
            }
            args.extend(memory_bytes.map(|bytes| format!("--memory={bytes}")));
            if disks.len() + destroy.len() > MAX_DISKS {
                return Err(refused("disks", "256 disks at most", &(disks.len() + destroy.len()).to_string()));
            }
            for disk in disks {
                args.push(format!("--disk={}", device("disks", disk)?.display()));
            }
            for disk in destroy {
                named.targets.push(device("destroy", disk)?);
                args.push(format!("--destroy={disk}"));
            }
            args.extend((!destroy.is_empty()).then(|| "--yes".to_owned()));
            args
        }
        CertifyAction::Reboot if settings.reboot => words(&["agent", "restart"]),
        CertifyAction::PowerCut { after_seconds } if settings.reboot => {
            let after = bounded("after_seconds", *after_seconds)?;
            [words(&["agent", "restart", "--power-cut", "--after"]), vec![after.to_string()]].concat()
        }
        CertifyAction::Reboot | CertifyAction::PowerCut { .. } => return Err(Refusal::NoReboot),
    };
    Ok(Run {
        args: args.into_iter().map(Cow::from).collect(),
        named,
        deadline: Some(Duration::from_secs(limit)),
        ..Run::new([], stdin)
    })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn refused(what: &'static str, kind: &'static str, value: &str) -> Refusal {
    Refusal::Type { what, kind, value: value.chars().take(80).collect() }
}

fn bounded(what: &'static str, seconds: u64) -> Result<u64, Refusal> {
    if (1..=MAX_SECONDS).contains(&seconds) {
        return Ok(seconds);
    }
    Err(refused(what, "number of seconds, a week at most", &seconds.to_string()))
}

/// The rules are for nodes, so a disk goes by its node or a link to it.
fn device(what: &'static str, disk: &str) -> Result<PathBuf, Refusal> {
    let path = Path::new(disk);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.starts_with("/dev/") && is_plain && !disk.contains(char::is_control) {
        return Ok(path.to_owned());
    }
    Err(refused(what, "a disk's path in /dev", disk))
}

/// [`CertifyReply`].
fn answer(step: &Step, outcome: &Outcome) -> Option<String> {
    let CertifyRequest { run, step, attempt, .. } = read(only_arg(step).ok()?, WHAT).ok()?;
    let mut reply = CertifyReply {
        run,
        step,
        attempt,
        exit_code: i32::try_from(outcome.exit_code).unwrap_or(-1),
        document: Value::Null,
        error: outcome.error.clone(),
    };
    let len = outcome.output.len();
    match serde_json::from_slice(outcome.output.as_bytes()) {
        _ if len == 0 => {}
        _ if len > MAX_DOCUMENT_BYTES => {
            reply.exit_code = -1;
            reply.error = format!("the result has {len} bytes, more than {MAX_DOCUMENT_BYTES}");
        }
        Ok(document) => reply.document = document,
        Err(error) if reply.exit_code == 0 => {
            reply.exit_code = -1;
            reply.error = format!("the result is not JSON: {error}");
        }
        Err(_) => {}
    }
    serde_json::to_string(&reply).ok()
}

/// A pretended host is in perfect order. Its facts are this machine's.
fn dry(step: &Step) -> Option<Result<String, String>> {
    let request: Result<CertifyRequest, Refusal> = only_arg(step).and_then(|argument| read(argument, WHAT));
    let document = match request.map(|request| request.action) {
        Err(refusal) => return Some(Err(refusal.to_string())),
        Ok(CertifyAction::Report | CertifyAction::Capture | CertifyAction::Doctor) => return None,
        Ok(CertifyAction::NetworkServe { .. }) => Value::Null,
        Ok(CertifyAction::NetworkTest { peer, seconds }) => {
            const BITS_PER_SECOND: f64 = 1e10;
            let rate = |name: &str| (format!("tcp_{name}_average_bits_per_second"), json!(BITS_PER_SECOND));
            let measurements: serde_json::Map<_, _> = ["sent", "received"].map(rate).into_iter().collect();
            let name = format!("{peer}:{LINK_PORT}");
            passed(
                seconds,
                &json!([{"kind": "net", "name": name, "state": "done", "measurements": measurements, "fault_count": 0}]),
            )
        }
        Ok(CertifyAction::Burnin { seconds, .. }) => passed(seconds, &json!([])),
        Ok(CertifyAction::DiskSpeed { disk, .. }) => json!(DiskSpeedCheckResponse { io_sync_duration: 1, path: disk }),
        Ok(CertifyAction::Reboot) => json!({"restarts_in_seconds": 0}),
        Ok(CertifyAction::PowerCut { after_seconds }) => json!({"power_cut_in_seconds": after_seconds}),
    };
    let outcome = Outcome { exit_code: 0, output: document.to_string(), error: String::new() };
    Some(answer(step, &outcome).ok_or_else(|| "no reply".to_owned()))
}

/// The result of a burn-in without a fault.
fn passed(seconds: u64, parts: &Value) -> Value {
    json!({
        "schema_version": 1, "verdict": "pass", "started_unix_seconds": 0, "elapsed_seconds": seconds, "planned_seconds": seconds,
        "stopped": false, "parts": parts, "totals": [], "sensors": [], "counters": {}, "watched_counters": 0,
        "faults": [], "not_tested": []
    })
}

/// Pretended hosts of one machine differ in their serial numbers, as their ids do.
fn edit(dry: &DryRun, output: &str) -> serde_json::Result<String> {
    let mut reply: CertifyReply = serde_json::from_slice(output.as_bytes())?;
    if let (Some(id), Some(serial)) = (dry.host_id, reply.document.pointer_mut("/system/product/serial_number")) {
        *serial = json!(id);
    }
    serde_json::to_string(&reply)
}

#[cfg(test)]
mod tests;
