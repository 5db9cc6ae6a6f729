//! What is in the directories of a FAT file system (Microsoft's FAT specification 1.03; UEFI 2.10, section 13.3): enough to find a
//! boot loader. The EFI system partition is read so, rather than mounted, since a kernel may lack vfat and nothing is left behind.

use std::io;

/// A directory may have 65536 entries of 32 bytes.
const MAX_DIRECTORY_BYTES: u64 = 2 << 20;
const ENTRY_BYTES: usize = 32;
const LONG_NAME: u8 = 0x0f;
const VOLUME_LABEL: u8 = 0x08;
const DIRECTORY: u8 = 0x10;
/// First byte of an entry that was deleted.
const DELETED: u8 = 0xe5;

/// Why it can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FatError {
    #[error("cannot read {len} bytes at byte {offset} of the EFI system partition")]
    Read {
        /// From the start of the partition.
        offset: u64,
        len: usize,
        source: io::Error,
    },
    #[error("the EFI system partition is not a FAT file system: its {field} is {found}")]
    NotFat {
        /// Of the boot sector.
        field: &'static str,
        found: u64,
    },
    /// A chain of clusters that never ends or leads nowhere.
    #[error("a directory of the EFI system partition is damaged at cluster {cluster}")]
    Chain { cluster: u32 },
}

/// How wide the entries of the allocation table are. FAT32 is recognized by its wider fields, as in firmware and Linux, not by
/// the number of its clusters, of which mkfs makes fewer than the specification allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fat12,
    Fat16,
    Fat32,
}

/// Reads exactly as many bytes as there is room for, from an offset on.
type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> io::Result<()>;

/// A FAT file system.
pub(super) struct Fat<'a> {
    read: Read<'a>,
    kind: Kind,
    table_offset: u64,
    data_offset: u64,
    cluster_bytes: u64,
    clusters: u32,
    root: Place,
}

/// Where a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The root of FAT12 and FAT16.
    Fixed {
        offset: u64,
        len: u64,
    },
    Cluster(u32),
}

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    short: String,
    long: Option<String>,
    is_directory: bool,
    cluster: u32,
}

impl Entry {
    fn is_called(&self, name: &str) -> bool {
        [Some(&self.short), self.long.as_ref()].into_iter().flatten().any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl<'a> Fat<'a> {
    /// Reads the boot sector.
    pub(super) fn open(read: Read<'a>) -> Result<Self, FatError> {
        let mut boot = [0; 512];
        fill(read, 0, &mut boot)?;
        let byte = |at: usize| boot.get(at).copied().unwrap_or_default();
        let u16_at = |at: usize| u16::from_le_bytes([byte(at), byte(at + 1)]);
        let u32_at = |at: usize| u32::from_le_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
        let check = |ok: bool, field, found: u64| if ok { Ok(found) } else { Err(FatError::NotFat { field, found }) };
        let sector = u16_at(11);
        check(u16_at(510) == 0xaa55, "signature", u16_at(510).into())?;
        let sector = check([512, 1024, 2048, 4096].contains(&sector), "sector size", sector.into())?;
        let per_cluster = check(byte(13).is_power_of_two(), "number of sectors in a cluster", byte(13).into())?;
        let reserved = check(u16_at(14) > 0, "number of reserved sectors", u16_at(14).into())?;
        let copies = check(byte(16) > 0, "number of allocation tables", byte(16).into())?;
        let root_entries = u64::from(u16_at(17));
        let either = |short: u16, long: u32| if short == 0 { u64::from(long) } else { short.into() };
        let sectors = check(either(u16_at(19), u32_at(32)) > 0, "number of sectors", 0)
            .map(|_| either(u16_at(19), u32_at(32)))?;
        let table_sectors = either(u16_at(22), u32_at(36));
        check(table_sectors > 0, "allocation table's size", 0)?;
        let root_offset = (reserved + copies * table_sectors) * sector;
        let root_sectors = (root_entries * 32).div_ceil(sector);
        let data_sector = reserved + copies * table_sectors + root_sectors;
        let data_sectors =
            sectors.checked_sub(data_sector).ok_or(FatError::NotFat { field: "number of sectors", found: sectors })?;
        let clusters = u32::try_from(data_sectors / per_cluster).unwrap_or(u32::MAX);
        let kind = match clusters {
            _ if u16_at(22) == 0 => Kind::Fat32,
            0..4085 => Kind::Fat12,
            _ => Kind::Fat16,
        };
        let root = match kind {
            Kind::Fat32 => Place::Cluster(u32_at(44)),
            _ => Place::Fixed { offset: root_offset, len: root_entries * 32 },
        };
        Ok(Self {
            read,
            kind,
            table_offset: reserved * sector,
            data_offset: data_sector * sector,
            cluster_bytes: per_cluster * sector,
            clusters,
            root,
        })
    }

    /// Whether there is a file at this path, whatever the case of its letters.
    pub(super) fn has_file(&self, path: &[&str]) -> Result<bool, FatError> {
        let Some((name, directories)) = path.split_last() else { return Ok(false) };
        let mut place = self.root;
        for directory in directories {
            let entries = self.entries(place)?;
            match entries.iter().find(|entry| entry.is_directory && entry.is_called(directory)) {
                Some(entry) => place = Place::Cluster(entry.cluster),
                None => return Ok(false),
            }
        }
        Ok(self.entries(place)?.iter().any(|entry| !entry.is_directory && entry.is_called(name)))
    }

    fn entries(&self, place: Place) -> Result<Vec<Entry>, FatError> {
        let mut bytes = Vec::new();
        match place {
            Place::Fixed { offset, len } => self.append(&mut bytes, offset, len)?,
            Place::Cluster(first) => {
                let mut next = Some(first);
                let mut read_bytes = 0;
                while let Some(cluster) = next {
                    let index = cluster.checked_sub(2).filter(|index| *index < self.clusters);
                    read_bytes += self.cluster_bytes;
                    let index = index.filter(|_| read_bytes <= MAX_DIRECTORY_BYTES);
                    let index = index.ok_or(FatError::Chain { cluster })?;
                    let offset = self.data_offset + u64::from(index) * self.cluster_bytes;
                    self.append(&mut bytes, offset, self.cluster_bytes)?;
                    next = self.after(cluster)?;
                }
            }
        }
        Ok(entries(&bytes))
    }

    fn append(&self, bytes: &mut Vec<u8>, offset: u64, len: u64) -> Result<(), FatError> {
        let mut piece = vec![0; usize::try_from(len.min(MAX_DIRECTORY_BYTES)).unwrap_or_default()];
        fill(self.read, offset, &mut piece)?;
        bytes.extend(piece);
        Ok(())
    }

    /// The cluster after this one; None at the end.
    fn after(&self, cluster: u32) -> Result<Option<u32>, FatError> {
        let number = u64::from(cluster);
        let entry = |offset: u64, len: usize| {
            let mut bytes = [0; 4];
            let piece = bytes.get_mut(..len).unwrap_or_default();
            fill(self.read, self.table_offset + offset, piece).map(|()| u32::from_le_bytes(bytes))
        };
        let (next, end) = match self.kind {
            Kind::Fat12 => {
                let pair = entry(number + number / 2, 2)?;
                (if cluster.is_multiple_of(2) { pair & 0xfff } else { pair >> 4 }, 0xff8)
            }
            Kind::Fat16 => (entry(number * 2, 2)?, 0xfff8),
            Kind::Fat32 => (entry(number * 4, 4)? & 0x0fff_ffff, 0x0fff_fff8),
        };
        Ok((next < end).then_some(next))
    }
}

fn fill(read: Read<'_>, offset: u64, buf: &mut [u8]) -> Result<(), FatError> {
    let len = buf.len();
    read(offset, buf).map_err(|source| FatError::Read { offset, len, source })
}

/// The entries of a directory, up to the one that says that there are no more.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let (records, _) = bytes.as_chunks::<ENTRY_BYTES>();
    let mut found = Vec::new();
    let mut long = LongName::default();
    for record in records.iter().take_while(|record| record[0] != 0) {
        if record[0] == DELETED {
            long = LongName::default();
        } else if record[11] & 0x3f == LONG_NAME {
            long.add(record);
        } else if record[11] & VOLUME_LABEL == 0 {
            let high = u32::from(u16::from_le_bytes([record[20], record[21]]));
            let low = u32::from(u16::from_le_bytes([record[26], record[27]]));
            found.push(Entry {
                short: short_name(record),
                long: std::mem::take(&mut long).name_for(record),
                is_directory: record[11] & DIRECTORY != 0,
                cluster: high << 16 | low,
            });
        } else {
            long = LongName::default();
        }
    }
    found
}

fn short_name(record: &[u8; ENTRY_BYTES]) -> String {
    let part = |range: std::ops::Range<usize>| {
        let bytes = record.get(range).unwrap_or_default().trim_ascii_end();
        bytes.iter().map(|byte| char::from(*byte)).collect::<String>()
    };
    let (name, extension) = (part(0..8), part(8..11));
    if extension.is_empty() { name } else { format!("{name}.{extension}") }
}

/// A long name as it comes: its last part first, up to 20 parts of 13 characters.
#[derive(Default)]
struct LongName {
    units: Vec<u16>,
    checksum: u8,
    /// The number of the part that must come next; 0 when all are there.
    awaited: u8,
}

impl LongName {
    fn add(&mut self, record: &[u8; ENTRY_BYTES]) {
        let number = record[0] & 0x3f;
        if record[0] & 0x40 != 0 && (1..=20).contains(&number) {
            *self = Self { units: Vec::new(), checksum: record[13], awaited: number };
        }
        if self.awaited == 0 || self.awaited != number || self.checksum != record[13] {
            *self = Self::default();
            return;
        }
        let places = [1..11, 14..26, 28..32];
        let bytes = places.into_iter().flat_map(|place| record.get(place).unwrap_or_default().as_chunks().0);
        let part = bytes.map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0);
        self.units.splice(0..0, part.collect::<Vec<_>>());
        self.awaited -= 1;
    }

    /// The name, if it is whole and belongs to this entry.
    fn name_for(self, record: &[u8; ENTRY_BYTES]) -> Option<String> {
        let name = record.get(..11).unwrap_or_default();
        let sum = name.iter().fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
        (self.awaited == 0 && !self.units.is_empty() && self.checksum == sum)
            .then(|| String::from_utf16_lossy(&self.units))
    }
}

#[cfg(test)]
#[path = "fat_tests.rs"]
mod tests;
