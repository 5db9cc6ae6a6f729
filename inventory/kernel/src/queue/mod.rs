//! Reads and writes of which several are in flight at once.

mod buffer;
mod ring;

pub use buffer::{ALIGN, Buffer};
pub use ring::Ring;

use nix::fcntl::{FallocateFlags, fallocate};
use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, sync::Arc};

/// One read or write, or as much of it as is left.
#[derive(Debug)]
pub struct Request {
    pub work: Work,
    /// Byte of the disk where it starts.
    pub offset: u64,
    /// Bytes of it that are done.
    pub done: usize,
    /// How often it came back through no fault of its own.
    pub tries: u32,
}

/// What a request is about. Memory starts on a page, and all is whole sectors.
#[derive(Debug)]
pub enum Work {
    /// Writes this part of a buffer.
    Write(Arc<Buffer>, Range<usize>),
    /// Fills what is in use of a buffer.
    Read(Buffer),
    /// Makes so many bytes read as zeros.
    Zero(usize),
}

impl Request {
    pub fn new(offset: u64, work: Work) -> Self {
        Self { work, offset, done: 0, tries: 0 }
    }

    /// Its whole length in bytes.
    pub fn len_bytes(&self) -> usize {
        match &self.work {
            Work::Write(_, range) => range.len(),
            Work::Read(buffer) => buffer.len(),
            Work::Zero(len) => *len,
        }
    }

    /// Bytes not done yet.
    pub fn remaining(&self) -> usize {
        self.len_bytes().saturating_sub(self.done)
    }

    /// Where on the disk the rest starts.
    pub fn position(&self) -> u64 {
        self.offset.saturating_add(u64::try_from(self.done).unwrap_or(u64::MAX))
    }

    /// The rest of what it writes.
    pub fn source(&self) -> &[u8] {
        match &self.work {
            Work::Write(data, range) => data.get(range.start.saturating_add(self.done)..range.end).unwrap_or_default(),
            Work::Read(_) | Work::Zero(_) => &[],
        }
    }

    /// The rest of what it reads into.
    pub fn destination(&mut self) -> &mut [u8] {
        match &mut self.work {
            Work::Read(buffer) => buffer.get_mut(self.done..).unwrap_or_default(),
            Work::Write(..) | Work::Zero(_) => &mut [],
        }
    }

    /// Does some of the rest, and waits for it. Returns how many bytes.
    pub fn run(&mut self, file: &File) -> io::Result<usize> {
        let position = self.position();
        match &self.work {
            Work::Write(..) => file.write_at(self.source(), position),
            Work::Read(_) => file.read_at(self.destination(), position),
            Work::Zero(_) => {
                let (from, len) = (position.try_into(), self.remaining().try_into());
                let (from, len) = (from.map_err(io::Error::other)?, len.map_err(io::Error::other)?);
                fallocate(file, zero_range(), from, len)?;
                Ok(self.remaining())
            }
        }
    }
}

/// The mode of fallocate(2) that makes zeros and lets a file keep its size.
///
/// On a block device it is `blkdev_issue_zeroout` with `BLKDEV_ZERO_NOUNMAP` (block/fops.c, `blkdev_fallocate`): the disk's
/// own command that guarantees zeros, without unmapping, else, or when that fails, pages of zeros written by the kernel.
/// When it returns the range reads as zeros, and a flush makes that last. A discard guarantees nothing and is not used.
fn zero_range() -> FallocateFlags {
    FallocateFlags::FALLOC_FL_ZERO_RANGE | FallocateFlags::FALLOC_FL_KEEP_SIZE
}

/// A request that came back.
#[derive(Debug)]
pub struct Answer {
    pub request: Request,
    /// Bytes done this time.
    pub result: io::Result<usize>,
}
