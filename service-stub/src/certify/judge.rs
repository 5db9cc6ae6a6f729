//! What a reply says of a machine: pure.

use super::rounds::Part;
use api::certify::{Capture, CertifyReply};
use base64::{Engine, engine::general_purpose::STANDARD};
use certify::{Step, result::State};
use serde_json::Value;

/// What follows from a reply.
#[derive(Debug, PartialEq)]
pub(super) struct Judgement {
    pub state: State,
    pub findings: Vec<String>,
    pub measurements: Vec<(String, f64)>,
    /// The end of its name, and its bytes.
    pub document: Option<(String, Vec<u8>)>,
    /// It may have come too early.
    pub may_repeat: bool,
}

impl Judgement {
    fn new(state: State, findings: Vec<String>) -> Self {
        Self { state, findings, measurements: Vec::new(), document: None, may_repeat: false }
    }
}

/// Judges a reply to an action of a step.
pub(super) fn judge(step: &Step, phase: u32, part: Part, peer: Option<&str>, reply: &CertifyReply) -> Judgement {
    let document = &reply.document;
    let mut judgement = match step {
        Step::Report if phase > 0 => return capture(reply),
        Step::Report if document.is_object() => carried_out(reply),
        Step::DiskSpeed { max_ms, .. } => disk_speed(reply, *max_ms),
        Step::Burnin { .. } => load(reply, None),
        Step::Network { min_mbit, .. } if part == Part::Test => link(reply, peer, *min_mbit),
        Step::Network { .. } if part == Part::Alone => doctor(reply),
        Step::Report => Judgement::new(State::Error, vec![reason(reply)]),
        // What it measured, the other end measured too.
        Step::Network { .. } | Step::Install | Step::Boot | Step::PowerCut | Step::Attest => carried_out(reply),
    };
    if !document.is_null() {
        let name = match step {
            Step::Network { .. } => format!("network-{}.json", phase + 1),
            step => format!("{}.json", step.name()),
        };
        judgement.document = serde_json::to_vec(document).ok().map(|bytes| (name, bytes));
    }
    judgement
}

/// Why a command failed, in its own words.
fn reason(reply: &CertifyReply) -> String {
    let error = reply.error.trim();
    // The end says it.
    let last = error.lines().last().unwrap_or_default();
    match (last, reply.exit_code) {
        ("", 0) => "the reply has no document".to_owned(),
        ("", code) => format!("the command ended with exit code {code} and no message"),
        (last, _) => last.to_owned(),
    }
}

fn carried_out(reply: &CertifyReply) -> Judgement {
    match reply.exit_code {
        0 => Judgement::new(State::Passed, Vec::new()),
        _ => Judgement::new(State::Error, vec![reason(reply)]),
    }
}

fn capture(reply: &CertifyReply) -> Judgement {
    let capture: Option<Capture> = api::json::from_value(reply.document.clone()).ok();
    let bytes = capture.and_then(|capture| STANDARD.decode(capture.tar_gz).ok());
    match bytes.filter(|_| reply.exit_code == 0) {
        Some(bytes) => Judgement {
            document: Some(("capture.tar.gz".to_owned(), bytes)),
            ..Judgement::new(State::Passed, Vec::new())
        },
        None => Judgement::new(State::Error, vec![format!("no capture: {}", reason(reply))]),
    }
}

fn disk_speed(reply: &CertifyReply, max_ms: Option<f64>) -> Judgement {
    // The second is the form of the published check of disks.
    let took_ms = ["io_sync_duration_ms", "io_sync_duration"].iter().find_map(|key| reply.document[key].as_f64());
    let Some(took_ms) = took_ms.filter(|_| reply.exit_code == 0) else {
        return Judgement::new(State::Error, vec![reason(reply)]);
    };
    let mut judgement = Judgement::new(State::Passed, Vec::new());
    judgement.measurements.push(("flush_p99_ms".to_owned(), took_ms));
    if let Some(max_ms) = max_ms.filter(|max_ms| took_ms > *max_ms) {
        judgement.state = State::Failed;
        let disk = reply.document["path"].as_str().unwrap_or("the disk");
        judgement
            .findings
            .push(format!("{disk}: one flush in a hundred takes {took_ms} ms or more; {max_ms} ms are allowed"));
    }
    judgement
}

/// A result of `landfall burnin`.
fn load(reply: &CertifyReply, peer: Option<&str>) -> Judgement {
    let document = &reply.document;
    let list = |key: &str| document[key].as_array().into_iter().flatten();
    let mut findings: Vec<String> = list("faults")
        .map(|fault| {
            let text = |key: &str| fault[key].as_str().unwrap_or_default();
            match fault["lba"].as_u64() {
                Some(lba) => format!("{}: {} (LBA {lba})", text("part"), text("message")),
                None => format!("{}: {}", text("part"), text("message")),
            }
        })
        .collect();
    let failed = list("parts").filter_map(|part| Some((part["name"].as_str()?, part["error"].as_str()?)));
    let state = match document["verdict"].as_str() {
        Some("pass") if reply.exit_code == 0 => State::Passed,
        Some("faults") => State::Failed,
        Some("incomplete") => {
            findings.extend(failed.map(|(part, error)| format!("{part}: {error}")));
            findings.extend(list("not_tested").filter_map(Value::as_str).map(|text| format!("not tested: {text}")));
            State::Error
        }
        _ => State::Error,
    };
    if state != State::Passed && findings.is_empty() {
        findings.push(reason(reply));
    }
    let mut judgement = Judgement::new(state, findings);
    // A link that is the only one has no total.
    let parts = list("parts").filter(|part| part["kind"] == "net" && list("totals").next().is_none());
    for total in list("totals").chain(parts) {
        let (kind, name) = (total["kind"].as_str().unwrap_or_default(), total["name"].as_str().unwrap_or_default());
        let values = total["measurements"].as_object().into_iter().flatten();
        for (measure, value) in values.filter_map(|(measure, value)| Some((measure, value.as_f64()?))) {
            let name = crate::text::plain(peer.unwrap_or(name));
            let key: String = format!("{kind} {name} {measure}").chars().take(200).collect();
            judgement.measurements.push((key, value));
        }
    }
    judgement
}

/// A test of the link to a peer.
fn link(reply: &CertifyReply, peer: Option<&str>, min_mbit: Option<u64>) -> Judgement {
    let peer = peer.unwrap_or("the peer");
    let mut judgement = load(reply, Some(peer));
    // A peer that does not serve yet gives no result.
    judgement.may_repeat = judgement.state == State::Error;
    for finding in &mut judgement.findings {
        *finding = format!("{peer}: {finding}");
    }
    let is_rate = |name: &str| name.contains(" tcp_") && name.ends_with("_average_bits_per_second");
    let rates = judgement.measurements.iter().filter(|(name, _)| is_rate(name));
    let slowest = rates.map(|(_, value)| value / 1e6).fold(f64::INFINITY, f64::min);
    if let Some(least) = min_mbit.filter(|_| judgement.state == State::Passed) {
        // A wire's rate is far below what a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let is_slow = slowest < least as f64;
        match slowest.is_finite() {
            false => {
                judgement.state = State::Error;
                judgement.findings.push(format!("{peer}: the result has no throughput of TCP"));
            }
            true if is_slow => {
                judgement.state = State::Failed;
                judgement.findings.push(format!("{peer}: {slowest:.0} Mbit/s; the plan requires {least} Mbit/s"));
            }
            true => {}
        }
    }
    judgement
}

/// What `landfall netcheck doctor` found.
fn doctor(reply: &CertifyReply) -> Judgement {
    let found = reply.document["findings"].as_array().into_iter().flatten();
    let broken: Vec<String> = found
        .filter(|finding| finding["verdict"] == "broken")
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap_or_default();
            format!("{}: {}", text("station"), text("seen"))
        })
        .collect();
    match (broken.is_empty(), reply.document.is_object()) {
        (false, _) => Judgement::new(State::Failed, broken),
        (true, true) => carried_out(reply),
        (true, false) => Judgement::new(State::Error, vec![reason(reply)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reply(exit_code: i32, document: Value, error: &str) -> CertifyReply {
        CertifyReply { run: String::new(), step: 0, attempt: 1, exit_code, document, error: error.into() }
    }

    #[test]
    fn replies_are_judged_by_what_their_documents_say() {
        use State as S;
        let disk = Step::DiskSpeed { seconds: 1, max_ms: Some(10.0), disk: None };
        let burnin = Step::Burnin { seconds: 1, only: vec![], memory_bytes: None, disks: vec![], destroy: vec![] };
        let network = Step::Network { seconds: 1, min_mbit: Some(900) };
        let speed = |ms: u64| json!({"path": "/dev/sda", "io_sync_duration_ms": ms});
        let tcp = |rate: f64| {
            json!({"verdict": "pass", "totals": [{"kind": "net", "name": "10.0.0.2",
                "measurements": {"tcp_sent_average_bits_per_second": 9.5e8, "tcp_received_average_bits_per_second": rate}}]})
        };
        let fault = json!({"verdict": "faults", "faults": [{"kind": "disk", "part": "vda", "message": "cannot be read", "lba": 8}]});
        let half = json!({"verdict": "incomplete", "parts": [{"name": "vda", "error": "busy"}], "not_tested": ["net: no peer"]});
        let broken =
            json!({"findings": [{"station": "dns", "verdict": "broken", "seen": "no answer"}, {"verdict": "ok"}]});
        for (step, phase, part, reply, state, findings) in [
            (&Step::Report, 0, Part::Alone, reply(0, json!({}), ""), S::Passed, vec![]),
            (&Step::Report, 0, Part::Alone, reply(1, Value::Null, "a\nno root"), S::Error, vec!["no root"]),
            (&Step::Report, 0, Part::Alone, reply(0, json!([]), ""), S::Error, vec!["the reply has no document"]),
            (
                &Step::Report,
                1,
                Part::Alone,
                reply(0, json!({"tar_gz": "!"}), ""),
                S::Error,
                vec!["no capture: the reply has no document"],
            ),
            (&disk, 0, Part::Alone, reply(0, speed(10), ""), S::Passed, vec![]),
            (
                &disk,
                0,
                Part::Alone,
                reply(0, speed(11), ""),
                S::Failed,
                vec!["/dev/sda: one flush in a hundred takes 11 ms or more; 10 ms are allowed"],
            ),
            (&disk, 0, Part::Alone, reply(1, Value::Null, "the disk is in use"), S::Error, vec!["the disk is in use"]),
            (&burnin, 0, Part::Alone, reply(0, json!({"verdict": "pass"}), ""), S::Passed, vec![]),
            (&burnin, 0, Part::Alone, reply(3, fault, ""), S::Failed, vec!["vda: cannot be read (LBA 8)"]),
            (&burnin, 0, Part::Alone, reply(1, half, ""), S::Error, vec!["vda: busy", "not tested: net: no peer"]),
            (
                &burnin,
                0,
                Part::Alone,
                reply(-1, Value::Null, ""),
                S::Error,
                vec!["the command ended with exit code -1 and no message"],
            ),
            (&network, 0, Part::Alone, reply(0, json!({"findings": []}), ""), S::Passed, vec![]),
            (&network, 0, Part::Alone, reply(3, broken, ""), S::Failed, vec!["dns: no answer"]),
            (&network, 0, Part::Test, reply(0, tcp(9.1e8), ""), S::Passed, vec![]),
            (
                &network,
                0,
                Part::Test,
                reply(0, tcp(1e8), ""),
                S::Failed,
                vec!["node-2: 100 Mbit/s; the plan requires 900 Mbit/s"],
            ),
            (&network, 0, Part::Serve, reply(0, Value::Null, ""), S::Passed, vec![]),
            (&Step::PowerCut, 0, Part::Alone, reply(1, Value::Null, "no BMC"), S::Error, vec!["no BMC"]),
        ] {
            let found = judge(step, phase, part, Some("node-2"), &reply);
            assert_eq!(
                (found.state, found.findings.iter().map(String::as_str).collect()),
                (state, findings),
                "{reply:?}"
            );
        }
        let captured = judge(&Step::Report, 1, Part::Alone, None, &reply(0, json!({"tar_gz": "YWI="}), ""));
        assert_eq!(captured.document, Some(("capture.tar.gz".to_owned(), b"ab".to_vec())));
        let measured = judge(&network, 2, Part::Test, Some("node-2"), &reply(0, tcp(9.1e8), ""));
        assert_eq!(measured.document.map(|(name, _)| name).as_deref(), Some("network-3.json"));
        let received = ("net node-2 tcp_received_average_bits_per_second".to_owned(), 9.1e8);
        assert!(measured.measurements.contains(&received), "{:?}", measured.measurements);
        assert!(judge(&network, 0, Part::Test, None, &reply(1, Value::Null, "refused")).may_repeat);
    }
}
