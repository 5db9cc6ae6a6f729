//! A disk written zone by zone and read back. What was on it is lost.

use super::{
    device::Device,
    medium::{Block, Medium, NAME},
    read::{Rate, name},
};
use crate::{
    load::{Load, Run, Trouble},
    result::{Part, number, wide},
};
use inventory::{Root, report::watch::disk_celsius};
use kernel::{processor::Width, region::WORD_BYTES};
use loops::{Fill, check_bytes, fill_bytes};
use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Written, and then read back: more than the cache of any disk.
const ZONE_BYTES: u64 = 4 << 30;
/// Written or read between two looks at the clock.
const SPAN_BYTES: u64 = 64 << 20;

/// Writes one disk.
pub(super) struct Writer<M> {
    part: Part,
    path: PathBuf,
    root: Arc<Root>,
    medium: Option<M>,
    width: Width,
    /// How often the disk was written; each time with other words.
    pass: u64,
    zone: Range<u64>,
    position: u64,
    is_reading: bool,
    written: Rate,
    read: Rate,
}

impl Writer<Device> {
    pub(super) fn new(path: &Path, root: Arc<Root>) -> Self {
        Self::of(Part::new(NAME, name(path)), path, root)
    }
}

impl<M: Medium> Writer<M> {
    fn of(part: Part, path: &Path, root: Arc<Root>) -> Self {
        Self {
            part,
            path: path.to_owned(),
            root,
            medium: None,
            width: Width::widest(),
            pass: 0,
            zone: 0..0,
            position: 0,
            is_reading: false,
            written: Rate::default(),
            read: Rate::default(),
        }
    }

    fn begin(&mut self, medium: M) {
        self.part.set("size_bytes", number(medium.size_bytes()));
        self.zone = 0..ZONE_BYTES.min(medium.size_bytes());
        self.medium = Some(medium);
    }

    /// Each word has the place it belongs to in it: a sector that was written to another place is found too.
    fn fill(&self) -> Fill {
        Fill::Random { seed: self.pass }
    }

    /// Writes or reads back the next span.
    fn work(&mut self, run: &Run) -> io::Result<()> {
        let (fill, width) = (self.fill(), self.width);
        let Some(medium) = &mut self.medium else { return Ok(()) };
        let sector = medium.sector_bytes();
        let span = self.position..self.position.saturating_add(SPAN_BYTES).min(self.zone.end);
        let (part, begin) = (&mut self.part, run.now());
        let fault = |part: &mut Part, message: String, offset: u64| {
            if let Some(fault) = part.fault(message) {
                fault.lba = Some(offset / sector);
            }
        };
        if self.is_reading {
            let rate = &mut self.read;
            medium.read(span.clone(), run, &mut |block: Block<'_>| match block.result {
                Ok(bytes) => {
                    rate.add(block.len, block.took);
                    if let Some((count, place)) = check_bytes(width, bytes, first_word(block.offset), fill) {
                        let message = format!("reads other than written: {count} words of 8 bytes");
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
            self.next()?;
        }
        Ok(())
    }

    /// From writing to reading back, and on to the next zone.
    fn next(&mut self) -> io::Result<()> {
        let Some(medium) = &mut self.medium else { return Ok(()) };
        let size = medium.size_bytes();
        if !self.is_reading {
            medium.flush()?;
            (self.is_reading, self.position) = (true, self.zone.start);
            return Ok(());
        }
        self.is_reading = false;
        self.part.set("pass_done_percent", 100.0 * number(self.zone.end) / number(size.max(1)));
        let start = if self.zone.end >= size {
            self.part.add("passes", 1.0);
            self.pass += 1;
            0
        } else {
            self.zone.end
        };
        (self.zone, self.position) = (start..start.saturating_add(ZONE_BYTES).min(size), start);
        Ok(())
    }

    fn measure_temperature(&mut self, when: &str) {
        if let Some(celsius) = disk_celsius(&self.root, &self.part.name) {
            self.part.set(&format!("temperature_{when}_celsius"), celsius);
        }
    }
}

fn first_word(offset: u64) -> u64 {
    offset / wide(WORD_BYTES)
}

impl Load for Writer<Device> {
    fn start(&mut self, _: &Run) -> Result<(), Trouble> {
        self.begin(Device::claim(&self.path)?);
        self.measure_temperature("before");
        Ok(())
    }

    fn step(&mut self, run: &Run) -> Result<(), Trouble> {
        self.work(run)?;
        Ok(())
    }

    fn end(&mut self) {
        self.measure_temperature("after");
        self.medium = None;
    }

    fn findings(&self) -> &Part {
        &self.part
    }
}

#[cfg(test)]
mod tests {
    use super::{super::medium::Fake, *};
    use testkit::{
        disk::{self, LoopDisk, MIB},
        tree::Tree,
    };

    fn nowhere() -> Arc<Root> {
        Arc::new(Root::open(Tree::empty().path()).unwrap())
    }

    fn passes<M: Medium>(writer: &mut Writer<M>, count: f64) {
        while writer.part.get("passes").unwrap_or(0.0) < count {
            writer.work(&Run::default()).unwrap();
        }
    }

    #[test]
    fn a_sector_that_forgets_is_found_by_its_address() {
        let mut writer = Writer::of(Part::new(NAME, "sdx"), Path::new("/dev/sdx"), nowhere());
        writer.begin(Fake { forgetful: vec![777], unreadable: vec![4096], ..Fake::new(4 << 20) });
        passes(&mut writer, 1.0);
        let found: Vec<_> = writer.part.faults.iter().map(|fault| (fault.lba, fault.message.as_str())).collect();
        let expected = [
            (Some(777), "reads other than written: 64 words of 8 bytes"),
            (Some(4096), "cannot be read back: Input/output error (os error 5)"),
        ];
        assert_eq!(found, expected);
        assert_eq!(writer.part.get("write_bytes"), Some(f64::from(4 << 20)));
    }

    #[test]
    fn a_good_disk_holds_what_is_written() {
        if disk::skipped() {
            return;
        }
        let disk = LoopDisk::in_memory(8 * MIB, 512);
        let mut writer = Writer::new(&disk.path(), nowhere());
        writer.start(&Run::default()).unwrap();
        passes(&mut writer, 2.0);
        writer.end();
        assert_eq!((writer.part.faults.as_slice(), writer.part.get("pass_done_percent")), (&[][..], Some(100.0)));
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
        let error = Writer::new(&disk.path(), nowhere()).start(&Run::default()).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        drop(other);
        assert!(disk.read(0, 8 * MIB).iter().all(|byte| *byte == 0));
    }
}
