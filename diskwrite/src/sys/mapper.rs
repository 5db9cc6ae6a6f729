//! Device mapper ioctls (linux/dm-ioctl.h) on `/dev/mapper/control`.

use super::done;
use std::{fs::File, io, os::fd::AsRawFd};

/// `sizeof(struct dm_ioctl)`, which is part of each ioctl's number.
pub const HEADER_BYTES: usize = 312;
/// Room for the header and an answer; a table that names more than 2000 devices doesn't fit.
pub const BUFFER_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `DM_VERSION`
    Version,
    /// `DM_DEV_REMOVE`
    Remove,
    /// `DM_DEV_SUSPEND`, which by its flags also resumes
    Suspend,
    /// `DM_DEV_STATUS`
    Status,
    /// `DM_TABLE_LOAD`
    Load,
    /// `DM_TABLE_DEPS`
    Dependencies,
}

mod ioctl {
    use super::{BUFFER_BYTES, HEADER_BYTES};
    // DM_IOCTL is 0xFD; the numbers are those of the enum in the header.
    nix::ioctl_readwrite_bad!(version, nix::request_code_readwrite!(0xFD, 0, HEADER_BYTES), [u8; BUFFER_BYTES]);
    nix::ioctl_readwrite_bad!(remove, nix::request_code_readwrite!(0xFD, 4, HEADER_BYTES), [u8; BUFFER_BYTES]);
    nix::ioctl_readwrite_bad!(suspend, nix::request_code_readwrite!(0xFD, 6, HEADER_BYTES), [u8; BUFFER_BYTES]);
    nix::ioctl_readwrite_bad!(load, nix::request_code_readwrite!(0xFD, 9, HEADER_BYTES), [u8; BUFFER_BYTES]);
    nix::ioctl_readwrite_bad!(status, nix::request_code_readwrite!(0xFD, 7, HEADER_BYTES), [u8; BUFFER_BYTES]);
    nix::ioctl_readwrite_bad!(dependencies, nix::request_code_readwrite!(0xFD, 11, HEADER_BYTES), [u8; BUFFER_BYTES]);
}

/// Asks the device mapper; the answer takes the question's place. The buffer begins with a `struct dm_ioctl` whose `data_size`
/// is at most the buffer's length.
pub fn ask(control: &File, command: Command, buffer: &mut [u8; BUFFER_BYTES]) -> io::Result<()> {
    // The kernel believes data_size (at byte 12) on how much it may write.
    let [.., a, b, c, d] = buffer.first_chunk::<16>().copied().unwrap_or_default();
    let room = usize::try_from(u32::from_ne_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if !(HEADER_BYTES..=BUFFER_BYTES).contains(&room) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let fd = control.as_raw_fd();
    // SAFETY: the descriptor is open; the kernel reads and writes at most data_size bytes, which was just checked to be no more
    // than the live buffer has.
    done(unsafe {
        match command {
            Command::Version => ioctl::version(fd, buffer),
            Command::Remove => ioctl::remove(fd, buffer),
            Command::Suspend => ioctl::suspend(fd, buffer),
            Command::Load => ioctl::load(fd, buffer),
            Command::Status => ioctl::status(fd, buffer),
            Command::Dependencies => ioctl::dependencies(fd, buffer),
        }
    })
    .map(drop)
}
