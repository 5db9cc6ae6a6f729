//! Page-aligned buffers, as direct I/O wants them.

use std::ops::{Deref, DerefMut};

/// Alignment of every buffer: no disk needs more than its sector, at most a page.
pub const ALIGN: usize = 4096;

/// A fixed-size piece of memory that starts on a page, and how much of it is in use.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    capacity: usize,
    len: usize,
}

impl Buffer {
    /// Zeroed, with nothing in use.
    pub fn new(capacity: usize) -> Self {
        let memory = vec![0; capacity + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { memory, start, capacity, len: 0 }
    }

    /// All of it, used or not.
    pub fn whole(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.capacity]
    }

    /// How much fits in.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Says how much is in use, at most all.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity);
    }

    /// What is in use, in its own memory.
    pub fn copy(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.whole().copy_from_slice(self);
        copy.len = self.len;
        copy
    }

    /// Extends what is in use with zeros to a multiple of `sector`, as far as there is room.
    pub fn pad(&mut self, sector: usize) {
        let padded = self.len.next_multiple_of(sector.max(1)).min(self.capacity);
        let len = self.len;
        self.whole()[len..padded].fill(0);
        self.len = padded;
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_padded_with_zeros() {
        let mut buffer = Buffer::new(8192);
        buffer.whole().fill(7);
        buffer.set_len(5000);
        assert_eq!(buffer.as_ptr().align_offset(ALIGN), 0);
        buffer.pad(512);
        assert_eq!(buffer.len(), 5120);
        assert!(buffer[..5000].iter().all(|b| *b == 7) && buffer[5000..].iter().all(|b| *b == 0));
        buffer.set_len(9999);
        assert_eq!(buffer.len(), 8192);
    }
}
