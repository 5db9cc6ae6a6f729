//! Hosts that several documents speak of.

use super::PlanError;
use crate::planned::PlannedHost;
use api::HostRole;

/// Adds a host; documents about the same machine are merged.
pub(crate) fn merge(hosts: &mut Vec<PlannedHost>, host: PlannedHost) -> Result<(), PlanError> {
    let twin =
        hosts.iter().find(|known| !known.origins.is_disjoint(&host.origins) && !known.macs.is_disjoint(&host.macs));
    if let Some((twin, mac)) = twin.and_then(|twin| Some((twin, twin.macs.intersection(&host.macs).next()?))) {
        let reason = format!("{} and {} both have the MAC address {mac}: leave it out", twin.place, host.place);
        return Err(PlanError::Refused(reason));
    }
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
    if !known.pool.is_empty() && !host.pool.is_empty() && known.pool != host.pool {
        return Err(differ("machine config pool"));
    }
    let both = [&known.ignition_override, &host.ignition_override];
    if both.iter().all(|text| !text.is_empty()) && both[0] != both[1] {
        return Err(differ("Ignition override"));
    }
    if known.labels.iter().any(|(name, value)| host.labels.get(name).is_some_and(|other| other != value)) {
        return Err(differ("node labels"));
    }
    known.labels.extend(host.labels);
    if known.pool.is_empty() {
        known.pool = host.pool;
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
    known.origins.extend(host.origins);
    Ok(())
}
