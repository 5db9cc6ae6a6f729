//! Puts an image on a disk so that at no moment a half-written one looks bootable.
//!
//! Head and tail of the disk, where partition tables live, are wiped and flushed first; then comes the image but its first
//! MiB and, of an image as large as the disk, but its backup table, which some firmware restores a missing primary from; the
//! caller adds those with [`Writer::finish`] when everything else is right, the sector that makes a table of them last.

use crate::buffer::{Block, Buffer};
use crate::ends::{End, Ends, HEAD_BYTES};
use crate::flight::{Failed, Flight, Kind, RUN_BYTES, bytes};
use crate::record::Record;
use crate::request::{Request, Target, Work};
use crate::zeros::runs;
use kernel::units::{beside, binary};
use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Zeroed at once: few requests for a large run, and where the kernel has to write the zeros no endless one.
const ZERO_RUN_BYTES: u64 = 64 << 20;

/// The entries of a backup table; its header follows in the last sector (UEFI 2.10 §5.3.2).
const BACKUP_ENTRIES_BYTES: u64 = 16_384;

/// A disk that has failed once often takes the next command.
const CLEAR_TRIES: u32 = 3;

/// The disk failed, or the image does not fit.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is no way to give the disk anything to do.
    #[error("cannot start writing to {}", device.display())]
    Start { device: PathBuf, source: io::Error },
    #[error("cannot write {len} bytes at byte {offset} of {}", device.display())]
    Write { device: PathBuf, offset: u64, len: u64, source: io::Error },
    #[error("cannot zero {len} bytes at byte {offset} of {}", device.display())]
    Zero { device: PathBuf, offset: u64, len: u64, source: io::Error },
    /// What was written did not reach the medium.
    #[error("cannot flush {} after {} of the image", device.display(), binary(*written_bytes))]
    Sync {
        device: PathBuf,
        /// Bytes of the image written.
        written_bytes: u64,
        source: io::Error,
    },
    /// What was written can't be read.
    #[error("cannot read {len} bytes back from byte {offset} of {}", device.display())]
    Read { device: PathBuf, offset: u64, len: u64, source: io::Error },
    /// The disk accepted what was written, but returns something else.
    #[error(
        "read back wrong: {len} bytes at byte {offset} of {} differ from what was written; the disk or its connection \
         is at fault, not the image: replace it",
        device.display()
    )]
    ReadBack {
        device: PathBuf,
        offset: u64,
        /// How much was compared at once; at least a byte of it differs.
        len: u64,
    },
    /// The image continues where the disk ends.
    #[error("the image is larger than {}: it has at least {}, the disk has {}", device.display(), beside(*image_bytes, *disk_bytes), beside(*disk_bytes, *image_bytes))]
    PastEnd {
        device: PathBuf,
        /// How much of the image is known.
        image_bytes: u64,
        /// Size of the disk.
        disk_bytes: u64,
    },
}

/// A failed request, with the disk's name.
pub(crate) fn describe(device: &Path, failed: Failed) -> WriteError {
    let (device, Failed { offset, len, kind, source }) = (device.to_owned(), failed);
    match kind {
        Kind::Write => WriteError::Write { device, offset, len, source },
        Kind::Zero => WriteError::Zero { device, offset, len, source },
        Kind::Read => WriteError::Read { device, offset, len, source },
    }
}

/// An image on its way to a disk. After an error nothing is under way any more.
pub(crate) struct Writer<T> {
    flight: Flight<T>,
    device: PathBuf,
    disk_bytes: u64,
    sector_bytes: usize,
    /// What [`Flight::written`] said when the image began.
    before: u64,
    /// Bytes written after the end of the image, to fill its last sector.
    padding: u64,
    /// From here to its end the disk has room for a backup table and nothing else.
    backup_from: u64,
    /// What the image has there, held back.
    backup: Buffer,
    /// Bytes held back so far.
    held: u64,
    /// Zeros of the image not asked for yet: more may follow.
    zeros: Range<u64>,
    /// Written blocks' memory.
    freed: Vec<Buffer>,
    record: Option<Record>,
}

impl<T: Target> Writer<T> {
    /// For a disk of `disk_bytes`, at least two heads, in sectors of `sector_bytes`.
    pub(crate) fn new(target: T, device: PathBuf, disk_bytes: u64, sector_bytes: u32) -> Self {
        let backup_bytes = BACKUP_ENTRIES_BYTES + u64::from(sector_bytes);
        Self {
            flight: Flight::new(target),
            device,
            disk_bytes,
            sector_bytes: usize::try_from(sector_bytes).unwrap_or(usize::MAX),
            before: 0,
            padding: 0,
            backup_from: disk_bytes.saturating_sub(backup_bytes),
            backup: Buffer::new(usize::try_from(backup_bytes).unwrap_or(0)),
            held: 0,
            zeros: 0..0,
            freed: Vec::new(),
            record: None,
        }
    }

    /// Keeps a record of all blocks written from now on.
    pub(crate) fn keep_record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// Puts `ends`, which lead to nothing of the image, on the medium, and waits until they are there. The tail stays where
    /// the head can't be written: were a table there, it would then lead to an image without its end. Of two tables one is on
    /// the medium before the other is touched, which stays if the first can't be written.
    pub(crate) fn begin(&mut self, ends: &Ends) -> Result<(), WriteError> {
        self.zeros = 0..0;
        let (head, tail) = ((&ends.head, 0), (&ends.tail, ends.tail_offset));
        let (first, second) = if ends.first == Some(End::Tail) { (tail, head) } else { (head, tail) };
        self.put(first.0, first.1)?;
        if ends.first.is_some() {
            self.sync()?;
        }
        let second = self.put(second.0, second.1);
        let sync = self.sync();
        self.before = self.flight.written();
        second.and(sync)
    }

    /// As [`begin`](Self::begin) after a failure; retries after one more failure.
    pub(crate) fn clear(&mut self, ends: &Ends) -> Result<(), WriteError> {
        let mut result = self.begin(ends);
        for _ in 1..CLEAR_TRIES {
            if result.is_err() {
                result = self.begin(ends);
            }
        }
        result
    }

    /// Takes a block of the image; all but the last are whole sectors, and the last is padded to one. Comes back when the
    /// writing has started.
    pub(crate) fn block(&mut self, block: Block, sector: usize) -> Result<(), WriteError> {
        let Block { offset, mut data } = block;
        let len = bytes(data.len());
        let end = offset.saturating_add(len);
        if end > self.disk_bytes {
            return Err(WriteError::PastEnd {
                device: self.device.clone(),
                image_bytes: end,
                disk_bytes: self.disk_bytes,
            });
        }
        data.pad(sector);
        self.padding = self.padding.saturating_add(bytes(data.len()).saturating_sub(len));
        let now = usize::try_from(self.backup_from.saturating_sub(offset)).unwrap_or(usize::MAX).min(data.len());
        self.hold_back(offset.saturating_add(bytes(now)), data.get(now..).unwrap_or_default());
        data.set_len(now);
        let data = Arc::new(data);
        for (zero, run) in runs(&data, RUN_BYTES) {
            let at = offset.saturating_add(bytes(run.start));
            if zero {
                self.zero(at, bytes(run.len()))?;
                continue;
            }
            if let (Some(record), Some(run)) = (&mut self.record, data.get(run.clone())) {
                record.data(at, run);
            }
            self.push(at, Work::Write(data.clone(), run))?;
        }
        self.free(data);
        Ok(())
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_idle()
    }

    /// Waits for something under way to end, if anything is.
    pub(crate) fn wait(&mut self) -> Result<(), WriteError> {
        let result = self.flight.wait();
        self.collect();
        result.map(drop).map_err(|failed| describe(&self.device, failed))
    }

    /// The memory of a block that is on the disk.
    pub(crate) fn freed(&mut self) -> Option<Buffer> {
        self.freed.pop()
    }

    fn push(&mut self, offset: u64, work: Work) -> Result<(), WriteError> {
        let result = self.flight.push(Request::new(offset, work));
        self.collect();
        result.map_err(|failed| describe(&self.device, failed))
    }

    fn collect(&mut self) {
        while let Some(request) = self.flight.ended() {
            if let Work::Write(data, _) = request.work {
                self.free(data);
            }
        }
    }

    /// Gives up one of the block's runs; the last one frees it.
    fn free(&mut self, data: Arc<Buffer>) {
        self.freed.extend(Arc::into_inner(data));
    }

    /// Zeros of the image: asked for when it is known where they end.
    fn zero(&mut self, offset: u64, len: u64) -> Result<(), WriteError> {
        if let Some(record) = &mut self.record {
            record.zeros(offset, len);
        }
        let known = self.zeros.end.saturating_sub(self.zeros.start);
        if self.zeros.end != offset || known.saturating_add(len) > ZERO_RUN_BYTES {
            self.zero_known()?;
            self.zeros = offset..offset;
        }
        self.zeros.end = offset.saturating_add(len);
        Ok(())
    }

    fn zero_known(&mut self) -> Result<(), WriteError> {
        let zeros = std::mem::replace(&mut self.zeros, 0..0);
        if zeros.is_empty() {
            return Ok(());
        }
        let len = usize::try_from(zeros.end - zeros.start).unwrap_or(usize::MAX);
        self.push(zeros.start, Work::Zero(len))
    }

    /// Writes one of the ends, its zero runs by the disk's own means, and waits for it.
    fn put(&mut self, data: &Buffer, offset: u64) -> Result<(), WriteError> {
        self.put_parts(data, offset, std::slice::from_ref(&(0..data.len())))
    }

    /// As [`put`](Self::put), of parts that are whole sectors.
    fn put_parts(&mut self, data: &Buffer, offset: u64, parts: &[Range<usize>]) -> Result<(), WriteError> {
        let copy = Arc::new(data.copy());
        for part in parts {
            for (zero, run) in runs(copy.get(part.clone()).unwrap_or_default(), RUN_BYTES) {
                let run = part.start.saturating_add(run.start)..part.start.saturating_add(run.end);
                let at = offset.saturating_add(bytes(run.start));
                let work = if zero { Work::Zero(run.len()) } else { Work::Write(copy.clone(), run) };
                self.push(at, work)?;
            }
        }
        drop(copy);
        let result = self.flight.settle();
        self.collect();
        // None of them came from the pool.
        self.freed.clear();
        result.map_err(|failed| describe(&self.device, failed))
    }

    /// Keeps what belongs to `offset`, after [`backup_from`](Self::backup_from), for later.
    fn hold_back(&mut self, offset: u64, data: &[u8]) {
        let from = usize::try_from(offset.saturating_sub(self.backup_from)).unwrap_or(usize::MAX);
        let to = from.saturating_add(data.len());
        // The end of the disk was checked: there is room.
        if let Some(room) = self.backup.whole().get_mut(from..to)
            && !data.is_empty()
        {
            room.copy_from_slice(data);
            self.backup.set_len(self.backup.len().max(to));
            self.held = self.held.saturating_add(bytes(data.len()));
        }
    }

    /// With its `head`, what of the image was held back, for [`Writer::finish`] of a later writer; and the record, if one
    /// was kept.
    pub(crate) fn into_ends(self, head: Buffer) -> (Ends, Option<Record>) {
        (Ends { head, tail_offset: self.backup_from, tail: self.backup, first: None }, self.record)
    }

    /// Bytes of the image on the disk or held back; the head counts from the start, as it is in memory.
    pub(crate) fn written(&self) -> u64 {
        let written = self.flight.written().saturating_sub(self.before).saturating_add(self.held);
        bytes(HEAD_BYTES).saturating_add(written).saturating_sub(self.padding)
    }

    /// Waits until everything is on the medium.
    pub(crate) fn sync(&mut self) -> Result<(), WriteError> {
        self.zero_known()?;
        let result = self.flight.sync();
        self.collect();
        let device = &self.device;
        match result {
            Ok(settled) => settled.map_err(|failed| describe(device, failed)),
            Err(source) => Err(WriteError::Sync { device: device.clone(), written_bytes: self.written(), source }),
        }
    }

    /// Adds what was held back once all else is on the medium, and waits until it is too.
    ///
    /// A disk stores a sector whole or not at all, and several in any order. So there is a flush between: what is part of no
    /// table; the tail, with the backup table; the primary table's entries; its header, one sector. Wherever the power goes,
    /// there is no table yet, or one that leads to all of the image. And a table that was at both ends before, of partitions
    /// to keep, is sound at one of them at any moment.
    pub(crate) fn finish(&mut self, ends: &Ends) -> Result<(), WriteError> {
        let parts = ends.head_parts(self.sector_bytes);
        self.sync()?;
        self.put_parts(&ends.head, 0, &parts.before_tail)?;
        self.sync()?;
        if !ends.tail.is_empty() {
            self.put(&ends.tail, ends.tail_offset)?;
            self.sync()?;
        }
        if !parts.entries.is_empty() {
            self.put_parts(&ends.head, 0, std::slice::from_ref(&parts.entries))?;
            self.sync()?;
        }
        self.put_parts(&ends.head, 0, std::slice::from_ref(&parts.last))?;
        self.sync()
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
