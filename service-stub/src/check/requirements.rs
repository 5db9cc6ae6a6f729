//! What hardware a role needs (service contract §5.2): the default table, a file that replaces it, and the lookup.

use api::HostRole;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What one role needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoleNeeds {
    /// Logical processors.
    pub cpu_cores: u64,
    /// Memory, MiB.
    pub ram_mib: u64,
    /// Smallest installation disk, GB (10^9 bytes).
    pub disk_size_gb: u64,
    /// Mean round trip to hosts of the same role, milliseconds; any will do without it.
    pub network_latency_ms: Option<f64>,
    /// Lost packets to hosts of the same role, percent; any will do without it.
    pub packet_loss_percent: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleEntry {
    cpu_cores: Option<u64>,
    ram_mib: Option<u64>,
    disk_size_gb: Option<u64>,
    // Only an event depends on it: accepted, since the file is the real service's.
    #[serde(rename = "installation_disk_speed_threshold_ms")]
    _disk_speed: Option<u64>,
    #[serde(rename = "network_latency_threshold_ms")]
    latency: Option<f64>,
    #[serde(rename = "packet_loss_percentage")]
    loss: Option<f64>,
}

impl RoleEntry {
    const fn of(cpu_cores: u64, ram_mib: u64, disk_size_gb: u64) -> Self {
        Self {
            cpu_cores: Some(cpu_cores),
            ram_mib: Some(ram_mib),
            disk_size_gb: Some(disk_size_gb),
            _disk_speed: None,
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
            latency: self.latency.or(other.latency),
            loss: self.loss.or(other.loss),
            ..self
        }
    }

    fn needs(self) -> RoleNeeds {
        RoleNeeds {
            cpu_cores: self.cpu_cores.unwrap_or(0),
            ram_mib: self.ram_mib.unwrap_or(0),
            disk_size_gb: self.disk_size_gb.unwrap_or(0),
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

#[derive(Clone, Debug, PartialEq, Deserialize)]
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
    _edge_worker: RoleEntry,
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
    /// It can't be read.
    #[error("cannot read the requirements file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// It is not the published shape.
    #[error("{} is not a list of requirements by version, like [{{\"version\": \"default\", \"master\": {{\"cpu_cores\": 4}}}}]", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: serde_json::Error,
    },
}

impl Default for Requirements {
    fn default() -> Self {
        Self {
            fallback: Entry {
                version: "default".into(),
                match_type: MatchType::Exact,
                master: RoleEntry::of(4, 16384, 100).with_network(100.0, 0.0),
                arbiter: RoleEntry::of(2, 8192, 50).with_network(1000.0, 0.0),
                worker: RoleEntry::of(2, 8192, 100).with_network(1000.0, 10.0),
                sno: RoleEntry::of(8, 16384, 100),
                _edge_worker: RoleEntry::of(2, 8192, 15),
            },
            versions: Vec::new(),
        }
    }
}

impl Requirements {
    /// Reads a file of the published shape; what its `default` entry leaves out keeps the built-in value.
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
                    ..given
                }
            }
            None => built_in,
        };
        Ok(Self { fallback, versions })
    }

    /// What a host of `role` needs in a cluster of `version`.
    pub fn of(&self, version: &str, role: HostRole, single_node: bool) -> RoleNeeds {
        let pick = |entry: &Entry| match role {
            HostRole::Master | HostRole::Bootstrap if single_node => entry.sno,
            HostRole::Master | HostRole::Bootstrap => entry.master,
            HostRole::Arbiter => entry.arbiter,
            HostRole::Worker | HostRole::AutoAssign => entry.worker,
        };
        let fallback = pick(&self.fallback);
        self.find(version).map_or(fallback, |entry| pick(entry).or(fallback)).needs()
    }

    /// The least any role needs: a host below it is of no use to anybody.
    pub fn least(&self, version: &str) -> RoleNeeds {
        let roles = [HostRole::Master, HostRole::Arbiter, HostRole::Worker].map(|role| self.of(version, role, false));
        let least = |field: fn(&RoleNeeds) -> u64| roles.iter().map(field).min().unwrap_or(0);
        RoleNeeds {
            cpu_cores: least(|needs| needs.cpu_cores),
            ram_mib: least(|needs| needs.ram_mib),
            disk_size_gb: least(|needs| needs.disk_size_gb),
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

/// `4.22.9` as numbers; what is no number counts as 0.
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
        let cpus = |version| table.of(version, HostRole::Master, false).cpu_cores;
        assert_eq!([cpus("4.19.1"), cpus("4.20.1"), cpus("4.22.1"), cpus("4.22.9")], [1, 2, 3, 9]);
        assert_eq!(table.of("4.22.9", HostRole::Master, false).ram_mib, 512, "left out: from the default entry");
        assert_eq!(table.of("4.22.9", HostRole::Worker, false).cpu_cores, 2, "left out there too: built in");
        assert_eq!(table.of("1", HostRole::Master, true).cpu_cores, 8);
        let least = table.least("4.22.9");
        assert_eq!((least.cpu_cores, least.ram_mib, least.disk_size_gb), (2, 512, 1));
        let network = |role| {
            let needs = table.of("4.22.9", role, false);
            (needs.network_latency_ms, needs.packet_loss_percent)
        };
        assert_eq!(network(HostRole::Master), (Some(100.0), Some(0.0)));
        assert_eq!(network(HostRole::Worker), (Some(1000.0), Some(10.0)));
    }

    #[test]
    fn typing_errors_are_refused() {
        for bad in ["{}", r#"[{"version":"x","masters":{}}]"#, r#"[{"version":"x","master":{"cpu":1}}]"#, "[{}]"] {
            assert!(Requirements::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
