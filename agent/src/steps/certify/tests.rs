//! From request to command, and from its result to the reply.

use super::*;
use crate::steps::tests::{HOST, settings};

fn step(action: &Value) -> Step {
    let request = json!({"run": "r1", "step": 3, "attempt": 2, "action": action}).to_string();
    Step { args: vec![request], step_id: "certify-1".into(), step_type: StepType::Certify }
}

fn run(action: &Value) -> Result<Run, String> {
    let run = KIND.action(&step(action), &settings(), HOST.parse().unwrap());
    run.map_err(|refusal| refusal.to_string())
}

fn replied(action: &Value, outcome: Outcome) -> CertifyReply {
    let outcome = KIND.answer(&step(action), outcome);
    assert_eq!((outcome.exit_code, outcome.error.as_str()), (0, ""));
    serde_json::from_str(&outcome.output).unwrap()
}

#[test]
fn each_action_is_a_command_with_bounds_of_its_name() {
    for (action, command, seconds) in [
        (json!({"do": "report"}), "report --json", 300),
        (json!({"do": "capture"}), "capture --json", 300),
        (json!({"do": "doctor"}), "netcheck doctor --json --url=http://s --ca-cert=/ca.pem", 300),
        (json!({"do": "network-serve", "seconds": 9}), "burnin serve-net --listen :: --for 9s", 9),
        (
            json!({"do": "network-test", "peer": "fd00::1", "seconds": 9}),
            "burnin --json --only net --peer fd00::1 --for 9s",
            9,
        ),
        (json!({"do": "disk-speed", "disk": "/dev/sda", "seconds": 9}), "disk speed --request - --json --timeout 9", 9),
        (json!({"do": "burnin", "seconds": 600}), "burnin --json --for 600s", 600),
        (
            json!({"do": "burnin", "seconds": 9, "only": ["cpu", "disk"], "memory_bytes": 4096,
                "disks": ["/dev/sda"], "destroy": ["/dev/disk/by-id/wwn-0x5"]}),
            "burnin --json --for 9s --only=cpu,disk --memory=4096 --disk=/dev/sda --destroy=/dev/disk/by-id/wwn-0x5 --yes",
            9,
        ),
        (json!({"do": "reboot"}), "agent restart", 300),
        (json!({"do": "power-cut", "after_seconds": 60}), "agent restart --power-cut --after 60", 300),
    ] {
        let run = run(&action).unwrap();
        assert_eq!(run.args.join(" "), command);
        assert_eq!(run.deadline, Some(Duration::from_secs(seconds) + GRACE), "{command}");
        assert_eq!(run.named.action.as_deref(), action["do"].as_str());
        assert!(ACTIONS.iter().any(|(name, _)| action["do"] == *name), "{command}");
        assert!(run.dies_with_agent, "{command}");
    }
    assert!(ACTIONS.is_sorted_by_key(|(name, _)| *name));
}

#[test]
fn only_disks_that_are_to_be_written_can_be() {
    let action = json!({"do": "burnin", "seconds": 9, "disks": ["/dev/sda"], "destroy": ["/dev/sdb", "/dev/sdc"]});
    assert_eq!(run(&action).unwrap().named.targets, [Path::new("/dev/sdb"), Path::new("/dev/sdc")]);
    let speed = run(&json!({"do": "disk-speed", "disk": "/dev/sda", "seconds": 9})).unwrap();
    assert_eq!(speed.named.targets, [Path::new("/dev/sda")]);
    assert_eq!(speed.stdin, br#"{"path":"/dev/sda"}"#);
}

#[test]
fn what_cannot_be_bounded_is_refused() {
    let destroy = |disk: &str| json!({"do": "burnin", "seconds": 9, "destroy": [disk]});
    for (action, text) in [
        (json!({"do": "dance"}), "certify request: unknown variant `dance`"),
        (
            json!({"do": "burnin", "seconds": 0}),
            "seconds in body must be of type number of seconds, a week at most: \"0\"",
        ),
        (json!({"do": "power-cut", "after_seconds": 1_000_000_000}), "after_seconds in body must be"),
        (
            json!({"do": "burnin", "seconds": 9, "only": ["net"]}),
            "only in body must be of type cpu, memory or disk: \"net\"",
        ),
        (
            json!({"do": "burnin", "seconds": 9, "disks": vec!["/dev/sda"; 300]}),
            "disks in body must be of type 256 disks",
        ),
        (
            json!({"do": "disk-speed", "disk": "sda", "seconds": 9}),
            "disk in body must be of type a disk's path in /dev: \"sda\"",
        ),
        (destroy("wwn-0x5"), "destroy in body must be"),
        (destroy("/dev/../etc/passwd"), "destroy in body must be"),
        (destroy("/dev/sda\n/dev/sdb"), "destroy in body must be"),
        (destroy("--yes"), "destroy in body must be"),
    ] {
        let error = run(&action).unwrap_err();
        assert!(error.starts_with(&format!("validation failure list:\n{text}")), "{action}: {error}");
    }
    let resident = Settings { reboot: false, ..settings() };
    for action in [json!({"do": "reboot"}), json!({"do": "power-cut", "after_seconds": 9})] {
        let refusal = KIND.action(&step(&action), &resident, HOST.parse().unwrap()).unwrap_err();
        assert_eq!(refusal.to_string(), "this agent may not reboot its host (--no-reboot)");
    }
    assert_eq!(KIND.answer(&Step { args: vec![], ..step(&json!({})) }, Outcome::failed("x")), Outcome::failed("x"));
}

#[test]
fn the_reply_has_the_result_also_of_what_failed() {
    let doctor = json!({"do": "doctor"});
    let outcome =
        |exit_code, output: &str, error: &str| Outcome { exit_code, output: output.into(), error: error.into() };
    let reply = replied(&doctor, outcome(3, r#"{"verdict":"faults"}"#, "log"));
    assert_eq!((reply.run.as_str(), reply.step, reply.attempt, reply.exit_code), ("r1", 3, 2, 3));
    assert_eq!((&reply.document["verdict"], reply.error.as_str()), (&json!("faults"), "log"));
    let reply = replied(&doctor, outcome(0, "", ""));
    assert_eq!((reply.exit_code, &reply.document, reply.error.as_str()), (0, &Value::Null, ""));
    let reply = replied(&doctor, Outcome::failed("signal: 9 (SIGKILL)"));
    assert_eq!((reply.exit_code, reply.error.as_str()), (-1, "signal: 9 (SIGKILL)"));
    let reply = replied(&doctor, outcome(0, "half", ""));
    assert!(reply.exit_code == -1 && reply.error.starts_with("the result is not JSON: "), "{reply:?}");
    let reply = replied(&doctor, outcome(1, "half", "log"));
    assert_eq!((reply.exit_code, reply.error.as_str()), (1, "log"));
    let long = format!("\"{}\"", "x".repeat(MAX_DOCUMENT_BYTES));
    let reply = replied(&doctor, outcome(0, &long, ""));
    assert_eq!((reply.exit_code, &reply.document), (-1, &Value::Null));
    assert_eq!(reply.error, "the result has 8388610 bytes, more than 8388608");
}

#[test]
fn a_pretended_host_passes() {
    let pretended = |action: Value| -> Option<Value> {
        let reply: CertifyReply = serde_json::from_str(&dry(&step(&action))?.unwrap()).unwrap();
        assert_eq!((reply.exit_code, reply.step), (0, 3));
        Some(reply.document)
    };
    let schema: Value = serde_json::from_str(include_str!("../../../../burnin/burnin.schema.json")).unwrap();
    for action in
        [json!({"do": "burnin", "seconds": 9}), json!({"do": "network-test", "peer": "192.0.2.1", "seconds": 9})]
    {
        let document = pretended(action).unwrap();
        assert_eq!(document["verdict"], "pass");
        for field in schema["required"].as_array().unwrap() {
            assert!(document.get(field.as_str().unwrap()).is_some(), "{field}: {document}");
        }
    }
    let speed = pretended(json!({"do": "disk-speed", "disk": "/dev/sda", "seconds": 9})).unwrap();
    assert_eq!(speed, json!({"io_sync_duration": 1, "path": "/dev/sda"}));
    assert_eq!(pretended(json!({"do": "power-cut", "after_seconds": 9})), Some(json!({"power_cut_in_seconds": 9})));
    assert_eq!(pretended(json!({"do": "report"})), None, "it is made of this machine");
    assert!(dry(&Step { args: vec!["{".into()], ..step(&json!({})) }).unwrap().is_err());
    let report = json!({"system": {"product": {"serial_number": "S1"}}}).to_string();
    let output = KIND.answer(&step(&json!({"do": "report"})), Outcome { output: report, ..Outcome::default() }).output;
    let host = DryRun { host_id: Some(HOST.parse().unwrap()), ..DryRun::default() };
    let edited: CertifyReply = serde_json::from_str(&edit(&host, &output).unwrap()).unwrap();
    assert_eq!(edited.document["system"]["product"]["serial_number"], HOST);
}
