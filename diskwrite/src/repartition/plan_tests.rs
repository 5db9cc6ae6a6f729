#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
/// In sectors of 512 bytes.
const M: u64 = 2048;

fn any(number: u32) -> Wanted {
    Wanted {
        number,
        label: None,
        type_guid: None,
        guid: None,
        start: None,
        len: None,
        exists: true,
        replace: false,
        resize: false,
    }
}

fn at(number: u32, start: u64, len: u64) -> Wanted {
    Wanted { start: Some(start * MIB), len: Some(len * MIB), ..any(number) }
}

fn label(label: &str) -> Option<String> {
    Some(label.to_owned())
}

/// 64 MiB with partitions from MiB 1 to 9 ("a"), 16 to 24 ("b") and 24 to 40 ("c").
fn table() -> Table {
    let mut table = Table::new(64 * MIB, 512, [7; 16]).unwrap();
    for (number, (name, first, last)) in [("a", 1, 9), ("b", 16, 24), ("c", 24, 40)].into_iter().enumerate() {
        let number = u32::try_from(number).unwrap() + 1;
        let guid = u128::from(number).to_le_bytes();
        table.set(number, &Entry::new(LINUX.to_bytes_le(), guid, first * M, last * M - 1, name)).unwrap();
    }
    table
}

fn planned(table: &Table, wanted: &[Wanted]) -> Result<(Table, Vec<(u32, Fate)>), String> {
    let mut next = 0x1000u128;
    let mut guid = || {
        next += 1;
        next.to_le_bytes()
    };
    let (after, changes) = plan(table, wanted, &mut guid).map_err(|error| error.to_string())?;
    Ok((after, changes.iter().map(|change| (change.partition.number, change.fate)).collect()))
}

/// Number, first sector and last.
fn places(table: &Table) -> Vec<(u32, u64, u64)> {
    table.entries().map(|(number, entry)| (number, entry.first_lba(), entry.last_lba())).collect()
}

#[test]
fn what_has_neither_number_nor_place_takes_the_largest_block() {
    let empty = Table::new(64 * MIB, 512, [7; 16]).unwrap();
    let last = empty.usable().1;
    let small = Wanted { len: Some(4 * MIB), ..any(0) };
    let (after, fates) = planned(&empty, &[any(0), at(3, 8, 4), small]).unwrap();
    // As sgdisk places them, one after the other: the numbered first.
    assert_eq!(fates, [(3, Fate::Create), (1, Fate::Create), (2, Fate::Create)]);
    assert_eq!(places(&after), [(1, 12 * M, last), (2, M, 5 * M - 1), (3, 8 * M, 12 * M - 1)]);
}

#[test]
fn a_partition_as_it_should_be_stays() {
    let wanted = [at(1, 1, 8), Wanted { label: label("b"), ..any(2) }, any(3)];
    let (after, fates) = planned(&table(), &wanted).unwrap();
    assert_eq!((after, fates), (table(), vec![(1, Fate::Keep), (2, Fate::Keep), (3, Fate::Keep)]));
}

#[test]
fn the_error_names_the_difference() {
    let other = Uuid::from_u128(1);
    for (wanted, error) in [
        (at(1, 2, 7), "partition 1 didn't match: starting sector did not match (specified 4096, got 2048)"),
        (at(1, 1, 9), "partition 1 didn't match: size did not match (specified 18432, got 16384)"),
        (
            Wanted { label: label("x"), ..any(1) },
            r#"partition 1 didn't match: label did not match (specified "x", got "a")"#,
        ),
        (
            Wanted { type_guid: Some(other.to_bytes_le()), ..any(1) },
            r#"partition 1 didn't match: type GUID did not match (specified "00000000-0000-0000-0000-000000000001", got "0FC63DAF-8483-4772-8E79-3D69D8477DE4")"#,
        ),
        (
            Wanted { exists: false, ..any(1) },
            "partition 1 exists but is specified as nonexistant and wipePartitionEntry is false",
        ),
        (at(1, 1, 20), "partition 1 does not fit: 30720 sectors are free where it should begin, 40960 are needed"),
        (at(4, 20, 1), "partition 4 does not fit: 0 sectors are free where it should begin, 2048 are needed"),
        (any(200), "partition number 200 exceeds the table's 128 entries"),
    ] {
        assert_eq!(planned(&table(), &[wanted]).unwrap_err(), error);
    }
}

#[test]
fn one_that_differs_is_replaced_or_resized_where_that_is_allowed() {
    let replaced = Wanted { replace: true, label: label("new"), ..at(1, 1, 12) };
    let (after, fates) = planned(&table(), &[replaced]).unwrap();
    assert_eq!(fates, [(1, Fate::Replace)]);
    let entry = after.entry(1).unwrap();
    assert_eq!((entry.name().as_str(), entry.first_lba(), entry.last_lba()), ("new", M, 13 * M - 1));
    assert_ne!(entry.guid(), table().entry(1).unwrap().guid());

    let resized = Wanted { resize: true, len: Some(0), ..any(3) };
    let (after, fates) = planned(&table(), &[resized]).unwrap();
    assert_eq!(fates, [(3, Fate::Resize)]);
    assert_eq!(after.entry(3).unwrap(), table().entry(3).unwrap().ending_at(table().usable().1));
    let moved = Wanted { resize: true, ..at(1, 2, 4) };
    assert!(planned(&table(), &[moved]).unwrap_err().contains("starting sector"));
}

#[test]
fn one_is_deleted_beside_one_without_a_start() {
    let gone = Wanted { exists: false, replace: true, ..any(3) };
    let rest = Wanted { len: Some(20 * MIB), label: label("rest"), ..any(4) };
    let (after, fates) = planned(&table(), &[gone.clone(), rest]).unwrap();
    assert_eq!(fates, [(3, Fate::Delete), (4, Fate::Create)]);
    assert_eq!(places(&after), [(1, M, 9 * M - 1), (2, 16 * M, 24 * M - 1), (4, 24 * M, 44 * M - 1)]);
    // The next free number is that of the deleted one, which then is compared.
    let next = Wanted { label: label("next"), start: Some(0), ..any(0) };
    assert!(planned(&table(), &[gone.clone(), next.clone()]).unwrap_err().starts_with("partition 3 didn't match"));
    let (_, fates) = planned(&table(), &[gone, Wanted { replace: true, ..next }]).unwrap();
    assert_eq!(fates, [(3, Fate::Replace)]);
    assert_eq!(planned(&table(), &[Wanted { exists: false, ..any(9) }]).unwrap(), (table(), Vec::new()));
}

#[test]
fn alignment_is_that_of_the_partitions_there_are() {
    let mut table = Table::new(64 * MIB, 512, [7; 16]).unwrap();
    table.set(1, &Entry::new(LINUX.to_bytes_le(), [1; 16], 40, 4099, "odd")).unwrap();
    let (after, _) = planned(&table, &[any(2)]).unwrap();
    assert_eq!(after.entry(2).unwrap().first_lba(), 4104, "a multiple of 8, as 40 is");
    let large = Table::new(64 * MIB, 4096, [7; 16]).unwrap();
    let (after, _) = planned(&large, &[any(1)]).unwrap();
    assert_eq!(places(&after), [(1, 256, 16378)]);
}

prop_compose! {
    fn some_wanted()(
        number in 0u32..6,
        start in proptest::option::of(0u64..70),
        len in proptest::option::of(0u64..40),
        exists in proptest::bool::weighted(0.8),
        replace: bool,
        resize: bool,
    ) -> Wanted {
        let bytes = |mib: Option<u64>| mib.map(|mib| mib * MIB);
        Wanted { start: bytes(start), len: bytes(len), exists, replace, resize, ..any(number) }
    }
}

proptest! {
    #[test]
    fn no_table_with_faults_comes_of_it_and_what_is_not_named_stays(wanted in proptest::collection::vec(some_wanted(), 0..5)) {
        let before = table();
        let mut numbers = BTreeSet::new();
        prop_assume!(wanted.iter().all(|wanted| wanted.number == 0 || numbers.insert(wanted.number)));
        if let Ok((after, _)) = planned(&before, &wanted) {
            prop_assert_eq!(after.check(), Ok(()));
            for (number, entry) in before.entries() {
                if wanted.iter().all(|wanted| wanted.number != number && wanted.number != 0) {
                    prop_assert_eq!(after.entry(number), Some(entry));
                }
            }
            // What was done once is done.
            let again: Vec<_> = wanted.iter().filter(|wanted| wanted.number != 0 && !wanted.replace).cloned().collect();
            if again.len() == wanted.len() {
                prop_assert_eq!(planned(&after, &wanted).map(|(table, _)| table), Ok(after));
            }
        }
    }
}
