//! Why a wipe ends early.

use super::Level;
use crate::{disk::DiskError, partitions::PartitionError, probe::Span, release::ReleaseError};
use kernel::units::beside;
use std::{io, path::PathBuf};

/// Why a disk was not wiped, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum WipeError {
    /// No disk, or not free. Nothing was written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// What lies on it stays. Nothing was written.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The kernel keeps a partition. Nothing was written.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The disk can't do what was asked for. Nothing was written.
    #[error("{} does not support level '{level}', and a weaker one was not allowed: nothing was written", device.display())]
    Refused { device: PathBuf, level: Level, source: io::Error },
    #[error("cannot {what} {} bytes at byte {} of {}", span.len, span.offset, device.display())]
    Io { device: PathBuf, what: &'static str, span: Span, source: io::Error },
    /// Signatures that can't be overwritten; all others are gone.
    #[error("cannot erase {} of the signatures of {}, at bytes {}", spans.len(), device.display(), offsets(spans))]
    Unwritable {
        device: PathBuf,
        /// Where; not empty.
        spans: Vec<Span>,
        /// Cause of the first.
        source: io::Error,
    },
    /// The written data did not reach the medium.
    #[error("cannot flush {}", device.display())]
    Flush { device: PathBuf, source: io::Error },
    #[error("{} does not read as zeros at byte {offset} after it was zeroed: do not trust this disk", device.display())]
    NotZero {
        device: PathBuf,
        /// First byte that is not zero, in the piece that was read.
        offset: u64,
    },
    #[error("{} reported {how} as done, but the old contents are still at byte {offset}: do not trust this disk", device.display())]
    NotErased {
        device: PathBuf,
        how: String,
        /// Of the first unchanged sample.
        offset: u64,
    },
    #[error("{remaining} signatures are still on {} after {rounds} rounds of erasing: does it drop writes?", device.display())]
    StillThere {
        device: PathBuf,
        /// Places of magic numbers that are left.
        remaining: usize,
        /// How often it was tried.
        rounds: u32,
    },
    #[error("stopped after {} of the {} of {}; of the rest, only the partition table is gone", beside(*done_bytes, *total_bytes), beside(*total_bytes, *done_bytes), device.display())]
    Cancelled { device: PathBuf, done_bytes: u64, total_bytes: u64 },
}

fn offsets(spans: &[Span]) -> String {
    spans.iter().map(|span| span.offset.to_string()).collect::<Vec<_>>().join(", ")
}
