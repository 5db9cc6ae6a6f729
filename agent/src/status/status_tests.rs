use super::*;
use crate::steps::tests::{HOST, settings};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A status that goes to files of its own.
fn status() -> (Status, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        state_dir: Some(dir.path().into()),
        url: "https://user:pass@s.example/x?token=t0ken".into(),
        ..settings()
    };
    (Status::new(&settings, Notifier::default()), dir)
}

fn json(dir: &TempDir) -> Value {
    serde_json::from_slice(&fs::read(dir.path().join(STATUS_FILE)).unwrap()).unwrap()
}

fn register(status: &Status) {
    status.registered(settings().infra_env_id, HOST.parse().unwrap(), "r.io/agent:2");
}

fn step(kind: StepType) -> Step {
    Step { args: Vec::new(), step_id: "s-1".into(), step_type: kind }
}

fn client() -> Client {
    let config = api::ClientConfig { url: "http://127.0.0.1:1".into(), ..api::ClientConfig::default() };
    Client::new(&config, api::RetryPolicy::Never).unwrap()
}

fn refused(status: u16) -> ClientError {
    ClientError::Status {
        method: "GET".parse().unwrap(),
        path: "/x".into(),
        status,
        message: "no\u{1b}[2J".into(),
        retry_after: None,
    }
}

#[test]
fn the_file_tells_what_happens_and_nothing_secret() {
    let (status, dir) = status();
    status.ready();
    status.identified(HOST.parse().unwrap());
    status.service_failed(ServiceState::RefusesThisHost, &refused(401), &client());
    let before = json(&dir);
    assert_eq!((&before["registered"], &before["service"]["state"]), (&Value::Null, &json!("refuses_this_host")));
    assert_eq!(before["last_error"]["text"], "GET /x: the service answered 401: no [2J");
    register(&status);
    status.service_answered(&client());
    status.step_started(&step(StepType::Inventory), Some(Duration::from_secs(60)));
    status.step_runs_as(&StepType::Inventory, 77);
    status.next_poll(Duration::from_secs(60), 2);
    let during = json(&dir);
    assert_eq!(during["schema_version"], 1);
    assert_eq!(during["host_id"], HOST);
    assert_eq!(during["agent_version"], "r.io/agent:2");
    assert_eq!(during["replies_waiting"], 2);
    assert_eq!((&during["running"][0]["step_type"], &during["running"][0]["pid"]), (&"inventory".into(), &77.into()));
    assert_eq!(during["last_error"]["resolved"], true);
    status.step_ended(&StepType::Inventory, 5, "first\nwhy it failed\n\n");
    let after = json(&dir);
    assert_eq!(after["running"], json!([]));
    assert_eq!(after["last_results"]["inventory"]["exit_code"], 5);
    assert_eq!(after["last_error"]["text"], "why it failed");
    let text = after.to_string();
    assert!(!text.contains("t0ken") && !text.contains("pass") && text.contains("https://s.example/x"), "{text}");
    let snapshot: Snapshot = serde_json::from_value(after).unwrap();
    assert!(snapshot.is_alive() && snapshot.is_working(Timestamp::now()));
    assert!(!snapshot.is_working(Timestamp::from_unix_seconds(Timestamp::now().unix_seconds() + 1000)));
    assert!(!Snapshot { pid: 1, ..snapshot }.is_alive(), "process 1 started at another time");
}

#[test]
fn the_file_has_the_users_action() {
    let (status, dir) = status();
    register(&status);
    status.user_action(Some("The host booted the discovery image again instead of its disk: fix its boot order"));
    assert!(status.lock().now.line().contains("; to do: The host booted the discovery image again"));
    assert_eq!(json(&dir)["user_action"].as_str().map(|text| text.ends_with("fix its boot order")), Some(true));
    status.user_action(None);
    assert_eq!(json(&dir)["user_action"], Value::Null);
}

#[test]
fn the_stage_of_an_installation_is_followed_while_it_runs() {
    let (status, dir) = status();
    let stage = status.stage_file.clone().unwrap();
    fs::create_dir(stage.parent().unwrap()).unwrap();
    fs::write(&stage, r#"{"stage":"Writing image to disk","info":"25%","at":"2026-01-01T00:00:00Z"}"#).unwrap();
    status.wait(&Cancel::default(), Duration::ZERO);
    assert_eq!(status.lock().now.stage, None, "nothing is installed");
    status.step_started(&step(StepType::Install), None);
    assert_eq!(status.patience(), STAGE_LOOK);
    status.wait(&Cancel::default(), Duration::ZERO);
    assert_eq!(json(&dir)["stage"]["info"], "25%");
    assert!(status.lock().now.line().contains("Writing image to disk 25%"));
    for noise in ["", "{}", "\u{0}", r#"{"stage":7}"#] {
        fs::write(&stage, noise).unwrap();
        status.wait(&Cancel::default(), Duration::ZERO);
        assert_eq!(json(&dir)["stage"]["info"], "25%", "{noise}");
    }
}

#[test]
fn a_clock_that_differs_from_the_services_is_reported() {
    let (status, dir) = status();
    status.update(|now| note_clock(now, Some(7500)));
    assert_eq!(json(&dir)["clock"], "2 h 5 min behind the service");
    assert!(status.lock().now.line().ends_with("; clock: 2 h 5 min behind the service"));
    status.update(|now| note_clock(now, None));
    assert_eq!(json(&dir)["clock_offset_s"], 7500);
    status.update(|now| note_clock(now, Some(3)));
    assert_eq!((&json(&dir)["clock"], &json(&dir)["clock_offset_s"]), (&Value::Null, &json!(3)));
}

#[test]
fn no_address_is_local_or_twice() {
    let addresses = addresses();
    assert!(addresses.is_sorted_by(|a, b| a < b));
    assert!(!addresses.iter().any(|a| a.starts_with("127.") || a == "::1" || a.starts_with("fe80")), "{addresses:?}");
}
