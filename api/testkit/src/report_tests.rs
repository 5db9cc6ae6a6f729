//! What `.ci/test-report` prints at the end of a run, of made-up results.

use std::{fs, path::Path, process::Command};

/// What it prints of a run in which `cases` came to this, and whether it is content.
fn report(directory: &Path, cases: &str) -> (bool, String) {
    let junit = directory.join("junit.xml");
    let text = format!(
        r#"<?xml version="1.0"?><testsuites name="run"><testsuite name="netcheck::tests">{cases}</testsuite></testsuites>"#
    );
    fs::write(&junit, text).unwrap();
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/test-report")).arg("default").arg(junit);
    command.arg(directory.join("failed")).arg("7").env_remove("LANDFALL_TEST_DATE").env(crate::skip::NO_SKIPS, "1");
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

fn passed(name: &str, seconds: f64, said: &str) -> String {
    format!(r#"<testcase name="{name}" time="{seconds}"><system-err>{said}</system-err></testcase>"#)
}

#[test]
fn each_suite_has_a_line_with_its_tests_and_their_time() {
    let directory = tempfile::tempdir().unwrap();
    let cases = passed("mesh::one", 2.0, "") + &passed("mesh::two", 1.5, "") + &passed("dns::one", 0.25, "");
    let (content, said) = report(directory.path(), &cases);
    assert!(content, "{said}");
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["netcheck", "mesh", "2", "3.5"]), "{said}");
    assert!(lines.contains(&vec!["netcheck", "dns", "1", "0.2"]), "{said}");
    assert!(said.ends_with("test: 0 skipped\ntest: default: 3 passed, 0 failed\n"), "{said}");
}

#[test]
fn a_skip_of_a_test_that_passed_is_told_and_fails_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let cases = passed("mesh::one", 2.0, "skipped mesh::one: it needs root\n");
    let (content, said) = report(directory.path(), &cases);
    assert!(!content && said.contains("\nskipped mesh::one: it needs root\ntest: 1 skipped\n"), "{said}");
}

#[test]
fn the_last_lines_are_the_failed_test_its_assertion_its_seed_its_log_and_the_command_that_repeats_it() {
    let directory = tempfile::tempdir().unwrap();
    let out = "running 1 test\nLANDFALL_SEED=77\ntest mesh::two ... FAILED\n";
    let err = "thread 'mesh::two' panicked at netcheck/tests/mesh.rs:9:5:\nassertion `left == right` failed\n  left: 1\n right: 2\n\
               stack backtrace:\n   0: main\n";
    let failed = format!(
        r#"<testcase name="mesh::two" time="3.0"><failure type="exited with 101"/><system-out>{out}</system-out>
           <system-err>{err}</system-err></testcase>"#
    );
    let (content, said) = report(directory.path(), &(passed("mesh::one", 2.0, "") + &failed));
    assert!(!content);
    let log = directory.path().join("failed/netcheck-tests-mesh-two.log");
    let expected = format!(
        "\ntest: default: 1 failed:\n\nnetcheck::tests mesh::two: exited with 101 after 3.0 s\n    thread 'mesh::two' panicked at \
         netcheck/tests/mesh.rs:9:5:\n    assertion `left == right` failed\n      left: 1\n     right: 2\n  all it said: {}\n  \
         again:       LANDFALL_SEED=77 .ci/test default 'test(=mesh::two)'\ntest: default: 1 passed, 1 failed\n",
        log.display()
    );
    assert!(said.ends_with(&expected), "{said}\n--- not\n{expected}");
    assert!(fs::read_to_string(log).unwrap().contains("stack backtrace:"));
}

/// One that is ended since it hangs has no assertion.
#[test]
fn a_test_that_hangs_shows_what_it_said_last() {
    let directory = tempfile::tempdir().unwrap();
    let failed = r#"<testcase name="mesh::two" time="1200.0"><failure type="timed out"/><system-out>waits for a frame</system-out></testcase>"#;
    let (content, said) = report(directory.path(), failed);
    assert!(!content && said.contains("mesh::two: timed out after 1200.0 s\n    waits for a frame\n"), "{said}");
}

/// A tier that names a test which is not there would leave it to another.
#[test]
fn the_tiers_name_what_there_is() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(workspace.join(".ci/tiers.tsv")).unwrap();
    let mut sources = String::new();
    for folder in [
        "tests",
        "qemu-tests",
        "rootfs-overlay",
        "service-stub/tests",
        "agent/tests",
        "diskwrite",
        "installer/controller/tests",
    ] {
        for entry in texts_below(&workspace.join(folder)) {
            sources += &entry;
        }
    }
    let mut names = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let (_, filter) = line.split_once('\t').expect("a tier, a tab, a filter");
        // test(=module::name), test(/^module::/), test(/^module::(one|two)/)
        for name in filter.split("test(").skip(1).map(|rest| rest.split_once(')').map_or(rest, |(name, _)| name)) {
            let words = name.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
            for word in words.filter(|word| !word.is_empty()) {
                names += 1;
                assert!(sources.contains(word), "{word} of {line}");
            }
        }
    }
    assert!(names > 20, "{names}");
}

/// The texts of all files below a folder, and their names.
fn texts_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(texts_below(&entry.path()));
            found.push(entry.file_name().to_string_lossy().into_owned());
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(entry.path()).unwrap());
            found.push(entry.path().file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    found
}
