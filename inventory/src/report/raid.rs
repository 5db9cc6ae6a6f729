//! RAID controllers, their volumes and the drives behind them, asked through the controllers' own drivers.

use super::{
    logs::{answers, logs},
    mpt,
    storage::{Disk, MEDIUM_PAGE, StorageAdapter, rotation_rpm},
};
use crate::{
    Root,
    ask::{MegaRaid, Question, SmartArray, SmartLog, drive_behind},
    ata, megaraid,
    raid::{Raid, RaidController, RaidDrive, RaidVolume},
    smartarray,
};
use kernel::order;
use std::collections::BTreeMap;

/// Channel of a MegaRAID host from which on its targets are volumes, and how many of them a channel has.
const VOLUME_CHANNEL: u32 = 2;
const CHANNEL_TARGETS: u32 = 128;
/// Channel of a Smart Array host whose LUNs are volumes.
const SMART_ARRAY_CHANNEL: u32 = 1;
const RAID_DEVICES: &str = "/sys/class/raid_devices";
const SCSI_DEVICES: &str = "/sys/bus/scsi/devices";
/// The SCSI device type of an array controller.
const CONTROLLER_TYPE: &str = "12";
/// Unit serial number (SPC-5 7.7.17).
const SERIAL_PAGE: u8 = 0x80;

/// All that RAID controllers tell. Drives and volumes come by number.
pub(super) fn raid(root: &Root, adapters: &[StorageAdapter], disks: &[Disk]) -> Raid {
    let mut raid = Raid::default();
    for adapter in adapters {
        for host in &adapter.hosts {
            match adapter.driver.as_deref() {
                Some("megaraid_sas") => {
                    let host = u16::try_from(*host).ok();
                    host.into_iter().for_each(|host| megaraid_host(root, adapter, host, disks, &mut raid));
                }
                Some("hpsa" | "smartpqi") => smart_array_host(root, adapter, *host, disks, &mut raid),
                Some("mpt2sas" | "mpt3sas") => {
                    let shown = |hctl: &str| {
                        let disk = disks.iter().find(|disk| disk.hctl.as_deref() == Some(hctl))?;
                        Some((disk.name.clone(), disk.size_bytes))
                    };
                    if !mpt::host(root, adapter, *host, &shown, &mut raid) {
                        volumes_of_class(root, adapter, *host, disks, &mut raid);
                    }
                }
                _ => {}
            }
        }
    }
    raid
}

/// Volumes that the kernel has a class for (drivers/scsi/raid_class.c); their driver asks the firmware at every read.
fn volumes_of_class(root: &Root, adapter: &StorageAdapter, host: u32, disks: &[Disk], raid: &mut Raid) {
    let start = format!("{host}:");
    let mut names: Vec<String> = root.list(RAID_DEVICES).into_iter().filter(|name| name.starts_with(&start)).collect();
    order::sort(&mut names);
    for name in names {
        let facts = root.measurements(&format!("{RAID_DEVICES}/{name}"), &["level", "state"].map(str::to_owned));
        let mut facts = facts.into_iter().map(|fact| fact.filter(|fact| fact != "unknown"));
        let (level, state) = (facts.next().flatten(), facts.next().flatten());
        let shown = disks.iter().find(|disk| disk.hctl.as_ref() == Some(&name));
        raid.volumes.push(RaidVolume {
            controller: adapter.address.clone(),
            number: name.split(':').nth(2).and_then(|target| target.parse().ok()).unwrap_or(0),
            disk: shown.map(|disk| disk.name.clone()),
            level: level.map(level_name),
            state: state.map(|state| if state == "active" { "optimal".to_owned() } else { state }),
            size_bytes: shown.and_then(|disk| disk.size_bytes),
            ..RaidVolume::default()
        });
    }
}

/// Such as `RAID 1E` for raid1e.
fn level_name(level: String) -> String {
    match level.strip_prefix("raid") {
        Some(number) => format!("RAID {}", number.to_uppercase()),
        None => level,
    }
}

/// Through the generic SCSI node of the controller itself, which is one of its host's devices.
fn smart_array_host(root: &Root, adapter: &StorageAdapter, host: u32, disks: &[Disk], raid: &mut Raid) {
    let is_controller = |name: &String| {
        name.split_once(':').is_some_and(|(number, _)| number == host.to_string())
            && root.attribute(format!("{SCSI_DEVICES}/{name}/type")).as_deref() == Some(CONTROLLER_TYPE)
    };
    for name in root.list(SCSI_DEVICES).into_iter().filter(is_controller) {
        let node = root.list(format!("{SCSI_DEVICES}/{name}/scsi_generic")).into_iter().next().unwrap_or_default();
        let ask = |asked: Vec<SmartArray>| {
            let question = |ask| Question::SmartArray { node: node.clone(), ask };
            answers(root, &asked.into_iter().map(question).collect::<Vec<_>>())
                .into_iter()
                .map(Option::unwrap_or_default)
        };
        let mut first = ask([
            SmartArray::Controller,
            SmartArray::Subsystem,
            SmartArray::Drives,
            SmartArray::Volumes,
            SmartArray::Cache,
        ]
        .into());
        let mut next = || first.next().unwrap_or_default();
        let (info, subsystem, drives, volumes, cache) = (next(), next(), next(), next(), next());
        let Some(mut controller) = smartarray::controller(&info, &subsystem) else { continue };
        let cache = smartarray::take_cache(&mut controller, &cache);
        let address = || adapter.address.clone();
        raid.controllers.push(RaidController { address: address(), driver: adapter.driver.clone(), ..controller });
        let mut drives = smartarray::drives(&drives);
        order::sort_by_key(&mut drives, |drive| drive.number);
        let infos = ask(drives.iter().map(|drive| SmartArray::Drive(drive.number)).collect());
        let mut bays = BTreeMap::new();
        for (listed, info) in drives.into_iter().zip(infos) {
            let Some(drive) = smartarray::drive(&info, listed.number) else { continue };
            bays.extend(listed.handle.zip(drive.bay.clone()));
            raid.drives.push(RaidDrive { controller: address(), ..drive });
        }
        let mut volumes = smartarray::volumes(&volumes);
        order::sort(&mut volumes);
        let asked = volumes.iter().flat_map(|number| [SmartArray::Volume(*number), SmartArray::VolumeStatus(*number)]);
        let mut infos = ask(asked.collect());
        let hctl = |number: &u8| format!("{host}:{SMART_ARRAY_CHANNEL}:0:{number}");
        // A volume tells by its own node which drives it is on.
        let map = |number: &u8| {
            let node = root.list(format!("{SCSI_DEVICES}/{}/scsi_generic", hctl(number))).into_iter().next();
            Question::SmartArray { node: node.unwrap_or_default(), ask: SmartArray::Map }
        };
        let maps = answers(root, &volumes.iter().map(map).collect::<Vec<_>>());
        for (number, map) in volumes.into_iter().zip(maps) {
            let (info, status) = (infos.next().unwrap_or_default(), infos.next().unwrap_or_default());
            let Some(volume) = smartarray::volume(&info, &status, number) else { continue };
            let hctl = hctl(&number);
            let shown = disks.iter().find(|disk| disk.hctl.as_ref() == Some(&hctl)).map(|disk| disk.name.clone());
            let (stripe_bytes, drives) = map.and_then(|map| smartarray::map(&map, &bays)).unwrap_or_default();
            let write_cache = cache.as_ref().and_then(|cache| cache.of_volume(number)).map(str::to_owned);
            raid.volumes.push(RaidVolume {
                controller: address(),
                disk: shown,
                stripe_bytes,
                drives,
                write_cache,
                ..volume
            });
        }
    }
}

fn megaraid_host(root: &Root, adapter: &StorageAdapter, host: u16, disks: &[Disk], raid: &mut Raid) {
    let ask = |asked: Vec<MegaRaid>| {
        answers(root, &asked.into_iter().map(|ask| Question::MegaRaid { host, ask }).collect::<Vec<_>>())
    };
    let first = [MegaRaid::Controller, MegaRaid::Battery, MegaRaid::Configuration, MegaRaid::Volumes, MegaRaid::Drives];
    let mut first = ask(first.into()).into_iter();
    let mut next = || first.next().flatten().unwrap_or_default();
    let (info, battery, configuration, volumes, drives) = (next(), next(), next(), next(), next());
    let Some(controller) = megaraid::controller(&info) else { return };
    raid.controllers.push(RaidController {
        address: adapter.address.clone(),
        driver: adapter.driver.clone(),
        battery: megaraid::battery(&battery),
        ..controller
    });
    let disk = |channel: u32, target: u32| {
        let hctl = format!("{host}:{channel}:{target}:0");
        disks.iter().find(|disk| disk.hctl.as_ref() == Some(&hctl))
    };

    let numbers = megaraid::drives(&drives).into_iter().filter(|drive| drive.is_disk).map(|drive| drive.number);
    let mut numbers: Vec<u16> = numbers.collect();
    order::sort(&mut numbers);
    let infos = ask(numbers.iter().map(|number| MegaRaid::Drive(*number)).collect());
    let mut bays = BTreeMap::new();
    let mut found: Vec<(Option<String>, RaidDrive)> = Vec::new();
    for (number, info) in numbers.into_iter().zip(infos) {
        let Some(drive) = info.and_then(|info| megaraid::drive(&info, number)) else { continue };
        bays.extend(drive.bay.clone().map(|bay| (number, bay)));
        let number = u32::from(number);
        // Neither the kernel's addresses nor commands to drives have room for more.
        let place = u8::try_from(number).ok();
        let shown = place.and_then(|_| disk(number / CHANNEL_TARGETS, number % CHANNEL_TARGETS));
        let shown = shown.map(|disk| disk.name.clone());
        let name = place.map(|number| drive_behind(host, number));
        found.push((name, RaidDrive { controller: adapter.address.clone(), disk: shown, ..drive }));
    }
    identify(root, &mut found);
    raid.drives.extend(found.into_iter().map(|(_, drive)| drive));

    let arrays = megaraid::arrays(&configuration, &bays);
    let mut numbers = megaraid::volumes(&volumes);
    order::sort(&mut numbers);
    let infos = ask(numbers.iter().map(|number| MegaRaid::Volume(*number)).collect());
    for (number, info) in numbers.into_iter().zip(infos) {
        let Some(mut volume) = info.and_then(|info| megaraid::volume(&info, number, &arrays)) else { continue };
        let shown = disk(VOLUME_CHANNEL + u32::from(number) / CHANNEL_TARGETS, u32::from(number) % CHANNEL_TARGETS);
        volume.controller = adapter.address.clone();
        volume.disk = shown.map(|disk| disk.name.clone());
        // The kernel knows the size of its sectors.
        volume.size_bytes = shown.and_then(|disk| disk.size_bytes).or(volume.size_bytes);
        raid.volumes.push(volume);
    }
}

/// What drives say of themselves, through the controller; those with a name are asked.
fn identify(root: &Root, drives: &mut [(Option<String>, RaidDrive)]) {
    let mut questions = Vec::new();
    let mut places = Vec::new();
    for (place, (name, drive)) in drives.iter().enumerate() {
        let Some(name) = name else { continue };
        let disk = || name.clone();
        let asked = if is_ata(drive) {
            vec![
                Question::AtaIdentify { disk: disk() },
                Question::AtaSmartData { disk: disk() },
                Question::AtaSmartThresholds { disk: disk() },
                Question::AtaSmartLog { disk: disk(), log: SmartLog::Errors },
                Question::AtaSmartLog { disk: disk(), log: SmartLog::SelfTests },
            ]
        } else {
            vec![
                Question::ScsiPage { disk: disk(), page: SERIAL_PAGE },
                Question::ScsiPage { disk: disk(), page: MEDIUM_PAGE },
            ]
        };
        places.push((place, asked.len()));
        questions.extend(asked);
    }
    let mut answers = answers(root, &questions).into_iter();
    for (place, count) in places {
        let answers: Vec<Option<Vec<u8>>> = answers.by_ref().take(count).collect();
        let answers: Vec<Option<&[u8]>> = answers.iter().map(Option::as_deref).collect();
        let Some((_, drive)) = drives.get_mut(place) else { continue };
        match answers[..] {
            [identify, data, thresholds, errors, tests] => {
                take_ata(drive, identify, data, thresholds);
                if let Some(smart) = &mut drive.smart {
                    smart.read_logs(errors, tests);
                }
            }
            [serial, medium] => take_scsi(drive, serial, medium),
            _ => {}
        }
    }
    let has_logs = |entry: &&mut (Option<String>, RaidDrive)| entry.0.is_some() && !is_ata(&entry.1);
    let names: Vec<String> = drives.iter_mut().filter(has_logs).filter_map(|(name, _)| name.clone()).collect();
    for ((_, drive), log) in drives.iter_mut().filter(has_logs).zip(logs(root, &names)) {
        drive.scsi_log = log;
    }
}

fn is_ata(drive: &RaidDrive) -> bool {
    drive.vendor.as_deref() == Some("ATA") || drive.transport.as_deref() == Some("sata")
}

fn take_ata(drive: &mut RaidDrive, identify: Option<&[u8]>, data: Option<&[u8]>, thresholds: Option<&[u8]>) {
    drive.ata = identify.and_then(ata::parse_identity);
    let Some(ata) = &drive.ata else { return };
    // SCSI's own fields cut these short.
    drive.model = ata.model.clone().or(drive.model.take());
    drive.serial = ata.serial.clone();
    drive.firmware_version = ata.firmware.clone().or(drive.firmware_version.take());
    drive.wwn = ata.wwn.clone().or(drive.wwn.take());
    rotates(drive, drive.ata.as_ref().and_then(|ata| ata.rotation_rpm));
    drive.smart = data.and_then(|data| ata::parse_health(data, thresholds));
}

fn take_scsi(drive: &mut RaidDrive, serial: Option<&[u8]>, medium: Option<&[u8]>) {
    drive.serial = serial.and_then(crate::disks::unit_serial);
    rotates(drive, medium.and_then(rotation_rpm));
}

fn rotates(drive: &mut RaidDrive, rpm: Option<u16>) {
    if let Some(rpm) = rpm {
        drive.rotation_rpm = Some(rpm);
        drive.medium = Some(if rpm == 0 { "ssd" } else { "hdd" }.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::{megaraid::samples, report::storage::storage, testing::Tree};

    /// A controller with a mirror of two SAS drives, and a SATA drive that the kernel sees.
    fn machine() -> Tree {
        let tree = Tree::new(&[]);
        let host = "sys/devices/pci0000:00/0000:03:00.0/host0";
        tree.add(&format!("{host}/scsi_host/host0/proc_name"), "megaraid_sas\n");
        tree.link("sys/class/scsi_host/host0", &format!("../../../{host}/scsi_host/host0"));
        for (name, hctl) in [("sda", "0:2:1:0"), ("sdb", "0:0:10:0")] {
            let device = format!("{host}/target/{hctl}");
            tree.add(&format!("{device}/block/{name}/size"), "2000\n");
            tree.add(&format!("{device}/scsi_device/{hctl}/type"), "0\n");
            tree.link(&format!("{device}/block/{name}/device"), "../..");
            tree.link(&format!("sys/block/{name}"), &format!("../../{device}/block/{name}"));
        }
        let answer = |name: &str, bytes: Vec<u8>| {
            tree.add(&format!("landfall/disks/megaraid0/megaraid-{name}"), bytes);
        };
        answer("controller", samples::controller());
        answer("battery", samples::battery(1, 1, 0, false));
        answer("drives", samples::drives(&[300, 8, 10]));
        answer("drive-8", samples::drive(8, 0, 2, 0x18));
        answer("drive-300", samples::drive(300, 1, 2, 0x14));
        answer("drive-10", samples::drive(10, 2, 3, 0x40));
        answer("volumes", samples::volumes(&[1]));
        answer("volume-1", samples::volume(1, 2, &[5]));
        answer("configuration", samples::configuration(&[(5, &[8, 300])]));
        tree.add("landfall/disks/megaraid0.8/scsi-page-80", b"\0\x80\0\x04W123");
        tree.add("landfall/disks/megaraid0.8/scsi-page-b1", vec![0, 0xb1, 0, 60, 0x1c, 0x20]);
        tree.add("landfall/disks/megaraid0.8/scsi-log-00", vec![0, 0, 0, 2, 0, 0x06]);
        tree.add("landfall/disks/megaraid0.8/scsi-log-06", vec![0x06, 0, 0, 5, 0, 0, 3, 1, 7]);
        let mut identify = vec![0; 512];
        identify[20..24].copy_from_slice(b"BADC");
        (identify[434], identify[435]) = (1, 0);
        tree.add("landfall/disks/megaraid0.10/ata-identify", identify);
        tree
    }

    #[test]
    fn drives_that_the_kernel_does_not_see_are_reported() {
        let found = storage(&machine().root());
        let controller = &found.raid_controllers[0];
        assert_eq!(controller.address.as_deref(), Some("0000:03:00.0"));
        assert_eq!(controller.battery.as_ref().unwrap().is_healthy, Some(false));
        let [volume] = &found.raid_volumes[..] else { panic!("{:#?}", found.raid_volumes) };
        assert_eq!((volume.disk.as_deref(), volume.size_bytes), (Some("sda"), Some(1_024_000)));
        assert_eq!(
            (volume.level.as_deref(), volume.drives.as_slice()),
            (Some("RAID 1"), &["32:0".to_owned(), "32:1".to_owned()][..])
        );
        let short: Vec<_> = found
            .raid_drives
            .iter()
            .map(|drive| (drive.number, drive.serial.as_deref(), drive.rotation_rpm, drive.disk.as_deref()))
            .collect();
        let expected =
            [(8, Some("W123"), Some(7200), None), (10, Some("ABCD"), Some(0), Some("sdb")), (300, None, None, None)];
        assert_eq!(short, expected);
        assert_eq!(found.raid_drives[0].scsi_log.as_ref().unwrap().non_medium_errors, Some(7));
    }

    #[test]
    fn smart_arrays_are_asked_through_their_own_node() {
        let tree = Tree::new(&[]);
        let host = "sys/devices/pci0000:00/0000:5c:00.0/host3";
        tree.add(&format!("{host}/scsi_host/host3/proc_name"), "smartpqi\n");
        tree.link("sys/class/scsi_host/host3", &format!("../../../{host}/scsi_host/host3"));
        tree.add("sys/bus/scsi/devices/3:2:0:0/type", "12\n").dir("sys/bus/scsi/devices/3:2:0:0/scsi_generic/sg2");
        tree.add("sys/bus/scsi/devices/30:0:0:0/type", "12\n").dir("sys/bus/scsi/devices/30:0:0:0/scsi_generic/sg9");
        tree.dir("sys/bus/scsi/devices/3:1:0:0/scsi_generic/sg3");
        tree.add("landfall/disks/sg3/smartarray-map", crate::smartarray::tests::raid_map(&[0x21, 0x22]));
        tree.add("landfall/disks/sg2/smartarray-cache", crate::smartarray::tests::cache(0x0001_0001, 0));
        tree.add(&format!("{host}/target/3:1:0:0/scsi_device/3:1:0:0/type"), "0\n");
        tree.add(&format!("{host}/target/3:1:0:0/block/sda/size"), "2000\n");
        tree.link(&format!("{host}/target/3:1:0:0/block/sda/device"), "../..");
        tree.link("sys/block/sda", &format!("../../{host}/target/3:1:0:0/block/sda"));
        let names = ["controller", "subsystem", "drives", "drive-3", "volumes", "volume-0", "volume-status-0"];
        for (name, bytes) in names.iter().zip(crate::smartarray::tests::answers()) {
            tree.add(&format!("landfall/disks/sg2/smartarray-{name}"), bytes);
        }
        let found = storage(&tree.root());
        assert_eq!(found.raid_controllers[0].serial.as_deref(), Some("PEYHC0DRHBV4KH"));
        assert_eq!(found.raid_controllers[0].address.as_deref(), Some("0000:5c:00.0"));
        let (volume, drive) = (&found.raid_volumes[0], &found.raid_drives[0]);
        assert_eq!((volume.disk.as_deref(), volume.state.as_deref()), (Some("sda"), Some("degraded")));
        assert_eq!((drive.bay.as_deref(), drive.serial.as_deref()), (Some("1I:1:4"), Some("WFK0ABCD")));
        assert_eq!((found.raid_drives.len(), found.raid_volumes.len()), (1, 1));
        assert_eq!((volume.drives.as_slice(), volume.stripe_bytes), (&["1I:1:4".to_owned()][..], Some(256 << 10)));
        assert_eq!(volume.write_cache.as_deref(), Some("write back"));
        assert_eq!(found.raid_controllers[0].battery.as_ref().unwrap().kind.as_deref(), Some("capacitor"));
    }

    #[test]
    fn volumes_that_the_kernel_has_a_class_for() {
        let tree = Tree::new(&[]);
        let host = "sys/devices/pci0000:00/0000:02:00.0/host4";
        tree.add(&format!("{host}/scsi_host/host4/proc_name"), "mpt3sas\n");
        tree.link("sys/class/scsi_host/host4", &format!("../../../{host}/scsi_host/host4"));
        tree.add(&format!("{host}/target/4:1:2:0/scsi_device/4:1:2:0/type"), "0\n");
        tree.add(&format!("{host}/target/4:1:2:0/block/sda/size"), "2000\n");
        tree.link(&format!("{host}/target/4:1:2:0/block/sda/device"), "../..");
        tree.link("sys/block/sda", &format!("../../{host}/target/4:1:2:0/block/sda"));
        for (name, level, state) in
            [("4:1:2:0", "raid1e", "degraded"), ("4:1:3:0", "raid0", "active"), ("40:1:0:0", "", "")]
        {
            tree.add(&format!("sys/class/raid_devices/{name}/level"), format!("{level}\n"));
            tree.add(&format!("sys/class/raid_devices/{name}/state"), format!("{state}\n"));
        }
        let found = storage(&tree.root()).raid_volumes;
        let short: Vec<_> = found
            .iter()
            .map(|one| (one.number, one.level.as_deref(), one.state.as_deref(), one.disk.as_deref(), one.size_bytes))
            .collect();
        let expected = [
            (2, Some("RAID 1E"), Some("degraded"), Some("sda"), Some(1_024_000)),
            (3, Some("RAID 0"), Some("optimal"), None, None),
        ];
        assert_eq!(short, expected);
        assert_eq!(found[0].controller.as_deref(), Some("0000:02:00.0"));
    }

    #[test]
    fn a_controller_that_does_not_answer_is_left_out() {
        let tree = machine();
        tree.add("landfall/disks/megaraid0/megaraid-controller", "");
        let found = storage(&tree.root());
        assert_eq!((found.raid_controllers.len(), found.raid_drives.len(), found.adapters.len()), (0, 0, 1));
    }
}
