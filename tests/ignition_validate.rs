//! The program called as `ignition-validate`, beside Ignition's own where that is there.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const GOOD: &str = r#"{"ignition":{"version":"3.3.0"},"storage":{"files":[{"path":"/a"}]}}"#;
const WARNED: &str = r#"{"ignition":{"version":"3.3.0"},"bogus":1}"#;
const BAD: &str = r#"{"ignition":{"version":"3.3.0"},"storage":{"files":[{"path":"a","mode":-1}]}}"#;

fn theirs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm/packages/ignition/usr/bin/ignition-validate")
}

/// Exit code, standard output, standard error; the program's own name is made the same in all.
fn run(program: &Path, args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(program);
    let mut child =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap().replace(&program.display().to_string(), "PROGRAM");
        text.replace(": Unused key", ": unused key")
    };
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_line_is_that_of_ignitions_own_program() {
    let dir = tempfile::tempdir().unwrap();
    let ours = dir.path().join("ignition-validate");
    symlink(env!("CARGO_BIN_EXE_landfall"), &ours).unwrap();
    let file = dir.path().join("config.ign");
    fs::write(&file, BAD).unwrap();
    let file = file.to_str().unwrap();
    let usage = "Usage:\n  PROGRAM [flags] config.ign\n\n  -version\n    \tprint the version of ignition-validate\n";
    let bad = "error at $.storage.files.0.path, line 1 col 61: path not absolute\n\
               error at $.storage.files.0.mode, line 1 col 72: illegal file mode\n\
               warning at $.storage.files.0.mode, line 1 col 72: setuid/setgid/sticky bits are not supported";
    let cases: [(&[&str], &str, i32, &str, String); 11] = [
        (&["-"], GOOD, 0, "", String::new()),
        (&["-"], WARNED, 0, "warning at $.bogus, line 1 col 33: unused key bogus\n", String::new()),
        (&[file], "", 1, bad, String::new()),
        (&["--", file], "", 1, bad, String::new()),
        (&["-"], "", 1, "", "couldn't parse config: not a config (empty)\n".into()),
        (
            &["-"],
            r#"{"ignition":{"version":"9.0.0"}}"#,
            1,
            "",
            "couldn't parse config: unsupported config version\n".into(),
        ),
        (&[], "", 1, "", usage.into()),
        (&["a", "b"], "", 1, "", usage.into()),
        (&["-x"], "", 2, "", format!("flag provided but not defined: -x\n{usage}")),
        (&["-h"], "", 0, "", usage.into()),
        (&["/no/such/file"], "", 1, "", "couldn't read config: ".into()),
    ];
    for (args, input, code, out, err) in cases {
        let found = run(&ours, args, input);
        assert_eq!(found.0, Some(code), "{args:?}: {found:?}");
        assert!(found.1.starts_with(out) && found.1.is_empty() == out.is_empty(), "{args:?}: {found:?}");
        assert!(found.2.starts_with(&err) && found.2.is_empty() == err.is_empty(), "{args:?}: {found:?}");
        if theirs().is_file() {
            let other = run(&theirs(), args, input);
            assert_eq!(other.0, found.0, "{args:?}: {other:?}");
            assert!(other.1.starts_with(out), "{args:?}: {other:?}");
            assert!(other.2.starts_with(&err), "{args:?}: {other:?}");
        }
    }
    assert_eq!(run(&ours, &["-version"], "").0, Some(0));
}
