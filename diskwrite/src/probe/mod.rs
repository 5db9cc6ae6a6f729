//! What is on a disk: partition tables, and the signatures of file systems, volume managers, RAID and encryption, with the
//! places of their magic numbers. It is shown before a disk is overwritten, and erased by a wipe.
//!
//! All of it reads a few hundred KiB at the ends of the disk and of each partition, and believes nothing it reads. The kinds
//! are those of libblkid, by the same names, with the magic numbers of `libblkid/src/superblocks` and `.../topology`.

mod apple;
mod area;
mod befs;
mod bytes;
mod fat;
mod file_systems;
mod grade;
mod kind;
mod magics;
mod names;
mod optical;
mod storage;
mod superblock;
mod swap;
mod tables;
mod types;
mod windows;

use area::Area;
use kernel::order;

pub use area::ReadAt;
pub use kind::Kind;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Some bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// First byte, from the disk's start.
    pub offset: u64,
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
    pub kind: Kind,
    /// Every place of a magic number, sorted: without them nothing recognizes it any more.
    pub magics: Vec<Span>,
    /// The name its maker gave it: of a file system, volume group, array or pool.
    pub label: Option<String>,
    /// Its identifier, in the form its own tools use.
    pub uuid: Option<String>,
    /// More for people, such as `version 1.2, RAID level 1`.
    pub detail: Option<String>,
    /// Whether it is too little or too damaged to be used: it is erased, but no reason to keep a device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remains: bool,
}

impl Signature {
    pub(crate) fn new(kind: Kind, magics: Vec<Span>) -> Self {
        Self { kind, magics, label: None, uuid: None, detail: None, remains: false }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(label) = &self.label {
            write!(f, " '{label}'")?;
        }
        if let Some(uuid) = &self.uuid {
            write!(f, " {uuid}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        if self.remains { f.write_str(", remains of it") } else { Ok(()) }
    }
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

/// More partitions than this are listed, but not looked into.
const MAX_PROBED: usize = 128;

/// Looks at a disk of `len` bytes with sectors of `sector_bytes`: at the whole, and at each partition.
pub fn probe(disk: &dyn ReadAt, len: u64, sector_bytes: u32) -> Contents {
    let whole = Area::new(disk, Span { offset: 0, len }, sector_bytes);
    let mut signatures = signatures(&whole);
    // A boot sector of FAT, exFAT, NTFS or BitLocker ends like an MBR.
    let is_boot_sector = signatures
        .iter()
        .any(|signature| matches!(signature.kind, Kind::Vfat | Kind::Exfat | Kind::Ntfs | Kind::BitLocker));
    let gpt = tables::gpt(&whole);
    let mbr = if is_boot_sector { None } else { tables::mbr(&whole, gpt.is_some()) };
    signatures.extend(magics::tables(&whole));
    order::sort_by_key(&mut signatures, |signature| signature.kind);
    let mut partitions = Vec::new();
    for (place, table) in gpt.into_iter().chain(mbr).enumerate() {
        signatures.insert(place, table.signature);
        // Of two tables the kernel takes the GPT.
        if partitions.is_empty() {
            partitions = table.partitions;
        }
    }
    let mut unreadable = whole.into_unreadable();
    for partition in partitions.iter_mut().filter(|partition| partition.span.end() <= len).take(MAX_PROBED) {
        // An extended partition begins with the record of the first in it.
        if partition.type_name.as_deref() == Some("extended") {
            continue;
        }
        let area = Area::new(disk, partition.span, sector_bytes);
        partition.signatures = self::signatures(&area);
        unreadable.extend(area.into_unreadable());
    }
    // RAID and ZFS at the end of the last partition seem to be the whole disk's.
    let inner: Vec<Span> =
        partitions.iter().flat_map(|part| &part.signatures).flat_map(|sig| &sig.magics).copied().collect();
    signatures.retain(|signature| !signature.magics.iter().all(|magic| inner.contains(magic)));
    order::sort(&mut unreadable);
    unreadable.dedup();
    let mut contents = Contents { signatures, partitions, systems: Vec::new(), unreadable };
    contents.systems = types::systems(&contents);
    contents
}

/// Looks at a part of a disk as if it were a device: partition tables in it are not looked for.
pub fn probe_part(disk: &dyn ReadAt, part: Span, sector_bytes: u32) -> Vec<Signature> {
    signatures(&Area::new(disk, part, sector_bytes))
}

/// What is in a mirror of Linux RAID that this part is a member of, by its copy here.
pub(crate) fn probe_mirror(disk: &dyn ReadAt, part: Span, sector_bytes: u32) -> Vec<Signature> {
    let inside = storage::mirrored(&Area::new(disk, part, sector_bytes));
    inside.map(|inside| probe_part(disk, inside, sector_bytes)).unwrap_or_default()
}

/// All that is recognized in an area but partition tables: storage first, then what may lie in it.
fn signatures(area: &Area<'_>) -> Vec<Signature> {
    let one = [
        storage::lvm2,
        storage::luks,
        storage::zfs,
        storage::bluestore,
        storage::drbd,
        fat::find,
        swap::find,
        windows::find,
        optical::udf,
        optical::iso9660,
        file_systems::ext,
        file_systems::xfs_log,
        file_systems::ufs,
        file_systems::btrfs,
        file_systems::f2fs,
    ];
    let mut found = storage::md_raid(area);
    found.extend(one.into_iter().filter_map(|find| find(area)));
    found.extend(magics::superblocks(area));
    order::sort_by_key(&mut found, |signature| signature.kind);
    found
}

/// What a device is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided<'a> {
    Nothing,
    This(&'a Signature),
    /// Several things at once, so that nobody can say what it is.
    Several,
}

/// What of all that was recognized on a device counts, as libblkid decides it.
pub fn decide(found: &[Signature]) -> Decided<'_> {
    let mut first = None;
    let (mut count, mut intolerant) = (0u32, false);
    for signature in found.iter().filter(|signature| !signature.remains) {
        count += 1;
        first.get_or_insert(signature);
        // What it belongs to has the rest.
        if signature.kind.is_raid() || signature.kind.is_encryption() {
            break;
        }
        intolerant |= !signature.kind.is_tolerant();
    }
    match first {
        None => Decided::Nothing,
        Some(_) if count > 1 && intolerant => Decided::Several,
        Some(first) => Decided::This(first),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
