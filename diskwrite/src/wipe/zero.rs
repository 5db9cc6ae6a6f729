//! Discards or zeroes the whole disk.

use super::{Level, Outcome, WipeError, WipeProgress, Work};
use crate::flight::{Failed, Flight};
use crate::request::{Request, Work as Asked};
use crate::{buffer::Buffer, device::Device, probe::Span};
use std::{io, os::unix::fs::FileExt};

/// Discarded at once: between two pieces it can be stopped.
const DISCARD_BYTES: u64 = 1 << 30;
/// Zeroed by one request; the few under way are waited for when it is stopped.
const ZERO_BYTES: u64 = 4 << 20;
/// Of either end of the disk, zeroed first: where partition tables are.
const TABLE_BYTES: u64 = 1 << 20;
/// Read back at once.
const READ_BYTES: u64 = 1 << 20;
/// Of how many pieces at the ends, and of every how many between them, one is read back.
const SAMPLE_EVERY: u64 = 64;
const ENDS: u64 = 4;

/// Tells the disk that it may forget everything (`BLKDISCARD`).
pub(super) fn discard(work: &Work<'_>, progress: &mut dyn FnMut(WipeProgress)) -> Result<Outcome, WipeError> {
    let total_bytes = work.geometry.size_bytes;
    work.pieces(DISCARD_BYTES, |span| {
        kernel::disk::discard(work.disk.file(), span.offset, span.len).map_err(|source| {
            let unable = matches!(source.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL));
            if unable && span.offset == 0 {
                WipeError::Refused { device: work.device(), level: Level::Discard, source }
            } else {
                work.io("discard", span)(source)
            }
        })?;
        progress(WipeProgress { level: Level::Discard, verifying: false, done_bytes: span.end(), total_bytes });
        Ok(())
    })?;
    work.flush()?;
    Ok(Outcome::Done { bytes: total_bytes, verified_bytes: 0, how: None })
}

/// Zeroes everything and reads back all of it, or samples.
pub(super) fn zero(
    work: &Work<'_>,
    verify_all: bool,
    progress: &mut dyn FnMut(WipeProgress),
) -> Result<Outcome, WipeError> {
    let total_bytes = work.geometry.size_bytes;
    let whole = Span { offset: 0, len: total_bytes };
    let device = Device::new(work.disk.file()).map_err(work.io("write directly to", whole))?;
    let mut flight = Flight::new(device);
    // Whatever comes then, no table leads to what is left.
    for offset in [0, total_bytes.saturating_sub(TABLE_BYTES)] {
        start(work, &mut flight, Span { offset, len: TABLE_BYTES.min(total_bytes) })?;
    }
    sync(work, &mut flight)?;
    let before = flight.written();
    work.pieces(ZERO_BYTES, |span| {
        start(work, &mut flight, span)?;
        let done_bytes = flight.written().saturating_sub(before);
        progress(WipeProgress { level: Level::Zero, verifying: false, done_bytes, total_bytes });
        Ok(())
    })?;
    sync(work, &mut flight)?;
    work.flush()?;
    // Direct I/O lasts as long as the flight does.
    let mut buffer = Buffer::new(usize::try_from(READ_BYTES).unwrap_or_default());
    let mut verified_bytes = 0;
    work.pieces(READ_BYTES, |span| {
        if verify_all || is_sample(span, total_bytes) {
            verified_bytes += span.len;
            check(work, span, &mut buffer)?;
        }
        progress(WipeProgress { level: Level::Zero, verifying: true, done_bytes: span.end(), total_bytes });
        Ok(())
    })?;
    drop(flight);
    Ok(Outcome::Done { bytes: total_bytes, verified_bytes, how: None })
}

fn start(work: &Work<'_>, flight: &mut Flight<Device<'_>>, span: Span) -> Result<(), WipeError> {
    let len = usize::try_from(span.len).map_err(io::Error::other).map_err(work.io("zero", span))?;
    let pushed = flight.push(Request::new(span.offset, Asked::Zero(len)));
    while flight.ended().is_some() {}
    pushed.map_err(|failed| not_zeroed(work, failed))
}

fn sync(work: &Work<'_>, flight: &mut Flight<Device<'_>>) -> Result<(), WipeError> {
    let synced = flight.sync().map_err(|source| WipeError::Flush { device: work.device(), source })?;
    while flight.ended().is_some() {}
    synced.map_err(|failed| not_zeroed(work, failed))
}

fn not_zeroed(work: &Work<'_>, failed: Failed) -> WipeError {
    work.io("zero", Span { offset: failed.offset, len: failed.len })(failed.source)
}

fn is_sample(span: Span, total_bytes: u64) -> bool {
    let index = span.offset / READ_BYTES;
    index < ENDS || index.is_multiple_of(SAMPLE_EVERY) || total_bytes - span.offset <= ENDS * READ_BYTES
}

fn check(work: &Work<'_>, span: Span, buffer: &mut Buffer) -> Result<(), WipeError> {
    buffer.set_len(usize::try_from(span.len).unwrap_or_default());
    work.disk.file().read_exact_at(buffer, span.offset).map_err(work.io("read back", span))?;
    let zeros = byte_scan::leading_zeros(buffer);
    if zeros == buffer.len() {
        return Ok(());
    }
    let at = u64::try_from(zeros).map_err(io::Error::other).map_err(work.io("read back", span))?;
    Err(WipeError::NotZero { device: work.device(), offset: span.offset + at })
}
