//! Runs a program for a limited time and ends it, with all that it has started, as timeout(1) would.
//!
//! The program stays in our process group, so that what ends us as a group ends it too, and gets SIGTERM when we are gone without
//! it.

use assist::Place;
use kernel::outputs::{Keep, Outputs};
use std::{
    io,
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

/// Enough for what a program says at its end.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// Time between SIGTERM and SIGKILL, for what was killed to be gone, and for the pipes of an ended program to close.
pub(super) const GRACE: Duration = Duration::from_secs(3);

/// What became of a program that has ended by itself.
#[derive(Debug)]
pub(super) struct Ended {
    pub status: ExitStatus,
    /// The end of what it printed.
    pub stdout: String,
    pub stderr: String,
}

/// Runs it without input. `None`: the time was up. Returns after three times [`GRACE`] more at the latest.
pub(super) fn run(command: &Command, timeout: Duration) -> io::Result<Option<Ended>> {
    let (mut outputs, ends) = Outputs::apart([Keep::End(MAX_OUTPUT_BYTES); 2])?;
    let mut child = assist::start(command, Place::default(), ends)?;
    let start = Instant::now();
    let Some(status) = outputs.follow(GRACE, || child.try_wait(), |_| start.elapsed() >= timeout)? else {
        child.end(true, GRACE)?;
        return Ok(None);
    };
    let [stdout, stderr] = outputs.texts();
    Ok(Some(Ended { status, stdout, stderr }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{
        sys::signal::{Signal, kill},
        unistd::{Pid, getpgrp},
    };
    use std::{fs, path::Path};

    fn shell(script: &str, directory: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("cd '{}'; {script}", directory.display())]);
        command
    }

    fn read_number(path: &Path) -> Option<i32> {
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    #[test]
    fn what_runs_too_long_ends_with_all_it_started() {
        const DEAF: &str = r#"trap "" TERM;"#;
        // In the last the first signal makes orphans.
        for (outer, inner) in [("", ""), (DEAF, ""), ("", DEAF)] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("child");
            let script = format!("{outer} sh -c '{inner} sleep 1000 & echo $! > child; wait' & wait");
            // A loaded machine may need longer to start them.
            let child = [1, 4, 16, 64].into_iter().find_map(|timeout_s| {
                let ended = run(&shell(&script, directory.path()), Duration::from_secs(timeout_s)).unwrap();
                assert!(ended.is_none(), "{script}: {ended:?}");
                read_number(&path)
            });
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.unwrap()));
            assert!(stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z ")), "{script}");
        }
    }

    #[test]
    fn it_shares_our_process_group() {
        let directory = tempfile::tempdir().unwrap();
        let ended = run(&shell("cut -d' ' -f5 /proc/$$/stat", directory.path()), Duration::from_secs(60));
        assert_eq!(ended.unwrap().unwrap().stdout.trim(), getpgrp().to_string());
    }

    #[test]
    fn what_it_leaves_running_delays_no_one() {
        let directory = tempfile::tempdir().unwrap();
        let script = "sleep 1000 & echo $! > child; exit 3";
        let ended = run(&shell(script, directory.path()), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!((ended.status.code(), &*ended.stdout), (Some(3), ""));
        let left = read_number(&directory.path().join("child")).unwrap();
        kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
    }

    #[test]
    fn only_the_end_of_a_flood_is_retained() {
        let script = "yes | head -c 1000000; echo end";
        let ended = run(&shell(script, Path::new("/")), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(ended.stdout.len(), MAX_OUTPUT_BYTES);
        assert!(ended.stdout.ends_with("y\nend\n"));
    }
}
