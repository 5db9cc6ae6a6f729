//! The writer over a disk in memory that fails, or loses power, at any moment.

use super::*;
use crate::fake_disk::{FakeDisk, after_power_loss};
use crate::flight::DEPTH;
use crate::zeros::is_zero;
use proptest::prelude::*;

const MIB: usize = 1 << 20;

fn image(len: usize) -> Vec<u8> {
    let mut image = vec![0; len];
    for (sector, number) in image.chunks_mut(512).zip(0u32..) {
        sector.fill(number.to_le_bytes()[0] | 1);
    }
    image[512..520].copy_from_slice(b"EFI PART");
    if len >= 4 * MIB {
        image[2 * MIB..3 * MIB].fill(0);
    }
    image
}

/// Writes the image in blocks that come in any order, and sees that their memory comes back.
fn write(disk: &mut FakeDisk, image: &[u8], block_bytes: usize) -> Result<(), WriteError> {
    write_in(disk, image, block_bytes, 512)
}

fn write_in(disk: &mut FakeDisk, image: &[u8], block_bytes: usize, sector: usize) -> Result<(), WriteError> {
    let disk_bytes = bytes(disk.bytes.len());
    let mut order = fastrand::Rng::with_seed(bytes(image.len()));
    let mut writer = Writer::new(disk, "fake".into(), disk_bytes, u32::try_from(sector).unwrap());
    let cleared = Ends::cleared(disk_bytes);
    let result = (|| {
        writer.begin(&cleared)?;
        let mut blocks: Vec<_> = image[MIB..].chunks(block_bytes).enumerate().collect();
        order.shuffle(&mut blocks);
        let (count, mut freed) = (blocks.len(), 0);
        for (index, piece) in blocks {
            let offset = bytes(MIB + index * block_bytes);
            writer.block(Block { offset, data: filled(piece) }, sector)?;
            while writer.freed().is_some() {
                freed += 1;
            }
        }
        writer.sync()?;
        assert_eq!(writer.written(), bytes(image.len()));
        while writer.freed().is_some() {
            freed += 1;
        }
        assert_eq!(freed, count);
        let ends = Ends {
            head: filled(&image[..MIB]),
            tail_offset: writer.backup_from,
            tail: writer.backup.copy(),
            first: None,
        };
        writer.finish(&ends)
    })();
    if result.is_err() {
        let _ = writer.clear(&cleared);
    }
    result
}

fn filled(data: &[u8]) -> Buffer {
    let mut buffer = Buffer::new(data.len().next_multiple_of(512));
    buffer.whole()[..data.len()].copy_from_slice(data);
    buffer.set_len(data.len());
    buffer
}

#[test]
fn writes_everything_and_wipes_the_tail() {
    let image = image(5 * MIB + 512);
    let mut disk = FakeDisk::new(8 * MIB, 1);
    disk.short_every = 3;
    write(&mut disk, &image, 2 * MIB).unwrap();
    assert!(disk.bytes[..image.len()] == image[..]);
    assert!(is_zero(&disk.bytes[7 * MIB..]));
}

#[test]
fn last_sector_is_padded_with_zeros() {
    let image = image(2 * MIB + 100);
    let mut disk = FakeDisk::new(8 * MIB, 1);
    write(&mut disk, &image, MIB).unwrap();
    assert!(disk.bytes[..image.len()] == image[..]);
    assert!(is_zero(&disk.bytes[image.len()..2 * MIB + 512]));
    assert_eq!(disk.bytes[2 * MIB + 512], 0xEE);
}

#[test]
fn image_as_large_as_the_disk_fits() {
    let image = image(4 * MIB);
    let mut disk = FakeDisk::new(4 * MIB, 2);
    write(&mut disk, &image, MIB).unwrap();
    assert!(disk.bytes == image);
}

#[test]
fn backup_table_of_an_image_as_large_as_the_disk_waits_for_the_end() {
    let image = image(4 * MIB);
    let mut disk = FakeDisk::new(4 * MIB, 2);
    let mut writer = Writer::new(&mut disk, "fake".into(), 4 << 20, 512);
    writer.begin(&Ends::cleared(4 << 20)).unwrap();
    writer.block(Block { offset: bytes(MIB), data: filled(&image[MIB..]) }, 512).unwrap();
    writer.sync().unwrap();
    let (ends, _) = writer.into_ends(filled(&image[..MIB]));
    assert_eq!(ends.tail_offset, (4 << 20) - 33 * 512);
    assert_eq!(ends.tail[..], image[4 * MIB - 33 * 512..]);
    assert!(is_zero(&disk.bytes[4 * MIB - 33 * 512..]));
    assert_eq!(disk.bytes[MIB..4 * MIB - 33 * 512], image[MIB..4 * MIB - 33 * 512]);
}

#[test]
fn backup_table_may_come_in_parts_and_in_any_order() {
    let image = image(4 * MIB);
    let mut disk = FakeDisk::new(4 * MIB, 2);
    let mut writer = Writer::new(&mut disk, "fake".into(), 4 << 20, 512);
    let middle = 4 * MIB - 8192;
    for range in [middle..4 * MIB, MIB..middle] {
        let block = Block { offset: bytes(range.start), data: filled(&image[range]) };
        writer.block(block, 512).unwrap();
    }
    writer.sync().unwrap();
    assert_eq!(writer.written(), 4 << 20);
    let (ends, _) = writer.into_ends(filled(&image[..MIB]));
    assert_eq!(ends.tail[..], image[4 * MIB - 33 * 512..]);
}

#[test]
fn larger_image_is_refused_and_nothing_bootable_stays() {
    let mut disk = FakeDisk::new(4 * MIB, 2);
    let error = write(&mut disk, &image(4 * MIB + 1), MIB).unwrap_err();
    assert!(matches!(error, WriteError::PastEnd { image_bytes: 4_194_305, disk_bytes: 4_194_304, .. }), "{error}");
    assert!(is_zero(&disk.bytes[..MIB]) && is_zero(&disk.bytes[3 * MIB..]));
}

fn write_middle(disk: &mut FakeDisk, image: &[u8]) -> Result<(), WriteError> {
    let mut writer = Writer::new(disk, "fake".into(), 8 << 20, 512);
    writer.begin(&Ends::cleared(8 << 20))?;
    writer.block(Block { offset: bytes(3 * MIB), data: filled(&image[3 * MIB..7 * MIB]) }, 512)?;
    writer.sync()
}

#[test]
fn write_error_names_the_place() {
    let mut disk = FakeDisk::new(8 * MIB, 1);
    // Wiped, and the first of two runs is there; of the rest of the second one nothing comes.
    let image = image(8 * MIB);
    (disk.fail_from, disk.fails) = (4, 1);
    let error = write_middle(&mut disk, &image).unwrap_err();
    assert_eq!(error.to_string(), "cannot write 4194304 bytes at byte 3145728 of fake");
    assert!(disk.is_idle());

    // After a short write the error is about the rest alone.
    let mut disk = FakeDisk::new(8 * MIB, 1);
    (disk.fail_from, disk.short_every) = (5, 4);
    let error = write_middle(&mut disk, &image).unwrap_err();
    assert_eq!(error.to_string(), "cannot write 2097152 bytes at byte 5242880 of fake");
}

#[test]
fn no_more_under_way_than_allowed_and_none_after_an_error() {
    let image = image(65 * MIB);
    let mut disk = FakeDisk::new(66 * MIB, 3);
    write(&mut disk, &image, MIB).unwrap();
    assert_eq!(disk.most, DEPTH);
    let (ops, mut disk) = (disk.ops, FakeDisk::new(66 * MIB, 3));
    (disk.fail_from, disk.fails) = (20, 1);
    // The disk itself sees to it that nothing is started before all that was under way has come back.
    assert!(matches!(write(&mut disk, &image, MIB), Err(WriteError::Write { .. })));
    assert!(disk.is_idle() && disk.ops < ops);
    assert!(is_zero(&disk.bytes[..MIB]));
}

#[test]
fn zeros_of_neighbouring_blocks_are_one_request() {
    let mut image = image(16 * MIB);
    image[2 * MIB..12 * MIB].fill(0);
    let mut disk = FakeDisk::new(20 * MIB, 4);
    let mut writer = Writer::new(&mut disk, "fake".into(), 20 << 20, 512);
    writer.begin(&Ends::cleared(20 << 20)).unwrap();
    for (index, piece) in image[MIB..].chunks(2 * MIB).enumerate() {
        writer.block(Block { offset: bytes((1 + 2 * index) * MIB), data: filled(piece) }, 512).unwrap();
    }
    writer.sync().unwrap();
    assert_eq!(disk.zero_requests[2..], [(2 << 20, 10 << 20)], "after those for the ends");
    assert!(disk.bytes[MIB..16 * MIB] == image[MIB..]);
}

#[test]
fn long_zeros_are_asked_for_in_parts() {
    let mut disk = FakeDisk::new(140 * MIB, 5);
    let mut writer = Writer::new(&mut disk, "fake".into(), 140 << 20, 512);
    writer.begin(&Ends::cleared(140 << 20)).unwrap();
    for index in 0..33 {
        writer.block(Block { offset: bytes((1 + 4 * index) * MIB), data: filled(&[0; 4 * MIB]) }, 512).unwrap();
    }
    writer.sync().unwrap();
    let lens: Vec<_> = disk.zero_requests[2..].iter().map(|(_, len)| len / MIB).collect();
    assert_eq!(lens, [64, 64, 4]);
    assert!(is_zero(&disk.bytes[MIB..133 * MIB]) && disk.bytes[133 * MIB] == 0xEE);
}

#[test]
fn disk_that_zeroes_nothing_gets_zeros() {
    let mut image = image(9 * MIB);
    image[2 * MIB..8 * MIB].fill(0);
    let mut disk = FakeDisk::new(10 * MIB, 6);
    disk.zero_range = false;
    write(&mut disk, &image, 2 * MIB).unwrap();
    assert!(disk.bytes[..image.len()] == image[..] && is_zero(&disk.bytes[9 * MIB..]));
}

#[test]
fn interrupted_busy_and_picky_disks_only_cost_time() {
    let image = image(9 * MIB);
    for error in [libc::EINTR, libc::EAGAIN] {
        let mut disk = FakeDisk::new(10 * MIB, 7);
        (disk.error, disk.fail_from, disk.fails) = (error, 4, 3);
        write(&mut disk, &image, 2 * MIB).unwrap();
        assert!(disk.bytes[..image.len()] == image[..]);
    }
    let mut disk = FakeDisk::new(10 * MIB, 7);
    disk.picky = true;
    write(&mut disk, &image, 2 * MIB).unwrap();
    assert!(disk.bytes[..image.len()] == image[..]);
    // One that goes on refusing has failed.
    let mut disk = FakeDisk::new(10 * MIB, 7);
    (disk.error, disk.fail_from) = (libc::EINVAL, 4);
    let error = write(&mut disk, &image, 2 * MIB).unwrap_err();
    assert!(matches!(error, WriteError::Write { source, .. } if source.raw_os_error() == Some(libc::EINVAL)));
}

#[test]
fn sectors_of_4096_bytes_are_padded_and_held_back_as_such() {
    let image = image(8 * MIB - 100);
    let mut disk = FakeDisk::new(8 * MIB, 8);
    write_in(&mut disk, &image, 2 * MIB, 4096).unwrap();
    assert!(disk.bytes[..image.len()] == image[..] && is_zero(&disk.bytes[image.len()..]));
}

#[test]
fn head_that_cannot_be_cleared_does_not_lead_to_a_damaged_image() {
    let image = image(4 * MIB);
    let mut good = FakeDisk::new(4 * MIB, 2);
    write(&mut good, &image, MIB).unwrap();
    // All fails from the last flush on.
    let mut disk = FakeDisk::new(4 * MIB, 2);
    disk.fail_from = good.ops;
    assert!(matches!(write(&mut disk, &image, MIB), Err(WriteError::Sync { .. })));
    // All but the head, which a failed write may have changed, as the table's backup says.
    assert!(disk.bytes[MIB..] == image[MIB..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn no_table_without_a_complete_image(
        image_mib in 1usize..7, extra in 0usize..3, block_mib in 1usize..3, seed in any::<u64>(),
        zero_range in any::<bool>(), fail_from in 1usize..20,
        fails in prop_oneof![Just(1usize), Just(2), Just(usize::MAX)], short_every in 2usize..9,
    ) {
        let image = image(image_mib * MIB + extra * 300);
        let mut disk = FakeDisk::new(6 * MIB, seed);
        (disk.fail_from, disk.fails, disk.short_every, disk.zero_range) = (fail_from, fails, short_every, zero_range);
        let result = write(&mut disk, &image, block_mib * MIB);
        prop_assert!(disk.is_idle());
        let has_table = &disk.bytes[512..520] == b"EFI PART";
        let is_old = has_table && disk.bytes[520] == 0xEE;
        let complete = image.len() <= disk.bytes.len() && disk.bytes[MIB..image.len()] == image[MIB..];
        match result {
            Ok(()) => prop_assert!(has_table && complete && disk.bytes[..MIB] == image[..MIB]),
            // The very first wipe failed for good: the disk is as it was, and the error says so.
            Err(_) if is_old => prop_assert!(fail_from == 1 && fails == usize::MAX),
            Err(_) => {
                prop_assert!(!has_table || complete);
                if fails < usize::MAX {
                    prop_assert!(is_zero(&disk.bytes[..MIB]) && is_zero(&disk.bytes[5 * MIB..]));
                }
            }
        }
    }

    #[test]
    fn power_loss_leaves_no_half_written_disk_with_a_table(
        image_mib in 1usize..6, block_mib in 1usize..3, at in any::<prop::sample::Index>(), stored in any::<u32>(),
        seed in any::<u64>(), short_every in 2usize..9, zero_range in any::<bool>(),
    ) {
        let image = image(image_mib * MIB);
        let mut disk = FakeDisk::new(6 * MIB, seed);
        (disk.short_every, disk.zero_range) = (short_every, zero_range);
        let old = disk.bytes.clone();
        let mut medium = old.clone();
        write(&mut disk, &image, block_mib * MIB).unwrap();
        after_power_loss(&disk.log[..at.index(disk.log.len() + 1)], &mut medium, stored);
        if &medium[512..520] == b"EFI PART" {
            let middle = MIB..5 * MIB;
            let untouched = medium[..MIB] == old[..MIB] && medium[middle.clone()] == old[middle];
            let complete = medium[..image.len()] == image[..];
            prop_assert!(untouched || complete);
        }
    }
}
