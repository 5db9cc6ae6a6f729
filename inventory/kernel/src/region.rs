//! Large pieces of memory straight from the kernel, and the NUMA node that it gives memory of.
#![allow(unsafe_code)]

use nix::{
    errno::Errno,
    sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mlock, mmap_anonymous, munmap},
};
use std::{
    ffi::{c_ulong, c_void},
    io,
    num::NonZeroUsize,
    ops::Range,
    ptr::{self, NonNull},
    slice,
};

/// Bytes of a word.
pub const WORD_BYTES: usize = size_of::<u64>();
/// What regions are multiples of: a huge page of most processors, and whole pages of all.
pub const STEP_BYTES: usize = 2 << 20;
/// `MPOL_DEFAULT` and `MPOL_PREFERRED` (linux/mempolicy.h).
const MPOL_DEFAULT: i32 = 0;
const MPOL_PREFERRED: i32 = 1;
/// Nodes that a mask has room for; kernels are built for at most so many (`MAX_NUMNODES`).
const MAX_NODES: usize = 1024;

/// Memory of this process alone. Forked children do not have it, so that a fork costs no page tables for it.
#[derive(Debug)]
pub struct Region {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the value alone, wherever that is.
unsafe impl Send for Region {}

impl Region {
    /// So many bytes, rounded up to whole [`STEP_BYTES`]. The kernel gives the pages, as zeros, when they are first written.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::InvalidInput);
        let bytes = bytes.max(1).checked_next_multiple_of(STEP_BYTES).ok_or_else(too_large)?;
        let len = NonZeroUsize::new(bytes).ok_or_else(too_large)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(None, len, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) }?;
        let region = Self { start, bytes };
        // SAFETY: the range is the whole mapping, and neither advice changes what it holds.
        unsafe {
            madvise(region.start, bytes, MmapAdvise::MADV_DONTFORK)?;
            // Not every kernel has huge pages.
            let _ = madvise(region.start, bytes, MmapAdvise::MADV_HUGEPAGE);
        }
        Ok(region)
    }

    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// All of it.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is readable, writable and page-aligned, every bit pattern is a u64, and it is borrowed with the value.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / WORD_BYTES) }
    }

    /// Keeps these words in memory. Fails where the limit for it is reached.
    pub fn lock(&self, words: Range<usize>) -> io::Result<()> {
        let (from, to) = (words.start.saturating_mul(WORD_BYTES), words.end.saturating_mul(WORD_BYTES).min(self.bytes));
        let Some(len) = to.checked_sub(from).filter(|len| *len > 0) else { return Ok(()) };
        // SAFETY: `from` is below the mapping's length.
        let start = unsafe { self.start.byte_add(from) };
        // SAFETY: the range is inside of the mapping, whose content stays.
        unsafe { mlock(start, len) }.map_err(Into::into)
    }

    /// Gives back all but the first `bytes`, rounded up to whole [`STEP_BYTES`].
    pub fn shrink(&mut self, bytes: usize) -> io::Result<()> {
        let left = bytes.max(1).next_multiple_of(STEP_BYTES);
        if left < self.bytes {
            // SAFETY: the range is the end of the mapping, no slice of it is borrowed, and none of it is used from here on.
            unsafe { munmap(self.start.byte_add(left), self.bytes - left) }?;
            self.bytes = left;
        }
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nothing borrows any more.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// From now on the calling thread gets its memory of this NUMA node, while that has any; `None`: of the one it runs on.
pub fn prefer_node(node: Option<u32>) -> io::Result<()> {
    const BYTES: usize = size_of::<c_ulong>();
    const BITS: usize = 8 * BYTES;
    let mut mask = [0; MAX_NODES / BITS];
    let mut mode = MPOL_DEFAULT;
    if let Some(node) = node {
        let node = usize::try_from(node).unwrap_or(usize::MAX);
        let word = mask.get_mut(node / BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (node % BITS);
        mode = MPOL_PREFERRED;
    }
    let mask: *const c_ulong = if mode == MPOL_DEFAULT { ptr::null() } else { mask.as_ptr() };
    let nodes = if mode == MPOL_DEFAULT { 0 } else { MAX_NODES };
    // SAFETY: the kernel reads at most `nodes` bits of the mask, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, nodes) };
    Errno::result(result).map(drop).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_zero_at_first_and_holds_what_is_written() {
        let mut region = Region::new(STEP_BYTES + 1).unwrap();
        assert_eq!((region.len_bytes(), region.words().len()), (2 * STEP_BYTES, 2 * STEP_BYTES / WORD_BYTES));
        assert!(region.words().iter().all(|word| *word == 0));
        region.words().fill(7);
        // Where the limit allows none, that is all that may happen.
        let _ = region.lock(0..512);
        region.lock(5..5).unwrap();
        region.shrink(1).unwrap();
        assert_eq!(region.len_bytes(), STEP_BYTES);
        assert!(region.words().iter().all(|word| *word == 7));
        assert!(Region::new(usize::MAX).is_err());
    }

    #[test]
    fn memory_comes_from_the_node_that_is_asked_for() {
        std::thread::spawn(|| {
            // Sandboxes may forbid the call.
            if prefer_node(None).is_ok() && std::path::Path::new("/sys/devices/system/node/node0").exists() {
                prefer_node(Some(0)).unwrap();
                Region::new(STEP_BYTES).unwrap().words().fill(1);
            }
            assert!(prefer_node(Some(100_000)).is_err());
        })
        .join()
        .unwrap();
    }
}
