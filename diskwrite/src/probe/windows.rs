//! exFAT and NTFS, whose names are files or entries of their own.

use super::bytes::{Bytes, serial, utf16};
use super::{Area, Kind, Signature};

const MAX_ENTRIES_BYTES: u64 = 64 << 10;
const MAX_CLUSTERS: u32 = 100;
/// The record of the volume in the master file table.
const VOLUME_RECORD: u64 = 3;
const VOLUME_NAME: u32 = 0x60;
const MAX_ATTRIBUTES: usize = 64;

/// Both are told by a name at the same place of the boot sector.
pub(super) fn find(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, 512)?);
    let (kind, uuid, label, is_whole) = match block.part(3, 8) {
        b"EXFAT   " => (Kind::Exfat, serial(block.part(100, 4)), exfat_label(area, &block), true),
        b"NTFS    " => {
            let id = Some(block.le64(72)).filter(|id| *id != 0).map(|id| format!("{id:016X}"));
            let record = volume_record(area, &block);
            (Kind::Ntfs, id, record.as_ref().and_then(volume_name), record.is_some())
        }
        _ => return None,
    };
    let mut magics = vec![area.on_disk(3, 8)];
    magics.extend((block.part(510, 2) == [0x55, 0xAA]).then(|| area.on_disk(510, 2)));
    Some(Signature { label, uuid, remains: !is_whole, ..Signature::new(kind, magics) })
}

/// The entry of the root directory that names the volume (Microsoft's exFAT specification, 7.3).
fn exfat_label(area: &Area<'_>, block: &Bytes) -> Option<String> {
    let (sector_bits, cluster_bits) = (block.byte(108), block.byte(109));
    let sector = 1u64.checked_shl(sector_bits.into())?;
    let cluster_bytes = sector.checked_mul(1u64.checked_shl(cluster_bits.into())?)?;
    let place = |sectors: u32| u64::from(sectors).checked_mul(sector);
    let mut cluster = block.le32(96);
    for _ in 0..MAX_CLUSTERS {
        let at = place(block.le32(88))?.checked_add(u64::from(cluster.checked_sub(2)?).checked_mul(cluster_bytes)?)?;
        let entries = area.get(at, cluster_bytes.min(MAX_ENTRIES_BYTES))?;
        for entry in entries.chunks_exact(32) {
            match entry.first()? {
                0 => return None,
                0x83 => return utf16(entry.get(2..2 + usize::from(*entry.get(1)?).min(11) * 2)?),
                _ => {}
            }
        }
        let next = area.get(place(block.le32(80))?.checked_add(u64::from(cluster) * 4)?, 4)?;
        cluster = Some(Bytes(next).le32(0)).filter(|next| *next <= 0x0FFF_FFF6)?;
    }
    None
}

/// The record of the master file table that has the volume's name, if the boot sector leads there.
fn volume_record(area: &Area<'_>, block: &Bytes) -> Option<Bytes> {
    let sector = Some(block.le16(11)).filter(|sector| (256..=4096).contains(sector))?;
    let sectors: u64 = match block.byte(13) {
        count if count.is_power_of_two() => count.into(),
        bits @ 240..=249 => 1u64.checked_shl(256 - u32::from(bits))?,
        _ => return None,
    };
    let cluster_bytes = Some(sectors * u64::from(sector)).filter(|bytes| *bytes <= 2 << 20)?;
    // These are FAT's.
    let zeros = [block.le16(14), block.le16(17), block.le16(19), block.le16(22), u16::from(block.byte(16))];
    if zeros != [0; 5] || block.le32(32) != 0 {
        return None;
    }
    let record_bytes = match block.byte(64) {
        count @ 1..=64 if count.is_power_of_two() => u64::from(count) * cluster_bytes,
        bits @ 0xE1..=0xF7 => 1u64.checked_shl(256 - u32::from(bits))?,
        _ => return None,
    };
    let clusters = block.le64(40) / sectors;
    if block.le64(48) > clusters || block.le64(56) > clusters {
        return None;
    }
    let table = block.le64(48).checked_mul(cluster_bytes)?;
    let volume = table.checked_add(VOLUME_RECORD.checked_mul(record_bytes)?)?;
    if !area.has(table, b"FILE") || !area.has(volume, b"FILE") {
        return None;
    }
    area.get(volume, record_bytes.min(64 << 10)).map(Bytes)
}

fn volume_name(record: &Bytes) -> Option<String> {
    let mut at = usize::from(record.le16(20));
    for _ in 0..MAX_ATTRIBUTES {
        let (kind, len) = (record.le32(at), usize::try_from(record.le32(at.checked_add(4)?)).ok()?);
        if kind == VOLUME_NAME {
            let value = at.checked_add(record.le16(at.checked_add(20)?).into())?;
            return utf16(record.part(value, usize::try_from(record.le32(at.checked_add(16)?)).ok()?));
        }
        if kind == u32::MAX || len == 0 {
            break;
        }
        at = at.checked_add(len)?;
    }
    None
}
