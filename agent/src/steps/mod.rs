//! The types of steps, each in a file with all that the agent knows of it: what its request must have, the command that carries it
//! out and for how long, what it may do and use, what its exit code means, and what a host that is only pretended answers. Nothing
//! runs here.

mod api_vip_connectivity_check;
mod attest;
mod certify;
mod connectivity_check;
mod container_image_availability;
mod dhcp_lease_allocate;
mod domain_resolution;
mod download_boot_artifacts;
mod fields;
mod free_network_addresses;
mod install;
mod installation_disk_speed_check;
mod inventory;
mod kind;
mod logs_gather;
mod ntp_synchronizer;
mod reboot_for_reclaim;
mod refusal;
mod stop_installation;
mod tang_connectivity_check;
mod upgrade_agent;
mod verify_vips;

pub use kind::Run;
pub use refusal::Refusal;
pub(crate) use {
    certify::REPORT,
    installation_disk_speed_check::dry_answer as dry_disk_speed,
    kind::{Dry, Kind},
    upgrade_agent::{STAGED, succeeded as upgrade_succeeded},
};

use crate::{
    privileges::{CHECK, Privileges},
    settings::Settings,
};
use api::{HostId, Step, StepType};

static KINDS: [&Kind; 19] = [
    &api_vip_connectivity_check::KIND,
    &attest::KIND,
    &certify::KIND,
    &connectivity_check::KIND,
    &container_image_availability::KIND,
    &dhcp_lease_allocate::KIND,
    &domain_resolution::KIND,
    &download_boot_artifacts::KIND,
    &free_network_addresses::KIND,
    &install::KIND,
    &installation_disk_speed_check::KIND,
    &inventory::KIND,
    &logs_gather::KIND,
    &ntp_synchronizer::KIND,
    &reboot_for_reclaim::KIND,
    &stop_installation::KIND,
    &tang_connectivity_check::KIND,
    &upgrade_agent::KIND,
    &verify_vips::KIND,
];

/// `None` for a type without an action here.
pub(crate) fn kind(step_type: &StepType) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.step_type == *step_type)
}

/// Bounds of a step of this type; the narrowest for one without an action here. The action is for types that have bounds for each
/// (`certify::ACTIONS`).
pub fn privileges(step_type: &StepType, action: Option<&str>) -> Privileges {
    match step_type {
        StepType::Certify => certify::privileges(action.unwrap_or_default()),
        _ => kind(step_type).map_or(CHECK, |kind| kind.privileges),
    }
}

/// The actions of a certification, each with its own [`privileges`].
pub fn actions() -> impl Iterator<Item = &'static str> {
    certify::ACTIONS.iter().map(|(name, _)| *name)
}

/// Decides on `step` for `host`.
pub fn action(step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
    let kind = kind(&step.step_type).ok_or_else(|| Refusal::Unknown(step.step_type.clone()))?;
    kind.action(step, settings, host)
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
pub(crate) mod tests;
