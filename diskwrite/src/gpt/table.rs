//! A whole table in memory: its entries byte for byte, and where on a disk its two copies go.

use super::entry::{Entry, Partition};
use super::header::{ENTRY_BYTES, Header, TableError, checked};
use super::put;
use kernel::order;
use std::collections::BTreeMap;

/// Entries of a new table: the usual number.
const NEW_ENTRIES: u32 = 128;
const NEW_ENTRY_BYTES: u32 = 128;
/// MBR and header before the primary's entries.
const ENTRIES_LBA: u64 = 2;

/// Why partitions can't be in one table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No room for two tables.
    #[error("a disk of {disk_sectors} sectors is too small for a partition table")]
    DiskTooSmall {
        /// Size of the disk in its sectors.
        disk_sectors: u64,
    },
    /// The table ends before this number.
    #[error("partition number {number} exceeds the table's {entries} entries")]
    Number {
        number: u32,
        /// How many the table has.
        entries: u32,
    },
    /// No extent, or one into the table itself.
    #[error(
        "partition {number} (sectors {first_lba} to {last_lba}) exceeds the usable sectors {first_usable} to {last_usable}"
    )]
    Outside {
        number: u32,
        /// Its first sector.
        first_lba: u64,
        /// Its last sector.
        last_lba: u64,
        /// The first a partition may have.
        first_usable: u64,
        last_usable: u64,
    },
    #[error("partitions {first} and {second} overlap at sector {lba}")]
    Overlap {
        /// The one that starts first.
        first: u32,
        second: u32,
        /// First sector in both.
        lba: u64,
    },
    /// Two that nothing could tell apart.
    #[error("partitions {first} and {second} have the same GUID")]
    SameGuid { first: u32, second: u32 },
}

/// A table whose checksums were right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub sector_bytes: u32,
    pub disk_guid: [u8; 16],
    first_usable: u64,
    last_usable: u64,
    /// Where the backup's header is.
    last_lba: u64,
    entry_bytes: u32,
    /// All entries, used or not.
    array: Vec<u8>,
}

impl Table {
    /// The table of `header` with these entries.
    pub(super) fn read(header: &Header, array: &[u8], sector_bytes: u32) -> Result<Self, TableError> {
        header.entries_len()?;
        checked("entry array", header.entries_crc, crc32fast::hash(array))?;
        Ok(Self {
            sector_bytes,
            disk_guid: header.disk_guid,
            first_usable: header.first_usable,
            last_usable: header.last_usable,
            last_lba: header.own_lba.max(header.alternate_lba),
            entry_bytes: header.entry_bytes,
            array: array.to_vec(),
        })
    }

    /// An empty one for a disk.
    pub(crate) fn new(disk_bytes: u64, sector_bytes: u32, disk_guid: [u8; 16]) -> Result<Self, LayoutError> {
        let array = vec![0; ENTRY_BYTES * usize::try_from(NEW_ENTRIES).unwrap_or_default()];
        let (first_usable, last_usable, last_lba, entry_bytes) = (0, 0, 0, NEW_ENTRY_BYTES);
        let mut table = Self { sector_bytes, disk_guid, first_usable, last_usable, last_lba, entry_bytes, array };
        table.resize(disk_bytes)?;
        Ok(table)
    }

    /// Puts the backup at the end of a disk of this size, the entries right behind the primary's header, and lets
    /// partitions be anywhere between.
    pub(crate) fn resize(&mut self, disk_bytes: u64) -> Result<(), LayoutError> {
        let disk_sectors = disk_bytes / u64::from(self.sector_bytes).max(1);
        let array = self.array_sectors();
        let first = ENTRIES_LBA.saturating_add(array);
        // Its entries, then its header.
        let last = disk_sectors.checked_sub(array.saturating_add(2)).filter(|last| *last >= first);
        self.last_usable = last.ok_or(LayoutError::DiskTooSmall { disk_sectors })?;
        (self.first_usable, self.last_lba) = (first, disk_sectors.saturating_sub(1));
        Ok(())
    }

    /// The first sector that a partition may have, and the last.
    pub(crate) fn usable(&self) -> (u64, u64) {
        (self.first_usable, self.last_usable)
    }

    /// The sector after the last that a partition may have.
    pub(crate) fn usable_end(&self) -> u64 {
        self.last_usable.saturating_add(1)
    }

    fn array_sectors(&self) -> u64 {
        u64::try_from(self.array.len()).unwrap_or(u64::MAX).div_ceil(u64::from(self.sector_bytes).max(1))
    }

    fn entry_len(&self) -> usize {
        usize::try_from(self.entry_bytes).unwrap_or(ENTRY_BYTES).max(ENTRY_BYTES)
    }

    /// How many entries it has room for.
    pub(crate) fn entry_count(&self) -> u32 {
        u32::try_from(self.array.len() / self.entry_len()).unwrap_or(u32::MAX)
    }

    /// The used entries with their numbers, in order of those.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, Entry)> {
        (1u32..).zip(self.array.chunks_exact(self.entry_len()).map(Entry::read)).filter(|(_, entry)| entry.is_used())
    }

    pub(crate) fn partitions(&self) -> Result<Vec<Partition>, TableError> {
        self.entries().map(|(number, entry)| entry.partition(number, self.sector_bytes)).collect()
    }

    /// Puts `entry` in place of the one that has this number.
    pub(crate) fn set(&mut self, number: u32, entry: &Entry) -> Result<(), LayoutError> {
        let (len, entries) = (self.entry_len(), self.entry_count());
        let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let place = index.and_then(|index| self.array.chunks_exact_mut(len).nth(index));
        let place = place.ok_or(LayoutError::Number { number, entries })?;
        place.fill(0);
        put(place, 0, entry.bytes());
        Ok(())
    }

    /// The entry that has this number.
    pub(crate) fn entry(&self, number: u32) -> Option<Entry> {
        self.entries().find(|(used, _)| *used == number).map(|(_, entry)| entry)
    }

    /// Makes the entry that has this number unused.
    pub(crate) fn clear(&mut self, number: u32) -> Result<(), LayoutError> {
        self.set(number, &Entry::read(&[]))
    }

    /// Whether the partitions can be there all at once.
    pub(crate) fn check(&self) -> Result<(), LayoutError> {
        let mut guids = BTreeMap::new();
        let mut by_start = Vec::new();
        for (number, entry) in self.entries() {
            let (first_lba, last_lba) = (entry.first_lba(), entry.last_lba());
            let (first_usable, last_usable) = (self.first_usable, self.last_usable);
            if first_lba > last_lba || first_lba < first_usable || last_lba > last_usable {
                return Err(LayoutError::Outside { number, first_lba, last_lba, first_usable, last_usable });
            }
            if let Some(first) = guids.insert(entry.guid(), number) {
                return Err(LayoutError::SameGuid { first, second: number });
            }
            by_start.push((first_lba, last_lba, number));
        }
        order::sort(&mut by_start);
        for pair in by_start.windows(2) {
            if let [(_, last, first), (lba, _, second)] = pair
                && lba <= last
            {
                return Err(LayoutError::Overlap { first: *first, second: *second, lba: *lba });
            }
        }
        Ok(())
    }

    fn header(&self, own_lba: u64, alternate_lba: u64, entries_lba: u64) -> Header {
        Header {
            own_lba,
            alternate_lba,
            first_usable: self.first_usable,
            last_usable: self.last_usable,
            disk_guid: self.disk_guid,
            entries_lba,
            entry_count: self.entry_count(),
            entry_bytes: self.entry_bytes,
            entries_crc: crc32fast::hash(&self.array),
        }
    }

    fn sectors(&self, count: u64) -> usize {
        usize::try_from(count.saturating_mul(self.sector_bytes.into())).unwrap_or(usize::MAX)
    }

    /// The primary copy of a table that was [resized](Self::resize) to its disk: header and entries, from sector 1 on.
    pub(crate) fn primary(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.sectors(self.array_sectors().saturating_add(1))];
        put(&mut bytes, 0, &self.header(1, self.last_lba, ENTRIES_LBA).to_bytes());
        put(&mut bytes, self.sectors(1), &self.array);
        bytes
    }

    /// The backup of such a table, entries and header, up to the end of the disk, and its first byte there.
    pub(crate) fn backup(&self) -> (u64, Vec<u8>) {
        let entries_lba = self.last_lba.saturating_sub(self.array_sectors());
        let mut bytes = vec![0; self.sectors(self.array_sectors().saturating_add(1))];
        put(&mut bytes, 0, &self.array);
        let header = self.header(self.last_lba, 1, entries_lba).to_bytes();
        put(&mut bytes, self.sectors(self.array_sectors()), &header);
        (entries_lba.saturating_mul(self.sector_bytes.into()), bytes)
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
