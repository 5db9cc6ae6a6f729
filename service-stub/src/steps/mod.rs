//! The steps that hosts are given. Each has its own file: in which states of a host it is asked for, its arguments, its time limit,
//! and what its reply changes (docs/compatibility.md#steps).

mod api_vip_connectivity_check;
mod attest;
mod certify;
mod connectivity_check;
mod container_image_availability;
mod dhcp_lease_allocate;
mod domain_resolution;
mod download_boot_artifacts;
mod free_network_addresses;
mod install;
mod installation_disk_speed_check;
mod inventory;
mod kind;
mod logs_gather;
mod ntp_synchronizer;
pub mod options;
mod outputs;
mod reboot_for_reclaim;
mod stop_installation;
mod tang_connectivity_check;
mod upgrade_agent;
mod verify_vips;

pub(crate) use container_image_availability::images_to_try;
pub(crate) use install::{disks_to_format, lacks_system};
#[cfg(test)]
pub(crate) use install::{installer_args, ip_kargs, request as install_request};
pub(crate) use installation_disk_speed_check::disk_to_measure;
pub use kind::Situation;
pub(crate) use kind::{ChangeCluster, ChangeHost, Kind, MAX_LONG_OUTPUT_BYTES, MAX_OUTPUT_BYTES, Outcome, Replied};
pub(crate) use upgrade_agent::upgrades;

use api::StepType;
use std::sync::LazyLock;

/// All kinds, in the order in which they are handed out.
pub(crate) static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    vec![
        upgrade_agent::kind(),
        inventory::kind(),
        connectivity_check::kind(),
        api_vip_connectivity_check::kind(),
        tang_connectivity_check::kind(),
        free_network_addresses::kind(),
        install::kind(),
        dhcp_lease_allocate::kind(),
        inventory::again(),
        ntp_synchronizer::kind(),
        domain_resolution::kind(),
        verify_vips::kind(),
        installation_disk_speed_check::kind(),
        container_image_availability::kind(),
        logs_gather::kind(),
        stop_installation::kind(),
        download_boot_artifacts::kind(),
        reboot_for_reclaim::kind(),
        attest::kind(),
        certify::kind(),
    ]
});

/// The kind of a step; none if no host is given it.
pub(crate) fn find(step_type: &StepType) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.step_type == *step_type)
}
