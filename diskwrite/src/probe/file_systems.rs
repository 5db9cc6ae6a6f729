//! File systems and swap.

use super::bytes::{Bytes, grouped};
use super::{Area, Kind, Signature};

/// ext2, ext3, ext4 or a journal of theirs (`fs/ext4/ext4.h`), told apart by features as libblkid does.
pub(super) fn ext(area: &Area<'_>) -> Option<Signature> {
    const JOURNAL: u32 = 4;
    const JOURNAL_DEVICE: u32 = 8;
    // What the ext3 driver knows: filetype, recover, meta_bg; sparse_super, large_file, btree_dir.
    const EXT3_INCOMPATIBLE: u32 = 2 | 4 | 16;
    const EXT3_READ_ONLY: u32 = 1 | 2 | 4;
    let block = Bytes(area.get(1024, 1024)?);
    if block.le16(56) != 0xEF53 {
        return None;
    }
    let (compatible, incompatible, read_only) = (block.le32(92), block.le32(96), block.le32(100));
    let kind = if incompatible & JOURNAL_DEVICE != 0 {
        Kind::Journal
    } else if incompatible & !EXT3_INCOMPATIBLE != 0 || read_only & !EXT3_READ_ONLY != 0 {
        Kind::Ext4
    } else if compatible & JOURNAL != 0 {
        Kind::Ext3
    } else {
        Kind::Ext2
    };
    let magics = vec![area.on_disk(1024 + 56, 2)];
    Some(Signature { label: block.text(120, 16), uuid: block.uuid(104), ..Signature::new(kind, magics) })
}

/// `fs/xfs/libxfs/xfs_format.h`.
pub(super) fn xfs(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, 512)?);
    // A power of two from 512 to 64 KiB; the magic alone is ordinary text.
    let size = block.be32(4);
    (block.part(0, 4) == b"XFSB" && size.is_power_of_two() && (512..=65536).contains(&size)).then(|| Signature {
        label: block.text(108, 12),
        uuid: block.uuid(32),
        ..Signature::new(Kind::Xfs, vec![area.on_disk(0, 4)])
    })
}

/// Btrfs with its mirrors (`fs/btrfs/disk-io.h`, `btrfs_sb_offset`).
pub(super) fn btrfs(area: &Area<'_>) -> Option<Signature> {
    const MAGIC: &[u8] = b"_BHRfS_M";
    const PLACES: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
    let found: Vec<u64> = PLACES.into_iter().filter(|at| area.has(at.saturating_add(64), MAGIC)).collect();
    let at = *found.first()?;
    let block = Bytes(area.get(at, 4096)?);
    let magics = found.iter().map(|at| area.on_disk(at.saturating_add(64), 8)).collect();
    let detail = (at != PLACES[0]).then(|| "first superblock damaged".to_owned());
    let devices = block.le64(136);
    let detail = detail.or_else(|| (devices > 1).then(|| format!("one of {devices} devices")));
    Some(Signature { label: block.text(299, 256), uuid: block.uuid(32), detail, ..Signature::new(Kind::Btrfs, magics) })
}

/// `include/linux/f2fs_fs.h`.
pub(super) fn f2fs(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(1024, 2048)?);
    (block.le32(0) == 0xF2F5_2010).then(|| Signature {
        label: block.utf16(124, 512),
        uuid: block.uuid(108),
        ..Signature::new(Kind::F2fs, vec![area.on_disk(1024, 4)])
    })
}

/// FAT of every width, by the boot sector.
pub(super) fn vfat(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, 512)?);
    let wide = [&b"FAT32   "[..], b"MSWIN"].into_iter().find(|magic| block.part(0x52, magic.len()) == *magic);
    let narrow = [&b"FAT12   "[..], b"FAT16   ", b"FAT     ", b"MSDOS"];
    let narrow = narrow.into_iter().find(|magic| block.part(0x36, magic.len()) == *magic);
    let (at, magic) = wide.map(|magic| (0x52, magic)).or(narrow.map(|magic| (0x36, magic)))?;
    if !is_fat_geometry(&block) {
        return None;
    }
    let (id, label) = if wide.is_some() { (0x43, 0x47) } else { (0x27, 0x2B) };
    let id = format!("{:08X}", block.le32(id));
    let label = block.text(label, 11).filter(|label| label != "NO NAME");
    // Without the jump and the sector's end, some still take it for FAT.
    let mut magics = vec![area.on_disk(0, 1), area.on_disk(at, u64::try_from(magic.len()).unwrap_or(0))];
    magics.extend(has_boot_signature(&block).then(|| area.on_disk(510, 2)));
    let width = if wide.is_some() { "FAT32".to_owned() } else { String::from_utf8_lossy(magic).trim().to_owned() };
    let uuid = grouped(&id, &[4, 4]);
    Some(Signature { label, uuid, detail: Some(width), ..Signature::new(Kind::Vfat, magics) })
}

fn is_fat_geometry(block: &Bytes) -> bool {
    let (sector, cluster, reserved, fats, media) =
        (block.le16(11), block.byte(13), block.le16(14), block.byte(16), block.byte(21));
    sector.is_power_of_two()
        && (512..=4096).contains(&sector)
        && cluster.is_power_of_two()
        && reserved != 0
        && fats != 0
        && (media == 0xF0 || media >= 0xF8)
}

fn has_boot_signature(block: &Bytes) -> bool {
    block.part(510, 2) == [0x55, 0xAA]
}

/// exFAT and NTFS, distinguished by the name at the same place of the boot sector.
pub(super) fn exfat_or_ntfs(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, 512)?);
    let (kind, uuid) = match block.part(3, 8) {
        b"EXFAT   " => (Kind::Exfat, grouped(&format!("{:08X}", block.le32(100)), &[4, 4])),
        b"NTFS    " => (Kind::Ntfs, Some(format!("{:016X}", block.le64(72)))),
        _ => return None,
    };
    let mut magics = vec![area.on_disk(3, 8)];
    magics.extend(has_boot_signature(&block).then(|| area.on_disk(510, 2)));
    Some(Signature { uuid, ..Signature::new(kind, magics) })
}

/// ISO 9660's primary volume descriptor (ECMA-119, 8.4).
pub(super) fn iso9660(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(32768, 2048)?);
    if block.part(0, 7) != b"\x01CD001\x01" {
        return None;
    }
    // When it was modified, else when it was made: 16 digits and the zone.
    let date = [830, 813].into_iter().find_map(|at| {
        let date = block.part(at, 16);
        let is_set = date.iter().all(u8::is_ascii_digit) && date.iter().any(|digit| *digit != b'0');
        is_set.then(|| String::from_utf8_lossy(date).into_owned())
    });
    let uuid = date.and_then(|date| grouped(&date, &[4, 2, 2, 2, 2, 2, 2]));
    Some(Signature { label: block.text(40, 32), uuid, ..Signature::new(Kind::Iso9660, vec![area.on_disk(32769, 5)]) })
}

/// UDF's volume recognition sequence (ECMA-167 2/8): `NSR02` or `NSR03` in one of the sectors from 16 on.
pub(super) fn udf(area: &Area<'_>) -> Option<Signature> {
    let places = (16u64..32).map(|sector| sector * 2048 + 1);
    let is_nsr = |at: &u64| area.has(*at, b"NSR02") || area.has(*at, b"NSR03");
    let magics: Vec<_> = places.filter(is_nsr).map(|at| area.on_disk(at, 5)).collect();
    (!magics.is_empty()).then(|| Signature::new(Kind::Udf, magics))
}

/// `fs/squashfs/squashfs_fs.h`.
pub(super) fn squashfs(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, 96)?);
    let major = block.le16(28);
    (block.part(0, 4) == b"hsqs" && major >= 3).then(|| Signature {
        detail: Some(format!("version {major}.{}", block.le16(30))),
        ..Signature::new(Kind::Squashfs, vec![area.on_disk(0, 4)])
    })
}

/// `fs/erofs/erofs_fs.h`.
pub(super) fn erofs(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(1024, 128)?);
    (block.le32(0) == 0xE0F5_E1E2).then(|| Signature {
        label: block.text(64, 16),
        uuid: block.uuid(48),
        ..Signature::new(Kind::Erofs, vec![area.on_disk(1024, 4)])
    })
}

/// Swap, free or with a hibernated system in it, for each page size (`include/linux/swap.h`, `kernel/power/swap.c`).
pub(super) fn swap(area: &Area<'_>) -> Option<Signature> {
    const MAGICS: [(&[u8], Kind); 6] = [
        (b"SWAPSPACE2", Kind::Swap),
        (b"SWAP-SPACE", Kind::Swap),
        (b"S1SUSPEND", Kind::Hibernation),
        (b"S2SUSPEND", Kind::Hibernation),
        (b"ULSUSPEND", Kind::Hibernation),
        (b"LINHIB0001", Kind::Hibernation),
    ];
    let pages = [4096u64, 8192, 16384, 32768, 65536].into_iter().map(|page| page - 10);
    let mut places = pages.flat_map(|at| MAGICS.into_iter().map(move |(magic, kind)| (at, magic, kind)));
    let (at, magic, kind) = places.find(|(at, magic, _)| area.has(*at, magic))?;
    let block = Bytes(area.get(1024, 512)?);
    let magics = vec![area.on_disk(at, u64::try_from(magic.len()).unwrap_or(0))];
    Some(Signature { label: block.text(28, 16), uuid: block.uuid(12), ..Signature::new(kind, magics) })
}

/// Apple File System Reference, `nx_superblock_t`.
pub(super) fn apfs(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, 4096)?);
    (block.part(32, 4) == b"NXSB" && block.le64(8) == 1)
        .then(|| Signature { uuid: block.uuid(72), ..Signature::new(Kind::Apfs, vec![area.on_disk(32, 4)]) })
}
