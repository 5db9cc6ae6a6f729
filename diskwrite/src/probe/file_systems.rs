//! File systems whose kind or place takes more than a magic number.

use super::bytes::Bytes;
use super::{Area, Kind, Signature};

/// ext2, ext3, ext4 or a journal of theirs (`fs/ext4/ext4.h`), told apart by features as libblkid does.
pub(super) fn ext(area: &Area<'_>) -> Option<Signature> {
    const JOURNAL: u32 = 4;
    const JOURNAL_DEVICE: u32 = 8;
    const TEST: u32 = 4;
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
    } else if block.le32(352) & TEST != 0 {
        Kind::Ext4dev
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

/// Btrfs with its mirrors (`fs/btrfs/disk-io.h`, `btrfs_sb_offset`).
pub(super) fn btrfs(area: &Area<'_>) -> Option<Signature> {
    const MAGIC: &[u8] = b"_BHRfS_M";
    const PLACES: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
    let found: Vec<u64> = PLACES.into_iter().filter(|at| area.has(at.saturating_add(64), MAGIC)).collect();
    let at = *found.first()?;
    let block = Bytes(area.get(at, 4096)?);
    let magics = found.iter().map(|at| area.on_disk(at.saturating_add(64), 8)).collect();
    let remains = at != PLACES[0];
    let detail = remains.then(|| "first superblock damaged".to_owned());
    let devices = block.le64(136);
    let detail = detail.or_else(|| (devices > 1).then(|| format!("one of {devices} devices")));
    let (label, uuid) = (block.text(299, 256), block.uuid(32));
    Some(Signature { label, uuid, detail, remains, ..Signature::new(Kind::Btrfs, magics) })
}

/// `include/linux/f2fs_fs.h`.
pub(super) fn f2fs(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(1024, 2048)?);
    // The first version names nothing.
    let has_names = (block.le16(4), block.le16(6)) != (1, 0);
    (block.le32(0) == 0xF2F5_2010).then(|| Signature {
        label: block.utf16(124, 512).filter(|_| has_names),
        uuid: block.uuid(108).filter(|_| has_names),
        ..Signature::new(Kind::F2fs, vec![area.on_disk(1024, 4)])
    })
}

/// UFS of BSD and Solaris in either order of bytes (`fs/ufs/ufs_fs.h`).
pub(super) fn ufs(area: &Area<'_>) -> Option<Signature> {
    const SECOND: u32 = 0x1954_0119;
    const MAGICS: [u32; 6] = [SECOND, 0x0001_1954, 0x0019_5612, 0x0009_5014, 0x0061_2195, 0x0523_1994];
    const MAGIC_AT: u64 = 1372;
    [0u64, 8 << 10, 64 << 10, 256 << 10].into_iter().find_map(|at| {
        let block = Bytes(area.get(at, 1376)?);
        let (little, big) = (block.le32(1372), block.be32(1372));
        let magic = MAGICS.into_iter().find(|magic| [little, big].contains(magic))?;
        let word = |at| if magic == big { block.be32(at) } else { block.le32(at) };
        let id = (word(144), word(148));
        Some(Signature {
            label: block.text(680, 32).filter(|_| magic == SECOND),
            uuid: (id != (0, 0)).then(|| format!("{:08x}{:08x}", id.0, id.1)),
            ..Signature::new(Kind::Ufs, vec![area.on_disk(at + MAGIC_AT, 4)])
        })
    })
}

/// XFS's journal on a device of its own: the first record in 256 KiB (`fs/xfs/libxfs/xfs_log_format.h`).
pub(super) fn xfs_log(area: &Area<'_>) -> Option<Signature> {
    const LOOK_BYTES: u64 = 256 << 10;
    const LEAST_BYTES: u64 = 10 << 20;
    let head = area.get(0, LOOK_BYTES).filter(|_| area.len() >= LEAST_BYTES)?;
    let (at, block) = (0u64..)
        .step_by(512)
        .zip(head.chunks_exact(512))
        .find(|(_, block)| block.starts_with(b"XFSB") || block.starts_with(b"\xFE\xED\xBA\xBE"))?;
    let block = Bytes(block.to_vec());
    let is_record = (1..=3).contains(&block.be32(8))
        && (1..=0x7FFF_FFFF).contains(&block.be32(12))
        && (1..=3).contains(&block.be32(300));
    (block.part(0, 4) != b"XFSB" && is_record).then(|| Signature::new(Kind::XfsLog, vec![area.on_disk(at, 4)]))
}
