//! What a step's process has of root's power, seen from inside: the program that runs steps is replaced by a script that shows it,
//! and by one that tries more than it may.
#![allow(clippy::unwrap_used)]

use agent::{
    child::{self, Outcome},
    confine::Named,
    settings::Limits,
    steps::{self, Run},
};
use api::StepType;
use kernel::Cancel;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// A type, and for a step of a certification its action.
type Kind = (StepType, Option<&'static str>);

fn run_as((kind, action): &Kind, script: &str) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    testkit::process::place(&program, format!("#!/bin/sh\ncd {}\n{script}\n", dir.path().display()));
    let run = Run {
        args: Vec::new(),
        stdin: b"on standard input".to_vec(),
        deadline: Some(Duration::from_secs(60)),
        dies_with_agent: true,
        answers_on_stderr: true,
        named: Named { action: action.map(Into::into), ..Named::default() },
    };
    child::run(Path::new(&program), &run, kind, "x-1", Limits::default(), &Cancel::default())
}

fn is_root() -> bool {
    testkit::skip::unless("root, which alone has power to lose", nix::unistd::geteuid().is_root())
}

fn steps() -> impl Iterator<Item = Kind> {
    let published = StepType::NAMES.into_iter().map(|name| (serde_json::from_value(name.into()).unwrap(), None));
    published.chain(steps::actions().map(|action| (StepType::Certify, Some(action))))
}

#[test]
fn a_running_step_has_what_the_table_says_and_can_get_no_more() {
    if !is_root() {
        return;
    }
    let ours = fs::read_to_string("/proc/self/status").unwrap();
    let bounding = ours.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap();
    let bounding = u64::from_str_radix(bounding.trim(), 16).unwrap();
    for kind in steps() {
        let outcome = run_as(&kind, "cat /proc/self/status");
        let fields: BTreeMap<_, _> = outcome.output.lines().filter_map(|line| line.split_once(":\t")).collect();
        let (step, action) = &kind;
        let held =
            steps::privileges(step, *action).capabilities.iter().fold(0, |set, capability| set | capability.bitmask());
        for set in ["CapBnd", "CapPrm", "CapEff"] {
            let seen = u64::from_str_radix(fields[set], 16).unwrap();
            assert_eq!(seen, held & bounding, "{kind:?} {set}");
        }
        let name = format!("{step} {}", action.unwrap_or_default());
        println!("{name:30} CapEff {} NoNewPrivs {}", fields["CapEff"], fields["NoNewPrivs"]);
        for set in ["CapInh", "CapAmb"] {
            assert_eq!(fields[set], "0000000000000000", "{kind:?} {set}");
        }
        assert_eq!(fields["NoNewPrivs"], "1", "{kind:?}");
    }
}

#[test]
fn a_step_that_tries_what_it_may_not_fails() {
    if !is_root() {
        return;
    }
    let attempts = [
        ("mknod device c 1 3", "Operation not permitted"),
        ("mkdir here; mount -t tmpfs none here", "permission denied"),
        ("chown 12345 program", "Operation not permitted"),
        ("chroot / true", "Operation not permitted"),
        ("ulimit -c unlimited", "ot permitted"),
        ("prlimit --data=unlimited true", "Operation not permitted"),
    ];
    for (attempt, refusal) in attempts {
        let outcome = run_as(&(StepType::DomainResolution, None), &format!("LC_ALL=C; export LC_ALL; {attempt}"));
        println!("{attempt:40} {} {}", outcome.exit_code, outcome.error.trim());
        assert_ne!(outcome.exit_code, 0, "{attempt}");
        assert!(outcome.error.contains(refusal), "{attempt}: {}", outcome.error);
    }
    // What may, can.
    assert_eq!(
        run_as(&(StepType::Install, None), "mknod device c 1 3 && chown 12345 device && chroot / true").exit_code,
        0
    );
}

#[test]
fn memory_is_bounded() {
    let outcome = run_as(&(StepType::DomainResolution, None), "exec dd if=/dev/zero of=/dev/null bs=1500M count=1");
    assert_ne!(outcome.exit_code, 0);
    assert!(outcome.error.contains("exhausted"), "{}", outcome.error);
}

/// Alone in its process: it changes the environment.
#[test]
fn secrets_are_in_no_environment() {
    if std::env::var_os("PULL_SECRET_TOKEN").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &testkit::process::own_test(module_path!(), "secrets_are_in_no_environment")])
            .envs([("PULL_SECRET_TOKEN", "t0ken"), ("HTTPS_PROXY", "http://user:s3cret@proxy:3128"), ("OTHER", "x")])
            .status();
        assert!(status.unwrap().success());
        return;
    }
    for kind in steps() {
        let outcome = run_as(&kind, "env; cat /proc/$$/environ /proc/$$/cmdline | tr '\\0' '\\n'");
        let seen = outcome.output;
        assert!(!seen.contains("t0ken") && !seen.contains("s3cret") && !seen.contains("OTHER"), "{kind:?}: {seen}");
    }
    let outcome = run_as(&(StepType::TangConnectivityCheck, None), "cat \"$LANDFALL_PROXY_FILE\"");
    assert_eq!(outcome.output, "HTTPS_PROXY=http://user:s3cret@proxy:3128\n");
    let outcome = run_as(
        &(StepType::DomainResolution, None),
        "echo ${LANDFALL_PROXY_FILE-none}; ls -l /proc/self/fd | grep -c memfd",
    );
    assert_eq!(outcome.output, "none\n0\n");
}
