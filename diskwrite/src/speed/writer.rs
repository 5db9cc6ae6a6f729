//! One writer: blocks one after the other through the page cache, each followed by fdatasync, as fio's sync engine does it.

use super::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

/// What one writer measured; latencies are those of fdatasync alone, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterSpeed {
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile: what etcd's people ask for.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Writes, each with its fdatasync.
    pub writes: u64,
    pub bytes: u64,
    /// From first to last.
    pub elapsed_ms: u64,
}

/// Writes `blocks` of the size of `data` from byte 0 on. `Ok(None)` when `stop` was set before the end.
pub(crate) fn write(
    file: &File,
    data: &[u8],
    blocks: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> io::Result<Option<WriterSpeed>> {
    let mut latencies = Histogram::default();
    let len = u64::try_from(data.len()).map_err(io::Error::other)?;
    let start = Instant::now();
    for block in 0..blocks {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        file.write_all_at(data, block * len)?;
        let before = Instant::now();
        file.sync_data()?;
        latencies.add(u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX));
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Some(WriterSpeed {
        p50_ns: latencies.per_mille_ns(500),
        p90_ns: latencies.per_mille_ns(900),
        p99_ns: latencies.per_mille_ns(990),
        p999_ns: latencies.per_mille_ns(999),
        max_ns: latencies.max_ns(),
        writes: blocks,
        bytes: blocks * len,
        elapsed_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
}
