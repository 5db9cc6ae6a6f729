//! Root device hints, which select a host's installation disk.

use super::{PlanError, read::Fields};
use api::{Disk, Inventory};
use serde::Serialize;

/// All given hints must match (named as in BareMetalHost and AgentConfig).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hints {
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
    /// GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_size_gigabytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wwn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rotational: Option<bool>,
}

impl Hints {
    /// Takes them from an object.
    pub(crate) fn take(mut fields: Fields) -> Result<Self, PlanError> {
        Ok(Self {
            device_name: fields.text("deviceName")?,
            hctl: fields.text("hctl")?,
            model: fields.text("model")?,
            vendor: fields.text("vendor")?,
            serial_number: fields.text("serialNumber")?,
            min_size_gigabytes: fields.number("minSizeGigabytes")?,
            wwn: fields.text("wwn")?,
            rotational: fields.flag("rotational")?,
        })
    }

    /// No hints are given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
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
            [&disk.path, &disk.by_path, &disk.by_id, &disk.id].into_iter().any(|own| own == name) || disk.name == short
        });
        let size = self.min_size_gigabytes.is_none_or(|least| disk.size_bytes >= least.saturating_mul(1 << 30));
        let rotates = self.rotational.is_none_or(|wanted| wanted == (disk.drive_type == "HDD"));
        name && size
            && rotates
            && is(&self.hctl, &disk.hctl)
            && holds(&self.model, &disk.model)
            && holds(&self.vendor, &disk.vendor)
            && is(&self.serial_number, &disk.serial)
            && is(&self.wwn, &disk.wwn)
    }
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
        for name in ["/dev/sdb", "sdb", "/dev/disk/by-path/sdb"] {
            assert_eq!(found(Hints { device_name: text(name), ..none() }), ["sdb"], "{name}");
        }
        assert_eq!(found(Hints { serial_number: text("b"), ..none() }), ["sdb"]);
        assert_eq!(found(Hints { wwn: text("0x5000A"), ..none() }), ["sda"]);
        assert_eq!(found(Hints { min_size_gigabytes: Some(101), ..none() }), ["sdb"]);
        assert_eq!(found(Hints { rotational: Some(false), ..none() }), ["sda"]);
        assert_eq!(found(Hints { model: text("fast"), vendor: text("acm"), hctl: text("0:0:0:1"), ..none() }).len(), 2);
        assert_eq!(found(Hints { rotational: Some(false), serial_number: text("B"), ..none() }), Vec::<String>::new());
        assert_eq!(found(Hints { model: text("slow"), ..none() }), Vec::<String>::new());
    }
}
