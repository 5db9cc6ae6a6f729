//! Commands of the disk's own: NVMe admin commands and ATA through SCSI.

use crate::wipe::ata::{Ata, Command as AtaCommand, Direction, SECTOR};
use crate::wipe::nvme::{Command, Controller, Status};
use std::{fs::File, io, os::fd::AsRawFd, time::Duration};

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct PassthruCommand {
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
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
struct SgIo {
    interface_id: libc::c_int,
    direction: libc::c_int,
    command_len: u8,
    sense_max: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: libc::c_int,
    user: *mut libc::c_void,
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

const _: () = assert!(size_of::<PassthruCommand>() == 72);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<SgIo>() == 88);

const SG_DXFER_NONE: libc::c_int = -1;
const SG_DXFER_TO_DEV: libc::c_int = -2;
const SG_DXFER_FROM_DEV: libc::c_int = -3;
const SENSE_BYTES: usize = 32;

mod ioctl {
    use super::{PassthruCommand, SgIo};
    // Numbers as in linux/nvme_ioctl.h and scsi/sg.h.
    nix::ioctl_none!(nvme_id, b'N', 0x40);
    nix::ioctl_readwrite!(nvme_admin, b'N', 0x41, PassthruCommand);
    nix::ioctl_readwrite_bad!(sg_io, 0x2285, SgIo);
}

/// The identifier of the namespace that this block device is (`NVME_IOCTL_ID`).
pub fn nvme_namespace(disk: &File) -> io::Result<u32> {
    // SAFETY: the descriptor is open; the call takes no argument.
    let id = unsafe { ioctl::nvme_id(disk.as_raw_fd()) }?;
    u32::try_from(id).map_err(io::Error::other)
}

impl Controller for &File {
    fn admin(&mut self, command: &Command, data: &mut [u8]) -> io::Result<Result<(), Status>> {
        let address = u64::try_from(data.as_mut_ptr().expose_provenance()).map_err(io::Error::other)?;
        let mut passed = PassthruCommand {
            opcode: command.opcode,
            namespace: command.namespace,
            address: if data.is_empty() { 0 } else { address },
            data_len: u32::try_from(data.len()).map_err(io::Error::other)?,
            cdw10: command.cdw10,
            timeout_ms: command.timeout_ms,
            ..PassthruCommand::default()
        };
        // SAFETY: the structure has the kernel's layout, and it and the data, whose length it holds, outlive the call.
        let status = unsafe { ioctl::nvme_admin(self.as_raw_fd(), &mut passed) }?;
        Ok(match u16::try_from(status).map_err(io::Error::other)? {
            0 => Ok(()),
            status => Err(Status(status)),
        })
    }
}

impl Ata for &File {
    fn run(&mut self, command: AtaCommand, data: &mut [u8; SECTOR], timeout: Duration) -> io::Result<()> {
        let cdb = command.cdb();
        let mut sense = [0; SENSE_BYTES];
        let (direction, len) = match command.direction() {
            Direction::None => (SG_DXFER_NONE, 0),
            Direction::FromDisk => (SG_DXFER_FROM_DEV, SECTOR),
            Direction::ToDisk => (SG_DXFER_TO_DEV, SECTOR),
        };
        let mut header = SgIo {
            interface_id: libc::c_int::from(b'S'),
            direction,
            command_len: u8::try_from(cdb.len()).map_err(io::Error::other)?,
            sense_max: u8::try_from(sense.len()).map_err(io::Error::other)?,
            iovec_count: 0,
            data_len: u32::try_from(len).map_err(io::Error::other)?,
            data: data.as_mut_ptr(),
            command: cdb.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
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
        // SAFETY: the structure has the kernel's layout; command, data and sense are live, of the lengths it holds.
        unsafe { ioctl::sg_io(self.as_raw_fd(), &mut header) }?;
        // DRIVER_SENSE, 8, only says that there is sense data.
        if header.status == 0 && header.host_status == 0 && header.driver_status & !8 == 0 {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "SCSI status {:#x}, host {:#x}, driver {:#x}, sense {}",
            header.status,
            header.host_status,
            header.driver_status,
            sense.iter().take(usize::from(header.sense_len)).map(|byte| format!("{byte:02x}")).collect::<String>()
        )))
    }
}
