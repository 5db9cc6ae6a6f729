//! All that is ever sent to a disk, a management controller or another device: none of it changes what the device holds or does. Only
//! [`super::power`] sends the command that restarts the machine. Commands of a TPM are `tpm::wire::Command`.

use super::SmartLog;
use kernel::bytes::le16;
use std::io;

/// What is to be sent, as the device or its driver gets it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message<'a> {
    Ipmi {
        netfn: u8,
        command: u8,
        data: &'a [u8],
    },
    /// A SCSI command, which may have an ATA command or a Smart Array's in it.
    Scsi(&'a [u8]),
    /// A command to the firmware of a MegaRAID controller.
    MegaRaid(u32),
    /// A message to the firmware of a SAS adapter (drivers/scsi/mpt3sas/mpi/mpi2_cnfg.h).
    Mpt(&'a [u8]),
    /// A command to a CXL memory device, by the kernel's number (linux/cxl_mem.h).
    Cxl(u32),
    /// The number of a processor's register, which is read.
    Register(u32),
}

/// Net functions and commands (IPMI 2.0, appendix G).
const IPMI: [(u8, u8); 19] = [
    (0x04, 0x23), // Get Sensor Reading Factors
    (0x04, 0x27), // Get Sensor Thresholds
    (0x04, 0x2d), // Get Sensor Reading
    (0x06, 0x01), // Get Device ID
    (0x06, 0x08), // Get Device GUID
    (0x06, 0x37), // Get System GUID
    (0x06, 0x42), // Get Channel Info
    (0x06, 0x44), // Get User Access
    (0x0a, 0x10), // Get FRU Inventory Area Info
    (0x0a, 0x11), // Read FRU Data
    (0x0a, 0x20), // Get SDR Repository Info
    (0x0a, 0x22), // Reserve SDR Repository: a ticket for reading in parts
    (0x0a, 0x23), // Get SDR
    (0x0a, 0x40), // Get SEL Info
    (0x0a, 0x43), // Get SEL Entry
    (0x0a, 0x48), // Get SEL Time
    (0x0c, 0x02), // Get LAN Configuration Parameters, without those below
    (0x00, 0x00), // Get Chassis Capabilities
    (0x00, 0x01), // Get Chassis Status
];
/// What of the LAN configuration is not read: community string, and keys and passwords that makers have put behind it.
const SECRET_PARAMETERS: [u8; 1] = [16];
const LAN_PARAMETERS: (u8, u8) = (0x0c, 0x02);
/// From here on parameters are the maker's own (IPMI 2.0, table 23-4).
const OWN_PARAMETERS: u8 = 192;

/// Chassis Control (IPMI 2.0, 28.3), with which the controller takes the machine's power. Not one of those above: [`ipmi`] refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChassisControl {
    PowerCycle,
    HardReset,
}

impl ChassisControl {
    /// Net function, command and data.
    pub(super) fn request(self) -> (u8, u8, [u8; 1]) {
        let data = match self {
            Self::PowerCycle => 2,
            Self::HardReset => 3,
        };
        (0x00, 0x02, [data])
    }
}

pub(super) const ATA_IDENTIFY_DEVICE: u8 = 0xec;
pub(super) const ATA_CHECK_POWER_MODE: u8 = 0xe5;
pub(super) const ATA_SMART: u8 = 0xb0;
pub(super) const SMART_READ_DATA: u8 = 0xd0;
pub(super) const SMART_READ_THRESHOLDS: u8 = 0xd1;
pub(super) const SMART_READ_LOG: u8 = 0xd5;
/// The logs that are read, by their address.
const SMART_LOGS: [u8; 2] = [SmartLog::Errors as u8, SmartLog::SelfTests as u8];

/// `MR_DCMD_` of drivers/scsi/megaraid/megaraid_sas.h: of controller, battery, drives and volumes, and the configuration.
const MEGARAID: [u32; 7] = [0x0101_0000, 0x0501_0000, 0x0201_0000, 0x0202_0000, 0x0301_0000, 0x0302_0000, 0x0401_0000];

/// Function and actions of messages about configuration pages: a page's header, and a page as it is now.
pub(super) const MPT_CONFIGURATION: u8 = 0x04;
pub(super) const MPT_HEADER: u8 = 0;
pub(super) const MPT_READ: u8 = 1;
/// Types of pages that are read, with their numbers: temperatures, volumes with their names, drives of volumes, and SAS devices.
const MPT_PAGES: [(u16, u8); 5] = [(0x00, 7), (0x08, 0), (0x08, 1), (0x0a, 0), (0x12, 0)];
/// The type that says that the type is in another field.
pub(super) const MPT_EXTENDED: u8 = 0x0f;

/// Identify, Get Firmware Info, Get Health Info, Get Alert Configuration.
const CXL: [u32; 4] = [1, 4, 7, 11];

/// `IA32_MKTME_KEYID_PARTITIONING` and `IA32_TME_ACTIVATE`.
const REGISTERS: [u32; 2] = [0x87, 0x982];

/// Refuses all but what reads.
pub(super) fn check(message: Message<'_>) -> io::Result<()> {
    let (is_allowed, what) = match message {
        Message::Ipmi { netfn, command, data } => {
            let parameter = data.get(1).filter(|_| (netfn, command) == LAN_PARAMETERS);
            let is_secret = parameter.is_some_and(|one| SECRET_PARAMETERS.contains(one) || *one >= OWN_PARAMETERS);
            (IPMI.contains(&(netfn, command)) && !is_secret, format!("IPMI command {netfn:02x}h {command:02x}h"))
        }
        Message::Scsi(command) => (scsi(command), format!("SCSI command {:02x}h", command.first().unwrap_or(&0))),
        Message::MegaRaid(opcode) => (MEGARAID.contains(&opcode), format!("MegaRAID command {opcode:x}h")),
        Message::Mpt(message) => (mpt(message).is_some_and(|reads| reads), "message to a SAS adapter".to_owned()),
        Message::Cxl(command) => (CXL.contains(&command), format!("CXL command {command}")),
        Message::Register(number) => (REGISTERS.contains(&number), format!("register {number:x}h")),
    };
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is not one of those that only read"));
    if is_allowed { Ok(()) } else { Err(refused()) }
}

fn scsi(command: &[u8]) -> bool {
    match command {
        // INQUIRY, RECEIVE DIAGNOSTIC RESULTS, READ DEFECT DATA (10) and (12).
        [0x12 | 0x1c | 0x37 | 0xb7, ..] => true,
        // Smart Array's REPORT LOGICAL and PHYSICAL LUNS, its GET RAID MAP, and what BMIC READ asks for.
        [0xc2 | 0xc3, ..] | [0xc0, 0xc8, ..] => true,
        [0x26, _, _, _, _, _, bmic, ..] => matches!(*bmic, 0x10 | 0x11 | 0x12 | 0x15 | 0x66 | 0xc1),
        // LOG SENSE, unless parameters are to be saved.
        [0x4d, flags, ..] => *flags == 0,
        // ATA PASS-THROUGH (16), by its ATA command.
        [0x85, _, _, _, features, _, _, _, low, _, _, _, _, _, ata, _] => match *ata {
            ATA_SMART => match *features {
                SMART_READ_LOG => SMART_LOGS.contains(low),
                features => matches!(features, SMART_READ_DATA | SMART_READ_THRESHOLDS),
            },
            ata => matches!(ata, ATA_IDENTIFY_DEVICE | ATA_CHECK_POWER_MODE),
        },
        _ => false,
    }
}

fn mpt(message: &[u8]) -> Option<bool> {
    let byte = |at: usize| message.get(at).copied();
    let reads = byte(3)? == MPT_CONFIGURATION && matches!(byte(0)?, MPT_HEADER | MPT_READ);
    // Above the type are attributes.
    let kind = match byte(0x17)? {
        MPT_EXTENDED => le16(message, 6)? & 0xff,
        kind => kind.into(),
    };
    Some(reads && MPT_PAGES.contains(&(kind, byte(0x16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipmi(netfn: u8, command: u8, data: &[u8]) -> io::Result<()> {
        check(Message::Ipmi { netfn, command, data })
    }

    fn is_read_only(command: &[u8]) -> bool {
        check(Message::Scsi(command)).is_ok()
    }

    #[test]
    fn what_writes_or_tells_secrets_is_refused() {
        for (netfn, command, data) in [
            (0x00, 0x02, &[0][..]), // Chassis Control
            (0x06, 0x02, &[]),      // Cold Reset
            (0x06, 0x46, &[2]),     // Get User Name
            (0x06, 0x47, &[]),      // Set User Password
            (0x0a, 0x12, &[]),      // Write FRU Data
            (0x0a, 0x47, &[]),      // Clear SEL
            (0x0c, 0x01, &[]),      // Set LAN Configuration Parameters
            (0x0c, 0x02, &[1, 16, 0, 0]),
            (0x0c, 0x02, &[1, 192, 0, 0]),
        ] {
            assert!(ipmi(netfn, command, data).is_err(), "{netfn:02x} {command:02x}");
        }
        assert!(ipmi(0x0c, 0x02, &[1, 3, 0, 0]).is_ok() && ipmi(0x06, 0x01, &[]).is_ok());
    }

    #[test]
    fn of_scsi_commands_only_what_reads_is_sent() {
        let ata = |features: u8, command: u8| [0x85, 8, 0x0e, 0, features, 0, 1, 0, 0, 0, 0, 0, 0, 0, command, 0];
        assert!(is_read_only(&[0x12, 1, 0x83, 0, 252, 0]));
        assert!(is_read_only(&ata(0, ATA_IDENTIFY_DEVICE)) && is_read_only(&ata(SMART_READ_DATA, ATA_SMART)));
        assert!(
            is_read_only(&[0x4d, 0, 0x4d, 0, 0, 0, 0, 0, 252, 0])
                && !is_read_only(&[0x4d, 1, 0x4d, 0, 0, 0, 0, 0, 252, 0])
        );
        // BMIC READ of a controller's identity; WRITE, FLUSH CACHE, READ of diagnostics.
        assert!(is_read_only(&[0x26, 0, 0, 0, 0, 0, 0x11, 2, 0, 0]));
        assert!(
            !is_read_only(&[0x27, 0, 0, 0, 0, 0, 0xc2, 0, 4, 0])
                && !is_read_only(&[0x26, 0, 0, 0, 0, 0, 0xf5, 0, 4, 0])
        );
        // GET RAID MAP, the cache's configuration; CISS WRITE, SET CONTROLLER PARAMETERS.
        assert!(
            is_read_only(&[0xc0, 0xc8, 0, 0, 0, 0, 0, 0, 8, 64, 0, 0])
                && is_read_only(&[0x26, 0, 0, 0, 0, 0, 0xc1, 2, 0, 0])
        );
        assert!(!is_read_only(&[0xc1, 0xc8, 0, 0]) && !is_read_only(&[0x26, 0, 0, 0, 0, 0, 0x63, 2, 0, 0]));
        // FORMAT UNIT, MODE SELECT (10), WRITE (10), SANITIZE, SEND DIAGNOSTIC, LOG SELECT, START STOP UNIT.
        for code in [0x04, 0x55, 0x2a, 0x48, 0x1d, 0x4c, 0x1b] {
            assert!(!is_read_only(&[code, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "{code:02x}");
        }
        // Of logs only the two: a maker's own may do anything.
        let log = |address: u8| [0x85, 8, 0x0e, 0, SMART_READ_LOG, 0, 1, 0, address, 0, 0x4f, 0, 0xc2, 0, ATA_SMART, 0];
        assert!(is_read_only(&log(1)) && is_read_only(&log(6)) && !is_read_only(&log(0xa0)));
        // SMART DISABLE, SMART EXECUTE OFF-LINE IMMEDIATE, SECURITY ERASE UNIT, WRITE DMA EXT.
        for (features, command) in [(0xd9, ATA_SMART), (0xd4, ATA_SMART), (0, 0xf4), (0, 0x35)] {
            assert!(!is_read_only(&ata(features, command)), "{command:02x}");
        }
    }

    #[test]
    fn of_other_messages_too() {
        let page = |action: u8, kind: u8, number: u8| {
            let mut message = vec![0; 28];
            (message[0], message[3]) = (action, MPT_CONFIGURATION);
            (message[0x16], message[0x17]) = (number, kind);
            message
        };
        let mpt = |message: &[u8]| check(Message::Mpt(message)).is_ok();
        assert!(mpt(&page(MPT_HEADER, 8, 0)) && mpt(&page(MPT_READ, 0x0a, 0)));
        // WRITE CURRENT, DEFAULT, WRITE NVRAM; SCSI IO, RAID ACTION, FW DOWNLOAD; other pages, and changeable ones.
        assert!([2, 3, 4].iter().all(|action| !mpt(&page(*action, 8, 0))));
        for function in [0x00, 0x15, 0x09] {
            let mut message = page(MPT_READ, 8, 0);
            message[3] = function;
            assert!(!mpt(&message), "{function:02x}");
        }
        assert!(!mpt(&page(MPT_READ, 0x09, 5)) && !mpt(&page(MPT_READ, 0x18, 0)) && !mpt(&[]));
        let mut device = page(MPT_READ, MPT_EXTENDED, 0);
        assert!(!mpt(&device));
        device[6] = 0x12;
        assert!(mpt(&device));
        // Of CXL: RAW, SET PARTITION INFO, SET ALERT CONFIG, INJECT POISON, SCAN MEDIA.
        assert!([2, 9, 12, 16, 19].iter().all(|command| check(Message::Cxl(*command)).is_err()));
        assert!(check(Message::MegaRaid(0x0104_0000)).is_err() && check(Message::Register(0x1b)).is_err());
    }
}
