//! Why a disk may not be installed to (docs/compatibility.md#eligibility).
//!
//! Texts up to the mounted partitions are the real agent's. It sees neither whole-disk mounts, nor swap, nor what is mounted
//! through LVM, RAID or encryption, nor write protection; those reasons are our own. An unused stack on a disk is not a
//! reason: it is left from the last installation, and the next one removes it.

use super::{
    APPLIANCE_PREFIX,
    device::Device,
    kind::DriveType,
    usage::{Usage, Use},
};
use crate::Root;

/// Names of devices that an installer can boot from.
const KNOWN_CONTROLLERS: [&str; 8] = ["sd", "hd", "vd", "nvme", "sr", "xvd", "mmc", "loop"];
const ISO_MEDIUM: &str = "Disk appears to be an ISO installation media (has partition with mountpoint suffix iso)";
const FIRMWARE: &str = "/sys/firmware";

/// What was found out about a disk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Empty if it may be installed to.
    pub reasons: Vec<String>,
    /// The ISO the host booted from is mounted from it.
    pub is_installation_media: bool,
}

/// Judges a disk. Its size is the service's business. `live_label` is that of the live ISO, if this disk holds it.
pub(super) fn judge(
    root: &Root,
    device: &Device,
    drive_type: DriveType,
    usage: &Usage,
    live_label: Option<&str>,
) -> Judgement {
    let mut judgement = Judgement::default();
    let begins = |prefix: &&str| device.name.starts_with(prefix);
    let is_special = device.is_multipath() || device.is_lvm() || ["dasd", "md"].iter().any(begins);
    if !KNOWN_CONTROLLERS.iter().any(begins) && !is_special {
        judgement.reasons.push("Disk has unknown storage controller".to_owned());
    }
    if device.is_lvm() {
        judgement.reasons.push("Disk is an LVM logical volume".to_owned());
    }
    if drive_type == DriveType::Iscsi {
        judgement.reasons.extend(iscsi_reasons(root, device));
    }
    // An appliance installs to the disk it runs from.
    if !device.partitions.iter().any(|partition| partition.label.starts_with(APPLIANCE_PREFIX)) {
        judge_uses(device, usage, &mut judgement);
    }
    if let Some(label) = live_label.filter(|_| !judgement.is_installation_media) {
        judgement.reasons.push(format!("Disk holds the live ISO '{label}' that the host booted from"));
        judgement.is_installation_media = true;
    }
    // Optical drives always are, and the service refuses them anyway.
    if device.is_read_only && drive_type != DriveType::Odd {
        judgement.reasons.push("Disk is read-only".to_owned());
    }
    judgement
}

fn judge_uses(device: &Device, usage: &Usage, judgement: &mut Judgement) {
    let whole = Part { name: &device.name, subject: "Disk is".to_owned(), holders: &device.holders };
    let partitions = device.partitions.iter().map(|partition| Part {
        name: &partition.name,
        subject: format!("Disk has partition '{}'", partition.name),
        holders: &partition.holders,
    });
    let parts: Vec<_> = partitions.chain([whole]).collect();
    for part in &parts {
        let direct = usage.direct(part.name);
        if direct.iter().any(|used| matches!(used, Use::Mount(target) if target.ends_with("iso"))) {
            judgement.reasons.push(ISO_MEDIUM.to_owned());
            judgement.is_installation_media = true;
            return;
        }
        judgement.reasons.extend(direct.first().map(|first| format!("{} {}", part.subject, phrase(first))));
    }
    for part in &parts {
        for (holder, used) in usage.stacked(part.holders) {
            // A stick with several paths to it.
            judgement.is_installation_media |= matches!(used, Use::Mount(target) if target.ends_with("iso"));
            judgement.reasons.push(format!("{} in use by '{holder}', which is {}", part.subject, phrase(used)));
        }
    }
}

/// A partition, or the whole disk.
struct Part<'a> {
    name: &'a str,
    subject: String,
    holders: &'a [String],
}

fn phrase(used: &Use) -> String {
    match used {
        Use::Mount(target) => format!("mounted on '{target}'"),
        Use::Swap => "in use as swap".to_owned(),
    }
}

/// An iSCSI disk can only be booted from if the firmware knows it too.
fn iscsi_reasons(root: &Root, device: &Device) -> Vec<String> {
    let mut reasons = Vec::new();
    match device.attribute(root, "device/state") {
        None => reasons.push("Failed to read state of iSCSI disk"),
        Some(state) if state != "running" => reasons.push("iSCSI disk is not in running state"),
        Some(_) => {}
    }
    reasons.extend(missing_from_firmware(root, device));
    reasons.into_iter().map(str::to_owned).collect()
}

fn missing_from_firmware(root: &Root, device: &Device) -> Option<&'static str> {
    let Some(session) = device.ancestor("session") else { return Some("Cannot find iSCSI session") };
    let Some(target) = root.attribute(format!("/sys/class/iscsi_session/{session}/targetname")) else {
        return Some("Cannot find iSCSI target name");
    };
    // The iBFT of software initiators, and what the firmware of each host bus adapter knows.
    let is_boot_table = |name: &String| name == "ibft" || name.starts_with("iscsi_boot");
    let tables: Vec<_> = root.list(FIRMWARE).into_iter().filter(is_boot_table).collect();
    if tables.is_empty() {
        return Some("iBFT firmware is missing");
    }
    let knows = |table: &String| {
        let targets = root.list(format!("{FIRMWARE}/{table}")).into_iter().filter(|name| name.contains("target"));
        let name = |entry: String| root.attribute(format!("{FIRMWARE}/{table}/{entry}/target-name"));
        targets.filter_map(name).any(|name| name == target)
    };
    if tables.iter().any(knows) { None } else { Some("iSCSI disk is missing from iBFT") }
}
