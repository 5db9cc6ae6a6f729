//! Waiting for events.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Catches what hangs, and nothing else: no machine is so slow or so busy that it takes this long.
pub const LIMIT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(10);

/// Looks until something is there. None where it does not come.
pub fn found<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        // What comes while nothing looks is still found.
        let is_late = begun.elapsed() > LIMIT;
        if let Some(there) = look() {
            return Some(there);
        }
        if is_late {
            return None;
        }
        thread::sleep(LOOK);
    }
}

/// Looks until something is so.
///
/// # Panics
/// Where it never is, with `what` was waited for.
#[track_caller]
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes(is_so), "never came: {what}");
}

/// Looks until something is so; whether it ever was.
#[must_use]
pub fn comes(mut is_so: impl FnMut() -> bool) -> bool {
    found(|| is_so().then_some(())).is_some()
}
