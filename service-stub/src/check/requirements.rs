//! What hardware a role needs (docs/compatibility.md#hardware-requirements): the default table, a file that replaces it, and the lookup.

use crate::operators::Amount;
use api::{HostRole, Inventory};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Machines on a card of another one need less, and only as workers. Their product name in small letters without spaces, as
/// firmware writes it in several ways.
const EDGE_PRODUCT: &str = "bluefieldsoc";

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoleNeeds {
    /// Logical processors.
    pub(crate) cpu_cores: u64,
    /// Memory, MiB.
    pub(crate) ram_mib: u64,
    /// Smallest installation disk, GB (10^9 bytes).
    pub(crate) disk_size_gb: u64,
    /// A synced write of the installation disk takes longer than this in no more than one of a hundred, milliseconds.
    pub(crate) disk_speed_ms: u64,
    /// Mean round trip to hosts of the same role, milliseconds; any will do without it.
    pub(crate) network_latency_ms: Option<f64>,
    /// Lost packets to hosts of the same role, percent; any will do without it.
    pub(crate) packet_loss_percent: Option<f64>,
}

/// Memory may fall short by this much: firmware keeps some.
const MEMORY_TOLERANCE_MIB: u64 = 100;

impl RoleNeeds {
    /// The least memory that passes, MiB. What the kernel counts is short of what is built in by some more.
    pub(crate) fn least_mib(&self, method: &str) -> u64 {
        let further = if method == "meminfo" { self.ram_mib / 50 } else { 0 };
        self.ram_mib.saturating_sub(MEMORY_TOLERANCE_MIB.saturating_add(further))
    }

    /// With so much more for operators.
    pub(crate) fn with(self, operators: Amount) -> Self {
        let Amount { cpu_cores, ram_mib } = operators;
        Self {
            cpu_cores: self.cpu_cores.saturating_add(cpu_cores),
            ram_mib: self.ram_mib.saturating_add(ram_mib),
            ..self
        }
    }

    /// `cluster-host-requirements-details`; what has no limit is left out.
    pub fn document(&self) -> Value {
        let mut document = json!({
            "cpu_cores": self.cpu_cores,
            "ram_mib": self.ram_mib,
            "disk_size_gb": self.disk_size_gb,
            "installation_disk_speed_threshold_ms": self.disk_speed_ms,
        });
        let limits = [
            ("network_latency_threshold_ms", self.network_latency_ms),
            ("packet_loss_percentage", self.packet_loss_percent),
        ];
        if let Value::Object(fields) = &mut document {
            fields.extend(limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), Value::from(limit?)))));
        }
        document
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleEntry {
    cpu_cores: Option<u64>,
    ram_mib: Option<u64>,
    disk_size_gb: Option<u64>,
    #[serde(rename = "installation_disk_speed_threshold_ms")]
    disk_speed: Option<u64>,
    #[serde(rename = "network_latency_threshold_ms")]
    latency: Option<f64>,
    #[serde(rename = "packet_loss_percentage")]
    loss: Option<f64>,
}

impl RoleEntry {
    const fn new(cpu_cores: u64, ram_mib: u64, disk_size_gb: u64) -> Self {
        Self {
            cpu_cores: Some(cpu_cores),
            ram_mib: Some(ram_mib),
            disk_size_gb: Some(disk_size_gb),
            disk_speed: Some(10),
            latency: None,
            loss: None,
        }
    }

    const fn with_network(self, latency: f64, loss: f64) -> Self {
        Self { latency: Some(latency), loss: Some(loss), ..self }
    }

    fn or(self, other: Self) -> Self {
        Self {
            cpu_cores: self.cpu_cores.or(other.cpu_cores),
            ram_mib: self.ram_mib.or(other.ram_mib),
            disk_size_gb: self.disk_size_gb.or(other.disk_size_gb),
            disk_speed: self.disk_speed.or(other.disk_speed),
            latency: self.latency.or(other.latency),
            loss: self.loss.or(other.loss),
        }
    }

    fn needs(self) -> RoleNeeds {
        RoleNeeds {
            cpu_cores: self.cpu_cores.unwrap_or(0),
            ram_mib: self.ram_mib.unwrap_or(0),
            disk_size_gb: self.disk_size_gb.unwrap_or(0),
            disk_speed_ms: self.disk_speed.unwrap_or(0),
            network_latency_ms: self.latency,
            packet_loss_percent: self.loss,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MatchType {
    #[default]
    Exact,
    MinVersion,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    version: String,
    #[serde(default)]
    match_type: MatchType,
    #[serde(default)]
    master: RoleEntry,
    #[serde(default)]
    arbiter: RoleEntry,
    #[serde(default)]
    worker: RoleEntry,
    #[serde(default)]
    sno: RoleEntry,
    #[serde(default, rename = "edge-worker")]
    edge_worker: RoleEntry,
}

/// The table of all versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirements {
    fallback: Entry,
    versions: Vec<Entry>,
}

/// A requirements file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RequirementsError {
    #[error("cannot read the requirements file {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// It is not the published shape.
    #[error("{} is not a list of requirements by version, like [{{\"version\": \"default\", \"master\": {{\"cpu_cores\": 4}}}}]", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
}

impl Default for Requirements {
    fn default() -> Self {
        Self {
            fallback: Entry {
                version: "default".into(),
                match_type: MatchType::Exact,
                master: RoleEntry::new(4, 16384, 100).with_network(100.0, 0.0),
                arbiter: RoleEntry::new(2, 8192, 50).with_network(1000.0, 0.0),
                worker: RoleEntry::new(2, 8192, 100).with_network(1000.0, 10.0),
                sno: RoleEntry::new(8, 16384, 100),
                edge_worker: RoleEntry::new(2, 8192, 15),
            },
            versions: vec![Entry {
                version: "4.22".into(),
                match_type: MatchType::MinVersion,
                sno: RoleEntry { cpu_cores: Some(4), ..RoleEntry::default() },
                ..Entry::default()
            }],
        }
    }
}

impl Requirements {
    /// Reads a file of the published shape. Its versions replace the built-in ones; what its `default` entry leaves out keeps
    /// the built-in value.
    pub fn read(path: &Path) -> Result<Self, RequirementsError> {
        let text = std::fs::read(path).map_err(|source| RequirementsError::Read { path: path.into(), source })?;
        Self::parse(&text).map_err(|source| RequirementsError::Parse { path: path.into(), source })
    }

    /// Parses the published shape.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        let mut versions: Vec<Entry> = serde_json::from_slice(text)?;
        let built_in = Self::default().fallback;
        let fallback = match versions.iter().position(|entry| entry.version == "default") {
            Some(index) => {
                let given = versions.remove(index);
                Entry {
                    master: given.master.or(built_in.master),
                    arbiter: given.arbiter.or(built_in.arbiter),
                    worker: given.worker.or(built_in.worker),
                    sno: given.sno.or(built_in.sno),
                    edge_worker: given.edge_worker.or(built_in.edge_worker),
                    ..given
                }
            }
            None => built_in,
        };
        Ok(Self { fallback, versions })
    }

    /// What a host of `role` needs in a cluster of `version`.
    pub fn role_needs(&self, version: &str, role: HostRole, single_node: bool) -> RoleNeeds {
        self.machine_needs(version, role, single_node, None)
    }

    /// The same, of a machine that is known: some need less as workers.
    pub(crate) fn machine_needs(
        &self,
        version: &str,
        role: HostRole,
        single_node: bool,
        inventory: Option<&Inventory>,
    ) -> RoleNeeds {
        let edge = inventory.is_some_and(is_edge);
        let pick = |entry: &Entry| match role {
            HostRole::Master | HostRole::Bootstrap if single_node => entry.sno,
            HostRole::Master | HostRole::Bootstrap => entry.master,
            HostRole::Arbiter => entry.arbiter,
            HostRole::Worker | HostRole::AutoAssign if edge => entry.edge_worker,
            HostRole::Worker | HostRole::AutoAssign => entry.worker,
        };
        let fallback = pick(&self.fallback);
        self.find(version).map_or(fallback, |entry| pick(entry).or(fallback)).needs()
    }

    /// The minimum of any role: a host below it is useless.
    pub(crate) fn least(&self, version: &str) -> RoleNeeds {
        let roles =
            [HostRole::Master, HostRole::Arbiter, HostRole::Worker].map(|role| self.role_needs(version, role, false));
        let least = |field: fn(&RoleNeeds) -> u64| roles.iter().map(field).min().unwrap_or(0);
        RoleNeeds {
            cpu_cores: least(|needs| needs.cpu_cores),
            ram_mib: least(|needs| needs.ram_mib),
            disk_size_gb: least(|needs| needs.disk_size_gb),
            disk_speed_ms: least(|needs| needs.disk_speed_ms),
            network_latency_ms: None,
            packet_loss_percent: None,
        }
    }

    fn find(&self, version: &str) -> Option<&Entry> {
        let exact = |entry: &&Entry| entry.match_type == MatchType::Exact && entry.version == version;
        self.versions.iter().find(exact).or_else(|| {
            let asked = numbers(version);
            let fits = |entry: &&Entry| entry.match_type == MatchType::MinVersion && numbers(&entry.version) <= asked;
            self.versions.iter().filter(fits).max_by_key(|entry| numbers(&entry.version))
        })
    }
}

/// A worker on a card (docs/compatibility.md#hardware-requirements).
fn is_edge(inventory: &Inventory) -> bool {
    let architecture = inventory.cpu.as_ref().map_or("", |cpu| cpu.architecture.as_str());
    let product = inventory.system_vendor.as_ref().map_or("", |vendor| vendor.product_name.as_str());
    architecture == "aarch64" && product.replace(' ', "").eq_ignore_ascii_case(EDGE_PRODUCT)
}

/// Whether a version is that release or later. An unreadable version counts as later.
pub(crate) fn is_at_least(version: &str, major: u64, minor: u64) -> bool {
    match *numbers(version).as_slice() {
        [0, ..] | [] => true,
        [own] => own >= major,
        [own, own_minor, ..] => (own, own_minor) >= (major, minor),
    }
}

/// `4.22.9` as numbers; anything else counts as 0.
fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-']).map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_then_highest_minimum_then_default() {
        let table = Requirements::parse(
            br#"[{"version":"default","master":{"cpu_cores":1,"ram_mib":512,"disk_size_gb":1}},
                 {"version":"4.20","match_type":"min_version","master":{"cpu_cores":2}},
                 {"version":"4.22","match_type":"min_version","master":{"cpu_cores":3}},
                 {"version":"4.22.9","master":{"cpu_cores":9,"packet_loss_percentage":0}}]"#,
        )
        .unwrap();
        let cpus = |version| table.role_needs(version, HostRole::Master, false).cpu_cores;
        assert_eq!([cpus("4.19.1"), cpus("4.20.1"), cpus("4.22.1"), cpus("4.22.9")], [1, 2, 3, 9]);
        assert_eq!(
            table.role_needs("4.22.9", HostRole::Master, false).ram_mib,
            512,
            "left out: from the default entry"
        );
        assert_eq!(table.role_needs("4.22.9", HostRole::Worker, false).cpu_cores, 2, "left out there too: built in");
        assert_eq!(table.role_needs("1", HostRole::Master, true).cpu_cores, 8);
        let least = table.least("4.22.9");
        assert_eq!((least.cpu_cores, least.ram_mib, least.disk_size_gb), (2, 512, 1));
        let network = |role| {
            let needs = table.role_needs("4.22.9", role, false);
            (needs.network_latency_ms, needs.packet_loss_percent)
        };
        assert_eq!(network(HostRole::Master), (Some(100.0), Some(0.0)));
        assert_eq!(network(HostRole::Worker), (Some(1000.0), Some(10.0)));
    }

    #[test]
    fn built_in_needs_are_the_published_ones() {
        use HostRole::{Arbiter, AutoAssign, Master, Worker};
        let card = serde_json::json!({"cpu": {"architecture": "aarch64"}, "system_vendor": {"product_name": "Bluefield  soc "}});
        let card: Inventory = serde_json::from_value(card).unwrap();
        let plain = Inventory::default();
        let rows = [
            ("4.21.9", Master, false, &plain, (4, 16384, 100), (Some(100.0), Some(0.0))),
            ("4.21.9", Arbiter, false, &plain, (2, 8192, 50), (Some(1000.0), Some(0.0))),
            ("4.21.9", Worker, false, &plain, (2, 8192, 100), (Some(1000.0), Some(10.0))),
            ("4.21.9", AutoAssign, false, &plain, (2, 8192, 100), (Some(1000.0), Some(10.0))),
            ("4.21.9", Master, true, &plain, (8, 16384, 100), (None, None)),
            ("4.22", Master, true, &plain, (4, 16384, 100), (None, None)),
            ("4.22.0-ec.1", Master, true, &plain, (4, 16384, 100), (None, None)),
            ("5.0.1", Master, true, &plain, (4, 16384, 100), (None, None)),
            ("4.22.9", Worker, false, &card, (2, 8192, 15), (None, None)),
            ("4.22.9", Master, false, &card, (4, 16384, 100), (Some(100.0), Some(0.0))),
        ];
        for (version, role, single, machine, hardware, network) in rows {
            let needs = Requirements::default().machine_needs(version, role, single, Some(machine));
            assert_eq!((needs.cpu_cores, needs.ram_mib, needs.disk_size_gb), hardware, "{version} {role}");
            assert_eq!((needs.network_latency_ms, needs.packet_loss_percent), network, "{version} {role}");
            assert_eq!(needs.disk_speed_ms, 10, "{version} {role}");
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        for (version, late) in [
            ("4.13.9", false),
            ("4.14", true),
            ("4.9.99", false),
            ("4.22.0-ec.1", true),
            ("5", true),
            ("", true),
            ("test", true),
        ] {
            assert_eq!(is_at_least(version, 4, 14), late, "{version}");
        }
    }

    #[test]
    fn typing_errors_are_refused() {
        for bad in ["{}", r#"[{"version":"x","masters":{}}]"#, r#"[{"version":"x","master":{"cpu":1}}]"#, "[{}]"] {
            assert!(Requirements::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
