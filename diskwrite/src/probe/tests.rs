use super::*;
use crate::gpt::tests::head;
use proptest::prelude::*;
use std::io;

const MIB: usize = 1 << 20;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn probe_bytes(bytes: &[u8], sector: u32) -> Contents {
    probe(&bytes, u64::try_from(bytes.len()).unwrap(), sector)
}

fn mbr_entry(bytes: &mut [u8], at: usize, kind: u8, start: u32, sectors: u32) {
    bytes[at + 4] = kind;
    put(bytes, at + 8, &start.to_le_bytes());
    put(bytes, at + 12, &sectors.to_le_bytes());
}

#[test]
fn empty_disk_has_nothing() {
    for len in [0, 1, 511, 512, 4096, 3 * MIB] {
        let contents = probe_bytes(&vec![0; len], 512);
        assert!(contents.is_empty() && contents.unreadable.is_empty() && contents.systems.is_empty(), "{len}");
    }
}

#[test]
fn table_of_either_sector_size_is_seen_on_either_disk() {
    for (sector, bytes) in [(512usize, 512u64), (4096, 4096)] {
        let mut disk = head(sector, &[("boot", 1024, 1031), ("data", 2048, 2049)]);
        disk.resize(16 * MIB, 0);
        put(&mut disk, usize::try_from(1024 * bytes).unwrap() + 1024 + 56, &[0x53, 0xEF]);
        for disk_sector in [512, 4096] {
            let found = probe_bytes(&disk, disk_sector);
            assert_eq!(found.partitions.len(), 2, "{sector} {disk_sector}");
            assert_eq!(found.partitions[0].span, Span { offset: 1024 * bytes, len: 8 * bytes });
            assert_eq!(found.partitions[0].signatures[0].kind, Kind::Ext2);
            assert_eq!(found.partitions[0].signatures[0].magics, [Span { offset: 1024 * bytes + 1080, len: 2 }]);
            let detail = found.signatures[0].detail.clone().unwrap();
            assert!(detail.starts_with("backup missing"), "{detail}");
            assert_eq!(detail.contains("made for sectors"), u64::from(disk_sector) != bytes);
        }
    }
}

#[test]
fn damaged_and_lone_headers_are_named() {
    let primary = head(512, &[("boot", 4096, 4103)]);
    // The backup: entries before it, its own place in the header.
    let mut disk = primary.clone();
    disk.resize(4 * MIB, 0);
    let last = 4 * MIB / 512 - 1;
    let mut header = primary[512..1024].to_vec();
    put(&mut header, 24, &u64::try_from(last).unwrap().to_le_bytes());
    put(&mut header, 72, &u64::try_from(last - 32).unwrap().to_le_bytes());
    put(&mut header, 16, &[0; 4]);
    let crc = crc32fast::hash(&header[..92]);
    put(&mut header, 16, &crc.to_le_bytes());
    put(&mut disk, last * 512, &header);
    put(&mut disk, (last - 32) * 512, &primary[1024..1024 + 128 * 128]);

    let both = probe_bytes(&disk, 512);
    assert_eq!(both.signatures[0].detail, None);
    assert_eq!(both.signatures[0].magics.len(), 3);
    let mut damaged = disk.clone();
    damaged[512 + 40] ^= 1;
    let found = probe_bytes(&damaged, 512);
    assert_eq!(found.signatures[0].detail.as_deref(), Some("primary damaged"));
    assert_eq!(found.partitions.len(), 1);
    let mut lone = disk.clone();
    lone[..MIB].fill(0);
    let found = probe_bytes(&lone, 512);
    assert_eq!(found.signatures[0].detail.as_deref(), Some("primary missing"));
    assert_eq!(found.partitions[0].name, "boot");
    assert_eq!(found.signatures[0].magics, [Span { offset: u64::try_from(last * 512).unwrap(), len: 8 }]);
    // Both gone: what is left of them is still to be erased.
    lone[last * 512 + 40] ^= 1;
    let found = probe_bytes(&lone, 512);
    assert_eq!(found.signatures[0].detail.as_deref(), Some("primary missing, backup damaged"));
    assert_eq!((found.partitions.len(), found.signatures[0].magics.len()), (0, 1));
}

#[test]
fn logical_partitions_are_followed_but_no_ring() {
    let mut disk = vec![0; 4 * MIB];
    put(&mut disk, 510, &[0x55, 0xAA]);
    mbr_entry(&mut disk, 446, 0x83, 64, 64);
    mbr_entry(&mut disk, 462, 0x05, 2048, 4096);
    for (at, next) in [(2048usize, 1024u32), (3072, 0)] {
        put(&mut disk, at * 512 + 510, &[0x55, 0xAA]);
        mbr_entry(&mut disk, at * 512 + 446, 0x82, 8, 100);
        if at == 2048 {
            mbr_entry(&mut disk, at * 512 + 462, 0x05, next, 1024);
        } else {
            // Back to the first.
            mbr_entry(&mut disk, at * 512 + 462, 0x05, 0, 1024);
        }
    }
    let found = probe_bytes(&disk, 512);
    let places: Vec<_> = found.partitions.iter().map(|part| (part.number, part.span.offset / 512)).collect();
    assert_eq!(places, [(1, 64), (2, 2048), (5, 2056), (6, 3080)]);
    assert_eq!(found.partitions[2].type_name.as_deref(), Some("Linux swap"));
}

#[test]
fn raid_at_the_end_of_the_last_partition_is_not_the_disks() {
    let mut disk = vec![0; 4 * MIB];
    put(&mut disk, 510, &[0x55, 0xAA]);
    mbr_entry(&mut disk, 446, 0xFD, 2048, 6144);
    let at = 4 * MIB - 8192;
    put(&mut disk, at, &0xA92B_4EFCu32.to_le_bytes());
    put(&mut disk, at + 4, &1u32.to_le_bytes());
    // The same bytes are the end of both; the place they name is the partition's.
    put(&mut disk, at + 144, &u64::try_from((at - MIB) / 512).unwrap().to_le_bytes());
    let found = probe_bytes(&disk, 512);
    assert_eq!(found.signatures.iter().map(|sig| sig.kind).collect::<Vec<_>>(), [Kind::Mbr]);
    assert_eq!(found.partitions[0].signatures[0].detail.as_deref(), Some("version 1.0, RAID level 0 of 0 devices"));
    // Intel's names no place.
    put(&mut disk, 4 * MIB - 1024, b"Intel Raid ISM Cfg Sig. ");
    let found = probe_bytes(&disk, 512);
    assert_eq!(found.signatures.len(), 1);
    assert_eq!(found.partitions[0].signatures[1].kind, Kind::IntelRaid);
}

#[test]
fn windows_and_coreos_are_known_by_their_layout() {
    let mut disk = head(512, &[("EFI-SYSTEM", 2048, 2100), ("boot", 2101, 2200), ("root", 2201, 3000)]);
    disk.resize(4 * MIB, 0);
    assert_eq!(probe_bytes(&disk, 512).systems, ["CoreOS"]);
    let mut disk = vec![0; 4 * MIB];
    put(&mut disk, 510, &[0x55, 0xAA]);
    mbr_entry(&mut disk, 446, 7, 64, 64);
    put(&mut disk, 64 * 512 + 3, b"NTFS    ");
    assert_eq!(probe_bytes(&disk, 512).systems, ["Windows"]);
}

/// Fails for a part of its bytes.
struct Failing(Vec<u8>, std::ops::Range<u64>);

impl ReadAt for Failing {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset + u64::try_from(buf.len()).unwrap();
        if offset < self.1.end && self.1.start < end {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.0.read_at(buf, offset)
    }
}

#[test]
fn unreadable_sectors_hide_only_what_is_in_them() {
    let mut disk = vec![0; 4 * MIB];
    put(&mut disk, 0x10040, b"_BHRfS_M");
    put(&mut disk, 4086, b"SWAPSPACE2");
    let found = probe(&Failing(disk, 0..4096), 4 << 20, 512);
    assert_eq!(found.signatures.iter().map(|sig| sig.kind).collect::<Vec<_>>(), [Kind::Btrfs]);
    assert_eq!(found.unreadable, [Span { offset: 0, len: 4096 }]);
}

#[test]
fn names_that_would_disturb_a_terminal_are_cleaned() {
    let mut disk = vec![0; 4 * MIB];
    put(&mut disk, 1080, &[0x53, 0xEF]);
    put(&mut disk, 1024 + 120, b"\x1b[2Jroot");
    assert_eq!(probe_bytes(&disk, 512).signatures[0].label.as_deref(), Some("\u{FFFD}[2Jroot"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn hostile_bytes_never_panic(
        seed in any::<u64>(), len in 0usize..(3 * MIB), sector in prop::sample::select(vec![512u32, 4096, 0, 1, u32::MAX]),
        magics in prop::collection::vec((0usize..12, 0usize..6), 0..8),
    ) {
        const MAGICS: [(&[u8], usize); 12] = [
            (b"EFI PART", 512), (b"\x55\xAA", 510), (b"LABELONE", 512), (b"LVM2 001", 536), (b" LVM2 x[5A%r0N*>", 4100),
            (b"LUKS\xba\xbe", 0), (b"\xfc\x4e\x2b\xa9\x01\0\0\0", 4096), (b"\x01\x01\0\0", 16384),
            (b"bluestore block device", 0), (b"\x0c\xb1\xba\0\0\0\0\0", 131072), (b"\x53\xEF", 1080), (b"XFSB", 0),
        ];
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut disk: Vec<u8> = vec![0; len];
        for byte in disk.iter_mut().step_by(rng.usize(1..7)) {
            *byte = rng.u8(..);
        }
        for (index, _) in magics {
            let (magic, at) = MAGICS[index];
            if at + magic.len() <= disk.len() {
                put(&mut disk, at, magic);
            }
        }
        for signature in probe_bytes(&disk, sector).signatures {
            prop_assert!(!signature.magics.is_empty());
            prop_assert!(signature.magics.iter().all(|magic| magic.end() <= u64::try_from(len).unwrap()));
        }
    }
}
