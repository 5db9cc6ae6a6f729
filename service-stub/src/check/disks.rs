//! Which disks may be installed to, and which one is (docs/compatibility.md#roles).

use super::requirements::{Requirements, is_at_least};
use crate::model::{ChosenDisk, ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::planned::names;
use api::{Disk, Eligibility, Inventory};
use kernel::order;
use std::{cmp::Reverse, net::IpAddr};

/// How the service's own reasons begin. They are worked out anew each time; those of the agent stay.
const OWN_REASONS: [&str; 6] = [
    "Disk is too small: ",
    "Drive type is ",
    "Disk is a path of a multipath device",
    "Multipath device has paths ",
    "iSCSI: ",
    "iSCSI traffic goes through ",
];

/// What a disk is judged by besides itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Smallest size, GB (10^9 bytes).
    pub(crate) disk_size_gb: u64,
    /// Version to be installed; empty while it isn't known.
    pub(crate) version: &'a str,
}

impl<'a> Wanted<'a> {
    /// What a host of the cluster needs in its role; without a cluster, what any role needs.
    pub(crate) fn for_host(
        requirements: &Requirements,
        record: &HostRecord,
        cluster: Option<&'a ClusterRecord>,
        inventory: &Inventory,
    ) -> Self {
        let Some(cluster) = cluster else {
            return Self { disk_size_gb: requirements.least("").disk_size_gb, version: "" };
        };
        let (version, role) = (cluster.cluster.openshift_version.as_str(), record.effective_role());
        let needs = requirements.machine_needs(version, role, cluster.single_node(), Some(inventory));
        Self { disk_size_gb: needs.disk_size_gb, version }
    }
}

/// Adds the service's reasons to the agent's; an eligible disk has none.
pub(crate) fn judge(inventory: &mut Inventory, wanted: Wanted) {
    let reasons: Vec<_> = inventory.disks.iter().map(|disk| reasons(disk, inventory, wanted)).collect();
    for (disk, own) in inventory.disks.iter_mut().zip(reasons) {
        let mut all = disk.installation_eligibility.not_eligible_reasons.take().unwrap_or_default();
        all.retain(|reason| !OWN_REASONS.iter().any(|start| reason.starts_with(start)));
        all.extend(own);
        let eligible = all.is_empty();
        disk.installation_eligibility = Eligibility { eligible, not_eligible_reasons: (!eligible).then_some(all) };
    }
}

/// Drive types an operating system may be installed to, by its version and the machine's architecture.
fn installable(inventory: &Inventory, version: &str) -> Vec<&'static str> {
    let architecture = inventory.cpu.as_ref().map_or("", |cpu| cpu.architecture.as_str());
    let mainframe = architecture == "s390x";
    let mut types = vec!["HDD", "SSD", "Multipath"];
    let further = [
        (&["FC"][..], mainframe || matches!(architecture, "x86_64" | "")),
        (&["RAID"], is_at_least(version, 4, 14)),
        (&["iSCSI"], is_at_least(version, 4, 15)),
        (&["ECKD", "ECKD (ESE)", "FBA"], mainframe),
    ];
    types.extend(further.iter().filter(|(_, taken)| *taken).flat_map(|(names, _)| *names));
    types
}

fn reasons(disk: &Disk, inventory: &Inventory, wanted: Wanted) -> Vec<String> {
    let mut reasons = Vec::new();
    let Wanted { disk_size_gb, version } = wanted;
    if disk.size_bytes < disk_size_gb.saturating_mul(1_000_000_000) {
        reasons.push(format!(
            "Disk is too small: it has {:.2} GB, {disk_size_gb} GB are needed",
            gigabytes(disk.size_bytes)
        ));
    }
    let types = installable(inventory, version);
    if !types.contains(&disk.drive_type.as_str()) {
        reasons.push(format!("Drive type is {}, it must be one of {}", disk.drive_type, types.join(", ")));
    }
    match disk.drive_type.as_str() {
        "FC" | "iSCSI" if is_path(disk, inventory) => {
            reasons.push("Disk is a path of a multipath device: install to that device".to_owned());
        }
        "Multipath" => reasons.extend(multipath_reason(disk, inventory)),
        _ => {}
    }
    if disk.drive_type == "iSCSI" {
        reasons.extend(iscsi_reason(disk, inventory));
    }
    reasons
}

fn holders(disk: &Disk) -> impl Iterator<Item = &str> {
    disk.holders.split(',').map(str::trim).filter(|holder| !holder.is_empty())
}

fn is_path(disk: &Disk, inventory: &Inventory) -> bool {
    let multipath = |name: &str| inventory.disks.iter().any(|disk| disk.drive_type == "Multipath" && disk.name == name);
    holders(disk).any(multipath)
}

/// Its paths are all of Fibre Channel, or all of iSCSI and each one good.
fn multipath_reason(device: &Disk, inventory: &Inventory) -> Option<String> {
    let paths = inventory.disks.iter().filter(|disk| holders(disk).any(|holder| holder == device.name));
    let paths: Vec<&Disk> = paths.collect();
    let all = |kind: &str| paths.iter().all(|path| path.drive_type == kind);
    if all("iSCSI") {
        return paths.iter().find_map(|path| iscsi_reason(path, inventory));
    }
    (!all("FC")).then(|| {
        let mut kinds: Vec<&str> = paths.iter().map(|path| path.drive_type.as_str()).collect();
        order::sort(&mut kinds);
        kinds.dedup();
        format!("Multipath device has paths of {}: all must be FC, or all iSCSI", kinds.join(", "))
    })
}

fn iscsi_reason(disk: &Disk, inventory: &Inventory) -> Option<String> {
    let Some(address) = disk.iscsi.as_ref().and_then(|iscsi| iscsi.host_ip_address.parse::<IpAddr>().ok()) else {
        return Some("iSCSI: the host's address in the session is not known".to_owned());
    };
    let interface = inventory.interfaces.iter().find(|interface| {
        let networks = interface.ipv4_addresses.iter().chain(&interface.ipv6_addresses);
        networks.filter_map(|text| text.parse::<Cidr>().ok()).any(|cidr| cidr.address == address)
    })?;
    let defaults = inventory.routes.iter().filter(|route| is_default(&route.destination) && !route.gateway.is_empty());
    defaults
        .filter(|route| route.interface == interface.name)
        .map(|_| format!("iSCSI traffic goes through {}, which also carries the default route", interface.name))
        .next()
}

/// Whether a route's destination is "anywhere".
pub(crate) fn is_default(destination: &str) -> bool {
    matches!(destination, "0.0.0.0" | "::" | "0.0.0.0/0" | "::/0")
}

// For people only; 2^53 bytes are 9 PB, beyond which the text rounds.
#[allow(clippy::cast_precision_loss)]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// The device node; by its name where the inventory has no path.
pub(crate) fn node(disk: &Disk) -> String {
    match (disk.path.as_str(), disk.name.as_str()) {
        ("", "") => String::new(),
        ("", name) => format!("/dev/{name}"),
        (path, _) => path.to_owned(),
    }
}

/// The identifier instructions and settings use: by-id, else by-path, else the device node.
pub(crate) fn identifier(disk: &Disk) -> String {
    let named = [&disk.by_id, &disk.by_path, &disk.id].into_iter().find(|text| !text.is_empty());
    named.cloned().unwrap_or_else(|| node(disk))
}

/// The disk to install to: the wanted one while it is eligible, else the first eligible in the service's order
/// (bootable first, NVMe last, drive type by name, smallest, SCSI address).
pub(crate) fn choose<'a>(inventory: &'a Inventory, wanted: &str) -> Option<&'a Disk> {
    let eligible = || inventory.disks.iter().filter(|disk| disk.installation_eligibility.eligible);
    let is_wanted = |disk: &&Disk| !wanted.is_empty() && answers_to(disk, wanted);
    eligible().find(is_wanted).or_else(|| {
        eligible().min_by_key(|disk| {
            let nvme = disk.name.starts_with("nvme");
            (Reverse(disk.bootable), nvme, &disk.drive_type, disk.size_bytes, &disk.hctl)
        })
    })
}

/// The disk that was chosen, eligible or not.
pub(crate) fn chosen<'a>(inventory: &'a Inventory, chosen: &ChosenDisk) -> Option<&'a Disk> {
    inventory.disks.iter().find(|disk| answers_to(disk, &chosen.id))
}

/// Why the chosen disk can't be installed to.
pub(crate) fn fault_of_chosen(inventory: &Inventory, chosen: &ChosenDisk) -> Option<String> {
    let label = if chosen.name == chosen.id { chosen.id.clone() } else { format!("{} ({})", chosen.name, chosen.id) };
    let Some(disk) = self::chosen(inventory, chosen) else {
        return Some(format!("The disk chosen for installation, {label}, is not there"));
    };
    let eligibility = &disk.installation_eligibility;
    let reasons = || eligibility.not_eligible_reasons.as_deref().unwrap_or_default().join("; ");
    (!eligibility.eligible)
        .then(|| format!("The disk chosen for installation, {label}, can't be installed to: {}", reasons()))
}

/// Whether a user who says `name` means this disk.
pub(crate) fn answers_to(disk: &Disk, name: &str) -> bool {
    names(disk).any(|own| own == name) || node(disk) == name
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

    const WANTED: Wanted = Wanted { disk_size_gb: 100, version: "4.22.9" };

    fn judged(disks: Vec<Disk>) -> Inventory {
        let mut inventory = Inventory { disks, ..Inventory::default() };
        judge(&mut inventory, WANTED);
        inventory
    }

    #[test]
    fn reasons_are_worked_out_anew_and_eligibility_follows() {
        let mut own = disk("sdb", "SSD", 200);
        own.installation_eligibility.not_eligible_reasons = Some(vec!["Disk is removable".into()]);
        let mut inventory = judged(vec![disk("sda", "HDD", 99), own, disk("sdc", "SSD", 100), disk("sr0", "ODD", 0)]);
        judge(&mut inventory, WANTED);
        let eligible = |inventory: &Inventory| {
            inventory.disks.iter().map(|disk| disk.installation_eligibility.eligible).collect::<Vec<_>>()
        };
        assert_eq!(eligible(&inventory), [false, false, true, false]);
        let reasons = |index: usize| inventory.disks[index].installation_eligibility.not_eligible_reasons.clone();
        assert_eq!(reasons(0), Some(vec!["Disk is too small: it has 99.00 GB, 100 GB are needed".to_owned()]));
        assert_eq!(reasons(1), Some(vec!["Disk is removable".to_owned()]));
        assert_eq!(reasons(2), None);
        assert_eq!(reasons(3).unwrap().len(), 2);
        judge(&mut inventory, Wanted { disk_size_gb: 50, ..WANTED });
        assert_eq!(eligible(&inventory), [true, false, true, false], "another role needs less");
    }

    #[test]
    fn kinds_of_drives_by_version_and_architecture() {
        const OLD: &str = "4.13.9";
        let rows: [(&str, &str, &[&str]); 6] = [
            ("x86_64", OLD, &["HDD", "SSD", "Multipath", "FC"]),
            ("x86_64", "4.14.0", &["HDD", "SSD", "Multipath", "FC", "RAID"]),
            ("x86_64", "4.15.1", &["HDD", "SSD", "Multipath", "FC", "RAID", "iSCSI"]),
            ("aarch64", "4.15.1", &["HDD", "SSD", "Multipath", "RAID", "iSCSI"]),
            ("s390x", OLD, &["HDD", "SSD", "Multipath", "FC", "ECKD", "ECKD (ESE)", "FBA"]),
            ("x86_64", "", &["HDD", "SSD", "Multipath", "FC", "RAID", "iSCSI"]),
        ];
        for (architecture, version, taken) in rows {
            let inventory = serde_json::json!({"cpu": {"architecture": architecture}});
            let inventory: Inventory = serde_json::from_value(inventory).unwrap();
            assert_eq!(installable(&inventory, version), taken, "{architecture} {version}");
        }
    }

    #[test]
    fn paths_of_multipath_devices() {
        let path = |name: &str, kind: &str| Disk { holders: "dm-0".into(), ..disk(name, kind, 200) };
        let device = |kinds: &[&str]| {
            let paths = kinds.iter().enumerate().map(|(n, kind)| path(&format!("sd{n}"), kind));
            judged(std::iter::once(disk("dm-0", "Multipath", 200)).chain(paths).collect())
        };
        let reasons = |inventory: &Inventory, index: usize| {
            inventory.disks[index].installation_eligibility.not_eligible_reasons.clone().unwrap_or_default().join("|")
        };
        let fibre = device(&["FC", "FC"]);
        assert_eq!(reasons(&fibre, 0), "");
        assert_eq!(reasons(&fibre, 1), "Disk is a path of a multipath device: install to that device");
        let mixed = device(&["FC", "SSD"]);
        assert_eq!(reasons(&mixed, 0), "Multipath device has paths of FC, SSD: all must be FC, or all iSCSI");
        assert_eq!(reasons(&mixed, 2), "", "only paths of FC and iSCSI are refused as such");
        let remote = device(&["iSCSI"]);
        assert_eq!(reasons(&remote, 0), "iSCSI: the host's address in the session is not known");
        let raid = judged(vec![Disk { holders: "dm-7".into(), ..disk("sda", "FC", 200) }]);
        assert_eq!(reasons(&raid, 0), "", "a holder that is no multipath device");
    }

    #[test]
    fn iscsi_needs_an_interface_of_its_own() {
        let of = |host: &str| {
            let text = serde_json::json!({
                "disks": [{"name": "sda", "drive_type": "iSCSI", "size_bytes": 200_000_000_000_u64,
                           "iscsi": {"host_ip_address": host}}],
                "interfaces": [{"name": "eth0", "ipv4_addresses": ["192.0.2.7/24"]},
                               {"name": "eth1", "ipv4_addresses": ["198.51.100.7/24"]}],
                "routes": [{"destination": "0.0.0.0", "gateway": "192.0.2.1", "interface": "eth0"}],
            });
            let mut inventory: Inventory = serde_json::from_value(text).unwrap();
            judge(&mut inventory, WANTED);
            inventory.disks[0].installation_eligibility.not_eligible_reasons.clone().unwrap_or_default().join("|")
        };
        assert_eq!(of("198.51.100.7"), "");
        assert_eq!(of("192.0.2.7"), "iSCSI traffic goes through eth0, which also carries the default route");
        assert_eq!(of(""), "iSCSI: the host's address in the session is not known");
    }

    #[test]
    fn a_disk_without_a_path_is_known_by_its_name() {
        let nameless = Disk { path: String::new(), id: String::new(), ..disk("sda", "SSD", 200) };
        assert_eq!((node(&nameless).as_str(), identifier(&nameless).as_str()), ("/dev/sda", "/dev/sda"));
        assert!(answers_to(&nameless, "/dev/sda") && !answers_to(&nameless, "/dev/sdb"));
        assert_eq!(node(&Disk::default()), "");
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
