//! What the firmware of a SAS adapter of the drivers `mpt2sas` and `mpt3sas` says of itself, its volumes and their drives
//! (drivers/scsi/mpt3sas/mpi/mpi2_cnfg.h). Pure; the bytes are hostile.

use crate::raid::{RaidDrive, RaidVolume};
use kernel::bytes::{le16, le32, le64};
use std::collections::BTreeMap;

#[cfg(test)]
pub(crate) mod samples;

/// Where a drive's inquiry data are, and their serial number.
const SERIAL: std::ops::Range<usize> = 0x2c..0x4c;
/// The longest list of drives of a volume.
const MAX_DRIVES: usize = 64;
const RESYNC: u32 = 1 << 16;
const INCONSISTENT: u32 = 1 << 7;

/// What the driver tells of an adapter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub address: String,
    pub firmware_version: String,
    pub bios_version: Option<String>,
}

/// `struct mpt3_ioctl_iocinfo`
pub(crate) fn info(info: &[u8]) -> Option<Info> {
    let version =
        |at: usize| le32(info, at).map(u32::to_be_bytes).map(|[a, b, c, d]| format!("{a:02}.{b:02}.{c:02}.{d:02}"));
    let (place, domain) = (le32(info, 84)?, le32(info, 88)?);
    let (bus, device, function) = (place >> 8 & 0xff, place & 0x1f, place >> 5 & 7);
    Some(Info {
        address: format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"),
        firmware_version: version(40)?,
        bios_version: version(44).filter(|version| version != "00.00.00.00"),
    })
}

/// Of the adapter's processor, and of its board, °C (IO Unit Page 7).
pub(crate) fn temperatures(page: &[u8]) -> [Option<u8>; 2] {
    [0x10, 0x14].map(|at| {
        let value = le16(page, at)?;
        let celsius = match page.get(at + 2)? {
            1 => (value.checked_sub(32)?).checked_mul(5)? / 9,
            2 => value,
            _ => return None,
        };
        u8::try_from(celsius).ok().filter(|celsius| *celsius > 0 && *celsius < 200)
    })
}

/// Pages one behind the other, each of which tells its length in words.
fn pages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = usize::from(*rest.get(1)?).checked_mul(4).filter(|len| *len > 0)?;
        let (page, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(page)
    })
}

/// Volumes with their handles and the numbers of their drives (RAID Volume Page 0).
pub(crate) fn volumes(all: &[u8]) -> Vec<(u16, RaidVolume, Vec<u8>)> {
    pages(all).filter_map(volume).collect()
}

fn volume(page: &[u8]) -> Option<(u16, RaidVolume, Vec<u8>)> {
    let (handle, flags) = (le16(page, 4)?, le32(page, 8)?);
    let block = le16(page, 0x1c).map(u64::from).filter(|bytes| *bytes > 0)?;
    let blocks = le64(page, 0x10)?.checked_add(1)?;
    let level = match page.get(7)? {
        0 => Some("RAID 0"),
        1 => Some("RAID 1E"),
        2 => Some("RAID 1"),
        5 => Some("RAID 10"),
        _ => None,
    };
    let state = match page.get(6)? {
        _ if flags & RESYNC != 0 => Some("resyncing"),
        0 => Some("missing"),
        1 => Some("failed"),
        2 => Some("initializing"),
        // The first one is that of a volume that can't be degraded.
        3 | 5 => Some("optimal"),
        4 => Some("degraded"),
        _ => None,
    };
    let count = usize::from(*page.get(0x24)?).min(MAX_DRIVES);
    let drives = page.get(0x28..).unwrap_or_default().chunks_exact(4).take(count);
    let volume = RaidVolume {
        number: handle.into(),
        level: level.map(str::to_owned),
        state: state.map(str::to_owned),
        is_consistent: Some(flags & INCONSISTENT == 0),
        size_bytes: blocks.checked_mul(block),
        stripe_bytes: le32(page, 0x18).and_then(|blocks| block.checked_mul(blocks.into())).filter(|bytes| *bytes > 0),
        write_cache: match page.get(0x0c)? & 3 {
            1 => Some("write through".to_owned()),
            2 => Some("write back".to_owned()),
            _ => None,
        },
        ..RaidVolume::default()
    };
    Some((handle, volume, drives.filter_map(|drive| drive.get(2).copied()).collect()))
}

/// RAID Volume Page 1.
pub(crate) fn name(page: &[u8]) -> Option<String> {
    text(page.get(0x20..0x30)?)
}

/// Drives of volumes and spares, with their handles (RAID Physical Disk Page 0).
pub(crate) fn drives(all: &[u8]) -> Vec<(u16, RaidDrive)> {
    pages(all).filter_map(drive).collect()
}

fn drive(page: &[u8]) -> Option<(u16, RaidDrive)> {
    let block = le16(page, 0x70).map(u64::from).filter(|bytes| *bytes > 0).unwrap_or(512);
    let state = match (*page.get(0x50)?, *page.get(0x51)?) {
        (0, _) => Some("not in a volume"),
        (1, _) => Some("not compatible"),
        (2, 1) => Some("missing"),
        (2, 3 | 6) => Some("failed"),
        (2, _) => Some("offline"),
        (3 | 7, _) => Some("online"),
        (4, _) => Some("hot spare"),
        (5, _) => Some("degraded"),
        (6, _) => Some("rebuilding"),
        _ => None,
    };
    let attributes = *page.get(0x53)?;
    let drive = RaidDrive {
        number: (*page.get(7)?).into(),
        vendor: text(page.get(0x10..0x18)?),
        model: text(page.get(0x18..0x28)?),
        firmware_version: text(page.get(0x28..0x2c)?),
        serial: text(page.get(SERIAL)?),
        transport: ["sata", "sas"].get(usize::from(attributes & 3).wrapping_sub(1)).map(|name| (*name).to_owned()),
        medium: ["hdd", "ssd"].get(usize::from(attributes >> 2 & 3).wrapping_sub(1)).map(|name| (*name).to_owned()),
        size_bytes: le64(page, 0x58)?.checked_add(1).and_then(|blocks| blocks.checked_mul(block)),
        state: state.map(str::to_owned),
        ..RaidDrive::default()
    };
    Some((le16(page, 4)?, drive))
}

/// Enclosure and slot, and the device's own name or, without one, its address (SAS Device Page 0).
pub(crate) fn device(page: &[u8]) -> Option<(String, Option<String>)> {
    let (slot, enclosure) = (le16(page, 8)?, le16(page, 10)?);
    let name = [0x24, 0x0c].into_iter().filter_map(|at| le64(page, at)).find(|name| *name > 0);
    Some((format!("{enclosure}:{slot}"), name.map(|name| format!("0x{name:016x}"))))
}

/// Channel and target that a volume has for the kernel.
pub(crate) fn place(answer: &[u8]) -> Option<(u32, u32)> {
    let place = (le32(answer, 0)?, le32(answer, 4)?);
    (place.0 != u32::MAX && place.1 != u32::MAX).then_some(place)
}

/// The bays of the drives of those numbers.
pub(crate) fn bays(numbers: &[u8], drives: &BTreeMap<u32, String>) -> Vec<String> {
    let mut bays: Vec<String> = Vec::new();
    for bay in numbers.iter().filter_map(|number| drives.get(&u32::from(*number))) {
        if !bays.contains(bay) {
            bays.push(bay.clone());
        }
    }
    bays
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = kernel::bytes::text(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

/// Serial numbers and names that must be removed from captures, of the answer stored under that name.
pub(crate) fn secrets(name: &str, answer: &[u8]) -> Vec<String> {
    let number = |at: usize| le64(answer, at).map_or(String::new(), |number| format!("{number:016x}"));
    match name.split('-').nth(1) {
        Some("drives") => pages(answer).filter_map(|page| page.get(SERIAL).and_then(text)).collect(),
        Some("device") => vec![number(0x0c), number(0x24)],
        // A volume's identifier is a text with its serial number.
        Some("name") => vec![number(0x30), answer.get(8..0x20).and_then(text).unwrap_or_default()],
        _ => Vec::new(),
    }
}

/// Reads the bytes as each answer of an adapter.
pub(crate) fn fuzz(answer: &[u8]) {
    let numbers = drives(answer).into_iter().map(|(handle, drive)| (drive.number, handle.to_string())).collect();
    for (_, _, members) in volumes(answer) {
        bays(&members, &numbers);
    }
    let _ = (info(answer), temperatures(answer), name(answer), device(answer), place(answer));
    for name in ["mpt-drives", "mpt-device-0001", "mpt-name-0001"] {
        secrets(name, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_adapter() {
        let found = info(&samples::info()).unwrap();
        assert_eq!((found.address.as_str(), found.firmware_version.as_str()), ("0000:02:03.0", "20.00.11.00"));
        assert_eq!(found.bios_version.as_deref(), Some("07.39.00.00"));
        assert_eq!(info(&samples::info()[..91]), None);
        assert_eq!(temperatures(&samples::temperatures()), [Some(55), Some(40)]);
        // No sensor, and a board below zero; a page that ends before.
        let mut page = samples::temperatures();
        (page[18], page[20]) = (0, 10);
        assert_eq!((temperatures(&page), temperatures(&page[..20])), ([None, None], [None, None]));
    }

    #[test]
    fn volumes_and_their_drives() {
        let all = [samples::volume(0x11e, 2, 5, &[0, 1]), samples::volume(0x11f, 0, 3, &[2])].concat();
        let found = volumes(&all);
        let expected = RaidVolume {
            number: 0x11e,
            level: Some("RAID 1".to_owned()),
            state: Some("optimal".to_owned()),
            is_consistent: Some(true),
            size_bytes: Some(1_000_204_886_016),
            stripe_bytes: Some(64 << 10),
            write_cache: Some("write back".to_owned()),
            ..RaidVolume::default()
        };
        assert_eq!(found[0], (0x11e, expected, vec![0, 1]));
        assert_eq!((found[1].1.level.as_deref(), &found[1].2[..]), (Some("RAID 0"), &[2][..]));
        let mut busy = samples::volume(1, 9, 4, &[1, 7, 1]);
        (busy[10], busy[8], busy[36]) = (1, 0x80, 255);
        let (_, volume, members) = volumes(&busy).remove(0);
        assert_eq!(
            (volume.state.as_deref(), volume.is_consistent, volume.level),
            (Some("resyncing"), Some(false), None)
        );
        assert_eq!(bays(&members, &BTreeMap::from([(1, "1:4".to_owned())])), ["1:4"]);
        assert_eq!(name(&samples::name(1)).as_deref(), Some("system"));

        let found = drives(&[samples::drive(0, 0x20, 7), samples::drive(1, 0x21, 2)].concat());
        let expected = RaidDrive {
            vendor: Some("SEAGATE".to_owned()),
            model: Some("ST1000NX0453".to_owned()),
            serial: Some("W4712ABC".to_owned()),
            firmware_version: Some("NS02".to_owned()),
            transport: Some("sas".to_owned()),
            medium: Some("hdd".to_owned()),
            size_bytes: Some(1_000_204_886_016),
            state: Some("online".to_owned()),
            ..RaidDrive::default()
        };
        assert_eq!(found[0], (0x20, expected));
        assert_eq!((found[1].0, found[1].1.state.as_deref()), (0x21, Some("offline")));
        let (bay, name) = device(&samples::device(3)).unwrap();
        assert_eq!((bay.as_str(), name.as_deref()), ("1:3", Some("0x5000c500a1b2c3d4")));
        assert_eq!((place(&[1, 0, 0, 0, 2, 0, 0, 0]), place(&[0xff; 8])), (Some((1, 2)), None));
    }

    #[test]
    fn pages_that_lie_about_their_length() {
        let whole = samples::drive(0, 0x20, 7);
        for len in [0, 1, 31, 255] {
            let mut page = whole.clone();
            page[1] = len;
            assert_eq!(drives(&page).len(), 0, "{len}");
        }
        assert_eq!(drives(&[&whole[..], &whole[..60]].concat()).len(), 1);
    }

    proptest! {
        #[test]
        fn noise_never_panics(answer in prop::collection::vec(any::<u8>(), 0..400)) {
            fuzz(&answer);
        }

        #[test]
        fn nor_do_pages_with_a_byte_of_it(at in 0..160usize, byte: u8) {
            for mut answer in [samples::info(), samples::volume(1, 2, 5, &[0, 1]), samples::drive(0, 1, 2), samples::device(3)] {
                if let Some(place) = answer.get_mut(at) {
                    *place = byte;
                }
                fuzz(&answer);
            }
        }
    }
}
