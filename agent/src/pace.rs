//! Pauses that differ a little.

use std::time::Duration;

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
}
