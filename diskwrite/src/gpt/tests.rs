//! Tables of images, good and damaged.

use super::*;
use proptest::prelude::*;

/// The first MiB of an image with these partitions: name, first and last sector.
pub(crate) fn head(sector: usize, partitions: &[(&str, u64, u64)]) -> Vec<u8> {
    let mut head = vec![0; 1 << 20];
    put(&mut head, 510, &[0x55, 0xAA]);
    for (index, (name, first, last)) in partitions.iter().enumerate() {
        let entry = &mut head[2 * sector + index * 128..][..128];
        put(entry, 0, &[7; 16]);
        put(entry, 32, &first.to_le_bytes());
        put(entry, 40, &last.to_le_bytes());
        for (at, unit) in name.encode_utf16().enumerate() {
            put(entry, 56 + 2 * at, &unit.to_le_bytes());
        }
    }
    let array = crc32fast::hash(&head[2 * sector..][..128 * 128]);
    let header = &mut head[sector..][..92];
    put(header, 0, b"EFI PART");
    put(header, 8, &[0, 0, 1, 0]);
    put(header, 12, &92u32.to_le_bytes());
    put(header, 24, &1u64.to_le_bytes());
    put(header, 72, &2u64.to_le_bytes());
    put(header, 80, &128u32.to_le_bytes());
    put(header, 84, &128u32.to_le_bytes());
    put(header, 88, &array.to_le_bytes());
    let crc = crc32fast::hash(&head[sector..][..92]);
    put(&mut head, sector + 16, &crc.to_le_bytes());
    head
}

#[test]
fn reads_both_sector_sizes() {
    for (sector, bytes) in [(512, 512u64), (4096, 4096)] {
        let head = head(sector, &[("boot", 2048, 4095), ("root", 4096, 9000)]);
        let size = image_sector_bytes(&head).unwrap();
        assert_eq!(u64::from(size), bytes);
        let found = partitions(&head, size).unwrap();
        let boot = Partition { number: 1, name: "boot".into(), start: 2048 * bytes, len: 2048 * bytes };
        assert_eq!(found[0], boot);
        assert_eq!(found[1].end(), 9001 * bytes);
        assert_eq!(found.len(), 2);
    }
}

#[test]
fn no_table_is_no_sector_size() {
    assert_eq!(image_sector_bytes(&[]), None);
    assert_eq!(image_sector_bytes(&vec![0; 1 << 20]), None);
    assert!(matches!(partitions(&vec![0; 1 << 20], 512), Err(TableError::Field { field: "signature", .. })));
}

#[test]
fn damage_is_named() {
    let good = head(512, &[("boot", 2048, 4095)]);
    let mut bad = good.clone();
    bad[512 + 30] ^= 1;
    assert!(matches!(partitions(&bad, 512), Err(TableError::Checksum { part: "header", .. })));
    let mut bad = good;
    bad[1024 + 60] ^= 1;
    assert!(matches!(partitions(&bad, 512), Err(TableError::Checksum { part: "entry array", .. })));
    let backwards = head(512, &[("boot", 9, 8)]);
    assert!(matches!(partitions(&backwards, 512), Err(TableError::Extent { number: 1, .. })));
    let huge = head(512, &[("boot", 1, u64::MAX)]);
    assert!(matches!(partitions(&huge, 512), Err(TableError::Extent { .. })));
}

#[test]
fn entries_stay_within_the_head() {
    for (at, value) in [(72, u64::MAX.to_le_bytes()), (80, [0xFF, 0xFF, 0xFF, 0xFF, 128, 0, 0, 0])] {
        let mut bad = head(512, &[("boot", 2048, 4095)]);
        put(&mut bad, 512 + at, &value);
        put(&mut bad, 512 + 16, &[0; 4]);
        let crc = crc32fast::hash(&bad[512..][..92]);
        put(&mut bad, 512 + 16, &crc.to_le_bytes());
        assert!(matches!(partitions(&bad, 512), Err(TableError::EntriesFar { .. })), "{at}");
    }
}

proptest! {
    #[test]
    fn never_panics(header in prop::collection::vec(any::<u8>(), 92), fix_crc in any::<bool>(), size in 0u32..6000) {
        let mut bytes = vec![0; 1 << 20];
        put(&mut bytes, 512, &header);
        put(&mut bytes, 512, b"EFI PART");
        if fix_crc {
            put(&mut bytes, 512 + 12, &[92, 0, 0, 0, 0, 0, 0, 0]);
            put(&mut bytes, 512 + 24, &1u64.to_le_bytes());
            let crc = crc32fast::hash(&bytes[512..][..92]);
            put(&mut bytes, 512 + 16, &crc.to_le_bytes());
        }
        let _ = partitions(&bytes, 512);
        let _ = partitions(&bytes[..8192.min(bytes.len())], size);
    }
}
