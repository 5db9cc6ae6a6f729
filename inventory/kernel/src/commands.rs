//! Commands that the kernel passes to a disk: SCSI (and by it ATA) and NVMe admin commands (scsi/sg.h, linux/nvme_ioctl.h).
#![allow(unsafe_code)]

use std::{fs::File, io, os::fd::AsRawFd, ptr, time::Duration};

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
struct SgIo {
    interface_id: libc::c_int,
    direction: libc::c_int,
    command_len: u8,
    sense_capacity: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: libc::c_int,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residual: libc::c_int,
    duration_ms: u32,
    info: u32,
}

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11_to_15: [u32; 5],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<NvmeCommand>() == 72);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<SgIo>() == 88);

const SG_DXFER_NONE: libc::c_int = -1;
const SG_DXFER_TO_DEV: libc::c_int = -2;
const SG_DXFER_FROM_DEV: libc::c_int = -3;
const SENSE_BYTES: u8 = 64;

mod ioctl {
    use super::{NvmeCommand, SgIo};
    nix::ioctl_none!(nvme_id, b'N', 0x40);
    nix::ioctl_readwrite!(nvme_admin, b'N', 0x41, NvmeCommand);
    nix::ioctl_readwrite_bad!(sg_io, 0x2285, SgIo);
}

/// Where a command's data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It has none.
    None,
    /// The disk sends them.
    FromDisk,
    /// The disk receives them.
    ToDisk,
}

/// How a SCSI command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScsiReply {
    /// Bytes transferred.
    pub len: usize,
    /// The disk's own status.
    pub status: u8,
    /// The adapter's.
    pub host_status: u16,
    /// The driver's.
    pub driver_status: u16,
    /// The disk's description of an error.
    pub sense: Vec<u8>,
}

/// Sends a SCSI command (`SG_IO`). An error is the kernel's; the disk's is in the reply.
pub fn scsi(
    disk: &File,
    command: &[u8],
    direction: Direction,
    data: &mut [u8],
    timeout: Duration,
) -> io::Result<ScsiReply> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut sense = [0; SENSE_BYTES as usize];
    let data = if direction == Direction::None { &mut [] } else { data };
    let mut request = SgIo {
        interface_id: libc::c_int::from(b'S'),
        direction: match direction {
            Direction::None => SG_DXFER_NONE,
            Direction::FromDisk => SG_DXFER_FROM_DEV,
            Direction::ToDisk => SG_DXFER_TO_DEV,
        },
        command_len: u8::try_from(command.len()).map_err(invalid)?,
        sense_capacity: SENSE_BYTES,
        iovec_count: 0,
        data_len: u32::try_from(data.len()).map_err(invalid)?,
        data: data.as_mut_ptr(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
        flags: 0,
        pack_id: 0,
        user: ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_len: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the lengths in the request are those of the three buffers, which outlive the call, and the kernel writes to no
    // others; it holds none of the pointers once it has returned.
    unsafe { ioctl::sg_io(disk.as_raw_fd(), &raw mut request) }?;
    let missing = usize::try_from(request.residual).unwrap_or(0);
    Ok(ScsiReply {
        len: data.len().saturating_sub(missing),
        status: request.status,
        host_status: request.host_status,
        driver_status: request.driver_status,
        sense: sense.get(..usize::from(request.sense_len)).unwrap_or(&sense).to_vec(),
    })
}

/// An NVMe admin command that reads; all other fields are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmeAdmin {
    pub opcode: u8,
    pub namespace: u32,
    /// The first command-specific word.
    pub cdw10: u32,
    /// How long the kernel waits.
    pub timeout_ms: u32,
}

/// Sends an admin command that reads into `data`. Gives the status it ended with: type, code and flags, without the phase bit.
/// An error is the kernel's.
pub fn nvme_admin(controller: &File, command: &NvmeAdmin, data: &mut [u8]) -> io::Result<u16> {
    let address = u64::try_from(data.as_mut_ptr().expose_provenance()).map_err(io::Error::other)?;
    let mut request = NvmeCommand {
        opcode: command.opcode,
        namespace: command.namespace,
        address: if data.is_empty() { 0 } else { address },
        data_len: u32::try_from(data.len()).map_err(io::Error::other)?,
        cdw10: command.cdw10,
        timeout_ms: command.timeout_ms,
        ..NvmeCommand::default()
    };
    // SAFETY: the structure has the kernel's layout, and it and the data, whose length it holds, outlive the call.
    let status = unsafe { ioctl::nvme_admin(controller.as_raw_fd(), &raw mut request) }?;
    u16::try_from(status).map_err(io::Error::other)
}

/// The identifier of this block device's namespace (`NVME_IOCTL_ID`).
pub fn nvme_namespace(disk: &File) -> io::Result<u32> {
    // SAFETY: the descriptor is open; the call takes no argument.
    let id = unsafe { ioctl::nvme_id(disk.as_raw_fd()) }?;
    u32::try_from(id).map_err(io::Error::other)
}
