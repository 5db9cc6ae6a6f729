//! What is asked of a mounted file system.

use std::{fs::File, io, os::fd::AsRawFd};

/// `struct xfs_growfs_data`.
#[repr(C)]
struct XfsGrowth {
    blocks: u64,
    max_inode_percent: u32,
    padding: u32,
}

const _: () = assert!(size_of::<XfsGrowth>() == 16);
/// `sizeof(struct xfs_fsop_geom_v1)`: eight numbers of 32 bits, the first the size of blocks, the last the share of inodes in percent;
/// then in 64 bits the number of blocks, and more.
const GEOMETRY_BYTES: usize = 112;

mod ioctl {
    use super::{GEOMETRY_BYTES, XfsGrowth};
    // Numbers as in linux/fs.h and libxfs/xfs_fs.h.
    nix::ioctl_readwrite!(fifreeze, b'X', 119, libc::c_int);
    nix::ioctl_readwrite!(fithaw, b'X', 120, libc::c_int);
    nix::ioctl_read!(xfs_geometry, b'X', 100, [u64; GEOMETRY_BYTES / 8]);
    nix::ioctl_write_ptr!(xfs_grow, b'X', 110, XfsGrowth);
}

/// Writes all of the file system of `root` to its place, the journal's contents too (`FIFREEZE`, `FITHAW`).
pub fn settle(root: &File) -> io::Result<()> {
    let mut unused: libc::c_int = 0;
    // SAFETY: the descriptor is open; the kernel takes no argument, and the pointer is to a live int.
    unsafe { ioctl::fifreeze(root.as_raw_fd(), &raw mut unused) }?;
    // SAFETY: as before.
    unsafe { ioctl::fithaw(root.as_raw_fd(), &raw mut unused) }?;
    Ok(())
}

/// Grows the XFS file system of `root` to `device_bytes`. False if it has as many already.
pub fn grow_xfs(root: &File, device_bytes: u64) -> io::Result<bool> {
    let mut geometry = [0u64; GEOMETRY_BYTES / 8];
    // SAFETY: the descriptor is open and the kernel writes as many bytes as the live array has.
    unsafe { ioctl::xfs_geometry(root.as_raw_fd(), &raw mut geometry) }?;
    let [first, _, _, last, data_blocks, ..] = geometry;
    let [first, last] = [first, last].map(u64::to_ne_bytes);
    let [a, b, c, d, ..] = first;
    let [.., e, f, g, h] = last;
    let (block_bytes, max_inode_percent) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
    let blocks = device_bytes.checked_div(block_bytes.into()).unwrap_or_default();
    if blocks <= data_blocks {
        return Ok(false);
    }
    let growth = XfsGrowth { blocks, max_inode_percent, padding: 0 };
    // SAFETY: the descriptor is open, and the structure has the kernel's layout and outlives the call.
    unsafe { ioctl::xfs_grow(root.as_raw_fd(), &raw const growth) }?;
    Ok(true)
}
