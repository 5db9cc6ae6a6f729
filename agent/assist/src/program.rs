//! A started program, by whichever process started it.

use crate::{
    tree::{self, Process},
    wire::Start,
};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
};

/// Where a program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// In its own process group. Otherwise it is in ours, and gets SIGTERM when its parent is gone.
    pub own_group: bool,
    /// What it has as its root directory.
    pub root: Option<PathBuf>,
    /// With its own mount table, in which /boot of that root is writable.
    pub writable_boot: bool,
}

/// A program, running or ended.
#[derive(Debug)]
pub(crate) struct Running {
    child: std::process::Child,
    has_group: bool,
    doomed: Vec<Process>,
}

impl Running {
    pub(crate) fn start(start: Start, [stdout, stderr]: [OwnedFd; 2]) -> io::Result<Self> {
        let mut command = Command::new(start.program);
        command.args(start.arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        for (name, value) in start.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let Place { own_group, root, writable_boot } = start.place;
        if own_group {
            command.process_group(0);
        } else {
            kernel::fork::end_with_this_thread(&mut command, Signal::SIGTERM);
        }
        if let Some(root) = root {
            kernel::fork::run_in_root(&mut command, &root, writable_boot);
        }
        Ok(Self { child: command.spawn()?, has_group: own_group, doomed: Vec::new() })
    }

    fn pid(&self) -> io::Result<Pid> {
        i32::try_from(self.child.id()).map(Pid::from_raw).map_err(io::Error::other)
    }

    pub(crate) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Also what it has left behind gets the signal.
    pub(crate) fn signal_group(&mut self, signal: Signal) -> io::Result<()> {
        let result = if self.has_group {
            killpg(self.pid()?, signal)
        } else if self.status()?.is_none() {
            kill(self.pid()?, signal)
        } else {
            Ok(())
        };
        match result {
            // All have ended.
            Err(nix::Error::ESRCH) => Ok(()),
            result => result.map_err(io::Error::from),
        }
    }

    /// The program and its descendants. A signal's orphans are no longer descendants, so all are remembered.
    pub(crate) fn signal_tree(&mut self, signal: Signal) -> io::Result<()> {
        if self.doomed.is_empty() {
            self.doomed.extend(Process::read(self.pid()?.as_raw()).map(|(process, _)| process));
        }
        tree::add_descendants(&mut self.doomed);
        self.doomed.iter().for_each(|process| process.signal(signal));
        Ok(())
    }

    pub(crate) fn tree_runs(&mut self) -> io::Result<bool> {
        self.status()?;
        Ok(self.doomed.iter().any(Process::runs))
    }
}
