//! What the tests of disks work on.

use crate::load::Run;
use std::{io, ops::Range, time::Duration};

/// Of this kind of load.
pub(super) const NAME: &str = "disk";

/// One read or write that came back.
pub(super) struct Block<'a> {
    /// Byte of the disk where it starts.
    pub offset: u64,
    pub len: u64,
    pub took: Duration,
    /// What was read; nothing of a write.
    pub result: io::Result<&'a [u8]>,
}

/// A disk, or a test's stand-in.
pub(super) trait Medium: Send {
    fn size_bytes(&self) -> u64;

    /// What can be read at least, and what a logical block address counts.
    fn sector_bytes(&self) -> u64;

    /// Reads a range in blocks, several at once; they come back in any order. When it is over it begins no more.
    fn read(&mut self, range: Range<u64>, run: &Run, each: &mut dyn FnMut(Block<'_>)) -> io::Result<()>;

    /// Writes a range in blocks that `make` fills; `each` as for reading.
    fn write(
        &mut self,
        range: Range<u64>,
        run: &Run,
        make: &mut dyn FnMut(u64, &mut [u8]),
        each: &mut dyn FnMut(Block<'_>),
    ) -> io::Result<()>;

    /// Returns when all that was written is on the medium.
    fn flush(&mut self) -> io::Result<()>;
}

/// A disk in memory, of which some sectors cannot be read, and some forget what is written.
#[cfg(test)]
pub(super) struct Fake {
    pub bytes: Vec<u8>,
    pub unreadable: Vec<u64>,
    pub forgetful: Vec<u64>,
    /// How often unreadable sectors fail before they can be read.
    pub failures: u32,
}

#[cfg(test)]
mod fake {
    use super::*;

    const SECTOR: u64 = 512;
    const BLOCK: u64 = 64 << 10;

    impl Fake {
        pub(crate) fn new(bytes: u64) -> Self {
            let bytes = vec![0; usize::try_from(bytes).unwrap()];
            Self { bytes, unreadable: Vec::new(), forgetful: Vec::new(), failures: u32::MAX }
        }
    }

    fn blocks(range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let end = range.end;
        range.step_by(usize::try_from(BLOCK).unwrap()).map(move |offset| (offset, BLOCK.min(end - offset)))
    }

    fn place(offset: u64, len: u64) -> Range<usize> {
        usize::try_from(offset).unwrap()..usize::try_from(offset + len).unwrap()
    }

    impl Medium for Fake {
        fn size_bytes(&self) -> u64 {
            u64::try_from(self.bytes.len()).unwrap()
        }

        fn sector_bytes(&self) -> u64 {
            SECTOR
        }

        fn read(&mut self, range: Range<u64>, run: &Run, each: &mut dyn FnMut(Block<'_>)) -> io::Result<()> {
            for (offset, len) in blocks(range).take_while(|_| !run.is_over()) {
                let holds = |lba: &u64| (offset..offset + len).contains(&(lba * SECTOR));
                let fails = self.unreadable.iter().any(holds) && self.failures > 0;
                self.failures -= u32::from(fails);
                let error = || io::Error::from_raw_os_error(libc::EIO);
                let result = if fails { Err(error()) } else { Ok(&self.bytes[place(offset, len)]) };
                each(Block { offset, len, took: Duration::from_micros(100), result });
            }
            Ok(())
        }

        fn write(
            &mut self,
            range: Range<u64>,
            run: &Run,
            make: &mut dyn FnMut(u64, &mut [u8]),
            each: &mut dyn FnMut(Block<'_>),
        ) -> io::Result<()> {
            for (offset, len) in blocks(range).take_while(|_| !run.is_over()) {
                make(offset, &mut self.bytes[place(offset, len)]);
                for lba in self.forgetful.iter().filter(|lba| (offset..offset + len).contains(&(*lba * SECTOR))) {
                    self.bytes[place(lba * SECTOR, SECTOR)].fill(0);
                }
                each(Block { offset, len, took: Duration::from_micros(100), result: Ok(&[]) });
            }
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
