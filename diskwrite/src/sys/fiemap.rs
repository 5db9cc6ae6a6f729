//! Where a file's bytes are on its disk.

use nix::errno::Errno;
use std::{fs::File, os::fd::AsRawFd};

/// Extents asked for at once.
pub const EXTENTS: usize = 32;
/// `FIEMAP_FLAG_SYNC`: what was just written has its place first.
const SYNC: u32 = 1;

/// `struct fiemap_extent` of linux/fiemap.h, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    pub logical: u64,
    pub physical: u64,
    pub length: u64,
    pub reserved64: [u64; 2],
    pub flags: u32,
    pub reserved: [u32; 3],
}

/// `struct fiemap`, with room for extents behind it.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

const _: () = assert!(size_of::<Extent>() == 56 && size_of::<Fiemap>() == 32 + 56 * EXTENTS);

// FS_IOC_FIEMAP of linux/fs.h; its number has the size of the structure without extents.
nix::ioctl_readwrite_bad!(fs_ioc_fiemap, nix::request_code_readwrite!(b'f', 11, 32), Fiemap);

/// The first extents of `file` at or after `start`, in order; an empty list is the end.
pub fn fiemap(file: &File, start: u64) -> Result<Vec<Extent>, Errno> {
    let extent_count = u32::try_from(EXTENTS).unwrap_or_default();
    let mut map = Fiemap { start, length: u64::MAX - start, flags: SYNC, extent_count, ..Fiemap::default() };
    // SAFETY: the descriptor is open, and the structure has the kernel's layout, room for as many extents as it says, and outlives
    // the call.
    unsafe { fs_ioc_fiemap(file.as_raw_fd(), &raw mut map) }?;
    let mapped = usize::try_from(map.mapped_extents).unwrap_or_default().min(EXTENTS);
    Ok(map.extents[..mapped].to_vec())
}
