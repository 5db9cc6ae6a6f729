//! Block devices and loop devices (linux/fs.h, linux/blkpg.h, linux/loop.h).
#![allow(unsafe_code)]

use crate::DevNumber;
use nix::errno::Errno;
use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::AsRawFd,
    path::PathBuf,
};

/// `BLKPG_ADD_PARTITION`, `BLKPG_DEL_PARTITION` and `BLKPG_RESIZE_PARTITION` of linux/blkpg.h.
const BLKPG_ADD: libc::c_int = 1;
const BLKPG_DEL: libc::c_int = 2;
const BLKPG_RESIZE: libc::c_int = 3;
/// `LO_FLAGS_AUTOCLEAR`: the loop device goes when its last user does.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Others may take free loop devices too.
const LOOP_TRIES: u32 = 16;

/// `struct blkpg_partition`; start and length in bytes whatever the sector size.
#[repr(C)]
struct BlkpgPartition {
    start: libc::c_longlong,
    length: libc::c_longlong,
    pno: libc::c_int,
    devname: [u8; 64],
    volname: [u8; 64],
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct BlkpgArg {
    op: libc::c_int,
    flags: libc::c_int,
    datalen: libc::c_int,
    data: *mut BlkpgPartition,
}

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    const EMPTY: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

mod ioctl {
    use super::{BlkpgArg, LoopConfig, LoopInfo};
    // The _IO ones carry no size in their numbers.
    nix::ioctl_none!(blkrrpart, 0x12, 95);
    nix::ioctl_none!(blkflsbuf, 0x12, 97);
    nix::ioctl_write_ptr_bad!(blkdiscard, 0x1277, [u64; 2]);
    nix::ioctl_read_bad!(blksszget, 0x1268, libc::c_int);
    nix::ioctl_write_ptr_bad!(blkpg, 0x1269, BlkpgArg);
    nix::ioctl_read_bad!(loop_get_status64, 0x4C05, LoopInfo);
    nix::ioctl_read!(blkgetsize64, 0x12, 114, libc::size_t);
    nix::ioctl_write_ptr_bad!(loop_configure, 0x4C0A, LoopConfig);
    nix::ioctl_none_bad!(loop_ctl_get_free, 0x4C82);
}

/// Logical sector size in bytes (`BLKSSZGET`).
pub fn sector_bytes(disk: &File) -> io::Result<u32> {
    let mut size: libc::c_int = 0;
    // SAFETY: the descriptor is open and the kernel writes one int to a live int.
    unsafe { ioctl::blksszget(disk.as_raw_fd(), &mut size) }?;
    u32::try_from(size).map_err(io::Error::other)
}

/// Size in bytes (`BLKGETSIZE64`).
pub fn size_bytes(disk: &File) -> io::Result<u64> {
    // The header says size_t, the kernel writes 64 bits on every architecture.
    let mut size = [0u64; 1];
    // SAFETY: the descriptor is open and 8 live bytes are given for the 8 the kernel writes.
    unsafe { ioctl::blkgetsize64(disk.as_raw_fd(), size.as_mut_ptr().cast()) }?;
    Ok(size[0])
}

/// Makes the kernel read the partition table anew (`BLKRRPART`).
pub fn reread_partition_table(disk: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call takes no argument.
    unsafe { ioctl::blkrrpart(disk.as_raw_fd()) }?;
    Ok(())
}

/// Writes out and drops the page cache of the whole disk (`BLKFLSBUF`).
pub fn drop_cache(disk: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call takes no argument.
    unsafe { ioctl::blkflsbuf(disk.as_raw_fd()) }?;
    Ok(())
}

/// Tells the disk to discard these bytes, which are whole sectors (`BLKDISCARD`).
pub fn discard(disk: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the descriptor is open and the kernel reads two u64 from a live array of two.
    unsafe { ioctl::blkdiscard(disk.as_raw_fd(), &range) }?;
    Ok(())
}

fn partition_op(disk: &File, op: libc::c_int, number: u32, start: u64, length: u64) -> io::Result<()> {
    let mut partition = BlkpgPartition {
        start: i64::try_from(start).map_err(io::Error::other)?,
        length: i64::try_from(length).map_err(io::Error::other)?,
        pno: libc::c_int::try_from(number).map_err(io::Error::other)?,
        devname: [0; 64],
        volname: [0; 64],
    };
    let datalen = libc::c_int::try_from(size_of::<BlkpgPartition>()).map_err(io::Error::other)?;
    let arg = BlkpgArg { op, flags: 0, datalen, data: &mut partition };
    // SAFETY: both structures have the kernel's layout and outlive the call, and datalen is the inner one's size.
    unsafe { ioctl::blkpg(disk.as_raw_fd(), &arg) }?;
    Ok(())
}

/// Tells the kernel of a partition; start and length in bytes.
pub fn add_partition(disk: &File, number: u32, start: u64, length: u64) -> io::Result<()> {
    partition_op(disk, BLKPG_ADD, number, start, length)
}

/// Tells the kernel of a partition's new length, in bytes; it may be mounted.
pub fn resize_partition(disk: &File, number: u32, start: u64, length: u64) -> io::Result<()> {
    partition_op(disk, BLKPG_RESIZE, number, start, length)
}

/// Makes the kernel forget a partition.
pub fn delete_partition(disk: &File, number: u32) -> io::Result<()> {
    partition_op(disk, BLKPG_DEL, number, 0, 0)
}

/// The block device behind a loop device; `None` if a file is behind it.
pub fn loop_backing(device: &File) -> io::Result<Option<DevNumber>> {
    let mut info = LoopInfo::EMPTY;
    // SAFETY: the descriptor is open, and the structure has the kernel's layout and outlives the call.
    unsafe { ioctl::loop_get_status64(device.as_raw_fd(), &mut info) }?;
    Ok((info.rdevice != 0).then(|| DevNumber::from_kernel(info.rdevice)))
}

/// Binds a free loop device to a part of `backing`; it unbinds itself when its last user closes it.
pub fn bind_loop(backing: &File, offset: u64, len: u64) -> io::Result<(PathBuf, File)> {
    let open = |path: &str| OpenOptions::new().read(true).write(true).open(path);
    let control = open("/dev/loop-control")?;
    let config = LoopConfig {
        fd: u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?,
        block_size: 0,
        info: LoopInfo { offset, sizelimit: len, flags: LO_FLAGS_AUTOCLEAR, ..LoopInfo::EMPTY },
        reserved: [0; 8],
    };
    for _ in 0..LOOP_TRIES {
        // SAFETY: the descriptor is open; the call takes no argument.
        let number = unsafe { ioctl::loop_ctl_get_free(control.as_raw_fd()) }?;
        let path = format!("/dev/loop{number}");
        let device = open(&path)?;
        // SAFETY: both descriptors are open and the structure has the kernel's layout and outlives the call.
        match unsafe { ioctl::loop_configure(device.as_raw_fd(), &config) } {
            // Another process took it first.
            Err(Errno::EBUSY) => {}
            result => {
                result?;
                return Ok((path.into(), device));
            }
        }
    }
    Err(Errno::EBUSY.into())
}
