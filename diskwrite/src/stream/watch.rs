//! Knows how long a source has given nothing, while the thread that reads it is stuck in that read.

use std::{
    io::{self, Read},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

pub(super) struct Watch {
    epoch: Instant,
    /// When the present wait for the source began, in milliseconds after `epoch` and one; 0 while there is none.
    since: AtomicU64,
    offset: AtomicU64,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { epoch: Instant::now(), since: AtomicU64::new(0), offset: AtomicU64::new(0) }
    }

    /// Does what may wait for the source.
    pub(super) fn during<R>(&self, wait: impl FnOnce() -> R) -> R {
        let now = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since.store(now.saturating_add(1), Ordering::Relaxed);
        let result = wait();
        self.since.store(0, Ordering::Relaxed);
        result
    }

    /// Reads until `buf` is full or the source ends.
    pub(super) fn fill(&self, source: &mut dyn Read, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.during(|| source.read(rest)) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    self.offset.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// How long the present wait has lasted.
    pub(super) fn silent(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.epoch.elapsed().saturating_sub(Duration::from_millis(since)))
    }

    /// Bytes the source has given.
    pub(super) fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }
}
