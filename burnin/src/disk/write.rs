//! A disk written zone by zone and read back. What was on it is lost.

use super::{
    device::Device,
    medium::{Block, Medium},
    rate::Rate,
    test::Work,
};
use crate::{
    load::{Run, Trouble},
    result::{Part, number, wide},
};
use kernel::{processor::Width, region::WORD_BYTES};
use loops::{Fill, check_bytes, fill_bytes};
use std::{io, ops::Range, path::Path};

/// Written, and then read back: more than the cache of any disk.
const ZONE_BYTES: u64 = 4 << 30;
/// Written or read between two looks at the clock.
const SPAN_BYTES: u64 = 64 << 20;

/// Writes a disk.
pub(super) struct Write {
    width: Width,
    /// How often the disk was written; each time with other words.
    pass: u64,
    zone: Range<u64>,
    position: u64,
    is_reading: bool,
    written: Rate,
    read: Rate,
}

impl Default for Write {
    fn default() -> Self {
        Self {
            width: Width::widest(),
            pass: 0,
            zone: 0..0,
            position: 0,
            is_reading: false,
            written: Rate::default(),
            read: Rate::default(),
        }
    }
}

impl Write {
    /// Each word has the place it belongs to in it: a sector that was written to another place is found too.
    fn fill(&self) -> Fill {
        Fill::Random { seed: self.pass }
    }

    /// From writing to reading back, and on to the next zone.
    fn next(&mut self, medium: &mut impl Medium, part: &mut Part) -> io::Result<()> {
        let size = medium.size_bytes();
        if !self.is_reading {
            medium.flush()?;
            (self.is_reading, self.position) = (true, self.zone.start);
            return Ok(());
        }
        self.is_reading = false;
        part.set("pass_done_percent", 100.0 * number(self.zone.end) / number(size.max(1)));
        let start = if self.zone.end >= size {
            part.add("passes", 1.0);
            self.pass += 1;
            0
        } else {
            self.zone.end
        };
        (self.zone, self.position) = (start..start.saturating_add(ZONE_BYTES).min(size), start);
        Ok(())
    }
}

impl Work for Write {
    fn open(path: &Path) -> Result<Device, Trouble> {
        Ok(Device::claim(path)?)
    }

    fn work(&mut self, medium: &mut impl Medium, part: &mut Part, run: &Run) -> io::Result<()> {
        if self.zone.end == 0 {
            self.zone = 0..ZONE_BYTES.min(medium.size_bytes());
        }
        let (fill, width, sector) = (self.fill(), self.width, medium.sector_bytes());
        let span = self.position..self.position.saturating_add(SPAN_BYTES).min(self.zone.end);
        let begin = run.now();
        let fault = |part: &mut Part, message: String, offset: u64| part.fault_at(offset / sector, message);
        if self.is_reading {
            let rate = &mut self.read;
            medium.read(span.clone(), run, &mut |block: Block<'_>| match block.result {
                Ok(bytes) => {
                    rate.add(block.len, block.took);
                    if let Some((count, place)) = check_bytes(width, bytes, first_word(block.offset), fill) {
                        let message = format!("differs from what was written: {count} words of 8 bytes");
                        fault(part, message, block.offset + wide(place * WORD_BYTES));
                    }
                }
                Err(error) => fault(part, format!("cannot be read back: {error}"), block.offset),
            })?;
            rate.show(run.now().duration_since(begin), "read", part);
        } else {
            let rate = &mut self.written;
            let mut make = |offset, bytes: &mut [u8]| fill_bytes(width, bytes, first_word(offset), fill);
            medium.write(span.clone(), run, &mut make, &mut |block: Block<'_>| match block.result {
                Ok(_) => rate.add(block.len, block.took),
                Err(error) => fault(part, format!("cannot be written: {error}"), block.offset),
            })?;
            rate.show(run.now().duration_since(begin), "write", part);
        }
        if run.is_over() {
            // What was not written is not read back.
            return Ok(());
        }
        self.position = span.end;
        if self.position >= self.zone.end {
            self.next(medium, part)?;
        }
        Ok(())
    }
}

fn first_word(offset: u64) -> u64 {
    offset / wide(WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{medium::Fake, test::Test},
        *,
    };
    use crate::load::Load;
    use inventory::Root;
    use std::sync::Arc;
    use testkit::{
        disk::{self, LoopDisk, MIB},
        tree::Tree,
    };

    fn nowhere() -> Arc<Root> {
        Arc::new(Root::open(Tree::empty().path()).unwrap())
    }

    #[test]
    fn a_sector_that_forgets_is_found_by_its_address() {
        let mut medium = Fake { forgetful: vec![777], unreadable: vec![4096], ..Fake::new(4 << 20) };
        let (mut write, mut part) = (Write::default(), Part::default());
        while part.get("passes").is_none() {
            write.work(&mut medium, &mut part, &Run::default()).unwrap();
        }
        let found: Vec<_> = part.faults.iter().map(|fault| (fault.lba, fault.message.as_str())).collect();
        let expected = [
            (Some(777), "differs from what was written: 64 words of 8 bytes"),
            (Some(4096), "cannot be read back: Input/output error (os error 5)"),
        ];
        assert_eq!(found, expected);
        assert_eq!(part.get("write_bytes"), Some(f64::from(4 << 20)));
    }

    #[test]
    fn a_good_disk_holds_what_is_written() {
        if disk::skipped() {
            return;
        }
        let disk = LoopDisk::in_memory(8 * MIB, 512);
        let (mut write, mut part) = (Write::default(), Part::default());
        let mut device = Write::open(&disk.path()).unwrap();
        while part.get("passes").unwrap_or(0.0) < 2.0 {
            write.work(&mut device, &mut part, &Run::default()).unwrap();
        }
        drop(device);
        assert_eq!((part.faults.as_slice(), part.get("pass_done_percent")), (&[][..], Some(100.0)));
        let mut expected = vec![0; 4096];
        fill_bytes(Width::Base, &mut expected, 0, Fill::Random { seed: 1 });
        assert_eq!(disk.read(0, 4096), expected);
    }

    #[test]
    fn a_disk_in_use_is_refused() {
        if disk::skipped() {
            return;
        }
        let disk = LoopDisk::in_memory(8 * MIB, 512);
        let other = diskwrite::ClaimedDisk::open(&disk.path()).unwrap();
        let error = Test::new(&disk.path(), nowhere(), Write::default()).start(&Run::default()).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        drop(other);
        assert!(disk.read(0, 8 * MIB).iter().all(|byte| *byte == 0));
    }
}
