//! `inventory`: the host's hardware.

use super::install::disks_to_format;
use super::kind::{Kind, MAX_LONG_OUTPUT_BYTES, Outcome, Replied, Situation};
use super::outputs;
use crate::check::disks::{self, fault_of_chosen};
use crate::events;
use crate::http::Refusal;
use crate::model::HostRecord;
use crate::state::HostState;
use api::{Inventory, Mac, kinds};
use axum::http::StatusCode;
use serde_json::json;
use std::collections::BTreeSet;

const MAX_DISKS: usize = 16_384;

pub(crate) fn kind() -> Kind {
    Kind { max_output_bytes: MAX_LONG_OUTPUT_BYTES, succeeded, ..Kind::new::<kinds::Inventory>(asked_in, ask) }
}

/// A known host first gets steps for what changes sooner.
pub(crate) fn again() -> Kind {
    Kind { asked_in: |state, _| state == HostState::Known, ..kind() }
}

fn asked_in(state: HostState, _: bool) -> bool {
    use HostState as S;
    matches!(
        state,
        S::Disconnected
            | S::DisconnectedUnbound
            | S::Discovering
            | S::DiscoveringUnbound
            | S::InsufficientUnbound
            | S::KnownUnbound
            | S::Insufficient
            | S::PendingForInput
    )
}

fn ask(situation: &Situation) -> Option<Vec<String>> {
    Some(vec![situation.record.host.id.to_string()])
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let mut inventory: Inventory = outputs::object(&replied.reply.output, "Inventory")?;
    let record = replied.host()?;
    check_state(record.state)?;
    let cluster = record.host.cluster_id.and_then(|id| replied.model.clusters.get(&id));
    if inventory.disks.len() > MAX_DISKS {
        let message = format!("the inventory has {} disks; the limit is {MAX_DISKS}", inventory.disks.len());
        return Err(Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    // Only these can carry a cluster's traffic.
    inventory.interfaces.retain(|nic| matches!(nic.kind.as_str(), "" | "physical" | "vlan" | "bond"));
    let requirements = &replied.settings.requirements;
    let wanted = disks::Wanted::for_host(requirements, &record, cluster.map(AsRef::as_ref), &inventory);
    disks::judge(&mut inventory, wanted);
    let text = serde_json::to_string(&inventory).map_err(|error| Refusal::internal(&error))?;
    Ok(Outcome::Host(Box::new(move |change, record| {
        let faults = |record: &HostRecord, inventory: Option<&Inventory>| {
            record
                .chosen_disk
                .as_ref()
                .zip(inventory)
                .and_then(|(chosen, inventory)| fault_of_chosen(inventory, chosen))
        };
        let before = faults(record, record.facts().inventory.as_ref());
        if let Some((before, now)) = other_machine(record.facts().inventory.as_ref(), &inventory) {
            let details = json!({"before": before, "now": now});
            events::host(change, record, events::kinds::HOST_IDENTITY_SHARED, details);
        }
        store(record, &inventory, text)?;
        if let Some(fault) = faults(record, Some(&inventory)).filter(|fault| Some(fault) != before.as_ref()) {
            events::host(change, record, events::kinds::HOST_CHOSEN_DISK_UNAVAILABLE, json!({"reason": fault}));
        }
        Ok(())
    })))
}

/// The network cards of before and of now, if none is among both.
fn other_machine(before: Option<&Inventory>, now: &Inventory) -> Option<(String, String)> {
    let cards = |inventory: &Inventory| -> BTreeSet<Mac> {
        inventory.interfaces.iter().filter_map(|nic| nic.mac_address.parse().ok()).collect()
    };
    let (before, now) = (cards(before?), cards(now));
    let text = |cards: &BTreeSet<Mac>| cards.iter().map(Mac::to_string).collect::<Vec<_>>().join(" ");
    let differ = !before.is_empty() && !now.is_empty() && before.is_disjoint(&now);
    differ.then(|| (text(&before), text(&now)))
}

fn check_state(state: HostState) -> Result<(), Refusal> {
    if HostState::TAKES_INVENTORY.contains(&state) {
        return Ok(());
    }
    let states = HostState::TAKES_INVENTORY.map(HostState::as_str).join(" ");
    let reason = format!("Host is in {state} state, host can be updated only in one of [{states}] states");
    Err(Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason))
}

/// Stores a checked inventory and its text in the record. The state is checked again here: the install may have been ordered
/// since the reply arrived.
fn store(record: &mut HostRecord, inventory: &Inventory, text: String) -> Result<(), Refusal> {
    check_state(record.state)?;
    // Once the install is ordered the disk is fixed, whatever a late inventory says.
    if record.state.settings_open() {
        record.set_disk(inventory);
    }
    record.set_inventory(text);
    let disks: Vec<String> = disks_to_format(record).0.into_iter().map(disks::identifier).collect();
    record.texts.disks_to_be_formatted = Some(disks.join(",")).filter(|disks| !disks.is_empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use api::{HostId, InfraEnvId, Timestamp};

    #[test]
    fn another_machine_has_other_network_cards() {
        let with = |macs: &[&str]| -> Inventory {
            let nics: Vec<_> = macs.iter().map(|mac| json!({"mac_address": mac})).collect();
            serde_json::from_value(json!({"interfaces": nics})).unwrap()
        };
        let [one, two] = ["52:54:00:aa:00:01", "52:54:00:aa:00:02"];
        let found = other_machine(Some(&with(&[one])), &with(&[two])).unwrap();
        assert_eq!(found, (one.to_owned(), two.to_owned()));
        for (before, now) in
            [(vec![], vec![one]), (vec![one], vec![]), (vec![one, two], vec![two]), (vec!["x"], vec![one])]
        {
            assert_eq!(other_machine(Some(&with(&before)), &with(&now)), None);
        }
        assert_eq!(other_machine(None, &with(&[one])), None);
    }

    #[test]
    fn a_late_inventory_never_changes_the_disk() {
        let eligible = json!({"eligible": true});
        let disk = json!({"name": "sdb", "path": "/dev/sdb", "id": "/dev/sdb", "installation_eligibility": eligible});
        let inventory: Inventory = serde_json::from_value(json!({"disks": [disk]})).unwrap();
        for state in HostState::ALL {
            let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
            let mut record = HostRecord::new(key, None, Timestamp::ZERO);
            record.state = *state;
            record.host.installation_disk_id = "/dev/sda".into();
            record.host.installation_disk_path = "/dev/sda".into();
            let taken = store(&mut record, &inventory, "{}".into());
            assert_eq!(taken.is_ok(), HostState::TAKES_INVENTORY.contains(state), "{state}");
            let disk = if state.settings_open() { "/dev/sdb" } else { "/dev/sda" };
            assert_eq!(record.host.installation_disk_path, disk, "{state}");
            assert_eq!(record.host.installation_disk_id, disk, "{state}");
        }
        assert!(HostState::Known.settings_open() && HostState::DiscoveringUnbound.settings_open());
        for state in [HostState::PreparingForInstallation, HostState::PreparingSuccessful, HostState::Installing] {
            assert!(!state.settings_open(), "{state}");
        }
    }
}
