//! How long a disk takes to flush small writes: what decides whether etcd can live on it.
//!
//! The measurement is fio's `--rw=write --ioengine=sync --size=22m -bs=2300 --fdatasync=1`, by two writers at once on the
//! same range (docs/compatibility.md#installation-disk-speed-check): buffered writes one after the other, each followed by fdatasync. What
//! the range held is read first and put back. A SIGKILL or a power cut in between leaves the measurement's noise there: nothing can help
//! that.

mod histogram;
mod saved;
mod writer;

pub use histogram::Histogram;
pub use writer::WriterSpeed;

use crate::disk::{Disk, DiskError};
use kernel::{Cancel, units::beside};
use saved::{Saved, Target};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Of the document's shape.
const SCHEMA_VERSION: u32 = 1;
/// How often progress is shown, and whether to stop is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// The contents are held in memory.
const MAX_SIZE_BYTES: u64 = 1 << 30;
const MAX_BLOCK_BYTES: u32 = 1 << 20;
const MAX_WRITERS: u32 = 16;

#[derive(Clone, Debug)]
pub struct SpeedOptions {
    /// A regular file, or a whole disk not in use; idle volumes and arrays on it do not count as use.
    pub path: PathBuf,
    /// Range written, from byte 0 on.
    pub size_bytes: u64,
    /// Bytes of one write.
    pub block_bytes: u32,
    /// Writers at once.
    pub writers: u32,
    /// Longest time to write; the contents are put back also after it.
    pub timeout: Duration,
    /// Whether the contents are saved and put back.
    pub restore: bool,
    /// Set to stop early.
    pub cancel: Cancel,
}

impl SpeedOptions {
    /// The service's measurement of `path`; its timeout is what the service gives when it says nothing else.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            size_bytes: 22 << 20,
            block_bytes: 2300,
            writers: 2,
            timeout: Duration::from_secs(480),
            restore: true,
            cancel: Cancel::default(),
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    /// Not something to measure. Nothing was written.
    #[error("{what} must be from {least} to {most}, not {given}")]
    Option { what: &'static str, least: u64, most: u64, given: u64 },
    /// No disk, or not free. Nothing was written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The range goes past the end. Nothing was written.
    #[error("{} has {}, too little to write {}: choose a smaller size", path.display(), beside(*size_bytes, *wanted_bytes), beside(*wanted_bytes, *size_bytes))]
    TooSmall { path: PathBuf, size_bytes: u64, wanted_bytes: u64 },
    /// The contents can't be read. Nothing was written.
    #[error("cannot save the contents of {}, nothing was written", path.display())]
    Save { path: PathBuf, source: io::Error },
    /// The cache can't be emptied or a file not be made long enough.
    #[error("cannot prepare {}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    /// No writer came to its end.
    // The service knows this text.
    #[error("Could not get I/O performance for path {}", path.display())]
    Write {
        path: PathBuf,
        /// Cause, of one of them.
        source: io::Error,
    },
    #[error("{} took longer than {} s for {written} of {writes} writes", path.display(), timeout.as_secs_f64())]
    Timeout {
        path: PathBuf,
        timeout: Duration,
        /// Done by all writers.
        written: u64,
        /// Wanted of all writers.
        writes: u64,
    },
    #[error("stopped before the end of the measurement of {}", path.display())]
    Cancelled { path: PathBuf },
    #[error("CANNOT PUT BACK the first {bytes} bytes of {}: {}", path.display(), rescued(saved_in.as_deref()))]
    Restore {
        path: PathBuf,
        /// How much is lost.
        bytes: usize,
        /// A file with the contents.
        saved_in: Option<PathBuf>,
        source: io::Error,
    },
}

fn rescued(file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("they are in {}, copy them back when the disk works again", file.display()),
        None => "they are lost".to_owned(),
    }
}

/// How far all writers together are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedProgress {
    /// Writes done.
    pub done: u64,
    /// Writes to do.
    pub total: u64,
}

/// What became of the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Put back, flushed and read back the same.
    Restored,
    /// Overwritten, as asked for.
    Overwritten,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSpeed {
    /// Of this document's shape.
    pub schema_version: u32,
    pub path: PathBuf,
    /// Range written.
    pub size_bytes: u64,
    /// Bytes of one write.
    pub block_bytes: u32,
    /// 99th percentile of the slowest writer, in milliseconds, truncated: what is reported to the service.
    pub io_sync_duration_ms: u64,
    /// The writers that came to their end.
    pub writers: Vec<WriterSpeed>,
    pub failed_writers: u32,
    /// All of it but saving and putting back.
    pub elapsed_ms: u64,
    /// What became of the contents.
    pub contents: Contents,
}

/// What will be written: pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writes {
    /// Of each writer.
    blocks: u64,
    /// Range touched, from 0.
    bytes: u64,
}

fn writes(options: &SpeedOptions) -> Result<Writes, SpeedError> {
    let within = |what, given, least, most| {
        if (least..=most).contains(&given) { Ok(given) } else { Err(SpeedError::Option { what, least, most, given }) }
    };
    let block = within("the block size", options.block_bytes.into(), 1, MAX_BLOCK_BYTES.into())?;
    let size = within("the size", options.size_bytes, block, MAX_SIZE_BYTES)?;
    within("the number of writers", options.writers.into(), 1, MAX_WRITERS.into())?;
    // As fio does it: what is left at the end for no whole block is left out.
    let blocks = size / block;
    Ok(Writes { blocks, bytes: blocks * block })
}

/// Measures. `progress` is called a few times a second.
pub fn measure(options: &SpeedOptions, progress: &mut dyn FnMut(SpeedProgress)) -> Result<DiskSpeed, SpeedError> {
    let writes = writes(options)?;
    let path = &options.path;
    let open_error = |source| DiskError::Open { path: path.clone(), source };
    let is_file = fs::metadata(path).map_err(open_error)?.is_file();
    if is_file {
        let file = File::options().read(true).write(true).open(path).map_err(open_error)?;
        return measure_on(options, writes, &Target { path, file: &file, is_disk: false }, progress);
    }
    // Claimed until the contents are back; locked too, so that udev does not look at what is there meanwhile.
    let disk = Disk::open_beside_idle(path)?;
    let size_bytes = disk.geometry().size_bytes;
    if size_bytes < writes.bytes {
        return Err(SpeedError::TooSmall { path: path.clone(), size_bytes, wanted_bytes: writes.bytes });
    }
    if let Err(error) = disk.file().try_lock() {
        tracing::debug!(%error, "another program has locked the disk; continuing without the lock");
    }
    measure_on(options, writes, &Target { path, file: disk.file(), is_disk: true }, progress)
}

fn measure_on(
    options: &SpeedOptions,
    writes: Writes,
    target: &Target<'_>,
    progress: &mut dyn FnMut(SpeedProgress),
) -> Result<DiskSpeed, SpeedError> {
    let saved = if options.restore { Some(Saved::read(target, writes.bytes)?) } else { None };
    let outcome = prepare(target, writes).and_then(|()| run(options, writes, target, progress));
    let contents = match saved {
        Some(saved) => saved.restore().map(|()| Contents::Restored)?,
        None => Contents::Overwritten,
    };
    outcome.map(|speed| DiskSpeed { contents, ..speed })
}

fn prepare(target: &Target<'_>, writes: Writes) -> Result<(), SpeedError> {
    let lay_out = || {
        let bytes = libc::off_t::try_from(writes.bytes).map_err(io::Error::other)?;
        if !target.is_disk && target.file.metadata()?.len() < writes.bytes {
            // fio does not measure how a file grows either.
            nix::fcntl::posix_fallocate(target.file.as_fd(), 0, bytes)?;
        }
        target.drop_cache()
    };
    lay_out().map_err(|source| SpeedError::Prepare { path: target.path.to_owned(), source })
}

fn run(
    options: &SpeedOptions,
    writes: Writes,
    target: &Target<'_>,
    progress: &mut dyn FnMut(SpeedProgress),
) -> Result<DiskSpeed, SpeedError> {
    let path = || options.path.clone();
    let total = writes.blocks * u64::from(options.writers);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let data = noise(options.block_bytes);
    let start = Instant::now();
    let mut timed_out = false;
    let results: Vec<io::Result<Option<WriterSpeed>>> = thread::scope(|scope| {
        // The scope waits for its threads also when `progress` panics.
        let _stop = StopAtEnd(&stop);
        let work = || writer::write(target.file, &data, writes.blocks, &stop, &done);
        let threads: Vec<_> = (0..options.writers).map(|_| scope.spawn(work)).collect();
        let mut next = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) {
            timed_out |= start.elapsed() >= options.timeout;
            if timed_out || options.cancel.is_cancelled() {
                stop.store(true, Ordering::Relaxed);
            }
            if next <= Instant::now() {
                progress(SpeedProgress { done: done.load(Ordering::Relaxed), total });
                next = Instant::now() + LOOK;
            }
            thread::sleep(LOOK / 10);
        }
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let written = done.load(Ordering::Relaxed);
    progress(SpeedProgress { done: written, total });
    if results.iter().any(|result| matches!(result, Ok(None))) {
        return Err(if timed_out {
            SpeedError::Timeout { path: path(), timeout: options.timeout, written, writes: total }
        } else {
            SpeedError::Cancelled { path: path() }
        });
    }
    let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (mut writers, mut failed_writers, mut failure) = (Vec::new(), 0, None);
    for result in results {
        match result {
            Ok(writer) => writers.extend(writer),
            Err(error) => {
                tracing::warn!(%error, "a writer failed");
                failed_writers += 1;
                failure = Some(error);
            }
        }
    }
    let Some(slowest_ns) = writers.iter().map(|writer| writer.p99_ns).max() else {
        let source = failure.unwrap_or_else(|| io::Error::other("no writer ran"));
        return Err(SpeedError::Write { path: path(), source });
    };
    Ok(DiskSpeed {
        schema_version: SCHEMA_VERSION,
        path: path(),
        size_bytes: options.size_bytes,
        block_bytes: options.block_bytes,
        io_sync_duration_ms: slowest_ns / 1_000_000,
        writers,
        failed_writers,
        elapsed_ms,
        contents: Contents::Overwritten,
    })
}

/// Stops the writers when the thread that waits for them ends.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Data that no disk can compress or treat as zeros.
fn noise(len: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::new();
    (0..len).map(|_| random.u8(..)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn small(path: &Path) -> SpeedOptions {
        SpeedOptions { size_bytes: 64 << 10, ..SpeedOptions::new(path) }
    }

    #[test]
    fn the_service_s_measurement_is_the_default() {
        let options = SpeedOptions::new("/dev/none");
        let writes = writes(&options).unwrap();
        // As counted by fio 3.33 for the same sizes.
        assert_eq!((writes.blocks, writes.bytes), (10_029, 23_066_700));
        assert_eq!(options.writers, 2);
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let with = |change: &dyn Fn(&mut SpeedOptions)| {
            let mut options = SpeedOptions::new("/dev/none");
            change(&mut options);
            writes(&options)
        };
        assert!(matches!(with(&|o| o.block_bytes = 0), Err(SpeedError::Option { what: "the block size", .. })));
        assert!(matches!(with(&|o| o.size_bytes = 2299), Err(SpeedError::Option { what: "the size", .. })));
        assert!(matches!(with(&|o| o.size_bytes = u64::MAX), Err(SpeedError::Option { .. })));
        assert!(matches!(with(&|o| o.writers = 0), Err(SpeedError::Option { .. })));
        assert!(with(&|o| o.size_bytes = 2300).is_ok());
    }

    #[test]
    fn a_file_is_measured_and_afterwards_what_it_was() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        // Shorter than the range: its length comes back too.
        file.write_all(&[7; 10_001]).unwrap();
        let mut calls = Vec::new();
        let speed = measure(&small(file.path()), &mut |progress| calls.push(progress)).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), [7; 10_001]);
        assert_eq!(speed.contents, Contents::Restored);
        assert_eq!(speed.writers.len(), 2);
        for writer in &speed.writers {
            assert_eq!((writer.writes, writer.bytes), (28, 28 * 2300));
            assert!(writer.p50_ns <= writer.p90_ns && writer.p99_ns <= writer.p999_ns);
        }
        assert_eq!(calls.last(), Some(&SpeedProgress { done: 56, total: 56 }));
    }

    #[test]
    fn nothing_is_put_back_when_asked_so() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let options = SpeedOptions { restore: false, ..small(file.path()) };
        assert_eq!(measure(&options, &mut |_| ()).unwrap().contents, Contents::Overwritten);
        let found = fs::read(file.path()).unwrap();
        assert_ne!(found[..28 * 2300], [7; 28 * 2300]);
        assert!(found[28 * 2300..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn an_early_end_also_puts_back() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let cancelled = SpeedOptions::new(file.path());
        cancelled.cancel.cancel();
        assert!(matches!(measure(&cancelled, &mut |_| ()), Err(SpeedError::Cancelled { .. })));
        let late = SpeedOptions { timeout: Duration::ZERO, ..SpeedOptions::new(file.path()) };
        assert!(matches!(measure(&late, &mut |_| ()), Err(SpeedError::Timeout { writes: 20_058, .. })));
        let panicked =
            std::panic::catch_unwind(|| measure(&SpeedOptions::new(file.path()), &mut |_| panic!("in a test")));
        assert!(panicked.is_err());
        assert_eq!(fs::read(file.path()).unwrap(), [7; 100_000]);
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| measure(&SpeedOptions::new(path), &mut |_| ()).unwrap_err().to_string();
        assert!(error(dir.path()).contains("directory"));
        assert!(error(Path::new("/dev/null")).contains("character device"));
        assert!(error(&dir.path().join("none")).contains("cannot open"));
    }
}
