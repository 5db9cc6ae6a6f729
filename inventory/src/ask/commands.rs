//! SCSI, ATA and NVMe commands that ask a disk what it is, and what disks say of a command that failed.

use super::{
    Cxl, MegaRaid, SmartArray, SmartLog,
    allowed::{
        ATA_CHECK_POWER_MODE, ATA_IDENTIFY_DEVICE, ATA_SMART, Message, SMART_READ_DATA, SMART_READ_LOG,
        SMART_READ_THRESHOLDS, check,
    },
};
use kernel::{
    commands::{self, Direction, NvmeAdmin, ScsiReply},
    megaraid,
};
use std::{fs::File, io, mem::ManuallyDrop, time::Duration};

/// What the kernel gives a device for one command: its own default. A shorter time would make the kernel reset a device
/// that we only inspect; our own time limit ends before.
const COMMAND_MS: u32 = 60_000;
/// `DID_TIME_OUT`, and the driver byte of the same meaning.
const TIMED_OUT: u16 = 3;
const DRIVER_TIMEOUT: u16 = 6;
const CHECK_CONDITION: u8 = 2;
const ILLEGAL_REQUEST: u8 = 5;

/// Old USB bridges hang at requests for more.
const FIRST_PAGE_BYTES: u16 = 252;
const PAGE_HEADER_BYTES: u16 = 4;
/// Grown defects, in the format that all disks have: bytes from the index.
const GROWN_DEFECTS: u8 = 1 << 3 | 4;
/// A thousand drives, in the extended form.
const MAX_REPORT_BYTES: u16 = 8 + 24 * 1024;
/// A header and 256 drives.
const MAP_BYTES: u16 = 64 + 8 * 256;
const MAX_CONFIGURATION_BYTES: usize = 64 << 10;
const ATA_SECTOR_BYTES: usize = 512;
/// More than any of the answers has.
const CXL_BYTES: usize = 256;

/// What a SCSI command is sent to.
pub(super) enum Target {
    Disk(ManuallyDrop<File>),
    /// A drive of the MegaRAID controller that is this SCSI host.
    MegaRaid {
        node: File,
        host: u16,
        drive: u8,
    },
}

/// A command that reads into `data`, or has no data.
fn scsi(target: &Target, command: &[u8], data: &mut [u8]) -> io::Result<ScsiReply> {
    check(Message::Scsi(command))?;
    let reply = match target {
        Target::Disk(disk) => {
            let direction = if data.is_empty() { Direction::None } else { Direction::FromDisk };
            commands::scsi(disk, command, direction, data, Duration::from_millis(COMMAND_MS.into()))?
        }
        Target::MegaRaid { node, host, drive } => megaraid::scsi(node, *host, *drive, command, data)?,
    };
    if reply.host_status == TIMED_OUT || reply.driver_status & 0xf == DRIVER_TIMEOUT {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply to a SCSI command"));
    }
    // With sense data of "recovered" or "no" error the command was done: ATA results are reported this way.
    let key = sense_key(&reply.sense);
    let is_done = reply.status == 0 || (reply.status == CHECK_CONDITION && matches!(key, Some((0 | 1, _))));
    if reply.host_status != 0 || !is_done {
        let text = format!(
            "a SCSI command failed: status {:02x}h, host status {:02x}h, sense key and code {:x?}",
            reply.status, reply.host_status, key
        );
        let kind = match key {
            Some((ILLEGAL_REQUEST, _)) => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        return Err(io::Error::new(kind, text));
    }
    Ok(reply)
}

/// The commands to the firmware of a MegaRAID controller, with the bytes of their answers (`MR_DCMD_` of
/// drivers/scsi/megaraid/megaraid_sas.h).
fn megaraid_command(ask: MegaRaid) -> (u32, usize) {
    match ask {
        MegaRaid::Controller => (0x0101_0000, 2048),
        MegaRaid::Battery => (0x0501_0000, 64),
        MegaRaid::Drives => (0x0201_0000, 8 + 24 * 256),
        MegaRaid::Drive(_) => (0x0202_0000, 512),
        MegaRaid::Volumes => (0x0301_0000, 8 + 16 * 64),
        MegaRaid::Volume(_) => (0x0302_0000, 384),
        MegaRaid::Configuration => (0x0401_0000, 4096),
    }
}

/// A question to the firmware of the MegaRAID controller that is this SCSI host.
pub(super) fn megaraid(node: &File, host: u16, ask: MegaRaid) -> io::Result<Vec<u8>> {
    let (opcode, len) = megaraid_command(ask);
    check(Message::MegaRaid(opcode))?;
    let [low, high] = match ask {
        MegaRaid::Drive(number) => number.to_le_bytes(),
        MegaRaid::Volume(number) => [number, 0],
        _ => [0, 0],
    };
    let direct = |len: usize| {
        let mut data = vec![0; len];
        let mailbox = [low, high, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        match megaraid::direct(node, host, opcode, mailbox, &mut data)? {
            0 => Ok(data),
            status => Err(io::Error::other(format!("the firmware refuses a command: status {status:02x}h"))),
        }
    };
    let data = direct(len)?;
    // Only this one announces how long it is.
    match kernel::bytes::le32(&data, 0).and_then(|all| usize::try_from(all).ok()) {
        Some(all) if ask == MegaRaid::Configuration && all > len => direct(all.min(MAX_CONFIGURATION_BYTES)),
        _ => Ok(data),
    }
}

/// A question to a Smart Array controller (drivers/scsi/hpsa_cmd.h): what it has of the answer, which may be shorter than the
/// room for it.
pub(super) fn smart_array(controller: &Target, ask: SmartArray) -> io::Result<Vec<u8>> {
    let bmic = |command: u8, volume: u8, drive: u16, len: u16| {
        let ([low, above], [high, below]) = (drive.to_le_bytes(), len.to_be_bytes());
        (vec![0x26, volume, low, 0, 0, 0, command, high, below, above], len)
    };
    let report = |command: u8, form: u8| {
        let [high, low] = MAX_REPORT_BYTES.to_be_bytes();
        (vec![command, form, 0, 0, 0, 0, 0, 0, high, low, 0, 0], MAX_REPORT_BYTES)
    };
    let (command, len) = match ask {
        SmartArray::Controller => bmic(0x11, 0, 0, 512),
        SmartArray::Subsystem => bmic(0x66, 0, 0, 512),
        SmartArray::Drives => report(0xc3, 2),
        SmartArray::Drive(number) => bmic(0x15, 0, number, 2560),
        SmartArray::Volumes => report(0xc2, 0),
        SmartArray::Volume(number) => bmic(0x10, number, 0, 512),
        SmartArray::VolumeStatus(number) => bmic(0x12, number, 0, 1024),
        SmartArray::Cache => bmic(0xc1, 0, 0, 512),
        SmartArray::Map => {
            let [high, low] = MAP_BYTES.to_be_bytes();
            (vec![0xc0, 0xc8, 0, 0, 0, 0, 0, 0, high, low, 0, 0], MAP_BYTES)
        }
    };
    let mut data = vec![0; usize::from(len)];
    let reply = scsi(controller, &command, &mut data)?;
    data.truncate(reply.len);
    Ok(data)
}

/// A command to a CXL memory device that has no input (CXL 3.1, 8.2.9): its output, as much as the device has.
pub(super) fn cxl(memory: &File, ask: Cxl) -> io::Result<Vec<u8>> {
    check(Message::Cxl(ask as u32))?;
    let mut data = vec![0; CXL_BYTES];
    let (status, len) = kernel::cxl::command(memory, ask as u32, &mut data)?;
    match status {
        0 => data.truncate(len),
        status => return Err(io::Error::other(format!("the device refuses a CXL command: return code {status:x}h"))),
    }
    Ok(data)
}

/// Identify, of the controller itself (NVMe base 2.0 5.17).
pub(super) fn nvme_controller(controller: &File) -> io::Result<Vec<u8>> {
    nvme(controller, 0x06, 0, 1, 4096)
}

/// Get Log Page 02h, of all namespaces (NVMe base 2.0 5.16).
pub(super) fn nvme_health(controller: &File) -> io::Result<Vec<u8>> {
    nvme(controller, 0x02, u32::MAX, 0x02 | (512 / 4 - 1) << 16, 512)
}

fn nvme(controller: &File, opcode: u8, namespace: u32, cdw10: u32, len: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; len];
    let command = NvmeAdmin { opcode, namespace, cdw10, timeout_ms: COMMAND_MS };
    match commands::nvme_admin(controller, &command, &mut data)? {
        0 => Ok(data),
        status => Err(io::Error::other(format!("an NVMe admin command failed: status {status:x}h"))),
    }
}

/// INQUIRY of a vital product data page (SPC-5 6.7).
pub(super) fn page(disk: &Target, page: u8) -> io::Result<Vec<u8>> {
    whole(disk, (1, page), |[high, low]| vec![0x12, 1, page, high, low, 0])
}

/// LOG SENSE of a page's cumulative values (SPC-5 6.8).
pub(super) fn log(disk: &Target, page: u8) -> io::Result<Vec<u8>> {
    whole(disk, (0, page), |[high, low]| vec![0x4d, 0, 1 << 6 | page, 0, 0, 0, 0, high, low, 0])
}

/// RECEIVE DIAGNOSTIC RESULTS of a page (SPC-5 6.31).
pub(super) fn diagnostic(enclosure: &Target, page: u8) -> io::Result<Vec<u8>> {
    whole(enclosure, (0, page), |[high, low]| vec![0x1c, 1, page, high, low, 0])
}

/// A page that announces its length, whose code is the byte at that place: what nearly all devices take first, then all.
fn whole(disk: &Target, code: (usize, u8), command: impl Fn([u8; 2]) -> Vec<u8>) -> io::Result<Vec<u8>> {
    let ask = |len: u16| {
        let mut data = vec![0; usize::from(len)];
        let reply = scsi(disk, &command(len.to_be_bytes()), &mut data)?;
        data.truncate(reply.len);
        Ok::<_, io::Error>(data)
    };
    let mut data = ask(FIRST_PAGE_BYTES)?;
    let announced = announced_len(&data, code)?;
    if announced > FIRST_PAGE_BYTES {
        data = ask(announced)?;
        announced_len(&data, code)?;
    }
    data.truncate(usize::from(announced));
    Ok(data)
}

/// Header included. A device that does not know of pages answers with its standard inquiry data instead.
fn announced_len(data: &[u8], (place, page): (usize, u8)) -> io::Result<u16> {
    match data {
        // Above the code of a log page are flags.
        [_, _, high, low, ..]
            if data.get(place).is_some_and(|code| *code == page || place == 0 && code & 0x3f == page) =>
        {
            Ok(u16::from_be_bytes([*high, *low]).saturating_add(PAGE_HEADER_BYTES))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the answer is not page {page:02x}h"))),
    }
}

/// The header of the list of grown defects, without the list: READ DEFECT DATA (12), else (10) (SBC-4 5.20, 5.21).
pub(super) fn defects(disk: &Target) -> io::Result<Vec<u8>> {
    let ask = |command: &[u8], len: usize| {
        let mut data = vec![0; len];
        let reply = scsi(disk, command, &mut data)?;
        data.truncate(reply.len);
        if reply.len < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(data) }
    };
    ask(&[0xb7, GROWN_DEFECTS, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0], 8)
        .or_else(|_: io::Error| ask(&[0x37, 0, GROWN_DEFECTS, 0, 0, 0, 0, 0, 4, 0], 4))
}

pub(super) fn ata_identify(disk: &Target) -> io::Result<Vec<u8>> {
    ata_sector(disk, ATA_IDENTIFY_DEVICE, 0, [0, 0, 0])
}

pub(super) fn ata_smart_data(disk: &Target) -> io::Result<Vec<u8>> {
    ata_sector(disk, ATA_SMART, SMART_READ_DATA, [0, 0x4f, 0xc2])
}

pub(super) fn ata_smart_thresholds(disk: &Target) -> io::Result<Vec<u8>> {
    ata_sector(disk, ATA_SMART, SMART_READ_THRESHOLDS, [0, 0x4f, 0xc2])
}

pub(super) fn ata_smart_log(disk: &Target, log: SmartLog) -> io::Result<Vec<u8>> {
    ata_sector(disk, ATA_SMART, SMART_READ_LOG, [log as u8, 0x4f, 0xc2])
}

/// A command that reads one sector, by ATA PASS-THROUGH (16) (SAT-4 12.2.2). A disk that sleeps is not asked: most wake
/// up for it, which takes longer than the time limit and wears them.
fn ata_sector(disk: &Target, command: u8, features: u8, lba: [u8; 3]) -> io::Result<Vec<u8>> {
    if is_asleep(disk)? {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the disk is in standby and was not woken"));
    }
    let mut data = vec![0; ATA_SECTOR_BYTES];
    // PIO data-in; the length is the sector count, in blocks, from the device.
    let cdb = [0x85, 4 << 1, 0x0e, 0, features, 0, 1, 0, lba[0], 0, lba[1], 0, lba[2], 0, command, 0];
    let reply = scsi(disk, &cdb, &mut data)?;
    if reply.len < ATA_SECTOR_BYTES {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} bytes of a sector", reply.len)));
    }
    Ok(data)
}

/// CHECK POWER MODE (ACS-4 7.3) does not wake it. A bridge that does not report the result counts as awake.
fn is_asleep(disk: &Target) -> io::Result<bool> {
    // No data, and the registers wanted afterwards.
    let cdb = [0x85, 3 << 1, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ATA_CHECK_POWER_MODE, 0];
    Ok(power_mode(&scsi(disk, &cdb, &mut [])?.sense).is_some_and(|mode| matches!(mode, 0x00 | 0x01)))
}

/// The sector count register, from the ATA status return descriptor or its fixed form (SAT-4 12.2.7).
fn power_mode(sense: &[u8]) -> Option<u8> {
    // "ATA pass through information available"
    if sense_key(sense)?.1 != 0x001d {
        return None;
    }
    match sense {
        [0x72, _, _, _, _, _, _, _, 0x09, 0x0c, _, _, _, count, ..] => Some(*count),
        [0x70 | 0xf0, _, _, _, _, _, count, ..] => Some(*count),
        _ => None,
    }
}

/// Sense key, and additional sense code with its qualifier (SPC-5 4.4).
pub(super) fn sense_key(sense: &[u8]) -> Option<(u8, u16)> {
    let byte = |at: usize| sense.get(at).copied();
    match byte(0)? & 0x7f {
        0x70 | 0x71 => Some((byte(2)? & 0xf, u16::from_be_bytes([byte(12)?, byte(13)?]))),
        0x72 | 0x73 => Some((byte(1)? & 0xf, u16::from_be_bytes([byte(2)?, byte(3)?]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_announce_their_length() {
        assert_eq!(announced_len(&[0, 0x83, 1, 2, 9], (1, 0x83)).unwrap(), 262);
        assert_eq!(announced_len(&[0, 0x83, 0xff, 0xff], (1, 0x83)).unwrap(), u16::MAX);
        assert_eq!(announced_len(&[0x80 | 0x0d, 0, 0, 12], (0, 0x0d)).unwrap(), 16);
        // Standard inquiry data, nothing, another log page.
        assert!(announced_len(&[0, 0, 5, 2, 31], (1, 0x83)).is_err());
        assert!(announced_len(&[0, 0x83], (1, 0x83)).is_err());
        assert!(announced_len(&[0x0e, 0, 0, 12], (0, 0x0d)).is_err());
    }

    #[test]
    fn sleeping_disks() {
        let descriptor = [0x72, 1, 0, 0x1d, 0, 0, 0, 14, 9, 0x0c, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0x50];
        assert_eq!(power_mode(&descriptor), Some(0xff));
        let fixed = [0x70, 0, 1, 0, 0x50, 0, 0, 10, 0, 0, 0, 0, 0, 0x1d, 0, 0, 0, 0];
        assert_eq!(power_mode(&fixed), Some(0));
        // "Invalid command operation code"
        let refused = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0];
        assert_eq!((power_mode(&refused), sense_key(&refused)), (None, Some((5, 0x2000))));
        assert_eq!(power_mode(&[]), None);
    }
}
