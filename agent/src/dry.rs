//! Dry runs, for load tests: hosts that are only pretended (docs/compatibility.md#dry-run).
//!
//! Checks of others succeed without a packet sent, disks are fast, nothing is installed. The inventory is this machine's
//! with one interface, which has the pretended host's addresses. All that is not named here is really done.

use api::{HostId, Inventory};
use kernel::Cancel;
use std::{path::PathBuf, time::Duration};

/// As often as the real one.
const MARKER_INTERVAL: Duration = Duration::from_secs(1);

/// A pretended host. Missing values are this machine's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRun {
    pub host_id: Option<HostId>,
    /// The MAC address of its interface.
    pub mac: Option<String>,
    pub hostname: Option<String>,
    /// The address of its interface, with its prefix length.
    pub ipv4: Option<String>,
    /// Once this file exists it has rebooted, and with it the agent ended.
    pub reboot_marker: Option<PathBuf>,
}

impl DryRun {
    /// The pretended host's inventory, made from this machine's.
    pub fn edit(&self, mut inventory: Inventory) -> Inventory {
        if let Some(hostname) = &self.hostname {
            inventory.hostname = hostname.clone();
        }
        let first = inventory.interfaces.into_iter().find(|interface| !interface.ipv4_addresses.is_empty());
        inventory.interfaces = first.into_iter().collect();
        for interface in &mut inventory.interfaces {
            if let Some(mac) = &self.mac {
                interface.mac_address = mac.clone();
            }
            if let (Some(ipv4), Some(first)) = (&self.ipv4, interface.ipv4_addresses.first_mut()) {
                *first = ipv4.clone();
            }
        }
        inventory
    }

    /// Stops all when it has rebooted.
    pub(crate) fn await_reboot(&self, stop: &Cancel) {
        let has_rebooted = || self.reboot_marker.as_ref().is_some_and(|marker| marker.exists());
        while !has_rebooted() {
            if stop.sleep(MARKER_INTERVAL) {
                return;
            }
        }
        tracing::info!("the pretended host has rebooted");
        stop.cancel();
    }
}
