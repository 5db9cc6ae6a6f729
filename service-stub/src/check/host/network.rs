//! Presence, time, and the networks the machine is in.

use super::context::{Context, no_inventory, no_network, pending, reply, success, verdict};
use crate::check::{Verdict, disks};
use crate::ignition_endpoint;
use crate::model::{HostRecord, Presence};
use crate::net::Cidr;
use crate::state::limits;
use api::{HostStage, Interface, Inventory, Timestamp};
use kernel::order;
use serde_json::Value;
use std::net::IpAddr;

/// The service's clock may be ahead of the host's by this much, seconds.
const SERVICE_AHEAD: i64 = 20 * 60;
/// The host's clock may be ahead of the service's by this much, seconds.
const HOST_AHEAD: i64 = 60 * 60;

/// Whether it polled recently. After the reboot no polls are expected. Time before the service's start does not count.
pub(crate) fn connected(record: &HostRecord, presence: Presence, now: Timestamp, started: Timestamp) -> bool {
    let limit = match record.host.bootstrap {
        true => limits::BOOTSTRAP_DISCONNECTED_AFTER,
        false => limits::DISCONNECTED_AFTER,
    };
    rebooted(record.stage()) || now.seconds_since(presence.checked_in_at.max(started)) < limit
}

/// From here on the host does not poll.
pub(super) fn rebooted(stage: Option<HostStage>) -> bool {
    use HostStage as S;
    matches!(stage, Some(S::Rebooting | S::WaitingForIgnition | S::Configuring | S::Joined | S::Done))
}

pub(super) fn connected_check(context: &Context) -> Option<Verdict> {
    verdict(connected(context.record, context.presence, context.now, context.started), "Host is connected", || {
        "Host is disconnected".to_owned()
    })
}

pub(super) fn time_synced(context: &Context) -> Option<Verdict> {
    if context.presence.clock == 0 {
        return pending("The host has not reported its time yet");
    }
    let service_ahead = context.presence.checked_in_at.unix_seconds().saturating_sub(context.presence.clock);
    verdict((-HOST_AHEAD..=SERVICE_AHEAD).contains(&service_ahead), "Host clock is synchronized with service", || {
        let (by, word) = if service_ahead > 0 { (service_ahead, "behind") } else { (-service_ahead, "ahead of") };
        format!("The host's clock is {by} s {word} the service's: set both by NTP")
    })
}

pub(super) fn has_default_route(context: &Context) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let found = inventory.routes.iter().any(|route| disks::is_default(&route.destination) && !route.gateway.is_empty());
    verdict(found, "Host has been configured with at least one default route.", || {
        "Host has no default route with a gateway".to_owned()
    })
}

pub(super) fn media_connected(context: &Context) -> Option<Verdict> {
    verdict(context.record.media_connected(), "Media device is connected", || {
        "The discovery media can't be read any more: connect it again, then restart the host".to_owned()
    })
}

pub(super) fn machine_cidr_defined(context: &Context) -> Option<Verdict> {
    if context.user_managed() || context.day2() {
        return success("No Machine Network CIDR needed: User Managed Networking");
    }
    verdict(!context.shared.machine_networks.is_empty(), "Machine Network CIDR is defined", || {
        "The machine network is not defined: set it, or the virtual addresses it is to hold".to_owned()
    })
}

fn interface_networks(nic: &Interface) -> impl Iterator<Item = Cidr> {
    nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses).filter_map(|text| text.parse().ok())
}

fn networks(inventory: &Inventory) -> impl Iterator<Item = Cidr> {
    inventory.interfaces.iter().flat_map(interface_networks).filter(|cidr: &Cidr| !cidr.address.is_loopback())
}

pub(super) fn belongs_to_machine_cidr(context: &Context) -> Option<Verdict> {
    const SUCCESS: &str = "Host belongs to all machine network CIDRs";
    let wanted = &context.shared.machine_networks;
    let own_network = context.user_managed() && !context.single_node();
    if context.day2() || own_network && (wanted.is_empty() || !context.record.host.bootstrap) {
        return success(SUCCESS);
    }
    let Some(inventory) = context.inventory() else { return no_inventory() };
    if wanted.is_empty() {
        return no_network();
    }
    let inside = |wanted: &&Cidr| networks(inventory).any(|own| wanted.contains(own.address));
    let missing: Vec<String> = wanted.iter().filter(|wanted| !inside(wanted)).map(Cidr::to_string).collect();
    // Behind a load balancer machines may be anywhere that it reaches.
    let belongs = missing.is_empty() || context.user_balanced() && missing.len() < wanted.len();
    verdict(belongs, SUCCESS, || format!("Host has no address in the machine network {}", missing.join(", ")))
}

/// Of a host that is added: by its try to fetch the config it will be installed with.
pub(super) fn ignition_downloadable(context: &Context) -> Option<Verdict> {
    let added = context.cluster.filter(|_| context.day2());
    if !added.is_some_and(|cluster| ignition_endpoint::is_elsewhere(cluster, context.shared.with_control_plane)) {
        return None;
    }
    let Some(reply) = reply::<Value>(&context.record.texts.api_vip_connectivity) else {
        return pending("The host has not tried to download its ignition config yet");
    };
    verdict(reply["is_success"] == true, "Ignition is downloadable", || {
        let why: String = reply["download_error"].as_str().unwrap_or_default().chars().take(500).collect();
        let url = reply["url"].as_str().unwrap_or("the cluster");
        format!("The host can't download its ignition config from {url}: {why}")
    })
}

/// Nothing depends on it: a source may need its time.
pub(super) fn ntp_synced(context: &Context) -> Option<Verdict> {
    let named = context
        .infra_env
        .map(|record| &record.infra_env)
        .is_some_and(|infra_env| !infra_env.ntp_sources.is_empty() || !infra_env.additional_ntp_sources.is_empty());
    if context.cluster.is_none() && !named {
        return None;
    }
    // Nothing is said before it was asked.
    let sources: Vec<Value> = reply(&context.record.texts.ntp_sources)?;
    let synced = sources.iter().any(|source| source["source_state"] == "synced");
    verdict(synced, "Host NTP is synced", || {
        "Host couldn't synchronize with any NTP server: give it one that it reaches (additional_ntp_source)".to_owned()
    })
}

/// By the host's tries to pull them, if it was asked to.
pub(super) fn images_available(context: &Context) -> Option<Verdict> {
    const SUCCESS: &str =
        "All required container images were either pulled successfully or no attempt was made to pull them";
    let statuses: Option<Value> = reply(&context.record.texts.images_status);
    let failed: Vec<String> = statuses
        .iter()
        .filter_map(Value::as_object)
        .flatten()
        .filter(|(_, status)| {
            let too_slow = status["download_rate"].as_f64().is_some_and(|rate| rate > 0.0 && rate < MIN_IMAGE_RATE);
            status["result"] == "failure" || too_slow
        })
        .map(|(name, _)| name.clone())
        .collect();
    verdict(failed.is_empty(), SUCCESS, || {
        format!("Failed to fetch container images needed for installation from {}", failed.join(", "))
    })
}

/// MB a second.
const MIN_IMAGE_RATE: f64 = 0.001;

pub(super) fn platform_network(context: &Context) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let product = inventory.system_vendor.as_ref().map_or("", |vendor| vendor.product_name.as_str());
    let fits = product != "OpenStack Compute" || context.user_managed();
    verdict(fits, format!("Platform {product} is allowed"), || {
        format!("Platform {product} is allowed only with user managed networking: set it for the cluster")
    })
}

pub(super) fn subnets_apart(context: &Context) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let families = super::peers::families(context);
    let used = |cidr: &Cidr| families.is_empty() || families.contains(&cidr.address.is_ipv6());
    let by_interface: Vec<(&str, Vec<Cidr>)> = inventory
        .interfaces
        .iter()
        .map(|nic| {
            let mut networks: Vec<Cidr> = interface_networks(nic)
                .filter(|cidr| !is_local(cidr.address) && used(cidr))
                .map(Cidr::network)
                .collect();
            order::sort(&mut networks);
            networks.dedup();
            (nic.name.as_str(), networks)
        })
        .collect();
    let mut overlapping = Vec::new();
    for (index, (name, own)) in by_interface.iter().enumerate() {
        for (other, theirs) in by_interface.iter().skip(index + 1) {
            let pairs = own.iter().flat_map(|a| theirs.iter().map(move |b| (a, b)));
            let overlap = pairs.filter(|(a, b)| a.contains(b.address) || b.contains(a.address));
            overlapping.extend(overlap.map(|(a, b)| format!("{a} of {name} and {b} of {other}")));
        }
    }
    verdict(overlapping.is_empty(), "Host subnets are not overlapping", || {
        format!("Networks of the host overlap: {}: give its interfaces networks of their own", overlapping.join("; "))
    })
}

/// Every interface has such an address.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback()
        || match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

pub(super) fn iscsi_apart(context: &Context) -> Option<Verdict> {
    if context.day2() || context.user_managed() && !context.single_node() {
        return None;
    }
    let inventory = context.inventory()?;
    let chosen = &context.record.host.installation_disk_id;
    let disk = inventory.disks.iter().find(|disk| disks::answers_to(disk, chosen))?;
    let address: IpAddr = disk.iscsi.as_ref()?.host_ip_address.parse().ok()?;
    let inside = context.shared.machine_networks.iter().any(|network| network.contains(address));
    verdict(!inside, "Network interface connected to iSCSI disk does not belong to machine network CIDRs", || {
        format!(
            "The iSCSI session of the installation disk goes over {address}, which is in the machine network: use another network for it"
        )
    })
}
