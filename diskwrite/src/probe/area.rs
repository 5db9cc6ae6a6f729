//! Bounded reads from a part of a disk.

use super::Span;
use std::{cell::RefCell, fs::File, io, os::unix::fs::FileExt};

/// Bytes that can be read at any place.
pub trait ReadAt {
    /// Reads into `buf` from `offset` on, less at the end; 0 behind it.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len)) else { return Ok(0) };
        to.copy_from_slice(from);
        Ok(len)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buf, offset)
    }
}

/// ZFS has two labels of 256 KiB at either end; most others lie within less.
const END_BYTES: u64 = 512 << 10;
/// Where a read fails, so much is given up.
const BLOCK_BYTES: u64 = 4096;
/// The most that is read at once from between the ends.
const MAX_READ_BYTES: u64 = 128 << 10;

/// A disk or one of its partitions: both its ends in memory, the rest read when asked for.
pub(super) struct Area<'a> {
    disk: &'a dyn ReadAt,
    /// On the disk.
    pub span: Span,
    pub sector_bytes: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
    unreadable: RefCell<Vec<Span>>,
}

impl<'a> Area<'a> {
    pub(super) fn new(disk: &'a dyn ReadAt, span: Span, sector_bytes: u32) -> Self {
        let empty = (Vec::new(), Vec::new());
        let mut area = Self {
            disk,
            span,
            sector_bytes: sector_bytes.into(),
            head: empty.0,
            tail: empty.1,
            unreadable: RefCell::default(),
        };
        area.head = area.read(0, END_BYTES.min(span.len));
        let tail_bytes = END_BYTES.min(span.len);
        area.tail = area.read(span.len.saturating_sub(tail_bytes), tail_bytes);
        area
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.span.len
    }

    /// The bytes at `offset` from the area's start. None if they are not all in the area; zeros for what can't be read.
    pub(super) fn get(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(len).filter(|end| *end <= self.span.len)?;
        let cut = |bytes: &[u8], from: u64| {
            let from = usize::try_from(offset.checked_sub(from)?).ok()?;
            Some(bytes.get(from..from.checked_add(usize::try_from(len).ok()?)?)?.to_vec())
        };
        if end <= END_BYTES {
            return cut(&self.head, 0);
        }
        let tail_start = self.span.len.saturating_sub(END_BYTES);
        if offset >= tail_start {
            return cut(&self.tail, tail_start);
        }
        (len <= MAX_READ_BYTES).then(|| self.read(offset, len))
    }

    /// Whether these bytes are at `offset`.
    pub(super) fn has(&self, offset: u64, magic: &[u8]) -> bool {
        u64::try_from(magic.len()).ok().and_then(|len| self.get(offset, len)).is_some_and(|found| found == magic)
    }

    /// Bytes of the area by their place on the disk.
    pub(super) fn on_disk(&self, offset: u64, len: u64) -> Span {
        Span { offset: self.span.offset.saturating_add(offset), len }
    }

    pub(super) fn into_unreadable(self) -> Vec<Span> {
        self.unreadable.into_inner()
    }

    /// Exactly so many bytes, which the caller has bounded; what can't be read is zero.
    fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let start = self.span.offset.saturating_add(offset);
        if self.fill(&mut bytes, start).is_ok() {
            return bytes;
        }
        let block = usize::try_from(BLOCK_BYTES).unwrap_or(4096);
        let mut at = start;
        for chunk in bytes.chunks_mut(block) {
            let len = u64::try_from(chunk.len()).unwrap_or(BLOCK_BYTES);
            if let Err(error) = self.fill(chunk, at) {
                tracing::debug!(offset = at, %error, "cannot read");
                chunk.fill(0);
                self.note_unreadable(Span { offset: at, len });
            }
            at = at.saturating_add(len);
        }
        bytes
    }

    fn note_unreadable(&self, span: Span) {
        let mut all = self.unreadable.borrow_mut();
        match all.last_mut() {
            Some(last) if last.end() == span.offset => last.len = last.len.saturating_add(span.len),
            _ => all.push(span),
        }
    }

    fn fill(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.disk.read_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    buf = buf.get_mut(count..).unwrap_or_default();
                    offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
