//! Puts an image on a disk so that at no moment a half-written one looks bootable.
//!
//! Head and tail of the disk, where partition tables live, are wiped and flushed first; then comes the image but its first
//! MiB and, of an image as large as the disk, but its backup table, which some firmware restores a missing primary from; the
//! caller adds those with [`Writer::finish`] when everything else is right.

use crate::buffer::{Block, Buffer};
use crate::ends::Ends;
use crate::pump::HEAD_BYTES;
use std::{io, path::PathBuf};

/// Zero runs shorter than this are written like data; the image is looked at in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// The entries of a backup table; its header follows in the last sector (UEFI 2.10 §5.3.2).
const BACKUP_ENTRIES_BYTES: u64 = 16_384;

/// A disk that has failed once often takes the next command.
const CLEAR_TRIES: u32 = 3;

/// Something to write to at any offset: a disk, or a test's stand-in.
pub(crate) trait Target {
    /// Writes some of `data`, which starts on a page and is a whole number of sectors long, like `offset`.
    fn write_at(&mut self, data: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes this range read as zeros, by whatever way is certain to.
    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()>;
    /// Returns when all that was written is on the medium.
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk failed, or the image does not fit.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A write failed.
    #[error("cannot write {len} bytes at byte {offset} of {}", device.display())]
    Write {
        /// The disk.
        device: PathBuf,
        /// Where.
        offset: u64,
        /// How much.
        len: usize,
        /// Cause.
        source: io::Error,
    },
    /// Zeroing failed.
    #[error("cannot zero {len} bytes at byte {offset} of {}", device.display())]
    Zero {
        /// The disk.
        device: PathBuf,
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// Cause.
        source: io::Error,
    },
    /// What was written did not reach the medium.
    #[error("cannot flush {} after {written_bytes} bytes of the image", device.display())]
    Sync {
        /// The disk.
        device: PathBuf,
        /// Bytes of the image written.
        written_bytes: u64,
        /// Cause.
        source: io::Error,
    },
    /// The image goes on where the disk ends.
    #[error("the image is larger than {}: it has at least {image_bytes} bytes, the disk has {disk_bytes}", device.display())]
    PastEnd {
        /// The disk.
        device: PathBuf,
        /// How much of the image is known.
        image_bytes: u64,
        /// Size of the disk.
        disk_bytes: u64,
    },
}

/// An image on its way to a disk.
pub(crate) struct Writer<T> {
    target: T,
    device: PathBuf,
    disk_bytes: u64,
    /// Bytes of the image on the disk; the head counts from the start, as it is in memory.
    written: u64,
    /// From here to its end the disk has room for a backup table and nothing else.
    backup_from: u64,
    /// What the image has there, held back.
    backup: Buffer,
}

impl<T: Target> Writer<T> {
    /// For a disk of `disk_bytes`, at least two heads, in sectors of `sector_bytes`.
    pub fn new(target: T, device: PathBuf, disk_bytes: u64, sector_bytes: u32) -> Self {
        let backup_bytes = BACKUP_ENTRIES_BYTES + u64::from(sector_bytes);
        let backup = Buffer::new(usize::try_from(backup_bytes).unwrap_or(0));
        let backup_from = disk_bytes.saturating_sub(backup_bytes);
        Self { target, device, disk_bytes, written: head_bytes(), backup_from, backup }
    }

    /// Puts `ends`, which lead to nothing of the image, on the medium, and waits until they are there. The tail stays where
    /// the head can't be written: were a table there, it would then lead to an image without its end.
    pub fn begin(&mut self, ends: &Ends) -> Result<(), WriteError> {
        self.put(&ends.head, 0)?;
        let tail = self.put(&ends.tail, ends.tail_offset);
        let sync = self.sync();
        tail.and(sync)
    }

    /// As [`begin`](Self::begin) after a failure, and does not let one more failure be the last word.
    pub fn clear(&mut self, ends: &Ends) -> Result<(), WriteError> {
        let mut result = self.begin(ends);
        for _ in 1..CLEAR_TRIES {
            if result.is_err() {
                result = self.begin(ends);
            }
        }
        result
    }

    /// Writes a block of the image; all but the last are whole sectors, and the last is padded to one.
    pub fn block(&mut self, block: &mut Block, sector: usize) -> Result<(), WriteError> {
        let (offset, block) = (block.offset, &mut block.data);
        let len = u64::try_from(block.len()).unwrap_or(u64::MAX);
        let end = offset.saturating_add(len);
        if end > self.disk_bytes {
            return Err(WriteError::PastEnd {
                device: self.device.clone(),
                image_bytes: end,
                disk_bytes: self.disk_bytes,
            });
        }
        block.pad(sector);
        let now = usize::try_from(self.backup_from.saturating_sub(offset)).unwrap_or(usize::MAX).min(block.len());
        let (now, later) = block.split_at(now);
        self.hold_back(later);
        self.put(now, offset)?;
        self.written = self.written.saturating_add(len);
        Ok(())
    }

    /// Writes `data`, its zero runs by the disk's own means.
    fn put(&mut self, data: &[u8], mut offset: u64) -> Result<(), WriteError> {
        for (zero, run) in runs(data) {
            let len = u64::try_from(run.len()).unwrap_or(u64::MAX);
            if zero {
                self.zero(offset, len)?
            } else {
                self.write(run, offset)?
            }
            offset = offset.saturating_add(len);
        }
        Ok(())
    }

    fn hold_back(&mut self, data: &[u8]) {
        let held = self.backup.len();
        // The end of the disk was checked: there is room.
        if let Some(room) = self.backup.whole().get_mut(held..held + data.len()) {
            room.copy_from_slice(data);
            self.backup.set_len(held + data.len());
        }
    }

    /// With its `head`, what of the image was held back, for [`Writer::finish`] of a later writer.
    pub fn into_ends(self, head: Buffer) -> Ends {
        Ends { head, tail_offset: self.backup_from, tail: self.backup }
    }

    /// Bytes of the image on the disk; the head counts from the start, as it is in memory.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Waits until everything is on the medium.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        let written_bytes = self.written;
        let error = |source| WriteError::Sync { device: self.device.clone(), written_bytes, source };
        self.target.sync().map_err(error)
    }

    /// Adds what was held back once all else is on the medium, the head last, and waits until it is too.
    pub fn finish(&mut self, ends: &Ends) -> Result<(), WriteError> {
        self.sync()?;
        if !ends.tail.is_empty() {
            self.write(&ends.tail, ends.tail_offset)?;
            self.sync()?;
        }
        self.write(&ends.head, 0)?;
        self.sync()
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), WriteError> {
        let error = |source| WriteError::Zero { device: self.device.clone(), offset, len, source };
        self.target.zero(offset, len).map_err(error)
    }

    fn write(&mut self, data: &[u8], offset: u64) -> Result<(), WriteError> {
        let device = &self.device;
        let error = |offset, len, source| WriteError::Write { device: device.clone(), offset, len, source };
        let (mut rest, mut at) = (data, offset);
        while !rest.is_empty() {
            match self.target.write_at(rest, at) {
                Ok(0) => return Err(error(at, rest.len(), io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(error(at, rest.len(), source)),
            }
        }
        Ok(())
    }
}

fn head_bytes() -> u64 {
    u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX)
}

/// Splits a block into the longest runs of pieces that are all zero or not.
fn runs(block: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let zero = is_zero(rest.chunks(PIECE_BYTES).next()?);
        let len = rest.chunks(PIECE_BYTES).take_while(|piece| is_zero(piece) == zero).map(<[u8]>::len).sum();
        let (run, tail) = rest.split_at(len);
        rest = tail;
        Some((zero, run))
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
