//! What an ATA disk says of itself and of its health: IDENTIFY DEVICE (ACS-4 7.13.6) and the SMART attributes that all makers
//! have, though no standard does (SFF-8035i). Pure; the bytes are hostile.

mod logs;

use kernel::order;
use serde::{Deserialize, Serialize};

const SECTOR_BYTES: usize = 512;
const ATTRIBUTES: usize = 30;
const ATTRIBUTE_BYTES: usize = 12;
/// Versions of serial transports, from bit 0 of word 222 on.
const VERSIONS: [&str; 11] = [
    "ATA8-AST",
    "SATA 1.0a",
    "SATA II",
    "SATA 2.5",
    "SATA 2.6",
    "SATA 3.0",
    "SATA 3.1",
    "SATA 3.2",
    "SATA 3.3",
    "SATA 3.4",
    "SATA 3.5",
];
/// Word 255 begins with it where it has a checksum.
const INTEGRITY: u8 = 0xa5;

/// An ATA disk, from IDENTIFY DEVICE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AtaIdentity {
    /// Model number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Firmware revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// World-wide name, such as 0x5000c500a1b2c3d4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Revolutions per minute; 0 for a disk without moving parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation_rpm: Option<u16>,
    /// Form factor: its width in inches, mSATA, M.2 and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form_factor: Option<String>,
    /// Newest version of its transport, such as SATA 3.3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Fastest speed of its SATA port, megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_speed_mbps: Option<u32>,
    /// Speed of its SATA port in use, megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// Bytes of a logical sector.
    pub logical_sector_bytes: u32,
    /// Bytes of a physical sector.
    pub physical_sector_bytes: u32,
    /// Whether it monitors its health (SMART).
    pub has_smart: bool,
    /// Whether that is enabled.
    pub is_smart_enabled: bool,
    /// Whether data that are no longer needed can be discarded (DATA SET MANAGEMENT, TRIM).
    pub has_trim: bool,
    /// Whether it is locked by a password, so that it can be neither read nor written.
    pub is_locked: bool,
}

/// SMART attributes of an ATA disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AtaHealth {
    /// Temperature, °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u8>,
    /// Whether an attribute that foretells failure is at its threshold; absent without thresholds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_failing: Option<bool>,
    /// Errors that it logged in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logged_errors: Option<u64>,
    /// Result of the last self-test: passed, aborted, failed or running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_self_test: Option<String>,
    /// Self-tests that failed, of the last 21.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_self_tests: Option<u64>,
    /// Attributes, by id.
    pub attributes: Vec<AtaAttribute>,
}

/// A SMART attribute. What its values mean is the maker's business.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AtaAttribute {
    /// Number of the attribute.
    pub id: u8,
    /// What most makers mean by the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Normalised value, mostly 1 (bad) to 253 (good).
    pub value: u8,
    /// Lowest normalised value so far.
    pub worst: u8,
    /// Normalised value at which it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u8>,
    /// The maker's own 48 bits.
    pub raw: u64,
    /// Whether it foretells failure, and not just age.
    pub is_prefailure: bool,
    /// `now` or `past`, if the threshold is or was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// IDENTIFY DEVICE data; `None` for those of a packet device, cut short or with a wrong checksum.
pub(crate) fn parse_identity(data: &[u8]) -> Option<AtaIdentity> {
    let data: &[u8; SECTOR_BYTES] = data.first_chunk()?;
    let word = |index: usize| u16::from_le_bytes([data[2 * index], data[2 * index + 1]]);
    let is_whole = data[510] != INTEGRITY || is_sum_zero(data);
    if !is_whole || word(0) >> 15 == 1 || data.iter().all(|byte| *byte == 0) {
        return None;
    }
    // Words of which bit 14 is set and bit 15 is clear are in use.
    let valid = |index: usize| Some(word(index)).filter(|word| word >> 14 == 1);
    let long = |index: usize| u32::from(word(index)) | u32::from(word(index + 1)) << 16;
    let is_set = |index: usize, bit: u16| word(index) >> bit & 1 == 1;
    let sector = valid(106).unwrap_or(0);
    let logical = if sector >> 12 & 1 == 1 { long(117).saturating_mul(2) } else { 512 };
    let shift = if sector >> 13 & 1 == 1 { u32::from(sector & 0xf) } else { 0 };
    let wwn = [108, 109, 110, 111].iter().fold(0, |wwn, index| wwn << 16 | u64::from(word(*index)));
    Some(AtaIdentity {
        serial: text(&data[20..40]),
        firmware: text(&data[46..54]),
        model: text(&data[54..94]),
        wwn: (valid(87).is_some() && is_set(87, 8) && wwn != 0).then(|| format!("0x{wwn:016x}")),
        rotation_rpm: match word(217) {
            1 => Some(0),
            rpm @ 0x401..=0xfffe => Some(rpm),
            _ => None,
        },
        form_factor: form_factor(word(168) & 0xf).map(str::to_owned),
        transport: transport(word(222)),
        max_speed_mbps: sata_mbps(match word(76) {
            0 | 0xffff => 0,
            word => (1..4).rev().find(|bit| word >> bit & 1 == 1).unwrap_or(0),
        }),
        speed_mbps: sata_mbps(match word(77) {
            0 | 0xffff => 0,
            word => word >> 1 & 7,
        }),
        logical_sector_bytes: logical,
        physical_sector_bytes: logical.saturating_mul(1 << shift),
        has_smart: valid(83).is_some() && is_set(82, 0),
        is_smart_enabled: valid(87).is_some() && is_set(85, 0),
        has_trim: is_set(169, 0),
        is_locked: is_set(128, 0) && is_set(128, 2),
    })
}

/// SMART READ DATA with what SMART READ THRESHOLDS had to say to it; `None` if the data are cut short or have a wrong checksum.
pub(crate) fn parse_health(data: &[u8], thresholds: Option<&[u8]>) -> Option<AtaHealth> {
    let table = |data: &'_ [u8]| -> Option<[[u8; ATTRIBUTE_BYTES]; ATTRIBUTES]> {
        let data: &[u8; SECTOR_BYTES] = data.first_chunk()?;
        let mut table = [[0; ATTRIBUTE_BYTES]; ATTRIBUTES];
        for (row, bytes) in table.iter_mut().zip(data[2..].chunks_exact(ATTRIBUTE_BYTES)) {
            row.copy_from_slice(bytes);
        }
        (is_sum_zero(data) && data[0] != 0).then_some(table)
    };
    let rows = table(data)?;
    let thresholds = thresholds.and_then(table);
    let threshold = |id: u8| thresholds.iter().flatten().find(|row| row[0] == id).map(|row| row[1]);
    let mut attributes: Vec<_> =
        rows.iter().filter(|row| row[0] != 0).map(|row| attribute(row, threshold(row[0]))).collect();
    order::sort_by_key(&mut attributes, |attribute| attribute.id);
    attributes.dedup_by_key(|attribute| attribute.id);
    let lowest_byte = |id: u8| attributes.iter().find(|a| a.id == id).map(|a| a.raw.to_le_bytes()[0]);
    Some(AtaHealth {
        temperature_celsius: lowest_byte(194).or_else(|| lowest_byte(190)).filter(|celsius| *celsius > 0),
        is_failing: thresholds
            .is_some()
            .then(|| attributes.iter().any(|a| a.is_prefailure && a.failed.as_deref() == Some("now"))),
        attributes,
        ..AtaHealth::default()
    })
}

fn attribute(row: &[u8; ATTRIBUTE_BYTES], threshold: Option<u8>) -> AtaAttribute {
    let [id, flags, _, value, worst, r0, r1, r2, r3, r4, r5, _] = *row;
    // A threshold of zero is never reached.
    let reached = |value: u8| threshold.is_some_and(|threshold| threshold > 0 && value <= threshold);
    let failed = if reached(value) {
        Some("now")
    } else if reached(worst) {
        Some("past")
    } else {
        None
    };
    AtaAttribute {
        id,
        name: name(id).map(str::to_owned),
        value,
        worst,
        threshold,
        raw: u64::from_le_bytes([r0, r1, r2, r3, r4, r5, 0, 0]),
        is_prefailure: flags & 1 == 1,
        failed: failed.map(str::to_owned),
    }
}

fn is_sum_zero(data: &[u8]) -> bool {
    data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

fn sata_mbps(generation: u16) -> Option<u32> {
    [1500, 3000, 6000].get(usize::from(generation.checked_sub(1)?)).copied()
}

fn form_factor(code: u16) -> Option<&'static str> {
    let names = ["5.25", "3.5", "2.5", "1.8", "under 1.8", "mSATA", "M.2", "MicroSSD", "CFast"];
    names.get(usize::from(code.checked_sub(1)?)).copied()
}

/// Word 222: kind of transport, and a bit for each version.
fn transport(word: u16) -> Option<String> {
    match (word, word >> 12) {
        (0 | 0xffff, _) => None,
        (_, 0) => Some("parallel".to_owned()),
        (_, 1) => {
            let newest = VERSIONS.iter().enumerate().rev().find(|(bit, _)| word >> bit & 1 == 1);
            newest.map(|(_, name)| (*name).to_owned())
        }
        (_, 0xe) => Some("PCIe".to_owned()),
        _ => None,
    }
}

/// ATA strings have the two bytes of each word swapped.
fn text(bytes: &[u8]) -> Option<String> {
    let straight: Vec<u8> = bytes.chunks_exact(2).flat_map(|word| [word[1], word[0]]).collect();
    let text = String::from_utf8_lossy(&straight);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

/// Meanings that makers agree on.
fn name(id: u8) -> Option<&'static str> {
    Some(match id {
        1 => "raw read error rate",
        2 => "throughput performance",
        3 => "spin-up time",
        4 => "start/stop count",
        5 => "reallocated sectors",
        7 => "seek error rate",
        8 => "seek time performance",
        9 => "power-on hours",
        10 => "spin-up retries",
        11 => "recalibration retries",
        12 => "power cycles",
        170 => "available reserved space",
        171 => "program failures",
        172 => "erase failures",
        173 => "wear levelling",
        174 => "unexpected power losses",
        175 => "power loss protection",
        177 => "wear levelling",
        179 => "used reserved blocks",
        180 => "unused reserved blocks",
        181 => "program failures",
        182 => "erase failures",
        183 => "SATA downshifts",
        184 => "end-to-end errors",
        187 => "uncorrectable errors",
        188 => "command timeouts",
        189 => "high fly writes",
        190 => "airflow temperature",
        191 => "shocks",
        192 => "power-off retracts",
        193 => "load cycles",
        194 => "temperature",
        195 => "hardware ECC recovered",
        196 => "reallocation events",
        197 => "pending sectors",
        198 => "offline uncorrectable sectors",
        199 => "interface CRC errors",
        200 => "multi-zone error rate",
        202 => "lifetime left",
        231 => "lifetime left",
        232 => "available reserved space",
        233 => "media wear-out",
        240 => "head flying hours",
        241 => "host writes",
        242 => "host reads",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal(data: &mut [u8]) {
        let sum = data[..511].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        data[511] = sum.wrapping_neg();
    }

    fn put(data: &mut [u8], word: usize, value: u16) {
        data[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put_text(data: &mut [u8], word: usize, words: usize, text: &str) {
        let padded = format!("{text:<width$}", width = words * 2);
        for (index, pair) in padded.as_bytes().chunks(2).enumerate() {
            put(data, word + index, u16::from_be_bytes([pair[0], pair[1]]));
        }
    }

    fn identify() -> Vec<u8> {
        let mut data = vec![0; 512];
        put(&mut data, 0, 0x0040);
        put_text(&mut data, 10, 10, "S3Z8NB0K123456");
        put_text(&mut data, 23, 4, "RVT04B6Q");
        put_text(&mut data, 27, 20, "Samsung SSD 860 EVO 500GB");
        for (word, value) in [(76, 0x850e), (77, 0x0086), (82, 0x746b), (83, 0x7d01), (85, 0x7469), (87, 0x4163)] {
            put(&mut data, word, value);
        }
        for (word, value) in [(106, 0x6003), (108, 0x5002), (109, 0x538e), (110, 0x40a1), (111, 0xb2c3)] {
            put(&mut data, word, value);
        }
        for (word, value) in [(128, 0x0029), (168, 3), (169, 1), (217, 1), (222, 0x11ff), (255, 0x00a5)] {
            put(&mut data, word, value);
        }
        seal(&mut data);
        data
    }

    #[test]
    fn a_disk() {
        let found = parse_identity(&identify()).unwrap();
        let expected = AtaIdentity {
            model: Some("Samsung SSD 860 EVO 500GB".to_owned()),
            serial: Some("S3Z8NB0K123456".to_owned()),
            firmware: Some("RVT04B6Q".to_owned()),
            wwn: Some("0x5002538e40a1b2c3".to_owned()),
            rotation_rpm: Some(0),
            form_factor: Some("2.5".to_owned()),
            transport: Some("SATA 3.3".to_owned()),
            max_speed_mbps: Some(6000),
            speed_mbps: Some(6000),
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            has_smart: true,
            is_smart_enabled: true,
            has_trim: true,
            is_locked: false,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn disks_of_other_kinds() {
        let mut old = identify();
        for word in [76, 77, 83, 87, 106, 168, 169, 217, 222, 255] {
            put(&mut old, word, 0);
        }
        let found = parse_identity(&old).unwrap();
        assert_eq!((found.wwn, found.rotation_rpm, found.form_factor, found.transport), (None, None, None, None));
        assert_eq!((found.physical_sector_bytes, found.has_smart, found.is_smart_enabled), (512, false, false));
        let mut native = identify();
        for (word, value) in [(106, 0x5000), (117, 2048), (128, 7), (217, 7200)] {
            put(&mut native, word, value);
        }
        seal(&mut native);
        let found = parse_identity(&native).unwrap();
        assert_eq!((found.logical_sector_bytes, found.physical_sector_bytes), (4096, 4096));
        assert_eq!((found.rotation_rpm, found.is_locked), (Some(7200), true));
    }

    #[test]
    fn damaged_data_are_no_facts() {
        let mut data = identify();
        data[60] ^= 1;
        assert_eq!(parse_identity(&data), None);
        assert_eq!(parse_identity(&identify()[..500]), None);
        assert_eq!(parse_identity(&[0; 512]), None);
        let mut packet = identify();
        put(&mut packet, 0, 0x85c0);
        seal(&mut packet);
        assert_eq!(parse_identity(&packet), None);
    }

    /// Attributes in the order of the disk, with a threshold each.
    fn smart(rows: &[([u8; 12], u8)]) -> (Vec<u8>, Vec<u8>) {
        let (mut data, mut thresholds) = (vec![0; 512], vec![0; 512]);
        (data[0], thresholds[0]) = (1, 1);
        for (index, (row, threshold)) in rows.iter().enumerate() {
            let at = 2 + index * 12;
            data[at..at + 12].copy_from_slice(row);
            thresholds[at..at + 2].copy_from_slice(&[row[0], *threshold]);
        }
        seal(&mut data);
        seal(&mut thresholds);
        (data, thresholds)
    }

    #[test]
    fn health() {
        let (data, thresholds) = smart(&[
            ([194, 0x22, 0, 64, 45, 36, 0, 20, 0, 55, 0, 0], 0),
            ([5, 0x33, 0, 8, 8, 0xe8, 3, 0, 0, 0, 0, 0], 10),
            ([3, 0x23, 0, 90, 20, 0, 0, 0, 0, 0, 0, 0], 21),
            ([250, 0x32, 0, 1, 1, 1, 2, 3, 4, 5, 6, 0], 50),
        ]);
        let found = parse_health(&data, Some(&thresholds)).unwrap();
        assert_eq!((found.temperature_celsius, found.is_failing), (Some(36), Some(true)));
        let short: Vec<_> = found.attributes.iter().map(|a| (a.id, a.raw, a.failed.as_deref())).collect();
        let expected = [
            (3, 0, Some("past")),
            (5, 1000, Some("now")),
            (194, 0x37_0014_0024, None),
            (250, 0x0605_0403_0201, Some("now")),
        ];
        assert_eq!(short, expected);
        let reallocated = &found.attributes[1];
        assert_eq!(reallocated.name.as_deref(), Some("reallocated sectors"));
        assert_eq!((reallocated.value, reallocated.worst, reallocated.threshold), (8, 8, Some(10)));
        assert!(reallocated.is_prefailure && !found.attributes[3].is_prefailure);
        // Without thresholds nothing is said of failure.
        let mut bad = thresholds;
        bad[100] ^= 1;
        for none in [parse_health(&data, None), parse_health(&data, Some(&bad)), parse_health(&data, Some(&[]))] {
            let none = none.unwrap();
            assert_eq!((none.is_failing, &none.attributes[1].failed, none.attributes.len()), (None, &None, 4));
        }
        assert_eq!((parse_health(&bad, None), parse_health(&data[..511], None)), (None, None));
        assert_eq!(parse_health(&[0; 512], None), None);
    }

    proptest! {
        #[test]
        fn noise_never_panics(
            mut data in prop::collection::vec(any::<u8>(), 0..600),
            thresholds in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            parse_identity(&data);
            if data.len() >= 512 {
                seal(&mut data[..512]);
            }
            parse_health(&data, Some(&thresholds));
        }
    }
}
