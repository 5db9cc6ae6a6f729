//! What must be right beside a magic number, by libblkid's rules.

use super::Kind;
use super::bytes::Bytes;
use super::superblock::Superblock;

/// What a magic number is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    /// It is there by chance.
    None,
    /// Of something that is damaged, or was there once.
    Remains,
    Whole,
}

/// How a number is stored.
#[derive(Clone, Copy)]
enum Form {
    Byte,
    Le16,
    Le32,
    Be32,
}

/// A number that is in a range.
struct Rule {
    kind: Kind,
    form: Form,
    at: u16,
    low: u32,
    high: u32,
}

const fn rule(kind: Kind, form: Form, at: u16, low: u32, high: u32) -> Rule {
    Rule { kind, form, at, low, high }
}

const fn same(kind: Kind, form: Form, at: u16, value: u32) -> Rule {
    rule(kind, form, at, value, value)
}

static RULES: [Rule; 29] = [
    rule(Kind::ViaRaid, Form::Byte, 2, 0, 2),
    rule(Kind::SiliconRaid, Form::Byte, 0x116, 0, 7),
    same(Kind::AdaptecRaid, Form::Be32, 256, 0x4450_544D),
    same(Kind::Bcache, Form::Le32, 8, 8),
    same(Kind::Bcache, Form::Le32, 12, 0),
    rule(Kind::Lvm1, Form::Le16, 2, 1, 2),
    same(Kind::Verity, Form::Le32, 8, 1),
    rule(Kind::Integrity, Form::Byte, 8, 1, 255),
    same(Kind::FileVault, Form::Le16, 8, 1),
    same(Kind::FileVault, Form::Le16, 10, 0x10),
    same(Kind::FileVault, Form::Le32, 90, 1),
    same(Kind::FileVault, Form::Le32, 168, 16),
    same(Kind::FileVault, Form::Le32, 172, 2),
    rule(Kind::Reiserfs, Form::Le16, 44, 512, 65535),
    same(Kind::Gfs, Form::Be32, 24, 1309),
    same(Kind::Gfs, Form::Be32, 28, 1401),
    rule(Kind::Gfs2, Form::Be32, 24, 1800, 1899),
    rule(Kind::Gfs2, Form::Be32, 28, 1900, 1999),
    rule(Kind::Squashfs, Form::Le16, 28, 4, 65535),
    rule(Kind::Nilfs2, Form::Le16, 8, 20, 1024),
    same(Kind::Apfs, Form::Le16, 24, 1),
    same(Kind::Apfs, Form::Le32, 28, 0),
    same(Kind::Apfs, Form::Le32, 36, 4096),
    same(Kind::ScoutfsMeta, Form::Byte, 48, 1),
    same(Kind::ScoutfsData, Form::Byte, 48, 0),
    same(Kind::Ultrix, Form::Le32, 444, 1),
    same(Kind::Unixware, Form::Le32, 156, 0x600D_DEEE),
    same(Kind::Solaris, Form::Le32, 16, 1),
    rule(Kind::Mac, Form::Byte, 2, 1, 255),
];

/// What a magic number is worth that does not fit: those of a few characters, or of several kinds, are there by chance.
fn is_common(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Bcache
            | Kind::Lvm1
            | Kind::FileVault
            | Kind::HfsPlus
            | Kind::Hfs
            | Kind::Minix
            | Kind::Gfs
            | Kind::Gfs2
            | Kind::Squashfs
            | Kind::Squashfs3
            | Kind::ScoutfsMeta
            | Kind::ScoutfsData
            | Kind::Sgi
            | Kind::Sun
            | Kind::Mac
            | Kind::Ultrix
    )
}

pub(super) fn grade(kind: Kind, found: &Superblock<'_>) -> Grade {
    let block = &found.block;
    let fits = RULES.iter().filter(|rule| rule.kind == kind).all(|rule| {
        let at = usize::from(rule.at);
        let value = match rule.form {
            Form::Byte => block.byte(at).into(),
            Form::Le16 => block.le16(at).into(),
            Form::Le32 => block.le32(at),
            Form::Be32 => block.be32(at),
        };
        (rule.low..=rule.high).contains(&value)
    });
    // Sums are right of what fits alone: what does not may be anything.
    let (is_right, is_common) = match kind {
        Kind::ViaRaid | Kind::SiliconRaid | Kind::Nilfs2 if !fits => (false, true),
        Kind::Bcachefs => (fits && is_right(kind, found), found.magic.get(4) != Some(&0x66)),
        _ => (fits && is_right(kind, found), is_common(kind)),
    };
    match is_right {
        true => Grade::Whole,
        false if is_common => Grade::None,
        false => Grade::Remains,
    }
}

/// What takes more than a number.
fn is_right(kind: Kind, found: &Superblock<'_>) -> bool {
    let block = &found.block;
    match kind {
        Kind::DdfRaid => is_ddf(found),
        Kind::ViaRaid => block.part(0, 50).iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == block.byte(50),
        Kind::SiliconRaid => {
            let sum = (0..0x140).step_by(2).fold(0, |sum: u16, at| sum.wrapping_add(block.le16(at)));
            sum == 0
        }
        Kind::Bcachefs => block.le64(104).checked_mul(512) == Some(found.at) && block.byte(122) < block.byte(123),
        Kind::DrbdManage => block.part(11, 32).iter().all(u8::is_ascii_hexdigit) && block.byte(43) == b'\n',
        Kind::Stratis => has_crc(block, !0, 4, 508, !0, 0),
        Kind::BitLocker => is_bitlocker(found),
        Kind::FileVault => has_crc(block, block.le32(4), 8, 504, 0, 0),
        Kind::Xfs | Kind::Exfs => is_xfs(found),
        Kind::Reiserfs => {
            let places = found.at / 1024 / u64::from(block.le16(44) >> 9).max(1);
            places <= u64::from(block.le32(12) / 2)
        }
        Kind::Jfs => {
            let is_power = |size, power| 1u32.checked_shl(block.le16(power).into()) == Some(block.le32(size));
            let factor = block.le16(20).wrapping_sub(block.le16(28));
            is_power(16, 20) && is_power(24, 28) && factor == block.le16(22)
        }
        Kind::HfsPlus => found.magic != b"BD" || is_wrapper(found),
        Kind::Hfs => {
            let size = block.be32(20);
            !is_wrapper(found) && size != 0 && size.is_multiple_of(512)
        }
        Kind::Hpfs => found.area.has(0x2200, b"\x49\x18\x91\xf9"),
        Kind::Minix => is_minix(found),
        Kind::Squashfs3 => found.half(28, found.magic == b"sqsh") <= 3,
        Kind::Befs => {
            let big = found.magic == b"BFS1";
            let shift = found.word(44, big);
            let has_size = (10..=13).contains(&shift) && 1u32.checked_shl(shift) == Some(found.word(40, big));
            let words = [(36, 0x4249_4745), (68, 0xDD12_1031), (112, 0x15B6_830E)];
            has_size && words.into_iter().all(|(at, word)| found.word(at, big) == word)
        }
        Kind::Nilfs2 => {
            let len = usize::from(block.le16(8));
            let mut crc = crc32fast::Hasher::new_with_initial(!block.le32(12));
            crc.update(block.part(0, 16));
            crc.update(&[0; 4]);
            crc.update(block.part(20, len.saturating_sub(20)));
            !crc.finalize() == block.le32(16)
        }
        Kind::Mpool => has_crc(block, !0, 0, 62, !0, 62),
        Kind::ScoutfsMeta | Kind::ScoutfsData => has_crc(block, !0, 4, 4092, 0, 0),
        Kind::Sgi => (0..512).step_by(4).fold(0, |sum: u32, at| sum.wrapping_add(block.be32(at))) == 0,
        Kind::Sun => (0..512).step_by(2).fold(0, |sum, at| sum ^ block.be16(at)) == 0,
        Kind::Mac => {
            let size = u64::from(block.be16(2));
            size >= 136 && (found.area.has(size, b"PM") || found.area.has(size, b"TS"))
        }
        _ => true,
    }
}

/// The anchor names the primary header, if there is one, which begins in the same way.
fn is_ddf(found: &Superblock<'_>) -> bool {
    let big = found.magic.first() == Some(&0xDE);
    let primary = if big { found.block.be64(96) } else { found.block.le64(96) };
    primary == 0 || primary.checked_mul(512).is_some_and(|at| found.area.has(at, found.magic))
}

/// Since Windows 7 the boot sector names the metadata.
fn is_bitlocker(found: &Superblock<'_>) -> bool {
    let at = match found.magic.get(..4) {
        Some(b"\xeb\x52\x90-") => return true,
        Some(b"\xeb\x58\x90-") => 176,
        _ => 440,
    };
    let metadata = found.block.le64(at);
    metadata != 0 && found.area.has(metadata, b"-FVE-FS-")
}

/// `fs/xfs/libxfs/xfs_sb.c`, `xfs_validate_sb_common`.
fn is_xfs(found: &Superblock<'_>) -> bool {
    let block = &found.block;
    let is_power = |size: u32, log: u8, logs: std::ops::RangeInclusive<u8>| {
        logs.contains(&log) && 1u32.checked_shl(log.into()) == Some(size)
    };
    let (size, blocks) = (block.be32(4), block.be64(8));
    let (groups, group) = (u64::from(block.be32(88)), u64::from(block.be32(84)));
    let extent = block.be32(80).wrapping_mul(size);
    groups != 0
        && is_power(size, block.byte(120), 9..=16)
        && is_power(block.be16(102).into(), block.byte(121), 9..=15)
        && is_power(block.be16(104).into(), block.byte(122), 8..=11)
        && block.byte(120).checked_sub(block.byte(122)) == Some(block.byte(123))
        && (4096..=1 << 30).contains(&extent)
        && block.byte(127) <= 100
        && blocks != 0
        && blocks <= groups.saturating_mul(group)
        && blocks >= (groups - 1).saturating_mul(group).saturating_add(64)
}

/// An HFS that only wraps HFS+.
fn is_wrapper(found: &Superblock<'_>) -> bool {
    matches!(found.block.part(124, 2), b"H+" | b"HX")
}

fn is_minix(found: &Superblock<'_>) -> bool {
    const BLOCK_BITS: u64 = 8 * 1024;
    let (block, magic) = (&found.block, found.magic);
    let (version, big) = match magic.first() {
        Some(0x7f | 0x8f) => (1, false),
        Some(0x13) => (1, true),
        Some(0x68 | 0x78) => (2, false),
        Some(0x24) => (2, true),
        first => (3, first == Some(&0x4d)),
    };
    let third = version == 3;
    let half = |at| u64::from(found.half(at, big));
    let word = |at| u64::from(found.word(at, big));
    let (inodes, zones, maps) =
        if third { (word(0), word(20), 6) } else { (half(0), if version == 2 { word(20) } else { half(2) }, 4) };
    let (inode_maps, zone_maps, first, zone_size) = (half(maps), half(maps + 2), half(maps + 4), block.le16(maps + 6));
    // Bits of the state that are not in use; ext's magic number lies further on.
    let state = if third { 0 } else { half(18) };
    let zones_used = zones.checked_sub(first);
    state & !3 == 0
        && zone_size == 0
        && inodes != 0
        && inodes != u64::from(u32::MAX)
        && inode_maps * BLOCK_BITS > inodes
        && zones_used.is_some_and(|zones| zone_maps * BLOCK_BITS > zones)
        && block.part(56, 2) != b"\x53\xEF"
}

/// Whether Castagnoli's CRC-32 of `len` bytes from `at` on is stored at `sum_at`. Bit by bit: the blocks are small.
fn has_crc(block: &Bytes, start: u32, at: usize, len: usize, complement: u32, sum_at: usize) -> bool {
    let bit = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
    let sum = block.part(at, len).iter().fold(start, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit));
    sum ^ complement == block.le32(sum_at)
}
