//! Where name and identifier are in a superblock.

use super::bytes::{Bytes, grouped, guid_text, serial, text};
use super::superblock::Superblock;
use super::{Kind, apple, befs, swap};

/// How an identifier is stored.
#[derive(Clone, Copy)]
enum Id {
    None,
    /// 16 bytes.
    Uuid,
    /// As it is shown, of so many bytes.
    Text(u8),
    /// 32 characters without the hyphens of LVM.
    Lvm,
}

/// Places in a superblock.
struct Names {
    kind: Kind,
    label_at: u16,
    label_len: u8,
    id_at: u16,
    id: Id,
}

const fn named(kind: Kind, label_at: u16, label_len: u8, id_at: u16) -> Names {
    Names { kind, label_at, label_len, id_at, id: Id::Uuid }
}

const fn label(kind: Kind, label_at: u16, label_len: u8) -> Names {
    Names { kind, label_at, label_len, id_at: 0, id: Id::None }
}

const fn id(kind: Kind, id_at: u16, id: Id) -> Names {
    Names { kind, label_at: 0, label_len: 0, id_at, id }
}

static NAMES: [Names; 37] = [
    id(Kind::DdfRaid, 8, Id::Text(24)),
    id(Kind::Bcache, 40, Id::Uuid),
    named(Kind::Bcachefs, 72, 32, 56),
    id(Kind::DrbdManage, 11, Id::Text(32)),
    id(Kind::DrbdLog, 16, Id::Uuid),
    id(Kind::Lvm1, 44, Id::Lvm),
    id(Kind::Verity, 16, Id::Uuid),
    id(Kind::VmfsVolume, 532, Id::Text(35)),
    id(Kind::Vdo, 40, Id::Uuid),
    id(Kind::FileVault, 304, Id::Uuid),
    named(Kind::Xfs, 108, 12, 32),
    named(Kind::Exfs, 108, 12, 32),
    named(Kind::Reiserfs, 100, 16, 84),
    named(Kind::Reiser4, 36, 16, 20),
    named(Kind::Jfs, 152, 16, 136),
    label(Kind::Iso9660, 48, 32),
    label(Kind::Hfs, 37, 27),
    label(Kind::Sysv, 440, 6),
    label(Kind::Xenix, 632, 6),
    label(Kind::Cramfs, 48, 16),
    label(Kind::Romfs, 16, 16),
    named(Kind::Gfs, 160, 64, 256),
    named(Kind::Gfs2, 160, 64, 256),
    named(Kind::Ocfs, 560, 64, 626),
    named(Kind::Ocfs2, 272, 64, 336),
    label(Kind::OracleAsm, 40, 24),
    id(Kind::Nss, 348, Id::Uuid),
    id(Kind::Ubifs, 108, Id::Uuid),
    label(Kind::Vmfs, 29, 128),
    label(Kind::Befs, 0, 32),
    named(Kind::Nilfs2, 168, 80, 152),
    named(Kind::Mpool, 8, 32, 40),
    id(Kind::Apfs, 72, Id::Uuid),
    named(Kind::Zonefs, 8, 32, 40),
    named(Kind::Erofs, 64, 16, 48),
    id(Kind::ScoutfsMeta, 56, Id::Uuid),
    id(Kind::ScoutfsData, 56, Id::Uuid),
];

/// Its maker's name, its identifier as its own tools show it, and more for people.
pub(super) fn names(kind: Kind, found: &Superblock<'_>) -> [Option<String>; 3] {
    let block = &found.block;
    let (mut label, mut uuid, mut detail) = (None, None, None);
    // Older ones of ReiserFS have none.
    let known = NAMES.iter().find(|names| names.kind == kind && (kind != Kind::Reiserfs || found.magic.len() > 8));
    if let Some(names) = known {
        let len = match kind {
            Kind::Hfs => block.byte(36).min(names.label_len),
            Kind::Ocfs => block.byte(624).min(names.label_len),
            _ => names.label_len,
        };
        label = block.text(names.label_at.into(), len.into());
        let at = usize::from(names.id_at);
        uuid = match names.id {
            Id::None => None,
            Id::Uuid => block.uuid(at),
            Id::Text(len) => block.text(at, len.into()),
            Id::Lvm => block.text(at, 32).and_then(|id| grouped(&id, &[6, 4, 4, 4, 4, 4, 6])),
        };
    }
    match kind {
        Kind::Ubi => uuid = Some(block.be32(24)).filter(|id| *id != 0).map(|id| id.to_string()),
        Kind::Stratis => uuid = block.text(64, 32).and_then(|id| grouped(&id, &[8, 4, 4, 4, 12])),
        Kind::BitLocker if found.magic.get(1..4) == Some(b"\x58\x90-") => {
            let id = i32::from_le_bytes(block.le32(67).to_le_bytes());
            uuid = (id != 0).then(|| format!("{id:016}"));
        }
        Kind::HfsPlus | Kind::Hfs => {
            uuid = apple::uuid(kind, found);
            label = label.or_else(|| (kind == Kind::HfsPlus).then(|| apple::label(found))?);
        }
        Kind::Hpfs => (label, uuid) = boot_names(found).unwrap_or_default(),
        Kind::Vmfs => uuid = guid_text(block.part(9, 16), &[(0, 4), (4, 4), (8, 2)], &[8, 8, 4, 12]),
        Kind::Befs => uuid = befs::uuid(found),
        Kind::Hibernation => (label, uuid) = swap::names(found.area),
        Kind::Bcache => {
            detail = Some(if block.le64(16) & 1 == 1 { "backing device" } else { "cache device" }.to_owned());
        }
        Kind::Squashfs | Kind::Squashfs3 => {
            let big = found.magic == b"sqsh";
            detail = Some(format!("version {}.{}", found.half(28, big), found.half(30, big)));
        }
        _ => {}
    }
    [label, uuid, detail]
}

/// HPFS has them in the boot sector, if it is one of its own.
fn boot_names(found: &Superblock<'_>) -> Option<(Option<String>, Option<String>)> {
    let boot = Bytes(found.area.get(0, 512)?);
    let is_own = boot.part(510, 2) == [0x55, 0xAA] && boot.part(54, 4) == b"HPFS" && boot.byte(38) == 0x28;
    is_own.then(|| (text(boot.part(43, 11)), serial(boot.part(39, 4))))
}
