//! The table of a disk: the primary, or where that is damaged the backup.

use super::header::{Header, TableError, signed};
use super::table::Table;
use std::{fs::File, io, os::unix::fs::FileExt};

/// Why a disk's table can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The disk failed where a copy should be, and there is no good one elsewhere.
    #[error("cannot read {len} bytes at byte {offset}")]
    Read { offset: u64, len: usize, source: io::Error },
    #[error("primary and backup partition table are both unusable: {primary}; {backup}")]
    Damaged {
        /// What is wrong with the primary.
        primary: TableError,
        /// What is wrong with the backup.
        backup: TableError,
    },
}

/// Which copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Primary,
    /// In the last sector.
    Backup,
    /// Where the disk ended before it grew. Only the primary's header leads there.
    Inner,
}

/// A table and where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub table: Table,
    pub which: Which,
}

/// The reads that [`find`] asks for, from an open disk.
pub(crate) fn reads(disk: &File) -> impl FnMut(u64, usize) -> io::Result<Vec<u8>> {
    |offset, len| {
        let mut data = vec![0; len];
        disk.read_exact_at(&mut data, offset).map(|()| data)
    }
}

/// Looks for the table of a disk of `disk_bytes` with sectors of `sector_bytes`; None where there never was one. `read` gives
/// as many bytes as asked for, from an offset on. A copy that can't be read is as good as damaged, if there is another.
pub(crate) fn find(
    read: &mut dyn FnMut(u64, usize) -> io::Result<Vec<u8>>,
    disk_bytes: u64,
    sector_bytes: u32,
) -> Result<Option<Found>, FindError> {
    let sector = u64::from(sector_bytes).max(1);
    let sector_len = usize::try_from(sector_bytes).unwrap_or(usize::MAX);
    let Some(last_lba) = (disk_bytes / sector).checked_sub(1).filter(|last| *last > 1) else { return Ok(None) };
    let mut read = |offset, len| read(offset, len).map_err(|source| FindError::Read { offset, len, source });
    let mut table_at = |lba: u64| -> Attempt {
        let block = match read(lba.saturating_mul(sector), sector_len) {
            Ok(block) => block,
            Err(error) => return Attempt { signed: false, alternate_lba: None, table: Err(Fault::Unread(error)) },
        };
        let signed = signed(&block);
        let header = match Header::parse(&block, lba) {
            Ok(header) => header,
            Err(error) => return Attempt { signed, alternate_lba: None, table: Err(Fault::Unusable(error)) },
        };
        let table = match entries(&header, sector_bytes, disk_bytes) {
            Ok((offset, len)) => match read(offset, len) {
                Ok(array) => Table::read(&header, &array, sector_bytes).map_err(Fault::Unusable),
                Err(error) => Err(Fault::Unread(error)),
            },
            Err(error) => Err(Fault::Unusable(error)),
        };
        Attempt { signed, alternate_lba: Some(header.alternate_lba), table }
    };
    let first = table_at(1);
    let primary = match first.table {
        Ok(table) => return Ok(Some(Found { table, which: Which::Primary })),
        Err(fault) => fault,
    };
    let inner = first.alternate_lba.filter(|lba| (2..last_lba).contains(lba));
    let mut any = first.signed;
    let mut backup = None;
    for (lba, which) in [(Some(last_lba), Which::Backup), (inner, Which::Inner)] {
        let Some(lba) = lba else { continue };
        let attempt = table_at(lba);
        any |= attempt.signed;
        match attempt.table {
            Ok(table) => return Ok(Some(Found { table, which })),
            Err(fault) => _ = backup.get_or_insert(fault),
        }
    }
    match (primary, backup) {
        (Fault::Unread(error), _) | (_, Some(Fault::Unread(error))) => Err(error),
        (Fault::Unusable(primary), Some(Fault::Unusable(backup))) if any => Err(FindError::Damaged { primary, backup }),
        _ => Ok(None),
    }
}

/// Why there is no table at one place.
enum Fault {
    Unread(FindError),
    Unusable(TableError),
}

/// What came of looking for a table at one place.
struct Attempt {
    signed: bool,
    /// Where the header says that the other copy is.
    alternate_lba: Option<u64>,
    table: Result<Table, Fault>,
}

/// Offset and length of the entries, if they are on the disk and clear of MBR and header.
fn entries(header: &Header, sector_bytes: u32, disk_bytes: u64) -> Result<(u64, usize), TableError> {
    let len = header.entries_len()?;
    let (start, end) = header.entries(sector_bytes);
    let header_offset = header.own_lba.saturating_mul(sector_bytes.into());
    let over_header = start < header_offset.saturating_add(sector_bytes.into()) && header_offset < end;
    if header.entries_lba < 2 || end > disk_bytes || over_header {
        return Err(TableError::EntriesMisplaced { start, end, disk_bytes });
    }
    Ok((start, len))
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
