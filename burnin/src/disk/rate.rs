//! Latency and throughput of a disk.

use crate::result::{Part, number};
use diskwrite::speed::Histogram;
use std::time::Duration;

/// Latency and throughput.
#[derive(Default)]
pub(super) struct Rate {
    latency: Histogram,
    bytes: u64,
    busy: Duration,
}

impl Rate {
    pub(super) fn add(&mut self, len: u64, took: Duration) {
        self.bytes = self.bytes.saturating_add(len);
        self.latency.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes note of the time in which that was transferred, and shows all of it.
    pub(super) fn show(&mut self, took: Duration, name: &str, part: &mut Part) {
        self.busy += took;
        let seconds = self.busy.as_secs_f64();
        part.set(&format!("{name}_bytes"), number(self.bytes));
        if seconds > 0.0 {
            part.set(&format!("{name}_bytes_per_second"), number(self.bytes) / seconds);
        }
        for (percentile, per_mille) in [("p50", 500), ("p99", 990), ("p999", 999)] {
            let microseconds = number(self.latency.per_mille_ns(per_mille)) / 1e3;
            part.set(&format!("{name}_{percentile}_microseconds"), microseconds);
        }
        part.set(&format!("{name}_slowest_microseconds"), number(self.latency.max_ns()) / 1e3);
    }
}
