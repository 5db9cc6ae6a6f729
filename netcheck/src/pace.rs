//! Keeps a stream of packets under a rate.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Packets that may leave back to back: what the timer's resolution of a millisecond asks for, and little enough for any
/// switch's buffer.
const BURST: u32 = 32;

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Pace {
    per_packet: Duration,
    /// When the bucket is full again if nothing more is sent.
    full_at: Cell<Instant>,
}

impl Pace {
    pub(crate) fn new(packets_per_second: u32, now: Instant) -> Self {
        Self { per_packet: Duration::from_secs(1) / packets_per_second.max(1), full_at: Cell::new(now) }
    }

    /// Takes a token; how long to wait before the packet may go.
    fn take(&self, now: Instant) -> Duration {
        let full_at = self.full_at.get().max(now) + self.per_packet;
        self.full_at.set(full_at);
        let debt = full_at.saturating_duration_since(now);
        debt.saturating_sub(self.per_packet * BURST)
    }

    pub(crate) async fn wait(&self) {
        let delay = self.take(Instant::now());
        if !delay.is_zero() {
            sleep(delay).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_short_and_the_mean_rate_holds() {
        let start = Instant::now();
        let pace = Pace::new(1000, start);
        let mut now = start;
        for _ in 0..BURST {
            assert_eq!(pace.take(now), Duration::ZERO);
        }
        for _ in 0..1000 {
            now += pace.take(now);
        }
        assert_eq!(now - start, Duration::from_secs(1));
        now += Duration::from_secs(3600);
        let free = (0..1000).take_while(|_| pace.take(now).is_zero()).count();
        assert_eq!(free, 32, "an idle hour saves up no more than one burst");
    }
}
