//! The allocator: the C library's, which returns memory to the system and respects limits set at any time; and mimalloc for a
//! process that serves thousands. musl's allocator has one lock for all threads: under a fleet the service would mostly wait for it.
#![allow(unsafe_code)] // what an allocator is

use libmimalloc_sys::mi_is_in_heap_region;
use mimalloc::MiMalloc;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, Ordering},
};

/// The C library's allocator until [`Allocator::serve_many_threads`].
pub(crate) struct Allocator {
    many_threads: AtomicBool,
}

impl Allocator {
    /// For a program that has just started.
    pub(crate) const fn new() -> Self {
        Self { many_threads: AtomicBool::new(false) }
    }

    /// From now on memory is mimalloc's; earlier blocks return to the allocator they are from.
    pub(crate) fn serve_many_threads(&self) {
        self.many_threads.store(true, Ordering::Relaxed);
    }

    fn many_threads(&self) -> bool {
        self.many_threads.load(Ordering::Relaxed)
    }

    /// Whether this is a block of mimalloc's; before the switch there are none.
    fn is_mimallocs(&self, block: *mut u8) -> bool {
        // SAFETY: it only looks the address up, and accepts any.
        self.many_threads() && unsafe { mi_is_in_heap_region(block.cast_const().cast()) }
    }
}

// SAFETY: each block is freed or reallocated by the allocator it is from, with the layout it was allocated with.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, as it is.
        unsafe { if self.many_threads() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, as it is.
        unsafe { if self.many_threads() { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the allocator that the block is from.
        unsafe {
            if self.is_mimallocs(block) { MiMalloc.dealloc(block, layout) } else { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the allocator that the block is from, which keeps owning it.
        unsafe {
            if self.is_mimallocs(block) {
                MiMalloc.realloc(block, layout, new_size)
            } else {
                System.realloc(block, layout, new_size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_back_to_where_they_are_from() {
        let allocator = Allocator::new();
        let layout = Layout::from_size_align(4096, 64).unwrap();
        // SAFETY: blocks of that layout, written within their size and given back once.
        unsafe {
            let before = allocator.alloc(layout);
            assert!(!allocator.is_mimallocs(before));
            before.write_bytes(7, layout.size());
            allocator.serve_many_threads();
            let after = allocator.alloc_zeroed(layout);
            assert!(allocator.is_mimallocs(after) && !allocator.is_mimallocs(before));
            let larger = allocator.realloc(before, layout, 1 << 20);
            assert!(!allocator.is_mimallocs(larger));
            assert_eq!((*larger, *larger.add(4095), *after.add(4095)), (7, 7, 0));
            allocator.dealloc(larger, Layout::from_size_align(1 << 20, 64).unwrap());
            let after = allocator.realloc(after, layout, 100);
            allocator.dealloc(after, Layout::from_size_align(100, 64).unwrap());
        }
    }
}
