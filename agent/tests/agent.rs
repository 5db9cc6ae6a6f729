//! The agent against a fake service, with a shell script in the place of the program that runs steps.
#![allow(clippy::unwrap_used)]

use agent::{
    agent::run,
    beacon,
    media::Media,
    settings::{Limits, Pace, Settings},
};
use api::{EXTENSIONS_HEADER, Secret, StepType, http::HttpConfig};
use fake_service::{
    Answer, FakeService, PATIENCE, Request,
    recorded::{Exchange, header_faults, recorded, wire},
};
use kernel::Cancel;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, SockaddrIn};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    os::fd::AsRawFd,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
const IMAGE: &str = "r.io/agent:1";
/// What the service says it wants; polls and replies carry it.
const WANTED: &str = "r.io/agent:2";

/// Times that make a test quick; those it must not reach are long.
fn pace() -> Pace {
    let ms = Duration::from_millis;
    Pace {
        interval: ms(5),
        refused: ms(5),
        poll_retry: ms(1),
        poll_retry_max: ms(5),
        poll_give_up: PATIENCE,
        poll_min: ms(5),
        poll_max: ms(5),
        reply_retry: ms(5),
        ..Pace::default()
    }
}

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("landfall-agent-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settings(url: &str, dir: &Dir, script: &str) -> Settings {
    let program = dir.0.join("program");
    testkit::process::place(&program, format!("#!/bin/sh\n{script}\n"));
    Settings {
        url: url.to_owned(),
        token: Secret::new("t0ken"),
        http: HttpConfig::default(),
        infra_env_id: INFRA_ENV.parse().unwrap(),
        agent_version: IMAGE.into(),
        host_id: Some(HOST.parse().unwrap()),
        program,
        media: Media { mount_point: dir.0.join("iso"), mountinfo: dir.0.join("mountinfo") },
        reboot: false,
        dry: None,
        limits: Limits { stdout_bytes: 10_000, stderr_bytes: 100 },
        state_dir: None,
        pace: pace(),
    }
}

/// Runs the agent until `test` returns.
fn with_agent(settings: &Settings, test: impl FnOnce()) {
    struct StopAtEnd(Cancel);
    impl Drop for StopAtEnd {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let stop = Cancel::default();
    thread::scope(|scope| {
        // Also when the test panics, or the scope would wait for ever.
        let _stop_at_end = StopAtEnd(stop.clone());
        let agent = scope.spawn(|| run(settings, &stop));
        test();
        stop.cancel();
        let _ = agent.join().unwrap().unwrap();
    });
}

fn registration() -> Answer {
    let args = json!({"agent_version": WANTED, "host_id": HOST, "infra_env_id": INFRA_ENV}).to_string();
    Answer::Json(201, json!({"id": HOST, "next_step_runner_command": {"args": [args]}}))
}

fn idle() -> Answer {
    Answer::Json(200, json!({"instructions": null, "next_instruction_seconds": 60, "post_step_action": "continue"}))
}

fn instructions(steps: Value) -> Answer {
    Answer::Json(200, json!({"instructions": steps, "next_instruction_seconds": 60, "post_step_action": "continue"}))
}

fn step(kind: &str, args: &[&str]) -> Value {
    json!({"step_type": kind, "step_id": format!("{kind}-00000001"), "args": args})
}

/// What a request is to the agent's service.
fn kind(request: &Request) -> &'static str {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", path) if path.ends_with("/hosts") => "register",
        ("GET", path) if path.ends_with("/instructions") => "poll",
        ("POST", path) if path.ends_with("/instructions") => "reply",
        _ => "other",
    }
}

/// A service that registers everyone, hands out `steps` in every poll and takes every reply.
fn service(steps: Value) -> FakeService {
    FakeService::start(move |request| match kind(request) {
        "register" => registration(),
        "poll" => instructions(steps.clone()),
        "reply" => Answer::Done,
        _ => Answer::Status(404),
    })
}

fn requests_for<'a>(requests: &'a [Request], what: &str) -> Vec<&'a Request> {
    requests.iter().filter(|request| kind(request) == what).collect()
}

fn count(requests: &[Request], what: &str) -> usize {
    requests_for(requests, what).len()
}

#[test]
fn registers_polls_and_replies_as_the_real_agent_does() {
    let dir = Dir::new();
    let service = service(json!([step("inventory", &[HOST])]));
    with_agent(&settings(&service.url, &dir, "printf '%s' '{\"a\":1}'; echo log >&2"), || {
        service.wait_for("a reply and another poll", |r| count(r, "reply") > 0 && count(r, "poll") > 1);
    });
    let requests = service.requests();
    let (register, poll, reply) = (&requests[0], &requests[1], requests_for(&requests, "reply")[0]);
    assert_eq!(register.path, format!("/v2/infra-envs/{INFRA_ENV}/hosts"));
    assert_eq!(register.body, json!({"host_id": HOST, "discovery_agent_version": IMAGE}));
    assert_eq!(register.header("discovery_agent_version"), Some(IMAGE));
    let path = format!("/v2/infra-envs/{INFRA_ENV}/hosts/{HOST}/instructions");
    assert_eq!((&poll.path, &reply.path), (&path, &path));
    let timestamp = poll.query.strip_prefix("timestamp=").unwrap();
    assert!(timestamp.parse::<u64>().unwrap() > 1_600_000_000, "{timestamp}");
    assert_eq!(reply.body, json!({"output": "{\"a\":1}", "step_id": "inventory-00000001", "step_type": "inventory"}));
    for request in [poll, reply] {
        assert_eq!(request.header("discovery_agent_version"), Some(WANTED));
        assert_eq!(request.header("X-Secret-Key"), Some("t0ken"));
    }
    let announced = [register, poll, reply].map(|request| request.header(EXTENSIONS_HEADER));
    assert_eq!(announced, [None, Some(StepType::announcement().as_str()), None]);
    let id = |request: &Request| request.header("X-Request-Id").unwrap().to_owned();
    assert_eq!(id(reply), id(poll), "a reply belongs to its poll");
    let mut polls: Vec<_> = requests_for(&requests, "poll").into_iter().map(id).collect();
    let all = polls.len();
    polls.sort();
    polls.dedup();
    assert_eq!(polls.len(), all, "each poll is a session of its own");

    let Some(wire) = wire() else { return };
    let real = [
        ("sno-install/0001-POST-v2_infra-envs_ID_hosts-201.json", register),
        ("sno-install/0002-GET-v2_infra-envs_ID_hosts_ID_instructions-200.json", poll),
        ("sno-install/0005-POST-v2_infra-envs_ID_hosts_ID_instructions-204.json", reply),
    ];
    for (path, ours) in real {
        let theirs = Exchange::read(&wire.join(path));
        // The test has a token and an image of its own.
        let own = ["header discovery_agent_version is \"r.io/agent:", "header x-secret-key is \"t0ken\""];
        let faults = header_faults(ours, &theirs);
        let is_own = faults.iter().zip(own).all(|(fault, own)| fault.starts_with(own));
        assert!(is_own && faults.len() == own.len(), "{path}: {faults:?}");
        let fields = |body: &Value| body.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
        assert_eq!(fields(&ours.body), fields(theirs.asked()), "{path}");
    }
}

#[test]
fn registration_goes_on_through_everything_a_service_can_do() {
    let dir = Dir::new();
    let attempt = AtomicU32::new(0);
    let service = FakeService::start(move |request| match kind(request) {
        "register" => match attempt.fetch_add(1, Ordering::Relaxed) {
            0 => Answer::Status(500),
            1 => Answer::Text(200, "<html>welcome"),
            2 => Answer::Json(400, json!({"code": 400, "message": "no"})),
            3 => Answer::Json(401, json!({"code": 401, "message": "who?"})),
            4 => Answer::Json(403, json!({"code": 403, "message": "no"})),
            5 => Answer::Json(
                404,
                json!({"code": "404", "href": "", "id": 404, "kind": "Error", "reason": "record not found"}),
            ),
            6 => Answer::Json(
                409,
                json!({"code": "409", "href": "", "id": 409, "kind": "Error", "reason": "installing"}),
            ),
            _ => registration(),
        },
        "poll" => idle(),
        _ => Answer::Status(404),
    });
    with_agent(&settings(&service.url, &dir, "exit 1"), || {
        service.wait_for("a poll", |r| count(r, "poll") > 0);
    });
    let requests = service.requests();
    let attempts = requests_for(&requests, "register");
    assert_eq!(attempts.len(), 8);
    let mut ids: Vec<_> = attempts.iter().map(|r| r.header("X-Request-Id").unwrap()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8, "one session an attempt");
}

#[test]
fn a_service_that_is_not_there_yet_is_waited_for() {
    let dir = Dir::new();
    // Bound, so that no other process takes the port, but not listening yet: connections are refused.
    let bound = socket::socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    socket::bind(bound.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let address: SockaddrIn = socket::getsockname(bound.as_raw_fd()).unwrap();
    let settings = settings(&format!("http://{address}"), &dir, "exit 1");
    with_agent(&settings, || {
        thread::sleep(Duration::from_millis(50));
        socket::listen(&bound, Backlog::new(128).unwrap()).unwrap();
        let service = FakeService::on(TcpListener::from(bound), |request| match kind(request) {
            "register" => registration(),
            _ => idle(),
        });
        service.wait_for("a poll", |r| count(r, "poll") > 0);
    });
}

#[test]
fn bytes_that_are_no_http_do_not_stop_it() {
    let dir = Dir::new();
    let attempt = AtomicU32::new(0);
    let service = FakeService::start(move |request| match (kind(request), attempt.fetch_add(1, Ordering::Relaxed)) {
        (_, 0 | 3) => Answer::Garbage,
        (_, 1) => Answer::HangUp,
        ("register", _) => registration(),
        ("poll", _) => idle(),
        _ => Answer::Status(404),
    });
    with_agent(&settings(&service.url, &dir, "exit 1"), || {
        service.wait_for("two answered polls", |r| count(r, "poll") > 3);
    });
}

#[test]
fn the_same_result_is_sent_once_until_a_poll_fails() {
    let dir = Dir::new();
    let polls = AtomicU32::new(0);
    let service = FakeService::start(move |request| match kind(request) {
        "register" => registration(),
        "poll" => match polls.fetch_add(1, Ordering::Relaxed) {
            30 => Answer::Status(500),
            _ => instructions(json!([step("inventory", &[HOST])])),
        },
        "reply" => Answer::Done,
        _ => Answer::Status(404),
    });
    let runs = dir.0.join("runs");
    let script = format!("echo >> {}; echo same", runs.display());
    let ran = || fs::read_to_string(&runs).unwrap_or_default().len();
    with_agent(&settings(&service.url, &dir, &script), || {
        service.wait_for("the failing poll", |r| count(r, "poll") > 31);
        service.wait_for("the result again", |r| count(r, "reply") > 1);
        assert!(testkit::wait::comes(|| ran() >= 4), "the step runs only {} times", ran());
    });
    let requests = service.requests();
    // The step ran more often than it was replied to: the first time, and the first time after the failed poll.
    assert_eq!(count(&requests, "reply"), 2);
    assert!(ran() >= 4);
}

#[test]
fn failures_are_sent_every_time() {
    let dir = Dir::new();
    let service = service(json!([step("inventory", &[HOST])]));
    with_agent(&settings(&service.url, &dir, "echo half; echo why >&2; exit 7"), || {
        service.wait_for("three failures", |r| count(r, "reply") > 2);
    });
    let requests = service.requests();
    let expected = json!({"error": "why\n", "exit_code": 7, "output": "half", "step_id": "inventory-00000001", "step_type": "inventory"});
    assert!(requests_for(&requests, "reply").iter().all(|reply| reply.body == expected), "{requests:#?}");
}

#[test]
fn exit_means_register_again_and_say_everything_again() {
    let dir = Dir::new();
    let service = FakeService::start(|request| match kind(request) {
        "register" => registration(),
        "poll" => Answer::Json(200, json!({"instructions": [step("inventory", &[HOST])], "post_step_action": "exit"})),
        "reply" => Answer::Done,
        _ => Answer::Status(404),
    });
    with_agent(&settings(&service.url, &dir, "echo same"), || {
        service.wait_for("three lives", |r| count(r, "register") > 2 && count(r, "reply") > 1);
    });
}

#[test]
fn a_host_the_service_forgot_comes_back() {
    let dir = Dir::new();
    let service = FakeService::start(|request| match kind(request) {
        "register" => registration(),
        _ => Answer::Json(
            404,
            json!({"code": "404", "href": "", "id": 404, "kind": "Error", "reason": "host not found"}),
        ),
    });
    with_agent(&settings(&service.url, &dir, "exit 1"), || {
        let requests = service.wait_for("another registration", |r| count(r, "register") > 1);
        assert_eq!(kind(&requests[1]), "poll");
        assert_eq!(kind(&requests[2]), "register");
    });
}

#[test]
fn polls_that_fail_for_too_long_end_in_a_registration() {
    let dir = Dir::new();
    let service = FakeService::start(|request| match kind(request) {
        "register" => registration(),
        _ => Answer::Status(500),
    });
    let mut settings = settings(&service.url, &dir, "exit 1");
    settings.pace.poll_give_up = Duration::from_millis(20);
    with_agent(&settings, || {
        service.wait_for("another registration", |r| count(r, "register") > 1);
    });
    assert!(count(&service.requests(), "poll") > 1);
}

#[test]
fn steps_of_later_milestones_and_wrong_arguments_are_answered() {
    let dir = Dir::new();
    let steps = [step("execute", &["{}"]), step("no-such-step", &[]), step("install", &["{}"]), step("inventory", &[])];
    let service = service(json!(steps));
    with_agent(&settings(&service.url, &dir, "echo never"), || {
        service.wait_for("four replies", |r| {
            ["execute", "no-such-step", "install", "inventory"]
                .iter()
                .all(|kind| r.iter().any(|r| r.body["step_type"] == *kind))
        });
    });
    let requests = service.requests();
    let error = |kind: &str| {
        let replies = requests_for(&requests, "reply");
        let body = &replies.iter().find(|r| r.body["step_type"] == kind).unwrap().body;
        assert_eq!(body["exit_code"], -1);
        assert_eq!(body["step_id"], format!("{kind}-00000001"));
        assert!(body.get("output").is_none());
        body["error"].as_str().unwrap().to_owned()
    };
    assert_eq!(error("execute"), "failed to find action for step type execute");
    assert_eq!(error("no-such-step"), "failed to find action for step type no-such-step");
    assert!(error("install").starts_with("validation failure list:\n"));
    assert_eq!(error("inventory"), "inventory cmd accepts 1 params in args, given args []");
    // A type that is new to us is in the description of the service that sends it.
    let refused = service.take_violations();
    assert!(matches!(&refused[..], [one] if one.contains("step_type in body") && one.contains("no-such-step")));
}

#[test]
fn crashing_hanging_and_flooding_children_are_reported_and_survived() {
    let dir = Dir::new();
    let steps = [
        step("inventory", &[HOST]),
        step("connectivity-check", &["[]"]),
        step("install", &[&json!({
            "boot_device": "/dev/null", "cluster_id": HOST, "controller_image": "r.io/c:1", "host_id": HOST, "infra_env_id": INFRA_ENV,
            "installer_image": "r.io/i:1", "role": "master"
        }).to_string()]),
    ];
    let service = service(json!(steps));
    let script = "case $1 in inventory) kill -SEGV $$;; netcheck) sleep 1000;; install) exec yes;; esac";
    let mut settings = settings(&service.url, &dir, script);
    settings.pace.network = Duration::from_millis(50);
    with_agent(&settings, || {
        service.wait_for("three replies", |r| {
            ["inventory", "connectivity-check", "install"]
                .iter()
                .all(|kind| r.iter().any(|r| r.body["step_type"] == *kind))
        });
    });
    let requests = service.requests();
    let replies = requests_for(&requests, "reply");
    let error = |kind: &str| {
        let body = &replies.iter().find(|r| r.body["step_type"] == kind).unwrap().body;
        assert_eq!(body["exit_code"], -1, "{body}");
        body["error"].as_str().unwrap().to_owned()
    };
    assert!(error("inventory").contains("signal: 11"), "{}", error("inventory"));
    assert!(error("connectivity-check").contains("took longer than"));
    assert!(error("install").contains("printed more than 10000 bytes"));
}

#[test]
fn a_day_2_config_that_is_not_there_is_a_success_with_an_error() {
    let dir = Dir::new();
    let request = json!({"url": "http://api-int.prod.example.com:22624/config/worker"}).to_string();
    let kinds = ["api-vip-connectivity-check", "ntp-synchronizer"];
    let requests = [request.as_str(), r#"{"ntp_source":""}"#];
    let service = service(json!([step(kinds[0], &requests[..1]), step(kinds[1], &requests[1..])]));
    with_agent(&settings(&service.url, &dir, "echo '{}'; echo 'ignition download error' >&2"), || {
        service.wait_for("replies of both", |r| {
            kinds.iter().all(|kind| requests_for(r, "reply").iter().any(|r| r.body["step_type"] == *kind))
        });
    });
    let requests = service.requests();
    let reply =
        |kind: &str| &requests_for(&requests, "reply").into_iter().find(|r| r.body["step_type"] == kind).unwrap().body;
    assert_eq!(
        *reply(kinds[0]),
        json!({"step_type": kinds[0], "step_id": format!("{}-00000001", kinds[0]), "output": "{}",
            "error": "ignition download error"})
    );
    assert_eq!(reply(kinds[1]).get("error"), None, "the log of other successes is no answer");
}

#[test]
fn a_second_installation_is_neither_started_nor_answered() {
    let dir = Dir::new();
    let request = json!({
        "boot_device": "/dev/null", "cluster_id": HOST, "controller_image": "r.io/c:1", "host_id": HOST, "infra_env_id": INFRA_ENV,
        "installer_image": "r.io/i:1", "role": "master"
    });
    let service = service(json!([step("install", &[&request.to_string()])]));
    let (runs, gate) = (dir.0.join("runs"), dir.0.join("gate"));
    let script = format!(
        "cat > {}/stdin; env > {}/env; echo \"$@\" >> {}; until [ -e {} ]; do sleep 0.02; done",
        dir.0.display(),
        dir.0.display(),
        runs.display(),
        gate.display()
    );
    with_agent(&settings(&service.url, &dir, &script), || {
        let polls = |n: usize| service.wait_for("polls", |r| count(r, "poll") > n);
        assert!(testkit::wait::comes(|| runs.exists()), "the step never started");
        let requests = polls(count(&service.requests(), "poll") + 5);
        assert_eq!(count(&requests, "reply"), 0);
        assert_eq!(fs::read_to_string(&runs).unwrap(), "install --request -\n");
        fs::write(&gate, "").unwrap();
        service.wait_for("the reply", |r| count(r, "reply") > 0);
    });
    let requests = service.requests();
    assert_eq!(
        requests_for(&requests, "reply")[0].body,
        json!({"step_id": "install-00000001", "step_type": "install"})
    );
    let document: Value = serde_json::from_slice(&fs::read(dir.0.join("stdin")).unwrap()).unwrap();
    assert_eq!(document["service"]["token"], "t0ken");
    assert_eq!(document["reboot"], false);
    assert_eq!(document["request"]["boot_device"], "/dev/null");
    let environment = fs::read_to_string(dir.0.join("env")).unwrap();
    assert!(!environment.contains("t0ken") && !environment.contains("PULL_SECRET_TOKEN"), "{environment}");
}

/// Of a certification, for the command that `action` is.
fn certification(action: &Value) -> Value {
    step("certify", &[&json!({"run": "r1", "step": 3, "attempt": 1, "action": action}).to_string()])
}

/// The replies of a certification. The service is as strict as one that does not know them, and names each.
fn certified(service: &FakeService, step: &Value) -> Vec<Value> {
    let requests = service.requests();
    let replies = requests_for(&requests, "reply").into_iter().map(|request| request.body.clone());
    let replies: Vec<_> = replies.filter(|body| body["step_id"] == step["step_id"]).collect();
    let refused = service.take_violations();
    assert!(refused.iter().all(|refusal| refusal.contains("step_type in body")), "{refused:?}");
    assert!(replies.iter().all(|body| body.get("exit_code").is_none() || body.get("output").is_none()), "{replies:?}");
    replies
}

#[test]
fn a_certification_gets_what_its_command_has_found() {
    let dir = Dir::new();
    let step = certification(&json!({"do": "burnin", "seconds": 5, "only": ["cpu"]}));
    let service = service(json!([step]));
    let script =
        "echo \"{\\\"args\\\":\\\"$*\\\",\\\"action\\\":\\\"$LANDFALL_STEP_ACTION\\\"}\"; echo two faults >&2; exit 3";
    with_agent(&settings(&service.url, &dir, script), || {
        service.wait_for("a reply", |r| count(r, "reply") > 0);
    });
    let reply = certified(&service, &step).remove(0);
    let output: Value = serde_json::from_str(reply["output"].as_str().unwrap()).unwrap();
    let document = json!({"args": "burnin --json --for 5s --only=cpu", "action": "burnin"});
    let expected =
        json!({"run": "r1", "step": 3, "attempt": 1, "exit_code": 3, "document": document, "error": "two faults\n"});
    assert_eq!(output, expected);
}

#[test]
fn nothing_is_certified_while_an_installation_runs() {
    let dir = Dir::new();
    let request = json!({
        "boot_device": "/dev/null", "cluster_id": HOST, "controller_image": "r.io/c:1", "host_id": HOST, "infra_env_id": INFRA_ENV,
        "installer_image": "r.io/i:1", "role": "master"
    });
    let certification = certification(&json!({"do": "burnin", "seconds": 5}));
    let steps = json!([step("install", &[&request.to_string()]), certification]);
    let polls = AtomicU32::new(0);
    let service = FakeService::start(move |request| match kind(request) {
        "register" => registration(),
        "poll" if polls.fetch_add(1, Ordering::Relaxed) == 0 => instructions(steps.clone()),
        "poll" => idle(),
        _ => Answer::Done,
    });
    let (runs, gate) = (dir.0.join("runs"), dir.0.join("gate"));
    let script = format!("echo \"$1\" >> {}; until [ -e {} ]; do sleep 0.02; done", runs.display(), gate.display());
    with_agent(&settings(&service.url, &dir, &script), || {
        service.wait_for("a refusal", |r| count(r, "reply") > 0);
        fs::write(&gate, "").unwrap();
    });
    let reply = certified(&service, &certification).remove(0);
    let output: Value = serde_json::from_str(reply["output"].as_str().unwrap()).unwrap();
    assert_eq!(output["exit_code"], -1);
    assert_eq!(output["error"], "certify is not done while an installation runs on this host");
    assert!(!fs::read_to_string(&runs).unwrap().contains("burnin"));
}

#[test]
fn a_reply_is_retried_when_the_service_is_in_trouble_and_dropped_when_refused() {
    let dir = Dir::new();
    let (inventories, checks) = (Mutex::new(0), Mutex::new(0));
    let polls = AtomicU32::new(0);
    let service = FakeService::start(move |request| match kind(request) {
        "register" => registration(),
        // One step each, then silence: what comes later is a retry.
        "poll" => match polls.fetch_add(1, Ordering::Relaxed) {
            0 => instructions(json!([step("inventory", &[HOST]), step("connectivity-check", &["[]"])])),
            _ => idle(),
        },
        "reply" if request.body["step_type"] == "inventory" => {
            let mut count = inventories.lock().unwrap();
            *count += 1;
            if *count < 3 { Answer::Status(500) } else { Answer::Done }
        }
        "reply" => {
            *checks.lock().unwrap() += 1;
            Answer::Json(400, json!({"code": 400, "message": "no"}))
        }
        _ => Answer::Status(404),
    });
    with_agent(&settings(&service.url, &dir, "echo result"), || {
        let of_type =
            |r: &[Request], name: &str| requests_for(r, "reply").iter().filter(|r| r.body["step_type"] == name).count();
        service
            .wait_for("three inventories", |r| of_type(r, "inventory") == 3 && of_type(r, "connectivity-check") == 1);
        let polls = count(&service.requests(), "poll");
        let requests = service.wait_for("more polls", |r| count(r, "poll") > polls + 5);
        assert_eq!((of_type(&requests, "inventory"), of_type(&requests, "connectivity-check")), (3, 1));
    });
}

#[test]
fn a_lost_medium_is_reported_instead_of_running_steps() {
    let dir = Dir::new();
    let service = service(json!([step("inventory", &[HOST])]));
    let settings = settings(&service.url, &dir, &format!("touch {}/ran", dir.0.display()));
    fs::create_dir(dir.0.join("iso")).unwrap();
    let mounts = format!("30 22 11:0 / {} ro - iso9660 /dev/landfall-none ro\n", dir.0.join("iso").display());
    fs::write(dir.0.join("mountinfo"), mounts).unwrap();
    with_agent(&settings, || {
        service.wait_for("a reply", |r| count(r, "reply") > 0);
    });
    let requests = service.requests();
    let body = &requests_for(&requests, "reply")[0].body;
    assert_eq!(body["exit_code"], 256);
    assert!(
        body["error"].as_str().unwrap().starts_with("cannot access the media (ISO) - media was likely disconnected: ")
    );
    assert!(!dir.0.join("ran").exists());
}

#[test]
fn the_recorded_polls_of_the_real_service_are_understood() {
    let Some(wire) = wire() else { return };
    let dir = Dir::new();
    // The step lists as recorded; `install` and the disk speed check name real disks and are left out by type.
    let recorded = recorded(wire.join("steps/step-connectivity-check.json"));
    let steps = recorded["instructions"].as_array().unwrap().clone();
    assert!(steps.iter().all(|s| s["step_type"] != "install" && s["step_type"] != "installation-disk-speed-check"));
    let types: Vec<_> = steps.iter().map(|s| s["step_type"].clone()).collect();
    let service = service(json!(steps));
    with_agent(&settings(&service.url, &dir, "cat; echo $1"), || {
        service.wait_for("a reply of each type", |r| {
            types.iter().all(|kind| r.iter().any(|r| r.body["step_type"] == *kind))
        });
    });
    let requests = service.requests();
    for reply in requests_for(&requests, "reply") {
        assert_eq!(reply.body.get("exit_code"), None, "{}", reply.body);
    }
}

#[test]
fn the_beacon_goes_on_until_done_is_accepted() {
    let dir = Dir::new();
    let attempt = AtomicU32::new(0);
    let service = FakeService::start(move |_| match attempt.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::Garbage,
        1 => Answer::Json(409, json!({"code": "409", "href": "", "id": 409, "kind": "Error", "reason": "not yet"})),
        3 => Answer::Status(500),
        _ => Answer::Done,
    });
    beacon::run(&settings(&service.url, &dir, "exit 1"), &Cancel::default()).unwrap();
    let progress = service.progress();
    assert_eq!(progress.last().unwrap(), "Done");
    assert!(progress.iter().any(|stage| stage == "Joined"));
    let requests = service.requests();
    let last = requests.last().unwrap();
    assert_eq!(last.path, format!("/v2/infra-envs/{INFRA_ENV}/hosts/{HOST}/progress"));
    assert_eq!(last.body, json!({"current_stage": "Done"}));
    assert_eq!(last.header("discovery_agent_version"), None);
}

#[test]
fn unusable_settings_end_the_agent() {
    let dir = Dir::new();
    let mut settings = settings("ftp://s", &dir, "exit 1");
    assert!(run(&settings, &Cancel::default()).is_err());
    settings.url = "https://s".into();
    settings.http.ca_cert = Some(dir.0.join("missing.pem"));
    assert!(run(&settings, &Cancel::default()).unwrap_err().to_string().contains("missing.pem"));
}
