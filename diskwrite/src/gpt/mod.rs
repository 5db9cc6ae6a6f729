//! GUID partition tables (UEFI specification 2.10, section 5.3): read with all checks, changed in memory, written whole.
//!
//! Everything here works on bytes; nothing opens a disk.

mod entry;
mod find;
mod header;
mod mbr;
mod table;

pub(crate) use entry::{Entry, Partition};
pub use find::FindError;
pub(crate) use find::{Which, find, reads};
pub use header::TableError;
pub(crate) use mbr::{BOOT_CODE_BYTES, has_mbr, put_protective};
pub use table::LayoutError;
pub(crate) use table::Table;

use header::{Header, signed};

/// Sector sizes a table may be made for, in bytes.
pub(crate) const SECTOR_SIZES: [u32; 2] = [512, 4096];

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    kernel::bytes::le32(bytes, at).unwrap_or_default()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    kernel::bytes::le64(bytes, at).unwrap_or_default()
}

fn guid_at(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes.get(at..at + 16).and_then(|b| b.try_into().ok()).unwrap_or_default()
}

/// Overwrites what is at `at`; what would lie beyond the end of `bytes` is left out.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (byte, value) in bytes.iter_mut().skip(at).zip(value) {
        *byte = *value;
    }
}

/// The sector size the image was made for: where it has `EFI PART`. None if it has no GPT.
pub(crate) fn image_sector_bytes(head: &[u8]) -> Option<u32> {
    let at = |size: &u32| usize::try_from(*size).ok().and_then(|at| head.get(at..));
    SECTOR_SIZES.into_iter().find(|size| at(size).is_some_and(signed))
}

/// The primary table in `head`, the first MiB of an image with sectors of `sector_bytes`.
pub(crate) fn image_table(head: &[u8], sector_bytes: u32) -> Result<Table, TableError> {
    let sector = usize::try_from(sector_bytes).unwrap_or(usize::MAX);
    let Some(block) = head.get(sector..sector.saturating_mul(2)) else {
        return Err(TableError::Field { field: "sector size", found: sector_bytes.into() });
    };
    let header = Header::parse(block, 1)?;
    let (start, end) = header.entries(sector_bytes);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let array = range.and_then(|(from, to)| head.get(from..to)).ok_or(TableError::EntriesFar { start, end })?;
    Table::read(&header, array, sector_bytes)
}

/// Byte after the backup's header, which is the last of the image; 0 if the primary's does not say.
pub(crate) fn backup_end(head: &[u8], sector_bytes: u32) -> Result<u64, TableError> {
    let sector = usize::try_from(sector_bytes).unwrap_or(usize::MAX);
    let header = Header::parse(head.get(sector..sector.saturating_mul(2)).unwrap_or_default(), 1)?;
    let sectors = if header.alternate_lba > 1 { header.alternate_lba.saturating_add(1) } else { 0 };
    Ok(sectors.saturating_mul(sector_bytes.into()))
}

/// The partitions of [`image_table`].
pub(crate) fn partitions(head: &[u8], sector_bytes: u32) -> Result<Vec<Partition>, TableError> {
    image_table(head, sector_bytes)?.partitions()
}

#[cfg(test)]
#[path = "tests.rs"]
pub(crate) mod tests;
