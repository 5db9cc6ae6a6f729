//! Which hosts reach each other: full-mesh groups by network and by address family (docs/compatibility.md#majority-groups).

use super::reach::Reach;
use crate::net::Cidr;
use api::{HostId, Inventory};
use kernel::order::{self, Gather};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

/// A host's facts, as far as they matter here.
pub(crate) struct Node<'a> {
    pub(crate) id: HostId,
    pub(crate) addresses: &'a [IpAddr],
    /// What it sees of the others.
    pub(crate) reach: Option<&'a Reach>,
}

/// `connectivity_majority_groups`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MajorityGroups {
    /// Members by network in CIDR notation, or by `IPv4` and `IPv6`.
    pub(crate) majority_groups: BTreeMap<String, Vec<HostId>>,
    /// A host's addresses that all others reach.
    pub(crate) l3_connected_addresses: BTreeMap<HostId, Vec<String>>,
}

#[derive(Clone, Copy)]
enum Question {
    Network(Cidr),
    Family { v6: bool },
}

/// Works out all groups; `minimum` hosts make a group.
pub(crate) fn groups(nodes: &[Node], networks: &[Cidr], minimum: usize) -> MajorityGroups {
    let mut peers: Vec<&Node> = nodes.iter().collect();
    order::sort_by_key(&mut peers, |peer| peer.id);
    let group = |question| {
        let mesh = full_mesh(&mutual(&peers, question), minimum);
        mesh.into_iter().map(|index| peers[index].id).collect()
    };
    let mut majority_groups: BTreeMap<String, Vec<HostId>> =
        networks.iter().map(|cidr| (cidr.network().to_string(), group(Question::Network(cidr.network())))).gather();
    majority_groups.insert("IPv4".into(), group(Question::Family { v6: false }));
    majority_groups.insert("IPv6".into(), group(Question::Family { v6: true }));
    MajorityGroups { majority_groups, l3_connected_addresses: reached_by_all(&peers) }
}

/// Every address of an inventory.
pub(crate) fn addresses(inventory: &Inventory) -> impl Iterator<Item = IpAddr> {
    let texts = inventory.interfaces.iter().flat_map(|nic| nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses));
    texts.filter_map(|text| text.parse::<Cidr>().ok()).map(|cidr| cidr.address).filter(|address| !address.is_loopback())
}

impl Node<'_> {
    fn reaches(&self, other: &Node, question: Question) -> bool {
        let Some(seen) = self.reach.and_then(|reach| reach.seen(other.id)) else { return false };
        let l3 = |address: IpAddr| seen.l3.iter().any(|echo| echo.successful && echo.address == address);
        match question {
            Question::Network(cidr) => {
                seen.l2.iter().any(|neighbour| neighbour.successful && cidr.contains(neighbour.address))
                    || cidr.address.is_ipv6()
                        && seen.l3.iter().any(|echo| echo.successful && cidr.contains(echo.address))
            }
            Question::Family { v6 } => {
                let mut wanted = other.addresses.iter().filter(|address| address.is_ipv6() == v6).peekable();
                wanted.peek().is_some() && wanted.all(|address| l3(*address))
            }
        }
    }
}

/// For each node the nodes it is mutually linked with, itself included.
fn mutual(peers: &[&Node], question: Question) -> Vec<BTreeSet<usize>> {
    let mut sets: Vec<BTreeSet<usize>> = (0..peers.len()).map(|index| BTreeSet::from([index])).collect();
    for (a, first) in peers.iter().enumerate() {
        for (b, second) in peers.iter().enumerate().skip(a + 1) {
            if first.reaches(second, question) && second.reaches(first, question) {
                sets[a].insert(b);
                sets[b].insert(a);
            }
        }
    }
    sets
}

/// Addresses that two machines answer for, by one host's probes, with their hardware addresses.
pub(crate) fn collisions(nodes: &[Node]) -> BTreeMap<IpAddr, BTreeSet<String>> {
    let mut all: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
    for node in nodes {
        let mut first: HashMap<IpAddr, &str> = HashMap::new();
        let seen = node.reach.into_iter().flat_map(Reach::iter);
        for neighbour in seen.flat_map(|(_, seen)| &seen.l2).filter(|neighbour| !neighbour.mac.is_empty()) {
            let first = *first.entry(neighbour.address).or_insert(&neighbour.mac);
            if *first != *neighbour.mac {
                all.entry(neighbour.address).or_default().extend([first.to_owned(), neighbour.mac.to_string()]);
            }
        }
    }
    all
}

/// So many candidate sets are looked at; a network so ragged that this is not enough has no majority worth the name,
/// and reports come from hosts, so the work they can cause is bounded.
const MAX_CANDIDATES: usize = 20_000;

/// The largest set of at least `minimum` nodes that are all linked with each other; candidates are the nodes' own
/// neighbourhoods, narrowed by each other until a full mesh is left.
fn full_mesh(neighbours: &[BTreeSet<usize>], minimum: usize) -> Vec<usize> {
    let minimum = minimum.max(1);
    let mut candidates: BTreeSet<Vec<usize>> =
        neighbours.iter().filter(|set| set.len() >= minimum).map(|set| set.iter().copied().collect()).gather();
    let mut looked_at = 0;
    while let Some(size) = candidates.iter().map(Vec::len).max() {
        let largest: Vec<Vec<usize>> = candidates.iter().filter(|set| set.len() == size).cloned().collect();
        // Of several meshes of one size the one with the smallest ids: the set is sorted that way.
        if let Some(mesh) = largest.iter().find(|set| is_mesh(set, neighbours)) {
            return mesh.clone();
        }
        looked_at += largest.len() * neighbours.len();
        if looked_at > MAX_CANDIDATES.max(neighbours.len() * neighbours.len()) {
            break;
        }
        candidates.retain(|set| set.len() < size);
        for set in &largest {
            for other in neighbours {
                let narrowed: Vec<usize> = set.iter().copied().filter(|node| other.contains(node)).collect();
                if narrowed.len() >= minimum && narrowed.len() < size {
                    candidates.insert(narrowed);
                }
            }
        }
    }
    Vec::new()
}

fn is_mesh(set: &[usize], neighbours: &[BTreeSet<usize>]) -> bool {
    set.iter().all(|&node| set.iter().all(|other| neighbours[node].contains(other)))
}

fn reached_by_all(peers: &[&Node]) -> BTreeMap<HostId, Vec<String>> {
    let mut connected = BTreeMap::new();
    for peer in peers.iter().filter(|_| peers.len() > 1) {
        let others = || peers.iter().filter(|other| other.id != peer.id);
        let reached = |other: &Node, address: IpAddr| {
            let seen = other.reach.and_then(|reach| reach.seen(peer.id));
            seen.is_some_and(|seen| seen.l3.iter().any(|echo| echo.successful && echo.address == address))
        };
        let by_all = |address: &&IpAddr| others().all(|other| reached(other, **address));
        let mut common: Vec<IpAddr> = peer.addresses.iter().filter(by_all).copied().collect();
        order::sort(&mut common);
        common.dedup();
        if !common.is_empty() {
            connected.insert(peer.id, common.iter().map(IpAddr::to_string).collect());
        }
    }
    connected
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mesh(links: &[(usize, usize)], nodes: usize, minimum: usize) -> Vec<usize> {
        let mut sets: Vec<BTreeSet<usize>> = (0..nodes).map(|index| BTreeSet::from([index])).collect();
        for &(a, b) in links {
            sets[a].insert(b);
            sets[b].insert(a);
        }
        full_mesh(&sets, minimum)
    }

    #[test]
    fn a_host_cut_off_is_left_out() {
        assert_eq!(mesh(&[(0, 1), (1, 2), (0, 2)], 4, 3), [0, 1, 2]);
        assert_eq!(mesh(&[(0, 1), (1, 2), (0, 2), (2, 3)], 4, 3), [0, 1, 2]);
        assert_eq!(mesh(&[(0, 1), (1, 2)], 3, 3), Vec::<usize>::new(), "a chain is no mesh");
        assert_eq!(mesh(&[(0, 1)], 2, 2), [0, 1]);
        assert_eq!(mesh(&[], 0, 3), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn whatever_is_found_is_a_mesh(links in proptest::collection::vec((0usize..7, 0usize..7), 0..20)) {
            let found = mesh(&links, 7, 3);
            prop_assert!(found.is_empty() || found.len() >= 3);
            for &a in &found {
                for &b in &found {
                    prop_assert!(a == b || links.contains(&(a, b)) || links.contains(&(b, a)));
                }
            }
        }
    }

    fn host(id: u128, address: &str) -> (HostId, [IpAddr; 1]) {
        (HostId(uuid::Uuid::from_u128(id)), [address.parse().unwrap()])
    }

    fn report(seen: &[(HostId, &str, bool)]) -> Reach {
        let remote = |(host_id, address, l3): &(HostId, &str, bool)| {
            serde_json::from_value(serde_json::json!({
                "host_id": host_id,
                "l2_connectivity": [{"remote_ip_address": address, "successful": true}],
                "l3_connectivity": [{"remote_ip_address": address, "successful": l3}],
            }))
            .unwrap()
        };
        api::ConnectivityReport { remote_hosts: seen.iter().map(remote).collect() }.into()
    }

    #[test]
    fn l2_groups_by_network_and_l3_by_family() {
        let hosts = [host(1, "10.0.0.1"), host(2, "10.0.0.2"), host(3, "10.0.0.3")];
        let ids = hosts.map(|(id, _)| id);
        let see = |skip: usize, broken: bool| {
            let all = [(ids[0], "10.0.0.1", true), (ids[1], "10.0.0.2", true), (ids[2], "10.0.0.3", !broken)];
            report(&all.into_iter().enumerate().filter(|(i, _)| *i != skip).map(|(_, seen)| seen).collect::<Vec<_>>())
        };
        let reports = [see(0, false), see(1, true), see(2, false)];
        let nodes: Vec<Node> = hosts
            .iter()
            .zip(&reports)
            .map(|((id, addresses), reach)| Node { id: *id, addresses, reach: Some(reach) })
            .collect();
        let found = groups(&nodes, &["10.0.0.0/24".parse().unwrap()], 3);
        assert_eq!(found.majority_groups["10.0.0.0/24"], ids);
        assert_eq!(found.majority_groups["IPv4"], Vec::new(), "host 2 can't ping host 3");
        assert_eq!(found.majority_groups["IPv6"], Vec::new());
        assert_eq!(found.l3_connected_addresses[&ids[0]], ["10.0.0.1"]);
        assert!(!found.l3_connected_addresses.contains_key(&ids[2]));
    }
}
