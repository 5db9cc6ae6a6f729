//! Pools of memory that goes round between threads.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) use kernel::queue::{ALIGN, Buffer};

/// A piece of the unpacked image and where on the disk it goes. Pieces of several decoders come in any order.
#[derive(Debug)]
pub(crate) struct Block {
    /// Byte of the disk: a multiple of [`ALIGN`].
    pub offset: u64,
    /// A whole number of sectors, but for the image's last.
    pub data: Buffer,
}

/// Hands out a bounded number of things, and lets threads wait for one to come back when all are out.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    state: Mutex<Stock<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Stock<T> {
    free: Vec<T>,
    /// How many there may be, and are.
    limit: usize,
    made: usize,
    closed: bool,
}

impl<T> Pool<T> {
    /// A pool of `count`, each made when first needed.
    pub(crate) fn new(count: usize) -> Self {
        let stock = Stock { free: Vec::new(), limit: count, made: 0, closed: false };
        Self { state: Mutex::new(stock), changed: Condvar::new() }
    }

    /// One that came back or a new one; None once the pool is closed. Adds the time it took to `waited`.
    pub(crate) fn take(&self, make: impl FnOnce() -> T, waited: &Waited) -> Option<T> {
        let mut stock = lock(&self.state);
        loop {
            if stock.closed {
                return None;
            }
            if let Some(thing) = stock.free.pop() {
                return Some(thing);
            }
            if stock.made < stock.limit {
                stock.made += 1;
                drop(stock);
                return Some(make());
            }
            stock = waited.during(|| self.changed.wait_timeout(stock, SLICE).unwrap_or_else(PoisonError::into_inner).0);
        }
    }

    /// Takes one back; frees it if there are too many.
    pub(crate) fn give(&self, thing: T) {
        let mut stock = lock(&self.state);
        if stock.closed || stock.made > stock.limit {
            stock.made = stock.made.saturating_sub(1);
            return;
        }
        stock.free.push(thing);
        self.changed.notify_one();
    }

    /// Changes how many there may be; surplus ones are freed when they come back.
    pub(crate) fn resize(&self, limit: usize) {
        let mut stock = lock(&self.state);
        stock.limit = limit;
        while stock.made > limit && stock.free.pop().is_some() {
            stock.made -= 1;
        }
        self.changed.notify_all();
    }

    /// Frees what is in the pool, and ends every wait.
    pub(crate) fn close(&self) {
        let mut stock = lock(&self.state);
        stock.closed = true;
        stock.free = Vec::new();
        self.changed.notify_all();
    }
}

/// A thread that died with the lock left nothing half changed: all changes are single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits are counted in slices, so that one that lasts is seen before it ends.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// How long the threads of one stage have waited for another stage.
#[derive(Debug, Default)]
pub(crate) struct Waited(AtomicU64);

impl Waited {
    /// Counts the time `wait` takes.
    pub(crate) fn during<R>(&self, wait: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = wait();
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
        result
    }

    /// All waits so far, of all threads.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_is_bounded() {
        let (pool, waited) = (Pool::new(2), Waited::default());
        assert_eq!((pool.take(|| 1, &waited), pool.take(|| 2, &waited)), (Some(1), Some(2)));
        pool.give(1);
        assert_eq!(pool.take(|| 3, &waited), Some(1));
        pool.resize(3);
        assert_eq!(pool.take(|| 3, &waited), Some(3));
        pool.resize(2);
        pool.give(1);
        assert_eq!(waited.total(), Duration::ZERO);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.take(|| 4, &waited));
            // A wait counts before it ends.
            while waited.total() < Duration::from_millis(50) {
                std::thread::yield_now();
            }
            pool.close();
            assert_eq!(waiting.join().unwrap(), None);
        });
    }
}
