//! What stands at the two ends of a disk, where partition tables live, before and after an image is complete.

use crate::buffer::Buffer;
use crate::flight::bytes;
use std::ops::Range;

/// The start of an image that is held back, and the unit of alignment of all else.
pub(crate) const HEAD_BYTES: usize = 1 << 20;
/// The entries of a table (UEFI 2.10 §5.3.2): no image and no disk in the field has room for more.
const ENTRIES_BYTES: usize = 16_384;

/// See [`Ends::head_parts`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeadParts {
    /// What is part of no GPT: boot code and the gap after the table.
    pub before_tail: [Range<usize>; 2],
    /// The primary table's entries.
    pub entries: Range<usize>,
    /// The one sector without which there is no table.
    pub last: Range<usize>,
}

/// One end of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

/// The disk's first MiB and a piece at its end.
#[derive(Debug)]
pub(crate) struct Ends {
    /// From byte 0: [`HEAD_BYTES`].
    pub head: Buffer,
    /// First byte of the tail: a multiple of the sector size.
    pub tail_offset: u64,
    /// Up to the end of the disk; may be empty.
    pub tail: Buffer,
    /// Where both are tables: the one that is on the medium before the other is touched, since that other is the good copy
    /// of the table that is replaced.
    pub first: Option<End>,
}

/// A buffer of zeros, all in use.
pub(crate) fn zeros(len: usize) -> Buffer {
    let mut buffer = Buffer::new(len);
    buffer.set_len(len);
    buffer
}

impl Ends {
    /// Zeros at both: no table, primary or backup, for a disk of `disk_bytes`.
    pub(crate) fn cleared(disk_bytes: u64) -> Self {
        let tail_offset = disk_bytes.saturating_sub(bytes(HEAD_BYTES));
        Self { head: zeros(HEAD_BYTES), tail_offset, tail: zeros(HEAD_BYTES), first: None }
    }

    /// Parts of the head in the order in which they make the tail and the head a table; see [`Writer::finish`].
    ///
    /// [`Writer::finish`]: crate::write::Writer::finish
    pub(crate) fn head_parts(&self, sector: usize) -> HeadParts {
        let all = self.head.len();
        let sector = sector.min(all);
        let header = sector..sector.saturating_mul(2).min(all);
        if !self.head.get(header.clone()).is_some_and(|header| header.starts_with(b"EFI PART")) {
            return HeadParts { before_tail: [sector..all, 0..0], entries: 0..0, last: 0..sector };
        }
        let end = header.end.saturating_add(ENTRIES_BYTES).min(all);
        HeadParts { before_tail: [0..sector, end..all], entries: header.end..end, last: header }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_of_the_head_and_the_header_is_last() {
        for sector in [512, 4096] {
            let mut ends = Ends::cleared(8 << 20);
            let without = ends.head_parts(sector);
            assert_eq!(without.last, 0..sector, "the MBR, where there is no GPT");
            ends.head[sector..sector + 8].copy_from_slice(b"EFI PART");
            let with = ends.head_parts(sector);
            assert_eq!((with.last.clone(), with.entries.clone()), (sector..2 * sector, 2 * sector..2 * sector + 16384));
            for HeadParts { before_tail: [a, b], entries, last } in [without, with] {
                let mut parts = [a, b, entries, last];
                parts.sort_by_key(|part| (part.start, part.end));
                let covered = parts.iter().filter(|part| !part.is_empty()).fold(0, |at, part| {
                    assert_eq!(part.start, at);
                    part.end
                });
                assert_eq!(covered, HEAD_BYTES);
            }
        }
    }
}
