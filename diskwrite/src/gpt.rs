//! A reader for the GUID partition table at the start of an image (UEFI specification 2.10, section 5.3).

use serde::{Deserialize, Serialize};

/// Start of a valid header.
const SIGNATURE: &[u8] = b"EFI PART";
/// The fields of revision 1.0; the header may claim more, up to its sector.
const HEADER_BYTES: usize = 92;
/// The smallest entry, and what its size must be a multiple of.
const ENTRY_BYTES: usize = 128;

/// Why a table can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The header says what no header can.
    #[error("the GPT header's {field} is {found}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: u64,
    },
    /// Header or entries are damaged.
    #[error("the GPT {part} is damaged: its checksum is {expected:08x}, its content's is {found:08x}")]
    Checksum {
        /// `header` or `entry array`.
        part: &'static str,
        /// As recorded.
        expected: u32,
        /// As computed.
        found: u32,
    },
    /// The entries are not where the first MiB could hold them.
    #[error("the GPT entry array lies at bytes {start} to {end}, outside the first MiB")]
    EntriesFar {
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
    },
    /// A partition without extent.
    #[error("GPT partition {number} goes from sector {first_lba} to {last_lba}")]
    Extent {
        /// Its number.
        number: u32,
        /// Its first sector.
        first_lba: u64,
        /// Its last sector.
        last_lba: u64,
    },
}

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
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// The sector size the image was made for: where it has `EFI PART`. None if it has no GPT.
pub(crate) fn image_sector_bytes(head: &[u8]) -> Option<u32> {
    [512u32, 4096].into_iter().find(|size| usize::try_from(*size).is_ok_and(|at| signed(head, at)))
}

fn signed(head: &[u8], at: usize) -> bool {
    head.get(at..at + SIGNATURE.len()) == Some(SIGNATURE)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn checked(part: &'static str, expected: u32, found: u32) -> Result<(), TableError> {
    if expected == found { Ok(()) } else { Err(TableError::Checksum { part, expected, found }) }
}

/// The partitions of the primary table in `head`, the first MiB of an image with sectors of `sector_bytes`.
pub(crate) fn partitions(head: &[u8], sector_bytes: u32) -> Result<Vec<Partition>, TableError> {
    let sector = u64::from(sector_bytes);
    let field = |field, found| Err(TableError::Field { field, found });
    let at = usize::try_from(sector_bytes).unwrap_or(usize::MAX);
    let Some(block) = head.get(at..at.saturating_mul(2)) else { return field("sector size", sector) };
    if !signed(head, at) {
        return field("signature", u64_at(block, 0));
    }
    let claimed = u32_at(block, 12);
    let header_len = usize::try_from(claimed).unwrap_or(usize::MAX);
    if header_len < HEADER_BYTES || header_len > block.len() {
        return field("size", claimed.into());
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..16]);
    hasher.update(&[0; 4]);
    hasher.update(&block[20..header_len]);
    checked("header", u32_at(block, 16), hasher.finalize())?;
    if u64_at(block, 24) != 1 {
        return field("own sector", u64_at(block, 24));
    }
    let (count, entry_bytes) = (u32_at(block, 80), u32_at(block, 84));
    let entry_len = usize::try_from(entry_bytes).unwrap_or(usize::MAX);
    if entry_len < ENTRY_BYTES || entry_len % ENTRY_BYTES != 0 {
        return field("entry size", entry_bytes.into());
    }
    let start = u64_at(block, 72).saturating_mul(sector);
    let end = start.saturating_add(u64::from(count).saturating_mul(entry_bytes.into()));
    let far = TableError::EntriesFar { start, end };
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else { return Err(far) };
    let Some(array) = head.get(from..to) else { return Err(far) };
    checked("entry array", u32_at(block, 88), crc32fast::hash(array))?;
    let used = (1u32..).zip(array.chunks_exact(entry_len)).filter(|(_, entry)| entry[..16] != [0; 16]);
    used.map(|(number, entry)| partition(number, entry, sector)).collect()
}

fn partition(number: u32, entry: &[u8], sector: u64) -> Result<Partition, TableError> {
    let (first_lba, last_lba) = (u64_at(entry, 32), u64_at(entry, 40));
    let bad = TableError::Extent { number, first_lba, last_lba };
    let sectors = last_lba.checked_sub(first_lba).and_then(|n| n.checked_add(1));
    let (Some(start), Some(len)) = (first_lba.checked_mul(sector), sectors.and_then(|n| n.checked_mul(sector))) else {
        return Err(bad);
    };
    if start.checked_add(len).is_none() {
        return Err(bad);
    }
    let units = entry[56..ENTRY_BYTES].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<_> = units.take_while(|unit| *unit != 0).collect();
    Ok(Partition { number, name: String::from_utf16_lossy(&units), start, len })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// The first MiB of an image with these partitions: name, first and last sector.
    pub(crate) fn head(sector: usize, partitions: &[(&str, u64, u64)]) -> Vec<u8> {
        let mut head = vec![0; 1 << 20];
        put(&mut head, 510, &[0x55, 0xAA]);
        for (index, (name, first, last)) in partitions.iter().enumerate() {
            let entry = &mut head[2 * sector + index * 128..][..128];
            put(entry, 0, &[7; 16]);
            put(entry, 32, &first.to_le_bytes());
            put(entry, 40, &last.to_le_bytes());
            for (at, unit) in name.encode_utf16().enumerate() {
                put(entry, 56 + 2 * at, &unit.to_le_bytes());
            }
        }
        let array = crc32fast::hash(&head[2 * sector..][..128 * 128]);
        let header = &mut head[sector..][..92];
        put(header, 0, SIGNATURE);
        put(header, 8, &[0, 0, 1, 0]);
        put(header, 12, &92u32.to_le_bytes());
        put(header, 24, &1u64.to_le_bytes());
        put(header, 72, &2u64.to_le_bytes());
        put(header, 80, &128u32.to_le_bytes());
        put(header, 84, &128u32.to_le_bytes());
        put(header, 88, &array.to_le_bytes());
        let crc = crc32fast::hash(&head[sector..][..92]);
        put(&mut head, sector + 16, &crc.to_le_bytes());
        head
    }

    #[test]
    fn reads_both_sector_sizes() {
        for (sector, bytes) in [(512, 512u64), (4096, 4096)] {
            let head = head(sector, &[("boot", 2048, 4095), ("root", 4096, 9000)]);
            let size = image_sector_bytes(&head).unwrap();
            assert_eq!(u64::from(size), bytes);
            let found = partitions(&head, size).unwrap();
            let boot = Partition { number: 1, name: "boot".into(), start: 2048 * bytes, len: 2048 * bytes };
            assert_eq!(found[0], boot);
            assert_eq!(found[1].end(), 9001 * bytes);
            assert_eq!(found.len(), 2);
        }
    }

    #[test]
    fn no_table_is_no_sector_size() {
        assert_eq!(image_sector_bytes(&[]), None);
        assert_eq!(image_sector_bytes(&vec![0; 1 << 20]), None);
        assert!(matches!(partitions(&vec![0; 1 << 20], 512), Err(TableError::Field { field: "signature", .. })));
    }

    #[test]
    fn damage_is_named() {
        let good = head(512, &[("boot", 2048, 4095)]);
        let mut bad = good.clone();
        bad[512 + 30] ^= 1;
        assert!(matches!(partitions(&bad, 512), Err(TableError::Checksum { part: "header", .. })));
        let mut bad = good;
        bad[1024 + 60] ^= 1;
        assert!(matches!(partitions(&bad, 512), Err(TableError::Checksum { part: "entry array", .. })));
        let backwards = head(512, &[("boot", 9, 8)]);
        assert!(matches!(partitions(&backwards, 512), Err(TableError::Extent { number: 1, .. })));
        let huge = head(512, &[("boot", 1, u64::MAX)]);
        assert!(matches!(partitions(&huge, 512), Err(TableError::Extent { .. })));
    }

    #[test]
    fn entries_stay_within_the_head() {
        for (at, value) in [(72, u64::MAX.to_le_bytes()), (80, [0xFF, 0xFF, 0xFF, 0xFF, 128, 0, 0, 0])] {
            let mut bad = head(512, &[("boot", 2048, 4095)]);
            put(&mut bad, 512 + at, &value);
            put(&mut bad, 512 + 16, &[0; 4]);
            let crc = crc32fast::hash(&bad[512..][..92]);
            put(&mut bad, 512 + 16, &crc.to_le_bytes());
            assert!(matches!(partitions(&bad, 512), Err(TableError::EntriesFar { .. })), "{at}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(header in prop::collection::vec(any::<u8>(), 92), fix_crc in any::<bool>(), size in 0u32..6000) {
            let mut bytes = vec![0; 1 << 20];
            put(&mut bytes, 512, &header);
            put(&mut bytes, 512, SIGNATURE);
            if fix_crc {
                put(&mut bytes, 512 + 12, &[92, 0, 0, 0, 0, 0, 0, 0]);
                put(&mut bytes, 512 + 24, &1u64.to_le_bytes());
                let crc = crc32fast::hash(&bytes[512..][..92]);
                put(&mut bytes, 512 + 16, &crc.to_le_bytes());
            }
            let _ = partitions(&bytes, 512);
            let _ = partitions(&bytes[..8192.min(bytes.len())], size);
        }
    }
}
