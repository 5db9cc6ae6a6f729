//! Which disks may be installed to, and which one is (service contract §9).

use crate::net::Cidr;
use api::{Disk, Eligibility, Inventory};
use std::{cmp::Reverse, net::IpAddr};

/// Drive types an operating system may be installed to.
const INSTALLABLE: [&str; 6] = ["HDD", "SSD", "Multipath", "RAID", "iSCSI", "FC"];

/// Adds the service's reasons to the agent's; an eligible disk has none.
pub fn judge(inventory: &mut Inventory, disk_size_gb: u64) {
    let reasons: Vec<_> = inventory.disks.iter().map(|disk| reasons(disk, inventory, disk_size_gb)).collect();
    for (disk, new) in inventory.disks.iter_mut().zip(reasons) {
        let mut all = disk.installation_eligibility.not_eligible_reasons.take().unwrap_or_default();
        for reason in new {
            if !all.contains(&reason) {
                all.push(reason);
            }
        }
        let eligible = all.is_empty();
        disk.installation_eligibility = Eligibility { eligible, not_eligible_reasons: (!eligible).then_some(all) };
    }
}

fn reasons(disk: &Disk, inventory: &Inventory, disk_size_gb: u64) -> Vec<String> {
    let mut reasons = Vec::new();
    let needed = disk_size_gb.saturating_mul(1_000_000_000);
    if disk.size_bytes < needed {
        reasons.push(format!(
            "Disk is too small: it has {:.2} GB, {disk_size_gb} GB are needed",
            gigabytes(disk.size_bytes)
        ));
    }
    if !INSTALLABLE.contains(&disk.drive_type.as_str()) {
        reasons.push(format!("Drive type is {}, it must be one of {}", disk.drive_type, INSTALLABLE.join(", ")));
    }
    if matches!(disk.drive_type.as_str(), "FC" | "iSCSI") && holders(disk).any(|holder| holder.starts_with("dm-")) {
        reasons.push("Disk is a path of a multipath device: install to that device".to_owned());
    }
    if disk.drive_type == "iSCSI" {
        reasons.extend(iscsi_reason(disk, inventory));
    }
    reasons
}

fn holders(disk: &Disk) -> impl Iterator<Item = &str> {
    disk.holders.split(',').map(str::trim).filter(|holder| !holder.is_empty())
}

fn iscsi_reason(disk: &Disk, inventory: &Inventory) -> Option<String> {
    let Some(address) = disk.iscsi.as_ref().and_then(|iscsi| iscsi.host_ip_address.parse::<IpAddr>().ok()) else {
        return Some("The host's address in the iSCSI session is not known".to_owned());
    };
    let interface = inventory.interfaces.iter().find(|interface| {
        let networks = interface.ipv4_addresses.iter().chain(&interface.ipv6_addresses);
        networks.filter_map(|text| text.parse::<Cidr>().ok()).any(|cidr| cidr.address == address)
    })?;
    let default_route =
        inventory.routes.iter().find(|route| is_default(&route.destination) && !route.gateway.is_empty());
    (default_route?.interface == interface.name)
        .then(|| format!("iSCSI traffic goes through {}, which also carries the default route", interface.name))
}

/// Whether a route's destination is "anywhere".
pub fn is_default(destination: &str) -> bool {
    matches!(destination, "0.0.0.0" | "::" | "0.0.0.0/0" | "::/0")
}

// For people only; 2^53 bytes are 9 PB, beyond which the text rounds.
#[allow(clippy::cast_precision_loss)]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// The identifier instructions and settings use: by-id, else by-path, else the device node.
pub fn identifier(disk: &Disk) -> &str {
    [&disk.by_id, &disk.by_path, &disk.id, &disk.path]
        .into_iter()
        .find(|text| !text.is_empty())
        .map_or("", String::as_str)
}

/// The disk to install to: the wanted one while it is eligible, else the first eligible in the service's order
/// (bootable first, NVMe last, drive type by name, smallest, SCSI address).
pub fn choose<'a>(inventory: &'a Inventory, wanted: &str) -> Option<&'a Disk> {
    let eligible = || inventory.disks.iter().filter(|disk| disk.installation_eligibility.eligible);
    let is_wanted = |disk: &&Disk| !wanted.is_empty() && answers_to(disk, wanted);
    eligible().find(is_wanted).or_else(|| {
        eligible().min_by_key(|disk| {
            let nvme = disk.name.starts_with("nvme");
            (Reverse(disk.bootable), nvme, &disk.drive_type, disk.size_bytes, &disk.hctl)
        })
    })
}

/// Whether a user who says `name` means this disk.
pub fn answers_to(disk: &Disk, name: &str) -> bool {
    [&disk.id, &disk.by_id, &disk.by_path, &disk.path].into_iter().any(|text| text == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, drive_type: &str, gb: u64) -> Disk {
        Disk {
            name: name.into(),
            path: format!("/dev/{name}"),
            id: format!("/dev/{name}"),
            drive_type: drive_type.into(),
            size_bytes: gb * 1_000_000_000,
            ..Disk::default()
        }
    }

    fn judged(disks: Vec<Disk>) -> Inventory {
        let mut inventory = Inventory { disks, ..Inventory::default() };
        judge(&mut inventory, 100);
        inventory
    }

    #[test]
    fn reasons_are_added_once_and_eligibility_follows() {
        let mut own = disk("sdb", "SSD", 200);
        own.installation_eligibility.not_eligible_reasons = Some(vec!["Disk is removable".into()]);
        let mut inventory = judged(vec![disk("sda", "HDD", 99), own, disk("sdc", "SSD", 100), disk("sr0", "ODD", 0)]);
        judge(&mut inventory, 100);
        let eligible: Vec<_> = inventory.disks.iter().map(|disk| disk.installation_eligibility.eligible).collect();
        assert_eq!(eligible, [false, false, true, false]);
        let reasons = |index: usize| inventory.disks[index].installation_eligibility.not_eligible_reasons.clone();
        assert_eq!(reasons(0).unwrap().len(), 1);
        assert_eq!(reasons(1), Some(vec!["Disk is removable".to_owned()]));
        assert_eq!(reasons(2), None);
        assert_eq!(reasons(3).unwrap().len(), 2);
    }

    #[test]
    fn order_of_choice() {
        let mut boot = disk("sdd", "SSD", 900);
        boot.bootable = true;
        let disks = vec![
            disk("nvme0n1", "SSD", 120),
            disk("sda", "SSD", 150),
            disk("sdb", "HDD", 500),
            disk("sdc", "HDD", 400),
        ];
        let inventory = judged(disks.clone());
        assert_eq!(choose(&inventory, "").unwrap().name, "sdc");
        assert_eq!(choose(&inventory, "/dev/nvme0n1").unwrap().name, "nvme0n1", "the user's choice");
        assert_eq!(choose(&inventory, "/dev/gone").unwrap().name, "sdc", "a choice that is gone");
        let inventory = judged([disks, vec![boot]].concat());
        assert_eq!(choose(&inventory, "").unwrap().name, "sdd");
        assert_eq!(choose(&judged(vec![disk("sda", "HDD", 1)]), ""), None);
    }
}
