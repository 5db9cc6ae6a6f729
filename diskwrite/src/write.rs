//! Puts an image on a disk so that at no moment a half-written one looks bootable.
//!
//! Head and tail of the disk, where partition tables live, are wiped and flushed first; then comes the image but its first
//! MiB; the caller adds that with [`Writer::finish`] when everything else is right.

use crate::pump::HEAD_BYTES;
use std::{io, path::PathBuf};

/// Zero runs shorter than this are written like data; the image is looked at in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Something to write to at any offset: a disk, or a test's stand-in.
pub(crate) trait Target {
    /// Writes some of `data`, which starts on a page and is a whole number of sectors long, like `offset`.
    fn write_at(&mut self, data: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes this range read as zeros, by whatever way is certain to.
    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()>;
    /// Returns when all that was written is on the medium.
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk failed, or the image does not fit.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A write failed.
    #[error("cannot write {len} bytes at byte {offset} of {}", device.display())]
    Write {
        /// The disk.
        device: PathBuf,
        /// Where.
        offset: u64,
        /// How much.
        len: usize,
        /// Cause.
        source: io::Error,
    },
    /// Zeroing failed.
    #[error("cannot zero {len} bytes at byte {offset} of {}", device.display())]
    Zero {
        /// The disk.
        device: PathBuf,
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// Cause.
        source: io::Error,
    },
    /// What was written did not reach the medium.
    #[error("cannot flush {} after {written_bytes} bytes of the image", device.display())]
    Sync {
        /// The disk.
        device: PathBuf,
        /// Bytes of the image written.
        written_bytes: u64,
        /// Cause.
        source: io::Error,
    },
    /// The image goes on where the disk ends.
    #[error("the image is larger than {}: it has at least {image_bytes} bytes, the disk has {disk_bytes}", device.display())]
    PastEnd {
        /// The disk.
        device: PathBuf,
        /// How much of the image is known.
        image_bytes: u64,
        /// Size of the disk.
        disk_bytes: u64,
    },
}

/// An image on its way to a disk.
pub(crate) struct Writer<T> {
    target: T,
    device: PathBuf,
    disk_bytes: u64,
    /// Where the next block goes.
    offset: u64,
}

impl<T: Target> Writer<T> {
    /// For a disk of `disk_bytes`, at least two heads.
    pub fn new(target: T, device: PathBuf, disk_bytes: u64) -> Self {
        Self { target, device, disk_bytes, offset: head_bytes() }
    }

    /// Zeros head and tail and waits until that is on the medium. Where one fails the others are tried all the same.
    pub fn wipe(&mut self) -> Result<(), WriteError> {
        let head = self.zero(0, head_bytes());
        let tail = self.zero(self.disk_bytes.saturating_sub(head_bytes()), head_bytes());
        let sync = self.sync();
        head.and(tail).and(sync)
    }

    /// Writes the next block of the image; all but the last are whole sectors, and the last is padded to one.
    pub fn block(&mut self, block: &mut crate::buffer::Buffer, sector: usize) -> Result<(), WriteError> {
        let len = u64::try_from(block.len()).unwrap_or(u64::MAX);
        let end = self.offset.saturating_add(len);
        if end > self.disk_bytes {
            return Err(WriteError::PastEnd {
                device: self.device.clone(),
                image_bytes: end,
                disk_bytes: self.disk_bytes,
            });
        }
        block.pad(sector);
        let mut offset = self.offset;
        for (zero, run) in runs(block) {
            let len = u64::try_from(run.len()).unwrap_or(u64::MAX);
            if zero {
                self.zero(offset, len)?
            } else {
                self.write(run, offset)?
            }
            offset = offset.saturating_add(len);
        }
        self.offset = end;
        Ok(())
    }

    /// Bytes of the image on the disk; the head counts from the start, as it is in memory.
    pub fn written(&self) -> u64 {
        self.offset
    }

    /// Waits until everything is on the medium.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        let written_bytes = self.offset;
        let error = |source| WriteError::Sync { device: self.device.clone(), written_bytes, source };
        self.target.sync().map_err(error)
    }

    /// Adds the held-back head once all else is on the medium, and waits until it is too.
    pub fn finish(&mut self, head: &[u8]) -> Result<(), WriteError> {
        self.sync()?;
        self.write(head, 0)?;
        self.sync()
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), WriteError> {
        let error = |source| WriteError::Zero { device: self.device.clone(), offset, len, source };
        self.target.zero(offset, len).map_err(error)
    }

    fn write(&mut self, data: &[u8], offset: u64) -> Result<(), WriteError> {
        let device = &self.device;
        let error = |offset, len, source| WriteError::Write { device: device.clone(), offset, len, source };
        let (mut rest, mut at) = (data, offset);
        while !rest.is_empty() {
            match self.target.write_at(rest, at) {
                Ok(0) => return Err(error(at, rest.len(), io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(error(at, rest.len(), source)),
            }
        }
        Ok(())
    }
}

fn head_bytes() -> u64 {
    u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX)
}

/// Splits a block into the longest runs of pieces that are all zero or not.
fn runs(block: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let zero = is_zero(rest.chunks(PIECE_BYTES).next()?);
        let len = rest.chunks(PIECE_BYTES).take_while(|piece| is_zero(piece) == zero).map(<[u8]>::len).sum();
        let (run, tail) = rest.split_at(len);
        rest = tail;
        Some((zero, run))
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    /// A disk in memory that fails as planned: each operation may be cut short, and from one on everything fails.
    struct FakeDisk {
        bytes: Vec<u8>,
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
            Self { bytes, ops: 0, fail_from: usize::MAX, fails: usize::MAX, short_every: usize::MAX }
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
            let len = if short || result.is_err() {
                (data.len() / 2).next_multiple_of(512).min(data.len())
            } else {
                data.len()
            };
            self.bytes[at..at + len].copy_from_slice(&data[..len]);
            result.map(|()| len)
        }

        fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
            self.op()?;
            let at = usize::try_from(offset).unwrap();
            self.bytes[at..at + usize::try_from(len).unwrap()].fill(0);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            self.op()
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
        let mut writer = Writer::new(disk, "fake".into(), disk_bytes);
        let result = (|| {
            writer.wipe()?;
            for piece in image[MIB..].chunks(block_bytes) {
                let mut block = Buffer::new(block_bytes);
                block.whole()[..piece.len()].copy_from_slice(piece);
                block.set_len(piece.len());
                writer.block(&mut block, 512)?;
            }
            writer.finish(&image[..MIB])
        })();
        if result.is_err() {
            let _ = writer.wipe();
        }
        result
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
            let has_table = &disk.bytes[512..520] == b"EFI PART";
            let complete = image.len() <= disk.bytes.len() && disk.bytes[MIB..image.len()] == image[MIB..];
            match result {
                Ok(()) => prop_assert!(has_table && complete && disk.bytes[..MIB] == image[..MIB]),
                // The very first wipe failed for good: the disk is as it was, and the error says so.
                Err(_) if disk.ops <= 6 && disk.bytes[520] == 0xEE => prop_assert!(fail_from == 1 && fails > 1),
                Err(_) => prop_assert!(!has_table || complete),
            }
            if fails == 1 && fail_from < disk.ops && disk.bytes.len() < image.len() {
                prop_assert!(is_zero(&disk.bytes[..MIB]));
            }
        }
    }
}
