//! All commands that are ever sent to a management controller: none changes a setting or the log, and only [`super::power`] sends the
//! one that restarts the machine. Those of a TPM are `tpm::wire::Command`.

use std::io;

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

/// Refuses all but the commands that read.
pub(super) fn ipmi(netfn: u8, command: u8, data: &[u8]) -> io::Result<()> {
    let parameter = data.get(1).filter(|_| (netfn, command) == LAN_PARAMETERS);
    let is_secret = parameter.is_some_and(|one| SECRET_PARAMETERS.contains(one) || *one >= OWN_PARAMETERS);
    match IPMI.contains(&(netfn, command)) && !is_secret {
        true => Ok(()),
        false => Err(refused(format!("IPMI command {netfn:02x}h {command:02x}h"))),
    }
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is not one of those that only read"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
