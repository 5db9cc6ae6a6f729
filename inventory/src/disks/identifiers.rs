//! Serial number, model and world-wide name of a disk (docs/compatibility.md#disk-identifiers): udev's if udev runs, else
//! in the form udev would give them.

use super::{device::Device, vpd};
use crate::Root;
use std::path::Path;

/// Largest page in sysfs.
const MAX_PAGE_BYTES: usize = 64 << 10;

/// udev's properties that hold a serial number, the best first.
pub(super) const SERIAL_PROPERTIES: [&str; 4] = ["SCSI_IDENT_SERIAL", "ID_SCSI_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL"];

pub(super) fn model(root: &Root, device: &Device) -> Option<String> {
    if let Some(model) = device.udev.get("ID_MODEL") {
        return Some(model.to_owned());
    }
    if let Some((model, _)) = ata(root, device) {
        return Some(underscored(&model));
    }
    let model = device.attribute(root, "device/model")?;
    // udev takes NVMe's as it is.
    Some(if device.name.starts_with("nvme") { model } else { underscored(&model) })
}

pub(super) fn serial(root: &Root, device: &Device) -> Option<String> {
    let known = device.udev.first(&SERIAL_PROPERTIES);
    if let Some(serial) = known {
        return Some(serial.to_owned());
    }
    // virtio has it with the block device, NVMe and MMC with the device; SCSI in a page.
    device
        .attribute(root, "serial")
        .or_else(|| device.attribute(root, "device/serial"))
        .or_else(|| ata(root, device).map(|(_, serial)| serial))
        .or_else(|| vpd::serial(&page(root, device, "vpd_pg80")?))
}

pub(super) fn wwn(root: &Root, device: &Device, by_id: &str) -> Option<String> {
    if let Some(wwn) = device.udev.first(&["ID_WWN_WITH_EXTENSION", "ID_WWN", "DM_WWN"]) {
        return Some(wwn.to_owned());
    }
    if !by_id.is_empty() {
        return Some(by_id.strip_prefix("/dev/disk/by-id/wwn-").unwrap_or(by_id).to_owned());
    }
    if device.name.starts_with("nvme") {
        return device.attribute(root, "wwid");
    }
    let from_page = page(root, device, "vpd_pg83").and_then(|page| vpd::naa(&page));
    from_page.or_else(|| Some(format!("0x{}", device.attribute(root, "device/wwid")?.strip_prefix("naa.")?)))
}

/// `has_uuid`: whether the device answers for its device identification page. VMware hides it until `disk.EnableUUID` is
/// set, and the service asks for it there. `None` if only the device itself can tell.
///
/// The kernel has read the page of most SCSI disks already, and asking it wakes no disk that sleeps. NVMe devices have no
/// pages, but what is made of their identification stands for it.
pub(super) fn has_device_identification(root: &Root, device: &Device) -> Option<bool> {
    let page = |dir: &Path| root.read(dir.join("device/vpd_pg83"), MAX_PAGE_BYTES);
    let has_page = |dir: &Path| page(dir).is_ok_and(|page| vpd::is_device_identification(&page));
    if device.name.starts_with("nvme") {
        let names_itself = |file: &&str| device.attribute(root, file).is_some();
        return Some(["wwid", "nguid", "eui", "device/serial"].iter().any(names_itself));
    }
    if device.is_multipath() {
        let slaves = device.sys.join("slaves");
        return root.list(&slaves).iter().any(|leg| has_page(&slaves.join(leg))).then_some(true);
    }
    if has_page(&device.sys) {
        return Some(true);
    }
    let speaks_scsi = ["sd", "sr", "st"].iter().any(|prefix| device.name.starts_with(prefix));
    (!speaks_scsi).then_some(false)
}

/// Of a disk that udev asks by ATA too. A RAID controller or SAS bridge answers for its disks, with its own names.
fn ata(root: &Root, device: &Device) -> Option<(String, String)> {
    let is_fixed_usb = || {
        device.sys.iter().any(|name| name.to_str().is_some_and(|name| name.starts_with("usb")))
            && device.attribute(root, "removable").as_deref() == Some("0")
    };
    if device.attribute(root, "device/vendor").as_deref() != Some("ATA") && !is_fixed_usb() {
        return None;
    }
    vpd::ata_model_and_serial(&page(root, device, "vpd_pg89")?)
}

fn page(root: &Root, device: &Device, name: &str) -> Option<Vec<u8>> {
    root.read(device.sys.join("device").join(name), MAX_PAGE_BYTES).ok()
}

/// udev's form of texts with blanks in them: one underscore for each run.
fn underscored(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("_")
}
