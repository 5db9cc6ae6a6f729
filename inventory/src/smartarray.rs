//! What a Smart Array controller says of itself, its volumes and its drives (BMIC and CISS commands; drivers/scsi/hpsa_cmd.h,
//! drivers/scsi/smartpqi/smartpqi.h). Pure; the bytes are hostile.

use crate::raid::{RaidBattery, RaidController, RaidDrive, RaidVolume};
use kernel::bytes::{be32, le16, le32, le64};
use std::collections::BTreeMap;

/// More than any controller has.
const MAX_DRIVES: usize = 1024;
const MAX_VOLUMES: usize = 256;
const HEADER_BYTES: usize = 8;
/// Whether the controller has the long form of its firmware's version.
const LONG_VERSION: u32 = 1 << 29;

/// Where the list of drives of a volume begins, and the most that it has.
const MAP_HEADER: usize = 64;
const MAP_DRIVES: usize = 256;
/// Bits of a cache's status.
const CACHE_ENABLED: u32 = 1;
const CACHE_DISABLED_FOR_NOW: u32 = 1 << 1;
const CACHE_DISABLED: u32 = 1 << 2 | 1 << 30;
const HAS_CAPACITOR: u32 = 1 << 16;
const BATTERY_FAULT: u32 = 1 << 14;
/// Bits that tell of a fault or a loss, with their meaning.
const CACHE_PROBLEMS: [(u32, &str); 7] = [
    (4, "data may have been lost at a reset"),
    (8, "data could not be written to the drives"),
    (9, "too much data could not be written to the drives"),
    (10, "too many memory errors"),
    (11, "data were lost"),
    (14, "the battery cannot be switched on"),
    (15, "the board does not fit the cache module"),
];
/// Why a cache is disabled, by code.
const REASONS: [(u16, &str); 15] = [
    (0, "its data belong to another configuration"),
    (1, "battery charge low"),
    (2, "disabled by a user"),
    (3, "no resources"),
    (4, "cache module missing"),
    (5, "in use by an expansion"),
    (6, "in use by a snapshot"),
    (7, "battery charge of the other controller low"),
    (8, "size unlike that of the other controller"),
    (9, "fault seen by the other controller"),
    (12, "capacitor charge low"),
    (13, "flash is being erased"),
    (16, "copies differ"),
    (17, "data could not be read"),
    (18, "data could not be written"),
];
/// Those of them that are the battery's.
const BATTERY_REASONS: [u16; 2] = [1, 12];

/// The place of a drive in the list of all: its number, and the handle that volumes know it by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub number: u16,
    pub handle: Option<u32>,
}

/// Which volumes write through a cache.
pub(crate) struct Cache {
    volumes: u32,
    is_enabled: bool,
}

impl Cache {
    /// `None` for numbers that have no bit.
    pub(crate) fn of_volume(&self, number: u8) -> Option<&'static str> {
        let has = self.volumes.checked_shr(number.into()).filter(|_| number < 32)? & 1 == 1;
        Some(if has && self.is_enabled { "write back" } else { "write through" })
    }
}

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

/// The answer of BMIC SENSE CACHE CONFIGURATION: memory, state and battery of the cache, into the controller's facts.
pub(crate) fn take_cache(controller: &mut RaidController, cache: &[u8]) -> Option<Cache> {
    let (status, reason) = (le32(cache, 32)?, le16(cache, 36)?);
    let mib = |at: usize| le16(cache, at).filter(|mib| *mib > 0).map(|mib| u64::from(mib) << 20);
    let is_configured = *cache.get(8)? == 0;
    let is_disabled = status & (CACHE_DISABLED_FOR_NOW | CACHE_DISABLED) != 0;
    let batteries = le16(cache, 40)?;
    let failed_batteries = le16(cache, 208)?;
    controller.memory_bytes = mib(38);
    controller.cache_read_bytes = mib(4).filter(|_| is_configured);
    controller.cache_write_bytes = mib(6).filter(|_| is_configured);
    controller.cache_state = Some(
        match () {
            () if !is_configured => "not configured",
            () if status & CACHE_DISABLED != 0 => "disabled for good",
            () if is_disabled => "disabled for now",
            () if status & CACHE_ENABLED != 0 => "enabled",
            () => "not enabled",
        }
        .to_owned(),
    );
    let why = || REASONS.iter().find(|(code, _)| *code == reason);
    let reasons = why().filter(|_| is_disabled).map(|(_, why)| (*why).to_owned());
    let problems = CACHE_PROBLEMS.iter().filter(|(bit, _)| status >> bit & 1 == 1).map(|(_, name)| (*name).to_owned());
    controller.cache_problems = reasons.into_iter().chain(problems).collect();
    controller.battery = (batteries > 0 || status & HAS_CAPACITOR != 0).then(|| {
        let is_low = is_disabled && BATTERY_REASONS.contains(&reason);
        let conditions =
            [(failed_batteries != 0, "failed"), (is_low, "charge low"), (status & BATTERY_FAULT != 0, "not on")];
        let conditions = conditions.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned());
        let conditions: Vec<String> = conditions.collect();
        RaidBattery {
            kind: Some(if status & HAS_CAPACITOR != 0 { "capacitor" } else { "battery" }.to_owned()),
            is_healthy: Some(conditions.is_empty()),
            conditions,
            ..RaidBattery::default()
        }
    });
    Some(Cache { volumes: le32(cache, 0)?, is_enabled: is_configured && !is_disabled && status & CACHE_ENABLED != 0 })
}

/// The answer of CISS GET RAID MAP: bytes of a stripe on one drive, and the bays of the drives of the volume, by their handles.
pub(crate) fn map(map: &[u8], bays: &BTreeMap<u32, String>) -> Option<(Option<u64>, Vec<String>)> {
    let counts = [36, 38, 40, 42].map(|at| le16(map, at).map(usize::from));
    let [data, others, rows, layouts] = counts;
    let count = data?.checked_add(others?)?.checked_mul(rows?)?.checked_mul(layouts?)?.min(MAP_DRIVES);
    let mut drives: Vec<String> = Vec::new();
    for entry in map.get(MAP_HEADER..).unwrap_or_default().chunks_exact(8).take(count) {
        let Some(bay) = le32(entry, 0).and_then(|handle| bays.get(&handle)) else { continue };
        if !drives.contains(bay) {
            drives.push(bay.clone());
        }
    }
    let stripe = u64::from(le16(map, 18)?).checked_mul(le32(map, 4)?.into()).filter(|bytes| *bytes > 0);
    Some((stripe, drives))
}

/// The disks among the entries of REPORT PHYSICAL LUNS, in its extended form.
pub(crate) fn drives(list: &[u8]) -> Vec<Listed> {
    let is_disk = |entry: &&[u8]| entry.get(17).is_some_and(|flags| flags & 1 == 0);
    // Bus and target of the second level; buses count from 1 on.
    let listed = |entry: &[u8]| {
        let [target, bus] = *entry.get(6..8)?.first_chunk()?;
        let number = u16::from((bus & 0x3f).checked_sub(1)?) << 8 | u16::from(target);
        Some(Listed { number, handle: le32(entry, 20).filter(|handle| *handle > 0) })
    };
    entries(list, 24).take(MAX_DRIVES).filter(is_disk).filter_map(listed).collect()
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
    // A gauge of wear counts hours, and hundredths of a percent.
    let gauge = |at: usize| le16(info, at).filter(|_| le16(info, 1222).is_some_and(|flags| flags >> 10 & 1 == 1));
    let wwn = info.get(142..150).and_then(|bytes| bytes.first_chunk()).map(|bytes| u64::from_be_bytes(*bytes));
    Some(RaidDrive {
        wwn: wwn.filter(|wwn| matches!(wwn >> 60, 2 | 3 | 5)).map(|wwn| format!("0x{wwn:016x}")),
        used_percent: gauge(1860).and_then(|hundredths| u8::try_from(hundredths / 100).ok()),
        power_on_hours: gauge(1858).map(u64::from),

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
    let bays = drives(answer).into_iter().filter_map(|drive| Some((drive.handle?, drive.number.to_string()))).collect();
    let _ =
        (controller(answer, answer), volumes(answer), drive(answer, 0), volume(answer, answer, 0), map(answer, &bays));
    if let Some(cache) = take_cache(&mut RaidController::default(), answer) {
        cache.of_volume(answer.first().copied().unwrap_or(0));
    }
    for name in ["smartarray-subsystem", "smartarray-drive-0", "smartarray-drives"] {
        secrets(name, answer);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::structure;
    use proptest::prelude::*;

    /// The map of a mirror of drives with those handles, in stripes of 256 KiB.
    pub(crate) fn raid_map(handles: &[u32]) -> Vec<u8> {
        let mut map = structure(64, &[(4, &512u32.to_le_bytes()), (18, &[0, 2]), (36, &[1, 0, 1, 0, 1, 0, 1])]);
        handles.iter().for_each(|handle| map.extend(u64::from(*handle).to_le_bytes()));
        map.resize(MAP_HEADER + 8 * MAP_DRIVES, 0);
        map
    }

    /// A cache of 4 GiB, which the first volume uses.
    pub(crate) fn cache(status: u32, reason: u16) -> Vec<u8> {
        structure(
            512,
            &[
                (0, &[1]),
                (4, &409u16.to_le_bytes()),
                (6, &3687u16.to_le_bytes()),
                (32, &status.to_le_bytes()),
                (36, &reason.to_le_bytes()),
                (38, &4096u16.to_le_bytes()),
                (40, &[1]),
            ],
        )
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
                    (28, &[0x21]),
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
        assert_eq!((drives(&physical), volumes(&logical)), (vec![Listed { number: 3, handle: Some(0x21) }], vec![0]));
        let expected = RaidDrive {
            bay: Some("1I:1:4".to_owned()),
            wwn: Some("0x5000c500a1b2c3d4".to_owned()),
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

    #[test]
    fn caches_and_what_keeps_them() {
        let taken = |status, reason| {
            let mut controller = RaidController::default();
            let cache = take_cache(&mut controller, &cache(status, reason)).unwrap();
            (controller, cache.of_volume(0), cache.of_volume(1), cache.of_volume(32))
        };
        let (found, first, second, beyond) = taken(CACHE_ENABLED | HAS_CAPACITOR, 0);
        assert_eq!((first, second, beyond), (Some("write back"), Some("write through"), None));
        assert_eq!((found.memory_bytes, found.cache_write_bytes), (Some(4 << 30), Some(3687 << 20)));
        assert_eq!((found.cache_state.as_deref(), found.cache_problems.len()), (Some("enabled"), 0));
        assert_eq!(found.battery.unwrap().is_healthy, Some(true));

        let (found, first, ..) = taken(CACHE_ENABLED | CACHE_DISABLED_FOR_NOW | HAS_CAPACITOR, 12);
        assert_eq!((first, found.cache_state.as_deref()), (Some("write through"), Some("disabled for now")));
        let battery = found.battery.unwrap();
        assert_eq!((battery.is_healthy, battery.conditions.join(" ")), (Some(false), "charge low".to_owned()));
        assert_eq!(found.cache_problems, ["capacitor charge low"]);

        let (found, ..) = taken(1 << 2 | 1 << 11, 99);
        assert_eq!(
            (found.cache_state.as_deref(), found.cache_problems.join(" ")),
            (Some("disabled for good"), "data were lost".to_owned())
        );
        let mut none = cache(0, 0);
        (none[8], none[40]) = (1, 0);
        let mut controller = RaidController::default();
        assert!(take_cache(&mut controller, &none[..209]).is_none());
        take_cache(&mut controller, &none).unwrap();
        assert_eq!((controller.cache_state.as_deref(), controller.battery), (Some("not configured"), None));
    }

    #[test]
    fn a_volume_tells_its_drives_by_their_handles() {
        let bays = [(0x21, "1I:1:4"), (0x22, "1I:1:5"), (0x23, "1I:1:6")].map(|(handle, bay)| (handle, bay.to_owned()));
        let found = |answer: &[u8]| map(answer, &bays.clone().into()).unwrap();
        assert_eq!(
            found(&raid_map(&[0x22, 0x21, 0x23])),
            (Some(256 << 10), ["1I:1:5", "1I:1:4"].map(str::to_owned).into())
        );
        // The same drive in each row, drives that are not listed, counts beyond the end.
        let mut long = raid_map(&[0x22, 0x22, 0x99]);
        long[36..44].fill(0xff);
        assert_eq!(found(&long).1, ["1I:1:5"]);
        assert_eq!(map(&long[..43], &BTreeMap::new()), None);
        assert_eq!(found(&long[..66]).1.len(), 0);
    }

    #[test]
    fn wear_counts_only_with_a_gauge() {
        let [_, _, _, mut disk, ..] = answers();
        disk[1858..1862].copy_from_slice(&[0x10, 0x27, 0xf4, 1]);
        let gauge = |disk: &[u8]| drive(disk, 3).map(|drive| (drive.power_on_hours, drive.used_percent)).unwrap();
        assert_eq!(gauge(&disk), (None, None));
        disk[1223] = 1 << 2;
        assert_eq!(gauge(&disk), (Some(10_000), Some(5)));
    }

    proptest! {
        #[test]
        fn noise_never_panics(answer in prop::collection::vec(any::<u8>(), 0..2600)) {
            fuzz(&answer);
        }
    }
}
