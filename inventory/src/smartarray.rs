//! What a Smart Array controller says of itself, its volumes and its drives (BMIC and CISS commands; drivers/scsi/hpsa_cmd.h,
//! drivers/scsi/smartpqi/smartpqi.h). Pure; the bytes are hostile.

use crate::raid::{RaidController, RaidDrive, RaidVolume};
use kernel::bytes::{be32, le16, le32, le64};

/// More than any controller has.
const MAX_DRIVES: usize = 1024;
const MAX_VOLUMES: usize = 256;
const HEADER_BYTES: usize = 8;
/// Whether the controller has the long form of its firmware's version.
const LONG_VERSION: u32 = 1 << 29;

/// The answer of BMIC IDENTIFY CONTROLLER, with that of SENSE SUBSYSTEM INFORMATION.
pub(crate) fn controller(info: &[u8], subsystem: &[u8]) -> Option<RaidController> {
    let short = text(info.get(5..9)?);
    let long = le32(info, 286).filter(|flags| flags & LONG_VERSION != 0).and_then(|_| text(info.get(325..357)?));
    Some(RaidController {
        model: text(info.get(208..224)?),
        serial: subsystem.get(44..60).and_then(text),
        firmware_version: long.or(short),
        ..RaidController::default()
    })
}

/// Numbers of the disks among the entries of REPORT PHYSICAL LUNS, in its extended form.
pub(crate) fn drives(list: &[u8]) -> Vec<u16> {
    let is_disk = |entry: &&[u8]| entry.get(17).is_some_and(|flags| flags & 1 == 0);
    // Bus and target of the second level; buses count from 1 on.
    let number = |entry: &[u8]| {
        let [target, bus] = *entry.get(6..8)?.first_chunk()?;
        Some(u16::from((bus & 0x3f).checked_sub(1)?) << 8 | u16::from(target))
    };
    entries(list, 24).take(MAX_DRIVES).filter(is_disk).filter_map(number).collect()
}

/// Numbers of the volumes of REPORT LOGICAL LUNS.
pub(crate) fn volumes(list: &[u8]) -> Vec<u8> {
    entries(list, 8).take(MAX_VOLUMES).filter_map(|entry| entry.first().copied()).collect()
}

fn entries(list: &[u8], len: usize) -> impl Iterator<Item = &[u8]> {
    let bytes = be32(list, 0).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let body = list.get(HEADER_BYTES..).unwrap_or_default();
    body.get(..bytes).unwrap_or(body).chunks_exact(len)
}

/// The answer of BMIC IDENTIFY PHYSICAL DEVICE.
pub(crate) fn drive(info: &[u8], number: u16) -> Option<RaidDrive> {
    let block = le16(info, 2).map(u64::from).filter(|bytes| *bytes > 0).unwrap_or(512);
    let blocks = le64(info, 122).filter(|blocks| *blocks > 0).or_else(|| le32(info, 4).map(u64::from));
    let (reason, flags) = (*info.get(102)?, *info.get(104)?);
    let is_set = |bit: u8| flags >> bit & 1 == 1;
    let rpm = le32(info, 116).and_then(|rpm| u16::try_from(rpm).ok());
    let place = (text(info.get(112..114)?), info.get(114)?, info.get(115)?);
    // Vendor and model are one text.
    let name = text(info.get(12..52)?);
    Some(RaidDrive {
        number: number.into(),
        bay: place.0.map(|connector| format!("{connector}:{}:{}", place.1, place.2)),
        model: name,
        serial: text(info.get(52..92)?),
        firmware_version: text(info.get(92..100)?),
        transport: match info.get(120) {
            Some(0) => Some("scsi"),
            Some(1) => Some("sata"),
            Some(2) => Some("sas"),
            Some(9) => Some("nvme"),
            _ => None,
        }
        .map(str::to_owned),
        rotation_rpm: rpm.map(|rpm| if rpm == 1 { 0 } else { rpm }).filter(|rpm| *rpm == 0 || *rpm > 1024),
        medium: rpm.map(|rpm| if rpm <= 1 { "ssd" } else { "hdd" }.to_owned()),
        size_bytes: blocks.and_then(|blocks| blocks.checked_mul(block)).filter(|bytes| *bytes > 0),
        state: Some(
            match () {
                () if reason != 0 => "failed",
                () if is_set(6) => "hot spare",
                () if is_set(5) => "online",
                () => "not in a volume",
            }
            .to_owned(),
        ),
        predicted_failures: is_set(0).then(|| is_set(3).into()),
        temperature_celsius: info.get(1792).copied().filter(|celsius| *celsius > 0 && *celsius < 200),
        ..RaidDrive::default()
    })
}

/// The answers of BMIC IDENTIFY LOGICAL DRIVE and SENSE LOGICAL DRIVE STATUS.
pub(crate) fn volume(info: &[u8], status: &[u8], number: u8) -> Option<RaidVolume> {
    let block = le16(info, 0).map(u64::from).filter(|bytes| *bytes > 0)?;
    let blocks = le64(info, 94).filter(|blocks| *blocks > 0).or_else(|| le32(info, 2).map(u64::from))?;
    let level = ["0", "4", "1", "5", "51", "6", "1 of three copies"].get(usize::from(*info.get(22)?));
    Some(RaidVolume {
        number: number.into(),
        name: text(info.get(30..94)?),
        level: level.map(|level| format!("RAID {level}")),
        state: status.first().and_then(|status| state(*status)).map(str::to_owned),
        size_bytes: blocks.checked_mul(block),
        ..RaidVolume::default()
    })
}

fn state(status: u8) -> Option<&'static str> {
    Some(match status {
        0 => "optimal",
        1 => "failed",
        2 => "not configured",
        3 => "degraded",
        4 => "ready for recovery",
        5 => "recovering",
        6 => "on a wrong drive",
        7 => "on a missing drive",
        10 => "expanding",
        11 => "becoming ready",
        12 => "queued for expansion",
        _ => return None,
    })
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = kernel::bytes::text(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

/// Serial numbers and names that must be removed from captures, of the answer stored under that name.
pub(crate) fn secrets(name: &str, answer: &[u8]) -> Vec<String> {
    let found = |range: std::ops::Range<usize>| answer.get(range).and_then(text).unwrap_or_default();
    match name.split('-').nth(1) {
        Some("subsystem") => vec![found(44..60)],
        Some("drive") => vec![found(52..92), kernel::hex::lower(answer.get(142..150).unwrap_or_default())],
        Some("drives") => entries(answer, 24).filter_map(|entry| entry.get(8..16)).map(kernel::hex::lower).collect(),
        _ => Vec::new(),
    }
}

/// Reads the bytes as each answer of a controller.
pub(crate) fn fuzz(answer: &[u8]) {
    let _ = (controller(answer, answer), drives(answer), volumes(answer), drive(answer, 0), volume(answer, answer, 0));
    for name in ["smartarray-subsystem", "smartarray-drive-0", "smartarray-drives"] {
        secrets(name, answer);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn structure(len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (at, field) in fields {
            bytes[*at..*at + field.len()].copy_from_slice(field);
        }
        bytes
    }

    /// Controller and subsystem, a SAS drive and an enclosure, a volume and its status.
    pub(crate) fn answers() -> [Vec<u8>; 7] {
        let long = &LONG_VERSION.to_le_bytes()[..];
        [
            structure(512, &[(5, b"3.53"), (208, b"P408i-a SR Gen10"), (286, long), (325, b"03.01.04.072")]),
            structure(512, &[(44, b"PEYHC0DRHBV4KH  ")]),
            structure(
                64,
                &[
                    (0, &48u32.to_be_bytes()),
                    (8, &[0, 0, 0, 0, 0, 0, 3, 1]),
                    (16, &0x5000_c500_a1b2_c3d4_u64.to_be_bytes()),
                    (32, &[0, 0, 0, 0, 0, 0, 9, 1]),
                    (49, &[1]),
                ],
            ),
            structure(
                2560,
                &[
                    (2, &512u16.to_le_bytes()),
                    (12, b"HP      EG001200JWJNQ"),
                    (52, b"WFK0ABCD"),
                    (92, b"HPD2"),
                    (104, &[1 | 1 << 3 | 1 << 5]),
                    (112, b"1I"),
                    (114, &[1, 4]),
                    (116, &10_500u32.to_le_bytes()),
                    (120, &[2]),
                    (122, &2_344_225_968_u64.to_le_bytes()),
                    (142, &0x5000_c500_a1b2_c3d4_u64.to_be_bytes()),
                    (1792, &[31]),
                ],
            ),
            structure(16, &[(0, &8u32.to_be_bytes()), (11, &[0x40])]),
            structure(
                512,
                &[(0, &512u16.to_le_bytes()), (22, &[2]), (30, b"boot"), (94, &2_344_160_432_u64.to_le_bytes())],
            ),
            structure(512, &[(0, &[3])]),
        ]
    }

    #[test]
    fn a_controller_with_a_volume_and_a_drive() {
        let [info, subsystem, physical, disk, logical, identity, status] = answers();
        let found = controller(&info, &subsystem).unwrap();
        assert_eq!(
            (found.model.as_deref(), found.serial.as_deref()),
            (Some("P408i-a SR Gen10"), Some("PEYHC0DRHBV4KH"))
        );
        assert_eq!(found.firmware_version.as_deref(), Some("03.01.04.072"));
        assert_eq!(controller(&info[..220], &[]), None);
        assert_eq!((drives(&physical), volumes(&logical)), (vec![3], vec![0]));
        let expected = RaidDrive {
            bay: Some("1I:1:4".to_owned()),
            number: 3,
            model: Some("HP      EG001200JWJNQ".to_owned()),
            serial: Some("WFK0ABCD".to_owned()),
            firmware_version: Some("HPD2".to_owned()),
            transport: Some("sas".to_owned()),
            medium: Some("hdd".to_owned()),
            rotation_rpm: Some(10_500),
            size_bytes: Some(1_200_243_695_616),
            state: Some("online".to_owned()),
            predicted_failures: Some(1),
            temperature_celsius: Some(31),
            ..RaidDrive::default()
        };
        assert_eq!(drive(&disk, 3).unwrap(), expected);
        let expected = RaidVolume {
            name: Some("boot".to_owned()),
            level: Some("RAID 1".to_owned()),
            state: Some("degraded".to_owned()),
            size_bytes: Some(1_200_210_141_184),
            ..RaidVolume::default()
        };
        assert_eq!(volume(&identity, &status, 0).unwrap(), expected);
        assert_eq!(volume(&identity, &[], 0).unwrap().state, None);
    }

    #[test]
    fn drives_of_other_states() {
        let state = |at: usize, byte: u8| {
            let [_, _, _, mut disk, ..] = answers();
            disk[104] = 0;
            disk[at] = byte;
            drive(&disk, 3).unwrap().state.unwrap()
        };
        assert_eq!([state(104, 0), state(104, 1 << 6), state(102, 0x14)], ["not in a volume", "hot spare", "failed"]);
    }

    proptest! {
        #[test]
        fn noise_never_panics(answer in prop::collection::vec(any::<u8>(), 0..2600)) {
            fuzz(&answer);
        }
    }
}
