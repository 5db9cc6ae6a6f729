//! What hosts see of each other.

use super::context::{Context, Shared, no_network, pending, success, verdict};
use crate::check::{
    Verdict,
    reach::{Reach, Seen},
};
use crate::model::ClusterRecord;
use crate::net::Cidr;
use api::HostRole;
use kernel::order;

pub(super) fn belongs_to_majority_group(context: &Context) -> Option<Verdict> {
    const SUCCESS: &str = "Host has connectivity to the majority of hosts in the cluster";
    let Some(cluster) = context.cluster else { return success(SUCCESS) };
    // One that is added joins hosts that are not asked any more.
    if cluster.single_node() || cluster.day2() {
        return success(SUCCESS);
    }
    let Shared { groups, machine_networks, group_minimum, hosts, .. } = context.shared;
    let id = context.record.host.id;
    let routed = context.user_managed() || context.user_balanced();
    if !routed && machine_networks.is_empty() {
        return no_network();
    }
    let member = if routed {
        let families = families(context);
        let reached = groups.l3_connected_addresses.get(&id).map(Vec::as_slice).unwrap_or_default();
        families.iter().all(|v6| reached.iter().any(|address| address.contains(':') == *v6))
    } else {
        let in_group = |cidr: &Cidr| {
            groups.majority_groups.get(&cidr.network().to_string()).is_some_and(|group| group.contains(&id))
        };
        machine_networks.iter().all(in_group)
    };
    if !member && hosts < group_minimum {
        let message = format!("Connectivity is known once the cluster has {group_minimum} hosts; it has {hosts}");
        return pending(message);
    }
    verdict(member, SUCCESS, || {
        "Host does not reach the majority of hosts of the cluster, or they don't reach it".to_owned()
    })
}

/// The address families the cluster needs: `true` for IPv6.
pub(super) fn families(context: &Context) -> Vec<bool> {
    let Some(ClusterRecord { cluster, .. }) = context.cluster else { return Vec::new() };
    let written = (cluster.cluster_networks.iter().map(|network| network.cidr.as_str()))
        .chain(cluster.service_networks.iter().map(|network| network.cidr.as_str()));
    let mut families: Vec<bool> = written.map(|cidr| cidr.contains(':')).collect();
    families.extend(context.shared.machine_networks.iter().map(|cidr| cidr.address.is_ipv6()));
    order::sort(&mut families);
    families.dedup();
    families
}

fn reach<'a>(context: &Context<'a>) -> Option<&'a Reach> {
    context.record.facts().reach.as_ref()
}

pub(super) fn mtu_valid(context: &Context) -> Option<Verdict> {
    if context.single_node() {
        return None;
    }
    let Some(reach) = reach(context) else { return pending("The host has not probed the MTU yet") };
    let networks = &context.shared.machine_networks;
    let counts = |address| context.user_managed() || networks.iter().any(|network: &Cidr| network.contains(address));
    let seen = reach.iter().filter(|(host, _)| context.shared.peers.contains_key(host));
    let failed: Vec<String> = seen
        .flat_map(|(_, seen)| &seen.mtu)
        .filter(|probe| !probe.successful && counts(probe.address))
        .map(|probe| probe.address.to_string())
        .collect();
    verdict(failed.is_empty(), "MTU is ok", || {
        format!(
            "Packets of the interfaces' full size do not reach {}: set the same MTU on hosts and switches",
            failed.join(", ")
        )
    })
}

pub(super) fn latency(context: &Context) -> Option<Verdict> {
    let needs = context.needs();
    threshold(
        context,
        needs.network_latency_ms,
        "Network latency requirement has been satisfied.",
        |seen| seen.l3.iter().filter(|echo| echo.successful).map(|echo| echo.average_rtt_ms).fold(0.0, f64::max),
        |limit, worse| format!("Network latency of more than {limit} ms to hosts of the same role: {worse}"),
        "ms",
    )
}

pub(super) fn packet_loss(context: &Context) -> Option<Verdict> {
    let needs = context.needs();
    threshold(
        context,
        needs.packet_loss_percent,
        "Packet loss requirement has been satisfied.",
        |seen| seen.l3.iter().map(|echo| echo.packet_loss_percentage).fold(0.0, f64::max),
        |limit, worse| format!("Packet loss of more than {limit} % to hosts of the same role: {worse}"),
        "%",
    )
}

/// Holds a measure of every host of the same role against the role's limit.
fn threshold(
    context: &Context,
    limit: Option<f64>,
    satisfied: &str,
    measure: impl Fn(&Seen) -> f64,
    failure: impl FnOnce(f64, String) -> String,
    unit: &str,
) -> Option<Verdict> {
    let role = context.record.effective_role();
    let Some(limit) = limit.filter(|_| context.shared.hosts > 1 && role != HostRole::AutoAssign && !context.day2())
    else {
        return success(satisfied);
    };
    let Some(reach) = reach(context) else { return pending("The host has not probed the others yet") };
    let worse: Vec<String> = context
        .shared
        .peers
        .iter()
        .filter(|(host, (own, _))| *own == role && **host != context.record.host.id)
        .filter_map(|(host, (_, name))| {
            let measured = measure(reach.seen(*host)?);
            (measured > limit).then(|| format!("{name} ({measured:.2} {unit})"))
        })
        .collect();
    verdict(worse.is_empty(), satisfied, || failure(limit, worse.join(", ")))
}

pub(super) fn no_collisions(context: &Context) -> Option<Verdict> {
    let found = format!("No IP collisions were detected by host {}", context.record.host.id);
    if context.day2() {
        return success(found);
    }
    let own = &context.record.facts().addresses;
    let collisions = context.shared.collisions.iter().filter(|(address, _)| own.contains(address));
    let texts: Vec<String> = collisions
        .map(|(address, macs)| {
            let macs: Vec<&str> = macs.iter().map(String::as_str).collect();
            format!("{address} is answered for by {}", macs.join(" and "))
        })
        .collect();
    verdict(texts.is_empty(), found, || {
        format!("Addresses of this host are used by others as well: {}", texts.join("; "))
    })
}
