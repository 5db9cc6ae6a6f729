//! What is between SAS adapters and disks: expanders, links, and enclosures with their bays.

use super::{logs::answers, place::pci_address, storage::Disk};
use crate::{
    Root,
    ask::Question,
    ses::{self, Enclosure, EnclosureBay, EnclosurePart},
};
use serde::{Deserialize, Serialize};

const SCSI_DEVICES: &str = "/sys/bus/scsi/devices";
const PHYS: &str = "/sys/class/sas_phy";
const EXPANDERS: &str = "/sys/class/sas_expander";
/// The SCSI device type of an enclosure.
const ENCLOSURE_TYPE: &str = "13";
/// Counters of a link, which the adapter or an expander is asked for.
const COUNTERS: [&str; 4] =
    ["invalid_dword_count", "running_disparity_error_count", "loss_of_dword_sync_count", "phy_reset_problem_count"];

/// A SAS expander.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SasExpander {
    /// Kernel name, such as expander-0:1.
    pub name: String,
    /// Vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Firmware revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_version: Option<String>,
    /// Expanders between it and the adapter, itself included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
}

/// A SAS link, of an adapter, an expander or a disk, that is up or counted errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SasPhy {
    /// Kernel name, such as phy-0:3 of an adapter, or phy-0:0:12 of its first expander.
    pub name: String,
    /// Speed, megabits a second; absent when it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// Fastest speed that this end can have and may have, megabits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_speed_mbps: Option<u32>,
    /// What is attached at this end, such as end device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// Words that were not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_dwords: Option<u64>,
    /// Errors of running disparity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disparity_errors: Option<u64>,
    /// Losses of synchronisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_losses: Option<u64>,
    /// Resets that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_problems: Option<u64>,
}

/// Enclosures with all their bays and parts.
#[derive(Debug, Default)]
pub(super) struct Enclosures {
    pub enclosures: Vec<Enclosure>,
    pub bays: Vec<EnclosureBay>,
    pub parts: Vec<EnclosurePart>,
}

/// By SCSI address. Each is asked through its generic SCSI node.
pub(super) fn enclosures(root: &Root, disks: &[Disk]) -> Enclosures {
    let mut found = Enclosures::default();
    let mut questions = Vec::new();
    let mut names = root.list(SCSI_DEVICES);
    names.retain(|name| root.attribute(format!("{SCSI_DEVICES}/{name}/type")).as_deref() == Some(ENCLOSURE_TYPE));
    for name in &names {
        let node = root.list(format!("{SCSI_DEVICES}/{name}/scsi_generic")).into_iter().next().unwrap_or_default();
        questions.extend(ses::PAGES.map(|page| Question::EnclosurePage { node: node.clone(), page }));
    }
    let addresses: Vec<(&str, Option<String>)> = disks
        .iter()
        .map(|disk| (disk.name.as_str(), root.attribute(format!("/sys/block/{}/device/sas_address", disk.name))))
        .collect();
    let mut answers = answers(root, &questions).into_iter().map(Option::unwrap_or_default);
    for name in names {
        let pages: [Vec<u8>; 4] = std::array::from_fn(|_| answers.next().unwrap_or_default());
        let content = ses::content(pages.each_ref().map(Vec::as_slice)).unwrap_or_default();
        let dir = format!("{SCSI_DEVICES}/{name}");
        let text = |file: &str| root.attribute(format!("{dir}/{file}")).filter(|text| !text.is_empty());
        found.enclosures.push(Enclosure {
            pci_address: root.resolve(&dir).and_then(|sys| pci_address(&sys)),
            vendor: text("vendor"),
            model: text("model"),
            firmware_version: text("rev"),
            wwn: content.wwn,
            conditions: content.conditions,
            name: name.clone(),
        });
        found.bays.extend(content.bays.into_iter().map(|bay| {
            EnclosureBay {
                enclosure: name.clone(),
                disk: addresses
                    .iter()
                    .find(|(_, address)| address.is_some() && *address == bay.wwn)
                    .map(|(disk, _)| (*disk).to_owned()),
                ..bay
            }
        }));
        found.parts.extend(content.parts.into_iter().map(|part| EnclosurePart { enclosure: name.clone(), ..part }));
    }
    found
}

/// By name.
pub(super) fn expanders(root: &Root) -> Vec<SasExpander> {
    let expander = |name: String| {
        let text = |file: &str| root.attribute(format!("{EXPANDERS}/{name}/{file}")).filter(|text| !text.is_empty());
        SasExpander {
            vendor: text("vendor_id"),
            model: text("product_id"),
            firmware_version: text("product_rev"),
            level: root.number(format!("{EXPANDERS}/{name}/level")),
            name,
        }
    };
    root.list(EXPANDERS).into_iter().map(expander).collect()
}

/// By name.
pub(super) fn phys(root: &Root) -> Vec<SasPhy> {
    let names = root.list(PHYS);
    let files: Vec<String> =
        names.iter().flat_map(|name| COUNTERS.map(|counter| format!("{PHYS}/{name}/{counter}"))).collect();
    let mut counts = root.measured(&files).into_iter().map(|text| text.and_then(|text| text.parse().ok()));
    let mut phys = Vec::new();
    for name in names {
        let [invalid_dwords, disparity_errors, sync_losses, reset_problems] =
            std::array::from_fn(|_| counts.next().flatten());
        let text = |file: &str| root.attribute(format!("{PHYS}/{name}/{file}"));
        let speed = |file: &str| text(file).and_then(|text| mbps(&text));
        let phy = SasPhy {
            speed_mbps: speed("negotiated_linkrate"),
            max_speed_mbps: ["maximum_linkrate_hw", "maximum_linkrate"].into_iter().filter_map(speed).min(),
            device_type: text("device_type").filter(|kind| kind != "none" && !kind.is_empty()),
            invalid_dwords,
            disparity_errors,
            sync_losses,
            reset_problems,
            name,
        };
        let counted = [invalid_dwords, disparity_errors, sync_losses, reset_problems];
        if phy.speed_mbps.is_some() || counted.iter().flatten().any(|count: &u64| *count > 0) {
            phys.push(phy);
        }
    }
    phys
}

/// Of `12.0 Gbit`; other texts say why there is none.
fn mbps(text: &str) -> Option<u32> {
    let (whole, tenth) = text.strip_suffix(" Gbit")?.split_once('.')?;
    let tenth: u32 = tenth.parse().ok().filter(|tenth| *tenth < 10)?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(tenth * 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ses::tests::pages, testing::Tree};

    #[test]
    fn speeds() {
        assert_eq!(["1.5 Gbit", "12.0 Gbit", "22.5 Gbit"].map(mbps), [Some(1500), Some(12_000), Some(22_500)]);
        assert_eq!(["Unknown", "Phy disabled", "", "4294967.9 Gbit"].map(mbps), [None; 4]);
    }

    #[test]
    fn a_disk_is_found_in_its_bay() {
        let tree = Tree::new(&[]);
        let device = "sys/devices/pci0000:00/0000:04:00.0/host1/target1:0:8/1:0:8:0";
        for (file, content) in [("type", "13\n"), ("vendor", "LSI     \n"), ("model", "SAS3x28\n"), ("rev", "0601\n")] {
            tree.add(&format!("{device}/{file}"), content);
        }
        tree.dir(&format!("{device}/scsi_generic/sg3"));
        tree.link("sys/bus/scsi/devices/1:0:8:0", &format!("../../../../{device}"));
        tree.add("sys/bus/scsi/devices/1:0:0:0/type", "0\n");
        tree.add("sys/block/sdc/device/sas_address", "0x5000c500a1b2c3d5\n");
        for (page, bytes) in ses::PAGES.iter().zip(pages()) {
            tree.add(&format!("landfall/disks/sg3/enclosure-page-{page:02x}"), bytes);
        }
        let disks = ["sda", "sdc"].map(|name| Disk { name: name.to_owned(), ..Disk::default() });
        let found = enclosures(&tree.root(), &disks);
        let [enclosure] = &found.enclosures[..] else { panic!("{:#?}", found.enclosures) };
        assert_eq!((enclosure.name.as_str(), enclosure.pci_address.as_deref()), ("1:0:8:0", Some("0000:04:00.0")));
        assert_eq!((enclosure.wwn.as_deref(), enclosure.conditions.len()), (Some("0x500304801f3f4a3f"), 1));
        let bays: Vec<_> = found.bays.iter().map(|bay| (bay.number, bay.disk.as_deref())).collect();
        assert_eq!(bays, [(12, Some("sdc")), (1, None)]);
        assert!(found.parts.iter().all(|part| part.enclosure == "1:0:8:0"));
        // One whose pages can't be read is there all the same.
        tree.add("landfall/disks/sg3/enclosure-page-01", "");
        let found = enclosures(&tree.root(), &disks);
        assert_eq!((found.enclosures.len(), found.bays.len(), found.parts.len()), (1, 0, 0));
    }

    #[test]
    fn links_that_are_up_or_had_errors() {
        let tree = Tree::new(&[("sys/class/sas_expander/expander-0:0/product_id", "SAS3x28 \n")]);
        tree.add("sys/class/sas_expander/expander-0:0/level", "1\n");
        let phy = |name: &str, speed: &str, errors: &str| {
            tree.add(&format!("sys/class/sas_phy/{name}/negotiated_linkrate"), format!("{speed}\n"));
            tree.add(&format!("sys/class/sas_phy/{name}/maximum_linkrate_hw"), "12.0 Gbit\n");
            tree.add(&format!("sys/class/sas_phy/{name}/maximum_linkrate"), "6.0 Gbit\n");
            tree.add(&format!("sys/class/sas_phy/{name}/invalid_dword_count"), format!("{errors}\n"));
        };
        phy("phy-0:0", "6.0 Gbit", "0");
        phy("phy-0:1", "Unknown", "0");
        phy("phy-0:2", "Unknown", "7");
        let found = phys(&tree.root());
        let short: Vec<_> = found.iter().map(|phy| (phy.name.as_str(), phy.speed_mbps, phy.invalid_dwords)).collect();
        assert_eq!(short, [("phy-0:0", Some(6000), Some(0)), ("phy-0:2", None, Some(7))]);
        assert_eq!((found[0].max_speed_mbps, found[0].sync_losses), (Some(6000), None));
        let expander = expanders(&tree.root()).remove(0);
        assert_eq!((expander.model.as_deref(), expander.level), (Some("SAS3x28"), Some(1)));
    }
}
