//! The writer over a disk in memory that fails, or loses power, at any moment.

use super::*;
use crate::buffer::Buffer;
use proptest::prelude::*;

const MIB: usize = 1 << 20;

/// What reached a disk, in order.
enum Op {
    Write(usize, Vec<u8>),
    Sync,
}

/// The medium after the power went when `log` had come this far: of what was written after the last flush, the disk had
/// stored what `stored` has a bit for.
fn after_power_loss(log: &[Op], medium: &mut [u8], stored: u32) {
    let flushed = log.iter().rposition(|op| matches!(op, Op::Sync)).unwrap_or(0);
    for (index, op) in log.iter().enumerate() {
        let Op::Write(at, data) = op else { continue };
        if index < flushed || stored.rotate_right(u32::try_from(index % 32).unwrap()) & 1 == 1 {
            medium[*at..at + data.len()].copy_from_slice(data);
        }
    }
}

/// A disk in memory that fails as planned: each operation may be cut short, and from one on everything fails.
struct FakeDisk {
    bytes: Vec<u8>,
    log: Vec<Op>,
    ops: usize,
    fail_from: usize,
    fails: usize,
    short_every: usize,
}

impl FakeDisk {
    fn new(len: usize) -> Self {
        // Old tables everywhere, to see them go.
        let mut bytes = vec![0xEE; len];
        bytes[510..520].copy_from_slice(b"\x55\xAAEFI PART");
        bytes[len - 512..len - 504].copy_from_slice(b"EFI PART");
        Self { bytes, log: Vec::new(), ops: 0, fail_from: usize::MAX, fails: usize::MAX, short_every: usize::MAX }
    }

    fn op(&mut self) -> io::Result<()> {
        self.ops += 1;
        let failing = self.ops >= self.fail_from && self.fails > 0;
        if failing {
            self.fails -= 1;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }
}

impl Target for &mut FakeDisk {
    fn write_at(&mut self, data: &[u8], offset: u64) -> io::Result<usize> {
        let at = usize::try_from(offset).unwrap();
        let short = self.ops % self.short_every == self.short_every - 1;
        // A write that fails may still have changed some of what it was meant to.
        let result = self.op();
        let len =
            if short || result.is_err() { (data.len() / 2).next_multiple_of(512).min(data.len()) } else { data.len() };
        self.bytes[at..at + len].copy_from_slice(&data[..len]);
        self.log.push(Op::Write(at, data[..len].to_vec()));
        result.map(|()| len)
    }

    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.op()?;
        let (at, len) = (usize::try_from(offset).unwrap(), usize::try_from(len).unwrap());
        self.bytes[at..at + len].fill(0);
        self.log.push(Op::Write(at, vec![0; len]));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.op()?;
        self.log.push(Op::Sync);
        Ok(())
    }
}

fn image(len: usize) -> Vec<u8> {
    let mut image: Vec<u8> = (0u32..).map(|n| (n >> 9).to_le_bytes()[0] | 1).take(len).collect();
    image[512..520].copy_from_slice(b"EFI PART");
    if len >= 4 * MIB {
        image[2 * MIB..3 * MIB].fill(0);
    }
    image
}

fn write(disk: &mut FakeDisk, image: &[u8], block_bytes: usize) -> Result<(), WriteError> {
    let disk_bytes = u64::try_from(disk.bytes.len()).unwrap();
    let mut writer = Writer::new(disk, "fake".into(), disk_bytes, 512);
    let cleared = Ends::cleared(disk_bytes);
    let result = (|| {
        writer.begin(&cleared)?;
        let mut offset = head_bytes();
        for piece in image[MIB..].chunks(block_bytes) {
            let mut block = Block { offset, data: filled(piece) };
            writer.block(&mut block, 512)?;
            offset += u64::try_from(piece.len()).unwrap();
        }
        let ends = Ends { head: filled(&image[..MIB]), tail_offset: writer.backup_from, tail: filled(&writer.backup) };
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
    let mut disk = FakeDisk::new(8 * MIB);
    disk.short_every = 3;
    write(&mut disk, &image, 2 * MIB).unwrap();
    assert!(disk.bytes[..image.len()] == image[..]);
    assert!(is_zero(&disk.bytes[7 * MIB..]));
}

#[test]
fn last_sector_is_padded_with_zeros() {
    let image = image(2 * MIB + 100);
    let mut disk = FakeDisk::new(8 * MIB);
    write(&mut disk, &image, MIB).unwrap();
    assert!(disk.bytes[..image.len()] == image[..]);
    assert!(is_zero(&disk.bytes[image.len()..2 * MIB + 512]));
    assert_eq!(disk.bytes[2 * MIB + 512], 0xEE);
}

#[test]
fn image_as_large_as_the_disk_fits() {
    let image = image(4 * MIB);
    let mut disk = FakeDisk::new(4 * MIB);
    write(&mut disk, &image, MIB).unwrap();
    assert!(disk.bytes == image);
}

#[test]
fn backup_table_of_an_image_as_large_as_the_disk_waits_for_the_end() {
    let image = image(4 * MIB);
    let mut disk = FakeDisk::new(4 * MIB);
    let mut writer = Writer::new(&mut disk, "fake".into(), 4 << 20, 512);
    writer.begin(&Ends::cleared(4 << 20)).unwrap();
    writer.block(&mut Block { offset: head_bytes(), data: filled(&image[MIB..]) }, 512).unwrap();
    let ends = writer.into_ends(filled(&image[..MIB]));
    assert_eq!(ends.tail_offset, (4 << 20) - 33 * 512);
    assert_eq!(ends.tail[..], image[4 * MIB - 33 * 512..]);
    assert!(is_zero(&disk.bytes[4 * MIB - 33 * 512..]));
    assert_eq!(disk.bytes[MIB..4 * MIB - 33 * 512], image[MIB..4 * MIB - 33 * 512]);
}

#[test]
fn larger_image_is_refused_and_nothing_bootable_stays() {
    let mut disk = FakeDisk::new(4 * MIB);
    let error = write(&mut disk, &image(4 * MIB + 1), MIB).unwrap_err();
    assert!(matches!(error, WriteError::PastEnd { image_bytes: 4_194_305, disk_bytes: 4_194_304, .. }), "{error}");
    assert!(is_zero(&disk.bytes[..MIB]) && is_zero(&disk.bytes[3 * MIB..]));
}

#[test]
fn write_error_names_the_place() {
    let mut disk = FakeDisk::new(8 * MIB);
    (disk.fail_from, disk.fails) = (5, 1);
    let error = write(&mut disk, &image(4 * MIB), MIB).unwrap_err();
    assert_eq!(error.to_string(), "cannot zero 1048576 bytes at byte 2097152 of fake");
}

#[test]
fn finds_runs() {
    let mut block = vec![1; 3 * MIB + 10];
    block[MIB..].fill(0);
    let found: Vec<_> = runs(&block).map(|(zero, run)| (zero, run.len())).collect();
    assert_eq!(found, [(false, MIB), (true, 2 * MIB + 10)]);
    block[2 * MIB - 1] = 1;
    let found: Vec<_> = runs(&block).map(|(zero, run)| (zero, run.len())).collect();
    assert_eq!(found, [(false, 2 * MIB), (true, MIB + 10)]);
    assert_eq!(runs(&[]).count(), 0);
}

#[test]
fn head_that_cannot_be_cleared_does_not_lead_to_a_damaged_image() {
    let image = image(4 * MIB);
    let mut good = FakeDisk::new(4 * MIB);
    write(&mut good, &image, MIB).unwrap();
    // All fails from the last flush on.
    let mut disk = FakeDisk::new(4 * MIB);
    disk.fail_from = good.ops;
    assert!(matches!(write(&mut disk, &image, MIB), Err(WriteError::Sync { .. })));
    assert!(disk.bytes == image);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn no_table_without_a_complete_image(
        image_mib in 1usize..7, extra in 0usize..3, block_mib in 1usize..3,
        fail_from in 1usize..20, fails in prop_oneof![Just(1usize), Just(2), Just(usize::MAX)], short_every in 2usize..9,
    ) {
        let image = image(image_mib * MIB + extra * 300);
        let mut disk = FakeDisk::new(6 * MIB);
        (disk.fail_from, disk.fails, disk.short_every) = (fail_from, fails, short_every);
        let result = write(&mut disk, &image, block_mib * MIB);
        let failed = result.is_err();
        let has_table = &disk.bytes[512..520] == b"EFI PART";
        let complete = image.len() <= disk.bytes.len() && disk.bytes[MIB..image.len()] == image[MIB..];
        match result {
            Ok(()) => prop_assert!(has_table && complete && disk.bytes[..MIB] == image[..MIB]),
            // The very first wipe failed for good: the disk is as it was, and the error says so.
            Err(_) if disk.ops <= 6 && disk.bytes[520] == 0xEE => prop_assert!(fail_from == 1 && fails > 1),
            Err(_) => prop_assert!(!has_table || complete),
        }
        if failed && fails < usize::MAX {
            prop_assert!(is_zero(&disk.bytes[..MIB]) && is_zero(&disk.bytes[5 * MIB..]));
        }
    }

    #[test]
    fn power_loss_leaves_no_half_written_disk_with_a_table(
        image_mib in 1usize..6, block_mib in 1usize..3, at in any::<prop::sample::Index>(), stored in any::<u32>(),
    ) {
        let image = image(image_mib * MIB);
        let mut disk = FakeDisk::new(6 * MIB);
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
