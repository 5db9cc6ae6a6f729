//! Work that can be stopped: a flag that everything long-running checks.

use crate::clock::Clock;
use nix::sys::signal::{SigSet, Signal};
use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A flag to stop work, shared by its clones, and the sleep that it ends.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    shared: Arc<Shared>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Shared {
    flag: AtomicBool,
    /// Held from the check of the flag to the wait.
    sleepers: Mutex<()>,
    woken: Condvar,
}

impl Cancel {
    /// Sleeping takes no time: for tests of what takes hours.
    pub fn in_simulated_time() -> Self {
        Self { clock: Clock::simulated(), ..Self::default() }
    }

    /// What [`sleep`](Self::sleep) goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The simulated time that all clones have slept.
    pub fn slept(&self) -> Duration {
        self.clock.slept()
    }

    /// Asks all work to stop, and ends all sleep.
    pub fn cancel(&self) {
        self.shared.flag.store(true, Ordering::Relaxed);
        drop(self.shared.sleepers.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.woken.notify_all();
    }

    pub fn is_cancelled(&self) -> bool {
        self.shared.flag.load(Ordering::Relaxed)
    }

    /// Sleeps; returns early, with `true`, when cancelled.
    pub fn sleep(&self, duration: Duration) -> bool {
        if self.clock.is_simulated() {
            self.clock.sleep(duration);
            return self.is_cancelled();
        }
        let start = Instant::now();
        let mut sleepers = self.shared.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_cancelled() {
            let left = duration.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            sleepers = self.shared.woken.wait_timeout(sleepers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// From now on the first SIGINT or SIGTERM sets the flag; the second ends the process at once, which is safe: a
    /// half-written disk can't boot, since its first MiB is written last.
    ///
    /// Must be called before other threads start: they inherit the blocked signals.
    pub fn on_signals(&self) -> io::Result<()> {
        self.on(&[Signal::SIGINT, Signal::SIGTERM], Again::Leave)
    }

    /// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT set the flag and do nothing else, however often they come: for
    /// work that must clean up before it ends. Otherwise like [`on_signals`](Self::on_signals).
    pub fn on_signals_in_order(&self) -> io::Result<()> {
        self.on(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT], Again::Wait)
    }

    fn on(&self, which: &[Signal], again: Again) -> io::Result<()> {
        let signals: SigSet = which.iter().copied().collect();
        signals.thread_block()?;
        let cancel = self.clone();
        // Not joined: it waits for a signal that may never come, and ends with the process.
        thread::Builder::new().name("signals".into()).spawn(move || {
            while let Ok(signal) = signals.wait() {
                match (cancel.is_cancelled(), again) {
                    (true, Again::Leave) => {
                        tracing::warn!(%signal, "second signal, exiting at once");
                        std::process::exit(1);
                    }
                    (true, Again::Wait) => tracing::warn!(%signal, "already stopping; please wait"),
                    (false, Again::Leave) => tracing::warn!(%signal, "stopping; a second signal exits at once"),
                    (false, Again::Wait) => tracing::warn!(%signal, "stopping cleanly"),
                }
                cancel.cancel();
            }
        })?;
        Ok(())
    }
}

/// What a second signal does.
#[derive(Clone, Copy)]
enum Again {
    Leave,
    Wait,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_by_itself_or_by_cancelling() {
        let cancel = Cancel::default();
        assert!(!cancel.sleep(Duration::from_millis(1)));
        let other = cancel.clone();
        let waiter = thread::spawn(move || other.sleep(Duration::from_secs(3600)));
        cancel.cancel();
        assert!(waiter.join().unwrap());
        assert!(cancel.is_cancelled() && cancel.sleep(Duration::MAX));
    }

    #[test]
    fn simulated_time_passes_at_once() {
        let cancel = Cancel::in_simulated_time();
        assert!(!cancel.clone().sleep(Duration::from_secs(3600)));
        assert_eq!(cancel.slept(), Duration::from_secs(3600));
    }
}
