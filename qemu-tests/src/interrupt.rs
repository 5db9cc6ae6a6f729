//! Ctrl-C and SIGTERM as something to wait for, so that machines and files are cleaned up before the process ends.

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use std::{io, os::fd::AsFd, time::Duration};

/// The signals of this process. Made before any thread is started: threads inherit what is blocked.
#[derive(Debug)]
pub struct Interrupts(SignalFd);

impl Interrupts {
    /// From here on SIGINT, SIGTERM and SIGHUP no longer end the process by themselves. Children get them unblocked.
    pub fn take() -> io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Whether one came within `limit`.
    pub fn wait(&self, limit: Duration) -> bool {
        let timeout = PollTimeout::try_from(limit.as_millis()).unwrap_or(PollTimeout::MAX);
        // An error of poll counts as no signal; the caller asks again.
        let _ = poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout);
        matches!(self.0.read_signal(), Ok(Some(_)))
    }
}
