//! Disks, and whether they may be installed to (docs/compatibility.md#disks).

mod device;
mod eligibility;
mod identifiers;
mod kind;
mod medium;
mod nodes;
#[cfg(test)]
mod tests;
mod usage;
mod vpd;

pub(crate) use device::sector_bytes;
pub use nodes::disk_nodes;
pub(crate) use vpd::{ata_identify, naa, serial as unit_serial};

use crate::{Root, ask::Question};
use api::{Disk, Eligibility, Iscsi};
use device::{Device, devices};
use kernel::order::Gather;
use kernel::{mounts::Mount, udev::Udev};
use kind::DriveType;
use nix::errno::Errno;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};
use usage::Usage;

/// Properties to read from udev's database.
const WANTED: [&str; 13] = [
    "DM_WWN",
    "ID_FS_LABEL",
    "ID_FS_LABEL_ENC",
    "ID_FS_TYPE",
    "ID_MODEL",
    "ID_PART_ENTRY_NAME",
    "ID_PATH",
    "ID_SCSI_SERIAL",
    "ID_SERIAL",
    "ID_SERIAL_SHORT",
    "ID_WWN",
    "ID_WWN_WITH_EXTENSION",
    "SCSI_IDENT_SERIAL",
];
const BY_ID: &str = "/dev/disk/by-id";
const BY_PATH: &str = "/dev/disk/by-path";
/// What an appliance calls the device and partitions it brings along.
const APPLIANCE_PREFIX: &str = "agent";
/// What an appliance's device is said to hold, so that it passes for an installation disk: 100 GiB.
const APPLIANCE_BYTES: u64 = 100 << 30;

/// `disks`, by kernel name. `live_label` is the label of the ISO that the kernel's arguments name as booted.
pub(crate) fn disks(root: &Root, mounts: &[Mount], swaps: &[String], live_label: Option<&str>) -> Vec<Disk> {
    let all = devices(root);
    let links = Links::read(root, &all);
    if let Some(appliance) = all.iter().find(|device| device.dm_name.starts_with(APPLIANCE_PREFIX)) {
        return vec![appliance_disk(root, appliance, &all, &links)];
    }
    let usage = Usage::new(root, &all, mounts, swaps);
    let reported: Vec<&Device> = all.iter().filter(|device| is_reported(device)).collect();
    let answers = ask(root, &reported);
    let media = live_label.map(|label| medium::holders_of(root, label, &reported)).unwrap_or_default();
    let found = reported.iter().zip(answers).map(|(device, answers)| {
        let label = live_label.filter(|_| media.contains(device.name.as_str()));
        Disk { bootable: answers.is_bootable, has_uuid: answers.has_uuid, ..disk(root, device, &links, &usage, label) }
    });
    found.collect()
}

fn is_reported(device: &Device) -> bool {
    let of_device_mapper = device.name.starts_with("dm-");
    !device.is_hidden
        && !device.name.starts_with("loop")
        && !device.name.starts_with("zram")
        && (!of_device_mapper || device.is_multipath() || device.is_lvm())
}

fn disk(root: &Root, device: &Device, links: &Links, usage: &Usage, live_label: Option<&str>) -> Disk {
    let place = links.place(root, device);
    let drive_type = kind::drive_type(root, device);
    let judgement = eligibility::judge(root, device, drive_type, usage, live_label);
    Disk {
        drive_type: drive_type.as_str().to_owned(),
        hctl: device.hctl(root).unwrap_or_default(),
        holders: device.holders.join(","),
        id: place.id().to_owned(),
        installation_eligibility: Eligibility {
            eligible: judgement.reasons.is_empty(),
            not_eligible_reasons: Some(judgement.reasons).filter(|reasons| !reasons.is_empty()),
        },
        is_installation_media: judgement.is_installation_media || drive_type == DriveType::Odd,
        iscsi: (drive_type == DriveType::Iscsi).then(|| iscsi(root, device)),
        model: identifiers::model(root, device).unwrap_or_default(),
        name: device.name.clone(),
        removable: device.attribute(root, "removable").as_deref() == Some("1"),
        serial: identifiers::serial(root, device).unwrap_or_default(),
        size_bytes: device.size_bytes,
        vendor: device.attribute(root, "device/vendor").unwrap_or_default(),
        wwn: identifiers::wwn(root, device, &place.by_id).unwrap_or_default(),
        by_id: place.by_id,
        by_path: place.by_path,
        path: place.path,
        ..Disk::default()
    }
}

fn appliance_disk(root: &Root, device: &Device, all: &[Device], links: &Links) -> Disk {
    let place = links.place(root, device);
    Disk {
        by_id: place.by_id,
        by_path: place.by_path,
        drive_type: DriveType::Ssd.as_str().to_owned(),
        has_uuid: ask(root, &all.iter().filter(|device| is_reported(device)).collect::<Vec<_>>())
            .iter()
            .any(|answers| answers.has_uuid),
        installation_eligibility: Eligibility { eligible: true, not_eligible_reasons: None },
        name: device.name.clone(),
        path: place.path,
        size_bytes: APPLIANCE_BYTES,
        ..Disk::default()
    }
}

fn iscsi(root: &Root, device: &Device) -> Iscsi {
    let host = device.ancestor("host");
    let address = host.and_then(|host| root.attribute(format!("/sys/class/iscsi_host/{host}/ipaddress")));
    Iscsi { host_ip_address: address.unwrap_or_default() }
}

/// What a disk itself was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    /// 55 AA at the end of its first 512 bytes.
    is_bootable: bool,
    has_uuid: bool,
}

/// Asks all disks at the same time. Floppy drives are skipped, since they take seconds to say that they are empty, and so
/// is the content of drives without a medium.
fn ask(root: &Root, devices: &[&Device]) -> Vec<Answers> {
    let mut answers = Vec::new();
    let mut questions = Vec::new();
    let mut asked = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let known = identifiers::has_device_identification(root, device);
        answers.push(Answers { has_uuid: known == Some(true), is_bootable: false });
        let disk = || device.name.clone();
        if device.name.starts_with("fd") {
            continue;
        }
        if device.size_bytes >= 512 {
            questions.push(Question::FirstSector { disk: disk() });
            asked.push(index);
        }
        if known.is_none() {
            questions.push(Question::ScsiPage { disk: disk(), page: 0x83 });
            asked.push(index);
        }
    }
    let given = root.ask_all(&questions);
    if root.is_live() {
        warn_of_lost(unanswered(&questions, &given));
    }
    for ((question, index), answer) in questions.iter().zip(asked).zip(given) {
        match (answer, question) {
            (Ok(sector), Question::FirstSector { .. }) => {
                answers[index].is_bootable = sector.get(510..512) == Some(&[0x55, 0xaa]);
            }
            (Ok(page), _) => answers[index].has_uuid = vpd::is_device_identification(&page),
            (Err(error), _) => tracing::debug!(?question, %error, "no answer"),
        }
    }
    answers
}

/// The facts that disks did not give, though asked, with the disks' names. A disk that refuses a page has none, and an
/// empty drive has no sectors: those facts are measured.
fn unanswered<'a>(questions: &'a [Question], answers: &[io::Result<Vec<u8>>]) -> BTreeMap<&'static str, Vec<&'a str>> {
    let mut lost = BTreeMap::<_, Vec<_>>::new();
    for (question, answer) in questions.iter().zip(answers) {
        let Err(error) = answer else { continue };
        let hangs = error.kind() == io::ErrorKind::TimedOut;
        let has_no_medium = error.raw_os_error().map(Errno::from_raw) == Some(Errno::ENOMEDIUM);
        let (fact, disk) = match question {
            Question::FirstSector { disk } if !has_no_medium => ("bootable", disk),
            Question::ScsiPage { disk, .. } if hangs => ("has_uuid", disk),
            Question::IsoDescriptor { disk } if hangs => ("is_installation_media", disk),
            _ => continue,
        };
        lost.entry(fact).or_default().push(disk.as_str());
    }
    lost
}

/// The wire format cannot say that a fact is unknown.
fn warn_of_lost(lost: BTreeMap<&'static str, Vec<&str>>) {
    for (fact, disks) in lost {
        let disks = disks.join(" ");
        tracing::warn!(disks, "could not read {fact}; reporting false: check the kernel's log for these disks");
    }
}

/// The serial number that udev found out of the block device with this number, such as `8:0`.
pub(crate) fn udev_serial(root: &Root, number: &str) -> Option<String> {
    let udev = Udev::read(root, kernel::DevNumber::parse(number)?, &WANTED);
    udev.first(&identifiers::SERIAL_PROPERTIES).map(str::to_owned)
}

/// All that is made of a disk's answers.
pub(crate) fn fuzz_answer(answer: &[u8]) {
    vpd::serial(answer);
    naa(answer);
    vpd::is_device_identification(answer);
    vpd::ata_model_and_serial(answer);
    medium::volume_label(answer);
}

/// The names a disk is found by; empty ones are unknown.
struct Place {
    path: String,
    by_id: String,
    by_path: String,
}

impl Place {
    /// The name that lasts longest.
    fn id(&self) -> &str {
        [&self.by_id, &self.by_path].into_iter().find(|name| !name.is_empty()).unwrap_or(&self.path)
    }
}

/// udev's links to disks; none without udev.
struct Links {
    /// Device node to the links in `by-id` that name its hardware, the last of them.
    by_id: BTreeMap<PathBuf, String>,
    /// How many disks claim an `ID_PATH`.
    id_paths: BTreeMap<String, usize>,
}

impl Links {
    fn read(root: &Root, all: &[Device]) -> Self {
        let names =
            root.list(BY_ID).into_iter().filter(|name| name.starts_with("wwn-") || name.starts_with("nvme-eui"));
        let by_id = names
            .filter_map(|name| {
                let link = format!("{BY_ID}/{name}");
                Some((root.link_target(&link)?, link))
            })
            .gather();
        let mut id_paths = BTreeMap::new();
        for id_path in all.iter().filter_map(|device| device.udev.get("ID_PATH")) {
            *id_paths.entry(id_path.to_owned()).or_default() += 1;
        }
        Self { by_id, id_paths }
    }

    fn place(&self, root: &Root, device: &Device) -> Place {
        let node = device.node();
        let id_path = device.udev.get("ID_PATH");
        let link = id_path.map(|id_path| format!("{BY_PATH}/{id_path}"));
        // A captured tree has no device nodes; those of the system it was taken from were there.
        let path = if !root.is_live() || root.is_block_device(&node) {
            Some(node.clone())
        } else {
            link.as_ref().and_then(|link| root.resolve(link))
        };
        // Two IDE disks on one channel share an ID_PATH, and the link leads to either of them.
        let is_own = |id_path: &str| self.id_paths.get(id_path) == Some(&1);
        let by_path = link.filter(|link| id_path.is_some_and(is_own) && root.link_target(link).is_some());
        Place {
            path: path.as_deref().map(Path::to_string_lossy).unwrap_or_default().into_owned(),
            by_id: self.by_id.get(&node).cloned().unwrap_or_default(),
            by_path: by_path.unwrap_or_default(),
        }
    }
}
