//! An agent that polls for months needs no more at their end than at their start.
#![allow(clippy::unwrap_used)]

use agent::{
    agent::run,
    media::Media,
    settings::{Limits, Pace, Settings},
};
use api::{Secret, http::HttpConfig};
use fake_service::{Answer, FakeService};
use kernel::Cancel;
use serde_json::{Value, json};
use std::{
    env, fs,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use testkit::process::{Running, own_test};

/// Makes this test program the agent of the service at this address.
const URL_VARIABLE: &str = "LANDFALL_TEST_AGENT_OF";
const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
const WARM_UP: u64 = 1_000;
const POLLS: u64 = 10_000;
/// Pages more or less of stack and heap, and what the kernel's counters, kept by thread, are off by. Sixteen bytes leaked by
/// each poll would be more.
const SLACK_KIB: i64 = 128;

struct Agent(Running);

impl Agent {
    fn status(&self, name: &str) -> i64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

fn be_the_agent(url: String) {
    let quick = Duration::from_micros(100);
    let settings = Settings {
        url,
        token: Secret::new("t0ken"),
        http: HttpConfig::default(),
        infra_env_id: INFRA_ENV.parse().unwrap(),
        agent_version: "r.io/agent:1".into(),
        host_id: Some(HOST.parse().unwrap()),
        program: "/nonexistent".into(),
        media: Media::default(),
        reboot: false,
        dry: None,
        limits: Limits::default(),
        state_dir: None,
        pace: Pace { poll_min: quick, poll_max: quick, poll_retry: quick, ..Pace::default() },
    };
    run(&settings, &Cancel::default()).unwrap();
}

#[test]
fn ten_thousand_polls_leave_nothing_behind() {
    if let Ok(url) = env::var(URL_VARIABLE) {
        return be_the_agent(url);
    }
    let polls = Arc::new(AtomicU64::new(0));
    let counted = polls.clone();
    let service = FakeService::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("POST", path) if path.ends_with("/hosts") => {
            let args = json!({"agent_version": "r.io/agent:1", "host_id": HOST, "infra_env_id": INFRA_ENV}).to_string();
            Answer::Json(201, json!({"id": HOST, "next_step_runner_command": {"args": [args]}}))
        }
        ("GET", _) => {
            let poll = counted.fetch_add(1, Relaxed);
            // Some bring a step, which is answered; some fail.
            let step =
                json!([{"step_type": "execute", "step_id": format!("execute-{poll:08x}"), "args": ["x".repeat(1000)]}]);
            match poll % 100 {
                17 => Answer::Status(500),
                50 => Answer::Json(200, json!({"instructions": step, "post_step_action": "continue"})),
                _ => Answer::Json(200, json!({"instructions": Value::Null, "post_step_action": "continue"})),
            }
        }
        _ => Answer::Done,
    });
    let mut command = Command::new(env::current_exe().unwrap());
    let test = own_test(module_path!(), "ten_thousand_polls_leave_nothing_behind");
    command.args(["--exact", &test, "--nocapture"]).env(URL_VARIABLE, &service.url);
    let agent =
        Agent(Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()));
    let reach = |count: u64| {
        assert!(testkit::wait::comes(|| polls.load(Relaxed) >= count), "only {} polls", polls.load(Relaxed));
    };
    reach(WARM_UP);
    let before = ["RssAnon", "VmData", "Threads", "FDSize"].map(|name| (name, agent.status(name)));
    reach(WARM_UP + POLLS);
    for (name, before) in before {
        let after = agent.status(name);
        println!("{name:8} {before} before, {after} after {POLLS} polls");
        let slack = if name == "RssAnon" { SLACK_KIB } else { 0 };
        // A step's thread and its stack may be alive at this moment.
        let busy = if name == "Threads" {
            1
        } else if name == "VmData" {
            10 << 10
        } else {
            0
        };
        assert!(after <= before + slack + busy, "{name}: {before} before, {after} after");
    }
}
