//! The networks a cluster's machines are to be in (docs/compatibility.md#machine-networks).

use crate::check::disks;
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::rules::networks::Networks;
use api::{Inventory, MachineNetwork};
use kernel::order::Gather;
use serde_json::Value;
use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

/// The user's networks. Without them: those of a single node, or of the host that bootstraps where the user looks after the
/// network, by its default routes; the one that all hosts share where addresses come by DHCP; else those of the hosts'
/// interfaces that hold the API's addresses.
pub(crate) fn find(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Vec<Cidr> {
    let given: Vec<Cidr> =
        cluster.cluster.machine_networks.iter().filter_map(|network| network.cidr.parse().ok()).collect();
    if !given.is_empty() {
        return given;
    }
    if cluster.cluster.vip_dhcp_allocation {
        return shared(hosts).into_iter().collect();
    }
    let of_host = |host: Option<&Arc<HostRecord>>| -> Vec<Cidr> {
        let networks = host.and_then(|host| host.facts().inventory.as_ref()).map(default_networks).unwrap_or_default();
        let families = families(cluster);
        networks.into_iter().filter(|network| families.contains(&network.address.is_ipv6())).collect()
    };
    if cluster.single_node() {
        return of_host(hosts.first());
    }
    if cluster.cluster.user_managed_networking {
        return of_host(hosts.iter().find(|host| host.host.bootstrap));
    }
    addresses(&cluster.cluster.api_vips).filter_map(|vip| holding(hosts, vip)).collect()
}

/// Where the cluster looks after its network and nobody gave networks, they are those that its virtual addresses lie in, and change
/// with the hosts: with the last of them they are gone. Those of both families stay until a host has the first network.
pub(crate) fn follow_hosts(record: &mut ClusterRecord, hosts: &[Arc<HostRecord>]) {
    let own = &record.cluster;
    if record.keeps_networks
        || own.vip_dhcp_allocation
        || own.user_managed_networking
        || record.single_node()
        || record.user_balanced()
    {
        return;
    }
    let current = [0, 1].map(|index| own.machine_networks.get(index).map(|network| network.cidr.clone()));
    let found = [0, 1].map(|index| {
        let vip = addresses(&own.api_vips).nth(index).or_else(|| addresses(&own.ingress_vips).nth(index));
        vip.and_then(|vip| holding(hosts, vip)).map(|network| network.to_string())
    });
    let waits = found[0].is_none() && Networks::from_cluster(own).are_dual_stack();
    let [first, second] = &found;
    if waits || (*first == current[0] && (second.is_none() || *second == current[1])) {
        return;
    }
    let owned = |cidr| MachineNetwork { cidr, cluster_id: Some(own.id) };
    record.cluster.machine_networks = found.into_iter().flatten().map(owned).collect();
}

/// The first address that a host of the cluster has in the first of these networks in which any has one.
pub(crate) fn own_address(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Option<IpAddr> {
    let addresses: Vec<IpAddr> = hosts.iter().flat_map(|host| host.facts().addresses.iter().copied()).collect();
    let within = |network: &Cidr| addresses.iter().copied().find(|address| network.contains(*address));
    find(cluster, hosts).iter().find_map(within)
}

/// The addresses in a list of virtual ones.
pub(crate) fn addresses(vips: &[Value]) -> impl Iterator<Item = IpAddr> {
    vips.iter().filter_map(|vip| vip.get("ip")?.as_str()?.parse().ok())
}

/// The network of the first interface that could hold the address.
pub(crate) fn holding(hosts: &[Arc<HostRecord>], address: IpAddr) -> Option<Cidr> {
    let inventories = hosts.iter().filter_map(|record| record.facts().inventory.as_ref());
    inventories.flat_map(networks).find(|network| network.contains(address))
}

fn networks(inventory: &Inventory) -> impl Iterator<Item = Cidr> {
    let texts = inventory.interfaces.iter().flat_map(|nic| nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses));
    texts.filter_map(|text| text.parse::<Cidr>().ok()).map(Cidr::network)
}

/// Address families that pods and services both have, `true` for IPv6; either, where their networks are not known.
fn families(cluster: &ClusterRecord) -> BTreeSet<bool> {
    let cluster = &cluster.cluster;
    let of = |cidrs: &mut dyn Iterator<Item = &String>| cidrs.map(|cidr| cidr.contains(':')).gather::<BTreeSet<_>>();
    let pods = of(&mut cluster.cluster_networks.iter().map(|network| &network.cidr));
    let services = of(&mut cluster.service_networks.iter().map(|network| &network.cidr));
    match (pods.is_empty(), services.is_empty()) {
        (true, true) => BTreeSet::from([false, true]),
        (true, false) => services,
        (false, true) => pods,
        (false, false) => &pods & &services,
    }
}

/// The network that all inventories have, if there is just one.
fn shared(hosts: &[Arc<HostRecord>]) -> Option<Cidr> {
    let of_host = |host: &Arc<HostRecord>| -> BTreeSet<Cidr> {
        let own = host.facts().inventory.iter().flat_map(networks).collect::<Vec<_>>();
        own.into_iter().filter(|network| !network.address.is_loopback() && !is_link_local(network.address)).collect()
    };
    let common = hosts.iter().map(of_host).reduce(|common, own| &common & &own)?;
    let mut common = common.into_iter();
    common.next().filter(|_| common.next().is_none())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Networks of the interface that carries the default route, of each family the one with the lowest metric. Where the route's
/// interface is not known, the one that its gateway is in.
fn default_networks(inventory: &Inventory) -> Vec<Cidr> {
    let of_family = |v6: bool| {
        let defaults = inventory.routes.iter().filter(|route| {
            disks::is_default(&route.destination) && !route.gateway.is_empty() && route.gateway.contains(':') == v6
        });
        let route = defaults.min_by_key(|route| route.metric)?;
        let nic = inventory.interfaces.iter().find(|nic| nic.name == route.interface);
        let own = nic.map(|nic| if v6 { &nic.ipv6_addresses } else { &nic.ipv4_addresses });
        let cidrs = own.into_iter().flatten().filter_map(|text| text.parse::<Cidr>().ok());
        cidrs.map(Cidr::network).find(|cidr| !is_link_local(cidr.address)).or_else(|| {
            let gateway: IpAddr = route.gateway.parse().ok()?;
            networks(inventory).find(|network| network.contains(gateway) && !is_link_local(network.address))
        })
    };
    [false, true].into_iter().filter_map(of_family).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use crate::state::ClusterState;
    use api::{Cluster, ClusterNetwork, HostId, InfraEnvId, MachineNetwork, Secret, Timestamp};
    use serde_json::json;

    fn host(addresses: [&str; 2], bootstrap: bool) -> Arc<HostRecord> {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let mut record = HostRecord::new(key, None, Timestamp::ZERO);
        record.host.bootstrap = bootstrap;
        record.set_inventory(
            json!({
                "interfaces": [
                    {"name": "eth0", "ipv4_addresses": [addresses[0]], "ipv6_addresses": ["fe80::1/64", "fd00::1/64"]},
                    {"name": "eth1", "ipv4_addresses": [addresses[1]]}],
                "routes": [
                    {"destination": "0.0.0.0", "gateway": "10.0.0.254", "interface": "eth0", "metric": 100},
                    {"destination": "0.0.0.0", "gateway": "10.1.0.254", "interface": "eth1", "metric": 200},
                    {"destination": "::", "gateway": "fe80::2", "interface": "eth0"}],
            })
            .to_string(),
        );
        Arc::new(record)
    }

    fn cluster(count: u32, user_managed: bool, dual: bool) -> ClusterRecord {
        let pods =
            ["10.128.0.0/14", "fd01::/48"].map(|cidr| ClusterNetwork { cidr: cidr.into(), ..Default::default() });
        let services = ["172.30.0.0/16", "fd02::/112"];
        let services = services.map(|cidr| MachineNetwork { cidr: cidr.into(), cluster_id: None });
        let families = if dual { 2 } else { 1 };
        let cluster = Cluster {
            control_plane_count: count,
            user_managed_networking: user_managed,
            cluster_networks: pods[..families].to_vec(),
            service_networks: services[..families].to_vec(),
            api_vips: vec![json!({"ip": "10.1.0.9"})],
            ..Cluster::default()
        };
        ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::default())
    }

    fn texts(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Vec<String> {
        find(cluster, hosts).iter().map(Cidr::to_string).collect()
    }

    #[test]
    fn each_kind_of_cluster_has_its_source() {
        let hosts = [host(["10.0.0.1/24", "10.1.0.1/24"], false), host(["10.2.0.2/24", "10.1.0.2/24"], true)];
        assert_eq!(texts(&cluster(1, true, false), &hosts), ["10.0.0.0/24"], "a single node's default route");
        assert_eq!(texts(&cluster(1, true, true), &hosts), ["10.0.0.0/24", "fd00::/64"], "of the cluster's families");
        assert_eq!(texts(&cluster(3, true, false), &hosts), ["10.2.0.0/24"], "that of the host that bootstraps");
        assert_eq!(texts(&cluster(3, true, false), &hosts[..1]), [""; 0], "while nobody does");
        assert_eq!(texts(&cluster(3, false, false), &hosts), ["10.1.0.0/24"], "the one of the virtual address");
        let mut nameless = HostRecord::clone(&hosts[0]);
        nameless.set_inventory(nameless.host.inventory.replace(r#""name":"eth0""#, r#""name":"""#));
        assert_eq!(texts(&cluster(1, true, false), &[Arc::new(nameless)]), ["10.0.0.0/24"], "that of the gateway");
        let mut given = cluster(3, false, false);
        given.cluster.machine_networks = vec![MachineNetwork { cidr: "192.0.2.0/24".into(), cluster_id: None }];
        assert_eq!(texts(&given, &hosts), ["192.0.2.0/24"], "the user's");
    }

    #[test]
    fn the_networks_of_virtual_addresses_come_and_go_with_the_hosts() {
        let hosts = [host(["10.0.0.1/24", "10.1.0.1/24"], false)];
        let followed = |cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]| {
            let mut cluster = cluster.clone();
            follow_hosts(&mut cluster, hosts);
            let networks = cluster.cluster.machine_networks.into_iter();
            networks.map(|network| network.cidr).collect::<Vec<_>>()
        };
        let mut managed = cluster(3, false, false);
        assert_eq!(followed(&managed, &hosts), ["10.1.0.0/24"]);
        managed.cluster.machine_networks = vec![MachineNetwork { cidr: "10.1.0.0/24".into(), cluster_id: None }];
        assert_eq!(followed(&managed, &hosts), ["10.1.0.0/24"]);
        assert_eq!(followed(&managed, &[]), [""; 0], "with the last host it is gone");
        let mut kept = managed.clone();
        kept.keeps_networks = true;
        assert_eq!(followed(&kept, &[]), ["10.1.0.0/24"], "its user's");
        let mut dual = cluster(3, false, true);
        dual.cluster.machine_networks = managed.cluster.machine_networks.clone();
        assert_eq!(followed(&dual, &[]), ["10.1.0.0/24"], "a user's");
        for mut other in [cluster(1, true, false), cluster(3, true, false)] {
            other.cluster.machine_networks = managed.cluster.machine_networks.clone();
            assert_eq!(followed(&other, &[]), ["10.1.0.0/24"], "no virtual addresses to follow");
        }
    }

    #[test]
    fn addresses_by_dhcp_take_the_one_network_all_share() {
        let mut cluster = cluster(3, false, false);
        cluster.cluster.vip_dhcp_allocation = true;
        let mut hosts = [["10.0.0.1/24", "10.1.0.1/24"], ["10.2.0.2/24", "10.1.0.2/24"]].map(|own| host(own, false));
        assert_eq!(texts(&cluster, &hosts), [""; 0], "two: one of IPv4, one of IPv6");
        for host in &mut hosts {
            let mut record = HostRecord::clone(host);
            let text = record.host.inventory.replace("fd00::1/64", "fe80::3/64");
            record.set_inventory(text);
            *host = Arc::new(record);
        }
        assert_eq!(texts(&cluster, &hosts), ["10.1.0.0/24"]);
    }
}
