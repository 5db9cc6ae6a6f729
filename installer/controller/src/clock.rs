//! Time, and the end of the work: what the tasks wait with.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// A clock for pauses and limits of tasks. Deadlines of single calls are not by it: they are real time.
#[derive(Clone, Debug)]
pub struct Clock {
    started: Instant,
    /// So many seconds pass in one.
    speed: u32,
}

impl Clock {
    pub fn real() -> Self {
        Self::fast(1)
    }

    /// For tests: hours pass in seconds. Call it inside a runtime.
    pub fn fast(speed: u32) -> Self {
        Self { started: Instant::now(), speed: speed.max(1) }
    }

    /// Since this clock was made.
    pub fn now(&self) -> Duration {
        self.started.elapsed() * self.speed
    }

    pub async fn sleep(&self, pause: Duration) {
        tokio::time::sleep(pause / self.speed).await;
    }
}

/// Why the work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The cluster has reached a state in which there is nothing more to do.
    Finished,
    /// This process is asked to end; another one takes over.
    Stopped,
}

/// Tells all tasks that the work ends. Clones are the same.
#[derive(Clone, Debug)]
pub struct End(Arc<watch::Sender<Option<Reason>>>);

impl Default for End {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl End {
    /// The first reason counts, unless the process is then asked to end: what is left after the end of the work is another run's, too.
    pub fn set(&self, reason: Reason) {
        self.0.send_if_modified(|now| {
            let counts = now.is_none() || (*now, reason) == (Some(Reason::Finished), Reason::Stopped);
            if counts {
                *now = Some(reason);
            }
            counts
        });
    }

    pub fn reason(&self) -> Option<Reason> {
        *self.0.borrow()
    }

    pub fn is_set(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns once the end has come.
    pub async fn wait(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns once the process is asked to end.
    pub async fn stopped(&self) {
        let _ = self.0.subscribe().wait_for(|reason| *reason == Some(Reason::Stopped)).await;
    }
}

/// Why a wait ended without what was waited for. The texts are part of what the service gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    #[error("context canceled")]
    Cancelled,
    #[error("context deadline exceeded")]
    Deadline,
    /// The service allows no more time for this stage.
    #[error("timed out")]
    StageTimedOut,
}

/// The result of one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Done,
    Again,
    /// It makes no sense any more.
    Over(Ended),
}

impl From<bool> for Look {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Again }
    }
}

/// Looks at once, then after each `interval` and once more when time is over, until a look is done or the work ends. At least one look is
/// taken: what is there already counts even at the end.
pub async fn until<F: Future<Output = Look>>(
    clock: &Clock,
    end: &End,
    interval: Duration,
    limit: Option<Duration>,
    mut look: impl FnMut() -> F,
) -> Result<(), Ended> {
    let started = clock.now();
    loop {
        match look().await {
            Look::Done => return Ok(()),
            Look::Over(why) => return Err(why),
            Look::Again => {}
        }
        let left = limit.map(|limit| limit.saturating_sub(clock.now().saturating_sub(started)));
        if end.is_set() {
            return Err(Ended::Cancelled);
        }
        if left == Some(Duration::ZERO) {
            return Err(Ended::Deadline);
        }
        tokio::select! {
            () = clock.sleep(left.map_or(interval, |left| left.min(interval))) => {}
            () = end.wait() => return Err(Ended::Cancelled),
        }
    }
}

/// What went wrong, for the end: shared by the tasks.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<FaultsInner>>);

#[derive(Debug, Default)]
struct FaultsInner {
    has_failed: bool,
    operators: std::collections::BTreeSet<String>,
}

impl Faults {
    /// The installation has failed.
    pub fn set_failed(&self) {
        self.with(|faults| faults.has_failed = true);
    }

    pub fn has_failed(&self) -> bool {
        self.with(|faults| faults.has_failed)
    }

    /// An operator did not come up, by its name in the service.
    pub fn add_operator(&self, name: &str) {
        self.with(|faults| {
            faults.operators.insert(name.to_owned());
        });
    }

    /// Operators that did not come up.
    pub fn operators(&self) -> Vec<String> {
        self.with(|faults| faults.operators.iter().cloned().collect())
    }

    fn with<T>(&self, act: impl FnOnce(&mut FaultsInner) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn a_wait_looks_first_and_once_more_at_the_end() {
        let (clock, end) = (Clock::fast(1000), End::default());
        let looks = Cell::new(0);
        let look = |done_at: u32| {
            looks.set(looks.get() + 1);
            let is_done = looks.get() >= done_at;
            async move { Look::from(is_done) }
        };
        assert_eq!(until(&clock, &end, Duration::from_secs(30), None, || look(3)).await, Ok(()));
        assert_eq!(looks.replace(0), 3);
        let limit = Some(Duration::from_secs(60));
        assert_eq!(until(&clock, &end, Duration::from_secs(30), limit, || look(99)).await, Err(Ended::Deadline));
        assert!((2..=3).contains(&looks.replace(0)), "at the start, perhaps after half a minute, and at the end");
        end.set(Reason::Finished);
        end.set(Reason::Stopped);
        end.set(Reason::Finished);
        assert_eq!(end.reason(), Some(Reason::Stopped));
        assert_eq!(until(&clock, &end, Duration::from_secs(30), None, || look(1)).await, Ok(()));
        assert_eq!(until(&clock, &end, Duration::from_secs(30), None, || look(9)).await, Err(Ended::Cancelled));
        assert_eq!(Ended::Deadline.to_string(), "context deadline exceeded");
    }
}
