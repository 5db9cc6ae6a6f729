//! Machines by themselves: the cluster's own load balancing, and every host by its name and interface.

use crate::install_config::facts::Facts;
use crate::install_config::platform::vips;
use crate::model::HostRecord;
use crate::net::Cidr;
use api::{HostRole, Inventory};
use kernel::order;
use serde_json::{Value, json};

/// Since when a cluster does without a network for provisioning.
const NO_PROVISIONING_SINCE: &str = "4.7";

pub(crate) fn fields(facts: &Facts) -> Result<Value, String> {
    let mut hosts: Vec<&HostRecord> = facts.hosts.iter().map(AsRef::as_ref).collect();
    order::sort_by_key(&mut hosts, |host| (rank(host.host.role), host.name_or_id()));
    let hosts = hosts.into_iter().map(|host| machine(host, facts)).collect::<Result<Vec<_>, _>>()?;
    let mut fields = vips::fields(facts)?;
    let network = if facts.is_older(NO_PROVISIONING_SINCE) { "Unmanaged" } else { "Disabled" };
    fields.insert("provisioningNetwork".to_owned(), network.into());
    fields.insert("hosts".to_owned(), hosts.into());
    fields.insert("additionalNTPServers".to_owned(), time_sources(facts).into());
    if facts.record.user_balanced() {
        fields.insert("loadBalancer".to_owned(), json!({"type": "UserManaged"}));
    }
    Ok(fields.into())
}

/// The control plane comes first.
fn rank(role: HostRole) -> u8 {
    match role {
        HostRole::Master | HostRole::Bootstrap => 0,
        HostRole::Arbiter => 1,
        HostRole::Worker | HostRole::AutoAssign => 2,
    }
}

/// Those of the cluster, else those of the infra-envs of its hosts, each once.
fn time_sources(facts: &Facts) -> Vec<String> {
    let split = |text: &str| {
        let sources = text.split(',').map(str::trim).filter(|source| !source.is_empty());
        sources.map(str::to_owned).collect::<Vec<_>>()
    };
    let own = split(facts.setting("additional_ntp_source"));
    if !own.is_empty() {
        return own;
    }
    let mut sources: Vec<String> = Vec::new();
    for source in facts.infra_envs.iter().flat_map(|record| split(&record.infra_env.additional_ntp_sources)) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources
}

/// A host as the installer knows it: by the interface in a machine network.
fn machine(host: &HostRecord, facts: &Facts) -> Result<Value, String> {
    let id = host.host.id;
    let failed = |why: &str| format!("failed to get host {id} machine network interface MAC address: {why}");
    let inventory = host.facts().inventory.as_ref().ok_or("unexpected end of JSON input")?;
    if facts.machine_networks.is_empty() {
        let cluster = facts.record.cluster.id;
        return Err(failed(&format!("Failed to find machine networks for baremetal cluster {cluster}")));
    }
    let address = boot_address(inventory, &facts.machine_networks)
        .ok_or_else(|| failed("Failed to find a network interface matching any machine network"))?;
    let is_legacy = inventory.boot.as_ref().is_some_and(|boot| boot.current_boot_mode != "uefi");
    Ok(json!({
        "name": host.name_or_id(),
        "role": host.host.role.as_str(),
        "bootMACAddress": address,
        "bootMode": if is_legacy { "legacy" } else { "UEFI" },
    }))
}

fn boot_address<'a>(inventory: &'a Inventory, networks: &[Cidr]) -> Option<&'a str> {
    let inside = |nic: &&api::Interface| {
        let texts = nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses);
        let mut addresses = texts.filter_map(|text| text.parse::<Cidr>().ok());
        addresses.any(|address| {
            let overlaps = |network: &Cidr| {
                network.contains(address.network().address) || address.contains(network.network().address)
            };
            networks.iter().any(overlaps)
        })
    };
    inventory.interfaces.iter().find(inside).map(|nic| nic.mac_address.as_str())
}
