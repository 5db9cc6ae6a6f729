//! What an NVMe controller says of itself and of its health (NVMe base specification 2.0, 5.17.2.1 and 5.16.1.3). Pure; the
//! bytes are hostile.

use kernel::bytes::{le16, le32, le128};
use serde::{Deserialize, Serialize};

const IDENTIFY_BYTES: usize = 4096;
const HEALTH_BYTES: usize = 512;
/// A data unit is a thousand blocks of 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;
const KELVIN: i32 = 273;
/// Bits of the critical warning, from bit 0 on.
const WARNINGS: [&str; 6] =
    ["spare low", "temperature", "reliability degraded", "read only", "backup failed", "persistent memory unreliable"];

/// An NVMe controller, from Identify Controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NvmeIdentity {
    /// PCI vendor id of the maker, four hexadecimal digits.
    pub pci_vendor: String,
    /// PCI vendor id of who sells it, four hexadecimal digits.
    pub pci_subsystem_vendor: String,
    /// Model number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Firmware revision in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The maker's IEEE OUI, six hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ieee_oui: Option<String>,
    /// Version of the NVMe specification, such as 1.4.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Bytes of all namespaces and of what is left for more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Bytes not given to a namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unallocated_bytes: Option<u64>,
    /// How many namespaces there may be.
    pub max_namespaces: u32,
    /// Longest transfer, in the controller's smallest memory pages (mostly 4 KiB); absent for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_transfer_pages: Option<u64>,
    /// Temperature it warns at, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning_temperature_celsius: Option<i32>,
    /// Temperature it may shut down at, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_temperature_celsius: Option<i32>,
    /// Whether it has a write cache that loses its data with the power.
    pub has_volatile_cache: bool,
    /// Whether namespaces can be made and deleted.
    pub has_namespace_management: bool,
    /// Ways of erasing everything that Sanitize has: crypto, block, overwrite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sanitize: Vec<String>,
}

/// SMART / Health Information of an NVMe controller. Counters are of its whole life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NvmeHealth {
    /// What is wrong, in the specification's order; empty if nothing is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub critical_warnings: Vec<String>,
    /// Composite temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i32>,
    /// Spare capacity that is left, percent.
    pub available_spare_percent: u8,
    /// Spare capacity below which it warns, percent.
    pub spare_threshold_percent: u8,
    /// Endurance used up, percent of the maker's estimate; 255 is more than 254.
    pub used_percent: u8,
    /// Bytes read by hosts, rounded up by the controller to 512000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written by hosts, rounded up by the controller to 512000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Read commands of hosts that were completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_commands: Option<u64>,
    /// Write commands of hosts that were completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_commands: Option<u64>,
    /// Minutes it was busy with commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_minutes: Option<u64>,
    /// Times it was powered on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cycles: Option<u64>,
    /// Hours it was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// Times the power was lost without notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsafe_shutdowns: Option<u64>,
    /// Errors of integrity that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<u64>,
    /// Entries ever made in its error log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_log_entries: Option<u64>,
    /// Minutes above the warning temperature.
    pub warning_temperature_minutes: u32,
    /// Minutes above the critical temperature.
    pub critical_temperature_minutes: u32,
}

/// Identify Controller data; `None` if they are incomplete.
pub(crate) fn parse_identity(data: &[u8]) -> Option<NvmeIdentity> {
    let data: &[u8; IDENTIFY_BYTES] = data.first_chunk()?;
    let bytes = |at: usize, len: usize| data.get(at..at + len).unwrap_or_default();
    let version = le32(data, 80)?;
    let [oui0, oui1, oui2] = [data[73], data[74], data[75]];
    let sanitize = le32(data, 328)?;
    let ways = ["crypto", "block", "overwrite"].iter().enumerate();
    Some(NvmeIdentity {
        pci_vendor: format!("{:04x}", le16(data, 0)?),
        pci_subsystem_vendor: format!("{:04x}", le16(data, 2)?),
        serial: text(bytes(4, 20)),
        model: text(bytes(24, 40)),
        firmware: text(bytes(64, 8)),
        ieee_oui: Some(format!("{oui2:02x}{oui1:02x}{oui0:02x}")).filter(|oui| oui != "000000"),
        // Before 1.2 it was not reported.
        version: (version != 0).then(|| format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)),
        capacity_bytes: le128(data, 280).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0),
        // Meaningless where the capacity is not reported.
        unallocated_bytes: le128(data, 296)
            .and_then(|n| u64::try_from(n).ok())
            .filter(|_| le128(data, 280).is_some_and(|n| n > 0)),
        max_namespaces: le32(data, 516)?,
        max_transfer_pages: Some(data[77]).filter(|n| *n > 0).and_then(|n| 1u64.checked_shl(u32::from(n))),
        warning_temperature_celsius: celsius(le16(data, 266)?),
        critical_temperature_celsius: celsius(le16(data, 268)?),
        has_volatile_cache: data[525] & 1 == 1,
        has_namespace_management: data[256] >> 3 & 1 == 1,
        sanitize: ways.filter(|(bit, _)| sanitize >> bit & 1 == 1).map(|(_, way)| (*way).to_owned()).collect(),
    })
}

/// The log page; `None` if it is incomplete, or if the controller has put nothing into it.
pub(crate) fn parse_health(data: &[u8]) -> Option<NvmeHealth> {
    let data: &[u8; HEALTH_BYTES] = data.first_chunk()?;
    if data.iter().all(|byte| *byte == 0) {
        return None;
    }
    let count = |at: usize| le128(data, at).and_then(|n| u64::try_from(n).ok());
    let units =
        |at: usize| le128(data, at).and_then(|n| n.checked_mul(DATA_UNIT_BYTES)).and_then(|n| u64::try_from(n).ok());
    let warnings = WARNINGS.iter().enumerate().filter(|(bit, _)| data[0] >> bit & 1 == 1);
    Some(NvmeHealth {
        critical_warnings: warnings.map(|(_, name)| (*name).to_owned()).collect(),
        temperature_celsius: celsius(le16(data, 1)?),
        available_spare_percent: data[3],
        spare_threshold_percent: data[4],
        used_percent: data[5],
        read_bytes: units(32),
        written_bytes: units(48),
        read_commands: count(64),
        write_commands: count(80),
        busy_minutes: count(96),
        power_cycles: count(112),
        power_on_hours: count(128),
        unsafe_shutdowns: count(144),
        media_errors: count(160),
        error_log_entries: count(176),
        warning_temperature_minutes: le32(data, 192)?,
        critical_temperature_minutes: le32(data, 196)?,
    })
}

/// From Kelvin; zero is a missing sensor.
fn celsius(kelvin: u16) -> Option<i32> {
    (kelvin != 0).then(|| i32::from(kelvin) - KELVIN)
}

/// ASCII padded with blanks; some pad with zeros.
fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
        data[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn a_controller() {
        let mut data = vec![0; 4096];
        put(&mut data, 0, &[0x4d, 0x14, 0x4d, 0x14]);
        put(&mut data, 4, b"S4EWNF0M123456      ");
        put(&mut data, 24, b"SAMSUNG MZVLB512HBJQ-000L7              ");
        put(&mut data, 64, b"5M2QEXF7");
        put(&mut data, 73, &[0x38, 0x25, 0x00]);
        data[77] = 9;
        put(&mut data, 80, &0x0001_0300_u32.to_le_bytes());
        data[256] = 0x0f;
        put(&mut data, 266, &357_u16.to_le_bytes());
        put(&mut data, 280, &512_110_190_592_u128.to_le_bytes());
        data[328] = 3;
        data[516] = 1;
        data[525] = 1;
        let found = parse_identity(&data).unwrap();
        let expected = NvmeIdentity {
            pci_vendor: "144d".to_owned(),
            pci_subsystem_vendor: "144d".to_owned(),
            model: Some("SAMSUNG MZVLB512HBJQ-000L7".to_owned()),
            serial: Some("S4EWNF0M123456".to_owned()),
            firmware: Some("5M2QEXF7".to_owned()),
            ieee_oui: Some("002538".to_owned()),
            version: Some("1.3.0".to_owned()),
            capacity_bytes: Some(512_110_190_592),
            unallocated_bytes: Some(0),
            max_namespaces: 1,
            max_transfer_pages: Some(512),
            warning_temperature_celsius: Some(84),
            critical_temperature_celsius: None,
            has_volatile_cache: true,
            has_namespace_management: true,
            sanitize: vec!["crypto".to_owned(), "block".to_owned()],
        };
        assert_eq!(found, expected);
        assert_eq!(parse_identity(&data[..4095]), None);
        let bare = parse_identity(&[0; 4096]).unwrap();
        assert_eq!(
            (bare.capacity_bytes, bare.unallocated_bytes, bare.version, bare.ieee_oui),
            (None, None, None, None)
        );
    }

    #[test]
    fn health() {
        let mut data = vec![0; 512];
        put(&mut data, 0, &[0b1001, 0x2f, 0x01, 98, 10, 255]);
        put(&mut data, 32, &7_u128.to_le_bytes());
        put(&mut data, 48, &u128::MAX.to_le_bytes());
        put(&mut data, 112, &123_u128.to_le_bytes());
        put(&mut data, 128, &4567_u128.to_le_bytes());
        put(&mut data, 144, &u128::MAX.to_le_bytes());
        put(&mut data, 192, &5_u32.to_le_bytes());
        put(&mut data, 196, &6_u32.to_le_bytes());
        let found = parse_health(&data).unwrap();
        assert_eq!(found.critical_warnings, ["spare low", "read only"]);
        assert_eq!((found.temperature_celsius, found.used_percent), (Some(30), 255));
        assert_eq!((found.available_spare_percent, found.spare_threshold_percent), (98, 10));
        assert_eq!((found.read_bytes, found.written_bytes, found.unsafe_shutdowns), (Some(3_584_000), None, None));
        assert_eq!((found.power_cycles, found.power_on_hours, found.media_errors), (Some(123), Some(4567), Some(0)));
        assert_eq!((found.warning_temperature_minutes, found.critical_temperature_minutes), (5, 6));
        assert_eq!((parse_health(&[0; 512]), parse_health(&data[..511])), (None, None));
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..4200)) {
            parse_identity(&data);
            parse_health(&data);
        }
    }
}
