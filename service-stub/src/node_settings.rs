//! What the install-time files of a cluster depend on, from its records.

use crate::dhcp_vips;
use crate::machine_networks;
use crate::model::{ClusterRecord, HostRecord};
use api::HostRole;
use preparation::{Node, NodeSettings};
use std::sync::Arc;

/// The settings of a cluster and its hosts; `ca_pem` is the authority of the service's certificate.
pub(crate) fn node_settings(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>], ca_pem: Option<&str>) -> NodeSettings {
    NodeSettings {
        openshift_version: cluster.cluster.openshift_version.clone(),
        single_node: cluster.single_node(),
        has_arbiter: hosts.iter().any(|record| record.effective_role() == HostRole::Arbiter),
        has_ipv6: !hosts.is_empty() && hosts.iter().all(|record| has_ipv6(record)),
        dual_stack: cluster.primary.is_some(),
        machine_networks: machine_networks::find(cluster, hosts),
        service_ca_pem: ca_pem.map(str::to_owned),
        dhcp: dhcp_vips::both(cluster),
        internal_registry: None,
        nodes: hosts.iter().map(|record| node(record)).collect(),
    }
}

fn has_ipv6(record: &HostRecord) -> bool {
    let inventory = record.facts().inventory.as_ref();
    inventory.is_some_and(|inventory| inventory.interfaces.iter().any(|nic| !nic.ipv6_addresses.is_empty()))
}

fn node(record: &HostRecord) -> Node {
    Node {
        role: record.effective_role(),
        name: record.hostname().map_or_else(|| record.host.id.to_string(), str::to_owned),
        requested_hostname: record.host.requested_hostname.clone(),
        pool: record.pool().map(str::to_owned),
        inventory: record.facts().inventory.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use crate::rules::networks::Family;
    use crate::state::ClusterState;
    use api::{Cluster, HostId, InfraEnvId, MachineNetwork, Secret, Timestamp};
    use serde_json::json;

    fn host(role: HostRole, ipv6: &[&str], pool: &str) -> Arc<HostRecord> {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let mut record = HostRecord::new(key, None, Timestamp::ZERO);
        record.host.role = role;
        record.texts.machine_config_pool_name = Some(pool.to_owned());
        record.set_inventory(
            json!({"interfaces": [{"ipv4_addresses": ["10.0.0.1/24"]}, {"ipv6_addresses": ipv6}]}).to_string(),
        );
        Arc::new(record)
    }

    #[test]
    fn settings_follow_from_the_records() {
        let cluster = Cluster {
            openshift_version: "4.22.9".into(),
            control_plane_count: 3,
            machine_networks: vec![MachineNetwork { cidr: "10.0.0.0/24".into(), cluster_id: None }],
            ..Cluster::default()
        };
        let mut cluster = ClusterRecord::new(ClusterState::Installing, cluster, Secret::default());
        let mut hosts = vec![host(HostRole::Master, &["fd00::1/64"], "gpu"), host(HostRole::Worker, &[], "gpu")];
        let settings = node_settings(&cluster, &hosts, Some("PEM"));
        assert_eq!((&*settings.openshift_version, settings.service_ca_pem.as_deref()), ("4.22.9", Some("PEM")));
        let flags = |settings: &NodeSettings| {
            [
                settings.single_node,
                settings.has_arbiter,
                settings.has_ipv6,
                settings.dual_stack,
                settings.dhcp.is_some(),
            ]
        };
        assert_eq!(flags(&settings), [false; 5], "one host has no IPv6 address");
        assert_eq!(settings.machine_networks, ["10.0.0.0/24".parse().unwrap()]);
        let nodes: Vec<_> = settings.nodes.iter().map(|node| (&node.name, node.role, node.pool.as_deref())).collect();
        let [master, worker] = [0, 1].map(|index| hosts[index].host.id.to_string());
        assert_eq!(nodes, [(&master, HostRole::Master, None), (&worker, HostRole::Worker, Some("gpu"))]);

        hosts[1] = host(HostRole::Arbiter, &["fd00::2/64"], "");
        cluster.primary = Some(Family::V4);
        cluster.cluster.vip_dhcp_allocation = true;
        assert_eq!(flags(&node_settings(&cluster, &hosts, None)), [false, true, true, true, true]);
        cluster.cluster.control_plane_count = 1;
        let settings = node_settings(&cluster, &[], None);
        assert!(settings.single_node && !settings.has_ipv6 && settings.service_ca_pem.is_none());
    }
}
