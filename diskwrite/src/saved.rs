//! Partitions that outlive an installation: found by filters, alone in the disk's table while the image is written, and
//! merged into the image's table at the end.

use crate::buffer::Buffer;
use crate::disk::Geometry;
use crate::ends::{End, Ends, HEAD_BYTES, zeros};
use crate::filter::{FilterError, Filters};
use crate::gpt::{
    BOOT_CODE_BYTES, Entry, FindError, LayoutError, Partition, SECTOR_SIZES, Table, TableError, Which, find, has_mbr,
    image_sector_bytes, image_table, put_protective, reads,
};
use serde::{Deserialize, Serialize};
use std::{fmt, fs::File, io, os::unix::fs::FileExt, path::PathBuf};
use uuid::Uuid;

/// Why partitions can't be kept. Raised before the first write, but for a collision that only the image's end shows.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The disk's table can't be read.
    #[error("cannot read the partition table of the partitions to keep")]
    Read(#[from] FindError),
    /// Numbers could mean partitions of the MBR.
    #[error("saving partitions from an MBR disk is not yet supported")]
    Mbr,
    /// A table copied from another disk.
    #[error("GPT sector size {found} doesn't match expected {expected}")]
    SectorSize {
        /// Of the table, in bytes.
        found: u32,
        /// Of the disk, in bytes.
        expected: u32,
    },
    /// The partitions can't stand in one table.
    #[error("failed dry run restoring saved partitions; input partition table may be invalid")]
    DryRun(#[source] LayoutError),
    /// The image would overwrite one.
    #[error("collision with partition {number} (\"{name}\") at offset {offset}")]
    Collision { number: u32, name: String, offset: u64 },
    #[error("the image has no GPT, so the saved partitions can't be merged into it")]
    NoTable,
    /// The image's table is damaged.
    #[error("the image's partition table is unusable")]
    ImageTable(#[source] TableError),
    /// The image's partitions and the saved ones can't stand in one table.
    #[error("cannot merge the saved partitions into the image's partition table")]
    Merge(#[source] LayoutError),
}

/// A retained partition and the number it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPartition {
    /// Its number in the old table.
    pub number: u32,
    /// Its GPT name.
    pub name: String,
    /// Its number in the new table; None until the image's table is known.
    pub new_number: Option<u32>,
    /// Its first byte.
    pub offset: u64,
    /// Its size in bytes.
    pub len: u64,
}

impl fmt::Display for SavedPartition {
    /// As coreos-installer says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Saving partition {} (\"{}\")", self.number, self.name)?;
        self.new_number.map_or(Ok(()), |number| write!(f, " to new partition {number}"))
    }
}

/// What is retained of a disk.
#[derive(Debug)]
pub(crate) struct Saved {
    disk_bytes: u64,
    /// Nothing but the saved partitions, under their numbers; None if there are none.
    table: Option<Table>,
    partitions: Vec<Partition>,
    which: Which,
}

/// The table a finished disk gets, where it is not the image's own.
#[derive(Debug)]
pub(crate) struct NewTable {
    table: Table,
    disk_bytes: u64,
    /// All of the table.
    pub partitions: Vec<Partition>,
    /// Those kept.
    pub saved: Vec<SavedPartition>,
}

impl Saved {
    /// Reads the disk's table through `read` if there is any filter, and makes sure that what matches can be restored.
    pub(crate) fn find(
        read: &mut dyn FnMut(u64, usize) -> io::Result<Vec<u8>>,
        disk: &Geometry,
        filters: &Filters,
    ) -> Result<Self, SavedError> {
        let (disk_bytes, expected) = (disk.size_bytes, disk.sector_bytes);
        let none = Self { disk_bytes, table: None, partitions: Vec::new(), which: Which::Primary };
        if filters.is_empty() {
            return Ok(none);
        }
        let Some(found) = find(read, disk_bytes, expected)? else {
            for other in SECTOR_SIZES.into_iter().filter(|size| *size != expected) {
                if find(read, disk_bytes, other)?.is_some() {
                    return Err(SavedError::SectorSize { found: other, expected });
                }
            }
            let sector = usize::try_from(expected).unwrap_or(BOOT_CODE_BYTES);
            let mbr = read(0, sector).map_err(|source| FindError::Read { offset: 0, len: sector, source })?;
            return if filters.by_number() && has_mbr(&mbr) { Err(SavedError::Mbr) } else { Ok(none) };
        };
        let mut table = Table::new(disk_bytes, expected, new_guid()).map_err(SavedError::DryRun)?;
        for (number, entry) in found.table.entries().filter(|(number, entry)| filters.matches(*number, &entry.name())) {
            table.set(number, &entry).map_err(SavedError::DryRun)?;
        }
        table.check().map_err(SavedError::DryRun)?;
        let partitions =
            table.partitions().map_err(|primary| FindError::Damaged { backup: primary.clone(), primary })?;
        let table = Some(table).filter(|_| !partitions.is_empty());
        Ok(Self { table, partitions, which: found.which, ..none })
    }

    /// [`find`](Self::find) on an open disk.
    pub(crate) fn find_on(disk: &File, geometry: &Geometry, filters: &Filters) -> Result<Self, SavedError> {
        Self::find(&mut reads(disk), geometry, filters)
    }

    /// Which copy of the disk's table is good by now; that read at first, if none is or it is unknown.
    pub(crate) fn standing(&self, read: &mut dyn FnMut(u64, usize) -> io::Result<Vec<u8>>) -> Which {
        let found =
            self.table.as_ref().and_then(|table| find(read, self.disk_bytes, table.sector_bytes).ok().flatten());
        found.map_or(self.which, |found| found.which)
    }

    /// [`standing`](Self::standing) on an open disk.
    pub(crate) fn standing_on(&self, disk: &File) -> Which {
        self.standing(&mut reads(disk))
    }

    /// Where they are, under their old numbers.
    pub(crate) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The same for events, before the image is known.
    pub(crate) fn list(&self) -> Vec<SavedPartition> {
        self.partitions.iter().map(|partition| numbered(partition, None)).collect()
    }

    /// Refuses what would write up to `end`, a byte's offset, if a saved partition starts before that.
    pub(crate) fn check_reach(&self, end: u64) -> Result<(), SavedError> {
        match self.partitions.iter().min_by_key(|partition| partition.start) {
            Some(first) if end > first.start => {
                Err(SavedError::Collision { number: first.number, name: first.name.clone(), offset: first.start })
            }
            _ => Ok(()),
        }
    }

    /// The ends of the disk as long as the image is not complete: only the saved partitions are in its tables, and nothing
    /// is where there are none.
    pub(crate) fn ends(&self) -> Ends {
        self.ends_over(self.which)
    }

    /// The same for a disk whose table stands at `good` and may be damaged elsewhere: that copy stays until another is on the
    /// medium.
    pub(crate) fn ends_over(&self, good: Which) -> Ends {
        let mut ends = Ends::cleared(self.disk_bytes);
        let Some(table) = &self.table else { return ends };
        put_table(&mut ends.head, table, self.disk_bytes);
        let saved_end = self.partitions.iter().map(Partition::end).max().unwrap_or(0);
        let (backup_offset, backup) = table.backup();
        ends.tail_offset = ends.tail_offset.max(saved_end).min(backup_offset);
        ends.tail = tail(ends.tail_offset, backup_offset, &backup);
        // To an inner copy leads the primary's header, so that is not touched either.
        ends.first = Some(if good == Which::Backup { End::Head } else { End::Tail });
        ends
    }

    /// The table of the finished disk, from the image's first MiB; None if that is the image's own. It gets a new GUID if
    /// asked for.
    pub(crate) fn merge(&self, head: &[u8], new_disk_guid: bool) -> Result<Option<NewTable>, SavedError> {
        if self.table.is_none() && !new_disk_guid {
            return Ok(None);
        }
        let sector_bytes = match (image_sector_bytes(head), &self.table) {
            (Some(found), Some(table)) if found != table.sector_bytes => {
                return Err(SavedError::SectorSize { found, expected: table.sector_bytes });
            }
            (Some(found), _) => found,
            (None, Some(_)) => return Err(SavedError::NoTable),
            (None, None) => return Ok(None),
        };
        let mut table = image_table(head, sector_bytes).map_err(SavedError::ImageTable)?;
        table.resize(self.disk_bytes).map_err(SavedError::Merge)?;
        if new_disk_guid {
            table.disk_guid = new_guid();
        }
        let mut next = table.entries().map(|(number, _)| number.saturating_add(1)).max().unwrap_or(1);
        let mut saved = Vec::new();
        let entries = self.table.iter().flat_map(Table::entries).collect::<Vec<(u32, Entry)>>();
        for ((number, entry), partition) in entries.iter().zip(&self.partitions) {
            next = next.max(*number);
            table.set(next, entry).map_err(SavedError::Merge)?;
            saved.push(numbered(partition, Some(next)));
            next = next.saturating_add(1);
        }
        table.check().map_err(SavedError::Merge)?;
        let partitions = table.partitions().map_err(SavedError::ImageTable)?;
        Ok(Some(NewTable { table, disk_bytes: self.disk_bytes, partitions, saved }))
    }

    /// Writes the saved partitions' table to a sparse file of the disk's size in the directory for temporary files, for
    /// restoring it by hand.
    pub(crate) fn stash(&self) -> io::Result<PathBuf> {
        let (file, path) = tempfile::Builder::new().prefix("coreos-installer-partitions.").tempfile()?.keep()?;
        file.set_len(self.disk_bytes)?;
        if let Some(table) = &self.table {
            let head = BOOT_CODE_BYTES.max(usize::try_from(table.sector_bytes).unwrap_or(0)) + table.primary().len();
            let ends = self.ends();
            file.write_all_at(ends.head.get(..head).unwrap_or(&ends.head), 0)?;
            let (offset, backup) = table.backup();
            file.write_all_at(&backup, offset)?;
        }
        file.sync_all()?;
        Ok(path)
    }
}

impl NewTable {
    /// The ends of the finished disk: the image's first MiB with this table, and its backup.
    pub(crate) fn ends(&self, mut head: Buffer) -> Ends {
        put_table(&mut head, &self.table, self.disk_bytes);
        let (tail_offset, backup) = self.table.backup();
        Ends { head, tail_offset, tail: tail(tail_offset, tail_offset, &backup), first: None }
    }
}

fn numbered(partition: &Partition, new_number: Option<u32>) -> SavedPartition {
    let Partition { number, name, start, len } = partition.clone();
    SavedPartition { number, name, new_number, offset: start, len }
}

/// Puts protective MBR and primary table into the first MiB of a disk.
fn put_table(head: &mut [u8], table: &Table, disk_bytes: u64) {
    let sector = usize::try_from(table.sector_bytes).unwrap_or(HEAD_BYTES);
    put_protective(head, disk_bytes / u64::from(table.sector_bytes).max(1));
    for (byte, value) in head.iter_mut().skip(sector).zip(table.primary()) {
        *byte = value;
    }
}

/// The piece from `offset` to the end of the disk, zero but for `backup` at its own offset.
fn tail(offset: u64, backup_offset: u64, backup: &[u8]) -> Buffer {
    let before = usize::try_from(backup_offset.saturating_sub(offset)).unwrap_or(0);
    let mut tail = zeros(before.saturating_add(backup.len()));
    for (byte, value) in tail.iter_mut().skip(before).zip(backup) {
        *byte = *value;
    }
    tail
}

/// Random, as it stands in a header.
pub(crate) fn new_guid() -> [u8; 16] {
    Uuid::new_v4().to_bytes_le()
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
