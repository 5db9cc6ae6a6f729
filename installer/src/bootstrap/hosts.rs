//! The cluster's hosts as the service knows them, found by what a node or a log says.

use api::{Cluster, Host, HostId, HostRole, HostStage, InfraEnvId, Inventory};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

/// Hosts that take no part.
const DISABLED: &str = "disabled";

/// One of them, what is needed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownHost {
    pub id: HostId,
    pub infra_env: InfraEnvId,
    pub role: HostRole,
    pub status: String,
    pub stage: Option<HostStage>,
    /// Lower case.
    pub name: String,
    pub addresses: BTreeSet<IpAddr>,
}

impl KnownHost {
    fn new(host: &Host) -> Self {
        // A host without one is known by its name.
        let inventory: Inventory = serde_json::from_slice(host.inventory.as_bytes()).unwrap_or_default();
        let name = if host.requested_hostname.is_empty() { &inventory.hostname } else { &host.requested_hostname };
        let addresses = inventory.interfaces.iter().flat_map(|interface| {
            let all = interface.ipv4_addresses.iter().chain(&interface.ipv6_addresses);
            all.filter_map(|address| address.split('/').next()?.parse().ok())
        });
        Self {
            id: host.id,
            infra_env: host.infra_env_id,
            role: host.role,
            status: host.status.clone(),
            stage: host.progress.as_ref().and_then(|progress| progress.current_stage),
            name: name.to_lowercase(),
            addresses: addresses.map(|address: IpAddr| address.to_canonical()).collect(),
        }
    }
}

/// All that take part.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    hosts: Vec<KnownHost>,
    by_name: BTreeMap<String, usize>,
    by_address: BTreeMap<IpAddr, usize>,
}

impl Hosts {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let taking_part = cluster.hosts.iter().filter(|host| host.status != DISABLED);
        let mut hosts = Self { hosts: taking_part.map(KnownHost::new).collect(), ..Self::default() };
        for (at, host) in hosts.hosts.iter().enumerate() {
            if !host.name.is_empty() {
                hosts.by_name.insert(host.name.clone(), at);
            }
            hosts.by_address.extend(host.addresses.iter().map(|address| (*address, at)));
        }
        hosts
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &KnownHost> {
        self.hosts.iter()
    }

    /// By the node's name, else by one of its addresses.
    pub(super) fn find(&self, node: &str, mut addresses: impl Iterator<Item = IpAddr>) -> Option<&KnownHost> {
        let by_address = || addresses.find_map(|address| self.by_address.get(&address.to_canonical()));
        let at = self.by_name.get(&node.to_lowercase()).or_else(by_address)?;
        self.hosts.get(*at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_host_is_found_by_its_name_first_and_then_by_its_addresses() {
        let inventory = |name: &str, v4: &str, v6: &str| {
            json!({"hostname": name, "interfaces": [{"ipv4_addresses": [v4, "noise"], "ipv6_addresses": [v6]}]})
                .to_string()
        };
        let host = |number: u8, name: &str, status: &str, inventory: String| {
            json!({"id": format!("aaaaaaaa-0000-0000-0000-00000000000{number}"), "requested_hostname": name,
                "status": status, "inventory": inventory})
        };
        let cluster: Cluster = serde_json::from_value(json!({"id": "11111111-2222-3333-4444-555555555555", "hosts": [
            host(1, "Node-1.example.com", "installing", inventory("x", "10.0.0.1/24", "fd00::1/64")),
            host(2, "", "installing", inventory("NODE-2", "10.0.0.2/24", "fd00::2/64")),
            host(3, "node-3", "disabled", inventory("node-3", "10.0.0.3/24", "fd00::3/64")),
            host(4, "node-4", "installing", "not JSON".into()),
        ]}))
        .unwrap();
        let hosts = Hosts::new(&cluster);
        let find = |name: &str, addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| address.parse().unwrap());
            hosts.find(name, addresses).map(|host| host.id.to_string().pop().unwrap())
        };
        assert_eq!(hosts.iter().count(), 3);
        assert_eq!(find("node-1.EXAMPLE.com", &["10.0.0.2"]), Some('1'));
        assert_eq!(find("node-2", &[]), Some('2'));
        assert_eq!(find("other", &["10.9.9.9", "fd00::2"]), Some('2'));
        assert_eq!(find("other", &["::ffff:10.0.0.1"]), Some('1'));
        assert_eq!(find("node-3", &["10.0.0.3"]), None, "disabled");
        assert_eq!(find("node-4", &[]), Some('4'));
        assert_eq!(find("", &[]), None);
    }
}
