//! The least that makes a disk be taken for something: partition tables, RAID, volumes and encryption.

use diskwrite::probe::Kind;
use std::{fs::File, os::unix::fs::FileExt, path::Path};

pub(super) const K: i64 = 1 << 10;
pub(super) const M: i64 = 1 << 20;
pub(super) const ID: &[u8] = b"\x11\x22\x33\x44\x55\x66\x47\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x01";
pub(super) const NAME: &[u8] = b"label";
pub(super) const LVM_ID: &[u8] = b"abcdefGHIJKLMNOPQRSTUVWXYZ012345";

/// What blkid makes of a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Theirs {
    /// The same kind.
    Same,
    /// Nothing: it is damaged, or newer than libblkid 2.38, or libblkid looks in another place.
    Nothing,
}

/// Bytes at places; negative ones are from the end.
pub(super) type Bytes = Vec<(i64, Vec<u8>)>;

pub(super) struct Sample {
    pub(super) kind: Kind,
    pub(super) what: &'static str,
    mib: u64,
    bytes: Bytes,
    pub(super) theirs: Theirs,
}

pub(super) fn at(at: i64, bytes: impl AsRef<[u8]>) -> (i64, Vec<u8>) {
    (at, bytes.as_ref().to_vec())
}

/// Values that follow one another.
pub(super) fn joined(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut block = vec![0; size];
    for (at, bytes) in parts {
        block[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    block
}

pub(super) fn crc32c(start: u32, bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
    bytes.iter().fold(start, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

pub(super) fn utf16(text: &str, big: bool) -> Vec<u8> {
    text.encode_utf16().flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

pub(super) fn firmware_raid() -> Vec<Sample> {
    let mut silicon = joined(512, &[(0x60, b"\0\0\0\x2f"), (0x116, b"\x01")]);
    let sum =
        silicon[..0x13E].chunks(2).fold(0u16, |sum, pair| sum.wrapping_add(u16::from_le_bytes([pair[0], pair[1]])));
    silicon[0x13E..0x140].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    let mut via = joined(51, &[(0, b"\x55\xaa\x01"), (9, b"serial")]);
    via[50] = via[..50].iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
    let mut bad_via = via.clone();
    bad_via[50] ^= 1;
    let mut list = vec![
        sample(
            Kind::DdfRaid,
            "big endian",
            vec![at(-512, joined(64, &[(0, b"\xDE\x11\xDE\x11"), (8, b"Dell guid"), (32, b"02.00.00")]))],
        ),
        sample(
            Kind::DdfRaid,
            "little endian",
            vec![at(-512, joined(64, &[(0, b"\x11\xDE\x11\xDE"), (8, b"Dell guid"), (32, b"02.00.00")]))],
        ),
        sample(
            Kind::DdfRaid,
            "257 sectors from the end",
            vec![at(-257 * 512, joined(64, &[(0, b"\x11\xDE\x11\xDE"), (8, b"LSI guid"), (32, b"01.02.00")]))],
        ),
        sample(Kind::IntelRaid, "", vec![at(-1024, b"Intel Raid ISM Cfg Sig. 1.3.00")]),
        sample(Kind::LsiRaid, "", vec![at(-512, b"$XIDE$")]),
        sample(Kind::ViaRaid, "", vec![at(-512, &via)]),
        sample(Kind::ViaRaid, "wrong sum", vec![at(-512, &bad_via)]).unseen(),
        sample(Kind::SiliconRaid, "", vec![at(-512, &silicon)]),
        sample(Kind::NvidiaRaid, "", vec![at(-1024, b"NVIDIA  ")]),
        sample(Kind::Highpoint45, "", vec![at(-11 * 512, b"\xf3\x16\x78\x5a")]),
        sample(Kind::Highpoint37, "", vec![at(9 * 512 + 32, b"\xf0\x16\x78\x5a")]),
        sample(Kind::Highpoint37, "broken", vec![at(9 * 512 + 32, b"\xfd\x16\x78\x5a")]),
        sample(Kind::AdaptecRaid, "", vec![at(-512, joined(512, &[(0, b"\x37\xFC\x4D\x1E"), (256, b"DPTM")]))]),
        sample(Kind::JmicronRaid, "", vec![at(-512, b"JM\x01\x02")]),
    ];
    for sector in [63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087] {
        list.push(sample(Kind::PromiseRaid, "", vec![at(-512 * sector, b"Promise Technology, Inc.")]));
    }
    list
}

pub(super) fn md_raid() -> Vec<Sample> {
    [(0i64, -8192i64), (1, 0), (2, 4096)]
        .into_iter()
        .map(|(minor, place)| {
            let absolute = if place < 0 { 8 * M + place } else { place };
            let sector = u64::try_from(absolute / 512).unwrap().to_le_bytes();
            let block = joined(512, &[(0, b"\xfc\x4e\x2b\xa9\x01"), (16, ID), (32, b"host:boot"), (144, &sector)]);
            let what = ["version 1.0", "version 1.1", "version 1.2"][usize::try_from(minor).unwrap()];
            Sample { mib: 8, ..sample(Kind::MdRaid, what, vec![at(place, block)]) }
        })
        .collect()
}

pub(super) fn lvm2(damaged: bool) -> Vec<u8> {
    let mut label = joined(512, &[(0, b"LABELONE\x01"), (20, &[32, 0, 0, 0]), (24, b"LVM2 001"), (32, LVM_ID)]);
    let mut crc = crc32fast::Hasher::new_with_initial(!0xF597_A6CF);
    crc.update(&label[20..]);
    label[16..20].copy_from_slice(&(!crc.finalize() ^ u32::from(damaged)).to_le_bytes());
    label
}

pub(super) fn stratis() -> Vec<u8> {
    let id = b"11223344556647889900aabbccddeeff";
    let mut block = joined(512, &[(4, b"!Stra0tis\x86\xff\x02^\x41rh"), (32, id), (64, id)]);
    let sum = crc32c(!0, &block[4..]) ^ !0;
    block[..4].copy_from_slice(&sum.to_le_bytes());
    block
}

pub(super) fn storage() -> Vec<Sample> {
    let drbd =
        |magic: &[u8], id: usize| at(-4096, joined(512, &[(id, b"\x12\x34\x56\x78\x9a\xbc\xde\xf0"), (60, magic)]));
    let mut bcachefs =
        joined(1024, &[(24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"), (56, ID)]);
    bcachefs[104] = 8;
    bcachefs[123] = 1;
    let metadata = (1u64 << 20).to_le_bytes();
    vec![
        sample(
            Kind::Bcache,
            "",
            vec![at(
                4096,
                joined(
                    512,
                    &[
                        (8, &[8]),
                        (16, &[1]),
                        (24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
                        (40, ID),
                    ],
                ),
            )],
        ),
        sample(Kind::Bcachefs, "", vec![at(4096, bcachefs)]).unknown(),
        sample(Kind::Bluestore, "", vec![at(0, b"bluestore block device\n")]),
        sample(Kind::Drbd, "version 8", vec![drbd(b"\x83\x74\x02\x6b", 40)]),
        sample(Kind::Drbd, "version 9", vec![drbd(b"\x83\x74\x02\x6d", 48)]),
        sample(Kind::DrbdManage, "", vec![at(0, b"$DRBDmgr=q\n0123456789abcdef0123456789abcdef\n")]),
        sample(Kind::DrbdLog, "", vec![at(0, joined(64, &[(0, b"DRBDdlh*\x01"), (16, ID)]))]),
        sample(Kind::Lvm2, "", vec![at(512, lvm2(false))]),
        sample(Kind::Lvm2, "wrong sum", vec![at(512, lvm2(true))]).unseen(),
        sample(Kind::Lvm1, "", vec![at(0, joined(200, &[(0, b"HM\x01"), (44, LVM_ID)]))]),
        sample(Kind::SnapshotCow, "", vec![at(0, b"SnAp\x01\0\0\0\x01\0\0\0\x08")]),
        sample(Kind::Verity, "", vec![at(0, joined(64, &[(0, b"verity\0\0\x01"), (16, ID)]))]),
        sample(Kind::Integrity, "", vec![at(0, b"integrt\0\x01")]),
        sample(
            Kind::Luks,
            "version 1",
            vec![at(0, b"LUKS\xba\xbe\0\x01"), at(168, b"11223344-5566-4788-99aa-bbccddeeff01")],
        ),
        sample(
            Kind::Luks,
            "version 2",
            vec![at(0, b"LUKS\xba\xbe\0\x02"), at(24, NAME), at(168, b"11223344-5566-4788-99aa-bbccddeeff01")],
        ),
        sample(
            Kind::VmfsVolume,
            "",
            vec![at(M, b"\x0d\xd0\x01\xc0"), at(M + 532, b"4b4f2a1c-5d6e7f80-1122-334455667788")],
        ),
        sample(Kind::Ubi, "", vec![at(0, joined(32, &[(0, b"UBI#\x01"), (24, &[0, 0, 1, 2])]))]),
        sample(Kind::Vdo, "", vec![at(0, joined(64, &[(0, b"dmvdo001"), (40, ID)]))]),
        sample(Kind::Stratis, "", vec![at(512, stratis()), at(4608, stratis())]),
        sample(
            Kind::Stratis,
            "second copy",
            vec![at(512, joined(20, &[(4, b"!Stra0tis\x86\xff\x02^\x41rh")])), at(4608, stratis())],
        ),
        sample(Kind::BitLocker, "Vista", vec![at(0, b"\xeb\x52\x90-FVE-FS-")]),
        sample(
            Kind::BitLocker,
            "Windows 7",
            vec![at(0, b"\xeb\x58\x90-FVE-FS-"), at(67, [1, 2, 3, 4]), at(176, metadata), at(M, b"-FVE-FS-")],
        ),
        sample(Kind::BitLocker, "To Go", vec![at(0, b"\xeb\x58\x90MSWIN4.1"), at(440, metadata), at(M, b"-FVE-FS-")]),
        sample(Kind::FileVault, "", vec![at(0, file_vault())]).unknown(),
    ]
}

pub(super) fn file_vault() -> Vec<u8> {
    let mut block = joined(512, &[(8, &[1, 0, 0x10]), (88, b"CS\x01"), (168, &[16]), (172, &[2]), (304, ID)]);
    let sum = crc32c(0, &block[8..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    block
}

pub(super) fn tables() -> Vec<Sample> {
    let mut sun = joined(512, &[(508, b"\xDA\xBE")]);
    sun[510..].copy_from_slice(b"\xDA\xBE");
    let mut sgi = joined(512, &[(0, b"\x0B\xE5\xA9\x41")]);
    sgi[504..508].copy_from_slice(&0x0BE5_A941u32.wrapping_neg().to_be_bytes());
    let atari =
        joined(512, &[(0x1C2, &1000u32.to_be_bytes()), (0x1C6, b"\x01LNX"), (0x1CA, &[0, 0, 0, 2, 0, 0, 0, 9])]);
    vec![
        sample(
            Kind::Mbr,
            "",
            vec![at(446, joined(16, &[(4, &[0x83]), (8, &[0, 8]), (12, &[0, 8])])), at(510, [0x55, 0xAA])],
        ),
        sample(Kind::Aix, "", vec![at(0, b"\xC9\xC2\xD4\xC1")]),
        sample(Kind::Sgi, "", vec![at(0, sgi)]),
        sample(Kind::Sun, "", vec![at(0, sun)]),
        sample(
            Kind::Mac,
            "",
            vec![at(0, b"ER\x02\0"), at(512, joined(80, &[(0, b"PM"), (4, &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 63])]))],
        ),
        sample(Kind::Ultrix, "", vec![at(16 * K - 72, b"\x57\x29\x03\0\x01\0\0\0")]),
        // blkid shows it only inside an MBR's partition.
        sample(Kind::Bsd, "", vec![at(512, b"\x57\x45\x56\x82")]).unknown(),
        sample(
            Kind::Unixware,
            "",
            vec![at(29 * 512, joined(200, &[(4, b"\x0D\x60\xE5\xCA"), (156, &0x600D_DEEEu32.to_le_bytes())]))],
        )
        .unknown(),
        sample(Kind::Solaris, "", vec![at(512, joined(64, &[(12, b"\xEE\xDE\x0D\x60"), (16, &[1])]))]),
        sample(Kind::Atari, "", vec![at(0, atari)]),
    ]
}

pub(super) fn sample(kind: Kind, what: &'static str, bytes: Bytes) -> Sample {
    Sample { kind, what, mib: 72, bytes, theirs: Theirs::Same }
}

impl Sample {
    /// Only wipefs sees it, if anything does: it decides nothing.
    pub(super) fn unseen(self) -> Self {
        Self { theirs: Theirs::Nothing, ..self }
    }

    /// libblkid 2.38 does not see it at all; it decides nevertheless.
    pub(super) fn unknown(self) -> Self {
        self.unseen()
    }

    pub(super) fn write(&self, path: &Path) {
        let file = File::create(path).unwrap();
        let len = self.mib << 20;
        file.set_len(len).unwrap();
        for (at, bytes) in &self.bytes {
            let at = if *at < 0 { len - at.unsigned_abs() } else { at.unsigned_abs() };
            file.write_all_at(bytes, at).unwrap();
        }
    }
}
