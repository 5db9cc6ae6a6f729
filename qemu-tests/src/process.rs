//! A child process that ends, with all its own children, with its owner.

use crate::sys;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{
    io,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus},
    time::{Duration, Instant},
};

/// A running child. Dropping kills its process group and reaps it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
}

impl Process {
    /// Starts `command` in its own process group, so that a terminal's Ctrl-C reaches only us and we end it in order.
    pub fn spawn(command: Command) -> io::Result<Self> {
        let child = sys::spawn(command)?;
        let group = i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)?;
        Ok(Self { child, group })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its stdout, when piped and not yet taken.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its stderr, when piped and not yet taken.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// How it ended, or `None` while it runs.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it ends; `None` when it still runs after `limit`.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            let ended = self.ended()?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL to the group, then reaps; what a power cut is to a machine.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        // It may have ended since the check above: then nothing is left to kill.
        let _ = killpg(self.group, Signal::SIGKILL);
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(pid: i32) -> bool {
        // A zombie still answers kill(2); its stat line shows it.
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn dropping_ends_the_child_and_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let mut process = Process::spawn(command).unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(process.take_stdout().unwrap()), &mut line).unwrap();
        let grandchild: i32 = line.trim().parse().unwrap();
        assert!(alive(grandchild));
        drop(process);
        assert!(testkit::wait::comes(|| !alive(grandchild)), "process {grandchild} outlived its owner");
    }

    #[test]
    fn children_outlive_the_thread_that_started_them() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("1000");
            Process::spawn(command).unwrap()
        };
        let mut process = std::thread::spawn(start).join().unwrap();
        assert_eq!(process.wait(Duration::from_millis(300)).unwrap(), None);
        assert!(!process.kill().unwrap().success());
    }
}
