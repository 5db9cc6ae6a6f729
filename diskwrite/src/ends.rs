//! What stands at the two ends of a disk, where partition tables live, before and after an image is complete.

use crate::buffer::Buffer;
use crate::pump::HEAD_BYTES;

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
}
