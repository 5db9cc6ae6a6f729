//! What the parts of an install configuration are made from.

use crate::machine_networks;
use crate::model::{ClusterRecord, HostRecord, InfraEnvRecord, Model};
use crate::net::Cidr;
use crate::releases::version;
use crate::rules::networks::Family;
use api::HostRole;
use kernel::order;
use serde_json::Value;
use std::sync::Arc;

/// A cluster with its hosts.
pub(crate) struct Facts<'a> {
    pub(crate) record: &'a ClusterRecord,
    pub(crate) hosts: Vec<Arc<HostRecord>>,
    /// Those that its hosts registered in, each once.
    pub(crate) infra_envs: Vec<&'a InfraEnvRecord>,
    /// Where its machines are: as set, or as found.
    pub(crate) machine_networks: Vec<Cidr>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(record: &'a ClusterRecord, model: &'a Model) -> Self {
        let hosts = model.hosts_of_cluster(record.cluster.id);
        let mut infra_envs: Vec<&InfraEnvRecord> = Vec::new();
        for infra_env in hosts.iter().filter_map(|host| model.infra_envs.get(&host.host.infra_env_id)) {
            if infra_envs.iter().all(|known| known.infra_env.id != infra_env.infra_env.id) {
                infra_envs.push(infra_env);
            }
        }
        let mut machine_networks = machine_networks::find(record, &hosts);
        if let Some(primary) = record.primary {
            let family = |network: &Cidr| if network.address.is_ipv6() { Family::V6 } else { Family::V4 };
            order::sort_by_key(&mut machine_networks, |network| family(network) != primary);
        }
        Self { record, hosts, infra_envs, machine_networks }
    }

    /// A text setting; empty if it was not set.
    pub(crate) fn setting(&self, name: &str) -> &'a str {
        self.record.settings.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether its release is older.
    pub(crate) fn is_older(&self, bound: &str) -> bool {
        version::older(&self.record.cluster.openshift_version, bound)
    }

    pub(crate) fn is_minor(&self, minor: &str) -> bool {
        version::minor(&self.record.cluster.openshift_version).as_deref() == Some(minor)
    }

    pub(crate) fn count(&self, role: HostRole) -> usize {
        self.hosts.iter().filter(|host| host.effective_role() == role).count()
    }
}
