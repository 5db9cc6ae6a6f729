//! The header: where a table's parts are, and their checksums (UEFI 2.10, table 5.5).

use super::{guid_at, put, u32_at, u64_at};

/// Start of a valid header.
const SIGNATURE: &[u8] = b"EFI PART";
/// Revision 1.0, the only one there is.
const REVISION: u32 = 0x0001_0000;
/// The fields of revision 1.0; the header may claim more, up to its sector.
const HEADER_BYTES: usize = 92;
/// The smallest entry, and what its size must be a multiple of.
pub(super) const ENTRY_BYTES: usize = 128;
/// Larger entries have nothing defined in them.
const MAX_ENTRY_BYTES: u32 = 4096;
/// Linux knows 256 partitions of a disk at most; this is as much as fits the first MiB of an image.
const MAX_ENTRIES: u32 = 8000;

/// Why a table can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A field of the header has an impossible value.
    #[error("the GPT header has an invalid {field}: {found}")]
    Field { field: &'static str, found: u64 },
    /// Header or entries are damaged.
    #[error("the GPT {part} is damaged: its checksum is {found:08x}, expected {expected:08x}")]
    Checksum {
        /// `header` or `entry array`.
        part: &'static str,
        expected: u32,
        found: u32,
    },
    /// The entries are not where the first MiB could hold them.
    #[error("the GPT entry array lies at bytes {start} to {end}, outside the first MiB")]
    EntriesFar {
        start: u64,
        /// Byte after the last.
        end: u64,
    },
    /// The entries are not where a disk could hold them.
    #[error("the GPT entry array (bytes {start} to {end} of {disk_bytes}) exceeds the disk or overlaps its header")]
    EntriesMisplaced {
        start: u64,
        /// Byte after the last.
        end: u64,
        /// Size of the disk.
        disk_bytes: u64,
    },
    #[error("GPT partition {number} has an invalid range: sector {first_lba} to {last_lba}")]
    Extent { number: u32, first_lba: u64, last_lba: u64 },
}

/// Whether a sector starts as a header does.
pub(super) fn signed(block: &[u8]) -> bool {
    block.starts_with(SIGNATURE)
}

pub(super) fn checked(part: &'static str, expected: u32, found: u32) -> Result<(), TableError> {
    if expected == found { Ok(()) } else { Err(TableError::Checksum { part, expected, found }) }
}

/// A header that is right in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub own_lba: u64,
    pub alternate_lba: u64,
    pub first_usable: u64,
    pub last_usable: u64,
    pub disk_guid: [u8; 16],
    pub entries_lba: u64,
    pub entry_count: u32,
    pub entry_bytes: u32,
    pub entries_crc: u32,
}

impl Header {
    /// The header in `block`, the sector at `lba`.
    pub(super) fn parse(block: &[u8], lba: u64) -> Result<Self, TableError> {
        let field = |field, found| Err(TableError::Field { field, found });
        if !signed(block) {
            return field("signature", u64_at(block, 0));
        }
        let claimed = u32_at(block, 12);
        let len = usize::try_from(claimed).unwrap_or(usize::MAX);
        let Some(bytes) = block.get(..len).filter(|bytes| bytes.len() >= HEADER_BYTES) else {
            return field("size", claimed.into());
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..16]);
        hasher.update(&[0; 4]);
        hasher.update(&bytes[20..]);
        checked("header", u32_at(block, 16), hasher.finalize())?;
        if u32_at(block, 8) != REVISION {
            return field("revision", u32_at(block, 8).into());
        }
        let header = Self {
            own_lba: u64_at(block, 24),
            alternate_lba: u64_at(block, 32),
            first_usable: u64_at(block, 40),
            last_usable: u64_at(block, 48),
            disk_guid: guid_at(block, 56),
            entries_lba: u64_at(block, 72),
            entry_count: u32_at(block, 80),
            entry_bytes: u32_at(block, 84),
            entries_crc: u32_at(block, 88),
        };
        if header.own_lba != lba {
            return field("own sector", header.own_lba);
        }
        let len = usize::try_from(header.entry_bytes).unwrap_or(usize::MAX);
        if len < ENTRY_BYTES || !len.is_multiple_of(ENTRY_BYTES) || header.entry_bytes > MAX_ENTRY_BYTES {
            return field("entry size", header.entry_bytes.into());
        }
        Ok(header)
    }

    /// First byte of the entries, and that after their last.
    pub(super) fn entries(&self, sector_bytes: u32) -> (u64, u64) {
        let start = self.entries_lba.saturating_mul(sector_bytes.into());
        (start, start.saturating_add(u64::from(self.entry_count).saturating_mul(self.entry_bytes.into())))
    }

    /// Length of the entries in bytes, if that many entries are worth reading.
    pub(super) fn entries_len(&self) -> Result<usize, TableError> {
        let found = u64::from(self.entry_count);
        let len = found.saturating_mul(self.entry_bytes.into());
        let bound = u64::from(MAX_ENTRIES) * 128;
        let len = usize::try_from(len).ok().filter(|len| *len > 0 && u64::try_from(*len).is_ok_and(|len| len <= bound));
        len.ok_or(TableError::Field { field: "entry count", found })
    }

    /// As it stands at the start of its sector.
    pub(super) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, SIGNATURE);
        put(&mut bytes, 8, &REVISION.to_le_bytes());
        put(&mut bytes, 12, &u32::try_from(HEADER_BYTES).unwrap_or_default().to_le_bytes());
        put(&mut bytes, 24, &self.own_lba.to_le_bytes());
        put(&mut bytes, 32, &self.alternate_lba.to_le_bytes());
        put(&mut bytes, 40, &self.first_usable.to_le_bytes());
        put(&mut bytes, 48, &self.last_usable.to_le_bytes());
        put(&mut bytes, 56, &self.disk_guid);
        put(&mut bytes, 72, &self.entries_lba.to_le_bytes());
        put(&mut bytes, 80, &self.entry_count.to_le_bytes());
        put(&mut bytes, 84, &self.entry_bytes.to_le_bytes());
        put(&mut bytes, 88, &self.entries_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        put(&mut bytes, 16, &crc.to_le_bytes());
        bytes
    }
}
