//! The addresses that nodes are to be known by (docs/compatibility.md#node-addresses).
//!
//! Where the user looks after the network or its load balancer, a node may have several. The address that it is known by must not lie in
//! a network that another node has, but is not known by: that node would be reached, and answer, from there. So all addresses are
//! chosen together.

use crate::check::{connectivity::MajorityGroups, disks};
use crate::machine_networks;
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use api::{HostId, Inventory, Route};
use kernel::order::{self, Gather};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

/// So many looks at a network are taken. Inventories come from hosts, so the work they can cause is bounded; a rack whose networks are
/// all alike needs a few for each address.
const MAX_LOOKS: usize = 1 << 23;

/// A host that an address is chosen for.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) host: HostId,
    /// Addresses that all other hosts reach, of interfaces that have a default route, with its metric.
    pub(crate) addresses: Vec<(Cidr, i32)>,
    /// The networks of all its addresses.
    pub(crate) networks: BTreeSet<Cidr>,
}

/// One address of a host.
struct Choice {
    address: Cidr,
    /// Networks of any host that it lies in.
    inside: Vec<Cidr>,
    /// The host's other networks.
    others: Vec<Cidr>,
}

/// How many of the chosen addresses lie in a network, and how many have it as one of their host's others.
#[derive(Default)]
struct Tally {
    inside: BTreeMap<Cidr, usize>,
    others: BTreeMap<Cidr, usize>,
}

impl Tally {
    fn admits(&self, choice: &Choice) -> bool {
        let none =
            |counts: &BTreeMap<Cidr, usize>, networks: &[Cidr]| !networks.iter().any(|of| counts.contains_key(of));
        none(&self.others, &choice.inside) && none(&self.inside, &choice.others)
    }

    fn add(&mut self, choice: &Choice) {
        for (counts, networks) in [(&mut self.inside, &choice.inside), (&mut self.others, &choice.others)] {
            networks.iter().for_each(|network| *counts.entry(*network).or_default() += 1);
        }
    }

    fn remove(&mut self, choice: &Choice) {
        for (counts, networks) in [(&mut self.inside, &choice.inside), (&mut self.others, &choice.others)] {
            for network in networks {
                if counts.get_mut(network).is_some_and(|count| {
                    *count = count.saturating_sub(1);
                    *count == 0
                }) {
                    counts.remove(network);
                }
            }
        }
    }
}

/// An address for each host: the first host gets that of its lowest metric with which there is one for all others, then the second, and
/// so on. `None` if there are none, or it takes too long to find them.
pub(crate) fn choose(hosts: &[Candidate]) -> Option<BTreeMap<HostId, Cidr>> {
    let mut looks = MAX_LOOKS;
    let networks: BTreeSet<Cidr> = hosts.iter().flat_map(|host| &host.networks).copied().gather();
    let choices = hosts.iter().map(|host| choices(host, &networks, &mut looks)).collect::<Option<Vec<_>>>()?;
    let mut tally = Tally::default();
    let mut chosen: Vec<&Choice> = Vec::new();
    let mut untried = vec![choices.first()?.iter()];
    while let Some(rest) = untried.last_mut() {
        let found = rest.find(|choice| {
            looks = looks.saturating_sub(choice.inside.len() + choice.others.len());
            looks == 0 || tally.admits(choice)
        });
        if looks == 0 {
            return None;
        }
        match found {
            Some(choice) => {
                tally.add(choice);
                chosen.push(choice);
                match choices.get(chosen.len()) {
                    Some(next) => untried.push(next.iter()),
                    None => {
                        return Some(
                            hosts.iter().zip(chosen).map(|(host, choice)| (host.host, choice.address)).collect(),
                        );
                    }
                }
            }
            None => {
                untried.pop();
                if let Some(last) = chosen.pop() {
                    tally.remove(last);
                }
            }
        }
    }
    None
}

/// What can be chosen for a host, the lowest metric first; `None` if it takes too many looks. `networks` are those of all hosts.
fn choices(host: &Candidate, networks: &BTreeSet<Cidr>, looks: &mut usize) -> Option<Vec<Choice>> {
    let mut addresses = host.addresses.clone();
    order::sort_by_key(&mut addresses, |(_, metric)| *metric);
    let of_address = |(address, _): (Cidr, i32)| {
        *looks = looks.checked_sub(networks.len())?;
        let inside = networks.iter().copied().filter(|network| network.contains(address.address)).collect();
        let others = host.networks.iter().copied().filter(|network| *network != address.network()).collect();
        Some(Choice { address, inside, others })
    };
    addresses.into_iter().map(of_address).collect()
}

/// Whether nodes of the cluster may have several addresses: the user looks after the network or the load balancer.
fn is_chosen(cluster: &ClusterRecord) -> bool {
    !cluster.day2() && (!cluster.single_node() && cluster.cluster.user_managed_networking || cluster.user_balanced())
}

/// The addresses of all hosts of such a cluster, each with its network's prefix length; `None` where there are none to choose, or some host
/// is not reached by all others.
pub(crate) fn allocate(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Option<BTreeMap<HostId, Cidr>> {
    if !is_chosen(cluster) {
        return None;
    }
    let own = &cluster.cluster;
    let pods = own.cluster_networks.iter().map(|network| &network.cidr);
    let mut networks = pods.chain(own.service_networks.iter().map(|network| &network.cidr)).peekable();
    networks.peek()?;
    let v6 = networks.all(|cidr| cidr.contains(':'));
    let groups: MajorityGroups = serde_json::from_str(&own.connectivity_majority_groups).ok()?;
    let reached = groups.l3_connected_addresses;
    if reached.len() != hosts.len() {
        return None;
    }
    let candidates: Option<Vec<Candidate>> = hosts
        .iter()
        .map(|record| {
            let reached: BTreeSet<IpAddr> =
                reached.get(&record.host.id)?.iter().filter_map(|address| address.parse().ok()).collect();
            candidate(record.host.id, record.facts().inventory.as_ref()?, &reached, v6)
        })
        .collect();
    choose(&candidates?)
}

/// `None` if no address can be chosen, or one can't be read.
fn candidate(host: HostId, inventory: &Inventory, reached: &BTreeSet<IpAddr>, v6: bool) -> Option<Candidate> {
    let (mut addresses, mut networks) = (Vec::new(), BTreeSet::new());
    for nic in &inventory.interfaces {
        let metric = inventory.routes.iter().find(|route| route.interface == nic.name && is_default(route, v6));
        for text in if v6 { &nic.ipv6_addresses } else { &nic.ipv4_addresses } {
            let cidr: Cidr = text.parse().ok()?;
            networks.insert(cidr.network());
            addresses.extend(metric.filter(|_| reached.contains(&cidr.address)).map(|route| (cidr, route.metric)));
        }
    }
    (!addresses.is_empty()).then_some(Candidate { host, addresses, networks })
}

/// Whether it is the default route of a family.
fn is_default(route: &Route, v6: bool) -> bool {
    let gateway = route.gateway.parse::<IpAddr>();
    disks::is_default(&route.destination)
        && gateway.is_ok_and(|gateway| !gateway.is_unspecified() && gateway.is_ipv6() == v6)
}

/// Why the bootstrap host has no address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error("no host of the cluster was chosen to bootstrap")]
    Host,
    #[error("the cluster has no machine network")]
    Network,
    #[error("No matching interface found for host {0}")]
    Interface(HostId),
}

/// The address that the bootstrap host's kubelet is to use: in the first of the machine networks, or the one that was chosen. Without a
/// choice, none is prescribed.
pub(crate) fn bootstrap_address(
    cluster: &ClusterRecord,
    hosts: &[Arc<HostRecord>],
) -> Result<Option<IpAddr>, BootstrapError> {
    let bootstrap = hosts.iter().find(|record| record.host.bootstrap).ok_or(BootstrapError::Host)?;
    let id = bootstrap.host.id;
    if is_chosen(cluster) {
        let chosen = allocate(cluster, hosts).and_then(|all| all.get(&id).map(|cidr| cidr.address));
        if chosen.is_none() {
            tracing::error!(cluster = %cluster.cluster.id, host = %id, "no address could be chosen for the bootstrap host");
        }
        return Ok(chosen);
    }
    let networks = machine_networks::find(cluster, hosts);
    let network = networks.first().ok_or(BootstrapError::Network)?;
    let inventory = bootstrap.facts().inventory.as_ref();
    let nics = inventory.iter().flat_map(|inventory| &inventory.interfaces);
    let texts = nics.flat_map(|nic| nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses));
    let mut addresses = texts.filter_map(|text| text.parse::<Cidr>().ok()).map(|cidr| cidr.address);
    addresses.find(|address| network.contains(*address)).map(Some).ok_or(BootstrapError::Interface(id))
}

#[cfg(test)]
#[path = "node_addresses_tests.rs"]
mod tests;
