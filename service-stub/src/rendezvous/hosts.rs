//! The hosts of a plan.

use super::{PlanError, hints::Hints};
use api::{HostRole, Inventory, Mac};
use serde::Serialize;
use std::collections::BTreeSet;

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
