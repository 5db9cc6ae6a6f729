//! Stopping an installation: SIGINT and SIGTERM set a flag that everything long looks at.

use nix::sys::signal::{SigSet, Signal};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How often a wait looks at the flag.
const LOOK: Duration = Duration::from_millis(50);

/// A flag shared by all who work on one installation.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks everyone to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for the image writer.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Sleeps; returns early, with `true`, when cancelled.
    pub fn sleep(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        while !self.is_cancelled() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(LOOK));
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

    /// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT set the flag and do nothing else, however often they come: for work
    /// that must put things in order before it ends. Otherwise like [`on_signals`](Self::on_signals).
    pub fn on_signals_in_order(&self) -> io::Result<()> {
        self.on(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT], Again::Wait)
    }

    fn on(&self, which: &[Signal], again: Again) -> io::Result<()> {
        let signals: SigSet = which.iter().copied().collect();
        signals.thread_block()?;
        let cancel = self.clone();
        // Not joined: it waits for a signal that need not come, and ends with the process.
        thread::Builder::new().name("signals".into()).spawn(move || {
            while let Ok(signal) = signals.wait() {
                match (cancel.is_cancelled(), again) {
                    (true, Again::Leave) => {
                        tracing::warn!(%signal, "second signal, leaving at once");
                        std::process::exit(1);
                    }
                    (true, Again::Wait) => tracing::warn!(%signal, "already stopping; wait for it, please"),
                    (false, Again::Leave) => tracing::warn!(%signal, "stopping; the signal again leaves at once"),
                    (false, Again::Wait) => tracing::warn!(%signal, "stopping in good order"),
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
        assert!(cancel.flag().load(Ordering::Relaxed));
    }
}
