//! Messages that the drivers `mpt2sas` and `mpt3sas` pass to a SAS adapter's firmware (drivers/scsi/mpt3sas/mpt3sas_ctl.h).
#![allow(unsafe_code)]

use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::FileTypeExt},
    ptr,
};

/// A message about a configuration page, up to where the driver describes the data (`MPI2_CONFIG_REQUEST`).
pub const MESSAGE_BYTES: usize = 28;
const MESSAGE_WORDS: u32 = 7;
/// The reply to one, and the longest of any message.
const REPLY_BYTES: u32 = 128;
/// The driver resets the adapter when a message takes longer.
const TIMEOUT_S: u32 = 60;

/// `struct mpt3_ioctl_header`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    adapter: u32,
    port: u32,
    max_data_len: u32,
}

/// `struct mpt3_ioctl_command`, with room for the message.
#[repr(C)]
struct Command {
    header: Header,
    timeout_s: u32,
    reply: *mut u8,
    data_in: *mut u8,
    data_out: *mut u8,
    sense: *mut u8,
    reply_len: u32,
    data_in_len: u32,
    data_out_len: u32,
    sense_len: u32,
    data_words: u32,
    message: [u8; MESSAGE_BYTES],
}

/// `struct mpt3_ioctl_iocinfo`.
#[repr(C)]
struct Info {
    header: Header,
    rest: [u8; INFO_BYTES - size_of::<Header>()],
}

const INFO_BYTES: usize = 92;

/// `struct mpt3_ioctl_btdh_mapping`.
#[repr(C)]
struct Mapping {
    header: Header,
    target: u32,
    channel: u32,
    handle: u16,
    reserved: u16,
}

/// The driver's own size of the structure, which has one byte of the message.
const COMMAND_BYTES: usize = 72;

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(std::mem::offset_of!(Command, message) == COMMAND_BYTES - 4);
    assert!(size_of::<Info>() == INFO_BYTES && size_of::<Mapping>() == 24);
};

mod ioctl {
    use super::{COMMAND_BYTES, Command, Info, Mapping};
    nix::ioctl_readwrite!(info, b'L', 17, Info);
    nix::ioctl_readwrite_bad!(command, nix::request_code_readwrite!(b'L', 20, COMMAND_BYTES), Command);
    nix::ioctl_readwrite!(mapping, b'L', 31, Mapping);
}

/// Opens the node of a generation's driver: 2 or 3.
pub fn open(generation: u8) -> io::Result<File> {
    let file = OpenOptions::new().read(true).open(format!("/dev/mpt{generation}ctl"))?;
    if file.metadata()?.file_type().is_char_device() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// What the driver knows of its adapter of that number.
pub fn info(node: &File, adapter: u32) -> io::Result<Vec<u8>> {
    let header = Header { adapter, port: 0, max_data_len: u32::try_from(INFO_BYTES).map_err(io::Error::other)? };
    let mut info = Info { header, rest: [0; INFO_BYTES - size_of::<Header>()] };
    // SAFETY: the structure has the kernel's layout and outlives the call.
    unsafe { ioctl::info(node.as_raw_fd(), &raw mut info) }?;
    let Header { adapter, port, max_data_len } = info.header;
    Ok([adapter, port, max_data_len].into_iter().flat_map(u32::to_le_bytes).chain(info.rest).collect())
}

/// Channel and target of the SCSI device that a handle of the firmware's is.
pub fn place(node: &File, adapter: u32, handle: u16) -> io::Result<[u32; 2]> {
    let header = Header { adapter, port: 0, max_data_len: 0 };
    let mut mapping = Mapping { header, target: u32::MAX, channel: u32::MAX, handle, reserved: 0 };
    // SAFETY: as above.
    unsafe { ioctl::mapping(node.as_raw_fd(), &raw mut mapping) }?;
    Ok([mapping.channel, mapping.target])
}

/// Sends a message that reads into `data`, all of it as far as the driver says. Gives the reply. An error is the kernel's.
pub fn message(node: &File, adapter: u32, message: [u8; MESSAGE_BYTES], data: &mut [u8]) -> io::Result<Vec<u8>> {
    let mut reply = vec![0; usize::try_from(REPLY_BYTES).map_err(io::Error::other)?];
    let mut command = Command {
        header: Header { adapter, port: 0, max_data_len: 0 },
        timeout_s: TIMEOUT_S,
        reply: reply.as_mut_ptr(),
        data_in: data.as_mut_ptr(),
        data_out: ptr::null_mut(),
        sense: ptr::null_mut(),
        reply_len: REPLY_BYTES,
        data_in_len: u32::try_from(data.len()).map_err(io::Error::other)?,
        data_out_len: 0,
        sense_len: 0,
        data_words: MESSAGE_WORDS,
        message,
    };
    // SAFETY: the structure begins as the kernel's, and the words of the message it announces are all there; the buffers it names are
    // of the lengths given and outlive the call, and the driver writes to no others and holds none of the pointers once it has returned.
    unsafe { ioctl::command(node.as_raw_fd(), &raw mut command) }?;
    Ok(reply)
}
