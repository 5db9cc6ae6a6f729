//! Recordings of other machines and programs. They are other people's, so that they are not in the repository: one variable names their
//! folder, and a test that needs one that is not there is skipped.

use crate::skip;
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// Names the folder. It is set and empty where there is none and that was said already, as `.ci/run` does: there no test fails for it.
const FOLDER: &str = "LANDFALL_RECORDINGS";

/// A recorded file or directory. Reports the skip where it is not there.
///
/// # Panics
/// Where no test may be skipped, and nobody has said that there are no recordings.
#[track_caller]
#[must_use]
pub fn path(name: &str) -> Option<PathBuf> {
    below(env::var_os(FOLDER).as_deref(), name)
}

#[track_caller]
fn below(folder: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    match folder {
        None => skip::because(format_args!("it needs the recording {name}, and {FOLDER} names no folder")),
        Some(folder) if folder.is_empty() => skip::left_out(format_args!("it needs the recording {name}")),
        Some(folder) => {
            // Tests run in the folders of their crates: a relative path is one from the workspace's.
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join(name);
            return skip::unless(
                format_args!("{}, below the folder that {FOLDER} names", path.display()),
                path.exists(),
            )
            .then_some(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::run_by_itself;

    #[test]
    fn what_is_there_is_found_from_the_workspace_on() {
        let absolute = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert_eq!(below(Some(absolute.as_os_str()), "skip.rs"), Some(absolute.join("skip.rs")));
        let relative = below(Some(OsStr::new("api/testkit")), "src").expect("the same folder");
        assert!(relative.join("skip.rs").is_file(), "{}", relative.display());
    }

    /// Skipped where the test below starts it.
    #[test]
    #[ignore = "a part of the test beside it"]
    fn example() {
        assert_eq!(path("machines/a.tar.xz"), None);
    }

    #[test]
    fn a_missing_recording_fails_only_where_there_should_be_some() {
        let run = |folder, no_skips| run_by_itself("recordings::tests::example", &[(FOLDER, folder)], no_skips);
        let named = "recordings::tests::example: it needs the recording machines/a.tar.xz";
        let (passed, stderr) = run(None, false);
        assert!(passed && stderr.contains(&format!("skipped {named}, and {FOLDER} names no folder\n")), "{stderr}");
        assert!(!run(None, true).0);
        for no_skips in [false, true] {
            let (passed, stderr) = run(Some(""), no_skips);
            assert!(passed && stderr.contains(&format!("left out {named}\n")), "{stderr}");
        }
        let (passed, stderr) = run(Some("src"), false);
        let missing = "src/machines/a.tar.xz, below the folder";
        assert!(passed && stderr.contains("skipped ") && stderr.contains(missing), "{stderr}");
        assert!(!run(Some("src"), true).0, "a folder that is named has all of them");
    }
}
