//! What the firmware of a MegaRAID controller says of itself, its volumes and its drives (drivers/scsi/megaraid/megaraid_sas.h,
//! DDF 2.0 for levels). Pure; the bytes are hostile.

use crate::{
    disks,
    raid::{RaidBattery, RaidController, RaidDrive, RaidVolume},
};
use kernel::bytes::{le16, le32, le64};
use std::collections::BTreeMap;

#[cfg(test)]
pub(crate) mod samples;

const SECTOR_BYTES: u64 = 512;
/// Stands for no enclosure, and for no slot.
const NO_ENCLOSURE: u16 = 0xffff;
const NO_SLOT: u8 = 0xff;
/// More than any controller has.
const MAX_DRIVES: usize = 1024;
const MAX_VOLUMES: usize = 256;
const SPANS: usize = 8;
const ROWS: usize = 32;
const CONFIGURATION_HEADER: usize = 32;
/// Bits of a battery's state from bit 0 on, and whether a battery in that state can't be relied on.
const CONDITIONS: [(&str, bool); 13] = [
    ("missing", true),
    ("voltage low", true),
    ("hot", true),
    ("charging", false),
    ("discharging", false),
    ("learn cycle requested", false),
    ("learn cycle active", false),
    ("learn cycle failed", true),
    ("learn cycle timed out", true),
    ("bus errors", true),
    ("to be replaced", true),
    ("capacity low", true),
    ("learn cycle required", false),
];

/// The place of a drive in the list of all: its number, and whether it is a disk.
pub(crate) struct Listed {
    pub number: u16,
    pub is_disk: bool,
}

/// `struct megasas_ctrl_info`
pub(crate) fn controller(info: &[u8]) -> Option<RaidController> {
    let count = |at: usize| le16(info, at).map(u64::from);
    let components = info.get(184..)?.chunks_exact(72).take(usize::try_from(le32(info, 180)?).ok()?.min(8));
    let is_firmware = |component: &&[u8]| component.starts_with(b"APP");
    let firmware = components.into_iter().find(is_firmware).and_then(|component| text(component.get(8..40)?));
    Some(RaidController {
        model: text(info.get(0x540..0x590)?),
        serial: text(info.get(0x590..0x5b0)?),
        firmware_version: firmware,
        package_version: text(info.get(0x640..0x6a0)?),
        memory_bytes: count(0x5d0).filter(|mib| *mib > 0).map(|mib| mib << 20),
        memory_corrected_errors: count(0x5d4),
        memory_uncorrected_errors: count(0x5d6),
        temperature_celsius: info.get(0x7c9).copied().filter(|celsius| is_temperature(*celsius)),
        ..RaidController::default()
    })
}

/// The answer of `MR_DCMD_BBU_GET_STATUS`; `None` without a battery.
pub(crate) fn battery(status: &[u8]) -> Option<RaidBattery> {
    let state = le32(status, 8)?;
    let kind = *status.first()?;
    let is_bad = CONDITIONS.iter().enumerate().any(|(bit, (_, bad))| *bad && state >> bit & 1 == 1);
    // One with a gauge tells its state of health itself.
    let has_gauge = kind == 2;
    (kind != 0).then(|| RaidBattery {
        kind: Some(match kind {
            1 => "iBBU".to_owned(),
            2 => "BBU".to_owned(),
            other => other.to_string(),
        }),
        is_healthy: Some(!is_bad && (!has_gauge || status.get(42).is_some_and(|good| *good != 0))),
        conditions: words(state),
        charge_percent: le16(status, 34)
            .and_then(|percent| u8::try_from(percent).ok())
            .filter(|percent| *percent <= 100),
        voltage_millivolts: le16(status, 2).map(u32::from).filter(|voltage| *voltage > 0),
        temperature_celsius: le16(status, 6)
            .and_then(|celsius| u8::try_from(celsius).ok())
            .filter(|celsius| is_temperature(*celsius)),
    })
}

fn words(state: u32) -> Vec<String> {
    let set = CONDITIONS.iter().enumerate().filter(|(bit, _)| state >> bit & 1 == 1);
    set.map(|(_, (name, _))| (*name).to_owned()).collect()
}

/// `struct MR_PD_LIST`
pub(crate) fn drives(list: &[u8]) -> Vec<Listed> {
    let count = le32(list, 4).and_then(|count| usize::try_from(count).ok()).unwrap_or(0).min(MAX_DRIVES);
    let entries = list.get(8..).unwrap_or_default().chunks_exact(24).take(count);
    entries.filter_map(|entry| Some(Listed { number: le16(entry, 0)?, is_disk: *entry.get(6)? == 0 })).collect()
}

/// `struct MR_PD_INFO` of the drive of that number.
pub(crate) fn drive(info: &[u8], number: u16) -> Option<RaidDrive> {
    // Some answer for another drive than was asked for.
    if le16(info, 0)? != number {
        return None;
    }
    let inquiry = info.get(4..100)?;
    let kind = le16(info, 188)?;
    let block = le16(info, 404).map(u64::from).filter(|bytes| *bytes >= SECTOR_BYTES).unwrap_or(SECTOR_BYTES);
    let is_ssd = info.get(370) == Some(&1);
    Some(RaidDrive {
        number: number.into(),
        bay: bay(le16(info, 256)?, *info.get(259)?),
        vendor: text(inquiry.get(8..16)?),
        model: text(inquiry.get(16..32)?),
        firmware_version: text(inquiry.get(32..36)?),
        wwn: disks::naa(info.get(100..164)?),
        transport: ["scsi", "sas", "sata", "fc", "nvme"]
            .get(usize::from(kind >> 12).wrapping_sub(1))
            .map(|name| (*name).to_owned()),
        medium: is_ssd.then(|| "ssd".to_owned()),
        rotation_rpm: is_ssd.then_some(0),
        size_bytes: le64(info, 232).and_then(|blocks| blocks.checked_mul(block)).filter(|bytes| *bytes > 0),
        state: drive_state(le16(info, 184)?).map(str::to_owned),
        is_foreign: Some(kind >> 4 & 1 == 1),
        speed_mbps: mbps(*info.get(187)?),
        max_speed_mbps: mbps(*info.get(167)?),
        media_errors: le32(info, 168).map(u64::from),
        other_errors: le32(info, 172).map(u64::from),
        predicted_failures: le32(info, 176).map(u64::from),
        temperature_celsius: info.get(402).copied().filter(|celsius| is_temperature(*celsius)),
        ..RaidDrive::default()
    })
}

/// Enclosure and slot.
fn bay(enclosure: u16, slot: u8) -> Option<String> {
    match (enclosure, slot) {
        (_, NO_SLOT) => None,
        (NO_ENCLOSURE, slot) => Some(slot.to_string()),
        (enclosure, slot) => Some(format!("{enclosure}:{slot}")),
    }
}

fn drive_state(state: u16) -> Option<&'static str> {
    Some(match state {
        0x00 => "unconfigured good",
        0x01 => "unconfigured bad",
        0x02 => "hot spare",
        0x10 => "offline",
        0x11 => "failed",
        0x14 => "rebuilding",
        0x18 => "online",
        0x20 => "copying back",
        0x40 => "not in a volume",
        _ => return None,
    })
}

fn mbps(code: u8) -> Option<u32> {
    [1500, 3000, 6000, 12_000, 22_500].get(usize::from(code.checked_sub(1)?)).copied()
}

/// `struct MR_LD_LIST`: the volumes' numbers.
pub(crate) fn volumes(list: &[u8]) -> Vec<u8> {
    let count = le32(list, 0).and_then(|count| usize::try_from(count).ok()).unwrap_or(0).min(MAX_VOLUMES);
    list.get(8..).unwrap_or_default().chunks_exact(16).take(count).filter_map(|entry| entry.first().copied()).collect()
}

/// The answer of `MR_DCMD_LD_GET_INFO`, with the bays of each array of drives.
pub(crate) fn volume(info: &[u8], number: u8, arrays: &BTreeMap<u16, Vec<String>>) -> Option<RaidVolume> {
    let byte = |at: usize| info.get(at).copied();
    let depth = byte(37)?;
    let spans = (0..SPANS.min(usize::from(depth).max(1))).filter_map(|span| le16(info, 64 + 24 * span + 16));
    let mut drives = Vec::new();
    for bay in spans.filter_map(|span| arrays.get(&span)).flatten() {
        if !drives.contains(bay) {
            drives.push(bay.clone());
        }
    }
    let write = if byte(23)? & 1 == 1 { "write back" } else { "write through" };
    Some(RaidVolume {
        number: number.into(),
        name: text(info.get(4..20)?),
        level: level(byte(32)?, depth),
        state: ["offline", "partially degraded", "degraded", "optimal"]
            .get(usize::from(byte(38)?))
            .map(|state| (*state).to_owned()),
        is_consistent: Some(byte(40)? != 0),
        size_bytes: le64(info, 256)?.checked_mul(SECTOR_BYTES),
        stripe_bytes: SECTOR_BYTES.checked_shl(byte(35)?.into()).filter(|bytes| *bytes <= 1 << 30),
        write_cache: Some(write.to_owned()),
        drives,
        ..RaidVolume::default()
    })
}

/// Level of each span (DDF 2.0, 4.2.1), and whether there are several.
fn level(primary: u8, depth: u8) -> Option<String> {
    let name = match primary {
        0 | 1 | 3..=6 => primary.to_string(),
        0x11 => "1E".to_owned(),
        _ => return None,
    };
    Some(format!("RAID {name}{}", if depth > 1 { "0" } else { "" }))
}

/// The answer of `MR_DCMD_CFG_READ`: the bays of the drives of each array, by its number.
pub(crate) fn arrays(configuration: &[u8], bays: &BTreeMap<u16, String>) -> BTreeMap<u16, Vec<String>> {
    let mut arrays = BTreeMap::new();
    let (Some(count), Some(len)) = (le16(configuration, 4), le16(configuration, 6)) else { return arrays };
    let rest = configuration.get(CONFIGURATION_HEADER..).unwrap_or_default();
    for array in rest.chunks_exact(usize::from(len).max(1)).take(count.into()) {
        let (Some(rows), Some(number)) = (array.get(8), le16(array, 10)) else { continue };
        let drives = array.get(32..).unwrap_or_default().chunks_exact(8).take(usize::from(*rows).min(ROWS));
        let bay = |drive: &[u8]| le16(drive, 0).and_then(|number| bays.get(&number)).cloned();
        arrays.insert(number, drives.filter_map(bay).collect());
    }
    arrays
}

fn is_temperature(celsius: u8) -> bool {
    celsius > 0 && celsius < 200
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = kernel::bytes::text(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads the bytes as each answer of a controller.
pub(crate) fn fuzz(answer: &[u8]) {
    let bays = drives(answer).into_iter().map(|drive| (drive.number, drive.number.to_string())).collect();
    let arrays = arrays(answer, &bays);
    let number = le16(answer, 0).unwrap_or(0);
    let _ = (controller(answer), battery(answer), drive(answer, number), volumes(answer), volume(answer, 0, &arrays));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_controller() {
        let found = controller(&samples::controller()).unwrap();
        let expected = RaidController {
            model: Some("PERC H740P Mini".to_owned()),
            serial: Some("23A01PK".to_owned()),
            firmware_version: Some("4.680.00-8519".to_owned()),
            package_version: Some("51.16.0-4076".to_owned()),
            memory_bytes: Some(8 << 30),
            memory_corrected_errors: Some(2),
            memory_uncorrected_errors: Some(0),
            temperature_celsius: Some(61),
            ..RaidController::default()
        };
        assert_eq!(found, expected);
        // Old ones end before the temperature, none before the package.
        assert_eq!(controller(&samples::controller()[..0x6a0]).unwrap().temperature_celsius, None);
        assert_eq!(controller(&samples::controller()[..0x690]), None);
    }

    #[test]
    fn batteries() {
        let found = battery(&samples::battery(1, 1 << 3, 87, false)).unwrap();
        let expected = RaidBattery {
            kind: Some("iBBU".to_owned()),
            is_healthy: Some(true),
            conditions: vec!["charging".to_owned()],
            charge_percent: Some(87),
            voltage_millivolts: Some(3921),
            temperature_celsius: Some(34),
        };
        assert_eq!(found, expected);
        assert_eq!(battery(&samples::battery(0, 1, 0, false)), None);
        let healthy = |kind, state, good| battery(&samples::battery(kind, state, 200, good)).unwrap();
        assert_eq!((healthy(2, 0, true).is_healthy, healthy(2, 0, false).is_healthy), (Some(true), Some(false)));
        let missing = healthy(4, 1 | 1 << 10, false);
        assert_eq!(
            (missing.is_healthy, missing.kind.as_deref(), missing.charge_percent),
            (Some(false), Some("4"), None)
        );
        assert_eq!(missing.conditions, ["missing", "to be replaced"]);
    }

    #[test]
    fn drives_behind_it() {
        let listed: Vec<_> = drives(&samples::drives(&[8, 9])).into_iter().map(|d| (d.number, d.is_disk)).collect();
        assert_eq!(listed, [(8, true), (9, true), (252, false)]);
        let found = drive(&samples::drive(8, 3, 2, 0x18), 8).unwrap();
        let expected = RaidDrive {
            bay: Some("32:3".to_owned()),
            number: 8,
            vendor: Some("SEAGATE".to_owned()),
            model: Some("ST1000NX0453".to_owned()),
            firmware_version: Some("NS02".to_owned()),
            wwn: Some("0x5000c500a1b2c3d4".to_owned()),
            transport: Some("sas".to_owned()),
            size_bytes: Some(1_000_204_886_016),
            state: Some("online".to_owned()),
            is_foreign: Some(false),
            speed_mbps: Some(6000),
            max_speed_mbps: Some(12_000),
            media_errors: Some(3),
            other_errors: Some(5),
            predicted_failures: Some(1),
            temperature_celsius: Some(29),
            ..RaidDrive::default()
        };
        assert_eq!(found, expected);
        let ssd = drive(&samples::drive(9, 255, 3, 0x11), 9).unwrap();
        assert_eq!((ssd.medium.as_deref(), ssd.rotation_rpm, ssd.bay), (Some("ssd"), Some(0), None));
        assert_eq!((ssd.state.as_deref(), ssd.transport.as_deref()), (Some("failed"), Some("sata")));
        assert_eq!(drive(&samples::drive(9, 0, 3, 0x11), 8), None);
    }

    #[test]
    fn volumes_and_the_drives_they_are_on() {
        let bays = [8, 9, 10, 11].map(|number| (number, format!("32:{}", number - 8))).into();
        let arrays = arrays(&samples::configuration(&[(0, &[8, 9]), (4, &[10, 11, 12])]), &bays);
        assert_eq!(volumes(&samples::volumes(&[0, 239])), [0, 239]);
        let found = volume(&samples::volume(1, 3, &[0, 4]), 0, &arrays).unwrap();
        let expected = RaidVolume {
            name: Some("data".to_owned()),
            level: Some("RAID 10".to_owned()),
            state: Some("optimal".to_owned()),
            is_consistent: Some(true),
            size_bytes: Some(1_999_844_147_200),
            stripe_bytes: Some(64 << 10),
            write_cache: Some("write back".to_owned()),
            drives: ["32:0", "32:1", "32:2", "32:3"].map(str::to_owned).into(),
            ..RaidVolume::default()
        };
        assert_eq!(found, expected);
        let degraded = volume(&samples::volume(5, 2, &[7]), 1, &arrays).unwrap();
        assert_eq!((degraded.level.as_deref(), degraded.state.as_deref()), (Some("RAID 5"), Some("degraded")));
        assert_eq!((degraded.drives.len(), volume(&samples::volume(9, 0, &[0]), 2, &arrays).unwrap().level), (0, None));
    }

    proptest! {
        #[test]
        fn noise_never_panics(answer in prop::collection::vec(any::<u8>(), 0..2100)) {
            fuzz(&answer);
        }

        #[test]
        fn nor_do_structures_with_a_byte_of_it(at in 0..4096usize, byte: u8) {
            let whole = [
                samples::controller(), samples::battery(2, 0, 1, true), samples::drives(&[1, 2]), samples::drive(1, 1, 2, 0),
                samples::volumes(&[1]), samples::volume(5, 3, &[1]), samples::configuration(&[(1, &[1, 2])]),
            ];
            for mut answer in whole {
                if let Some(place) = answer.get_mut(at) {
                    *place = byte;
                }
                fuzz(&answer);
            }
        }
    }
}
