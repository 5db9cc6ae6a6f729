//! What kind of drive a device is (docs/compatibility.md#drive-types).

use super::device::Device;
use crate::Root;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DriveType {
    Unknown,
    Hdd,
    Fdd,
    Odd,
    Ssd,
    Multipath,
    Iscsi,
    Fc,
    Lvm,
    Raid,
    Eckd,
    EckdEse,
    Fba,
}

impl DriveType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Hdd => "HDD",
            Self::Fdd => "FDD",
            Self::Odd => "ODD",
            Self::Ssd => "SSD",
            Self::Multipath => "Multipath",
            Self::Iscsi => "iSCSI",
            Self::Fc => "FC",
            Self::Lvm => "LVM",
            Self::Raid => "RAID",
            Self::Eckd => "ECKD",
            Self::EckdEse => "ECKD (ESE)",
            Self::Fba => "FBA",
        }
    }
}

/// Transport and stacking first, then the name and the motor.
///
/// iSCSI and FC are recognised by udev's `ID_PATH`; without udev, by the session or remote port in the device's sysfs path.
pub(super) fn drive_type(root: &Root, device: &Device) -> DriveType {
    if device.name.starts_with("dasd") {
        return dasd(root, device);
    }
    let (is_iscsi, is_fc) = match device.udev.get("ID_PATH") {
        Some(path) => (path.contains("-iscsi-"), path.contains("-fc-") || path.starts_with("fc-")),
        None => (device.ancestor("session").is_some(), has_remote_port(device)),
    };
    if is_iscsi {
        DriveType::Iscsi
    } else if is_fc {
        DriveType::Fc
    } else if device.is_multipath() {
        DriveType::Multipath
    } else if device.is_lvm() {
        DriveType::Lvm
    } else if device.name.starts_with("md") {
        DriveType::Raid
    } else {
        by_name(root, device)
    }
}

fn by_name(root: &Root, device: &Device) -> DriveType {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| device.name.starts_with(prefix));
    if begins(&["fd"]) {
        DriveType::Fdd
    } else if begins(&["sr"]) {
        DriveType::Odd
    } else if begins(&["nvme", "mmc"]) {
        DriveType::Ssd
    } else if begins(&["sd", "hd", "vd", "xvd"]) {
        let rotates = device.attribute(root, "queue/rotational").as_deref() == Some("1");
        if rotates { DriveType::Hdd } else { DriveType::Ssd }
    } else {
        DriveType::Unknown
    }
}

fn has_remote_port(device: &Device) -> bool {
    device.sys.iter().filter_map(|name| name.to_str()).any(|name| name.starts_with("rport-"))
}

fn dasd(root: &Root, device: &Device) -> DriveType {
    let ccw = device.sys.parent().and_then(|block| block.parent());
    let attribute = |file: &str| root.attribute(ccw?.join(file));
    match attribute("discipline").as_deref() {
        Some("ECKD") => match attribute("ese").as_deref() {
            Some("1") => DriveType::EckdEse,
            Some(_) => DriveType::Eckd,
            None => DriveType::Unknown,
        },
        Some("FBA") => DriveType::Fba,
        _ => DriveType::Unknown,
    }
}
