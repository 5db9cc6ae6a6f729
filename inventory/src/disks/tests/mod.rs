//! Disks of machines made up for the test.

mod devices;
mod facts;
mod iscsi;
mod uses;

use super::*;
use crate::{mounts, testing::Tree};

const SATA: &str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0";
const EFI_ISO: &str = "Disk appears to be an ISO installation media (has partition with mountpoint suffix iso)";

/// Adds a block device; files are paths in its directory.
fn add(tree: &Tree, name: &str, place: &str, files: &[(&str, &str)]) {
    for (file, content) in files {
        tree.add(&format!("sys/devices/{place}/block/{name}/{file}"), format!("{content}\n"));
    }
    tree.link(&format!("sys/block/{name}"), &format!("../devices/{place}/block/{name}"));
    tree.link(&format!("sys/devices/{place}/block/{name}/device"), "../..");
}

fn virtual_disk(tree: &Tree, name: &str, files: &[(&str, &str)]) {
    for (file, content) in files {
        tree.add(&format!("sys/devices/virtual/block/{name}/{file}"), format!("{content}\n"));
    }
    tree.link(&format!("sys/block/{name}"), &format!("../devices/virtual/block/{name}"));
}

fn read_disks(tree: &Tree) -> Vec<Disk> {
    let root = tree.root();
    let boot = crate::boot::boot(&root, &[]);
    let label = crate::boot::live_label(&boot);
    disks(&root, &mounts::mounts(&root), &mounts::swaps(&root), label.as_deref())
}

fn reasons(disk: &Disk) -> Vec<&str> {
    let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
    assert_eq!(disk.installation_eligibility.eligible, reasons.is_empty());
    reasons.iter().map(String::as_str).collect()
}

fn mounted(tree: &Tree, lines: &[(&str, &str, &str)]) {
    let table: String = lines
        .iter()
        .map(|(number, target, source)| format!("1 2 {number} / {target} rw - ext4 {source} rw\n"))
        .collect();
    tree.add("proc/1/mountinfo", table);
}
