//! Superblocks that are where their magic number is: one table of kinds, places and magic numbers. What else must be right is in
//! `grade`, where name and identifier are in `names`.

use super::bytes::Bytes;
use super::grade::{Grade, grade};
use super::names::names;
use super::superblock::Superblock;
use super::{Area, Kind, Signature};

/// The most that is looked at of one superblock.
const BLOCK_BYTES: u64 = 4096;
const SECTOR: u64 = 512;
const K: u32 = 1024;
const M: u32 = 1024 * K;

/// A magic number. It holds no pointers, which would have to be relocated at each start.
struct Magic {
    kind: Kind,
    len: u8,
    /// From the superblock's start.
    at: u16,
    /// Where the superblock begins; from the device's end if `from_end`.
    block: u32,
    from_end: bool,
    text: [u8; 16],
}

/// The longer ones are erased as far as they are compared.
const fn magic(kind: Kind, block: u32, from_end: bool, at: u16, from: &[u8]) -> Magic {
    let (mut text, mut place, mut len) = ([0; 16], 0, 0u8);
    while place < from.len() {
        text[place] = from[place];
        place += 1;
        len += 1;
    }
    Magic { kind, len, at, block, from_end, text }
}

const fn start(kind: Kind, block: u32, at: u16, text: &[u8]) -> Magic {
    magic(kind, block, false, at, text)
}

/// In this sector of 512 bytes before the end, from 1.
const fn end(kind: Kind, sector: u32, at: u16, text: &[u8]) -> Magic {
    magic(kind, sector * 512, true, at, text)
}

const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const PROMISE: &[u8] = b"Promise Technolo";
const INTEL: &[u8] = b"Intel Raid ISM C";

static SUPERBLOCKS: [Magic; 118] = [
    // The anchor header: in the last sector, or where a controller keeps the last ones for itself.
    end(Kind::DdfRaid, 1, 0, b"\xDE\x11\xDE\x11"),
    end(Kind::DdfRaid, 1, 0, b"\x11\xDE\x11\xDE"),
    end(Kind::DdfRaid, 257, 0, b"\xDE\x11\xDE\x11"),
    end(Kind::DdfRaid, 257, 0, b"\x11\xDE\x11\xDE"),
    // Counted in the disk's sectors.
    end(Kind::IntelRaid, 2, 0, INTEL),
    end(Kind::IntelRaid, 16, 0, INTEL),
    end(Kind::LsiRaid, 1, 0, b"$XIDE$"),
    end(Kind::ViaRaid, 1, 0, b"\x55\xAA"),
    end(Kind::SiliconRaid, 1, 0x60, b"\0\0\0\x2F"),
    end(Kind::NvidiaRaid, 2, 0, b"NVIDIA"),
    end(Kind::PromiseRaid, 63, 0, PROMISE),
    end(Kind::PromiseRaid, 255, 0, PROMISE),
    end(Kind::PromiseRaid, 256, 0, PROMISE),
    end(Kind::PromiseRaid, 16, 0, PROMISE),
    end(Kind::PromiseRaid, 399, 0, PROMISE),
    end(Kind::PromiseRaid, 591, 0, PROMISE),
    end(Kind::PromiseRaid, 675, 0, PROMISE),
    end(Kind::PromiseRaid, 735, 0, PROMISE),
    end(Kind::PromiseRaid, 911, 0, PROMISE),
    end(Kind::PromiseRaid, 951, 0, PROMISE),
    end(Kind::PromiseRaid, 974, 0, PROMISE),
    end(Kind::PromiseRaid, 991, 0, PROMISE),
    end(Kind::PromiseRaid, 3087, 0, PROMISE),
    end(Kind::Highpoint45, 11, 0, b"\xf3\x16\x78\x5a"),
    end(Kind::Highpoint45, 11, 0, b"\xfd\x16\x78\x5a"),
    start(Kind::Highpoint37, 4 * K, 544, b"\xf0\x16\x78\x5a"),
    start(Kind::Highpoint37, 4 * K, 544, b"\xfd\x16\x78\x5a"),
    end(Kind::AdaptecRaid, 1, 0, b"\x37\xFC\x4D\x1E"),
    end(Kind::JmicronRaid, 1, 0, b"JM"),
    start(Kind::Bcache, 4 * K, 24, BCACHE),
    start(Kind::Bcachefs, 4 * K, 24, BCACHE),
    start(Kind::Bcachefs, 4 * K, 24, BCACHEFS),
    start(Kind::Bcachefs, 2 * M, 24, BCACHEFS),
    end(Kind::Bcachefs, 2048, 24, BCACHEFS),
    start(Kind::DrbdManage, 0, 0, b"$DRBDmgr=q"),
    start(Kind::DrbdLog, 0, 0, b"DRBDdlh*"),
    start(Kind::Lvm1, 0, 0, b"HM"),
    start(Kind::SnapshotCow, 0, 0, b"SnAp"),
    start(Kind::Verity, 0, 0, b"verity\0\0"),
    start(Kind::Integrity, 0, 0, b"integrt\0"),
    start(Kind::VmfsVolume, M, 0, b"\x0d\xd0\x01\xc0"),
    start(Kind::Ubi, 0, 0, b"UBI#"),
    start(Kind::Vdo, 0, 0, b"dmvdo001"),
    start(Kind::Stratis, 512, 4, STRATIS),
    start(Kind::Stratis, 4608, 4, STRATIS),
    start(Kind::BitLocker, 0, 0, b"\xeb\x52\x90-FVE-FS-"),
    start(Kind::BitLocker, 0, 0, b"\xeb\x58\x90-FVE-FS-"),
    start(Kind::BitLocker, 0, 0, b"\xeb\x58\x90MSWIN4.1"),
    start(Kind::FileVault, 0, 88, b"CS"),
    // TuxOnIce; the others of hibernated systems are where swap's are.
    start(Kind::Hibernation, 0, 0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
    start(Kind::Xfs, 0, 0, b"XFSB"),
    start(Kind::Exfs, 0, 0, b"EXFS"),
    start(Kind::Reiserfs, 8 * K, 52, b"ReIsErFs"),
    start(Kind::Reiserfs, 64 * K, 52, b"ReIsEr2Fs"),
    start(Kind::Reiserfs, 64 * K, 52, b"ReIsEr3Fs"),
    start(Kind::Reiserfs, 64 * K, 52, b"ReIsErFs"),
    start(Kind::Reiserfs, 8 * K, 20, b"ReIsErFs"),
    start(Kind::Reiser4, 64 * K, 0, b"ReIsEr4"),
    start(Kind::Jfs, 32 * K, 0, b"JFS1"),
    // High Sierra, before ISO 9660.
    start(Kind::Iso9660, 32 * K, 9, b"CDROM"),
    start(Kind::HfsPlus, K, 0, b"BD"),
    start(Kind::HfsPlus, K, 0, b"H+"),
    start(Kind::HfsPlus, K, 0, b"HX"),
    start(Kind::Hfs, K, 0, b"BD"),
    start(Kind::Hpfs, 8 * K, 0, b"\x49\xe8\x95\xf9"),
    start(Kind::Sysv, 512, 504, b"\x20\x7e\x18\xfd"),
    start(Kind::Sysv, 512, 504, b"\xfd\x18\x7e\x20"),
    start(Kind::Sysv, 9 * K + 512, 504, b"\x20\x7e\x18\xfd"),
    start(Kind::Sysv, 9 * K + 512, 504, b"\xfd\x18\x7e\x20"),
    start(Kind::Sysv, 15 * K + 512, 504, b"\x20\x7e\x18\xfd"),
    start(Kind::Sysv, 15 * K + 512, 504, b"\xfd\x18\x7e\x20"),
    start(Kind::Sysv, 18 * K + 512, 504, b"\x20\x7e\x18\xfd"),
    start(Kind::Sysv, 18 * K + 512, 504, b"\xfd\x18\x7e\x20"),
    start(Kind::Xenix, K, 1024, b"\x2b\x55\x44"),
    start(Kind::Xenix, K, 1024, b"\x44\x55\x2b"),
    start(Kind::Refs, 0, 0, b"\0\0\0ReFS\0"),
    start(Kind::Cramfs, 0, 0, b"\x45\x3d\xcd\x28"),
    start(Kind::Cramfs, 0, 0, b"\x28\xcd\x3d\x45"),
    start(Kind::Romfs, 0, 0, b"-rom1fs-"),
    start(Kind::Minix, K, 16, b"\x7f\x13"),
    start(Kind::Minix, K, 16, b"\x8f\x13"),
    start(Kind::Minix, K, 16, b"\x13\x7f"),
    start(Kind::Minix, K, 16, b"\x13\x8f"),
    start(Kind::Minix, K, 16, b"\x68\x24"),
    start(Kind::Minix, K, 16, b"\x78\x24"),
    start(Kind::Minix, K, 16, b"\x24\x68"),
    start(Kind::Minix, K, 16, b"\x24\x78"),
    start(Kind::Minix, K, 24, b"\x5a\x4d"),
    start(Kind::Minix, K, 24, b"\x4d\x5a"),
    start(Kind::Gfs, 64 * K, 0, b"\x01\x16\x19\x70"),
    start(Kind::Gfs2, 64 * K, 0, b"\x01\x16\x19\x70"),
    start(Kind::Ocfs, 8 * K, 0, b"OracleCFS"),
    start(Kind::Ocfs2, K, 0, b"OCFSV2"),
    start(Kind::Ocfs2, 2 * K, 0, b"OCFSV2"),
    start(Kind::Ocfs2, 4 * K, 0, b"OCFSV2"),
    start(Kind::Ocfs2, 8 * K, 0, b"OCFSV2"),
    start(Kind::OracleAsm, 0, 32, b"ORCLDISK"),
    start(Kind::Vxfs, K, 0, b"\xf5\xfc\x01\xa5"),
    start(Kind::Vxfs, 8 * K, 0, b"\xa5\x01\xfc\xf5"),
    start(Kind::Squashfs, 0, 0, b"hsqs"),
    start(Kind::Squashfs3, 0, 0, b"sqsh"),
    start(Kind::Squashfs3, 0, 0, b"hsqs"),
    start(Kind::Nss, 4 * K, 0, b"SPB5"),
    start(Kind::Ubifs, 0, 0, b"\x31\x18\x10\x06"),
    start(Kind::Bfs, 0, 0, b"\xce\xfa\xad\x1b"),
    start(Kind::Vmfs, 2 * M, 0, b"\x5e\xf1\xab\x2f"),
    start(Kind::Befs, 0, 32, b"BFS1"),
    start(Kind::Befs, 0, 32, b"1SFB"),
    start(Kind::Befs, 512, 32, b"BFS1"),
    start(Kind::Befs, 512, 32, b"1SFB"),
    start(Kind::Nilfs2, K, 6, b"\x34\x34"),
    end(Kind::Nilfs2, 8, 6, b"\x34\x34"),
    start(Kind::Mpool, 0, 0, b"mpoolDev"),
    start(Kind::Apfs, 0, 32, b"NXSB"),
    start(Kind::Zonefs, 0, 0, b"SFOZ"),
    start(Kind::Erofs, K, 0, b"\xe2\xe1\xf5\xe0"),
    start(Kind::ScoutfsMeta, 64 * K, 4, b"\x8b\x42\x3c\x10"),
    start(Kind::ScoutfsData, 64 * K, 4, b"\x8b\x42\x3c\x10"),
];

/// Partition tables that are shown and erased, but not read.
static TABLES: [Magic; 10] = [
    start(Kind::Aix, 0, 0, b"\xC9\xC2\xD4\xC1"),
    start(Kind::Sgi, 0, 0, b"\x0B\xE5\xA9\x41"),
    start(Kind::Sun, 0, 508, b"\xDA\xBE"),
    start(Kind::Mac, 0, 0, b"ER"),
    start(Kind::Ultrix, 15 * K + 512, 440, b"\x57\x29\x03\0"),
    start(Kind::Bsd, 0, 512, b"\x57\x45\x56\x82"),
    start(Kind::Bsd, 0, 64, b"\x57\x45\x56\x82"),
    start(Kind::Bsd, 0, 128, b"\x57\x45\x56\x82"),
    start(Kind::Unixware, 29 * 512, 4, b"\x0D\x60\xE5\xCA"),
    start(Kind::Solaris, 512, 12, b"\xEE\xDE\x0D\x60"),
];

/// No smaller device can have one, in KiB.
fn least_kib(kind: Kind) -> u64 {
    match kind {
        Kind::DdfRaid => 192,
        Kind::PromiseRaid => 256,
        Kind::Bcache | Kind::Stratis => 8,
        Kind::Bcachefs | Kind::Reiserfs | Kind::Reiser4 | Kind::ScoutfsMeta | Kind::ScoutfsData => 128,
        Kind::DrbdManage => 64,
        Kind::DrbdLog => 16,
        Kind::Hibernation => 40,
        Kind::Jfs => 16 << 10,
        Kind::Gfs | Kind::Gfs2 => 32 << 10,
        Kind::Ocfs | Kind::Ocfs2 => 14_000,
        Kind::Befs | Kind::Unixware => 1440,
        Kind::Nilfs2 => 1 << 10,
        kind if kind.is_raid() && !matches!(kind, Kind::Lvm1 | Kind::VmfsVolume | Kind::Ubi) => 64,
        _ => 0,
    }
}

pub(super) fn superblocks(area: &Area<'_>) -> Vec<Signature> {
    find(area, &SUPERBLOCKS)
}

pub(super) fn tables(area: &Area<'_>) -> Vec<Signature> {
    let mut found = find(area, &TABLES);
    found.extend(atari(area));
    found
}

/// Atari's table has no magic number: it is known by its first entry.
fn atari(area: &Area<'_>) -> Option<Signature> {
    let block = Bytes(area.get(0, SECTOR)?);
    let sectors = u64::from(block.be32(0x1C2));
    let fits = |at: usize| {
        let (start, len) = (u64::from(block.be32(at)), u64::from(block.be32(at + 4)));
        start != 0 && len != 0 && start + len <= sectors
    };
    let has_bad_list = block.be32(0x1F6) != 0 || block.be32(0x1FA) != 0;
    if area.sector_bytes != SECTOR
        || !(2..=area.len() / SECTOR).contains(&sectors)
        || sectors > 0x7FFF_FFFF
        || (has_bad_list && !fits(0x1F6))
    {
        return None;
    }
    let is_entry = |at: &usize| {
        block.byte(*at) & 1 == 1 && block.part(at + 1, 3).iter().all(u8::is_ascii_alphanumeric) && fits(at + 4)
    };
    let at = [0x1C6, 0x1D2, 0x1DE, 0x1EA].into_iter().find(is_entry)?;
    Some(Signature::new(Kind::Atari, vec![area.on_disk(u64::try_from(at).ok()?, 4)]))
}

/// The first whole superblock of each kind, with the places of all of them.
fn find(area: &Area<'_>, magics: &'static [Magic]) -> Vec<Signature> {
    let mut found: Vec<Signature> = Vec::new();
    for magic in magics {
        let Some(mut signature) = look(area, magic) else { continue };
        match found.iter_mut().find(|known| known.kind == signature.kind) {
            None => found.push(signature),
            Some(known) => {
                // The first whole one speaks for all.
                if known.remains && !signature.remains {
                    std::mem::swap(known, &mut signature);
                }
                known.magics.append(&mut signature.magics);
                kernel::order::sort(&mut known.magics);
            }
        }
    }
    found
}

fn look(area: &Area<'_>, magic: &'static Magic) -> Option<Signature> {
    let len = area.len();
    let at =
        if magic.from_end { (len / SECTOR * SECTOR).checked_sub(magic.block.into())? } else { u64::from(magic.block) };
    let text = magic.text.get(..usize::from(magic.len))?;
    let magic_at = at.checked_add(magic.at.into())?;
    if len < least_kib(magic.kind) << 10 || !area.has(magic_at, text) {
        return None;
    }
    let block = Bytes(area.get(at, BLOCK_BYTES.min(len.checked_sub(at)?))?);
    let block = Superblock { area, at, block, magic: text };
    let grade = grade(magic.kind, &block);
    if grade == Grade::None {
        return None;
    }
    let [label, uuid, detail] = names(magic.kind, &block);
    Some(Signature {
        label,
        uuid,
        detail,
        remains: grade == Grade::Remains,
        ..Signature::new(magic.kind, vec![area.on_disk(magic_at, magic.len.into())])
    })
}
