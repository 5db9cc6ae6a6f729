//! Tables in memory.

use super::*;

fn entry(guid: u8, first: u64, last: u64) -> Entry {
    let bytes = [[1; 16], [guid; 16]].concat();
    Entry::read(&[bytes, first.to_le_bytes().to_vec(), last.to_le_bytes().to_vec()].concat())
}

fn table(sector_bytes: u32, entries: &[(u32, Entry)]) -> Table {
    let mut table = Table::new(8 << 20, sector_bytes, [5; 16]).unwrap();
    for (number, entry) in entries {
        table.set(*number, entry).unwrap();
    }
    table
}

#[test]
fn usable_range_has_exact_borders() {
    for (sector, first, last) in [(512, 34, 16350), (4096, 6, 2042)] {
        assert!(table(sector, &[(1, entry(1, first, last))]).check().is_ok());
        for bad in [entry(1, first - 1, last), entry(1, first, last + 1), entry(1, last, first), entry(1, 0, u64::MAX)]
        {
            assert!(matches!(table(sector, &[(1, bad)]).check(), Err(LayoutError::Outside { number: 1, .. })));
        }
    }
}

#[test]
fn neighbours_are_fine_and_overlaps_are_named() {
    let at = |first, last, next| table(512, &[(9, entry(1, next, 2000)), (2, entry(2, first, last))]);
    assert!(at(100, 199, 200).check().is_ok());
    assert_eq!(at(100, 200, 200).check(), Err(LayoutError::Overlap { first: 2, second: 9, lba: 200 }));
    let same = table(512, &[(3, entry(4, 40, 50)), (7, entry(4, 60, 70))]);
    assert_eq!(same.check(), Err(LayoutError::SameGuid { first: 3, second: 7 }));
}

#[test]
fn numbers_stay_within_the_table() {
    let mut table = table(512, &[]);
    assert!(table.set(128, &entry(1, 40, 50)).is_ok());
    assert_eq!(table.set(129, &entry(1, 40, 50)), Err(LayoutError::Number { number: 129, entries: 128 }));
    assert_eq!(table.set(0, &entry(1, 40, 50)), Err(LayoutError::Number { number: 0, entries: 128 }));
}

#[test]
fn disk_must_hold_both_copies() {
    let smallest = |sector: u32, sectors: u64| Table::new(u64::from(sector) * sectors, sector, [0; 16]);
    assert!(smallest(512, 68).is_ok() && smallest(4096, 12).is_ok());
    assert_eq!(smallest(512, 67), Err(LayoutError::DiskTooSmall { disk_sectors: 67 }));
    assert_eq!(smallest(4096, 11), Err(LayoutError::DiskTooSmall { disk_sectors: 11 }));
    assert!(smallest(512, 0).is_err());
}
