//! NVMe's own ways to erase: Format NVM with a secure erase setting, and Sanitize (NVM Express Base Specification 2.0,
//! sections 5.14, 5.24 and 5.16.1.21).

use kernel::commands;
use kernel::order::Gather;
use std::{collections::BTreeSet, fmt, fs::File, io};

/// The kernel waits this long for a format: some disks write every block.
const FORMAT_TIMEOUT_MS: u32 = 12 * 3600 * 1000;
const SHORT_TIMEOUT_MS: u32 = 60_000;
/// What Identify and the list of namespaces return.
pub(crate) const IDENTIFY_BYTES: usize = 4096;
/// Of the Sanitize Status log page.
pub(super) const SANITIZE_LOG_BYTES: usize = 512;

pub(crate) use kernel::commands::NvmeAdmin as Command;

/// A status the controller ended a command with: type, code and flags, without the phase bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub u16);

impl fmt::Display for Status {
    /// Figures 101, 102 and 104 of the specification.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 & 0x7FF {
            0x001 => "invalid opcode",
            0x002 => "invalid field",
            0x006 => "internal error",
            0x00B => "invalid namespace or format",
            0x00C => "command sequence error",
            0x015 => "operation denied",
            0x01C => "sanitize failed",
            0x01D => "sanitize in progress",
            0x020 => "namespace is write protected",
            0x10A => "invalid format",
            0x286 => "access denied",
            _ => return write!(f, "NVMe status {:#x}", self.0),
        };
        write!(f, "{text} (NVMe status {:#x})", self.0)
    }
}

/// An NVMe controller, or a test's stand-in. The outer error is the kernel's.
pub(crate) trait Controller {
    /// Runs an admin command that reads into `data`.
    fn admin(&mut self, command: &Command, data: &mut [u8]) -> io::Result<Result<(), Status>>;
}

impl Controller for &File {
    fn admin(&mut self, command: &Command, data: &mut [u8]) -> io::Result<Result<(), Status>> {
        Ok(match commands::nvme_admin(self, command, data)? {
            0 => Ok(()),
            status => Err(Status(status)),
        })
    }
}

/// What the controller says of its abilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Format NVM (OACS bit 1).
    pub format: bool,
    /// Lists of all namespaces, attached or not (OACS bit 3).
    pub management: bool,
    /// A format or its secure erase takes all namespaces (FNA bits 0 and 1).
    pub format_takes_all: bool,
    /// Secure erase by a new key (FNA bit 2).
    pub crypto_format: bool,
    /// Sanitize by a new key (SANICAP bit 0).
    pub crypto_sanitize: bool,
    /// Sanitize by erasing blocks (SANICAP bit 1).
    pub block_sanitize: bool,
}

/// A way to erase, the one to try first first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    CryptoFormat,
    UserDataFormat,
    CryptoSanitize,
    BlockSanitize,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CryptoFormat => "NVMe Format NVM, cryptographic erase",
            Self::UserDataFormat => "NVMe Format NVM, user data erase",
            Self::CryptoSanitize => "NVMe Sanitize, crypto erase",
            Self::BlockSanitize => "NVMe Sanitize, block erase",
        })
    }
}

/// How far a sanitize operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sanitizing {
    Never,
    Done,
    /// In 65536ths.
    Running(u16),
    Failed,
    Unknown(u16),
}

fn byte(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or_default()
}

fn le16(data: &[u8], at: usize) -> u16 {
    kernel::bytes::le16(data, at).unwrap_or_default()
}

fn le32(data: &[u8], at: usize) -> u32 {
    kernel::bytes::le32(data, at).unwrap_or_default()
}

/// Identify (06h): of a controller (CNS 01h), a namespace (00h), or a list of them (02h active, 10h allocated).
pub(super) fn identify(cns: u32, namespace: u32) -> Command {
    Command { opcode: 0x06, namespace, cdw10: cns, timeout_ms: SHORT_TIMEOUT_MS }
}

/// Reads the controller's data structure (figure 275).
pub(super) fn abilities(controller: &[u8]) -> Abilities {
    let (oacs, fna, sanicap) = (le16(controller, 256), byte(controller, 524), le32(controller, 328));
    Abilities {
        format: oacs & 1 << 1 != 0,
        management: oacs & 1 << 3 != 0,
        format_takes_all: fna & 0b11 != 0,
        crypto_format: fna & 1 << 2 != 0,
        crypto_sanitize: sanicap & 1 != 0,
        block_sanitize: sanicap & 1 << 1 != 0,
    }
}

/// The namespaces of a list, which ends with a zero.
pub(super) fn namespaces(list: &[u8]) -> BTreeSet<u32> {
    list.chunks_exact(4).map(|id| le32(id, 0)).take_while(|id| *id != 0).gather()
}

/// The ways that erase this namespace and no other.
pub(super) fn ways(abilities: Abilities, alone: bool) -> Vec<Way> {
    let may_format = abilities.format && (alone || !abilities.format_takes_all);
    let all = [
        (may_format && abilities.crypto_format, Way::CryptoFormat),
        (may_format, Way::UserDataFormat),
        (alone && abilities.crypto_sanitize, Way::CryptoSanitize),
        (alone && abilities.block_sanitize, Way::BlockSanitize),
    ];
    all.into_iter().filter(|(can, _)| *can).map(|(_, way)| way).collect()
}

/// Format NVM (80h) that keeps the namespace's format as its data structure (figure 97 of the NVM Command Set
/// Specification) tells: SES in bits 11:9 is 1 for user data, 2 for cryptographic erase.
fn format(namespace: u32, structure: &[u8], secure_erase: u32) -> Command {
    let (flbas, dps) = (u32::from(byte(structure, 26)), u32::from(byte(structure, 29)));
    let (index, index_upper, extended) = (flbas & 0xF, flbas >> 5 & 0b11, flbas >> 4 & 1);
    let (protection, first_bytes) = (dps & 0b111, dps >> 3 & 1);
    let cdw10 = index | extended << 4 | protection << 5 | first_bytes << 8 | secure_erase << 9 | index_upper << 12;
    Command { opcode: 0x80, namespace, cdw10, timeout_ms: FORMAT_TIMEOUT_MS }
}

/// Sanitize (84h). Unrestricted (AUSE, bit 3): after a failure the disk can be made usable again.
fn sanitize(action: u32) -> Command {
    Command { opcode: 0x84, namespace: 0, cdw10: action | 1 << 3, timeout_ms: SHORT_TIMEOUT_MS }
}

/// Leaves the failure mode (SANACT 001b).
pub(super) fn exit_failure_mode() -> Command {
    Command { opcode: 0x84, namespace: 0, cdw10: 1, timeout_ms: SHORT_TIMEOUT_MS }
}

pub(super) fn command(way: Way, namespace: u32, structure: &[u8]) -> Command {
    match way {
        Way::CryptoFormat => format(namespace, structure, 2),
        Way::UserDataFormat => format(namespace, structure, 1),
        Way::BlockSanitize => sanitize(2),
        Way::CryptoSanitize => sanitize(4),
    }
}

/// Get Log Page (02h) of Sanitize Status (81h): bits 31:16 are dwords less one.
pub(super) fn sanitize_status() -> Command {
    Command { opcode: 0x02, namespace: u32::MAX, cdw10: 0x81 | 127 << 16, timeout_ms: SHORT_TIMEOUT_MS }
}

/// Reads that log page.
pub(super) fn sanitizing(log: &[u8]) -> Sanitizing {
    let status = le16(log, 2);
    match status & 0b111 {
        0 => Sanitizing::Never,
        1 | 4 => Sanitizing::Done,
        2 => Sanitizing::Running(le16(log, 0)),
        3 => Sanitizing::Failed,
        _ => Sanitizing::Unknown(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(oacs: u8, fna: u8, sanicap: u8) -> Vec<u8> {
        let mut data = vec![0; IDENTIFY_BYTES];
        (data[256], data[524], data[328]) = (oacs, fna, sanicap);
        data
    }

    #[test]
    fn ways_follow_from_abilities_and_spare_other_namespaces() {
        let all = abilities(&controller(0b1010, 0b111, 0b011));
        assert!(all.management && all.format && all.format_takes_all);
        let expected = [Way::CryptoFormat, Way::UserDataFormat, Way::CryptoSanitize, Way::BlockSanitize];
        assert_eq!(ways(all, true), expected);
        assert_eq!(ways(all, false), []);
        let single = abilities(&controller(0b10, 0b100, 0b011));
        assert_eq!(ways(single, false), [Way::CryptoFormat, Way::UserDataFormat]);
        assert_eq!(ways(abilities(&controller(0b10, 0, 0)), true), [Way::UserDataFormat]);
        assert_eq!(ways(abilities(&controller(0, 0b100, 0b10)), true), [Way::BlockSanitize]);
        // Nothing is there, or cut off.
        assert_eq!(ways(abilities(&[]), true), []);
        assert_eq!(ways(abilities(&[0xFF; 300]), true), [Way::UserDataFormat]);
    }

    #[test]
    fn a_format_keeps_the_format() {
        let mut structure = vec![0; IDENTIFY_BYTES];
        let cdw10 = |structure: &[u8], way| command(way, 7, structure);
        let expected = Command { opcode: 0x80, namespace: 7, cdw10: 0x400, timeout_ms: 43_200_000 };
        assert_eq!(cdw10(&structure, Way::CryptoFormat), expected);
        assert_eq!(cdw10(&structure, Way::UserDataFormat).cdw10, 0x200);
        // Format 0x12, extended metadata, protection type 1 in the first bytes.
        (structure[26], structure[29]) = (0b0011_0010, 0b1001);
        assert_eq!(cdw10(&structure, Way::UserDataFormat).cdw10, 0x1000 | 0x200 | 0x100 | 0x20 | 0x10 | 0x2);
    }

    #[test]
    fn sanitize_commands_and_their_log() {
        let structure = [];
        assert_eq!(command(Way::BlockSanitize, 7, &structure), Command { opcode: 0x84, cdw10: 0b1010, ..sanitize(0) });
        assert_eq!(command(Way::CryptoSanitize, 7, &structure).cdw10, 0b1100);
        assert_eq!(exit_failure_mode().cdw10, 1);
        assert_eq!((sanitize_status().opcode, sanitize_status().cdw10), (2, 0x7F_0081));
        assert_eq!(sanitizing(&[0, 0x80, 0x02, 0]), Sanitizing::Running(0x8000));
        assert_eq!(sanitizing(&[0xFF, 0xFF, 0x01, 0x01]), Sanitizing::Done);
        assert_eq!(sanitizing(&[0xFF, 0xFF, 0x04, 0]), Sanitizing::Done);
        assert_eq!(sanitizing(&[0, 0, 0x03, 0]), Sanitizing::Failed);
        assert_eq!(sanitizing(&[]), Sanitizing::Never);
        assert_eq!(sanitizing(&[0, 0, 0x07, 0]), Sanitizing::Unknown(7));
    }

    #[test]
    fn lists_of_namespaces_end_with_zero() {
        let list = [1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0];
        assert_eq!(namespaces(&list).into_iter().collect::<Vec<_>>(), [1, 0x102]);
        assert!(namespaces(&[1, 0]).is_empty());
    }
}
