//! What is on a disk: partition tables, and the signatures of file systems, volume managers, RAID and encryption, with the
//! places of their magic numbers. It is shown before a disk is overwritten, and erased by a wipe.
//!
//! All of it reads a few hundred KiB at the ends of the disk and of each partition, and believes nothing it reads. The kinds
//! are those of libblkid, by the same names, with the magic numbers of `libblkid/src/superblocks` and `.../topology`.

#[allow(dead_code, reason = "its readers come next")]
mod area;
mod kind;

pub use area::ReadAt;
pub use kind::Kind;

use serde::{Deserialize, Serialize};

/// Some bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// First byte, from the disk's start.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

impl Span {
    /// Offset of the byte after the last.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// Something that is recognized by magic numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// What it is.
    pub kind: Kind,
    /// Every place of a magic number, sorted: without them nothing recognizes it any more.
    pub magics: Vec<Span>,
    /// The name its maker gave it: of a file system, volume group, array or pool.
    pub label: Option<String>,
    /// Its identifier, in the form its own tools use.
    pub uuid: Option<String>,
    /// More for people, such as `version 1.2, RAID level 1`.
    pub detail: Option<String>,
}

/// A partition, with what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionContents {
    /// Number in its table, from 1; logical MBR partitions from 5.
    pub number: u32,
    /// Its bytes on the disk.
    pub span: Span,
    /// GPT name; empty without one.
    pub name: String,
    /// GPT type GUID in lower case, or the MBR's as `0x83`.
    pub type_id: String,
    /// The type's meaning, if it is a well-known one.
    pub type_name: Option<String>,
    /// In it, by their places on the disk.
    pub signatures: Vec<Signature>,
}

/// All that was recognized on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Of the whole disk, its partition tables among them; what lies in a partition is listed there.
    pub signatures: Vec<Signature>,
    /// By number.
    pub partitions: Vec<PartitionContents>,
    /// Operating systems that seem to be installed, such as `Windows`.
    pub systems: Vec<String>,
    /// What was to be looked at and could not be read.
    pub unreadable: Vec<Span>,
}

impl Contents {
    /// Whether nothing at all was recognized.
    pub fn is_empty(&self) -> bool {
        self.signatures.is_empty() && self.partitions.is_empty()
    }
}

/// Looks at a disk of `len` bytes with sectors of `sector_bytes`: at the whole, and at each partition.
pub fn probe(disk: &dyn ReadAt, len: u64, sector_bytes: u32) -> Contents {
    let _ = (disk, len, sector_bytes);
    Contents::default()
}
