//! The partition tables of an ISO that is also a disk image (isohybrid): the ISO's partition grows over what is added, and the second
//! GPT moves to the new end. Firmware and GRUB do not read past a partition's end. Where something is cut out, partitions behind it
//! move.
//!
//! Damaged tables and other partitions are left as they are.

use crate::Patch;
use kernel::bytes::{le32, le64};

/// The block size of all tables on ISOs.
const BLOCK_BYTES: u64 = 512;
/// The partition of the ISO itself starts before this block; later ones are inside the ISO.
const FIRST_BLOCKS: u64 = 65;
/// Padding and a second GPT may follow the ISO's partition.
const SLACK_BYTES: u64 = 1 << 20;
/// Larger or more entries are damage; xorriso writes 248 of 128 bytes.
const MAX_ENTRIES_BYTES: u64 = 512 * 128;

/// The tables of an image of `len` bytes.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Entries to extend.
    mbr: Vec<MbrEntry>,
    /// Other entries: offset of the number of their first block, that number, and how many blocks.
    parts: Vec<(u64, u64, u64)>,
    gpt: Option<Gpt>,
}

#[derive(Debug)]
struct MbrEntry {
    /// Offset of its count of blocks.
    offset: u64,
    first: u64,
    /// Whether it ends where the image does, not where the ISO does.
    is_whole: bool,
}

#[derive(Debug)]
struct Gpt {
    header: Vec<u8>,
    entries_offset: u64,
    entries: Vec<u8>,
    /// Offsets in `entries` of the last blocks to extend.
    last_blocks: Vec<usize>,
    /// Those of the numbers of other partitions' first blocks.
    parts: Vec<usize>,
}

impl Tables {
    /// Reads them with `read` (offset, length), which returns nothing past the end.
    pub(crate) fn read(len: u64, read: impl Fn(u64, u64) -> Option<Vec<u8>>) -> Self {
        let covers = |first: u64, end_block: u64| {
            let end = end_block.saturating_mul(BLOCK_BYTES);
            first < FIRST_BLOCKS && end.saturating_add(SLACK_BYTES) >= len && end <= len
        };
        let (mut mbr, mut parts) = (Vec::new(), Vec::new());
        if let Some(block) = read(0, BLOCK_BYTES).filter(|block| block.ends_with(&[0x55, 0xaa])) {
            for at in [446, 462, 478, 494] {
                let (Some(first), Some(count)) = (le32(&block, at + 8), le32(&block, at + 12)) else { continue };
                let (first, count) = (u64::from(first), u64::from(count));
                let offset = u64::try_from(at + 8).unwrap_or_default();
                if count > 0 && covers(first, first + count) {
                    let is_whole = (first + count) * BLOCK_BYTES == len;
                    mbr.push(MbrEntry { offset: offset + 4, first, is_whole });
                } else if count > 0 {
                    parts.push((offset, first, count));
                }
            }
        }
        Self { mbr, parts, gpt: Gpt::read(&read, covers) }
    }

    /// The changes of the partitions inside of the ISO when blocks are cut out; `moved` tells where a block is then. The tables must
    /// [grow](Self::grow) to their new length afterwards.
    pub(crate) fn shift(&mut self, moved: impl Fn(u64) -> u64) -> Vec<Patch> {
        let mut patches = Vec::new();
        for (offset, first, count) in &self.parts {
            let (start, end) = (moved(*first), moved(first + count));
            let numbers = [start, end.saturating_sub(start)].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            patches.push(Patch { offset: *offset, bytes: numbers.map(u32::to_le_bytes).concat() });
        }
        let Some(gpt) = &mut self.gpt else { return patches };
        for at in &gpt.parts {
            let numbers = (le64(&gpt.entries, *at), le64(&gpt.entries, at + 8));
            let (Some(first), Some(last)) = numbers else { continue };
            let end = moved(last.saturating_add(1)).saturating_sub(1);
            let bytes = [moved(first), end].map(u64::to_le_bytes).concat();
            put(&mut gpt.entries, *at, &bytes);
            let offset = gpt.entries_offset.saturating_add(u64::try_from(*at).unwrap_or_default());
            patches.push(Patch { offset, bytes });
        }
        patches
    }

    /// Length of the second GPT at the image's end.
    pub(crate) fn tail_bytes(&self) -> u64 {
        self.gpt.as_ref().map_or(0, |gpt| gpt.entries_bytes() + BLOCK_BYTES)
    }

    /// The changes when the ISO grows to `data_bytes` and the image to `len` bytes, always in the same places; and the image's last
    /// bytes.
    pub(crate) fn grow(&self, data_bytes: u64, len: u64) -> (Vec<Patch>, Vec<u8>) {
        let blocks = |bytes: u64| bytes / BLOCK_BYTES;
        let mut patches = Vec::new();
        for MbrEntry { offset, first, is_whole } in &self.mbr {
            let end = if *is_whole { len } else { data_bytes };
            let count = u32::try_from(blocks(end).saturating_sub(*first)).unwrap_or(u32::MAX);
            patches.push(Patch { offset: *offset, bytes: count.to_le_bytes().to_vec() });
        }
        let Some(gpt) = &self.gpt else { return (patches, Vec::new()) };
        let mut entries = gpt.entries.clone();
        let last = blocks(data_bytes).saturating_sub(1).to_le_bytes();
        for at in &gpt.last_blocks {
            put(&mut entries, *at, &last);
            let offset = gpt.entries_offset.saturating_add(u64::try_from(*at).unwrap_or_default());
            patches.push(Patch { offset, bytes: last.to_vec() });
        }
        let backup = blocks(len).saturating_sub(1);
        let backup_entries = backup.saturating_sub(blocks(gpt.entries_bytes()));
        let mut header = gpt.header.clone();
        put(&mut header, 32, &backup.to_le_bytes());
        put(&mut header, 48, &backup_entries.saturating_sub(1).to_le_bytes());
        put(&mut header, 88, &crc32fast::hash(&entries).to_le_bytes());
        let mut second = header.clone();
        seal(&mut header);
        patches.push(Patch { offset: BLOCK_BYTES, bytes: header });
        put(&mut second, 24, &backup.to_le_bytes());
        put(&mut second, 32, &1_u64.to_le_bytes());
        put(&mut second, 72, &backup_entries.to_le_bytes());
        seal(&mut second);
        let mut tail = entries;
        tail.resize(usize::try_from(gpt.entries_bytes()).unwrap_or_default(), 0);
        second.resize(512, 0);
        tail.extend_from_slice(&second);
        (patches, tail)
    }
}

impl Gpt {
    fn read(read: &impl Fn(u64, u64) -> Option<Vec<u8>>, covers: impl Fn(u64, u64) -> bool) -> Option<Self> {
        let mut header = read(BLOCK_BYTES, BLOCK_BYTES)?;
        let header_bytes = usize::try_from(le32(&header, 12)?).ok().filter(|len| (92..=512).contains(len))?;
        header.truncate(header_bytes);
        let mut sealed = header.clone();
        seal(&mut sealed);
        if !header.starts_with(b"EFI PART") || sealed != header {
            return None;
        }
        let size = u64::from(le32(&header, 84)?);
        let len = u64::from(le32(&header, 80)?).checked_mul(size)?;
        if size < 128 || len > MAX_ENTRIES_BYTES {
            return None;
        }
        let entries_offset = le64(&header, 72)?.checked_mul(BLOCK_BYTES)?;
        let entries = read(entries_offset, len)?;
        if crc32fast::hash(&entries) != le32(&header, 88)? {
            return None;
        }
        let size = usize::try_from(size).ok()?;
        let (mut last_blocks, mut parts) = (Vec::new(), Vec::new());
        for at in (0..entries.len()).step_by(size) {
            let is_used = entries.get(at..at + 16)?.iter().any(|byte| *byte != 0);
            if is_used && covers(le64(&entries, at + 32)?, le64(&entries, at + 40)?.saturating_add(1)) {
                last_blocks.push(at + 40);
            } else if is_used {
                parts.push(at + 32);
            }
        }
        Some(Self { header, entries_offset, entries, last_blocks, parts })
    }

    fn entries_bytes(&self) -> u64 {
        u64::try_from(self.entries.len()).unwrap_or_default().next_multiple_of(BLOCK_BYTES)
    }
}

/// Sets a header's checksum.
fn seal(header: &mut [u8]) {
    put(header, 16, &[0; 4]);
    let sum = crc32fast::hash(header);
    put(header, 16, &sum.to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 512;

    /// As `isohybrid --uefi` makes it: the ISO is a partition of its own, and padding and a second GPT are behind it.
    fn isohybrid() -> Vec<u8> {
        let mut image = vec![0; 4096 * BLOCK];
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
        image[446 + 12..446 + 16].copy_from_slice(&4096_u32.to_le_bytes());
        // One in the ISO.
        image[462 + 8..462 + 12].copy_from_slice(&200_u32.to_le_bytes());
        image[462 + 12..462 + 16].copy_from_slice(&3800_u32.to_le_bytes());
        let mut entries = vec![0; 128 * 128];
        for (at, first, last) in [(0, 0_u64, 4000_u64), (128, 200, 3999)] {
            entries[at] = 1;
            entries[at + 32..at + 40].copy_from_slice(&first.to_le_bytes());
            entries[at + 40..at + 48].copy_from_slice(&last.to_le_bytes());
        }
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        for (at, value) in [(12, 92_u32), (80, 128), (84, 128), (88, crc32fast::hash(&entries))] {
            header[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [(24, 1_u64), (32, 4095), (40, 34), (48, 4062), (72, 2)] {
            header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        seal(&mut header);
        image[BLOCK..BLOCK + 92].copy_from_slice(&header);
        image[2 * BLOCK..34 * BLOCK].copy_from_slice(&entries);
        image
    }

    fn tables(image: &[u8]) -> Tables {
        Tables::read(u64::try_from(image.len()).unwrap(), |offset, len| {
            let start = usize::try_from(offset).ok()?;
            image.get(start..start.checked_add(usize::try_from(len).ok()?)?).map(<[u8]>::to_vec)
        })
    }

    #[test]
    fn the_isos_own_partition_grows_and_the_second_table_moves() {
        let mut image = isohybrid();
        let before = tables(&image);
        assert_eq!(before.tail_bytes(), 33 * 512);
        let (patches, tail) = before.grow(6000 * 512, 6036 * 512);
        image.resize(6036 * BLOCK, 0);
        for patch in patches {
            let at = usize::try_from(patch.offset).unwrap();
            image[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
        }
        let end = image.len();
        image[end - tail.len()..].copy_from_slice(&tail);
        assert_eq!(le32(&image, 446 + 12), Some(6036));
        assert_eq!(le32(&image, 462 + 12), Some(3800), "not the one in the ISO");
        let number = |at: usize| le64(&image, at).unwrap();
        assert_eq!((number(1024 + 40), number(1024 + 128 + 40)), (5999, 3999));
        assert_eq!((number(512 + 32), number(512 + 48)), (6035, 6002));
        // The second is found where the first says, sealed, and names the first and the same entries.
        let second = end - BLOCK;
        assert_eq!((number(second + 24), number(second + 32), number(second + 72)), (6035, 1, 6003));
        assert_eq!(image[6003 * BLOCK..second], image[1024..34 * BLOCK]);
        let mut sealed = image[second..second + 92].to_vec();
        seal(&mut sealed);
        assert_eq!(sealed, image[second..second + 92]);
        assert!(tables(&image).gpt.is_some());
    }

    #[test]
    fn damaged_tables_are_left_alone() {
        for at in [512 + 50, 1024 + 3] {
            let mut image = isohybrid();
            image[at] ^= 1;
            assert_eq!(tables(&image).tail_bytes(), 0, "{at}");
        }
        let nothing = tables(&[0; 100]);
        assert_eq!(nothing.grow(100, 200), (Vec::new(), Vec::new()));
    }
}
