//! What a disk's GUID partition table says, for callers that boot from the disk or search for one; read only.

use crate::gpt::{self, Entry, FindError, Table, TableError};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Why a disk's partitions are not known.
#[derive(Debug, thiserror::Error)]
pub enum ReadLayoutError {
    /// Nothing there, or nothing that may be read.
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is not a block device", path.display())]
    NotABlockDevice { path: PathBuf },
    /// Both copies of the table.
    #[error("cannot read the partition table of {}", path.display())]
    Find { path: PathBuf, source: FindError },
    /// An impossible partition.
    #[error("the partition table of {} is invalid", path.display())]
    Table { path: PathBuf, source: TableError },
    /// An MBR, or nothing.
    #[error("{} has no GUID partition table", path.display())]
    None { path: PathBuf },
}

/// A partition as it stands in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutPartition {
    /// From 1.
    pub number: u32,
    /// What it is for, in the byte order of the table.
    pub type_guid: [u8; 16],
    /// Which one it is, in the byte order of the table.
    pub guid: [u8; 16],
    pub name: String,
    /// First sector, of the disk's logical size.
    pub first_lba: u64,
    pub sectors: u64,
    /// First byte.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
}

impl LayoutPartition {
    pub(crate) fn new(number: u32, entry: &Entry, sector_bytes: u32) -> Result<Self, TableError> {
        let extent = entry.partition(number, sector_bytes)?;
        Ok(Self {
            number,
            type_guid: entry.type_guid(),
            guid: entry.guid(),
            name: extent.name,
            first_lba: entry.first_lba(),
            sectors: extent.len / u64::from(sector_bytes).max(1),
            start: extent.start,
            len: extent.len,
        })
    }

    /// Those of a table, by number.
    pub(crate) fn all(table: &Table) -> Result<Vec<Self>, TableError> {
        table.entries().map(|(number, entry)| Self::new(number, &entry, table.sector_bytes)).collect()
    }
}

/// A disk's partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Logical sector size in bytes.
    pub sector_bytes: u32,
    /// By number.
    pub partitions: Vec<LayoutPartition>,
}

impl Layout {
    pub fn partition(&self, number: u32) -> Option<&LayoutPartition> {
        self.partitions.iter().find(|partition| partition.number == number)
    }

    /// Reads the table in `disk`, a disk or an image of one, of `size_bytes` with sectors of `sector_bytes`; `path` is for errors.
    pub fn read(disk: &File, path: &Path, size_bytes: u64, sector_bytes: u32) -> Result<Self, ReadLayoutError> {
        let path = || path.to_owned();
        let found = gpt::find(&mut gpt::reads(disk), size_bytes, sector_bytes);
        let found = found.map_err(|source| ReadLayoutError::Find { path: path(), source })?;
        let table = found.ok_or_else(|| ReadLayoutError::None { path: path() })?.table;
        let partitions =
            LayoutPartition::all(&table).map_err(|source| ReadLayoutError::Table { path: path(), source })?;
        Ok(Self { size_bytes, sector_bytes, partitions })
    }
}

/// Opens a disk for reading, in use or not, with its partitions.
pub fn open_layout(path: &Path) -> Result<(File, Layout), ReadLayoutError> {
    let open = |source| ReadLayoutError::Open { path: path.to_owned(), source };
    // A drive without a medium is not waited for.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(open)?;
    if !file.metadata().map_err(open)?.file_type().is_block_device() {
        return Err(ReadLayoutError::NotABlockDevice { path: path.to_owned() });
    }
    let (size, sector) =
        (kernel::disk::size_bytes(&file).map_err(open)?, kernel::disk::sector_bytes(&file).map_err(open)?);
    let layout = Layout::read(&file, path, size, sector)?;
    Ok((file, layout))
}
