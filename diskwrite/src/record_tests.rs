//! Reading back from a disk in memory that gives other things than it took.

use super::*;
use crate::buffer::Block;
use crate::ends::Ends;
use crate::fake_disk::FakeDisk;
use crate::write::Writer;

const MIB: usize = 1 << 20;

fn filled(data: &[u8]) -> Buffer {
    let mut buffer = Buffer::new(data.len());
    buffer.whole().copy_from_slice(data);
    buffer.set_len(data.len());
    buffer
}

/// A disk with data in bytes 1..7 MiB and 9..12 MiB, zeros between, and the record of it.
fn written() -> (FakeDisk, Record) {
    let mut image = vec![0; 11 * MIB];
    for (sector, number) in image.chunks_mut(512).zip(0u32..) {
        sector.fill(number.to_le_bytes()[0] | 1);
    }
    image[6 * MIB..8 * MIB].fill(0);
    let mut disk = FakeDisk::new(16 * MIB, 9);
    let mut writer = Writer::new(&mut disk, "fake".into(), 16 << 20, 512);
    writer.keep_record();
    writer.begin(&Ends::cleared(16 << 20)).unwrap();
    for (index, piece) in image.chunks(2 * MIB).enumerate().collect::<Vec<_>>().into_iter().rev() {
        let offset = bytes((1 + 2 * index) * MIB);
        writer.block(Block { offset, data: filled(piece) }, 512).unwrap();
    }
    writer.sync().unwrap();
    let (_, record) = writer.into_ends(Buffer::new(0));
    (disk, record.unwrap())
}

fn read_back(disk: &mut FakeDisk, record: Record) -> Result<(), WriteError> {
    ReadBack::new(disk, "fake".into(), record).finish()
}

#[test]
fn all_of_the_image_is_compared() {
    let (mut disk, record) = written();
    assert_eq!(record.len(), 11 << 20);
    let mut reader = ReadBack::new(&mut disk, "fake".into(), record);
    let mut seen = vec![0];
    while let Some(checked) = reader.step().unwrap() {
        seen.push(checked);
    }
    assert!(seen.is_sorted() && seen.last() == Some(&(11 << 20)), "{seen:?}");
    drop(reader);
    assert!(disk.most > 1, "several reads at a time");
}

#[test]
fn one_wrong_bit_anywhere_is_found() {
    for (at, offset, len) in [(MIB, 1, 2), (3 * MIB - 1, 1, 2), (8 * MIB, 7, 2), (12 * MIB - 1, 11, 1)] {
        let (mut disk, record) = written();
        disk.bytes[at] ^= 0x40;
        let error = read_back(&mut disk, record).unwrap_err();
        let place =
            matches!(&error, WriteError::ReadBack { offset: o, len: l, .. } if (*o, *l) == (offset << 20, len << 20));
        assert!(place, "byte {at}: {error}");
        assert!(error.to_string().contains("the disk or its connection is at fault"), "{error}");
    }
}

#[test]
fn neighbouring_zeros_are_one_entry_of_the_record() {
    let mut record = Record::default();
    for offset in 0..1000 {
        record.zeros(offset << 20, 1 << 20);
    }
    record.zeros(2000 << 20, 512);
    assert_eq!(record.runs.len(), 2);
    assert_eq!(record.len(), (1000 << 20) + 512);
    assert_eq!(size_of::<Run>(), 24);
}

#[test]
fn ends_are_compared_as_they_are() {
    let mut disk = FakeDisk::new(8 * MIB, 10);
    let ends = Ends { head: filled(&[7; MIB]), tail_offset: 7 << 20, tail: filled(&[0; 4096]), first: None };
    let finished = |disk: &mut FakeDisk| Writer::new(disk, "fake".into(), 8 << 20, 4096).finish(&ends).unwrap();
    finished(&mut disk);
    read_back(&mut disk, Record::ends(&ends)).unwrap();
    disk.bytes[0] = 6;
    assert!(matches!(read_back(&mut disk, Record::ends(&ends)), Err(WriteError::ReadBack { offset: 0, .. })));
    finished(&mut disk);
    disk.bytes[7 * MIB + 4095] = 1;
    let error = read_back(&mut disk, Record::ends(&ends)).unwrap_err();
    assert!(matches!(error, WriteError::ReadBack { offset: 7_340_032, len: 4096, .. }), "{error}");
}

#[test]
fn unreadable_ranges_are_reported() {
    let (mut disk, record) = written();
    disk.fail_from = disk.ops + 1;
    let error = read_back(&mut disk, record).unwrap_err();
    assert!(matches!(error, WriteError::Read { .. }), "{error}");
    assert!(disk.is_idle());
    // Short and interrupted reads are gone on with.
    let (mut disk, record) = written();
    disk.short_every = 2;
    read_back(&mut disk, record).unwrap();
}
