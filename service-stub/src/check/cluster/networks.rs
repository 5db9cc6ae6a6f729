//! Networks and virtual addresses of a cluster.

use super::Context;
use crate::check::{Status, Verdict, verdict};
use crate::machine_networks;
use crate::model::HostRecord;
use crate::net::Cidr;
use kernel::order::{self, Gather};
use serde_json::Value;
use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

const USER_MANAGED: &str = "User Managed Networking";

fn user_managed(context: &Context) -> bool {
    context.record.cluster.user_managed_networking
}

fn success(message: &str) -> Verdict {
    (Status::Success, message.to_owned())
}

pub(super) fn machine_cidr_defined(context: &Context) -> Verdict {
    if user_managed(context) && !context.record.single_node() {
        return success("No Machine Network CIDR needed: User Managed Networking");
    }
    if context.hosts.iter().all(|host| host.facts().inventory.is_none()) && context.machine_networks.is_empty() {
        return (Status::Pending, "Hosts have not been discovered yet".to_owned());
    }
    verdict(!context.machine_networks.is_empty(), "The Machine Network CIDR is defined.", || {
        "The Machine Network CIDR is undefined: set it, or the virtual addresses it is to hold".to_owned()
    })
}

pub(super) fn cluster_cidr_defined(context: &Context) -> Verdict {
    verdict(!cluster(context).is_empty(), "The Cluster Network CIDR is defined.", || {
        "The Cluster Network CIDR is undefined and must be provided.".to_owned()
    })
}

pub(super) fn service_cidr_defined(context: &Context) -> Verdict {
    verdict(!service(context).is_empty(), "The Service Network CIDR is defined.", || {
        "The Service Network CIDR is undefined and must be provided.".to_owned()
    })
}

fn cluster(context: &Context) -> Vec<Cidr> {
    context.record.cluster.cluster_networks.iter().filter_map(|network| network.cidr.parse().ok()).collect()
}

fn service(context: &Context) -> Vec<Cidr> {
    context.record.cluster.service_networks.iter().filter_map(|network| network.cidr.parse().ok()).collect()
}

/// Addresses, with what the hosts say of each.
fn vips(list: &[Value]) -> Vec<(IpAddr, &'static str)> {
    let parse = |vip: &Value| -> Option<(IpAddr, &'static str)> {
        let address = vip.get("ip")?.as_str()?.parse().ok()?;
        Some((address, verification(vip.get("verification").and_then(Value::as_str))))
    };
    list.iter().filter_map(parse).collect()
}

fn verification(text: Option<&str>) -> &'static str {
    match text {
        Some("succeeded") => "succeeded",
        Some("failed") => "failed",
        _ => "unverified",
    }
}

pub(super) fn api_vips_defined(context: &Context) -> Verdict {
    vips_defined(context, "API", &context.record.cluster.api_vips)
}

pub(super) fn ingress_vips_defined(context: &Context) -> Verdict {
    vips_defined(context, "Ingress", &context.record.cluster.ingress_vips)
}

fn not_required(kind: &str) -> Verdict {
    (Status::Success, format!("{kind} virtual IPs are not required: {USER_MANAGED}"))
}

fn vips_defined(context: &Context, kind: &str, list: &[Value]) -> Verdict {
    if user_managed(context) || context.record.single_node() {
        return not_required(kind);
    }
    if context.record.cluster.vip_dhcp_allocation && list.is_empty() {
        return match (context.machine_networks.is_empty(), context.record.dhcp.timed_out) {
            (true, _) => (Status::Pending, "The Machine Network CIDR is undefined.".to_owned()),
            (_, false) => (
                Status::Pending,
                format!("{kind} virtual IPs are undefined; IP allocation from the DHCP server is in progress."),
            ),
            (_, true) => (
                Status::Failure,
                format!("{kind} virtual IPs are undefined; IP allocation from the DHCP server timed out."),
            ),
        };
    }
    verdict(!list.is_empty(), format!("{kind} virtual IPs are defined."), || {
        format!("{kind} virtual IPs are undefined and must be provided.")
    })
}

pub(super) fn api_vips_valid(context: &Context) -> Verdict {
    vips_valid(context, "API", &context.record.cluster.api_vips)
}

pub(super) fn ingress_vips_valid(context: &Context) -> Verdict {
    vips_valid(context, "Ingress", &context.record.cluster.ingress_vips)
}

fn vips_valid(context: &Context, kind: &str, list: &[Value]) -> Verdict {
    if user_managed(context) || context.record.single_node() {
        return not_required(kind);
    }
    if list.is_empty() {
        return (Status::Pending, format!("{kind} virtual IPs are undefined."));
    }
    for (address, verification) in vips(list) {
        let Some(network) = context.machine_networks.iter().find(|network| network.contains(address)) else {
            return (Status::Failure, format!("{kind} virtual IP {address} is in no machine network."));
        };
        if is_broadcast(*network, address) {
            return (Status::Failure, format!("{kind} virtual IP {address} is the broadcast address of {network}."));
        }
        match verification {
            "succeeded" => {}
            // It answers there already.
            _ if context.record.user_balanced() => {}
            "failed" => {
                return (Status::Failure, format!("{kind} virtual IP {address} is in use already: choose a free one."));
            }
            _ if is_free(context.hosts, address) == Some(true) => {}
            _ => return (Status::Failure, format!("{kind} virtual IP {address} has not been verified yet.")),
        }
    }
    let addresses: Vec<String> = vips(list).into_iter().map(|(address, _)| address.to_string()).collect();
    let (kind, addresses) = (kind.to_lowercase(), addresses.join(", "));
    (Status::Success, format!("{kind} vips {addresses} belongs to the Machine CIDR and is not in use."))
}

fn is_broadcast(network: Cidr, address: IpAddr) -> bool {
    match (network.address, address) {
        (IpAddr::V4(network_address), IpAddr::V4(address)) if network.prefix < 31 => {
            let host_bits = u32::MAX.checked_shr(network.prefix.into()).unwrap_or(0);
            u32::from(address) == u32::from(network_address) | host_bits
        }
        _ => false,
    }
}

/// Whether all hosts that looked found an address free; none while they found none that all of them have.
pub(crate) fn is_free(hosts: &[Arc<HostRecord>], address: IpAddr) -> Option<bool> {
    let lists = hosts.iter().filter_map(|host| {
        let document: Vec<Value> = serde_json::from_str(host.texts.free_addresses.as_ref()?).ok()?;
        let of_network = document.into_iter().find(|entry| {
            let network = entry["network"].as_str().and_then(|text| text.parse::<Cidr>().ok());
            network.is_some_and(|network| network.contains(address))
        })?;
        let list = of_network["free_addresses"].as_array()?.iter();
        Some(list.filter_map(|free| free.as_str().map(str::to_owned)).gather::<BTreeSet<String>>())
    });
    let common = lists.reduce(|common, own| &common & &own)?;
    (!common.is_empty()).then(|| common.contains(&address.to_string()))
}

pub(super) fn machine_cidr_as_calculated(context: &Context) -> Verdict {
    const SUCCESS: &str = "The Cluster Machine CIDR is equivalent to the calculated CIDR.";
    if user_managed(context) {
        return success("The Cluster Machine CIDR is not required: User Managed Networking");
    }
    if context.record.user_balanced() {
        return success("The Cluster Machine CIDR is not required: User Managed Load Balancer");
    }
    let cluster = &context.record.cluster;
    let lists = [("API", &cluster.api_vips), ("Ingress", &cluster.ingress_vips)];
    if lists.iter().any(|(_, vips)| vips.is_empty()) {
        return (
            Status::Pending,
            "The Machine Network CIDR, API virtual IPs, or Ingress virtual IPs are undefined.".to_owned(),
        );
    }
    for (kind, vips) in lists {
        for (index, vip) in machine_networks::addresses(vips).enumerate() {
            let Some(calculated) = machine_networks::holding(context.hosts, vip) else {
                let why = format!("No host has an interface in a network with the {kind} virtual IP {vip}.");
                return (Status::Failure, why);
            };
            let set = context.machine_networks.get(index);
            if set != Some(&calculated) {
                let set = set.map_or_else(|| "(none)".to_owned(), Cidr::to_string);
                let why = format!(
                    "The Cluster Machine CIDR {set} is different than the calculated CIDR {calculated}, which holds the {kind} virtual IP {vip}."
                );
                return (Status::Failure, why);
            }
        }
    }
    success(SUCCESS)
}

fn all(context: &Context) -> Vec<(&'static str, Cidr)> {
    let machine = context.machine_networks.iter().map(|network| ("machine", *network));
    machine
        .chain(cluster(context).into_iter().map(|network| ("cluster", network)))
        .chain(service(context).into_iter().map(|network| ("service", network)))
        .collect()
}

pub(super) fn none_overlapping(context: &Context) -> Verdict {
    let needs_machine = !user_managed(context) || context.record.single_node();
    let undefined = [
        ("Machine", needs_machine && context.machine_networks.is_empty()),
        ("Cluster", cluster(context).is_empty()),
        ("Service", service(context).is_empty()),
    ];
    if let Some((kind, _)) = undefined.iter().find(|(_, undefined)| *undefined) {
        return (Status::Pending, format!("The {kind} Network CIDR is undefined."));
    }
    let all = all(context);
    let pairs =
        all.iter().enumerate().flat_map(|(index, first)| all.iter().skip(index + 1).map(move |second| (first, second)));
    let overlapping = pairs
        .into_iter()
        .find(|((_, first), (_, second))| first.contains(second.address) || second.contains(first.address));
    verdict(overlapping.is_none(), "No CIDRS are overlapping.", || {
        let text = overlapping
            .map(|((kind, first), (other, second))| format!("{kind} network {first} and {other} network {second}"));
        format!("Networks overlap: {}: give each its own", text.unwrap_or_default())
    })
}

pub(super) fn prefix_valid(context: &Context) -> Verdict {
    let hosts = context.hosts.len();
    let needed = if context.record.single_node() { 1 } else { hosts.max(4) };
    let bad = context.record.cluster.cluster_networks.iter().find_map(|network| {
        let cidr: Cidr = network.cidr.parse().ok()?;
        let bits: u32 = if cidr.address.is_ipv4() { 32 } else { 128 };
        let prefix = match (context.record.has_bundled_network(), cidr.address.is_ipv4()) {
            (true, _) => network.host_prefix,
            // Others divide it as they like: what they would by default counts.
            (false, true) => DEFAULT_HOST_PREFIX_V4,
            (false, false) => DEFAULT_HOST_PREFIX_V6,
        };
        let subnets = prefix.checked_sub(cidr.prefix.into()).map(|bits| 1_usize.checked_shl(bits).unwrap_or(usize::MAX));
        let fits = prefix <= bits - 7 && subnets.is_some_and(|subnets| subnets >= needed);
        (!fits).then(|| format!("Host prefix {prefix} does not fit the cluster network {cidr}: it must leave {needed} networks of at least 128 addresses"))
    });
    verdict(bad.is_none(), "The Cluster Network prefix is valid.", || bad.unwrap_or_default())
}

pub(super) fn same_families(context: &Context) -> Verdict {
    let families = |networks: &[Cidr]| {
        let mut families: Vec<bool> = networks.iter().map(|network| network.address.is_ipv6()).collect();
        order::sort(&mut families);
        families.dedup();
        families
    };
    let (cluster, service, machine) =
        (families(&cluster(context)), families(&service(context)), families(context.machine_networks));
    let alike = cluster == service && (machine.is_empty() || machine == cluster);
    verdict(alike, "Same address families for all networks.", || {
        "Machine, cluster and service networks are not all of the same address families (IPv4, IPv6): give each kind one of every family".to_owned()
    })
}

/// Default prefix of a host's share of the cluster network (docs/compatibility.md#cluster-validations).
pub(crate) const DEFAULT_HOST_PREFIX_V4: u32 = 23;
/// The same of IPv6.
pub(crate) const DEFAULT_HOST_PREFIX_V6: u32 = 64;

/// The published ones.
pub(crate) const NETWORK_TYPES: [&str; 6] = ["OpenShiftSDN", "OVNKubernetes", "CiscoACI", "Cilium", "Calico", "None"];

pub(super) fn type_valid(context: &Context) -> Verdict {
    let cluster = &context.record.cluster;
    if !NETWORK_TYPES.contains(&cluster.network_type.as_str()) {
        let why = format!("Network type '{}' is not one of {}", cluster.network_type, NETWORK_TYPES.join(", "));
        return (Status::Failure, why);
    }
    let sdn = cluster.network_type == "OpenShiftSDN";
    let v6 = all(context).iter().any(|(_, network)| network.address.is_ipv6());
    if sdn && (v6 || context.record.single_node()) {
        return (
            Status::Failure,
            "OpenShiftSDN takes neither IPv6 nor single-node clusters: use OVNKubernetes".to_owned(),
        );
    }
    if cluster.vip_dhcp_allocation && cluster.network_type == "OVNKubernetes" {
        return (Status::Failure, "OVNKubernetes takes no virtual addresses by DHCP".to_owned());
    }
    success("The cluster has a valid network type")
}

/// A third-party network plug-in comes with its own manifests.
pub(super) fn custom_manifests(context: &Context) -> Verdict {
    let kind = &context.record.cluster.network_type;
    if context.record.has_bundled_network() {
        return success("No custom manifests are required");
    }
    verdict(context.has_manifests, "Custom manifests are there", || {
        format!("Network type {kind} needs its manifests: upload them to the cluster")
    })
}
