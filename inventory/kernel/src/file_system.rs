//! ioctls of mounted file systems and of their files.
#![allow(unsafe_code)]

use nix::errno::Errno;
use std::{
    ffi::CString,
    fs::File,
    io, mem,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::Path,
    time::{Duration, SystemTime},
};

/// Extents asked for at once.
const EXTENTS: usize = 32;
/// `FIEMAP_FLAG_SYNC`: what was just written has its place first.
const SYNC: u32 = 1;
/// `FS_IMMUTABLE_FL` of linux/fs.h.
const IMMUTABLE: libc::c_int = 0x10;

/// `struct xfs_growfs_data`.
#[repr(C)]
struct XfsGrowth {
    blocks: u64,
    max_inode_percent: u32,
    padding: u32,
}

/// A run of bytes of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// Where it begins in the file.
    pub logical: u64,
    /// Where it begins on the device.
    pub physical: u64,
    /// Its length.
    pub length: u64,
    /// `FIEMAP_EXTENT_…`
    pub flags: u32,
}

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
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
    extents: [FiemapExtent; EXTENTS],
}

const _: () = assert!(size_of::<XfsGrowth>() == 16);
const _: () = assert!(size_of::<FiemapExtent>() == 56 && size_of::<Fiemap>() == 32 + 56 * EXTENTS);
/// `sizeof(struct xfs_fsop_geom_v1)`: eight numbers of 32 bits, the first the size of blocks, the last the share of inodes in percent;
/// then in 64 bits the number of blocks, and more.
const GEOMETRY_BYTES: usize = 112;

mod ioctl {
    use super::{Fiemap, GEOMETRY_BYTES, XfsGrowth};
    // Numbers as in linux/fs.h and libxfs/xfs_fs.h.
    nix::ioctl_readwrite!(fifreeze, b'X', 119, libc::c_int);
    nix::ioctl_readwrite!(fithaw, b'X', 120, libc::c_int);
    nix::ioctl_read!(xfs_geometry, b'X', 100, [u64; GEOMETRY_BYTES / 8]);
    nix::ioctl_write_ptr!(xfs_grow, b'X', 110, XfsGrowth);
    // FS_IOC_FIEMAP's number has the size of the structure without extents.
    nix::ioctl_readwrite_bad!(fiemap, nix::request_code_readwrite!(b'f', 11, 32), Fiemap);
    // FS_IOC_GETFLAGS' and FS_IOC_SETFLAGS' numbers are made with the size of a long, and the kernel reads and writes an int.
    nix::ioctl_read_bad!(get_flags, nix::request_code_read!(b'f', 1, size_of::<libc::c_long>()), libc::c_int);
    nix::ioctl_write_ptr_bad!(set_flags, nix::request_code_write!(b'f', 2, size_of::<libc::c_long>()), libc::c_int);
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

/// The first extents of `file` at or after `start`, in order; an empty list is the end.
pub fn extents(file: &File, start: u64) -> Result<Vec<Extent>, Errno> {
    let extent_count = u32::try_from(EXTENTS).unwrap_or_default();
    let mut map = Fiemap { start, length: u64::MAX - start, flags: SYNC, extent_count, ..Fiemap::default() };
    // SAFETY: the descriptor is open, and the structure has the kernel's layout, room for as many extents as it says, and outlives
    // the call.
    unsafe { ioctl::fiemap(file.as_raw_fd(), &raw mut map) }?;
    let mapped = usize::try_from(map.mapped_extents).unwrap_or_default().min(EXTENTS);
    let extent = |found: &FiemapExtent| Extent {
        logical: found.logical,
        physical: found.physical,
        length: found.length,
        flags: found.flags,
    };
    Ok(map.extents.iter().take(mapped).map(extent).collect())
}

/// Lets a file be changed that was protected against root too (`chattr -i`). File systems without such flags are left alone.
pub fn clear_immutable(file: &File) -> io::Result<()> {
    let mut flags: libc::c_int = 0;
    // SAFETY: the descriptor is open and the kernel writes one int to a live int.
    if unsafe { ioctl::get_flags(file.as_raw_fd(), &raw mut flags) }.is_err() || flags & IMMUTABLE == 0 {
        return Ok(());
    }
    let flags = flags & !IMMUTABLE;
    // SAFETY: the descriptor is open and the kernel reads one int from a live int.
    unsafe { ioctl::set_flags(file.as_raw_fd(), &raw const flags) }?;
    Ok(())
}

/// When the file at `path` was created: statx(2), which Rust's library does not ask where the C library is musl. An error of kind
/// `Unsupported` where the file system does not keep it.
pub fn created(path: &Path) -> io::Result<SystemTime> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all of it is numbers, for which zero is a value.
    let mut found: libc::statx = unsafe { mem::zeroed() };
    // SAFETY: the path ends in zero, the struct is the kernel's, and both outlive the call. The call itself, since C libraries got a
    // function for it late.
    let result =
        unsafe { libc::syscall(libc::SYS_statx, libc::AT_FDCWD, path.as_ptr(), 0, libc::STATX_BTIME, &raw mut found) };
    Errno::result(result)?;
    if found.stx_mask & libc::STATX_BTIME == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let whole = u64::try_from(found.stx_btime.tv_sec).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(SystemTime::UNIX_EPOCH + Duration::new(whole, found.stx_btime.tv_nsec))
}
