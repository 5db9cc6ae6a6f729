//! The same for file systems and swap.

use super::samples::*;
use diskwrite::probe::Kind;

pub(super) fn fat(text: &[u8], wide: bool, label: Option<&[u8; 11]>) -> Bytes {
    // 32 MiB of sectors, clusters of 4 (or 1) of them.
    let sectors: u32 = if wide { 131_072 } else { 65_535 };
    let fat_sectors: u32 = if wide { 1024 } else { 64 };
    let mut boot = joined(
        512,
        &[(0, b"\xeb\x3c\x90"), (11, &[0, 2, if wide { 1 } else { 4 }, 32, 0, 2]), (21, &[0xF8]), (510, &[0x55, 0xAA])],
    );
    boot[32..36].copy_from_slice(&sectors.to_le_bytes());
    let names = if wide { 66 } else { 38 };
    let names_are = joined(32, &[(0, &[0x29, 1, 2, 3, 4]), (5, b"NO NAME    "), (16, text)]);
    boot[names..names + 24].copy_from_slice(&names_are[..24]);
    let root = i64::from(32 + 2 * fat_sectors) * 512;
    if wide {
        boot[36..40].copy_from_slice(&fat_sectors.to_le_bytes());
        boot[44] = 2;
    } else {
        boot[17..19].copy_from_slice(&512u16.to_le_bytes());
        boot[22] = 64;
    }
    let mut bytes = vec![at(0, boot)];
    let mut directory = joined(64, &[(0, b"LOST    TXT\x20"), (26, &[9])]);
    if let Some(label) = label {
        directory[32..43].copy_from_slice(label);
        directory[43] = 8;
    }
    bytes.push(at(root, directory));
    bytes
}

pub(super) fn ext(features: [u32; 3], flags: u32) -> Bytes {
    let mut block = joined(512, &[(56, b"\x53\xEF"), (104, ID), (120, NAME)]);
    for (place, value) in [(92, features[0]), (96, features[1]), (100, features[2]), (352, flags)] {
        block[place..place + 4].copy_from_slice(&value.to_le_bytes());
    }
    vec![at(1024, block)]
}

pub(super) fn xfs(magic: &[u8]) -> Vec<u8> {
    let parts: [(usize, &[u8]); 10] = [
        (0, magic),
        (4, &4096u32.to_be_bytes()),
        (8, &16384u64.to_be_bytes()),
        (32, ID),
        (80, &1u32.to_be_bytes()),
        (84, &4096u32.to_be_bytes()),
        (88, &4u32.to_be_bytes()),
        (102, &[2, 0, 2, 0]),
        (108, NAME),
        (120, &[12, 9, 9, 3]),
    ];
    joined(512, &parts)
}

pub(super) fn xdr_pair(name: &str, kind: u8, value: &[u8]) -> Vec<u8> {
    let padded = |bytes: &[u8]| joined(bytes.len().next_multiple_of(4), &[(0, bytes)]);
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_be_bytes();
    let count = if kind == 9 { len(value).to_vec() } else { Vec::new() };
    let body =
        [&len(name.as_bytes())[..], &padded(name.as_bytes()), &[0, 0, 0, kind, 0, 0, 0, 1], &count, &padded(value)]
            .concat();
    let size = u32::try_from(body.len() + 8).unwrap().to_be_bytes();
    [&size[..], &size, &body].concat()
}

pub(super) fn zfs(uberblocks: i64) -> Bytes {
    let list = [
        &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &xdr_pair("name", 9, b"tank"),
        &xdr_pair("pool_guid", 8, &77u64.to_be_bytes()),
    ]
    .concat();
    let blocks = (0..uberblocks).map(|index| at(128 * K + index * 4096, b"\x0c\xb1\xba\0\0\0\0\0\x88\x13"));
    blocks.chain([at(16 * K, list)]).collect()
}

pub(super) fn hfs_plus() -> Bytes {
    let header = joined(
        512,
        &[(0, b"H+\0\x04"), (40, &4096u32.to_be_bytes()), (104, b"finderid"), (288, &[0, 0, 0, 16, 0, 0, 0, 8])],
    );
    let tree = joined(512, &[(24, &1u32.to_be_bytes()), (20, &1u32.to_be_bytes()), (32, &4096u16.to_be_bytes())]);
    let name = utf16("Größe", true);
    let leaf = joined(512, &[(8, &[0xFF]), (10, &[0, 1]), (16, &[0, 0, 0, 1, 0, 5]), (22, &name)]);
    vec![at(1024, header), at(65536, tree), at(65536 + 4096, leaf)]
}

pub(super) fn befs() -> Bytes {
    let block = joined(
        512,
        &[
            (0, NAME),
            (32, b"1SFB"),
            (36, b"EGIB"),
            (40, &2048u32.to_le_bytes()),
            (44, &[11]),
            (68, &0xDD12_1031u32.to_le_bytes()),
            (76, &[13]),
            (112, &0x15B6_830Eu32.to_le_bytes()),
            (120, &[64, 0, 1, 0]),
        ],
    );
    let inode = joined(
        2048,
        &[
            (0, &0x3BBE_0AD9u32.to_le_bytes()),
            (64, &2048u32.to_le_bytes()),
            (232, &0x554C_4C47u32.to_le_bytes()),
            (236, &[12, 0, 8, 0]),
            (240, b"be:volume_id\0\0\0"),
            (255, &0x1122_3344_5566_7788u64.to_le_bytes()),
        ],
    );
    // Little endian: the magic's bytes are the number's.
    vec![at(512, block), at(64 * 2048, inode)]
}

pub(super) fn nilfs(damaged: bool) -> Vec<u8> {
    let mut block =
        joined(512, &[(6, b"\x34\x34"), (8, &400u16.to_le_bytes()), (12, &[1, 2, 3, 4]), (152, ID), (168, NAME)]);
    let mut crc = crc32fast::Hasher::new_with_initial(!u32::from_le_bytes([1, 2, 3, 4]));
    crc.update(&block[..16]);
    crc.update(&[0; 4]);
    crc.update(&block[20..400]);
    block[16..20].copy_from_slice(&(!crc.finalize() ^ u32::from(damaged)).to_le_bytes());
    block
}

pub(super) fn mpool() -> Vec<u8> {
    let mut block = joined(66, &[(0, b"mpoolDev"), (8, NAME), (40, ID)]);
    let sum = crc32c(!0, &block[..62]) ^ !0;
    block[62..].copy_from_slice(&sum.to_le_bytes());
    block
}

pub(super) fn scoutfs(flags: u8) -> Vec<u8> {
    let mut block = joined(4096, &[(4, b"\x8b\x42\x3c\x10"), (48, &[flags]), (56, ID)]);
    let sum = crc32c(!0, &block[4..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    block
}

pub(super) fn descriptor(kind: u8, name: &[u8]) -> Vec<u8> {
    let mut block = joined(
        2048,
        &[(0, &[kind]), (1, b"CD001\x01"), (40, &[b' '; 32]), (813, b"2026013112450000"), (830, &[b'0'; 16])],
    );
    block[40..40 + name.len()].copy_from_slice(name);
    if kind == 2 {
        block[88..91].copy_from_slice(b"%/E");
    }
    block
}

pub(super) fn udf(block: i64) -> Bytes {
    let step = block.max(2048);
    let dstring = |len: usize, text: &[u8]| {
        let mut field = joined(len, &[(0, &[8]), (1, text)]);
        field[len - 1] = u8::try_from(text.len() + 1).unwrap();
        field
    };
    let tag = |id: u8, place: i64| joined(16, &[(0, &[id]), (12, &u32::try_from(place).unwrap().to_le_bytes())]);
    let charset = b"\0OSTA Compressed Unicode";
    let anchor =
        [tag(2, 256), u32::try_from(2 * block).unwrap().to_le_bytes().to_vec(), 300u32.to_le_bytes().to_vec()].concat();
    let primary = joined(512, &[(0, &tag(1, 300)), (72, &dstring(128, b"12345678abcdef0Xset")), (200, charset)]);
    let logical = joined(512, &[(0, &tag(6, 301)), (20, charset), (84, &dstring(128, NAME))]);
    vec![
        at(32 * K, b"\0BEA01\x01"),
        at(32 * K + step, b"\0NSR03\x01"),
        at(32 * K + 2 * step, b"\0TEA01\x01"),
        at(256 * block, anchor),
        at(300 * block, primary),
        at(301 * block, logical),
    ]
}

pub(super) fn ntfs() -> Bytes {
    let boot = joined(
        512,
        &[
            (0, b"\xeb\x52\x90NTFS    "),
            (11, &[0, 2, 8]),
            (21, &[0xF8]),
            (40, &65536u64.to_le_bytes()),
            (48, &[4]),
            (56, &[8]),
            (64, &[0xF6]),
            (72, &[1, 2, 3, 4, 5, 6, 7, 8]),
            (510, &[0x55, 0xAA]),
        ],
    );
    let name = utf16("Größe", false);
    let volume = joined(
        1024,
        &[
            (0, b"FILE"),
            (20, &[56]),
            (28, &[0, 4]),
            (56, &[0x60]),
            (60, &[48]),
            (72, &[u8::try_from(name.len()).unwrap()]),
            (76, &[24]),
            (80, &name),
            (104, &[255; 4]),
        ],
    );
    vec![at(0, boot), at(4 * 4096, b"FILE"), at(4 * 4096 + 3 * 1024, volume)]
}

pub(super) fn exfat() -> Bytes {
    let boot = joined(
        512,
        &[
            (0, b"\xeb\x76\x90EXFAT   "),
            (80, &[128]),
            (88, &[0, 1]),
            (96, &[3]),
            (100, &[1, 2, 3, 4]),
            (105, &[1]),
            (108, &[9, 3]),
            (510, &[0x55, 0xAA]),
        ],
    );
    let name = utf16("Größe", false);
    vec![
        at(0, boot),
        at(256 * 512 + 4096, joined(32, &[(0, &[0x81])])),
        at(256 * 512 + 4096 + 32, joined(32, &[(0, &[0x83, 5]), (2, &name)])),
    ]
}

pub(super) fn file_systems() -> Vec<Sample> {
    let minix = |magic: &[u8]| {
        at(
            1024,
            joined(
                32,
                &[(0, &[96, 0, 0xE8, 3, 1, 0, 1, 0, 8, 0]), (16, magic), (18, &[1]), (20, &1000u32.to_le_bytes())],
            ),
        )
    };
    let vmfs = joined(160, &[(0, b"\x5e\xf1\xab\x2f"), (9, ID), (29, NAME)]);
    let gfs = |format: [u32; 2]| {
        at(
            64 * K,
            joined(
                512,
                &[
                    (0, b"\x01\x16\x19\x70"),
                    (24, &format[0].to_be_bytes()),
                    (28, &format[1].to_be_bytes()),
                    (160, b"cluster:data"),
                    (256, ID),
                ],
            ),
        )
    };
    let jfs = joined(
        184,
        &[
            (0, b"JFS1"),
            (16, &4096u32.to_le_bytes()),
            (20, &[12, 0, 3]),
            (24, &512u32.to_le_bytes()),
            (28, &[9]),
            (136, ID),
            (152, NAME),
        ],
    );
    let reiser =
        |magic: &[u8]| joined(120, &[(12, &[18]), (44, &4096u16.to_le_bytes()), (52, magic), (84, ID), (100, NAME)]);
    let ocfs2 = joined(352, &[(0, b"OCFSV2"), (272, NAME), (336, ID)]);
    let hfs = joined(162, &[(0, b"BD"), (20, &4096u32.to_be_bytes()), (36, &[5]), (37, NAME), (116, b"finderid")]);
    let hpfs = joined(512, &[(38, &[0x28, 1, 2, 3, 4]), (43, b"OS2        HPFS"), (510, &[0x55, 0xAA])]);
    let iso = |first: u8, second: u8| {
        vec![
            at(32 * K, descriptor(first, b"NAME")),
            at(34 * K, descriptor(second, b"NAME")),
            at(36 * K, b"\xffCD001\x01"),
        ]
    };
    let swap =
        |magic: &[u8]| vec![at(1024, joined(64, &[(0, &[1]), (4, &[99]), (12, ID), (28, NAME)])), at(4086, magic)];
    vec![
        sample(Kind::Vfat, "FAT16", fat(b"FAT16   ", false, Some(b"CIDATA     "))),
        sample(Kind::Vfat, "FAT16 without its text", fat(b"        ", false, Some(b"CIDATA     "))),
        sample(Kind::Vfat, "FAT16 without a name", fat(b"FAT16   ", false, None)),
        sample(Kind::Vfat, "FAT32", fat(b"FAT32   ", true, Some(b"CIDATA     "))),
        sample(Kind::Vfat, "FAT32 without its text", fat(b"        ", true, Some(b"CIDATA     "))),
        sample(Kind::Hibernation, "", swap(b"S1SUSPEND\0")),
        sample(Kind::Hibernation, "TuxOnIce", vec![at(0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c")]),
        sample(Kind::Swap, "", swap(b"SWAPSPACE2")),
        sample(Kind::Swap, "old", vec![at(4086, b"SWAP-SPACE")]),
        sample(Kind::Xfs, "", vec![at(0, xfs(b"XFSB"))]),
        sample(
            Kind::XfsLog,
            "",
            vec![at(
                1024,
                joined(512, &[(0, b"\xFE\xED\xBA\xBE"), (8, &[0, 0, 0, 2, 0, 0, 2, 0]), (300, &[0, 0, 0, 1])]),
            )],
        ),
        sample(Kind::Exfs, "", vec![at(0, xfs(b"EXFS"))]),
        sample(Kind::Ext4dev, "", ext([4, 0x42, 1], 4)),
        sample(Kind::Ext4, "", ext([4, 0x42, 1], 0)),
        sample(Kind::Ext3, "", ext([4, 2, 1], 0)),
        sample(Kind::Ext2, "", ext([0, 2, 1], 0)),
        sample(Kind::Journal, "", ext([0, 8, 0], 0)),
        sample(Kind::Reiserfs, "3.6", vec![at(64 * K, reiser(b"ReIsEr2Fs"))]),
        sample(Kind::Reiserfs, "3.5", vec![at(8 * K, reiser(b"ReIsErFs"))]),
        sample(Kind::Reiser4, "", vec![at(64 * K, joined(64, &[(0, b"ReIsEr4"), (20, ID), (36, NAME)]))]),
        sample(Kind::Jfs, "", vec![at(32 * K, jfs)]),
        sample(Kind::Udf, "blocks of 512", udf(512)),
        sample(Kind::Udf, "blocks of 2048", udf(2048)),
        sample(Kind::Udf, "blocks of 4096", udf(4096)),
        sample(Kind::Iso9660, "", iso(1, 0)),
        sample(Kind::Iso9660, "boot record first", iso(0, 1)),
        sample(
            Kind::Iso9660,
            "Joliet",
            vec![
                at(32 * K, descriptor(1, b"NAME_OF_A_DISC_1")),
                at(34 * K, descriptor(2, &utf16("Name of a disc ", true))),
                at(36 * K, b"\xffCD001\x01"),
            ],
        ),
        sample(Kind::Iso9660, "High Sierra", vec![at(32 * K, joined(128, &[(8, b"\x01CDROM\x01"), (48, NAME)]))]),
        sample(Kind::Zfs, "four uberblocks", zfs(4)),
        sample(Kind::Zfs, "three uberblocks", zfs(3)).unseen(),
        sample(Kind::HfsPlus, "", hfs_plus()),
        sample(Kind::Hfs, "", vec![at(1024, hfs)]),
        sample(
            Kind::Ufs,
            "version 2",
            vec![at(
                64 * K,
                joined(1376, &[(144, &[1, 2, 3, 4, 5, 6, 7, 8]), (680, NAME), (1372, b"\x19\x01\x54\x19")]),
            )],
        ),
        sample(
            Kind::Ufs,
            "big endian",
            vec![at(8 * K, joined(1376, &[(144, &[1, 2, 3, 4, 5, 6, 7, 8]), (1372, b"\x00\x01\x19\x54")]))],
        ),
        sample(
            Kind::Hpfs,
            "",
            vec![
                at(0, hpfs),
                at(8 * K, b"\x49\xe8\x95\xf9\xc5\xe9\x53\xfa\x02"),
                at(8 * K + 512, b"\x49\x18\x91\xf9\xc5\x29\x52\xfa"),
            ],
        ),
        sample(Kind::Sysv, "", vec![at(512, joined(512, &[(440, b"root"), (504, b"\x20\x7e\x18\xfd")]))]),
        sample(Kind::Xenix, "", vec![at(1024, joined(1100, &[(632, b"root"), (1024, b"\x2b\x55\x44")]))]),
        sample(Kind::Ntfs, "", ntfs()),
        sample(Kind::Refs, "", vec![at(0, b"\0\0\0ReFS\0")]),
        sample(Kind::Cramfs, "", vec![at(0, joined(64, &[(0, b"\x45\x3d\xcd\x28"), (48, NAME)]))]),
        sample(Kind::Romfs, "", vec![at(0, joined(64, &[(0, b"-rom1fs-"), (16, NAME)]))]),
        sample(Kind::Minix, "version 1", vec![minix(b"\x7f\x13")]),
        sample(Kind::Minix, "version 2", vec![minix(b"\x68\x24")]),
        sample(
            Kind::Minix,
            "version 3",
            vec![at(
                1024,
                joined(
                    32,
                    &[
                        (0, &[96, 0, 0, 0, 0, 0, 1, 0, 1, 0, 8]),
                        (20, &1000u32.to_le_bytes()),
                        (24, b"\x5a\x4d"),
                        (28, &[0, 16]),
                    ],
                ),
            )],
        ),
        sample(Kind::Gfs, "", vec![gfs([1309, 1401])]),
        sample(Kind::Gfs2, "", vec![gfs([1801, 1900])]),
        sample(
            Kind::Ocfs,
            "",
            vec![at(8 * K, b"OracleCFS"), at(8 * K + 512, joined(144, &[(48, NAME), (112, &[5]), (114, ID)]))],
        ),
        sample(Kind::Ocfs2, "", vec![at(2 * K, ocfs2)]),
        sample(Kind::OracleAsm, "", vec![at(32, b"ORCLDISKVOL1")]),
        sample(Kind::Vxfs, "", vec![at(1024, b"\xf5\xfc\x01\xa5\x07")]),
        sample(Kind::Vxfs, "big endian", vec![at(8 * K, b"\xa5\x01\xfc\xf5\0\0\0\x07")]),
        sample(Kind::Squashfs, "", vec![at(0, joined(64, &[(0, b"hsqs"), (28, &[4])]))]),
        sample(Kind::Squashfs3, "", vec![at(0, joined(64, &[(0, b"hsqs"), (28, &[3, 0, 1])]))]),
        sample(Kind::Squashfs3, "big endian", vec![at(0, joined(64, &[(0, b"sqsh"), (29, &[3, 0, 1])]))]),
        sample(Kind::Nss, "", vec![at(4 * K, joined(512, &[(0, b"SPB5"), (348, ID)]))]),
        sample(Kind::Btrfs, "", vec![at(64 * K, joined(4096, &[(32, ID), (64, b"_BHRfS_M"), (299, NAME)]))]),
        sample(Kind::Btrfs, "second copy alone", vec![at(0, b""), at(64 * M, joined(4096, &[(64, b"_BHRfS_M")]))])
            .unseen(),
        sample(Kind::Ubifs, "", vec![at(0, joined(128, &[(0, b"\x31\x18\x10\x06"), (108, ID)]))]),
        sample(Kind::Bfs, "", vec![at(0, b"\xce\xfa\xad\x1b")]),
        sample(Kind::Vmfs, "", vec![at(2 * M, vmfs)]),
        sample(Kind::Befs, "", befs()),
        sample(Kind::Nilfs2, "", vec![at(1024, nilfs(false))]),
        sample(Kind::Nilfs2, "at the end", vec![at(-4096, nilfs(false))]),
        sample(Kind::Nilfs2, "wrong sum", vec![at(1024, nilfs(true))]).unseen(),
        sample(Kind::Exfat, "", exfat()),
        sample(
            Kind::F2fs,
            "",
            vec![at(
                1024,
                joined(2048, &[(0, b"\x10\x20\xF5\xF2\x01\0\x0f"), (108, ID), (124, &utf16("Größe", false))]),
            )],
        ),
        sample(Kind::Mpool, "", vec![at(0, mpool())]),
        sample(
            Kind::Apfs,
            "",
            vec![at(0, joined(128, &[(24, &[1]), (32, b"NXSB"), (36, &4096u32.to_le_bytes()), (72, ID)]))],
        ),
        sample(Kind::Zonefs, "", vec![at(0, joined(64, &[(0, b"SFOZ"), (8, NAME), (40, ID)]))]),
        sample(
            Kind::Erofs,
            "",
            vec![at(1024, joined(128, &[(0, b"\xe2\xe1\xf5\xe0"), (12, &[12]), (48, ID), (64, NAME)]))],
        ),
        sample(Kind::ScoutfsMeta, "", vec![at(64 * K, scoutfs(1))]).unknown(),
        sample(Kind::ScoutfsData, "", vec![at(64 * K, scoutfs(0))]).unknown(),
    ]
}
