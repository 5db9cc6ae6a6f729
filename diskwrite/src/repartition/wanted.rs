//! What a config asks of a partition table, what becomes of each partition, and why it can't be done.

use crate::disk::DiskError;
use crate::gpt::{FindError, LayoutError, TableError};
use crate::layout::LayoutPartition;
use crate::partitions::PartitionError;
use crate::probe::Kind;
use std::{io, path::PathBuf};

/// A partition as a config wants it. What is not set matches anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// 0 takes the next free one.
    pub number: u32,
    pub label: Option<String>,
    /// In the byte order of a table.
    pub type_guid: Option<[u8; 16]>,
    /// In the byte order of a table.
    pub guid: Option<[u8; 16]>,
    /// First byte; 0 takes the largest free block.
    pub start: Option<u64>,
    /// Size in bytes; 0 takes the rest of the block.
    pub len: Option<u64>,
    /// Whether it is to exist at all.
    pub exists: bool,
    /// Whether one that differs may be replaced or deleted.
    pub replace: bool,
    /// Whether one that differs in its size alone may be resized.
    pub resize: bool,
}

/// What becomes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is as it should be.
    Keep,
    Create,
    Delete,
    /// Its entry is written anew.
    Replace,
    Resize,
}

/// A partition and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its place in the list of wanted ones.
    pub wanted: usize,
    pub fate: Fate,
    /// As it is afterwards; one that is deleted as it was.
    pub partition: LayoutPartition,
}

/// Why a table can't be changed. Nothing was written, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum RepartitionError {
    /// The disk may not be written to.
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("cannot open {}", device.display())]
    Open { device: PathBuf, source: io::Error },
    #[error("cannot read the partition table of {}", device.display())]
    Find { device: PathBuf, source: FindError },
    /// Its partitions can't be matched.
    #[error("{} has a partition table of another kind ({kind}): set wipeTable to replace it", device.display())]
    OtherTable { device: PathBuf, kind: Kind },
    #[error("partition {number} exists but is specified as nonexistant and wipePartitionEntry is false")]
    Exists { number: u32 },
    /// It is not what the config says, and may not be replaced.
    #[error("partition {number} didn't match: {difference}")]
    Mismatch { number: u32, difference: String },
    /// Another partition or the disk's end is in the way.
    #[error("partition {number} does not fit: {}", room(*free, *wanted))]
    NoRoom {
        number: u32,
        /// Sectors from its start to the next partition.
        free: u64,
        /// Sectors that it should have; None for what there is.
        wanted: Option<u64>,
    },
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Table(#[from] TableError),
    /// Not the table that the plan was made for.
    #[error("the partition table of {} changed since the plan was made", device.display())]
    Changed { device: PathBuf },
    /// One of the two copies is whole at any time.
    #[error("cannot write the partition table of {}: the old one or the new one is in effect", device.display())]
    Write { device: PathBuf, source: io::Error },
    /// The table is written.
    #[error("the new partition table of {} is written, but the kernel does not accept it", device.display())]
    Kernel { device: PathBuf, source: PartitionError },
    /// The table is written.
    #[error("the new partition table of {} is written, but partition {number} has no device node", device.display())]
    NoNode { device: PathBuf, number: u32 },
}

impl RepartitionError {
    /// Whether the table is the new one nevertheless.
    pub fn is_after_write(&self) -> bool {
        matches!(self, Self::Kernel { .. } | Self::NoNode { .. })
    }
}

fn room(free: u64, wanted: Option<u64>) -> String {
    match wanted {
        Some(wanted) => format!("{free} sectors are free where it should begin, {wanted} are needed"),
        None => "no sector is free where it should begin".to_owned(),
    }
}
