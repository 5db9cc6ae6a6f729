//! The choice of addresses, beside that of trying everything.

use super::*;
use crate::model::HostKey;
use crate::state::ClusterState;
use api::{Cluster, ClusterNetwork, InfraEnvId, MachineNetwork, Secret, Timestamp};
use proptest::prelude::*;
use serde_json::json;

fn id(number: u128) -> HostId {
    HostId(uuid::Uuid::from_u128(number))
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

/// A host of these addresses with metrics, each in a network of its own, and of further networks.
fn candidate_of(number: u128, addresses: &[(&str, i32)], others: &[&str]) -> Candidate {
    let addresses: Vec<_> = addresses.iter().map(|(text, metric)| (cidr(text), *metric)).collect();
    let networks = addresses.iter().map(|(address, _)| *address).chain(others.iter().map(|text| cidr(text)));
    Candidate { host: id(number), networks: networks.map(Cidr::network).collect(), addresses }
}

fn chosen(hosts: &[Candidate]) -> Option<Vec<String>> {
    let found = choose(hosts)?;
    assert_eq!(found.len(), hosts.len());
    Some(hosts.iter().map(|host| found[&host.host].to_string()).collect())
}

#[test]
fn no_address_is_in_a_network_that_another_host_is_not_known_by() {
    for (what, hosts, expected) in [
        ("no hosts", vec![], None),
        ("no choice", vec![candidate_of(1, &[("10.0.0.1/24", 1)], &[])], Some(vec!["10.0.0.1/24"])),
        ("no address", vec![candidate_of(1, &[("10.0.0.1/24", 1)], &[]), candidate_of(2, &[], &[])], None),
        (
            "the network that all have",
            vec![
                candidate_of(1, &[("10.0.0.1/24", 9)], &[]),
                candidate_of(2, &[("10.1.0.2/24", 1), ("10.0.0.2/24", 9)], &[]),
                candidate_of(3, &[("10.1.0.3/24", 1), ("10.0.0.3/24", 9)], &[]),
            ],
            Some(vec!["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"]),
        ),
        (
            "the lowest metric",
            vec![
                candidate_of(1, &[("10.0.0.1/24", 2), ("10.1.0.1/24", 1)], &[]),
                candidate_of(2, &[("10.0.0.2/24", 1), ("10.1.0.2/24", 2)], &[]),
            ],
            Some(vec!["10.1.0.1/24", "10.1.0.2/24"]),
        ),
        (
            "the first of one metric",
            vec![candidate_of(1, &[("10.9.0.1/24", 5), ("10.1.0.1/24", 5)], &[])],
            Some(vec!["10.9.0.1/24"]),
        ),
        (
            "a metric may be negative",
            vec![candidate_of(1, &[("10.9.0.1/24", 0), ("10.1.0.1/24", -1)], &[])],
            Some(vec!["10.1.0.1/24"]),
        ),
        (
            "an address in the other's network",
            vec![candidate_of(1, &[("10.0.0.1/24", 1)], &[]), candidate_of(2, &[("10.1.0.2/24", 1)], &["10.0.0.7/24"])],
            None,
        ),
        (
            "one network within another",
            vec![candidate_of(1, &[("10.0.0.1/24", 1)], &[]), candidate_of(2, &[("10.1.0.2/24", 1)], &["10.0.0.0/8"])],
            None,
        ),
        (
            "a host's own networks don't matter to itself",
            vec![candidate_of(1, &[("10.0.0.1/24", 1)], &["10.0.0.0/8"]), candidate_of(2, &[("11.0.0.1/24", 1)], &[])],
            Some(vec!["10.0.0.1/24", "11.0.0.1/24"]),
        ),
        (
            "the other family",
            vec![
                candidate_of(1, &[("fd00::1/64", 1)], &["fd01::1/64"]),
                candidate_of(2, &[("fd00::2/64", 1)], &["fd01::2/64"]),
            ],
            Some(vec!["fd00::1/64", "fd00::2/64"]),
        ),
    ] {
        let expected = expected.map(|list| list.into_iter().map(str::to_owned).collect());
        assert_eq!(chosen(&hosts), expected, "{what}");
    }
}

#[test]
fn a_large_rack_is_quick_and_a_hostile_one_is_given_up() {
    let host = |number: u8, lacks: bool| {
        let [first, second] = [0, 1].map(|network| format!("10.{network}.0.{number}/24"));
        let both = [(&*first, 1), (&*second, 2)];
        candidate_of(number.into(), if lacks { &both[1..] } else { &both }, &[])
    };
    let hosts: Vec<_> = (1..=200).map(|number| host(number, number == 200)).collect();
    assert_eq!(chosen(&hosts).unwrap()[0], "10.1.0.1/24");

    // Two networks of its own each, so that nothing is decided until the last two exclude each other.
    let alone = |number: u8| {
        let [first, second] = [0, 1].map(|network| format!("10.{number}.{network}.1/24"));
        candidate_of(number.into(), &[(&first, 1), (&second, 2)], &[])
    };
    let mut hosts: Vec<_> = (1..=60).map(alone).collect();
    assert!(choose(&hosts).is_some());
    hosts.push(candidate_of(61, &[("192.0.2.1/24", 1)], &[]));
    hosts.push(candidate_of(62, &[("198.51.100.1/24", 1)], &["192.0.2.0/24"]));
    assert_eq!(choose(&hosts), None);

    let many: Vec<String> = (0..5000).map(|number| format!("10.{}.{}.1/24", number / 256, number % 256)).collect();
    let many: Vec<_> = many.iter().map(|text| (&**text, 1)).collect();
    assert_eq!(choose(&[candidate_of(1, &many, &[])]), None);
}

/// The same by trying all combinations.
fn exhaustive(hosts: &[Candidate], chosen: &[(usize, Cidr)]) -> Option<Vec<Cidr>> {
    let Some(host) = hosts.get(chosen.len()) else { return Some(chosen.iter().map(|(_, address)| *address).collect()) };
    let mut addresses = host.addresses.clone();
    addresses.sort_by_key(|(_, metric)| *metric);
    let clashes = |a: (usize, Cidr), b: (usize, Cidr)| {
        let others = hosts[b.0].networks.iter().filter(|network| **network != b.1.network());
        others.into_iter().any(|network| network.contains(a.1.address))
    };
    addresses.iter().find_map(|(address, _)| {
        let new = (chosen.len(), *address);
        if chosen.iter().any(|old| clashes(*old, new) || clashes(new, *old)) {
            return None;
        }
        exhaustive(hosts, &[chosen, &[new]].concat())
    })
}

/// Networks with their prefixes and metrics, and further networks.
type Drawn = (Vec<(u8, u8, i32)>, Vec<(u8, u8)>);

fn any_host() -> impl Strategy<Value = Drawn> {
    let prefix = prop::sample::select(vec![16_u8, 24, 25]);
    (prop::collection::vec((0_u8..4, prefix.clone(), 0..3), 1..4), prop::collection::vec((0_u8..4, prefix), 0..2))
}

proptest! {
    #[test]
    fn the_choice_is_that_of_trying_everything(hosts in prop::collection::vec(any_host(), 1..6)) {
        let hosts: Vec<_> = hosts.iter().enumerate().map(|(number, (addresses, others))| {
            let texts: Vec<_> = addresses
                .iter()
                .map(|(network, prefix, metric)| (format!("10.{}.{network}.{}/{prefix}", network % 2, number + 1), *metric))
                .collect();
            let others: Vec<_> = others.iter().map(|(network, prefix)| format!("10.0.{network}.0/{prefix}")).collect();
            let texts: Vec<_> = texts.iter().map(|(text, metric)| (&**text, *metric)).collect();
            candidate_of(u128::try_from(number).unwrap(), &texts, &others.iter().map(|text| &**text).collect::<Vec<_>>())
        }).collect();
        let found = choose(&hosts).map(|found| hosts.iter().map(|host| found[&host.host]).collect::<Vec<_>>());
        prop_assert_eq!(found, exhaustive(&hosts, &[]));
    }
}

fn host(number: u128, networks: [&str; 2], bootstrap: bool) -> Arc<HostRecord> {
    let key = HostKey { infra_env: InfraEnvId::random(), host: id(number) };
    let mut record = HostRecord::new(key, None, Timestamp::ZERO);
    record.host.bootstrap = bootstrap;
    let [first, second] = networks.map(|network| format!("{network}.{number}/24"));
    let default = |nic: &str, metric| json!({"destination": "0.0.0.0", "gateway": "10.9.9.9", "interface": nic, "metric": metric});
    record.set_inventory(
        json!({
            "interfaces": [
                {"name": "eth0", "ipv4_addresses": [first], "ipv6_addresses": [format!("fd00::{number}/64")]},
                {"name": "eth1", "ipv4_addresses": [second]},
                {"name": "eth2", "ipv4_addresses": [format!("192.0.2.{number}/24")]}],
            "routes": [
                {"destination": "::", "gateway": "fe80::1", "interface": "eth0", "metric": 1},
                {"destination": "0.0.0.0", "gateway": "0.0.0.0", "interface": "eth2", "metric": 1},
                default("eth0", 300), default("eth1", 200), default("eth1", 900)],
        })
        .to_string(),
    );
    Arc::new(record)
}

fn cluster(change: impl FnOnce(&mut ClusterRecord), hosts: &[Arc<HostRecord>]) -> ClusterRecord {
    let inventories = hosts.iter().map(|record| (record.host.id, record.facts().addresses.clone()));
    let groups = json!({
        "majority_groups": {},
        "l3_connected_addresses": inventories.collect::<BTreeMap<_, _>>(),
    });
    let cluster = Cluster {
        control_plane_count: 3,
        user_managed_networking: true,
        cluster_networks: vec![ClusterNetwork { cidr: "10.128.0.0/14".into(), ..ClusterNetwork::default() }],
        service_networks: vec![MachineNetwork { cidr: "fd02::/112".into(), cluster_id: None }],
        connectivity_majority_groups: groups.to_string(),
        ..Cluster::default()
    };
    let mut record = ClusterRecord::new(ClusterState::Installing, cluster, Secret::default());
    change(&mut record);
    record
}

#[test]
fn addresses_come_from_what_hosts_report() {
    let hosts = [host(1, ["10.0.0", "10.1.0"], true), host(2, ["10.0.0", "10.1.0"], false)];
    let allocated = |cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]| {
        allocate(cluster, hosts).map(|found| found.values().map(Cidr::to_string).collect::<Vec<_>>().join(" "))
    };
    let none = |change: fn(&mut ClusterRecord)| assert_eq!(allocated(&cluster(change, &hosts), &hosts), None);
    let second = Some("10.1.0.1/24 10.1.0.2/24".to_owned());
    assert_eq!(allocated(&cluster(|_| (), &hosts), &hosts), second, "its first default route counts");
    let balanced = |record: &mut ClusterRecord| {
        record.cluster.user_managed_networking = false;
        record.settings.insert("load_balancer".into(), json!({"type": "user-managed"}));
    };
    assert_eq!(allocated(&cluster(balanced, &hosts), &hosts), second);
    let only_v6 = |record: &mut ClusterRecord| record.cluster.cluster_networks[0].cidr = "fd01::/48".into();
    assert_eq!(allocated(&cluster(only_v6, &hosts), &hosts), Some("fd00::1/64 fd00::2/64".to_owned()));
    none(|record| record.cluster.user_managed_networking = false);
    none(|record| record.cluster.control_plane_count = 1);
    none(|record| record.cluster.connectivity_majority_groups.clear());
    none(|record| (record.cluster.cluster_networks, record.cluster.service_networks) = (vec![], vec![]));
    let of_one = cluster(|_| (), &hosts[..1]);
    assert_eq!(allocated(&of_one, &hosts), None, "one is not reached");
    let mut other = HostRecord::clone(&hosts[1]);
    other.set_inventory(other.host.inventory.replace("10.1.0.2/24", "10.1.0.2"));
    assert_eq!(allocated(&cluster(|_| (), &hosts), &[hosts[0].clone(), Arc::new(other)]), None);
}

#[test]
fn the_bootstrap_host_has_an_address() {
    let hosts = [host(2, ["10.0.0", "10.1.0"], false), host(1, ["10.0.0", "10.1.0"], true)];
    let managed = |network: &'static str, count: u32| {
        let change = move |record: &mut ClusterRecord| {
            record.cluster.user_managed_networking = count == 1;
            record.cluster.control_plane_count = count;
            record.cluster.machine_networks = vec![MachineNetwork { cidr: network.into(), cluster_id: None }];
        };
        cluster(change, &[])
    };
    let address = |text: &str| Ok(Some(text.parse::<IpAddr>().unwrap()));
    for (cluster, expected) in [
        (managed("10.0.0.0/24", 3), address("10.0.0.1")),
        (managed("fd00::/64", 3), address("fd00::1")),
        (managed("192.0.2.77/24", 1), address("192.0.2.1")),
        (managed("198.51.100.0/24", 3), Err(BootstrapError::Interface(id(1)))),
        (managed("x", 3), Err(BootstrapError::Network)),
        (cluster(|_| (), &hosts), address("10.1.0.1")),
        (cluster(|_| (), &[]), Ok(None)),
    ] {
        assert_eq!(bootstrap_address(&cluster, &hosts), expected, "{:?}", cluster.cluster.machine_networks);
    }
    assert_eq!(bootstrap_address(&managed("10.0.0.0/24", 3), &hosts[..1]), Err(BootstrapError::Host));
}
