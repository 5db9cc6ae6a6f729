//! Dry runs, for load tests: hosts that are only pretended (docs/compatibility.md#dry-run).
//!
//! Checks of others succeed without a packet sent, disks are fast, nothing is installed. The inventory is this machine's
//! with one interface, which has the pretended host's addresses, and its routes. All that is not named here is really done.

use api::{HostId, Interface, Inventory};
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
    /// The only address of its interface, with its prefix length.
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
        let default_route = inventory.routes.iter().find(|route| route.destination == "0.0.0.0");
        let default_route = default_route.map(|route| route.interface.clone());
        let rank = |interface: &Interface| {
            let is_loopback = interface.flags.iter().any(|flag| flag == "loopback");
            (default_route.as_ref() != Some(&interface.name), is_loopback)
        };
        let usable = inventory.interfaces.into_iter().filter(|interface| !interface.ipv4_addresses.is_empty());
        inventory.interfaces = usable.min_by_key(rank).into_iter().collect();
        // Clients look for the interface of each route.
        inventory.routes.retain(|route| inventory.interfaces.iter().any(|interface| interface.name == route.interface));
        for interface in &mut inventory.interfaces {
            // Services drop virtual interfaces, such as a container's.
            interface.kind = "physical".to_owned();
            if let Some(mac) = &self.mac {
                interface.mac_address = mac.clone();
            }
            if let Some(ipv4) = &self.ipv4 {
                // The machine's own addresses would be those of every host that is pretended on it.
                interface.ipv4_addresses = vec![ipv4.clone()];
                interface.ipv6_addresses.clear();
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
