//! Waiting that can be ended: production never does, tests do.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A flag to wait on; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Ends all waiting, now and later.
    pub fn stop(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps; returns early, with `true`, when stopped.
    pub fn sleep(&self, duration: Duration) -> bool {
        let start = Instant::now();
        let mut stopped = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            let left = duration.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            stopped = self.0.1.wait_timeout(stopped, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// `duration`, give or take `percent` of it, so that hosts that started together do not ask together.
pub fn jittered(duration: Duration, percent: u32) -> Duration {
    let spread = duration * percent.min(100) / 100;
    let spread_ms = u64::try_from(spread.as_millis()).unwrap_or(u64::MAX / 2).min(u64::MAX / 2);
    (duration - spread) + Duration::from_millis(fastrand::u64(0..=spread_ms * 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_its_percentage() {
        for _ in 0..1000 {
            let time = jittered(Duration::from_secs(100), 20);
            assert!((Duration::from_secs(80)..=Duration::from_secs(120)).contains(&time), "{time:?}");
        }
        assert_eq!(jittered(Duration::ZERO, 50), Duration::ZERO);
    }

    #[test]
    fn stopping_ends_a_wait() {
        let stop = Stop::default();
        assert!(!stop.sleep(Duration::from_millis(1)));
        let other = stop.clone();
        let waiter = std::thread::spawn(move || other.sleep(Duration::from_secs(3600)));
        stop.stop();
        assert!(waiter.join().unwrap() && stop.is_stopped());
    }
}
