//! The hosts of a plan.

use super::{PlanError, hints::Hints};
use api::{Host, HostRole, Inventory, Mac};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Which request changes a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostChange {
    /// Name, role or installation disk.
    Settings,
    InstallerArgs,
    Ignition,
}

#[derive(Debug, thiserror::Error)]
#[error("no disk matches the root device hints {0}")]
pub(crate) struct NoDisk(String);

/// The plan of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Merged into its config, JSON text; may be empty.
    #[serde(skip)]
    pub(crate) ignition_override: String,
    /// Where it was first given.
    #[serde(skip)]
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
    pub(crate) fn changes(&self, host: &Host, inventory: &Inventory) -> Result<Vec<(HostChange, Value)>, NoDisk> {
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

    /// The disk that the hints select, unless the host has one of theirs.
    fn disk(&self, host: &Host, inventory: &Inventory) -> Result<Option<String>, NoDisk> {
        if self.hints.is_empty() {
            return Ok(None);
        }
        let fitting = self.hints.matching(inventory);
        let Some(first) = fitting.first() else {
            return Err(NoDisk(serde_json::to_string(&self.hints).unwrap_or_default()));
        };
        let is_chosen = fitting.iter().any(|disk| disk.path == host.installation_disk_path);
        Ok((!is_chosen).then(|| if first.id.is_empty() { first.path.clone() } else { first.id.clone() }))
    }
}

/// Adds a host; documents about the same machine are merged.
pub(crate) fn merge(hosts: &mut Vec<PlannedHost>, host: PlannedHost) -> Result<(), PlanError> {
    let same = hosts.iter_mut().find(|known| !known.macs.is_disjoint(&host.macs));
    let Some(known) = same else {
        if let Some(twin) = hosts.iter().find(|known| !host.name.is_empty() && known.name == host.name) {
            let what = format!("which machine is host '{}'", host.name);
            return Err(PlanError::Contradiction { one: twin.place.clone(), other: host.place, what });
        }
        hosts.push(host);
        return Ok(());
    };
    let differ = |what: &str| PlanError::Contradiction {
        one: known.place.clone(),
        other: host.place.clone(),
        what: format!("the {what} of host {}", known.label()),
    };
    if !known.name.is_empty() && !host.name.is_empty() && known.name != host.name {
        return Err(differ("name"));
    }
    if known.role != HostRole::AutoAssign && host.role != HostRole::AutoAssign && known.role != host.role {
        return Err(differ("role"));
    }
    if !known.hints.is_empty() && !host.hints.is_empty() && known.hints != host.hints {
        return Err(differ("root device"));
    }
    if known.name.is_empty() {
        known.name = host.name;
    }
    if known.role == HostRole::AutoAssign {
        known.role = host.role;
    }
    if known.hints.is_empty() {
        known.hints = host.hints;
    }
    if known.ignition_override.is_empty() {
        known.ignition_override = host.ignition_override;
    }
    for argument in host.installer_args {
        // A flag is repeated with each of its values.
        if !argument.starts_with("--copy-network") || !known.installer_args.contains(&argument) {
            known.installer_args.push(argument);
        }
    }
    known.macs.extend(host.macs);
    Ok(())
}
