//! SAS adapters of the drivers `mpt2sas` and `mpt3sas`: their temperatures, and with firmware that has RAID, volumes and drives.

use super::{controllers::StorageAdapter, logs::answers};
use crate::{
    Root,
    ask::{Mpt, Question},
    mpt,
    raid::{Raid, RaidDrive, RaidVolume},
};
use std::collections::BTreeMap;

const SCSI_HOSTS: &str = "/sys/class/scsi_host";

/// An adapter, as its driver counts it.
struct Adapter<'a> {
    root: &'a Root,
    generation: u8,
    number: u32,
}

impl<'a> Adapter<'a> {
    fn of_host(root: &'a Root, driver: &str, host: u32) -> Option<Self> {
        let generation = match driver {
            "mpt2sas" => 2,
            "mpt3sas" => 3,
            _ => return None,
        };
        // The driver's number of it (`unique_id` of struct Scsi_Host).
        Some(Self { root, generation, number: root.number(format!("{SCSI_HOSTS}/host{host}/unique_id"))? })
    }

    fn ask(&self, asked: impl IntoIterator<Item = Mpt>) -> Vec<Option<Vec<u8>>> {
        let question = |ask| Question::Mpt { generation: self.generation, adapter: self.number, ask };
        answers(self.root, &asked.into_iter().map(question).collect::<Vec<_>>())
    }
}

/// What only the firmware tells of an adapter.
pub(super) fn complete(root: &Root, adapter: &mut StorageAdapter) {
    let (Some(driver), [host, ..]) = (adapter.driver.as_deref(), &adapter.hosts[..]) else { return };
    let Some(asked) = Adapter::of_host(root, driver, *host) else { return };
    let answers = asked.ask([Mpt::Info, Mpt::Temperatures]);
    let [info, temperatures] = &answers[..] else { return };
    // Another one would be the wrong adapter's.
    let Some(info) = info.as_deref().and_then(mpt::info).filter(|info| adapter.address.as_ref() == Some(&info.address))
    else {
        return;
    };
    adapter.firmware_version.get_or_insert(info.firmware_version);
    adapter.bios_version = adapter.bios_version.take().or(info.bios_version);
    [adapter.temperature_celsius, adapter.board_temperature_celsius] =
        temperatures.as_deref().map(mpt::temperatures).unwrap_or_default();
}

/// Name and size of the disk at a SCSI address.
type Shown<'a> = &'a dyn Fn(&str) -> Option<(String, Option<u64>)>;

/// Volumes and their drives; false if the firmware shows none.
pub(super) fn host(root: &Root, adapter: &StorageAdapter, host: u32, shown: Shown<'_>, raid: &mut Raid) -> bool {
    let Some(asked) = adapter.driver.as_deref().and_then(|driver| Adapter::of_host(root, driver, host)) else {
        return false;
    };
    let first = asked.ask([Mpt::Info, Mpt::Volumes, Mpt::Drives]);
    let [Some(info), volumes, drives] = &first[..] else { return false };
    if mpt::info(info).map(|info| info.address) != adapter.address {
        return false;
    }
    let volumes = mpt::volumes(volumes.as_deref().unwrap_or_default());
    let drives = mpt::drives(drives.as_deref().unwrap_or_default());
    let address = || adapter.address.clone();
    let mut bays = BTreeMap::new();
    let devices = asked.ask(drives.iter().map(|(handle, _)| Mpt::Device(*handle)));
    for ((_, drive), device) in drives.into_iter().zip(devices) {
        let (bay, wwn) = device.as_deref().and_then(mpt::device).map_or((None, None), |(bay, wwn)| (Some(bay), wwn));
        bays.insert(drive.number, bay.clone().unwrap_or_else(|| drive.number.to_string()));
        raid.drives.push(RaidDrive { controller: address(), bay, wwn, ..drive });
    }
    let asked = asked.ask(volumes.iter().flat_map(|(handle, ..)| [Mpt::Place(*handle), Mpt::VolumeName(*handle)]));
    let mut asked = asked.into_iter().map(Option::unwrap_or_default);
    let has_any = !volumes.is_empty();
    for (_, volume, members) in volumes {
        let (place, name) = (asked.next().unwrap_or_default(), asked.next().unwrap_or_default());
        let place = mpt::place(&place);
        let disk = place.and_then(|(channel, target)| shown(&format!("{host}:{channel}:{target}:0")));
        let (disk, size_bytes) = disk.map_or((None, None), |(disk, bytes)| (Some(disk), bytes));
        raid.volumes.push(RaidVolume {
            controller: address(),
            number: place.map_or(volume.number, |(_, target)| target),
            name: mpt::name(&name),
            disk,
            drives: mpt::bays(&members, &bays),
            // The kernel knows the size of its sectors.
            size_bytes: size_bytes.or(volume.size_bytes),
            ..volume
        });
    }
    has_any
}

#[cfg(test)]
mod tests {
    use crate::{mpt::samples, report::storage::storage, testing::Tree};

    /// An adapter with a mirror of two drives and a spare.
    fn machine() -> Tree {
        let tree = Tree::new(&[]);
        let host = "sys/devices/pci0000:00/0000:02:03.0/host4";
        for (file, content) in [
            ("proc_name", "mpt3sas"),
            ("unique_id", "1"),
            ("version_fw", "20.00.11.00"),
            ("version_nvdata_persistent", "14.01.40.08"),
            ("version_product", "LSISAS3008"),
            ("board_assembly", "H3-25461-02J"),
            ("board_tracer", "SP81234567"),
        ] {
            tree.add(&format!("{host}/scsi_host/host4/{file}"), format!("{content}\n"));
        }
        tree.link("sys/class/scsi_host/host4", &format!("../../../{host}/scsi_host/host4"));
        tree.add(&format!("{host}/target/4:1:2:0/scsi_device/4:1:2:0/type"), "0\n");
        tree.add(&format!("{host}/target/4:1:2:0/block/sda/size"), "2000\n");
        tree.link(&format!("{host}/target/4:1:2:0/block/sda/device"), "../..");
        tree.link("sys/block/sda", &format!("../../{host}/target/4:1:2:0/block/sda"));
        tree.add("sys/class/raid_devices/4:1:2:0/level", "raid1\n");
        tree.add("sys/class/raid_devices/4:1:2:0/state", "active\n");
        let answer = |name: &str, bytes: Vec<u8>| {
            tree.add(&format!("landfall/disks/mpt3sas1/mpt-{name}"), bytes);
        };
        answer("info", samples::info());
        answer("temperatures", samples::temperatures());
        answer("volumes", samples::volume(0x11e, 2, 5, &[0, 1]));
        answer(
            "drives",
            [(0, 7), (1, 6), (2, 4)].map(|(n, state)| samples::drive(n, 0x20 + u16::from(n), state)).concat(),
        );
        answer("device-0020", samples::device(3));
        answer("device-0021", samples::device(5));
        answer("name-011e", samples::name(0x11e));
        answer("place-011e", vec![1, 0, 0, 0, 2, 0, 0, 0]);
        tree
    }

    #[test]
    fn an_adapter_with_volumes() {
        let found = storage(&machine().root());
        let [adapter] = &found.adapters[..] else { panic!("{:#?}", found.adapters) };
        assert_eq!((adapter.temperature_celsius, adapter.board_temperature_celsius), (Some(55), Some(40)));
        assert_eq!((adapter.chip.as_deref(), adapter.assembly.as_deref()), (Some("LSISAS3008"), Some("H3-25461-02J")));
        assert_eq!(
            (adapter.nvdata_version.as_deref(), adapter.serial.as_deref()),
            (Some("14.01.40.08"), Some("SP81234567"))
        );
        assert_eq!(adapter.bios_version.as_deref(), Some("07.39.00.00"));
        let [volume] = &found.raid_volumes[..] else { panic!("{:#?}", found.raid_volumes) };
        assert_eq!((volume.number, volume.name.as_deref(), volume.disk.as_deref()), (2, Some("system"), Some("sda")));
        assert_eq!((volume.drives.join(" "), volume.size_bytes), ("1:3 1:5".to_owned(), Some(1_024_000)));
        let drives: Vec<_> =
            found.raid_drives.iter().map(|d| (d.number, d.bay.as_deref(), d.state.as_deref().unwrap())).collect();
        assert_eq!(drives, [(0, Some("1:3"), "online"), (1, Some("1:5"), "rebuilding"), (2, None, "hot spare")]);
        assert_eq!(found.raid_drives[0].wwn.as_deref(), Some("0x5000c500a1b2c3d4"));
    }

    #[test]
    fn without_an_answer_the_kernels_class_remains() {
        for (name, bytes) in [("info", Vec::new()), ("volumes", vec![0; 9])] {
            let tree = machine();
            tree.add(&format!("landfall/disks/mpt3sas1/mpt-{name}"), bytes);
            let found = storage(&tree.root());
            let [volume] = &found.raid_volumes[..] else { panic!("{:#?}", found.raid_volumes) };
            assert_eq!((volume.level.as_deref(), volume.state.as_deref()), (Some("RAID 1"), Some("optimal")));
            assert_eq!((volume.number, volume.drives.len(), volume.name.as_deref()), (2, 0, None));
        }
    }

    #[test]
    fn the_answers_of_another_adapter_are_not_this_ones() {
        let tree = machine();
        let mut info = samples::info();
        info[84] = 4;
        tree.add("landfall/disks/mpt3sas1/mpt-info", info);
        let found = storage(&tree.root());
        assert_eq!((found.raid_drives.len(), found.adapters[0].temperature_celsius), (0, None));
    }
}
