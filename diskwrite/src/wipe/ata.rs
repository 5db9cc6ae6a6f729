//! ATA's SECURITY ERASE UNIT (ACS-4, sections 4.18 and 7.39 to 7.45), through the SCSI command ATA PASS-THROUGH (16)
//! (SAT-4, section 12.2.2.3).

use kernel::{bytes, commands, commands::Direction, hex};
use std::{fmt, fs::File, io, time::Duration};

/// The password set for the erasure, which ends with it. It is not a secret: a disk left locked with it, because the
/// power went, opens with `hdparm --user-master u --security-unlock landfall` and `--security-disable landfall`, or by
/// erasing again.
pub(crate) const PASSWORD: &str = "landfall";
/// What the data commands transfer.
pub(crate) const SECTOR: usize = 512;
/// Of the driver's status: there is sense data.
const DRIVER_SENSE: u16 = 8;
/// Bytes of sense data that a message has.
const SENSE_SHOWN: usize = 32;
const SHORT: Duration = Duration::from_secs(60);
/// For a disk that does not say how long it takes.
const UNKNOWN_TIME: Duration = Duration::from_secs(24 * 3600);
/// Added to what the disk says.
const MARGIN: Duration = Duration::from_secs(30 * 60);

/// Commands, by their codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Identify,
    SetPassword,
    Unlock,
    ErasePrepare,
    EraseUnit,
    DisablePassword,
}

impl Command {
    fn code(self) -> u8 {
        match self {
            Self::Identify => 0xEC,
            Self::SetPassword => 0xF1,
            Self::Unlock => 0xF2,
            Self::ErasePrepare => 0xF3,
            Self::EraseUnit => 0xF4,
            Self::DisablePassword => 0xF6,
        }
    }

    pub(crate) fn direction(self) -> Direction {
        match self {
            Self::Identify => Direction::FromDisk,
            Self::ErasePrepare => Direction::None,
            Self::SetPassword | Self::Unlock | Self::EraseUnit | Self::DisablePassword => Direction::ToDisk,
        }
    }

    /// The SCSI command: protocol in byte 1, bits 4:1 (3 no data, 4 PIO in, 5 PIO out); in byte 2 the direction (bit 3), the
    /// unit of length, blocks (bit 2) of 512 bytes, and where it is, in the count (bits 1:0).
    pub(crate) fn cdb(self) -> [u8; 16] {
        let (protocol, transfer, count) = match self.direction() {
            Direction::None => (3, 0, 0),
            Direction::FromDisk => (4, 0b1110, 1),
            Direction::ToDisk => (5, 0b0110, 1),
        };
        [0x85, protocol << 1, transfer, 0, 0, 0, count, 0, 0, 0, 0, 0, 0, 0, self.code(), 0]
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identify => "IDENTIFY DEVICE",
            Self::SetPassword => "SECURITY SET PASSWORD",
            Self::Unlock => "SECURITY UNLOCK",
            Self::ErasePrepare => "SECURITY ERASE PREPARE",
            Self::EraseUnit => "SECURITY ERASE UNIT",
            Self::DisablePassword => "SECURITY DISABLE PASSWORD",
        })
    }
}

/// An ATA disk, or a test's stand-in.
pub(crate) trait Ata {
    /// Runs a command; `data` is read or written as its [`Direction`] says.
    fn run(&mut self, command: Command, data: &mut [u8; SECTOR], timeout: Duration) -> io::Result<()>;
}

impl Ata for &File {
    fn run(&mut self, command: Command, data: &mut [u8; SECTOR], timeout: Duration) -> io::Result<()> {
        let reply = commands::scsi(self, &command.cdb(), command.direction(), data, timeout)?;
        if reply.status == 0 && reply.host_status == 0 && reply.driver_status & !DRIVER_SENSE == 0 {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "SCSI status {:#x}, host {:#x}, driver {:#x}, sense {}",
            reply.status,
            reply.host_status,
            reply.driver_status,
            hex::lower(reply.sense.get(..SENSE_SHOWN).unwrap_or(&reply.sense))
        )))
    }
}

/// Words 82, 89, 90 and 128 of IDENTIFY DEVICE (ACS-4, section 7.13.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Security {
    pub supported: bool,
    /// A password is set.
    pub enabled: bool,
    pub locked: bool,
    pub frozen: bool,
    /// Too many wrong passwords since the power came.
    pub expired: bool,
    /// The enhanced erase, which also takes blocks set aside.
    pub enhanced: bool,
    pub normal_minutes: Option<u32>,
    pub enhanced_minutes: Option<u32>,
}

fn word(data: &[u8], index: usize) -> u16 {
    bytes::le16(data, index.saturating_mul(2)).unwrap_or_default()
}

/// Reads IDENTIFY DEVICE.
pub(super) fn security(identify: &[u8]) -> Security {
    let (sets, status) = (word(identify, 82), word(identify, 128));
    // No word at all, or all ones, from bridges that make it up.
    let supported = sets & 1 << 1 != 0 && sets != 0xFFFF && status & 1 != 0 && status != 0xFFFF;
    let bit = |bit: u16| supported && status & 1 << bit != 0;
    Security {
        supported,
        enabled: bit(1),
        locked: bit(2),
        frozen: bit(3),
        expired: bit(4),
        enhanced: bit(5),
        normal_minutes: minutes(word(identify, 89)),
        enhanced_minutes: minutes(word(identify, 90)),
    }
}

/// Units of two minutes in bits 7:0, or with bit 15 in bits 14:0; all ones is "longer", zero "not given".
fn minutes(word: u16) -> Option<u32> {
    let (units, most) = if word & 0x8000 == 0 { (word & 0xFF, 0xFF) } else { (word & 0x7FFF, 0x7FFF) };
    (units != 0 && units != most).then(|| u32::from(units) * 2)
}

/// Word 0, then the password in words 1 to 16. Bit 0 clear: the user's; for SET PASSWORD, bit 8 clear: security high, so
/// that the master password still opens the disk; for ERASE UNIT, bit 1: enhanced.
pub(super) fn password(enhanced: bool) -> [u8; SECTOR] {
    let mut data = [0; SECTOR];
    for (to, from) in data.iter_mut().zip([if enhanced { 2 } else { 0 }, 0].iter().chain(PASSWORD.as_bytes())) {
        *to = *from;
    }
    data
}

/// Why there is no erasure. In each case but the last the disk is unlocked.
#[derive(Debug, thiserror::Error)]
pub(super) enum AtaError {
    #[error("{0}")]
    Refused(String),
    #[error("{command} failed; no password is left on the disk")]
    Failed { command: Command, source: io::Error },
    #[error(
        "{command} failed, and the password '{PASSWORD}' cannot be removed: after a power cycle run this again, or hdparm \
         --user-master u --security-disable {PASSWORD}"
    )]
    Locked { command: Command, source: io::Error },
}

fn identify(disk: &mut dyn Ata) -> io::Result<Security> {
    let mut data = [0; SECTOR];
    disk.run(Command::Identify, &mut data, SHORT)?;
    Ok(security(&data))
}

/// Takes our password off. Ok(false) if one is still set.
fn open(disk: &mut dyn Ata) -> io::Result<bool> {
    let state = identify(disk)?;
    if state.locked {
        disk.run(Command::Unlock, &mut password(false), SHORT)?;
    }
    if state.enabled {
        disk.run(Command::DisablePassword, &mut password(false), SHORT)?;
    }
    Ok(!identify(disk)?.enabled)
}

/// Whether the disk can be erased now. An erasure of ours that lost its power is put in order first.
fn prepare(disk: &mut dyn Ata) -> Result<Security, AtaError> {
    let refused = |text: &str| Err(AtaError::Refused(text.to_owned()));
    let unanswered = |error: io::Error| AtaError::Refused(format!("the disk does not answer IDENTIFY DEVICE: {error}"));
    let state = identify(disk).map_err(unanswered)?;
    if !state.supported {
        return refused("the disk has no ATA security feature set");
    }
    if state.frozen {
        return refused(
            "the firmware froze the disk's security settings: suspend the machine and wake it, or pull and replug the \
             disk's power, then try again",
        );
    }
    if state.expired {
        return refused("too many wrong passwords were tried on the disk: power it off and on, then try again");
    }
    if state.enabled && !open(disk).unwrap_or(false) {
        return refused("the disk has an ATA password: remove it first with hdparm --security-disable");
    }
    identify(disk).map_err(unanswered)
}

/// Erases the disk, enhanced where it can be, and leaves no password whatever happens. Returns what was done.
pub(super) fn erase(disk: &mut dyn Ata) -> Result<String, AtaError> {
    let state = prepare(disk)?;
    let minutes = if state.enhanced { state.enhanced_minutes } else { state.normal_minutes };
    let timeout = minutes.map_or(UNKNOWN_TIME, |minutes| Duration::from_secs(u64::from(minutes) * 60) + MARGIN);
    tracing::info!(
        enhanced = state.enhanced,
        minutes,
        "running SECURITY ERASE UNIT, which cannot be stopped: leave the power on"
    );
    let steps = [
        (Command::SetPassword, password(false), SHORT),
        (Command::ErasePrepare, [0; SECTOR], SHORT),
        (Command::EraseUnit, password(state.enhanced), timeout),
    ];
    for (command, mut data, timeout) in steps {
        if let Err(source) = disk.run(command, &mut data, timeout) {
            let opened = open(disk).inspect_err(|error| tracing::error!(%error, "cannot remove the password"));
            return Err(if opened.unwrap_or(false) {
                AtaError::Failed { command, source }
            } else {
                AtaError::Locked { command, source }
            });
        }
    }
    // The erasure takes the password with it; not on every disk.
    match open(disk) {
        Ok(true) => Ok(format!("ATA SECURITY ERASE UNIT, {}", if state.enhanced { "enhanced" } else { "normal" })),
        Ok(false) => Err(AtaError::Locked {
            command: Command::DisablePassword,
            source: io::Error::other("the disk reports that a password is still set"),
        }),
        Err(source) => Err(AtaError::Locked { command: Command::DisablePassword, source }),
    }
}

#[cfg(test)]
#[path = "ata_tests.rs"]
mod tests;
