//! Commands that the driver `megaraid_sas` passes to a controller's firmware, and SCSI commands to the drives behind it
//! (drivers/scsi/megaraid/megaraid_sas.h). Little endian, as the firmware has it.
#![allow(unsafe_code)]

use crate::commands::ScsiReply;
use nix::{
    fcntl::OFlag,
    sys::stat::{Mode, SFlag, makedev, mknod},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::OpenOptionsExt,
    },
    process,
    sync::OnceLock,
};

/// `struct megasas_iocpacket`, which is packed.
#[repr(C, packed)]
struct Packet {
    host: u16,
    pad: u16,
    list_at: u32,
    list_len: u32,
    sense_at: u32,
    sense_len: u32,
    frame: [u8; FRAME_BYTES],
    list: [Piece; 16],
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Piece {
    address: *mut u8,
    len: usize,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Packet>() == 404);

mod ioctl {
    nix::ioctl_readwrite!(firmware, b'M', 1, super::Packet);
}

const FRAME_BYTES: usize = 128;
/// `MFI_CMD_PD_SCSI_IO` and `MFI_CMD_DCMD`.
const DRIVE_SCSI: u8 = 4;
const DIRECT: u8 = 5;
/// `MFI_FRAME_DIR_READ`.
const FROM_DEVICE: u16 = 0x10;
/// Where the list of buffers begins in each of the two frames, and the address of the sense data in the first.
const SCSI_LIST_AT: u32 = 0x30;
const DIRECT_LIST_AT: u32 = 0x28;
const SENSE_AT: u32 = 0x18;
const SENSE_BYTES: usize = 64;
/// `MFI_STAT_SCSI_DONE_WITH_ERROR`, which a drive's own status and sense data belong to.
const DONE_WITH_ERROR: u8 = 0x2d;
const CHECK_CONDITION: u8 = 2;

/// The node of a process that will not be able to make one.
static PREPARED: OnceLock<File> = OnceLock::new();

/// Opens the driver's node for later, if there is the driver: to be called before the process loses the right to.
pub fn prepare() {
    if PREPARED.get().is_none()
        && let Ok(node) = open_new()
    {
        let _ = PREPARED.set(node);
    }
}

/// What processes that are forked of this one must leave open.
pub(crate) fn prepared() -> Option<RawFd> {
    PREPARED.get().map(File::as_raw_fd)
}

/// Opens the driver's node.
pub fn open() -> io::Result<File> {
    PREPARED.get().map_or_else(open_new, File::try_clone)
}

/// No udev makes the node: programs of the maker do, and where none has run, there is one for as long as this takes.
fn open_new() -> io::Result<File> {
    let devices = fs::read_to_string("/proc/devices")?;
    let line = devices.lines().take_while(|line| !line.starts_with("Block")).find_map(|line| {
        let (major, name) = line.trim().split_once(' ')?;
        (name == "megaraid_sas_ioctl").then_some(major)
    });
    let major = line.and_then(|major| major.parse().ok()).ok_or(io::ErrorKind::NotFound)?;
    let node = format!("/dev/.landfall-megaraid-{}", process::id());
    mknod(node.as_str(), SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, makedev(major, 0))?;
    let file = OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_CLOEXEC.bits()).open(&node);
    // Nothing else was done with it.
    let _ = fs::remove_file(&node);
    file
}

/// A command to the firmware of this SCSI host's controller, which reads into `data`. Gives the firmware's status. An error
/// is the kernel's.
pub fn direct(node: &File, host: u16, opcode: u32, mailbox: [u8; 12], data: &mut [u8]) -> io::Result<u8> {
    let mut frame = [0; FRAME_BYTES];
    frame[0] = DIRECT;
    frame[24..28].copy_from_slice(&opcode.to_le_bytes());
    frame[28..40].copy_from_slice(&mailbox);
    send(node, host, frame, DIRECT_LIST_AT, &mut [], data)
}

/// A SCSI command to a drive behind the controller, which reads into `data`, all of it as far as the driver says.
pub fn scsi(node: &File, host: u16, drive: u8, command: &[u8], data: &mut [u8]) -> io::Result<ScsiReply> {
    let mut frame = [0; FRAME_BYTES];
    let mut sense = [0; SENSE_BYTES];
    frame[0] = DRIVE_SCSI;
    frame[1] = u8::try_from(SENSE_BYTES).map_err(io::Error::other)?;
    frame[4] = drive;
    frame[6] = u8::try_from(command.len()).map_err(io::Error::other)?;
    let place = frame.get_mut(32..48).and_then(|place| place.get_mut(..command.len()));
    place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(command);
    let status = send(node, host, frame, SCSI_LIST_AT, &mut sense, data)?;
    Ok(ScsiReply {
        len: data.len(),
        status: if status == DONE_WITH_ERROR { CHECK_CONDITION } else { 0 },
        host_status: if status == DONE_WITH_ERROR { 0 } else { status.into() },
        driver_status: 0,
        sense: sense.to_vec(),
    })
}

fn send(
    node: &File,
    host: u16,
    mut frame: [u8; FRAME_BYTES],
    list_at: u32,
    sense: &mut [u8],
    data: &mut [u8],
) -> io::Result<u8> {
    let count = u8::from(!data.is_empty());
    frame[7] = count;
    frame[16..18].copy_from_slice(&if data.is_empty() { 0 } else { FROM_DEVICE }.to_le_bytes());
    frame[20..24].copy_from_slice(&u32::try_from(data.len()).map_err(io::Error::other)?.to_le_bytes());
    // The driver takes the address for the sense data from the frame, and gives the firmware its own.
    if !sense.is_empty() {
        let address = u64::try_from(sense.as_mut_ptr().expose_provenance()).map_err(io::Error::other)?;
        frame[24..32].copy_from_slice(&address.to_ne_bytes());
    }
    let none = Piece { address: std::ptr::null_mut(), len: 0 };
    let mut list = [none; 16];
    list[0] = Piece { address: data.as_mut_ptr(), len: data.len() };
    let mut packet = Packet {
        host,
        pad: 0,
        list_at,
        list_len: count.into(),
        sense_at: if sense.is_empty() { 0 } else { SENSE_AT },
        sense_len: u32::try_from(sense.len()).map_err(io::Error::other)?,
        frame,
        list,
    };
    // SAFETY: the packet has the kernel's layout; the buffers it names are of the lengths given and outlive the call, and the
    // driver writes to no others and holds none of the pointers once it has returned.
    unsafe { ioctl::firmware(node.as_raw_fd(), &raw mut packet) }?;
    Ok(packet.frame[2])
}
