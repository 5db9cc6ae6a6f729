//! Networks and virtual addresses that an update of a cluster sets: who looks after them decides what may be given.

use super::cluster_settings::{ips, networks_after, owned_vips};
use crate::check::cluster::is_free;
use crate::course::DhcpVips;
use crate::http::Refusal;
use crate::machine_networks;
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::releases::version;
use crate::rules::{networks, networks::Networks, vips};
use api::{Cluster, ClusterUpdateParams, MachineNetwork};
use std::{net::IpAddr, sync::Arc};

/// Clusters on arm64 and on several architectures look after their network since.
const MANAGED_ELSEWHERE: &str = "4.11";

/// A cluster can look after its network itself on its architecture.
pub(super) fn can_manage_networking(cluster: &Cluster) -> bool {
    match cluster.cpu_architecture.as_str() {
        "s390x" | "ppc64le" => false,
        "arm64" | "multi" => !version::older(&cluster.openshift_version, MANAGED_ELSEWHERE),
        _ => true,
    }
}

/// Sets who looks after the network, the networks, and the virtual addresses.
pub(super) fn set(
    record: &mut ClusterRecord,
    hosts: &[Arc<HostRecord>],
    params: &mut ClusterUpdateParams,
) -> Result<(), Refusal> {
    let own = &mut record.cluster;
    if let Some(user_managed) = params.user_managed_networking.filter(|wanted| *wanted != own.user_managed_networking) {
        if !user_managed && !can_manage_networking(own) {
            return Err(Refusal::invalid(
                "disabling User Managed Networking is not allowed for clusters with non-x86_64 CPU architecture",
            ));
        }
        own.user_managed_networking = user_managed;
        own.machine_networks.clear();
        record.keeps_networks = false;
    }
    let keeps_networks = params.machine_networks.as_ref().map(|given| !given.is_empty());
    if let Some(balancer) = params.load_balancer.take() {
        record.settings.insert("load_balancer".into(), balancer);
    }
    let (api, ingress) = (ips(params.api_vips.as_deref()), ips(params.ingress_vips.as_deref()));
    if record.cluster.user_managed_networking {
        let by_dhcp = params.vip_dhcp_allocation == Some(true);
        vips::none_with_user_managed(&api, &ingress, by_dhcp).map_err(Refusal::invalid)?;
        forget_vips(record);
        record.cluster.vip_dhcp_allocation = false;
    } else {
        set_managed(record, hosts, params).map_err(Refusal::invalid)?;
    }
    set_networks(record, hosts.len(), params).map_err(Refusal::invalid)?;
    record.keeps_networks = keeps_networks.unwrap_or(record.keeps_networks);
    let id = record.cluster.id;
    for (given, own) in
        [(&params.api_vips, &mut record.cluster.api_vips), (&params.ingress_vips, &mut record.cluster.ingress_vips)]
    {
        let owned = given.as_ref().map(|given| owned_vips(Some(given), id));
        // What hosts found out about an address stays with it.
        if let Some(owned) = owned.filter(|owned| ips(Some(owned)) != ips(Some(own))) {
            *own = owned;
        }
    }
    Ok(())
}

fn forget_vips(record: &mut ClusterRecord) {
    record.cluster.api_vips.clear();
    record.cluster.ingress_vips.clear();
    record.dhcp = DhcpVips::default();
}

/// Where the cluster looks after its network.
fn set_managed(
    record: &mut ClusterRecord,
    hosts: &[Arc<HostRecord>],
    params: &mut ClusterUpdateParams,
) -> Result<(), String> {
    let own = &mut record.cluster;
    if let Some(by_dhcp) = params.vip_dhcp_allocation.filter(|wanted| *wanted != own.vip_dhcp_allocation) {
        // Addresses of one way are no good for the other.
        own.vip_dhcp_allocation = by_dhcp;
        own.machine_networks.clear();
        record.keeps_networks = false;
        forget_vips(record);
    }
    if !record.cluster.vip_dhcp_allocation {
        return set_given(record, hosts, params);
    }
    let (api, ingress) = (ips(params.api_vips.as_deref()), ips(params.ingress_vips.as_deref()));
    vips::none_by_dhcp(&api, &ingress)?;
    let first = |networks: &[MachineNetwork]| networks.first().map(|network| network.cidr.clone());
    let wanted = params.machine_networks.as_deref().and_then(first);
    if wanted.is_some() && wanted != first(&record.cluster.machine_networks) {
        // Leases of another network.
        forget_vips(record);
    }
    Ok(())
}

/// Where the virtual addresses are given: they must be in networks that hosts have.
fn set_given(
    record: &ClusterRecord,
    hosts: &[Arc<HostRecord>],
    params: &mut ClusterUpdateParams,
) -> Result<(), String> {
    let own = &record.cluster;
    let networks = networks_after(own, params);
    let dual = networks.are_dual_stack();
    let user_balanced = record.user_balanced();
    if params.machine_networks.as_ref().is_some_and(|given| !given.is_empty()) && !dual && !user_balanced {
        return Err("Setting the Machine Network CIDR is forbidden when the cluster is neither in VIP DHCP allocation mode nor using a user-managed load balancer".to_owned());
    }
    let api = ips(Some(params.api_vips.as_deref().unwrap_or(&own.api_vips)));
    let ingress = ips(Some(params.ingress_vips.as_deref().unwrap_or(&own.ingress_vips)));
    if params.api_vips.is_none() && params.ingress_vips.is_none() {
        return Ok(());
    }
    let free = |_: Cidr, address: IpAddr| is_free(hosts, address);
    let at = |list: &[String], index: usize| list.get(index).cloned().unwrap_or_default();
    let pair =
        |network: &str, index: usize| vips::check_pair(network, &at(&api, index), &at(&ingress, index), Some(&free));
    if dual {
        let machine: Vec<&str> = networks.machine.iter().map(|network| network.cidr.as_str()).collect();
        networks::both_families(&machine, "machine networks", "subnet", &own.openshift_version)?;
        for (index, network) in machine.into_iter().enumerate() {
            if index == 0 || api.len() == 2 && ingress.len() == 2 {
                pair(network, index)?;
            }
        }
        return Ok(());
    }
    if user_balanced {
        vips::check_in_some_network(networks, &at(&api, 0), "api-vip")?;
        return vips::check_in_some_network(networks, &at(&ingress, 0), "ingress-vip");
    }
    let Some(vip) = api.first().or(ingress.first()) else { return Ok(()) };
    let address: IpAddr =
        vip.parse().map_err(|_| format!("Calculate machine network CIDR: Could not parse VIP ip {vip}"))?;
    if let Some(given) = own.machine_networks.first().filter(|_| record.keeps_networks) {
        return pair(&given.cidr, 0);
    }
    let network = machine_networks::holding(hosts, address)
        .ok_or_else(|| format!("Calculate machine network CIDR: No suitable matching CIDR found for VIP {vip}"))?;
    pair(&network.to_string(), 0)?;
    params.machine_networks = Some(vec![MachineNetwork { cidr: network.to_string(), cluster_id: None }]);
    Ok(())
}

fn set_networks(record: &mut ClusterRecord, hosts: usize, params: &mut ClusterUpdateParams) -> Result<(), String> {
    let id = record.cluster.id;
    let (single, balanced) = (record.single_node(), record.user_balanced());
    let own = &mut record.cluster;
    let given =
        params.cluster_networks.is_some() || params.service_networks.is_some() || params.machine_networks.is_some();
    if let Some(wanted) = params.cluster_networks.take() {
        let wanted = networks::owned_cluster_networks(Some(wanted), id);
        if wanted != own.cluster_networks {
            networks::check_cluster_networks(&wanted, hosts)?;
            own.cluster_networks = wanted;
        }
    }
    if let Some(wanted) = params.service_networks.take() {
        let wanted = networks::owned(Some(wanted), id);
        if wanted != own.service_networks {
            networks::check_service_networks(&wanted)?;
            own.service_networks = wanted;
        }
    }
    if let Some(wanted) = params.machine_networks.take() {
        let wanted = networks::owned(Some(wanted), id);
        if wanted != own.machine_networks {
            networks::check_machine_networks(&wanted, networks::machine_bits(single, balanced))?;
            own.machine_networks = wanted;
        }
        if let Some(first) = own.machine_networks.first().filter(|_| own.vip_dhcp_allocation)
            && first.cidr.contains(':')
        {
            return Err(format!("VIP DHCP allocation is unsupported with IPv6 network {}", first.cidr));
        }
    }
    if !given {
        return Ok(());
    }
    networks::check_overlap(Networks::from_cluster(own), own.user_managed_networking)
}
