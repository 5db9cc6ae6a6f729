//! Members of LVM, RAID, encryption and the like.

use super::bytes::{Bytes, grouped, text};
use super::{Area, Kind, Signature, Span};
use kernel::order;

const SECTOR: u64 = 512;

/// The label of LVM's `lib/label/label.h` in one of the first four sectors, and the volume group's name from the metadata.
pub(super) fn lvm2(area: &Area<'_>) -> Option<Signature> {
    let at = (0..4)
        .map(|sector| sector * SECTOR)
        .find(|at| area.has(*at, b"LABELONE") && area.has(at.saturating_add(24), b"LVM2 001"))?;
    let label = Bytes(area.get(at, SECTOR)?);
    let header = usize::try_from(label.le32(20)).ok().filter(|at| *at < 512)?;
    let id = String::from_utf8_lossy(label.part(header, 32)).into_owned();
    let uuid = grouped(&id, &[6, 4, 4, 4, 4, 4, 6]).filter(|_| id.bytes().all(|byte| byte.is_ascii_graphic()));
    let name = lvm2_metadata(area, &label, header);
    let detail = name.is_none().then(|| "in no volume group".to_owned());
    let magics = vec![area.on_disk(at, 8), area.on_disk(at.saturating_add(24), 8)];
    // A sum with a start of its own, and without the complement.
    let mut crc = crc32fast::Hasher::new_with_initial(!0xF597_A6CF);
    crc.update(label.part(20, 492));
    let is_whole = label.le64(8) == at / SECTOR && !crc.finalize() == label.le32(16);
    Some(Signature { label: name, uuid, detail, remains: !is_whole, ..Signature::new(Kind::Lvm2, magics) })
}

/// The volume group's name: the first word of the newest metadata text (`lib/format_text/layout.h`).
fn lvm2_metadata(area: &Area<'_>, label: &Bytes, header: usize) -> Option<String> {
    // After identifier and size: the data areas up to a zero one, then the metadata areas.
    let pairs = (header.checked_add(40)?..496).step_by(16).map(|at| label.le64(at));
    let metadata = pairs.skip_while(|offset| *offset != 0).nth(1).filter(|offset| *offset != 0)?;
    if !area.has(metadata.checked_add(4)?, b" LVM2 x[5A%r0N*>") {
        return None;
    }
    let header = Bytes(area.get(metadata, SECTOR)?);
    let (offset, size) = (header.le64(40), header.le64(48));
    let text = if size == 0 { return None } else { area.get(metadata.checked_add(offset)?, 128)? };
    let end = text.windows(2).position(|pair| pair == b" {")?;
    let name = text.get(..end)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"+_.-".contains(byte);
    (!name.is_empty() && name.iter().all(is_name)).then(|| String::from_utf8_lossy(name).into_owned())
}

/// Linux MD RAID of every metadata version (`include/uapi/linux/raid/md_p.h`).
pub(super) fn md_raid(area: &Area<'_>) -> Vec<Signature> {
    const MAGIC: u32 = 0xA92B_4EFC;
    let mut found = Vec::new();
    let sectors = area.len() / SECTOR;
    let version_1_0 = sectors.checked_sub(16).map(|sector| (sector & !7).saturating_mul(SECTOR));
    for (at, minor) in [(version_1_0, 0), (Some(0), 1), (Some(4096), 2)] {
        let Some((at, block)) = at.and_then(|at| Some((at, Bytes(area.get(at, SECTOR)?)))) else { continue };
        if block.le32(0) != MAGIC || block.le32(4) != 1 || block.le64(144) != at / SECTOR {
            continue;
        }
        let detail = format!("version 1.{minor}, {} of {} devices", level(block.le32(72)), block.le32(92));
        found.push(Signature {
            label: block.text(32, 32),
            uuid: block.uuid(16),
            detail: Some(detail),
            ..Signature::new(Kind::MdRaid, vec![area.on_disk(at, 4)])
        });
    }
    let old = (area.len() & !0xFFFF).checked_sub(0x1_0000);
    if let Some((at, block)) = old.and_then(|at| Some((at, Bytes(area.get(at, SECTOR)?)))) {
        let little = block.le32(0) == MAGIC;
        let word = |index: usize| if little { block.le32(index * 4) } else { block.be32(index * 4) };
        if word(0) == MAGIC && word(1) == 0 {
            let hex: String = [word(5), word(13), word(14), word(15)].iter().map(|id| format!("{id:08x}")).collect();
            let detail = format!("version 0.{}, {} of {} devices", word(2), level(word(7)), word(10));
            found.push(Signature {
                uuid: grouped(&hex, &[8, 4, 4, 4, 12]),
                detail: Some(detail),
                ..Signature::new(Kind::MdRaid, vec![area.on_disk(at, 4)])
            });
        }
    }
    found
}

/// What a member of a mirror has of the array, which may be more than is found at its start.
pub(super) fn mirrored(area: &Area<'_>) -> Option<Span> {
    const MIRROR: u32 = 1;
    let block = [0, 4096].into_iter().find_map(|at| {
        Some(Bytes(area.get(at, SECTOR)?)).filter(|block| {
            block.part(0, 8) == b"\xfc\x4e\x2b\xa9\x01\0\0\0"
                && block.le64(144) == at / SECTOR
                && block.le32(72) == MIRROR
        })
    })?;
    let (offset, len) = (block.le64(128).checked_mul(SECTOR)?, block.le64(136).checked_mul(SECTOR)?);
    let len = len.min(area.len().checked_sub(offset)?);
    Some(area.on_disk(offset, len)).filter(|span| offset != 0 && span.len != 0)
}

fn level(level: u32) -> String {
    match level {
        0 | 1 | 4 | 5 | 6 | 10 => format!("RAID level {level}"),
        0xFFFF_FFFF => "linear".to_owned(),
        _ => format!("unknown RAID level {level:#x}"),
    }
}

/// LUKS 1 and 2 (LUKS2 On-Disk Format Specification 1.1, section 2).
pub(super) fn luks(area: &Area<'_>) -> Option<Signature> {
    const SECOND: &[u8] = b"SKUL\xba\xbe";
    let first = area.has(0, b"LUKS\xba\xbe");
    // The second header begins where the first's area ends, which is one of these sizes.
    let sizes = (14..=22).map(|bits| 1u64 << bits);
    let is_second = |at: u64| area.get(at, 512).map(Bytes).is_some_and(|b| b.part(0, 6) == SECOND && b.be64(256) == at);
    let second: Vec<u64> = sizes.filter(|at| is_second(*at)).collect();
    let at = if first { 0 } else { *second.first()? };
    let header = Bytes(area.get(at, 512)?);
    let version = header.be16(6);
    let magics = first.then_some(0).into_iter().chain(second).map(|at| area.on_disk(at, 6)).collect();
    let label = if version >= 2 { header.text(24, 48) } else { None };
    let damaged = if first { "" } else { ", first header damaged" };
    let detail = Some(format!("version {version}{damaged}"));
    Some(Signature { label, uuid: header.text(168, 40), detail, ..Signature::new(Kind::Luks, magics) })
}

/// Ceph's BlueStore label: text, with the OSD's UUID in the second line. Since Squid it has copies further in, by which it can be
/// brought back (Ceph `src/os/bluestore/BlueStore.cc`, `bdev_label_positions`).
pub(super) fn bluestore(area: &Area<'_>) -> Option<Signature> {
    const MAGIC: &[u8] = b"bluestore block device";
    const PLACES: [u64; 5] = [0, 1 << 30, 10 << 30, 100 << 30, 1000 << 30];
    let found: Vec<u64> = PLACES.into_iter().filter(|at| area.has(*at, MAGIC)).collect();
    let at = *found.first()?;
    let block = Bytes(area.get(at, SECTOR)?);
    let uuid = text(block.part(23, 36)).filter(|id| id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'));
    let remains = at != 0;
    let detail = remains.then(|| "first label damaged".to_owned());
    let magics = found.iter().map(|at| area.on_disk(*at, 22)).collect();
    Some(Signature { uuid, detail, remains, ..Signature::new(Kind::Bluestore, magics) })
}

/// DRBD's internal metadata, 8.3 to 9, in the last 4 KiB.
pub(super) fn drbd(area: &Area<'_>) -> Option<Signature> {
    let at = (area.len() & !4095).checked_sub(4096)?;
    let block = Bytes(area.get(at, SECTOR)?);
    let version = match block.be32(60) {
        0x8374_026B | 0x8374_026C => "version 8",
        0x8374_026D => "version 9",
        _ => return None,
    };
    let id = if version == "version 9" { block.be64(48) } else { block.be64(40) };
    let magics = vec![area.on_disk(at.saturating_add(60), 4)];
    let uuid = (id != 0).then(|| format!("{id:x}"));
    Some(Signature { uuid, detail: Some(version.to_owned()), ..Signature::new(Kind::Drbd, magics) })
}

/// ZFS: the labels at the four places (OpenZFS `include/sys/vdev_impl.h`), each with the pool's name and 128 KiB of
/// uberblocks. A label is cleared when its list and all uberblocks are.
pub(super) fn zfs(area: &Area<'_>) -> Option<Signature> {
    const LABEL: u64 = 256 << 10;
    const LIST: u64 = 16 << 10;
    const RING: u64 = 128 << 10;
    const UBERBLOCK: u64 = 0x00BA_B10C;
    const WHOLE_UBERBLOCKS: u32 = 4;
    const LEAST_BYTES: u64 = 64 << 20;
    let end = area.len() & !(LABEL - 1);
    let mut starts: Vec<u64> =
        [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)].into_iter().flatten().collect();
    order::sort(&mut starts);
    starts.dedup();
    let (mut magics, mut pool): (Vec<Span>, _) = (Vec::new(), None);
    let (mut labels, mut uberblocks) = (0, 0);
    for start in starts {
        let Some(ring) = area.get(start.saturating_add(RING), RING) else { continue };
        let before = magics.len();
        for (index, block) in (0u64..).zip(ring.chunks_exact(1024)) {
            let head: [u8; 8] = block.get(..8).and_then(|head| head.try_into().ok()).unwrap_or_default();
            if u64::from_le_bytes(head) == UBERBLOCK || u64::from_be_bytes(head) == UBERBLOCK {
                magics.push(area.on_disk(start.saturating_add(RING).saturating_add(index * 1024), 8));
                uberblocks += 1;
            }
        }
        let list = area.get(start.saturating_add(LIST), 112 << 10).map(Bytes);
        let found = list.as_ref().and_then(zfs_list).filter(|pool| pool.0.is_some());
        if found.is_some() {
            magics.push(area.on_disk(start.saturating_add(LIST), 12));
        }
        labels += u32::from(magics.len() > before);
        pool = pool.or(found);
    }
    if magics.is_empty() {
        return None;
    }
    order::sort(&mut magics);
    let (label, uuid) = pool.unwrap_or_default();
    let detail = Some(format!("{labels} of 4 labels"));
    // Less is what a former pool leaves behind what was made over it.
    let remains = uberblocks < WHOLE_UBERBLOCKS || area.len() < LEAST_BYTES;
    Some(Signature { label, uuid, detail, remains, ..Signature::new(Kind::Zfs, magics) })
}

/// Name and GUID of the pool out of a label's list of names and values in XDR (OpenZFS `module/nvpair/nvpair.c`).
fn zfs_list(list: &Bytes) -> Option<(Option<String>, Option<String>)> {
    const U64: u32 = 8;
    const STRING: u32 = 9;
    if list.byte(0) != 1 || list.byte(1) > 1 {
        return None;
    }
    let (mut name, mut guid, mut at) = (None, None, 12usize);
    // A pair has at least 24 bytes; a list, some thousand pairs.
    for _ in 0..4096 {
        let size = usize::try_from(list.be32(at)).ok()?;
        if size < 24 || list.part(at, size).is_empty() {
            break;
        }
        let key_len = usize::try_from(list.be32(at.checked_add(8)?)).ok().filter(|len| *len <= size)?;
        let key = list.part(at.checked_add(12)?, key_len);
        let value = at.checked_add(12)?.checked_add(key_len.checked_next_multiple_of(4)?)?;
        let content = value.checked_add(8)?;
        match (key, list.be32(value)) {
            (b"name", STRING) => {
                let len = usize::try_from(list.be32(content)).ok().filter(|len| *len <= 256)?;
                name = list.text(content.checked_add(4)?, len);
            }
            (b"pool_guid", U64) => guid = Some(list.be64(content).to_string()),
            _ => {}
        }
        at = at.checked_add(size)?;
    }
    Some((name, guid))
}
