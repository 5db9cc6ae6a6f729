//! A process that is started again when it crashes. Its supervisor is its parent, and does nothing else.
#![allow(unsafe_code)]

use crate::fork;
use nix::{
    errno::Errno,
    sys::{
        signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, kill, sigaction},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
};
use std::{
    io,
    time::{Duration, Instant},
};

/// Signals that are passed on.
const PASSED_ON: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];
/// Between a crash and the next start; twice as long after each crash that follows soon.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A process that lived this long did not crash at its start.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// Which process this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervised {
    /// The one that works, after this many crashes.
    Worker(u32),
    /// The supervisor of one that ended with this exit code, which is 128 and the signal's number where a signal ended it.
    Ended(i32),
}

/// Forks a worker, and another whenever one crashes. `crashed` gets what ended it, and how long the next one waits.
///
/// Files and sockets that are open are those of every worker. The process must have one thread.
pub fn supervise(mut crashed: impl FnMut(Signal, Duration)) -> io::Result<Supervised> {
    let mut signals: SigSet = PASSED_ON.into_iter().collect();
    signals.add(Signal::SIGCHLD);
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // Our parent may have ignored it, and then a child's end would not be noticed.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler of ours is involved.
    unsafe { sigaction(Signal::SIGCHLD, &default) }?;
    let mut pause = PAUSE;
    for crashes in 0.. {
        let started = Instant::now();
        let Some(worker) = fork::fork()? else {
            before.thread_set_mask()?;
            return Ok(Supervised::Worker(crashes));
        };
        let signal = loop {
            match next(&signals, None)? {
                Some(Signal::SIGCHLD) => match waitpid(worker, Some(WaitPidFlag::WNOHANG))? {
                    WaitStatus::Exited(_, code) => return Ok(Supervised::Ended(code)),
                    WaitStatus::Signaled(_, signal, _) => break signal,
                    _ => {}
                },
                // It may have ended meanwhile.
                Some(signal) => drop(kill(worker, signal)),
                None => {}
            }
        };
        if PASSED_ON.contains(&signal) {
            return Ok(Supervised::Ended(ended_by(signal)));
        }
        pause = if started.elapsed() < LONG_LIFE { pause.saturating_mul(2).min(LONGEST_PAUSE) } else { PAUSE };
        crashed(signal, pause);
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match next(&signals, Some(left))? {
                Some(signal) if PASSED_ON.contains(&signal) => return Ok(Supervised::Ended(ended_by(signal))),
                _ => {}
            }
        }
    }
    Err(io::ErrorKind::QuotaExceeded.into())
}

fn ended_by(signal: Signal) -> i32 {
    128 + signal as i32
}

/// The next of these signals, which are blocked; `None` if none comes in time.
fn next(signals: &SigSet, patience: Option<Duration>) -> io::Result<Option<Signal>> {
    // SAFETY: all zero is a valid timespec.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    let patience = patience.map(|patience| {
        // Seconds at most. The types differ between libraries.
        time.tv_sec = patience.as_secs().try_into().unwrap_or(1);
        time.tv_nsec = patience.subsec_nanos().into();
        &raw const time
    });
    let set: &libc::sigset_t = signals.as_ref();
    // SAFETY: the pointers are to locals that outlive the call, or null where that is allowed.
    let signal = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), patience.unwrap_or(std::ptr::null())) };
    match Errno::result(signal) {
        Ok(signal) => Ok(Some(Signal::try_from(signal)?)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
