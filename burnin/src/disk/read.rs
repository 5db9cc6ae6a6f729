//! The whole disk in order, again and again: errors with their place, latency, throughput, temperature.

use super::{
    device::Device,
    medium::{Block, Medium, NAME},
};
use crate::{
    load::{Load, Run, Trouble},
    result::{Part, number},
};
use diskwrite::speed::Histogram;
use inventory::{Root, report::watch::disk_celsius};
use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const STEP: Duration = Duration::from_millis(200);
/// Read between two looks at the clock. The slowest disks take seconds for it.
const SPAN_BYTES: u64 = 32 << 20;
/// Blocks that could not be read and in which the first bad sector is looked for; each look may take the disk seconds.
const MAX_SEARCHES: u64 = 32;

/// Reads one disk.
pub(super) struct Reader<M> {
    part: Part,
    path: PathBuf,
    root: Arc<Root>,
    medium: Option<M>,
    /// Where the next span begins.
    position: u64,
    rate: Rate,
}

/// Latency and throughput.
#[derive(Default)]
pub(super) struct Rate {
    latency: Histogram,
    bytes: u64,
    busy: Duration,
}

impl Rate {
    pub(super) fn add(&mut self, len: u64, took: Duration) {
        self.bytes = self.bytes.saturating_add(len);
        self.latency.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes note of the time in which that was transferred, and shows all of it.
    pub(super) fn show(&mut self, took: Duration, name: &str, part: &mut Part) {
        self.busy += took;
        let seconds = self.busy.as_secs_f64();
        part.set(&format!("{name}_bytes"), number(self.bytes));
        if seconds > 0.0 {
            part.set(&format!("{name}_bytes_per_second"), number(self.bytes) / seconds);
        }
        for (percentile, per_mille) in [("p50", 500), ("p99", 990), ("p999", 999)] {
            let microseconds = number(self.latency.per_mille_ns(per_mille)) / 1e3;
            part.set(&format!("{name}_{percentile}_microseconds"), microseconds);
        }
        part.set(&format!("{name}_slowest_microseconds"), number(self.latency.max_ns()) / 1e3);
    }
}

/// The kernel's name of a disk by its node.
pub(super) fn name(path: &Path) -> String {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Reader<Device> {
    pub(super) fn new(path: &Path, root: Arc<Root>) -> Self {
        let part = Part::new(NAME, name(path));
        Self { part, path: path.to_owned(), root, medium: None, position: 0, rate: Rate::default() }
    }
}

impl<M: Medium> Reader<M> {
    fn begin(&mut self, medium: M) {
        self.part.set("size_bytes", number(medium.size_bytes()));
        self.medium = Some(medium);
    }

    fn measure_temperature(&mut self, when: &str) {
        if let Some(celsius) = disk_celsius(&self.root, &self.part.name) {
            self.part.set(&format!("temperature_{when}_celsius"), celsius);
        }
    }

    /// Reads the next span.
    fn read(&mut self, run: &Run) -> io::Result<()> {
        let Some(medium) = &mut self.medium else { return Ok(()) };
        let span = self.position..self.position.saturating_add(SPAN_BYTES).min(medium.size_bytes());
        let mut failed = Vec::new();
        let (rate, mut done) = (&mut self.rate, span.start);
        let begin = run.now();
        medium.read(span.clone(), run, &mut |block: Block<'_>| {
            done = done.max(block.offset + block.len);
            match block.result {
                Ok(_) => rate.add(block.len, block.took),
                Err(error) => failed.push((block.offset..block.offset + block.len, error)),
            }
        })?;
        self.rate.show(run.now().duration_since(begin), "read", &mut self.part);
        for (range, error) in failed {
            self.describe(range, &error, run)?;
        }
        // What a stop left out is not done.
        self.position = if run.is_over() { done } else { span.end };
        let size = self.medium.as_ref().map_or(0, M::size_bytes);
        if size > 0 {
            self.part.set("pass_done_percent", 100.0 * number(self.position) / number(size));
        }
        if self.position >= size {
            self.part.add("passes", 1.0);
            self.position = 0;
        }
        Ok(())
    }

    /// Reports a range that could not be read, with the first bad sector if that can be found.
    fn describe(&mut self, range: Range<u64>, error: &io::Error, run: &Run) -> io::Result<()> {
        let Some(medium) = &mut self.medium else { return Ok(()) };
        let sector = medium.sector_bytes();
        let searched = self.part.fault_count < MAX_SEARCHES && !run.is_over();
        let found = if searched { first_bad(medium, range.clone(), run)? } else { Some(range.clone()) };
        let (message, place) = match found {
            Some(bad) => {
                let until = (bad.end / sector).saturating_sub(1);
                (format!("cannot be read, up to LBA {until}: {error}"), bad.start)
            }
            None => (format!("could be read at the second try only: {error}"), range.start),
        };
        if let Some(fault) = self.part.fault(message) {
            fault.lba = Some(place / sector);
        }
        Ok(())
    }
}

/// The first sector of a range that cannot be read, or the smallest range with it; `None` if all can be read now.
fn first_bad(medium: &mut impl Medium, range: Range<u64>, run: &Run) -> io::Result<Option<Range<u64>>> {
    let sector = medium.sector_bytes();
    let mut is_bad = |range: Range<u64>| -> io::Result<bool> {
        let mut bad = false;
        medium.read(range, run, &mut |block: Block<'_>| bad |= block.result.is_err())?;
        Ok(bad)
    };
    let mut suspect = range;
    if !is_bad(suspect.clone())? {
        return Ok(None);
    }
    while suspect.end - suspect.start > sector && !run.is_over() {
        let half = suspect.start + ((suspect.end - suspect.start) / 2).next_multiple_of(sector);
        suspect = if is_bad(suspect.start..half)? { suspect.start..half } else { half..suspect.end };
    }
    Ok(Some(suspect))
}

impl Load for Reader<Device> {
    fn start(&mut self, _: &Run) -> Result<(), Trouble> {
        self.begin(Device::open(&self.path)?);
        self.measure_temperature("before");
        Ok(())
    }

    fn step(&mut self, run: &Run) -> Result<(), Trouble> {
        let start = run.now();
        while !run.is_over() && run.now().duration_since(start) < STEP {
            self.read(run)?;
        }
        Ok(())
    }

    fn end(&mut self) {
        self.measure_temperature("after");
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

    fn reader(medium: Fake) -> Reader<Fake> {
        let part = Part::new(NAME, "sdx");
        let mut reader =
            Reader { part, path: "/dev/sdx".into(), root: nowhere(), medium: None, position: 0, rate: Rate::default() };
        reader.begin(medium);
        reader
    }

    #[test]
    fn a_sector_that_cannot_be_read_is_found_by_its_address() {
        let mut reader = reader(Fake { unreadable: vec![1000, 1001, 5000], ..Fake::new(4 << 20) });
        reader.read(&Run::default()).unwrap();
        let found: Vec<_> = reader.part.faults.iter().map(|fault| fault.lba).collect();
        assert_eq!((found, reader.part.fault_count), (vec![Some(1000), Some(5000)], 2));
        assert!(
            reader.part.faults[0].message.starts_with("cannot be read, up to LBA 1000: "),
            "{:?}",
            reader.part.faults
        );
        // The rest was read, and the pass is complete.
        assert_eq!((reader.part.get("passes"), reader.part.get("pass_done_percent")), (Some(1.0), Some(100.0)));
        assert_eq!(reader.part.get("read_bytes"), Some(f64::from((4 << 20) - 2 * (64 << 10))));
        assert_eq!(reader.part.get("read_p99_microseconds"), Some(99.84));
    }

    #[test]
    fn a_sector_that_is_read_at_the_second_try_is_a_fault() {
        let mut reader = reader(Fake { unreadable: vec![3], failures: 1, ..Fake::new(1 << 20) });
        reader.read(&Run::default()).unwrap();
        assert!(reader.part.faults[0].message.starts_with("could be read at the second try only"));
    }

    #[test]
    fn a_disk_that_is_broken_all_over_takes_bounded_time() {
        let mut reader = reader(Fake { unreadable: (0..32_768).collect(), ..Fake::new(16 << 20) });
        reader.read(&Run::default()).unwrap();
        assert_eq!((reader.part.fault_count, reader.part.faults.len()), (256, 32));
    }

    #[test]
    fn a_disk_is_read_to_its_end() {
        if disk::skipped() {
            return;
        }
        let disk = LoopDisk::in_memory(40 * MIB + 4096, 512);
        let mut reader = Reader::new(&disk.path(), nowhere());
        let run = Run::default();
        reader.start(&run).unwrap();
        reader.read(&run).unwrap();
        reader.read(&run).unwrap();
        reader.end();
        assert_eq!((reader.part.faults.as_slice(), reader.part.get("passes")), (&[][..], Some(1.0)));
        assert_eq!(reader.part.get("read_bytes"), Some(f64::from((40 << 20) + 4096)));
        assert!(reader.part.get("read_bytes_per_second").unwrap() > 0.0);
    }

    #[test]
    fn a_file_is_not_a_disk() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Reader::new(file.path(), nowhere()).start(&Run::default()).unwrap_err();
        assert_eq!(error.to_string(), "not a disk");
    }
}
