//! What is planned for the hosts of an infra-env, each known by its MAC addresses: plain data, and what of it a host lacks.

mod hints;

pub use hints::Hints;
pub(crate) use hints::{listed, names};

use api::{Host, HostRole, Inventory, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Which request changes a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostChange {
    /// Name, role or installation disk.
    Settings,
    InstallerArgs,
    Ignition,
}

/// The hints select no disk, or not one alone. With the host's disks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDisk {
    #[error("no disk matches the root device hints {hints}: the host has {disks}")]
    None { hints: String, disks: String },
    #[error("{count} disks match the root device hints {hints}: {disks}: add wwn or deviceName")]
    Several { count: usize, hints: String, disks: String },
}

/// What a host has by now, as the service publishes it.
#[derive(Debug, Deserialize)]
pub(crate) struct HostNow {
    #[serde(flatten)]
    pub(crate) host: Host,
    #[serde(default)]
    machine_config_pool_name: String,
    /// JSON text of an object.
    #[serde(default)]
    node_labels: String,
}

impl HostNow {
    pub(crate) fn new(host: Host, pool: Option<&str>, node_labels: Option<&str>) -> Self {
        let [machine_config_pool_name, node_labels] =
            [pool, node_labels].map(|text| text.unwrap_or_default().to_owned());
        Self { host, machine_config_pool_name, node_labels }
    }
}

/// The plan of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannedHost {
    /// Its name; unchanged if empty.
    pub(crate) name: String,
    /// Its role; by default the service's choice.
    pub(crate) role: HostRole,
    /// Its MAC addresses, any of which identifies it.
    pub(crate) macs: BTreeSet<Mac>,
    /// Its installation disk.
    pub(crate) hints: Hints,
    /// Arguments of its installer.
    pub(crate) installer_args: Vec<String>,
    /// Merged into its config, JSON text; may be empty, and may hold secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) ignition_override: String,
    /// The pool of configurations that its node joins; the service's choice if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) pool: String,
    /// Labels of its node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// The kinds of documents that it was given in: one machine is not in two of a kind.
    #[serde(skip)]
    pub(crate) origins: BTreeSet<&'static str>,
    /// Where it was first given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) place: String,
}

impl PlannedHost {
    /// Its name in messages.
    pub(crate) fn label(&self) -> String {
        let macs: Vec<String> = self.macs.iter().map(Mac::to_string).collect();
        match self.name.as_str() {
            "" => macs.join(" "),
            name => format!("{name} ({})", macs.join(" ")),
        }
    }

    pub(crate) fn is(&self, inventory: &Inventory) -> bool {
        inventory.interfaces.iter().any(|nic| nic.mac_address.parse().is_ok_and(|mac: Mac| self.macs.contains(&mac)))
    }
}

impl PlannedHost {
    /// The requests that give a host what is planned for it and not set yet, with their bodies.
    pub(crate) fn changes(&self, now: &HostNow, inventory: &Inventory) -> Result<Vec<(HostChange, Value)>, NoDisk> {
        let host = &now.host;
        let mut settings = Map::new();
        if !self.name.is_empty() && self.name != host.requested_hostname {
            settings.insert("host_name".into(), json!(self.name));
        }
        if self.role != HostRole::AutoAssign && self.role != host.role {
            settings.insert("host_role".into(), json!(self.role));
        }
        if let Some(disk) = self.disk(host, inventory)? {
            settings.insert("disks_selected_config".into(), json!([{"id": disk, "role": "install"}]));
        }
        if !self.pool.is_empty() && self.pool != now.machine_config_pool_name {
            settings.insert("machine_config_pool_name".into(), json!(self.pool));
        }
        let labels: BTreeMap<String, String> = serde_json::from_str(&now.node_labels).unwrap_or_default();
        if !self.labels.is_empty() && self.labels != labels {
            let list: Vec<Value> = self.labels.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
            settings.insert("node_labels".into(), json!(list));
        }
        let mut changes = Vec::new();
        if !settings.is_empty() {
            changes.push((HostChange::Settings, Value::Object(settings)));
        }
        let args: Vec<String> = serde_json::from_str(&host.installer_args).unwrap_or_default();
        if !self.installer_args.is_empty() && self.installer_args != args {
            changes.push((HostChange::InstallerArgs, json!({"args": self.installer_args})));
        }
        if !self.ignition_override.is_empty() && self.ignition_override != host.ignition_config_overrides {
            changes.push((HostChange::Ignition, json!({"config": self.ignition_override})));
        }
        Ok(changes)
    }

    /// The names of the settings that a host lacks; none if the plan can't be carried out.
    pub(crate) fn open_settings(&self, now: &HostNow, inventory: &Inventory) -> BTreeSet<String> {
        let changes = self.changes(now, inventory).unwrap_or_default();
        changes.iter().filter_map(|(_, body)| body.as_object()).flat_map(|body| body.keys().cloned()).collect()
    }

    /// The disk that the hints select, unless the host has one of theirs.
    fn disk(&self, host: &Host, inventory: &Inventory) -> Result<Option<String>, NoDisk> {
        if self.hints.is_empty() {
            return Ok(None);
        }
        let fitting = self.hints.matching(inventory);
        let hints = || serde_json::to_string(&self.hints).unwrap_or_default();
        let Some(first) = fitting.first() else {
            return Err(NoDisk::None { hints: hints(), disks: listed(inventory.disks.iter()) });
        };
        if fitting.len() > 1 && self.hints.name_one() {
            let disks = listed(fitting.iter().copied());
            return Err(NoDisk::Several { count: fitting.len(), hints: hints(), disks });
        }
        let is_chosen = fitting.iter().any(|disk| disk.path == host.installation_disk_path);
        Ok((!is_chosen).then(|| if first.id.is_empty() { first.path.clone() } else { first.id.clone() }))
    }
}

/// What is planned for a host, once its inventory identifies it.
pub(crate) fn of_host<'a>(plan: &'a [PlannedHost], inventory: Option<&Inventory>) -> Option<&'a PlannedHost> {
    let inventory = inventory?;
    plan.iter().find(|host| host.is(inventory))
}
