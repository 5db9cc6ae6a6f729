//! Disks and what they hang on. Only what is hardware: no partitions, no RAID of the kernel's, no loop devices.

pub use super::{
    controllers::{FibreChannelPort, NvmeController, StorageAdapter},
    topology::{SasExpander, SasPhy},
};
pub use crate::{
    ata::{AtaAttribute, AtaHealth, AtaIdentity},
    nvme::{NvmeHealth, NvmeIdentity},
    raid::{RaidBattery, RaidController, RaidDrive, RaidVolume},
    scsi::{ScsiLog, ScsiPhy},
    ses::{Enclosure, EnclosureBay, EnclosurePart},
};

use super::{
    controllers, logs, mpt,
    place::{is_below, is_virtual, pci_address},
    raid::raid,
    topology,
};
use crate::{
    Root,
    ask::{Question, SmartLog},
    ata,
};
use kernel::bytes::be16;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const BLOCK: &str = "/sys/block";
const MAX_PAGE_BYTES: usize = 64 << 10;
/// Block device characteristics (SBC-4 6.6.2).
pub(super) const MEDIUM_PAGE: u8 = 0xb1;

/// Storage hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Storage {
    /// Disks, by kernel name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// NVMe controllers, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvme_controllers: Vec<NvmeController>,
    /// SCSI, SAS, SATA, RAID and Fibre Channel adapters, by PCI address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<StorageAdapter>,
    /// RAID controllers that answered, by PCI address: MegaRAID, PERC and Smart Array. Others are among the adapters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raid_controllers: Vec<RaidController>,
    /// Their volumes, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raid_volumes: Vec<RaidVolume>,
    /// The drives behind them, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raid_drives: Vec<RaidDrive>,
    /// SAS expanders, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sas_expanders: Vec<SasExpander>,
    /// SAS links that are up or counted errors, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sas_phys: Vec<SasPhy>,
    /// Enclosures of disks (SCSI enclosure services), by SCSI address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enclosures: Vec<Enclosure>,
    /// Their bays, in each one's own order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enclosure_bays: Vec<EnclosureBay>,
    /// Their fans, power supplies, sensors and other parts, in each one's own order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enclosure_parts: Vec<EnclosurePart>,
}

/// A disk, an optical drive or another block device that is hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disk {
    /// Kernel name, without /dev.
    pub name: String,
    /// Vendor, for SCSI devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Model, whole and with its blanks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Firmware revision; for SCSI the product revision, four characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// World-wide id in the kernel's form, such as naa.5000c500a1b2c3d4 or eui.0025385b71b00001.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwid: Option<String>,
    /// nvme, sata, sas, fc, iscsi, usb, virtio, mmc, scsi, ccw or xen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Address on the channel subsystem, of a DASD: 0.0.0100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<String>,
    /// How a DASD is spoken to: ECKD, FBA or DIAG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<String>,
    /// SCSI address: host, channel, target, LUN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hctl: Option<String>,
    /// NVMe controllers that lead to it, by number; several for one with several ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<String>,
    /// PCI address of its controller, of the first if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// Driver of that PCI function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_driver: Option<String>,
    /// Its size, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Bytes of a logical sector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_sector_bytes: Option<u32>,
    /// Bytes of a physical sector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_sector_bytes: Option<u32>,
    /// Whether the kernel treats it as one with moving parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_rotational: Option<bool>,
    /// Revolutions per minute, of a SCSI or ATA disk; 0 for one without moving parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation_rpm: Option<u16>,
    /// Whether its medium is removable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_removable: Option<bool>,
    /// Whether it is write-protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_read_only: Option<bool>,
    /// Whether data that are no longer needed can be discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_discard: Option<bool>,
    /// How its cache is used: write back or write through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// Commands it accepts at a time, for SCSI devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// State, for SCSI devices: running, or such as offline for one that the kernel has given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What an ATA disk says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ata: Option<AtaIdentity>,
    /// What an ATA disk says of its health. A disk that sleeps is not woken for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smart: Option<AtaHealth>,
    /// What a SCSI disk counts in its logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scsi_log: Option<ScsiLog>,
}

/// All storage hardware.
pub(crate) fn storage(root: &Root) -> Storage {
    let (disks, mut adapters) = (disks(root), controllers::storage_adapters(root));
    adapters.iter_mut().for_each(|adapter| mpt::complete(root, adapter));
    let raid = raid(root, &adapters, &disks);
    let enclosures = topology::enclosures(root, &disks);
    Storage {
        disks,
        nvme_controllers: controllers::nvme_controllers(root),
        adapters,
        raid_controllers: raid.controllers,
        raid_volumes: raid.volumes,
        raid_drives: raid.drives,
        sas_expanders: topology::expanders(root),
        sas_phys: topology::phys(root),
        enclosures: enclosures.enclosures,
        enclosure_bays: enclosures.bays,
        enclosure_parts: enclosures.parts,
    }
}

fn disks(root: &Root) -> Vec<Disk> {
    let mut disks: Vec<Disk> = root.list(BLOCK).into_iter().filter_map(|name| disk(root, name)).collect();
    identify(root, &mut disks);
    ask_health(root, &mut disks);
    ask_logs(root, &mut disks);
    for disk in &mut disks {
        if let Some(ata) = &disk.ata {
            // SCSI's own fields cut these short.
            let whole = |own: &Option<String>, scsi: Option<String>| own.clone().or(scsi);
            disk.model = whole(&ata.model, disk.model.take());
            disk.serial = whole(&ata.serial, disk.serial.take());
            disk.firmware_version = whole(&ata.firmware, disk.firmware_version.take());
        }
    }
    disks
}

/// What sysfs tells; `None` for what is not hardware, and for the hidden legs of a multipath NVMe disk.
fn disk(root: &Root, name: String) -> Option<Disk> {
    let dir = PathBuf::from(BLOCK).join(&name);
    let sys = root.resolve(&dir)?;
    let text = |file: &str| root.attribute(dir.join(file)).filter(|text| !text.is_empty());
    let flag = |file: &str| text(file).map(|text| text != "0");
    if !root.exists(dir.join("device")) || flag("hidden") == Some(true) {
        return None;
    }
    let page = |file: &str| root.read(dir.join("device").join(file), MAX_PAGE_BYTES).ok();
    let is_nvme = name.starts_with("nvme");
    let vendor = text("device/vendor").filter(|_| !name.starts_with("vd"));
    let controllers = if is_nvme { controllers::nvme_controllers_of(root, &dir.join("device")) } else { Vec::new() };
    let ccw = sys.parent().and_then(Path::parent).filter(|_| name.starts_with("dasd"));
    let address = pci_address(&sys).or_else(|| controllers::nvme_address(root, controllers.first()?));
    Some(Disk {
        transport: transport(&name, &sys, vendor.as_deref()).map(str::to_owned),
        model: text("device/model"),
        serial: text("serial")
            .or_else(|| text("device/serial"))
            .or_else(|| crate::disks::unit_serial(&page("vpd_pg80")?))
            // Of a disk behind USB, or an optical drive, only udev has asked.
            .or_else(|| crate::disks::udev_serial(root, &text("dev")?)),
        firmware_version: text("device/firmware_rev").or_else(|| text("device/rev")).or_else(|| text("device/fwrev")),
        wwid: text("wwid").or_else(|| text("device/wwid")),
        bus_id: ccw.and_then(|ccw| Some(ccw.file_name()?.to_str()?.to_owned())),
        discipline: ccw.and_then(|ccw| root.attribute(ccw.join("discipline"))).filter(|text| !text.is_empty()),
        hctl: root.list(dir.join("device/scsi_device")).into_iter().next(),
        controller_driver: address.as_ref().and_then(|address| controllers::pci_driver(root, address)),
        pci_address: address,
        controllers,
        size_bytes: text("size").and_then(|count| crate::disks::sector_bytes(&count)),
        logical_sector_bytes: root.number(dir.join("queue/logical_block_size")),
        physical_sector_bytes: root.number(dir.join("queue/physical_block_size")),
        is_rotational: flag("queue/rotational"),
        rotation_rpm: page("vpd_pgb1").and_then(|page| rotation_rpm(&page)),
        is_removable: flag("removable"),
        is_read_only: flag("ro"),
        has_discard: flag("queue/discard_max_hw_bytes"),
        write_cache: text("queue/write_cache"),
        queue_depth: root.number(dir.join("device/queue_depth")),
        // An NVMe disk's is its controller's.
        state: text("device/state").filter(|_| !is_nvme),
        vendor,
        name,
        ..Disk::default()
    })
}

fn transport(name: &str, sys: &Path, vendor: Option<&str>) -> Option<&'static str> {
    let begins = |prefix: &str| name.starts_with(prefix);
    let below = |kind: &str| is_below(sys, kind);
    Some(match () {
        () if begins("nvme") => "nvme",
        () if begins("vd") || below("virtio") => "virtio",
        () if begins("mmc") => "mmc",
        () if begins("xvd") => "xen",
        () if begins("dasd") => "ccw",
        () if is_virtual(sys) && !below("session") => return None,
        () if below("usb") => "usb",
        () if below("session") => "iscsi",
        () if below("rport") => "fc",
        () if vendor == Some("ATA") || below("ata") => "sata",
        () if below("end_device") || below("phy") => "sas",
        () if begins("sd") || begins("sr") => "scsi",
        () => return None,
    })
}

/// From the page of a block device's characteristics.
pub(super) fn rotation_rpm(page: &[u8]) -> Option<u16> {
    match be16(page, 4).filter(|_| page.get(1) == Some(&MEDIUM_PAGE))? {
        1 => Some(0),
        rpm @ 0x401..=0xfffe => Some(rpm),
        _ => None,
    }
}

/// A disk that takes ATA commands. USB bridges are not asked: some hang at what they don't know.
fn is_ata(disk: &Disk) -> bool {
    disk.vendor.as_deref() == Some("ATA") && disk.transport.as_deref() == Some("sata")
}

/// From the page the kernel keeps, which costs the disk nothing, else from the disk.
fn identify(root: &Root, disks: &mut [Disk]) {
    let mut questions = Vec::new();
    for disk in disks.iter_mut().filter(|disk| is_ata(disk)) {
        let page = root.read(format!("{BLOCK}/{}/device/vpd_pg89", disk.name), MAX_PAGE_BYTES).unwrap_or_default();
        disk.ata = crate::disks::ata_identify(&page).and_then(|identify| ata::parse_identity(identify));
        if disk.ata.is_none() {
            questions.push(Question::AtaIdentify { disk: disk.name.clone() });
        }
    }
    let answers = questions.iter().zip(root.ask_all(&questions));
    for (question, answer) in answers {
        let Some(disk) = disks.iter_mut().find(|disk| Some(&disk.name) == question.device().as_ref()) else { continue };
        disk.ata = known(&disk.name, answer).and_then(|reply| ata::parse_identity(&reply));
    }
}

fn ask_health(root: &Root, disks: &mut [Disk]) {
    let is_watched = |disk: &&mut Disk| disk.ata.as_ref().is_some_and(|ata| ata.is_smart_enabled);
    let mut questions = Vec::new();
    for disk in disks.iter_mut().filter(is_watched) {
        questions.push(Question::AtaSmartData { disk: disk.name.clone() });
        questions.push(Question::AtaSmartThresholds { disk: disk.name.clone() });
        let logs = [SmartLog::Errors, SmartLog::SelfTests];
        questions.extend(logs.map(|log| Question::AtaSmartLog { disk: disk.name.clone(), log }));
    }
    let mut answers = root.ask_all(&questions).into_iter();
    for disk in disks.iter_mut().filter(is_watched) {
        let mut next = || known(&disk.name, answers.next()?);
        let (data, thresholds, errors, tests) = (next(), next(), next(), next());
        disk.smart = data.and_then(|data| ata::parse_health(&data, thresholds.as_deref()));
        if let Some(smart) = &mut disk.smart {
            smart.read_logs(errors.as_deref(), tests.as_deref());
        }
    }
}

/// Disks on SAS, Fibre Channel and parallel SCSI. A volume of a RAID controller has no logs, and refuses.
fn ask_logs(root: &Root, disks: &mut [Disk]) {
    let has_logs = |disk: &&mut Disk| {
        disk.name.starts_with("sd") && matches!(disk.transport.as_deref(), Some("sas" | "fc" | "scsi"))
    };
    let names: Vec<String> = disks.iter_mut().filter(has_logs).map(|disk| disk.name.clone()).collect();
    for (disk, log) in disks.iter_mut().filter(has_logs).zip(logs::logs(root, &names)) {
        disk.scsi_log = log;
    }
}

fn known(disk: &str, answer: std::io::Result<Vec<u8>>) -> Option<Vec<u8>> {
    answer.inspect_err(|error| tracing::debug!(disk, %error, "ATA facts are missing")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn block(tree: &Tree, name: &str, place: &str, files: &[(&str, &str)]) {
        let device = format!("sys/devices/{place}");
        for (file, content) in files {
            tree.add(&format!("{device}/{file}"), format!("{content}\n"));
        }
        tree.link(&format!("{device}/block/{name}/device"), "../..");
        tree.link(&format!("sys/block/{name}"), &format!("../../{device}/block/{name}"));
    }

    fn identify() -> Vec<u8> {
        let mut data = vec![0; 512];
        data[20..24].copy_from_slice(b"BADC");
        // Words 83, 85 and 87: fields are valid, SMART is on.
        (data[167], data[170], data[175]) = (0x40, 1, 0x40);
        data
    }

    #[test]
    fn disks_of_many_kinds() {
        let tree = Tree::new(&[]);
        tree.dir("sys/devices/virtual/block/loop0").link("sys/block/loop0", "../devices/virtual/block/loop0");
        let sata = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0";
        let files = [
            ("vendor", "ATA     "),
            ("model", "SAMSUNG"),
            ("queue_depth", "32"),
            ("wwid", "naa.5002538e40a1b2c3"),
            ("scsi_device/0:0:0:0/type", "0"),
            ("block/sda/size", "1000"),
            ("block/sda/queue/rotational", "0"),
            ("block/sda/queue/logical_block_size", "512"),
        ];
        block(&tree, "sda", sata, &files);
        tree.link("sys/bus/pci/devices/0000:00:1f.2/driver", "../../drivers/ahci");
        let usb = "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0";
        block(&tree, "sdb", usb, &[("vendor", "ATA"), ("block/sdb/removable", "1")]);
        let sas = "pci0000:00/0000:03:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0";
        block(&tree, "sdc", sas, &[("vendor", "SEAGATE"), ("rev", "0003")]);
        let virtio = "pci0000:00/0000:00:05.0/virtio1";
        block(&tree, "vda", virtio, &[("vendor", "0x1af4"), ("block/vda/serial", "VBLK1")]);
        block(&tree, "nvme0c0n1", "pci0000:00/0000:01:00.0/nvme/nvme0", &[("block/nvme0c0n1/hidden", "1")]);
        block(&tree, "nvme0n1", "virtual/nvme-subsystem/nvme-subsys0", &[("model", "P5800X")]);
        tree.link("sys/class/nvme/nvme0", "../../devices/pci0000:00/0000:01:00.0/nvme/nvme0");
        tree.link(
            "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0",
            "../../../pci0000:00/0000:01:00.0/nvme/nvme0",
        );
        tree.add("landfall/disks/sda/ata-identify", identify()).add("landfall/disks/sdb/ata-identify", identify());
        let mut smart = vec![0; 512];
        (smart[0], smart[2], smart[5], smart[511]) = (1, 5, 100, 150);
        tree.add("landfall/disks/sda/ata-smart-data", smart);
        let found = storage(&tree.root()).disks;
        let short: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.transport.as_deref().unwrap())).collect();
        assert_eq!(short, [("nvme0n1", "nvme"), ("sda", "sata"), ("sdb", "usb"), ("sdc", "sas"), ("vda", "virtio")]);
        assert_eq!(
            (found[0].controllers.as_slice(), found[0].pci_address.as_deref()),
            (&["nvme0".to_owned()][..], Some("0000:01:00.0"))
        );
        let [_, sda, sdb, sdc, vda] = &found[..] else { panic!() };
        assert_eq!((sda.serial.as_deref(), sda.model.as_deref()), (Some("ABCD"), Some("SAMSUNG")));
        assert_eq!((sda.size_bytes, sda.is_rotational, sda.queue_depth), (Some(512_000), Some(false), Some(32)));
        assert_eq!((sda.hctl.as_deref(), sda.controller_driver.as_deref()), (Some("0:0:0:0"), Some("ahci")));
        assert_eq!(sda.smart.as_ref().unwrap().attributes[0].value, 100);
        assert_eq!((&sdb.ata, sdb.is_removable), (&None, Some(true)));
        assert_eq!((sdc.firmware_version.as_deref(), &sdc.vendor), (Some("0003"), &Some("SEAGATE".to_owned())));
        assert_eq!((vda.serial.as_deref(), &vda.vendor), (Some("VBLK1"), &None));
    }

    #[test]
    fn the_kernels_page_spares_the_disk() {
        let tree = Tree::new(&[]);
        block(&tree, "sda", "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0", &[("vendor", "ATA")]);
        let page = [&[0, 0x89, 2, 0x38][..], &[0; 56], &identify()].concat();
        tree.add("sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/vpd_pg89", page);
        assert_eq!(storage(&tree.root()).disks[0].serial.as_deref(), Some("ABCD"));
    }
}
