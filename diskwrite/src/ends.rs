//! What stands at the two ends of a disk, where partition tables live, before and after an image is complete.

use crate::buffer::Buffer;
use crate::flight::bytes;
use crate::pump::HEAD_BYTES;
use crate::record::Record;
use crate::write::RUN_BYTES;
use crate::zeros::runs;

/// The disk's first MiB and a piece at its end.
#[derive(Debug)]
pub(crate) struct Ends {
    /// From byte 0: [`HEAD_BYTES`].
    pub head: Buffer,
    /// First byte of the tail: a multiple of the sector size.
    pub tail_offset: u64,
    /// Up to the end of the disk; may be empty.
    pub tail: Buffer,
}

impl Ends {
    /// Zeros at both: no table, primary or backup, for a disk of `disk_bytes`.
    pub fn cleared(disk_bytes: u64) -> Self {
        let zeros = || {
            let mut buffer = Buffer::new(HEAD_BYTES);
            buffer.set_len(HEAD_BYTES);
            buffer
        };
        let tail = zeros();
        let tail_offset = disk_bytes.saturating_sub(u64::try_from(tail.len()).unwrap_or(u64::MAX));
        Self { head: zeros(), tail_offset, tail }
    }

    /// What must be read back where they are. The head comes first: without it the tail is no harm.
    pub fn record(&self) -> Record {
        let mut record = Record::default();
        for (offset, end) in [(0, &self.head), (self.tail_offset, &self.tail)] {
            for (_, run) in runs(end, RUN_BYTES) {
                record.data(offset.saturating_add(bytes(run.start)), &end[run]);
            }
        }
        record
    }
}
