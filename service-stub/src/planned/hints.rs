//! Root device hints, which select a host's installation disk.

use crate::text::plain;
use api::{Disk, Inventory};
use serde::{Deserialize, Serialize};

/// A published one: 1000 MB.
const GIGABYTE: u64 = 1_000_000_000;

/// All given hints must match (named as in BareMetalHost and AgentConfig).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Hints {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hctl: Option<String>,
    /// Part of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Part of the vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vendor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) serial_number: Option<String>,
    /// Of 1000 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_size_gigabytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wwn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wwn_with_extension: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wwn_vendor_extension: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rotational: Option<bool>,
}

impl Hints {
    /// No hints are given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether they are of one disk alone, and not of a class of disks.
    pub(crate) fn name_one(&self) -> bool {
        let Self { device_name, hctl, serial_number, wwn, wwn_with_extension, wwn_vendor_extension, .. } = self;
        [device_name, hctl, serial_number, wwn, wwn_with_extension, wwn_vendor_extension]
            .into_iter()
            .any(Option::is_some)
    }

    /// The matching disks, in the inventory's order, those that the host would choose itself first.
    pub(crate) fn matching<'a>(&self, inventory: &'a Inventory) -> Vec<&'a Disk> {
        inventory.disks.iter().filter(|disk| disk.installation_eligibility.eligible && self.fits(disk)).collect()
    }

    fn fits(&self, disk: &Disk) -> bool {
        let is = |hint: &Option<String>, found: &str| {
            hint.as_ref().is_none_or(|hint| !found.is_empty() && found.eq_ignore_ascii_case(hint))
        };
        let holds = |hint: &Option<String>, found: &str| {
            hint.as_ref().is_none_or(|hint| found.to_lowercase().contains(&hint.to_lowercase()))
        };
        let name = self.device_name.as_ref().is_none_or(|name| {
            let short = name.strip_prefix("/dev/").unwrap_or(name);
            names(disk).any(|own| own == *name) || disk.name == short
        });
        let size = self.min_size_gigabytes.is_none_or(|least| disk.size_bytes / GIGABYTE >= least);
        let rotates = self.rotational.is_none_or(|wanted| wanted == (disk.drive_type == "HDD"));
        name && size
            && rotates
            && is(&self.hctl, &disk.hctl)
            && holds(&self.model, &disk.model)
            && holds(&self.vendor, &disk.vendor)
            && is(&self.serial_number, &disk.serial)
            && self.wwn.as_ref().is_none_or(|wwn| is_wwn(wwn, &disk.wwn))
            && is(&self.wwn_with_extension, &disk.wwn)
            && self.wwn_vendor_extension.as_ref().is_none_or(|extension| is_extension(extension, &disk.wwn))
    }
}

/// What udev calls a disk: the names that an inventory has, and those of the same facts that it has not
/// (`60-persistent-storage.rules`).
pub(crate) fn names(disk: &Disk) -> impl Iterator<Item = String> {
    const BY_ID: &str = "/dev/disk/by-id";
    let own = [&disk.path, &disk.by_path, &disk.by_id, &disk.id];
    let has = |text: &String| !text.is_empty();
    let model = [&disk.model, &disk.serial].into_iter().all(has).then(|| format!("{}_{}", disk.model, disk.serial));
    let of_model = model.iter().flat_map(|model| {
        ["ata-", "nvme-"]
            .map(|bus| format!("{BY_ID}/{bus}{model}"))
            .into_iter()
            .chain([format!("{BY_ID}/nvme-{model}_1")])
    });
    let of_serial = Some(&disk.serial).filter(|serial| has(serial)).map(|serial| format!("{BY_ID}/virtio-{serial}"));
    let of_wwn = Some(digits(&disk.wwn)).filter(|wwn| !wwn.is_empty()).map(|wwn| format!("{BY_ID}/scsi-3{wwn}"));
    // Of the first device of a port, without the device.
    let port = disk.by_path.strip_suffix(".0").filter(|port| port.contains("-ata-")).map(str::to_owned);
    let own = own.into_iter().filter(|text| has(text)).cloned();
    own.chain(of_model).chain(of_serial).chain(of_wwn).chain(port).collect::<Vec<_>>().into_iter()
}

/// Digits of a WWN without its extension.
const WWN_DIGITS: usize = 16;

fn digits(wwn: &str) -> &str {
    wwn.strip_prefix("0x").unwrap_or(wwn)
}

/// Inventories have the WWN with its extension.
fn is_wwn(hint: &str, found: &str) -> bool {
    let bare = digits(found).get(..WWN_DIGITS);
    !found.is_empty()
        && (found.eq_ignore_ascii_case(hint) || bare.is_some_and(|bare| bare.eq_ignore_ascii_case(digits(hint))))
}

fn is_extension(hint: &str, found: &str) -> bool {
    let extension = digits(found).get(WWN_DIGITS..).filter(|extension| !extension.is_empty());
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case(digits(hint)))
}

/// Names and identities of disks, for messages.
pub(crate) fn listed<'a>(disks: impl Iterator<Item = &'a Disk>) -> String {
    let name = |disk: &Disk| {
        let id = [&disk.wwn, &disk.serial, &disk.by_path].into_iter().find(|id| !id.is_empty());
        let why = if disk.installation_eligibility.eligible { "" } else { ", not eligible" };
        format!("{} ({}{why})", plain(&disk.name), plain(id.map_or("no identity", String::as_str)))
    };
    let all: Vec<String> = disks.map(name).collect();
    if all.is_empty() { "no disks".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_hint_must_fit() {
        let disk = |name: &str, serial: &str, gib: u64, kind: &str| {
            json!({"name": name, "path": format!("/dev/{name}"), "serial": serial, "wwn": format!("0x5000{serial}"),
                "model": "FAST 9000", "vendor": "ACME", "hctl": "0:0:0:1", "by_path": format!("/dev/disk/by-path/{name}"),
                "size_bytes": gib << 30, "drive_type": kind, "installation_eligibility": {"eligible": kind != "ODD"}})
        };
        let disks = [disk("sda", "A", 100, "SSD"), disk("sdb", "B", 500, "HDD"), disk("sr0", "C", 900, "ODD")];
        let inventory: Inventory = serde_json::from_value(json!({"disks": disks})).unwrap();
        let found =
            |hints: Hints| -> Vec<String> { hints.matching(&inventory).iter().map(|disk| disk.name.clone()).collect() };
        let text = |text: &str| Some(text.to_owned());
        let none = Hints::default;
        assert_eq!(found(none()), ["sda", "sdb"]);
        for name in [
            "/dev/sdb",
            "sdb",
            "/dev/disk/by-path/sdb",
            "/dev/disk/by-id/ata-FAST 9000_B",
            "/dev/disk/by-id/scsi-35000B",
        ] {
            assert_eq!(found(Hints { device_name: text(name), ..none() }), ["sdb"], "{name}");
        }
        assert_eq!(found(Hints { serial_number: text("b"), ..none() }), ["sdb"]);
        assert_eq!(found(Hints { wwn: text("0x5000A"), ..none() }), ["sda"]);
        assert_eq!(found(Hints { min_size_gigabytes: Some(108), ..none() }), ["sdb"]);
        assert_eq!(found(Hints { rotational: Some(false), ..none() }), ["sda"]);
        assert_eq!(found(Hints { model: text("fast"), vendor: text("acm"), hctl: text("0:0:0:1"), ..none() }).len(), 2);
        assert_eq!(found(Hints { rotational: Some(false), serial_number: text("B"), ..none() }), Vec::<String>::new());
        assert_eq!(found(Hints { model: text("slow"), ..none() }), Vec::<String>::new());
        assert_eq!(found(Hints { wwn_with_extension: text("0x5000B"), ..none() }), ["sdb"]);
    }

    #[test]
    fn a_wwn_has_an_extension() {
        let found = "0x600508b1001c625569d1476796d30000";
        assert!(is_wwn(found, found) && is_wwn("0x600508B1001C6255", found) && !is_wwn("0x600508b1001c6256", found));
        assert!(is_extension("0x69d1476796d30000", found) && !is_extension("0x69d1476796d30001", found));
        assert!(!is_wwn("", "") && !is_extension("", "0x600508b1001c6255"));
    }
}
