//! One entry of a table (UEFI 2.10, table 5.6).

use super::header::{ENTRY_BYTES, TableError};
use super::{guid_at, u64_at};
use serde::{Deserialize, Serialize};

/// One used entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Partition {
    /// Position in the array, from 1.
    pub number: u32,
    pub name: String,
    /// Offset on the disk in bytes.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
}

impl Partition {
    /// Offset of the byte after the last.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// An entry as it stands in the table, so that unknown parts of it are retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry([u8; ENTRY_BYTES]);

impl Entry {
    /// The entry at the start of `bytes`; what is missing is zero.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut entry = [0; ENTRY_BYTES];
        super::put(&mut entry, 0, bytes);
        Self(entry)
    }

    /// A new one. A name's text beyond 36 UTF-16 units is left out.
    pub(crate) fn new(type_guid: [u8; 16], guid: [u8; 16], first_lba: u64, last_lba: u64, name: &str) -> Self {
        let mut entry = [0; ENTRY_BYTES];
        super::put(&mut entry, 0, &type_guid);
        super::put(&mut entry, 16, &guid);
        super::put(&mut entry, 32, &first_lba.to_le_bytes());
        super::put(&mut entry, 40, &last_lba.to_le_bytes());
        for (at, unit) in (56..ENTRY_BYTES).step_by(2).zip(name.encode_utf16()) {
            super::put(&mut entry, at, &unit.to_le_bytes());
        }
        Self(entry)
    }

    pub(crate) fn bytes(&self) -> &[u8; ENTRY_BYTES] {
        &self.0
    }

    pub(crate) fn is_used(&self) -> bool {
        self.type_guid() != [0; 16]
    }

    pub(crate) fn type_guid(&self) -> [u8; 16] {
        guid_at(&self.0, 0)
    }

    pub(crate) fn guid(&self) -> [u8; 16] {
        guid_at(&self.0, 16)
    }

    pub(crate) fn first_lba(&self) -> u64 {
        u64_at(&self.0, 32)
    }

    /// Inclusive.
    pub(crate) fn last_lba(&self) -> u64 {
        u64_at(&self.0, 40)
    }

    /// The same with another last sector.
    pub(crate) fn ending_at(&self, last_lba: u64) -> Self {
        let mut entry = self.clone();
        super::put(&mut entry.0, 40, &last_lba.to_le_bytes());
        entry
    }

    /// Up to the first NUL; what is not UTF-16 becomes U+FFFD.
    pub(crate) fn name(&self) -> String {
        let units = self.0[56..].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let units: Vec<_> = units.take_while(|unit| *unit != 0).collect();
        String::from_utf16_lossy(&units)
    }

    /// What it is on a disk with sectors of `sector_bytes`.
    pub(crate) fn partition(&self, number: u32, sector_bytes: u32) -> Result<Partition, TableError> {
        let sector = u64::from(sector_bytes);
        let (first_lba, last_lba) = (self.first_lba(), self.last_lba());
        let sectors = last_lba.checked_sub(first_lba).and_then(|n| n.checked_add(1));
        let extent = first_lba.checked_mul(sector).zip(sectors.and_then(|n| n.checked_mul(sector)));
        match extent.filter(|(start, len)| start.checked_add(*len).is_some()) {
            Some((start, len)) => Ok(Partition { number, name: self.name(), start, len }),
            None => Err(TableError::Extent { number, first_lba, last_lba }),
        }
    }
}
