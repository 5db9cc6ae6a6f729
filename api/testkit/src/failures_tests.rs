//! What `.ci/failures` prints at the end of a run, of made-up logs.

use std::{fmt::Write, fs, process::Command};

/// What the script prints of these logs.
fn failures(logs: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let paths = logs.iter().enumerate().map(|(number, log)| {
        let path = directory.path().join(number.to_string());
        fs::write(&path, log).unwrap();
        path
    });
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/failures")).args(paths).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const PASSED: &str = "\
     Running unittests src/lib.rs (target/debug/deps/a-1)

running 2 tests
test a::one ... ok
test a::failures ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

fuzz: lldp: 812 inputs, peak 44 MB, no finding in 5 s
";

/// A log of a program whose tests of these names said so much.
fn failed(tests: &[(&str, &str)]) -> String {
    let mut log = format!("running {} tests\ntest fine ... ok\n", tests.len() + 1);
    for (name, _) in tests {
        writeln!(log, "test {name} ... FAILED").unwrap();
    }
    log += "\nfailures:\n\n";
    for (name, said) in tests.iter().filter(|(_, said)| !said.is_empty()) {
        write!(log, "---- {name} stdout ----\n{said}\n\n").unwrap();
    }
    log += "\nfailures:\n";
    for (name, _) in tests {
        writeln!(log, "    {name}").unwrap();
    }
    log + "\ntest result: FAILED. 1 passed; 1 failed\n\nerror: test failed, to rerun pass `-p a --test b`\nmore of the build\n"
}

#[test]
fn nothing_is_said_of_a_run_that_passed() {
    assert_eq!(failures(&[PASSED, "", PASSED]), "");
}

#[test]
fn each_failed_test_is_named_with_what_it_said() {
    let rerun = "error: test failed, to rerun pass `-p a --test b`";
    let machines = failed(&[("boots", "thread 'boots' panicked at a.rs:1:\n\nno node")]);
    let others =
        failed(&[("silent", ""), ("src/lib.rs - text (line 3)", "error: said by the test\ntest x ... FAILED")]);
    let expected = format!(
        "test: what failed:\n\
         test boots ... FAILED\n\
         test silent ... FAILED\n\
         test src/lib.rs - text (line 3) ... FAILED\n\
         {rerun}\n\
         {rerun}\n\
         ---- boots stdout ----\n\
         thread 'boots' panicked at a.rs:1:\n\
         \n\
         no node\n\
         ---- src/lib.rs - text (line 3) stdout ----\n\
         error: said by the test\n\
         test x ... FAILED\n"
    );
    assert_eq!(failures(&[&machines, PASSED, &others]), expected);
}

#[test]
fn what_ends_without_a_failed_test_is_named_too() {
    let crashed = "test a ... ok\nerror: test failed, to rerun pass `--lib`\n\nCaused by:\n  process didn't exit successfully: `/t/a-1` (signal: 6, SIGABRT: process abort signal)\n";
    let broken = "error[E0425]: cannot find value `x`\n --> src/lib.rs:1:1\nerror: could not compile `a` (lib test) due to 1 previous error\n";
    let fuzz = "fuzz: ntp: 9 inputs, peak 44 MB, no finding in 5 s\n==1== ERROR: libFuzzer: deadly signal\nfuzz: dns: a finding, see /t/findings\n";
    let expected = "\
test: what failed:
error: test failed, to rerun pass `--lib`
  process didn't exit successfully: `/t/a-1` (signal: 6, SIGABRT: process abort signal)
error[E0425]: cannot find value `x`
error: could not compile `a` (lib test) due to 1 previous error
fuzz: dns: a finding, see /t/findings
fuzz: ntp: 9 inputs, peak 44 MB, no finding in 5 s
==1== ERROR: libFuzzer: deadly signal
";
    assert_eq!(failures(&[crashed, broken, fuzz]), expected);
}

#[test]
fn much_is_cut_to_its_end() {
    let lines = |count: usize| (1..=count).map(|line| format!("line {line}\n")).collect::<String>();
    let one = failures(&[&failed(&[("long", &lines(500))])]);
    assert!(one.contains("[460 lines before these]\nline 461\n") && one.ends_with("\nline 500\n"), "{one}");
    assert_eq!(one.lines().count(), 1 + 2 + 2 + 40);
    let long = "x".repeat(100_000);
    assert!(failures(&[&failed(&[("wide", &long)])]).len() < 1000);
    for count in [4, 9, 30, 300] {
        let names: Vec<String> = (0..count).map(|number| format!("test_{number}")).collect();
        let said = lines(100);
        let tests: Vec<_> = names.iter().map(|name| (name.as_str(), said.as_str())).collect();
        let all = failures(&[&failed(&tests)]);
        let len = all.lines().count();
        assert!((100..=150).contains(&len), "{count} tests: {len} lines");
        assert!(all.contains("test test_0 ... FAILED\n") && all.contains("---- test_0 stdout ----\n"), "{all}");
        assert!(all.contains("\nline 100\n"), "{all}");
    }
}
