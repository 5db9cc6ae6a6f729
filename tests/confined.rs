//! The program as the agent starts it for a step: held to the rules of the step's type before it reads its request, and still able to
//! do its work. What each type is refused is tried in `agent/src/confine/tests.rs`.
#![allow(clippy::unwrap_used)]

#[path = "../diskwrite/tests/common/mod.rs"]
mod common;

use common::{LoopDisk, MIB, skipped};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

fn step(kind: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
    command.args(args).env_remove("LANDFALL_LOG").env("LANDFALL_STEP", "x-1").env("LANDFALL_STEP_TYPE", kind);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(mut child: Child, request: &Value) -> Output {
    let _ = child.stdin.take().unwrap().write_all(request.to_string().as_bytes());
    child.wait_with_output().unwrap()
}

/// Whether the process has a filter of system calls within seconds.
fn gets_a_filter(child: &Child) -> bool {
    (0..500).any(|_| {
        thread::sleep(Duration::from_millis(10));
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        status.lines().any(|line| line == "Seccomp:\t2")
    })
}

#[test]
fn a_step_is_confined_while_it_waits_for_its_request() {
    let netcheck = [
        ("api-vip-connectivity-check", "endpoint"),
        ("connectivity-check", "mesh"),
        ("container-image-availability", "image"),
        ("dhcp-lease-allocate", "dhcp"),
        ("domain-resolution", "dns"),
        ("free-network-addresses", "sweep"),
        ("ntp-synchronizer", "ntp"),
        ("tang-connectivity-check", "tang"),
        ("verify-vips", "vip"),
    ];
    let mut steps: Vec<_> = netcheck.map(|(kind, check)| (kind, vec!["netcheck", check, "--request", "-"])).into();
    steps.push(("installation-disk-speed-check", vec!["disk", "speed", "--request", "-", "--json"]));
    steps.push(("install", vec!["install", "--request", "-"]));
    steps.push(("logs-gather", vec!["logs", "send", "--request", "-"]));
    steps.push(("download-boot-artifacts", vec!["reclaim", "download", "--request", "-"]));
    steps.push(("reboot-for-reclaim", vec!["reclaim", "reboot", "--request", "-"]));
    for (kind, args) in steps {
        let child = step(kind, &args).spawn().unwrap();
        let confined = gets_a_filter(&child);
        let output = finish(child, &json!("not a request"));
        assert!(confined, "{kind}: {}", String::from_utf8_lossy(&output.stderr));
        assert_ne!(output.status.code(), Some(0), "{kind}");
    }
}

#[test]
fn a_confined_inventory_finds_the_same() {
    let inventory = |confined: bool| {
        let mut command = step("inventory", &["inventory"]);
        if !confined {
            command.env_remove("LANDFALL_STEP_TYPE");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found: Value = serde_json::from_slice(&output.stdout).unwrap();
        found.as_object_mut().unwrap().remove("timestamp");
        found
    };
    // Other tests make and remove disks and interfaces meanwhile.
    let tries = (0..20).map(|_| (inventory(false), inventory(true), inventory(false)));
    let (before, confined, _) = tries.into_iter().find(|(before, _, after)| before == after).unwrap();
    assert!(before["cpu"]["count"].as_u64() > Some(0), "{before}");
    assert_eq!(confined, before);
}

#[test]
fn the_disk_of_the_request_is_measured_and_no_other() {
    if skipped() {
        return;
    }
    let [asked, other] = [(); 2].map(|()| LoopDisk::new(32 * MIB, 512, false));
    let speed = |disk: &LoopDisk| {
        let mut command = step("installation-disk-speed-check", &["disk", "speed", "--request", "-", "--json"]);
        // Too short for all of it, but it writes.
        command.args(["--timeout", "0.2"]).env("LANDFALL_STEP_TARGET", asked.path());
        finish(command.spawn().unwrap(), &json!({"path": disk.path()}))
    };
    let output = speed(&asked);
    assert_eq!(output.status.code(), Some(124), "{}", String::from_utf8_lossy(&output.stderr));
    let output = speed(&other);
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.code() == Some(255) && said.contains("Permission denied"), "{said}");
}
