//! Where a table is looked for. What is found there is tested with what is kept of it, in `saved`.

use super::*;

const MIB: u64 = 1 << 20;

/// A disk with both copies of an empty table, as far as they are written.
fn disk(sector_bytes: u32, primary: bool, backup: bool) -> Vec<u8> {
    let table = Table::new(4 * MIB, sector_bytes, [9; 16]).unwrap();
    let mut disk = vec![0; 4 << 20];
    if primary {
        super::super::put(&mut disk, usize::try_from(sector_bytes).unwrap(), &table.primary());
    }
    if backup {
        let (offset, bytes) = table.backup();
        super::super::put(&mut disk, usize::try_from(offset).unwrap(), &bytes);
    }
    disk
}

fn look(disk: &[u8], sector_bytes: u32) -> Result<Option<Which>, FindError> {
    let mut read = |offset: u64, len: usize| {
        let from = usize::try_from(offset).unwrap();
        Ok(disk[from..from + len].to_vec())
    };
    let found = find(&mut read, u64::try_from(disk.len()).unwrap(), sector_bytes)?;
    if let Some(found) = &found {
        assert_eq!(found.table, Table::new(4 * MIB, sector_bytes, [9; 16]).unwrap());
    }
    Ok(found.map(|found| found.which))
}

#[test]
fn backup_stands_in_for_a_damaged_primary() {
    for sector in [512, 4096] {
        assert_eq!(look(&disk(sector, true, true), sector).unwrap(), Some(Which::Primary));
        assert_eq!(look(&disk(sector, true, false), sector).unwrap(), Some(Which::Primary));
        assert_eq!(look(&disk(sector, false, true), sector).unwrap(), Some(Which::Backup));
        assert_eq!(look(&disk(sector, false, false), sector).unwrap(), None);
        assert_eq!(look(&disk(sector, true, true), 4608 - sector).unwrap(), None);
        let at = usize::try_from(sector).unwrap();
        // Its header, then its entries.
        for byte in [at, at + 20, at + 56, at * 2 + 300] {
            let mut damaged = disk(sector, true, true);
            damaged[byte] ^= 1;
            assert_eq!(look(&damaged, sector).unwrap(), Some(Which::Backup), "{byte}");
        }
    }
}

#[test]
fn table_that_was_there_is_not_taken_for_none() {
    let mut one = disk(512, true, false);
    one[512 + 60] ^= 1;
    let error = look(&one, 512).unwrap_err();
    let FindError::Damaged { primary, backup } = &error else { panic!("{error}") };
    assert!(matches!(primary, TableError::Checksum { part: "header", .. }));
    assert!(matches!(backup, TableError::Field { field: "signature", found: 0 }));
    let mut other = disk(512, false, true);
    let len = other.len();
    other[len - 600] ^= 1;
    assert!(matches!(look(&other, 512), Err(FindError::Damaged { .. })));
}

#[test]
fn primary_header_leads_to_a_backup_elsewhere() {
    // The disk has grown since the table was made, and the primary's entries are damaged.
    let mut grown = disk(512, true, true);
    grown.resize(6 << 20, 0);
    grown[1024 + 5] ^= 1;
    assert_eq!(look(&grown, 512).unwrap(), Some(Which::Inner));
    // Its header is damaged too: nothing tells where to look.
    grown[512 + 60] ^= 1;
    assert!(matches!(look(&grown, 512), Err(FindError::Damaged { .. })));
}

#[test]
fn failing_disk_is_no_empty_disk() {
    let mut read = |_, _| Err(io::Error::from_raw_os_error(libc::EIO));
    let error = find(&mut read, 4 * MIB, 512).unwrap_err();
    assert_eq!(error.to_string(), "cannot read 512 bytes at byte 512");
    // But where the other copy can be read, it is as good.
    for sector in [512, 4096] {
        let (disk, bad) = (disk(sector, true, true), u64::from(sector));
        let mut read = |offset: u64, len: usize| {
            if offset == bad {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            let from = usize::try_from(offset).unwrap();
            Ok(disk[from..from + len].to_vec())
        };
        assert_eq!(find(&mut read, 4 * MIB, sector).unwrap().unwrap().which, Which::Backup);
    }
    let mut never = |_, _| panic!("too small to look");
    assert!(find(&mut never, 1024, 512).unwrap().is_none());
}

#[test]
fn header_in_the_place_of_another_is_not_one() {
    for sector in [512, 4096] {
        let at = usize::try_from(sector).unwrap();
        let mut disk = disk(sector, true, false);
        let end = disk.len() - at;
        disk.copy_within(at..2 * at, end);
        disk[at..2 * at].fill(0);
        let error = look(&disk, sector).unwrap_err();
        let FindError::Damaged { backup, .. } = &error else { panic!("{error}") };
        assert!(matches!(backup, TableError::Field { field: "own sector", found: 1 }), "{backup}");
    }
}
