//! Commands that the kernel passes to a CXL memory device (linux/cxl_mem.h).
#![allow(unsafe_code)]

use std::{fs::File, io, os::fd::AsRawFd};

/// `struct cxl_send_command`.
#[repr(C)]
#[derive(Default)]
struct Command {
    id: u32,
    flags: u32,
    raw: u32,
    result: u32,
    input_len: u32,
    reserved: u32,
    input: u64,
    output_len: u32,
    reserved_too: u32,
    output: u64,
}

const _: () = assert!(size_of::<Command>() == 48);

mod ioctl {
    nix::ioctl_readwrite!(send, 0xce, 2, super::Command);
}

/// Sends a command without input, by the kernel's number. Gives the device's return code and the length of its output. An error is
/// the kernel's.
pub fn command(memory: &File, id: u32, output: &mut [u8]) -> io::Result<(u32, usize)> {
    let mut command = Command {
        id,
        output_len: u32::try_from(output.len()).map_err(io::Error::other)?,
        output: u64::try_from(output.as_mut_ptr().expose_provenance()).map_err(io::Error::other)?,
        ..Command::default()
    };
    // SAFETY: the structure has the kernel's layout, and it and the output, whose length it holds, outlive the call.
    unsafe { ioctl::send(memory.as_raw_fd(), &raw mut command) }?;
    let len = usize::try_from(command.output_len).map_err(io::Error::other)?;
    Ok((command.result, len.min(output.len())))
}
