//! What is looked at where a magic number is.

use super::Area;
use super::bytes::Bytes;

/// A superblock with its magic number.
pub(super) struct Superblock<'a> {
    pub area: &'a Area<'a>,
    /// From the area's start.
    pub at: u64,
    pub block: Bytes,
    pub magic: &'static [u8],
}

impl Superblock<'_> {
    /// The 32 bits at this place, by the order of bytes that the magic number shows.
    pub(super) fn word(&self, at: usize, big: bool) -> u32 {
        if big { self.block.be32(at) } else { self.block.le32(at) }
    }

    pub(super) fn half(&self, at: usize, big: bool) -> u16 {
        if big { self.block.be16(at) } else { self.block.le16(at) }
    }
}
