//! The whole disk in order, again and again: errors with their place, latency, throughput.

use super::{
    device::Device,
    medium::{Block, Medium},
    rate::Rate,
    test::Work,
};
use crate::{
    load::{Run, Trouble},
    result::{Part, number},
};
use std::{io, ops::Range, path::Path};

/// Read between two looks at the clock. The slowest disks take seconds for it.
const SPAN_BYTES: u64 = 32 << 20;
/// Blocks that could not be read and in which the first bad sector is looked for; each look may take the disk seconds.
const MAX_SEARCHES: u64 = 32;

/// Reads a disk.
#[derive(Default)]
pub(super) struct Read {
    /// Where the next span begins.
    position: u64,
    rate: Rate,
}

impl Work for Read {
    fn open(path: &Path) -> Result<Device, Trouble> {
        Ok(Device::open(path)?)
    }

    fn work(&mut self, medium: &mut impl Medium, part: &mut Part, run: &Run) -> io::Result<()> {
        let size = medium.size_bytes();
        let span = self.position..self.position.saturating_add(SPAN_BYTES).min(size);
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
        rate.show(run.now().duration_since(begin), "read", part);
        for (range, error) in failed {
            describe(medium, range, &error, part, run)?;
        }
        // What a stop left out is not done.
        self.position = if run.is_over() { done } else { span.end };
        if size > 0 {
            part.set("pass_done_percent", 100.0 * number(self.position) / number(size));
        }
        if self.position >= size {
            part.add("passes", 1.0);
            self.position = 0;
        }
        Ok(())
    }
}

/// Reports a range that could not be read, with the first bad sector if that can be found.
fn describe(
    medium: &mut impl Medium,
    range: Range<u64>,
    error: &io::Error,
    part: &mut Part,
    run: &Run,
) -> io::Result<()> {
    let sector = medium.sector_bytes();
    let searched = part.fault_count < MAX_SEARCHES && !run.is_over();
    let found = if searched { first_bad(medium, range.clone(), run)? } else { Some(range.clone()) };
    let (message, place) = match found {
        Some(bad) => {
            let until = (bad.end / sector).saturating_sub(1);
            (format!("cannot be read, up to LBA {until}: {error}"), bad.start)
        }
        None => (format!("could be read only at the second try: {error}"), range.start),
    };
    part.fault_at(place / sector, message);
    Ok(())
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

    /// What one span of a disk shows.
    fn read(mut medium: Fake) -> Part {
        let mut part = Part::default();
        Read::default().work(&mut medium, &mut part, &Run::default()).unwrap();
        part
    }

    #[test]
    fn a_sector_that_cannot_be_read_is_found_by_its_address() {
        let part = read(Fake { unreadable: vec![1000, 1001, 5000], ..Fake::new(4 << 20) });
        let found: Vec<_> = part.faults.iter().map(|fault| fault.lba).collect();
        assert_eq!((found, part.fault_count), (vec![Some(1000), Some(5000)], 2));
        assert!(part.faults[0].message.starts_with("cannot be read, up to LBA 1000: "), "{:?}", part.faults);
        // The rest was read, and the pass is complete.
        assert_eq!((part.get("passes"), part.get("pass_done_percent")), (Some(1.0), Some(100.0)));
        assert_eq!(part.get("read_bytes"), Some(f64::from((4 << 20) - 2 * (64 << 10))));
        assert_eq!(part.get("read_p99_microseconds"), Some(99.84));
    }

    #[test]
    fn a_sector_that_is_read_at_the_second_try_is_a_fault() {
        let part = read(Fake { unreadable: vec![3], failures: 1, ..Fake::new(1 << 20) });
        assert!(part.faults[0].message.starts_with("could be read only at the second try"));
    }

    #[test]
    fn a_disk_that_is_broken_all_over_takes_bounded_time() {
        let part = read(Fake { unreadable: (0..32_768).collect(), ..Fake::new(16 << 20) });
        assert_eq!((part.fault_count, part.faults.len()), (256, 32));
    }

    #[test]
    fn a_disk_is_read_to_its_end() {
        if disk::skipped() {
            return;
        }
        let disk = LoopDisk::in_memory(40 * MIB + 4096, 512);
        let mut test = Test::new(&disk.path(), nowhere(), Read::default());
        let run = Run::default();
        test.start(&run).unwrap();
        while test.findings().get("passes").is_none() {
            test.step(&run).unwrap();
        }
        test.end();
        let part = test.findings();
        assert_eq!(part.faults, []);
        assert!(part.get("read_bytes").unwrap() >= f64::from((40 << 20) + 4096));
        assert!(part.get("read_bytes_per_second").unwrap() > 0.0);
    }

    #[test]
    fn a_file_is_not_a_disk() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Test::new(file.path(), nowhere(), Read::default()).start(&Run::default()).unwrap_err();
        assert_eq!(error.to_string(), "not a disk");
    }
}
