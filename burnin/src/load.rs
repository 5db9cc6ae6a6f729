//! What every load does.

use crate::result::Part;
use kernel::{Cancel, clock::Clock};
use std::{
    error::Error,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// Why a load could not work.
pub(crate) type Trouble = Box<dyn Error + Send + Sync>;

/// One load on one part of the machine. Each has a thread, which makes steps until the burn-in is over.
pub(crate) trait Load: Send {
    /// Takes what it needs. Asks [`Run::is_over`] where that takes longer than a second.
    fn start(&mut self, run: &Run) -> Result<(), Trouble>;

    /// Works for a fraction of a second: a stop waits for the end of it.
    fn step(&mut self, run: &Run) -> Result<(), Trouble>;

    /// Gives back what must not stay taken, when it is over.
    fn end(&mut self) {}

    /// What it found so far.
    fn findings(&self) -> &Part;
}

/// What all loads share: whether it is over, and whether memory is short.
#[derive(Debug, Default)]
pub(crate) struct Run {
    stop: Cancel,
    over: AtomicBool,
    shortages: AtomicU32,
}

impl Run {
    /// Until `stop` is cancelled, or [`end`](Self::end).
    pub(crate) fn new(stop: Cancel) -> Self {
        Self { stop, ..Self::default() }
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.stop.is_cancelled()
    }

    /// Whether a signal ended it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits, at most until it is over because of a signal.
    pub(crate) fn sleep(&self, duration: Duration) {
        self.stop.sleep(duration);
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.stop.clock()
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock().now()
    }

    /// Asks loads to give memory back.
    pub(crate) fn report_shortage(&self) {
        self.shortages.fetch_add(1, Ordering::Relaxed);
    }

    /// How often memory was short so far.
    pub(crate) fn shortages(&self) -> u32 {
        self.shortages.load(Ordering::Relaxed)
    }
}
