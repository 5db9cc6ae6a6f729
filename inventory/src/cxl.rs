//! What a CXL memory device says of itself and its health, by its mailbox (CXL 3.1, 8.2.9.9). Pure; the bytes are hostile.

use kernel::bytes::{le16, le32, le64};
use serde::{Deserialize, Serialize};

/// The unit of capacities.
const CAPACITY_SHIFT: u32 = 28;
/// What stands for no sensor.
const NO_TEMPERATURE: u16 = 0x7fff;
const NO_PERCENT: u8 = 0xff;
/// Of 16 bytes each, after the fields of every device.
const SLOTS_AT: usize = 16;

/// What a CXL memory device says of its health.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CxlHealth {
    /// State of its memory: normal, or such as not ready or all data lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_state: Option<String>,
    /// What it says that is wrong, such as maintenance needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Part of its life that is used, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u8>,
    /// Temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i16>,
    /// Times the power was lost before all was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_shutdowns: Option<u32>,
    /// Corrected errors of volatile memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_volatile_errors: Option<u32>,
    /// Corrected errors of persistent memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_persistent_errors: Option<u32>,
}

/// From where on a CXL memory device warns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CxlLimits {
    /// Critical use of its life, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_used_percent: Option<u8>,
    /// Use of its life that it warns of, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning_used_percent: Option<u8>,
    /// Highest temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_celsius: Option<i16>,
    /// Lowest temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_low_celsius: Option<i16>,
    /// High temperature that it warns of, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning_celsius: Option<i16>,
}

/// What Identify Memory Device tells: all of its memory, bytes.
pub(crate) fn total_bytes(identity: &[u8]) -> Option<u64> {
    let units = le64(identity, 16)?;
    units.checked_mul(1 << CAPACITY_SHIFT).filter(|bytes| *bytes > 0)
}

/// Versions in its slots (Get FW Info): the one in use, and the one that is used after the next reset.
pub(crate) fn firmware(info: &[u8]) -> [Option<String>; 2] {
    let slot = |number: u8| {
        let at = SLOTS_AT + 16 * usize::from(number.checked_sub(1).filter(|slot| *slot < 4)?);
        let text = kernel::bytes::text(info.get(at..at + 16)?);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control()).to_owned();
        (!text.is_empty()).then_some(text)
    };
    let slots = info.get(1).copied().unwrap_or(0);
    [slot(slots & 7), slot(slots >> 3 & 7)]
}

/// Get Health Info.
pub(crate) fn health(info: &[u8]) -> Option<CxlHealth> {
    let (health, media, more) = (*info.first()?, *info.get(1)?, *info.get(2)?);
    let media_states = [
        "normal",
        "not ready",
        "cannot keep what is written",
        "all data lost",
        "would lose what is written at a power loss",
        "would lose what is written at a shutdown",
        "about to lose the ability to keep what is written",
        "would lose all data at a power loss",
        "would lose all data at a shutdown",
        "about to lose all data",
    ];
    let problems = [
        (health & 1 != 0, "maintenance needed"),
        (health & 2 != 0, "performance degraded"),
        (health & 4 != 0, "replacement needed"),
        (health & 8 != 0, "capacity degraded"),
        (more & 3 == 1, "life used: warning"),
        (more & 3 == 2, "life used: critical"),
        (more >> 2 & 3 == 1, "temperature: warning"),
        (more >> 2 & 3 == 2, "temperature: critical"),
        (more >> 4 & 1 == 1, "corrected errors of volatile memory: warning"),
        (more >> 5 & 1 == 1, "corrected errors of persistent memory: warning"),
    ];
    Some(CxlHealth {
        media_state: media_states.get(usize::from(media)).map(|state| (*state).to_owned()),
        problems: problems.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned()).collect(),
        used_percent: info.get(3).copied().filter(|percent| *percent != NO_PERCENT),
        temperature_celsius: celsius(info, 4),
        dirty_shutdowns: le32(info, 6),
        corrected_volatile_errors: le32(info, 10),
        corrected_persistent_errors: le32(info, 14),
    })
}

/// Get Alert Configuration. The first byte says which of the limits that may be set are in use.
pub(crate) fn limits(alerts: &[u8]) -> Option<CxlLimits> {
    let is_set = |bit: u8| alerts.first().is_some_and(|set| set >> bit & 1 == 1);
    let percent = |at: usize| alerts.get(at).copied().filter(|percent| *percent != NO_PERCENT);
    (alerts.len() >= 12).then(|| CxlLimits {
        critical_used_percent: percent(2),
        warning_used_percent: percent(3).filter(|_| is_set(0)),
        critical_celsius: celsius(alerts, 4),
        critical_low_celsius: celsius(alerts, 6),
        warning_celsius: celsius(alerts, 8).filter(|_| is_set(1)),
    })
}

fn celsius(bytes: &[u8], at: usize) -> Option<i16> {
    le16(bytes, at).filter(|value| *value != NO_TEMPERATURE).map(u16::cast_signed)
}

/// Reads the bytes as each answer of a device.
pub(crate) fn fuzz(answer: &[u8]) {
    let _ = (total_bytes(answer), firmware(answer), health(answer), limits(answer));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::structure;
    use proptest::prelude::*;

    /// A device at 41 °C that has used 7 % of its life and had errors.
    pub(crate) fn health_info(health: u8, media: u8, more: u8) -> Vec<u8> {
        structure(18, &[(0, &[health, media, more, 7, 41, 0]), (6, &[2]), (10, &[5]), (14, &[0, 1])])
    }

    #[test]
    fn a_device() {
        assert_eq!(total_bytes(&structure(67, &[(16, &[4])])), Some(1 << 30));
        assert_eq!((total_bytes(&[0; 67]), total_bytes(&[0xff; 67]), total_bytes(&[0; 23])), (None, None, None));
        let info = structure(80, &[(0, &[2, 2 << 3 | 1, 1]), (16, b"BWFW VERSION 00"), (32, b"BWFW VERSION 01")]);
        assert_eq!(firmware(&info), [Some("BWFW VERSION 00".to_owned()), Some("BWFW VERSION 01".to_owned())]);
        // Slots that no device has; an answer that ends before the slot.
        assert_eq!(
            (firmware(&[9, 0xff]), firmware(&info[..40])),
            ([None, None], [Some("BWFW VERSION 00".to_owned()), None])
        );
    }

    #[test]
    fn its_health() {
        let found = health(&health_info(0, 0, 0)).unwrap();
        let expected = CxlHealth {
            media_state: Some("normal".to_owned()),
            problems: Vec::new(),
            used_percent: Some(7),
            temperature_celsius: Some(41),
            dirty_shutdowns: Some(2),
            corrected_volatile_errors: Some(5),
            corrected_persistent_errors: Some(256),
        };
        assert_eq!(found, expected);
        let mut info = health_info(4, 3, 0b01_1010);
        (info[3], info[4], info[5]) = (0xff, 0xff, 0x7f);
        let found = health(&info).unwrap();
        let problems = [
            "replacement needed",
            "life used: critical",
            "temperature: critical",
            "corrected errors of volatile memory: warning",
        ];
        assert_eq!(
            (found.media_state.as_deref(), &found.problems[..]),
            (Some("all data lost"), &problems.map(str::to_owned)[..])
        );
        assert_eq!((found.used_percent, found.temperature_celsius), (None, None));
        assert_eq!((health(&info[..2]), health(&info[..9]).unwrap().dirty_shutdowns), (None, None));

        let alerts = structure(16, &[(0, &[1, 3, 95, 75, 90, 0, 0xf6, 0xff, 80, 0, 0, 0])]);
        let found = limits(&alerts).unwrap();
        assert_eq!((found.critical_used_percent, found.warning_used_percent), (Some(95), Some(75)));
        assert_eq!((found.critical_celsius, found.critical_low_celsius), (Some(90), Some(-10)));
        // Not in use.
        assert_eq!((found.warning_celsius, limits(&alerts[..11])), (None, None));
    }

    proptest! {
        #[test]
        fn noise_never_panics(answer in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz(&answer);
        }
    }
}
