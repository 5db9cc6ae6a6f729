//! Waits that end when the work is cancelled, and tries that are repeated.

use super::error::ExtractError;
use kernel::clock::Clock;
use std::time::Duration;

const ATTEMPTS: u32 = 5;
/// Before the second try; twice as long before each further one. Up to half of it is added at random.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// How often a cancellation is looked for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A simulated clock has no finer one.
const SHORTEST: Duration = Duration::from_millis(1);

/// Sleeps, unless `stop` says so.
pub(super) fn pause(clock: &Clock, length: Duration, stop: &dyn Fn() -> bool) -> Result<(), ExtractError> {
    let end = clock.now() + length;
    while !stop() {
        let left = end.saturating_duration_since(clock.now());
        if left.is_zero() {
            return Ok(());
        }
        clock.sleep(left.clamp(SHORTEST, LOOK_EVERY));
    }
    Err(ExtractError::Cancelled)
}

/// Tries up to five times, as long as that may help.
pub(super) fn persist(
    clock: &Clock,
    stop: &dyn Fn() -> bool,
    work: &dyn Fn() -> Result<(), ExtractError>,
) -> Result<(), ExtractError> {
    let mut wait = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match work() {
            // The network's errors also come from what the cancellation broke.
            Err(_) if stop() => return Err(ExtractError::Cancelled),
            Err(error) if error.may_pass() => {
                let chosen = wait.mul_f64(1.0 + fastrand::f64() / 2.0);
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, pause = ?chosen, "cannot extract openshift-install; trying again");
                pause(clock, chosen, stop)?;
                wait *= 2;
            }
            result => return result,
        }
    }
    work().map_err(|error| if stop() { ExtractError::Cancelled } else { error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn failure() -> ExtractError {
        ExtractError::Command { command: "oc".into(), code: 1, stdout: String::new(), stderr: String::new() }
    }

    /// The simulated times of the tries.
    fn tries(
        clock: &Clock,
        stop: &dyn Fn() -> bool,
        work: impl Fn(usize) -> Result<(), ExtractError>,
    ) -> Vec<Duration> {
        let times = RefCell::new(Vec::new());
        let result = persist(clock, stop, &|| {
            times.borrow_mut().push(clock.slept());
            work(times.borrow().len())
        });
        let times = times.into_inner();
        assert_eq!(result.is_ok(), work(times.len()).is_ok());
        times
    }

    #[test]
    fn the_pauses_between_five_tries_double() {
        let times = tries(&Clock::simulated(), &|| false, |_| Err(failure()));
        let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses.len(), 4);
        for (pause, least) in pauses.iter().zip([5, 10, 20, 40]) {
            let least = Duration::from_secs(least);
            assert!(*pause >= least - Duration::from_millis(1) && *pause <= least.mul_f64(1.5), "{pauses:?}");
        }
        assert_eq!(tries(&Clock::simulated(), &|| false, |n| if n < 3 { Err(failure()) } else { Ok(()) }).len(), 3);
    }

    #[test]
    fn what_another_try_does_not_mend_is_tried_once() {
        let permanent = || Err(ExtractError::NoComponent { tag: "installer" });
        assert_eq!(tries(&Clock::simulated(), &|| false, |_| permanent()).len(), 1);
    }

    #[test]
    fn a_cancellation_ends_a_pause() {
        let clock = Clock::simulated();
        let stop = || clock.slept() > Duration::from_secs(2);
        let error = persist(&clock, &stop, &|| Err(failure())).unwrap_err();
        assert!(matches!(error, ExtractError::Cancelled), "{error}");
        assert!(clock.slept() < Duration::from_secs(3), "{:?}", clock.slept());
    }
}
