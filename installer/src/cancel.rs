//! Stopping an installation: SIGINT and SIGTERM set a flag that everything long looks at.

use api::{Client, ClientConfig, ClientError, RetryPolicy};
use nix::sys::signal::{SigSet, Signal};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How often a wait looks at the flag.
const LOOK: Duration = Duration::from_millis(50);

/// A flag shared by all who work on one installation, and how they pass the time.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    /// Milliseconds that have passed, where time is simulated.
    simulated: Option<Arc<AtomicU64>>,
}

impl Cancel {
    /// Where sleeping takes no time, for tests of what takes hours.
    pub fn in_simulated_time() -> Self {
        Self { flag: Arc::default(), simulated: Some(Arc::default()) }
    }

    /// The simulated time that has been slept by all.
    pub fn slept(&self) -> Duration {
        self.simulated.as_ref().map_or(Duration::ZERO, |ms| Duration::from_millis(ms.load(Ordering::Relaxed)))
    }

    /// Asks everyone to stop.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, for the image writer.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    /// A client of the service whose pauses end when this is cancelled.
    pub fn client(&self, config: &ClientConfig, retry: RetryPolicy) -> Result<Client, ClientError> {
        let clone = self.clone();
        let pause = move |duration| {
            clone.sleep(duration);
        };
        Ok(Client::new(config, retry)?.stopped_by(self.flag()).pausing_with(Arc::new(pause)))
    }

    /// Sleeps; returns early, with `true`, when cancelled.
    pub fn sleep(&self, duration: Duration) -> bool {
        if let Some(simulated) = &self.simulated {
            simulated.fetch_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            thread::yield_now();
            return self.is_cancelled();
        }
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
