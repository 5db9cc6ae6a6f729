//! Disks in brief, which complete a command line: what sysfs and udev's database know. No device is opened or asked.

use super::{
    device::{Device, devices},
    identifiers, is_reported,
};
use crate::Root;
use kernel::units;

/// Nodes of the disks that can be written, by kernel name, and what each is: size and model.
pub fn disk_nodes(root: &Root) -> Vec<(String, String)> {
    let all = devices(root);
    all.iter().filter(|device| is_writable(device)).map(|device| (node(device), about(root, device))).collect()
}

fn is_writable(device: &Device) -> bool {
    let is_of_its_drive = device.name.starts_with("sr") || device.name.starts_with("fd");
    is_reported(device) && !is_of_its_drive && !device.is_read_only && device.size_bytes > 0
}

fn node(device: &Device) -> String {
    device.node().to_string_lossy().into_owned()
}

fn about(root: &Root, device: &Device) -> String {
    let model = identifiers::model(root, device).unwrap_or_default();
    format!("{} {}", units::short(device.size_bytes), model.replace('_', " ")).trim_end().to_owned()
}
