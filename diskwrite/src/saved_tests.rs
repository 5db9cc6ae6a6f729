//! Tables written and read here by other code than the library's, and a model of what filters and merging do.

use super::*;
use crate::buffer::Block;
use crate::fake_disk::{FakeDisk, Op};
use crate::options::{Changes, InstallOptions};
use crate::write::Writer;
use fastrand::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: usize = 1 << 20;
const NAMES: [&str; 5] = ["data", "logs", "boot", "root", ""];

/// Entries by number.
type Entries = BTreeMap<u32, Vec<u8>>;

fn at64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn at32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap()
}

/// A disk's sectors: all, those of the entries, and the last usable.
fn geometry(disk: &[u8], sector: usize) -> (usize, usize, usize) {
    let (all, entries) = (disk.len() / sector, 16384 / sector);
    (all, entries, all - entries - 2)
}

fn header(disk: &[u8], sector: usize, entries: &Entries, here: usize, other: usize, at: usize) -> Vec<u8> {
    let (_, count, last) = geometry(disk, sector);
    let mut array = vec![0; 16384];
    for (number, entry) in entries {
        array[index((*number - 1).into()) * 128..][..128].copy_from_slice(entry);
    }
    let mut header = [b"EFI PART".as_slice(), &[0, 0, 1, 0], &92u32.to_le_bytes(), &[0; 8]].concat();
    for value in [here, other, 2 + count, last] {
        header.extend(wide(value).to_le_bytes());
    }
    header.extend([0xD1; 16]);
    header.extend(wide(at).to_le_bytes());
    header.extend([128u32, 128, crc32fast::hash(&array)].iter().flat_map(|value| value.to_le_bytes()));
    let crc = crc32fast::hash(&header).to_le_bytes();
    header[16..20].copy_from_slice(&crc);
    header.resize(sector, 0);
    if here < other { [header, array].concat() } else { [array, header].concat() }
}

/// Puts both copies of a table on a disk.
fn put_gpt(disk: &mut [u8], sector: usize, entries: &Entries) {
    let (all, count, _) = geometry(disk, sector);
    let primary = header(disk, sector, entries, 1, all - 1, 2);
    let backup = header(disk, sector, entries, all - 1, 1, all - 1 - count);
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk[sector..][..primary.len()].copy_from_slice(&primary);
    disk[(all - 1 - count) * sector..].copy_from_slice(&backup);
}

/// Both copies of a table, checked against each other, the disk and the protective MBR.
fn read_gpt(disk: &[u8], sector: usize) -> ([u8; 16], Entries) {
    let (all, count, last) = geometry(disk, sector);
    let copy = |lba: usize, other: usize, entries_lba: usize| {
        let header = &disk[lba * sector..][..sector];
        assert_eq!(header[..16], *b"EFI PART\0\0\x01\0\x5C\0\0\0");
        let zeroed = [&header[..16], &[0; 4], &header[20..92]].concat();
        assert_eq!(at32(header, 16), crc32fast::hash(&zeroed));
        let fields = [24, 32, 40, 48, 72].map(|at| index(at64(header, at)));
        assert_eq!(fields, [lba, other, 2 + count, last, entries_lba]);
        assert_eq!((at32(header, 80), at32(header, 84)), (128, 128));
        assert!(header[92..].iter().all(|byte| *byte == 0));
        let array = &disk[entries_lba * sector..][..16384];
        assert_eq!(at32(header, 88), crc32fast::hash(array));
        let used = (1..).zip(array.chunks(128)).filter(|(_, entry)| entry[..16] != [0; 16]);
        let guid: [u8; 16] = header[56..72].try_into().unwrap();
        (guid, used.map(|(number, entry)| (number, entry.to_vec())).collect::<Entries>())
    };
    let primary = copy(1, all - 1, 2);
    assert_eq!(primary, copy(all - 1, 1, all - 1 - count));
    let protective = [&[0, 0, 2, 0, 0xEE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0], &disk[458..462]].concat();
    assert_eq!(disk[446..462], protective);
    assert_eq!(index(at32(disk, 458).into()), all - 1);
    assert_eq!(disk[462..512], [[0; 16].as_slice(), &[0; 16], &[0; 16], &[0x55, 0xAA]].concat());
    primary
}

fn entry(rng: &mut Rng, name: &str, first: usize, last: usize) -> Vec<u8> {
    let mut entry: Vec<u8> = std::iter::repeat_with(|| rng.u8(1..)).take(32).collect();
    entry.extend([wide(first), wide(last), rng.u64(..)].iter().flat_map(|value| value.to_le_bytes()));
    entry.extend(name.encode_utf16().flat_map(u16::to_le_bytes));
    entry.resize(128, 0);
    entry
}

fn name_of(entry: &[u8]) -> String {
    String::from_utf16(&entry[56..].chunks(2).map(|b| u16::from(b[0])).take_while(|b| *b != 0).collect::<Vec<_>>())
        .unwrap()
}

/// Partitions that do not overlap, within these sectors, under different numbers.
fn random_entries(rng: &mut Rng, most: usize, from: usize, to: usize) -> Entries {
    let count = rng.usize(0..=most);
    let mut bounds: Vec<usize> = std::iter::repeat_with(|| rng.usize(from..=to)).take(2 * count).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut entries = Entries::new();
    for bound in bounds.chunks_exact(2) {
        let number = if rng.u8(..) < 20 { rng.u32(100..=128) } else { rng.u32(1..=12) };
        let name = NAMES[rng.usize(..NAMES.len())];
        let new = entry(rng, name, bound[0], bound[1]);
        entries.entry(number).or_insert(new);
    }
    entries
}

fn extent(entry: &[u8]) -> (u64, u64) {
    (at64(entry, 32), at64(entry, 40))
}

fn overlap<'a>(entries: impl Iterator<Item = &'a Vec<u8>>) -> bool {
    let extents: Vec<_> = entries.map(|entry| extent(entry)).collect();
    let pairs = extents.iter().enumerate().flat_map(|(i, a)| extents[i + 1..].iter().map(move |b| (a, b)));
    pairs.into_iter().any(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
}

fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    let block: Vec<u8> = std::iter::repeat_with(|| rng.u8(1..)).take(4096).collect();
    let mut bytes = block.repeat(len.div_ceil(4096));
    bytes.truncate(len);
    bytes.chunks_mut(4096).for_each(|chunk| chunk[0] = rng.u8(1..));
    bytes
}

fn find_in(disk: &[u8], sector: usize, filters: &Filters) -> Result<Saved, SavedError> {
    let sector_bytes = u32::try_from(sector).unwrap();
    let disk_bytes = wide(disk.len());
    let disk_geometry = Geometry { path: "fake".into(), size_bytes: disk_bytes, sector_bytes };
    let mut read = |offset, len: usize| {
        let bytes = disk.get(index(offset)..index(offset) + len);
        bytes.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    };
    Saved::find(&mut read, &disk_geometry, filters)
}

fn filters(labels: &[&str], numbers: &[&str]) -> Filters {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let options = InstallOptions {
        changes: Changes { save_partlabels: owned(labels), save_partindexes: owned(numbers), ..Default::default() },
        ..Default::default()
    };
    Filters::parse(&options).unwrap()
}

fn buffer(data: &[u8]) -> Buffer {
    let mut buffer = zeros(data.len());
    buffer.copy_from_slice(data);
    buffer
}

fn apply(disk: &mut [u8], ends: &Ends) {
    disk[..ends.head.len()].copy_from_slice(&ends.head);
    disk[index(ends.tail_offset)..].copy_from_slice(&ends.tail);
}

/// The image's first MiB, of an image of this size.
fn image_head(rng: &mut Rng, sector: usize, len: usize, entries: &Entries) -> Vec<u8> {
    let mut image = noise(rng, len);
    put_gpt(&mut image, sector, entries);
    image.truncate(MIB);
    image
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn merging_does_what_the_model_says(seed in any::<u64>(), native in any::<bool>(), damage in 0..3) {
        let rng = &mut Rng::with_seed(seed);
        let sector = if native { 4096 } else { 512 };
        let disk_len = rng.usize(4..10) * MIB + sector * rng.usize(0..3);
        let mut disk = noise(rng, disk_len);
        let (all, count, last) = geometry(&disk, sector);
        let image_len = rng.usize(3..=8) * MIB / 2;
        let lowest = if rng.bool() { (image_len / sector).min(last) } else { 2 + count };
        let old = random_entries(rng, 6, lowest, last);
        put_gpt(&mut disk, sector, &old);
        match damage {
            1 => disk[sector + rng.usize(0..92)] ^= 0x40,
            2 => disk[(all - 1) * sector + rng.usize(0..92)] ^= 0x40,
            _ => {}
        }
        let new = random_entries(rng, 5, MIB / sector, image_len / sector - count - 2);
        let head = image_head(rng, sector, image_len, &new);

        let label = NAMES[rng.usize(..NAMES.len())];
        let (from, to) = (rng.u32(1..12), rng.u32(12..130));
        let range = format!("{from}-{to}");
        let by_label = rng.bool();
        let filters = if by_label { filters(&[label], &[]) } else { filters(&[], &[&range]) };
        let wanted = |number: u32, entry: &[u8]| {
            if by_label { name_of(entry) == label } else { (from..=to).contains(&number) }
        };
        let preserved: Entries = old.clone().into_iter().filter(|(number, entry)| wanted(*number, entry)).collect();

        let saved = find_in(&disk, sector, &filters).unwrap();
        prop_assert_eq!(saved.partitions().len(), preserved.len());
        let before = disk.clone();
        apply(&mut disk, &saved.ends());
        let intact = |disk: &[u8]| preserved.values().all(|entry| {
            let (first, last) = extent(entry);
            // The image never gets to what starts in the first MiB.
            let bytes = (index(first) * sector).max(MIB)..(index(last + 1) * sector).max(MIB);
            disk[bytes.clone()] == before[bytes]
        });
        prop_assert!(intact(&disk));
        let limit = preserved.values().map(|entry| extent(entry).0 * wide(sector)).min();
        let ok_up_to = |end: u64| saved.check_reach(end).is_ok();
        prop_assert!(limit.map_or(ok_up_to(u64::MAX), |limit| ok_up_to(limit) && !ok_up_to(limit + 1)));
        if preserved.is_empty() {
            prop_assert!(saved.merge(&head, false).unwrap().is_none());
            prop_assert!(disk[..MIB].iter().chain(&disk[disk.len() - MIB..]).all(|byte| *byte == 0));
            return Ok(());
        }
        prop_assert_eq!(read_gpt(&disk, sector).1, preserved.clone());
        prop_assert!(disk[..446].iter().all(|byte| *byte == 0));

        let mut expected = new.clone();
        let mut next = new.keys().max().map_or(1, |number| number + 1);
        for (number, entry) in &preserved {
            next = next.max(*number);
            expected.insert(next, entry.clone());
            next += 1;
        }
        let merged = saved.merge(&head, false);
        if *expected.keys().max().unwrap() > 128 {
            { let refused = matches!(merged, Err(SavedError::Merge(LayoutError::Number { .. }))); prop_assert!(refused) }
        } else if overlap(expected.values()) {
            { let refused = matches!(merged, Err(SavedError::Merge(LayoutError::Overlap { .. }))); prop_assert!(refused) }
        } else if new.values().any(|entry| index(extent(entry).1) > last) {
            { let refused = matches!(merged, Err(SavedError::Merge(LayoutError::Outside { .. }))); prop_assert!(refused) }
        } else {
            let merged = merged.unwrap().unwrap();
            apply(&mut disk, &merged.ends(buffer(&head)));
            prop_assert_eq!(read_gpt(&disk, sector), ([0xD1; 16], expected.clone()));
            prop_assert!(intact(&disk));
            prop_assert_eq!(&disk[..446], &head[..446]);
            prop_assert_eq!(&disk[512..sector], &head[512..sector]);
            prop_assert_eq!(&disk[(2 + count) * sector..MIB], &head[(2 + count) * sector..]);
            prop_assert_eq!(merged.partitions.len(), expected.len());
            for partition in &merged.saved {
                prop_assert_eq!(&expected[&partition.new_number.unwrap()], &preserved[&partition.number]);
            }
        }
    }
}

/// What is on the medium after so much of the log: all that was flushed, and any sectors of the rest.
fn lose_power(medium: &mut [u8], log: &[Op], sector: usize, rng: &mut Rng) {
    let flushed = log.iter().rposition(|op| matches!(op, Op::Sync)).unwrap_or(0);
    let odds = rng.u8(0..=255);
    for op in log {
        let Op::Start { id, at, data } = op else { continue };
        let is_done = |op: &Op| matches!(op, Op::Done { id: done, len } if done == id && *len == data.len());
        let safe = log[..flushed].iter().any(is_done);
        for (n, piece) in data.chunks(sector).enumerate() {
            if safe || rng.u8(..) <= odds {
                medium[at + n * sector..][..piece.len()].copy_from_slice(piece);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn power_loss_never_loses_a_saved_partition(
        seed in any::<u64>(), native in any::<bool>(), damage in 0..3, near_sync in any::<bool>(),
        at in any::<prop::sample::Index>(), cleared in any::<bool>(), then in any::<prop::sample::Index>(),
    ) {
        let rng = &mut Rng::with_seed(seed);
        let sector = if native { 4096 } else { 512 };
        let mut old = noise(rng, 6 * MIB);
        let (all, _, last) = geometry(&old, sector);
        let lba = |mib: usize| mib * MIB / sector;
        let data = entry(rng, "data", lba(4), lba(5) - 1);
        let end = entry(rng, "data", last - 3, last);
        let root = entry(rng, "root", lba(1), lba(4) - 1);
        let entries = Entries::from([(1, root), (3, data.clone()), (9, end.clone())]);
        put_gpt(&mut old, sector, &entries);
        match damage {
            1 => old[sector..sector + 92].fill(0),
            2 => old[(all - 1) * sector..].fill(0),
            _ => {}
        }
        let new = Entries::from([(1, entry(rng, "boot", lba(1), lba(2))), (2, entry(rng, "root", lba(2) + 1, lba(3)))]);
        let mut image = noise(rng, 4 * MIB);
        let head = image_head(rng, sector, 4 * MIB, &new);
        image[..MIB].copy_from_slice(&head);

        let saved = find_in(&old, sector, &filters(&["data"], &[])).unwrap();
        let table = saved.merge(&head, false).unwrap().unwrap();
        let mut disk = FakeDisk::new(old.len(), seed);
        disk.bytes.copy_from_slice(&old);
        let mut writer = Writer::new(&mut disk, "fake".into(), wide(old.len()), u32::try_from(sector).unwrap());
        writer.begin(&saved.ends()).unwrap();
        writer.block(Block { offset: wide(MIB), data: buffer(&image[MIB..]) }, sector).unwrap();
        writer.sync().unwrap();
        writer.finish(&table.ends(buffer(&head))).unwrap();
        drop(writer);

        // Most of what can go wrong is near a flush.
        let log = &disk.log;
        let syncs: Vec<_> = (0..log.len()).filter(|n| matches!(log[*n], Op::Sync)).collect();
        let near = syncs[at.index(syncs.len())].saturating_sub(rng.usize(0..4));
        let log = &log[..if near_sync { near } else { at.index(log.len() + 1) }];
        let mut medium = old.clone();
        lose_power(&mut medium, log, sector, rng);
        if cleared {
            // What failed there was no more than a write: the disk is cleared, and then the power goes.
            let standing = saved.standing(&mut |offset, len| Ok(medium[index(offset)..][..len].to_vec()));
            let mut disk = FakeDisk::new(medium.len(), seed);
            disk.bytes.copy_from_slice(&medium);
            let mut writer = Writer::new(&mut disk, "fake".into(), wide(old.len()), u32::try_from(sector).unwrap());
            writer.clear(&saved.ends_over(standing)).unwrap();
            drop(writer);
            lose_power(&mut medium, &disk.log[..then.index(disk.log.len() + 1)], sector, rng);
        }
        let all_of_it = find_in(&medium, sector, &filters(&[], &["1-"])).unwrap();
        let table: Entries =
            all_of_it.table.iter().flat_map(Table::entries).map(|(n, entry)| (n, entry.bytes().to_vec())).collect();
        for entry in [&data, &end] {
            prop_assert!(table.values().any(|found| found == entry));
            let (first, last) = extent(entry);
            let bytes = index(first) * sector..index(last + 1) * sector;
            prop_assert!(medium[bytes.clone()] == old[bytes]);
        }
        if table.len() > 2 {
            let (untouched, complete) = (MIB..4 * MIB, medium[MIB..image.len()] == image[MIB..]);
            prop_assert!(table == entries && medium[untouched.clone()] == old[untouched] || complete);
        }
    }
}

fn disk_with(sector: usize, parts: &[(u32, &str, usize, usize)]) -> Vec<u8> {
    let rng = &mut Rng::with_seed(7);
    let mut disk = vec![0; 8 * MIB];
    let entries = parts.iter().map(|(number, name, first, last)| (*number, entry(rng, name, *first, *last)));
    let entries = entries.collect();
    put_gpt(&mut disk, sector, &entries);
    disk
}

fn message(result: Result<Saved, SavedError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn partitions_that_cannot_be_saved_are_refused_in_coreos_installers_words() {
    let by_number = filters(&[], &["1-"]);
    let by_label = filters(&["*"], &[]);
    let mut mbr = vec![0; 8 * MIB];
    mbr[510..512].copy_from_slice(&[0x55, 0xAA]);
    assert_eq!(message(find_in(&mbr, 512, &by_number)), "saving partitions from an MBR disk is not yet supported");
    assert_eq!(message(find_in(&mbr, 4096, &by_number)), "saving partitions from an MBR disk is not yet supported");
    assert!(find_in(&mbr, 512, &by_label).unwrap().partitions().is_empty());
    assert!(find_in(&vec![0; 8 * MIB], 512, &by_number).unwrap().partitions().is_empty());

    let disk = disk_with(512, &[(3, "data", 8192, 9000)]);
    assert_eq!(message(find_in(&disk, 4096, &by_label)), "GPT sector size 512 doesn't match expected 4096");
    let native = disk_with(4096, &[(3, "data", 1024, 1030)]);
    assert_eq!(message(find_in(&native, 512, &by_label)), "GPT sector size 4096 doesn't match expected 512");

    let dry_run = "failed dry run restoring saved partitions; input partition table may be invalid";
    let overlapping = disk_with(512, &[(3, "data", 8192, 9000), (4, "data", 9000, 9001), (5, "x", 8192, 9000)]);
    assert_eq!(message(find_in(&overlapping, 512, &by_label)), dry_run);
    assert!(find_in(&overlapping, 512, &filters(&["x"], &[])).is_ok(), "only what is kept must be right");
    for (first, last) in [(9000, 8000), (33, 40), (8 * 2048 - 100, 8 * 2048 - 33), (1, usize::MAX)] {
        let bad = disk_with(512, &[(3, "data", first, last)]);
        assert_eq!(message(find_in(&bad, 512, &by_label)), dry_run, "{first} {last}");
    }
    let rng = &mut Rng::with_seed(7);
    let one = entry(rng, "data", 8192, 9000);
    let mut twin = one.clone();
    twin[32..48].copy_from_slice(&[9001u64.to_le_bytes(), 9002u64.to_le_bytes()].concat());
    let mut twins = vec![0; 8 * MIB];
    put_gpt(&mut twins, 512, &Entries::from([(1, one), (2, twin)]));
    let error = find_in(&twins, 512, &by_label).unwrap_err();
    assert!(matches!(error, SavedError::DryRun(LayoutError::SameGuid { first: 1, second: 2 })), "{error:?}");

    let saved = find_in(&disk, 512, &by_number).unwrap();
    assert_eq!(
        saved.check_reach(8192 * 512 + 1).unwrap_err().to_string(),
        "collision with partition 3 (\"data\") at offset 4194304"
    );
    assert!(matches!(saved.merge(&vec![0; MIB], false), Err(SavedError::NoTable)));
}

#[test]
fn moves_are_reported_as_coreos_installer_does() {
    let rng = &mut Rng::with_seed(1);
    let disk = disk_with(512, &[(1, "data", 8192, 8200), (6, "logs", 8300, 8400), (7, "", 8500, 8600)]);
    let saved = find_in(&disk, 512, &filters(&[], &["-7"])).unwrap();
    let new = Entries::from([(4, entry(rng, "root", 2048, 4000))]);
    let head = image_head(rng, 512, 4 * MIB, &new);
    let listed: Vec<_> =
        saved.merge(&head, false).unwrap().unwrap().saved.iter().map(SavedPartition::to_string).collect();
    assert_eq!(
        listed,
        [
            "Saving partition 1 (\"data\") to new partition 5",
            "Saving partition 6 (\"logs\") to new partition 6",
            "Saving partition 7 (\"\") to new partition 7"
        ]
    );
}

#[test]
fn new_guid_changes_nothing_else_and_completes_the_table() {
    let rng = &mut Rng::with_seed(1);
    let new = Entries::from([(4, entry(rng, "root", 2048, 4000))]);
    let head = image_head(rng, 512, 4 * MIB, &new);
    let mut disk = vec![0; 8 * MIB];
    let saved = find_in(&disk, 512, &Filters::default()).unwrap();
    apply(&mut disk, &saved.merge(&head, true).unwrap().unwrap().ends(buffer(&head)));
    let (guid, entries) = read_gpt(&disk, 512);
    assert_eq!(entries, new);
    assert!(guid != [0xD1; 16] && guid[7] >> 4 == 4 && guid[8] >> 6 == 2, "{guid:x?}");
    assert_eq!(disk[34 * 512..MIB], head[34 * 512..]);
    // Without a table there is nothing to give a GUID to.
    assert!(saved.merge(&vec![0; MIB], true).unwrap().is_none());
    // An image with a partition where the backup must go.
    let tight = Entries::from([(4, entry(rng, "root", 2048, 8 * 2048 - 34))]);
    let head = image_head(rng, 512, 9 * MIB, &tight);
    assert!(saved.merge(&head, true).is_ok());
    let tight = Entries::from([(4, entry(rng, "root", 2048, 8 * 2048 - 33))]);
    let head = image_head(rng, 512, 9 * MIB, &tight);
    assert!(matches!(saved.merge(&head, true), Err(SavedError::Merge(LayoutError::Outside { number: 4, .. }))));
}
