//! What was written, to be read back and compared.

use crate::buffer::Buffer;
use crate::ends::Ends;
use crate::flight::{Flight, RUN_BYTES, bytes};
use crate::request::{Request, Target, Work};
use crate::write::{WriteError, describe};
use crate::zeros::{is_zero, runs};
use kernel::order;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_64;

/// Reads under way at a time: enough for any disk, in 16 MiB of memory.
const READS: usize = 4;

/// Runs and what must be found there: 24 bytes for up to 4 MiB of data or any number of zeros.
#[derive(Debug, Default)]
pub(crate) struct Record {
    runs: Vec<Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    offset: u64,
    expected: Expected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Data { len: u32, xxh3: u64 },
    Zeros { len: u64 },
}

impl Run {
    fn len(&self) -> u64 {
        match self.expected {
            Expected::Data { len, .. } => len.into(),
            Expected::Zeros { len } => len,
        }
    }
}

impl Record {
    /// What must be read back at the ends of a disk. The head comes first: without it the tail is no harm.
    pub(crate) fn ends(ends: &Ends) -> Self {
        let mut record = Self::default();
        for (offset, end) in [(0, &ends.head), (ends.tail_offset, &ends.tail)] {
            for (_, run) in runs(end, RUN_BYTES) {
                record.data(offset.saturating_add(bytes(run.start)), &end[run]);
            }
        }
        record
    }

    /// `data`, at most [`RUN_BYTES`], goes to `offset`.
    pub(crate) fn data(&mut self, offset: u64, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.runs.push(Run { offset, expected: Expected::Data { len, xxh3: xxh3_64(data) } });
    }

    /// `len` zeros go to `offset`.
    pub(crate) fn zeros(&mut self, offset: u64, len: u64) {
        if let Some(Run { offset: last, expected: Expected::Zeros { len: known } }) = self.runs.last_mut()
            && last.saturating_add(*known) == offset
        {
            *known = known.saturating_add(len);
        } else {
            self.runs.push(Run { offset, expected: Expected::Zeros { len } });
        }
    }

    /// How much there is to read, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.runs.iter().map(Run::len).sum()
    }
}

/// A record on its way to be compared with the disk.
pub(crate) struct ReadBack<T> {
    flight: Flight<T>,
    device: PathBuf,
    /// Last first.
    remaining: Vec<Run>,
    under_way: Vec<Run>,
    spare: Vec<Buffer>,
    checked: u64,
}

impl<T: Target> ReadBack<T> {
    /// What was written must be flushed.
    pub(crate) fn new(target: T, device: PathBuf, record: Record) -> Self {
        let mut flight = Flight::new(target);
        flight.forget_cache();
        let mut remaining = record.runs;
        order::sort_by_key(&mut remaining, |run| std::cmp::Reverse(run.offset));
        Self { flight, device, remaining, under_way: Vec::new(), spare: Vec::new(), checked: 0 }
    }

    /// Compares some more. Returns how many bytes were compared so far; None if that is all.
    pub(crate) fn step(&mut self) -> Result<Option<u64>, WriteError> {
        while self.under_way.len() < READS {
            let Some(run) = self.next_run() else { break };
            let mut buffer = self.spare.pop().unwrap_or_else(|| Buffer::new(RUN_BYTES));
            buffer.set_len(usize::try_from(run.len()).unwrap_or(usize::MAX));
            self.under_way.push(run);
            let pushed = self.flight.push(Request::new(run.offset, Work::Read(buffer)));
            pushed.map_err(|failed| describe(&self.device, failed))?;
        }
        if !self.flight.wait().map_err(|failed| describe(&self.device, failed))? {
            return Ok(None);
        }
        while let Some(request) = self.flight.ended() {
            if let Err(error) = self.compare(request) {
                // Whatever becomes of the other reads, this one must be reported.
                let _ = self.flight.settle();
                return Err(error);
            }
        }
        Ok(Some(self.checked))
    }

    /// Compares all that is left.
    pub(crate) fn finish(mut self) -> Result<(), WriteError> {
        while self.step()?.is_some() {}
        Ok(())
    }

    /// The next run; of zeros as much as a buffer takes.
    fn next_run(&mut self) -> Option<Run> {
        let run = self.remaining.pop()?;
        let Expected::Zeros { len } = run.expected else { return Some(run) };
        let now = len.min(bytes(RUN_BYTES));
        if now < len {
            let rest = Expected::Zeros { len: len - now };
            self.remaining.push(Run { offset: run.offset.saturating_add(now), expected: rest });
        }
        Some(Run { expected: Expected::Zeros { len: now }, ..run })
    }

    fn compare(&mut self, request: Request) -> Result<(), WriteError> {
        let (offset, len) = (request.offset, bytes(request.len_bytes()));
        let Work::Read(buffer) = request.work else { return Ok(()) };
        let Some(index) = self.under_way.iter().position(|run| run.offset == offset) else { return Ok(()) };
        let same = match self.under_way.swap_remove(index).expected {
            Expected::Data { xxh3, .. } => xxh3_64(&buffer) == xxh3,
            Expected::Zeros { .. } => is_zero(&buffer),
        };
        if !same {
            return Err(WriteError::ReadBack { device: self.device.clone(), offset, len });
        }
        self.checked = self.checked.saturating_add(len);
        self.spare.push(buffer);
        Ok(())
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
