//! Runs a program for a limited time and ends it, with all that it has started, as timeout(1) would.
//!
//! The program stays in our process group, so that what ends us as a group ends it too, and gets SIGTERM when we are gone without
//! it.

use crate::sys;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// Enough for what a program says at its end.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
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
pub(super) fn run(command: &mut Command, timeout: Duration) -> io::Result<Option<Ended>> {
    sys::end_with_this_thread(command);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().map(read);
    let stderr = child.stderr.take().map(read);
    let Some(status) = wait(&mut child, timeout)? else { return Ok(None) };
    // What it leaves running may hold its pipes open.
    let until = Instant::now() + GRACE;
    let [stdout, stderr] = [stdout, stderr].map(|output| {
        let left = until.saturating_duration_since(Instant::now());
        output.and_then(|output| output.recv_timeout(left).ok()).unwrap_or_default()
    });
    Ok(Some(Ended { status, stdout, stderr }))
}

fn wait(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= timeout {
            end(child)?;
            return Ok(None);
        }
        sleep(POLL_INTERVAL);
    }
}

/// Ends the child and its descendants. One that the kernel does not let go of (blocked at a device) is left behind.
fn end(child: &mut Child) -> io::Result<()> {
    let number = i32::try_from(child.id()).map_err(io::Error::other)?;
    let mut doomed: Vec<Process> = Process::read(number).into_iter().map(|(process, _)| process).collect();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // What the first signal makes an orphan is no descendant any more, so all are remembered.
        add_descendants(&mut doomed);
        doomed.iter().for_each(|process| process.signal(signal));
        let start = Instant::now();
        while start.elapsed() < GRACE {
            child.try_wait()?;
            if !doomed.iter().any(Process::runs) {
                return Ok(());
            }
            sleep(POLL_INTERVAL);
        }
    }
    Ok(())
}

/// A process, not to be taken for another that gets its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    number: i32,
    started_ticks: u64,
}

impl Process {
    /// With the number of its parent; `None` for what has ended, zombies included.
    fn read(number: i32) -> Option<(Self, i32)> {
        Self::parse(number, &fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
    }

    /// `stat` is /proc/PID/stat (proc_pid_stat(5)).
    fn parse(number: i32, stat: &str) -> Option<(Self, i32)> {
        // The program's name stands before this and may hold anything, parentheses too.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let started_ticks = fields.nth(17)?.parse().ok()?;
        (!ended).then_some((Self { number, started_ticks }, parent))
    }

    fn runs(&self) -> bool {
        Self::read(self.number).is_some_and(|(now, _)| now == *self)
    }

    fn signal(&self, signal: Signal) {
        if self.runs() {
            // It may end at this moment.
            let _ = kill(Pid::from_raw(self.number), signal);
        }
    }
}

/// Adds what these have started, and what that has started.
fn add_descendants(processes: &mut Vec<Process>) {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let running = entries.filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?));
    let (mut parents, mut others): (Vec<_>, Vec<_>) = running.partition(|(process, _)| processes.contains(process));
    while !parents.is_empty() {
        let is_child = |other: &mut (Process, i32)| parents.iter().any(|(parent, _)| parent.number == other.1);
        let children: Vec<_> = others.extract_if(.., is_child).collect();
        processes.extend(children.iter().map(|(process, _)| process));
        parents = children;
    }
}

/// Reads all and keeps the end.
fn read(mut output: impl Read + Send + 'static) -> Receiver<String> {
    let (done, text) = channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut chunk) {
            kept.extend_from_slice(&chunk[..length]);
            kept.drain(..kept.len().saturating_sub(MAX_OUTPUT_BYTES));
        }
        // Nobody may want it any more.
        let _ = done.send(String::from_utf8_lossy(&kept).into_owned());
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::getpgrp;
    use std::path::Path;

    fn shell(script: &str, directory: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(directory);
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
                let ended = run(&mut shell(&script, directory.path()), Duration::from_secs(timeout_s)).unwrap();
                assert!(ended.is_none(), "{script}: {ended:?}");
                read_number(&path)
            });
            assert_eq!(Process::read(child.unwrap()), None, "{script}");
        }
    }

    #[test]
    fn it_shares_our_process_group() {
        let directory = tempfile::tempdir().unwrap();
        let ended = run(&mut shell("cut -d' ' -f5 /proc/$$/stat", directory.path()), Duration::from_secs(60));
        assert_eq!(ended.unwrap().unwrap().stdout.trim(), getpgrp().to_string());
    }

    #[test]
    fn what_it_leaves_running_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let script = "sleep 1000 & echo $! > child; exit 3";
        let ended = run(&mut shell(script, directory.path()), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!((ended.status.code(), &*ended.stdout), (Some(3), ""));
        let (left, _) = Process::read(read_number(&directory.path().join("child")).unwrap()).unwrap();
        left.signal(Signal::SIGKILL);
    }

    #[test]
    fn only_the_end_of_a_flood_is_kept() {
        let script = "yes | head -c 1000000; echo end";
        let ended = run(&mut shell(script, Path::new("/")), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(ended.stdout.len(), MAX_OUTPUT_BYTES);
        assert!(ended.stdout.ends_with("y\nend\n"));
    }

    #[test]
    fn names_of_programs_confuse_nobody() {
        let rest = "5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 99 23";
        let process = |state: &str| Process::parse(7, &format!("7 (a) Z 5 (b) {state} 42 {rest}"));
        assert_eq!(process("S"), Some((Process { number: 7, started_ticks: 99 }, 42)));
        assert_eq!((process("Z"), Process::parse(7, "7 (a) S")), (None, None));
    }
}
