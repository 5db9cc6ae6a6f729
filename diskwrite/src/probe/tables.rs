//! Partition tables as they are, damaged ones too: to be shown, not to be used.

use super::bytes::{Bytes, guid, utf16};
use super::{Area, Kind, PartitionContents, Signature, Span, types};

const GPT: &[u8] = b"EFI PART";
/// The most of an array that is looked at: 512 entries of 128 bytes.
const MAX_ARRAY_BYTES: u64 = 64 << 10;
const MAX_LOGICAL: u32 = 60;
const PROTECTIVE: u8 = 0xEE;

/// A table with its partitions, which are not looked into yet.
pub(super) struct Found {
    pub signature: Signature,
    pub partitions: Vec<PartitionContents>,
}

/// The GPT, with either header.
pub(super) fn gpt(disk: &Area<'_>) -> Option<Found> {
    let other = if disk.sector_bytes == 512 { 4096 } else { 512 };
    [disk.sector_bytes, other].into_iter().find_map(|sector| gpt_with(disk, sector))
}

fn gpt_with(disk: &Area<'_>, sector: u64) -> Option<Found> {
    let last = (disk.len() / sector.max(1)).checked_sub(1).filter(|last| *last > 1)?;
    let primary = Header::read(disk, 1, sector);
    let elsewhere = primary.as_ref().map(|header| header.alternate_lba).filter(|lba| (2..last).contains(lba));
    let end = Header::read(disk, last, sector);
    let has_end = end.is_some();
    let backup = end.or_else(|| Header::read(disk, elsewhere?, sector));
    let magics = [&primary, &backup].into_iter().flatten().map(|header| disk.on_disk(header.at, 8));
    let mut magics: Vec<Span> = magics.collect();
    magics.first()?;
    if disk.has(510, &[0x55, 0xAA]) {
        magics.insert(0, disk.on_disk(510, 2));
    }
    let (primary_good, backup_good) =
        (primary.as_ref().is_some_and(|header| header.good), backup.as_ref().is_some_and(|header| header.good));
    let mut remarks = Vec::new();
    match (&primary, primary_good) {
        (None, _) => remarks.push("primary missing".to_owned()),
        (Some(_), false) => remarks.push("primary damaged".to_owned()),
        _ => {}
    }
    match (&backup, backup_good) {
        (None, _) => remarks.push("backup missing".to_owned()),
        (Some(_), false) => remarks.push("backup damaged".to_owned()),
        _ if !has_end => remarks.push("backup not at the disk's end".to_owned()),
        _ => {}
    }
    if sector != disk.sector_bytes {
        remarks.push(format!("made for sectors of {sector} bytes"));
    }
    let used = primary.filter(|_| primary_good || !backup_good).or(backup)?;
    let detail = (!remarks.is_empty()).then(|| remarks.join(", "));
    let signature = Signature { uuid: guid(used.disk_guid), detail, ..Signature::new(Kind::Gpt, magics) };
    // What a damaged header says of its entries is not to be believed.
    let partitions = if used.good { used.partitions(disk, sector) } else { Vec::new() };
    Some(Found { signature, partitions })
}

/// A header and its entries, with a right or a wrong checksum.
struct Header {
    at: u64,
    alternate_lba: u64,
    disk_guid: [u8; 16],
    entry_bytes: usize,
    array: Vec<u8>,
    good: bool,
}

impl Header {
    /// None if there is none at all.
    fn read(disk: &Area<'_>, lba: u64, sector: u64) -> Option<Self> {
        let at = lba.checked_mul(sector)?;
        let block = Bytes(disk.get(at, 512)?);
        if block.part(0, 8) != GPT {
            return None;
        }
        let (size, count, entry_bytes) = (block.le32(12), block.le32(80), block.le32(84));
        let array_bytes = u64::from(count).saturating_mul(entry_bytes.into());
        let array = block.le64(72).checked_mul(sector).and_then(|at| disk.get(at, array_bytes.min(MAX_ARRAY_BYTES)));
        let header = block.part(0, usize::try_from(size).unwrap_or(usize::MAX));
        let header_good = size >= 92 && block.le64(24) == lba && {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(header.get(..16).unwrap_or_default());
            hasher.update(&[0; 4]);
            hasher.update(header.get(20..).unwrap_or_default());
            hasher.finalize() == block.le32(16)
        };
        // Of an array longer than any real one the sum is not known.
        let array_good = array
            .as_ref()
            .is_some_and(|array| array_bytes > MAX_ARRAY_BYTES || crc32fast::hash(array) == block.le32(88));
        Some(Self {
            at,
            alternate_lba: block.le64(32),
            disk_guid: block.part(56, 16).try_into().unwrap_or_default(),
            entry_bytes: usize::try_from(entry_bytes).unwrap_or_default(),
            array: array.unwrap_or_default(),
            good: header_good && array_good && entry_bytes >= 128,
        })
    }

    fn partitions(&self, disk: &Area<'_>, sector: u64) -> Vec<PartitionContents> {
        let entries = (1u32..).zip(self.array.chunks_exact(self.entry_bytes.max(128)));
        let read = |(number, entry): (u32, &[u8])| {
            let entry = Bytes(entry.to_vec());
            let type_id = guid(entry.part(0, 16).try_into().ok()?)?;
            let (first, last) = (entry.le64(32), entry.le64(40));
            let sectors = last.checked_sub(first)?.checked_add(1)?;
            let span = disk.on_disk(first.checked_mul(sector)?, sectors.checked_mul(sector)?);
            Some(PartitionContents {
                number,
                span,
                name: utf16(entry.part(56, 72)).unwrap_or_default(),
                type_name: types::gpt(&type_id).map(str::to_owned),
                type_id,
                signatures: Vec::new(),
            })
        };
        entries.filter_map(read).collect()
    }
}

/// The MBR's partitions with the logical ones, unless it only protects a GPT.
pub(super) fn mbr(disk: &Area<'_>, has_gpt: bool) -> Option<Found> {
    let entries = mbr_entries(disk, 0)?;
    let used: Vec<_> = (1u32..).zip(entries).filter(|(_, entry)| entry.kind != 0 && entry.sectors != 0).collect();
    if used.is_empty() || (has_gpt && used.iter().all(|(_, entry)| entry.kind == PROTECTIVE)) {
        return None;
    }
    let mut partitions: Vec<_> = used.iter().map(|(number, entry)| entry.partition(disk, *number, 0)).collect();
    if let Some((_, extended)) = used.iter().find(|(_, entry)| entry.is_extended()) {
        partitions.extend(logical(disk, extended.start.into()));
    }
    let id = Bytes(disk.get(440, 4)?).le32(0);
    let detail = used.iter().any(|(_, entry)| entry.kind == PROTECTIVE);
    let detail =
        detail.then(|| if has_gpt { "hybrid, beside the GPT" } else { "protects a GPT that is gone" }.to_owned());
    let uuid = (id != 0).then(|| format!("{id:08x}"));
    let signature = Signature { uuid, detail, ..Signature::new(Kind::Mbr, vec![disk.on_disk(510, 2)]) };
    Some(Found { signature, partitions })
}

struct MbrEntry {
    kind: u8,
    start: u32,
    sectors: u32,
}

impl MbrEntry {
    fn is_extended(&self) -> bool {
        [0x05, 0x0F, 0x85].contains(&self.kind)
    }

    fn partition(&self, disk: &Area<'_>, number: u32, base: u64) -> PartitionContents {
        let start = base.saturating_add(self.start.into()).saturating_mul(disk.sector_bytes);
        PartitionContents {
            number,
            span: disk.on_disk(start, u64::from(self.sectors).saturating_mul(disk.sector_bytes)),
            name: String::new(),
            type_id: format!("0x{:02x}", self.kind),
            type_name: types::mbr(self.kind).map(str::to_owned),
            signatures: Vec::new(),
        }
    }
}

/// The four entries of the record at this sector; None if it is not a record.
fn mbr_entries(disk: &Area<'_>, lba: u64) -> Option<[MbrEntry; 4]> {
    let block = Bytes(disk.get(lba.checked_mul(disk.sector_bytes)?, 512)?);
    let places = [446, 462, 478, 494];
    let is_flag = |at: usize| block.byte(at) & 0x7F == 0;
    if block.part(510, 2) != [0x55, 0xAA] || !places.into_iter().all(is_flag) {
        return None;
    }
    Some(places.map(|at| MbrEntry {
        kind: block.byte(at + 4),
        start: block.le32(at + 8),
        sectors: block.le32(at + 12),
    }))
}

/// The chain of extended boot records: each names one partition, from its own place on, and the next record, from the
/// extended partition's.
fn logical(disk: &Area<'_>, extended: u64) -> Vec<PartitionContents> {
    let mut found = Vec::new();
    let (mut at, mut number) = (extended, 5);
    while number < 5 + MAX_LOGICAL {
        let Some([entry, next, ..]) = mbr_entries(disk, at) else { break };
        if entry.kind != 0 && entry.sectors != 0 {
            found.push(entry.partition(disk, number, at));
            number += 1;
        }
        let after = extended.saturating_add(next.start.into());
        // Records go up; whatever goes back is a ring.
        if !next.is_extended() || after <= at {
            break;
        }
        at = after;
    }
    found
}
