//! Decides for every test of the workspace what happens where something that it needs is missing: it is skipped with one line on
//! standard error, and where `LANDFALL_NO_SKIPS` is set, as in CI, it fails. `.ci/test` counts the lines.

use std::{
    env,
    fmt::Display,
    io::{self, Write as _},
    thread,
};

/// Set where no test may be skipped.
pub(crate) const NO_SKIPS: &str = "LANDFALL_NO_SKIPS";

/// Reports that the calling test, or a part of it, proves nothing here. The caller returns then.
///
/// # Panics
/// Where no test may be skipped.
#[track_caller]
pub fn because(why: impl Display) {
    assert!(env::var_os(NO_SKIPS).is_none(), "no test may be skipped, but this one: {why}");
    tell("skipped", why);
}

/// Reports the same of a test that no run of this machine is meant to have: it fails nowhere.
pub(crate) fn left_out(why: impl Display) {
    tell("left out", why);
}

/// What `.ci/count-skips` looks for.
fn tell(what: &str, why: impl Display) {
    let test = thread::current();
    // The harness captures what the macros print, and drops it when the test passes.
    let _ = io::stderr().write_all(format!("{what} {}: {why}\n", test.name().unwrap_or("unnamed")).as_bytes());
}

/// Whether a test can run that needs something: `there`. Reports the skip where it is not.
///
/// # Panics
/// Where it is not there, and no test may be skipped.
#[track_caller]
#[must_use]
pub fn unless(what: impl Display, there: bool) -> bool {
    if !there {
        because(format_args!("it needs {what}"));
    }
    there
}

/// How an ignored test of this crate ends with these variables, and what it prints on standard error though it passes.
#[cfg(test)]
pub(crate) fn run_by_itself(test: &str, variables: &[(&str, Option<&str>)], no_skips: bool) -> (bool, String) {
    let mut command = std::process::Command::new(env::current_exe().expect("this program has a path"));
    command.args(["--exact", test, "--ignored", "--test-threads=2"]);
    for (name, value) in variables.iter().copied().chain([(NO_SKIPS, no_skips.then_some("1"))]) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().expect("this program runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        path::Path,
        process::{Command, Stdio},
    };

    /// Skipped where the tests below start it.
    #[test]
    #[ignore = "a part of the tests beside it"]
    fn example() {
        assert!(unless("nothing", true));
        assert!(!unless("a unicorn", false));
    }

    fn run(no_skips: bool) -> (bool, String) {
        run_by_itself("skip::tests::example", &[], no_skips)
    }

    #[test]
    fn a_skip_is_one_line_that_no_harness_captures() {
        let (passed, stderr) = run(false);
        assert!(passed, "{stderr}");
        assert!(stderr.lines().any(|line| line == "skipped skip::tests::example: it needs a unicorn"), "{stderr}");
    }

    #[test]
    fn a_skip_is_a_failure_where_none_is_allowed() {
        let (passed, stderr) = run(true);
        assert!(!passed && !stderr.contains("skipped skip::tests::example"), "{stderr}");
    }

    /// What `.ci/test-report` does with the output of its tests.
    #[test]
    fn skips_in_the_output_of_a_run_are_counted_and_fail_it() {
        let count = |output: &str, no_skips: bool| {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/count-skips");
            let mut command = Command::new(script);
            command.arg("-").env_remove(NO_SKIPS).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            if no_skips {
                command.env(NO_SKIPS, "1");
            }
            let mut child = command.spawn().expect("the script runs");
            child.stdin.take().expect("it reads").write_all(output.as_bytes()).expect("it reads all");
            let output = child.wait_with_output().expect("the script ends");
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (_, skip) = run(false);
        let line = "skipped skip::tests::example: it needs a unicorn\n";
        assert_eq!(count(&skip, false), (true, format!("{line}test: 1 skipped\n")));
        // With one thread the harness has written the test's name before.
        let two = format!("test tests::example ... {skip}ok\n{skip}");
        assert_eq!(count(&two, true), (false, format!("{line}{line}test: 2 skipped\n")));
        assert_eq!(count("test tests::skipped ... ok\n", true), (true, "test: 0 skipped\n".to_owned()));
        // What no run of the machine is meant to have is listed too, and fails none.
        let left_out = "left out tests::a: it needs the recording b\n";
        let told = format!("{left_out}test: 1 left out\ntest: 0 skipped\n");
        assert_eq!(count(left_out, true), (true, told.clone()));
        assert_eq!(count(&format!("test tests::a ... {left_out}"), false), (true, told));
    }

    /// Every Rust file below a directory, but for what is built.
    fn sources(directory: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(directory).expect("the workspace can be read").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if name != "target" && name != ".git" {
                    sources(&path, found);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file is text");
                found.push((path.display().to_string(), text));
            }
        }
    }

    /// A skip that this crate does not see is neither counted nor fails.
    #[test]
    fn no_other_code_decides_about_skips() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = Vec::new();
        sources(&workspace, &mut found);
        assert!(found.len() > 500, "{} files", found.len());
        let signs = [NO_SKIPS, "println!(\"skipped", "print!(\"skipped", "\"skipped: "];
        let others: Vec<_> = found
            .iter()
            .filter(|(path, text)| {
                !path.ends_with("api/testkit/src/skip.rs") && signs.iter().any(|sign| text.contains(sign))
            })
            .map(|(path, _)| path)
            .collect();
        assert!(others.is_empty(), "use testkit::skip: {others:#?}");
    }
}
