//! `landfall disk speed` as people and the agent start it, and what is on the disk afterwards.
#![allow(clippy::unwrap_used)]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    process::{Child, Command, Output, Stdio},
};
use testkit::{
    disk::{LoopDisk, MIB, skipped},
    wait::comes,
};

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
    command.args(["disk", "speed"]).args(args).env_remove("LANDFALL_LOG").env("LANDFALL_STEP", "test");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn speed(args: &[&str], request: &Value) -> Output {
    let mut child = start(args);
    // It may be refused before it reads.
    let _ = child.stdin.take().unwrap().write_all(request.to_string().as_bytes());
    child.wait_with_output().unwrap()
}

/// A disk of ones.
fn disk() -> LoopDisk {
    let disk = LoopDisk::new(32 * MIB, 512, false);
    disk.write(0, &vec![1; 32 << 20]);
    disk
}

fn is_whole(disk: &LoopDisk) -> bool {
    disk.read(0, 32 * MIB).iter().all(|byte| *byte == 1)
}

#[test]
fn a_request_is_answered_as_the_service_defines_it() {
    if skipped() {
        return;
    }
    let disk = disk();
    let path = disk.path().display().to_string();
    let fits = |definition: &str, document: &Value| {
        if let Some(swagger) = testkit::wire::Swagger::read() {
            assert_eq!(swagger.faults(definition, document), Vec::<String>::new(), "{document}");
        }
    };
    // Verbatim, whatever leads to the same disk.
    let odd = path.replace("/dev/", "/dev/../dev/");
    let request = json!({ "path": odd });
    fits("disk_speed_check_request", &request);
    let output = speed(&["--request", "-", "--json", "--timeout", "480.00"], &request);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""));
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{reply}");
    fits("disk_speed_check_response", &reply);
    assert_eq!(reply["path"], odd);
    assert!(reply.get("io_sync_duration").is_none_or(|ms| ms.as_u64().is_some_and(|ms| ms > 0)), "{reply}");
    assert!(is_whole(&disk));

    let missing = json!({"path": "/dev/landfall-none"});
    let output = speed(&["--request", "-", "--json"], &missing);
    assert_eq!(output.status.code(), Some(255));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), missing);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("Could not get I/O performance for path /dev/landfall-none: cannot open"), "{said}");

    let output = speed(&["--request", "-", "--json", "--timeout", "0.01"], &json!({ "path": path }));
    assert_eq!((output.status.code(), &*output.stdout), (Some(124), &b""[..]));
    assert!(is_whole(&disk));
}

#[test]
fn by_hand_it_shows_percentiles() {
    if skipped() {
        return;
    }
    let disk = disk();
    let output =
        speed(&["--json", "--size", "64k", "--writers", "1", &disk.path().display().to_string()], &json!(null));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{report}");
    assert_eq!((&report["schema_version"], &report["contents"]), (&json!(1), &json!("restored")));
    let writer = &report["writers"][0];
    assert_eq!((&writer["writes"], &writer["bytes"]), (&json!(28), &json!(64_400)));
    let [low, high] = ["p50_ns", "max_ns"].map(|name| writer[name].as_u64().unwrap());
    assert!(0 < low && low <= high, "{writer}");
}

#[test]
fn signals_in_the_middle_put_everything_back() {
    if skipped() {
        return;
    }
    for signals in [&[Signal::SIGINT][..], &[Signal::SIGTERM, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT]] {
        let disk = disk();
        // So long that it can't come to its end.
        let mut child = start(&["--size", "31m", "--block", "512", &disk.path().display().to_string()]);
        assert!(comes(|| !is_whole(&disk)), "nothing is written");
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        for signal in signals {
            let _ = kill(pid, *signal);
        }
        let status = child.wait().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("stopped before the end of the measurement"), "{said}");
        assert!(is_whole(&disk), "{signals:?}: {said}");
    }
}
