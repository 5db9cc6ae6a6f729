//! The facts that the checks of a host use, and how checks answer.

use crate::attest::record::Policy;
use crate::check::{
    Status, Verdict,
    connectivity::MajorityGroups,
    requirements::{Requirements, RoleNeeds},
};
use crate::model::{ClusterRecord, HostRecord, InfraEnvRecord, Presence};
use crate::net::Cidr;
use crate::operators::{self, Machine, Roles, Situation};
use api::{HostId, HostRole, Inventory, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

/// Facts about one cluster, the same for each of its hosts.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// How many hosts have each name.
    pub(crate) names: BTreeMap<String, usize>,
    /// Effective roles and names.
    pub(crate) peers: BTreeMap<HostId, (HostRole, String)>,
    /// Which hosts reach one another.
    pub(crate) groups: MajorityGroups,
    /// Networks that the cluster's machines should be in.
    pub(crate) machine_networks: Vec<Cidr>,
    /// Hosts that make a majority group.
    pub(crate) group_minimum: usize,
    /// Hosts in the cluster.
    pub(crate) hosts: usize,
    /// How many of them have each role.
    pub(crate) roles: Roles,
    /// This service brings up its control plane, or has done so.
    pub(crate) with_control_plane: bool,
    /// A single node resolves the cluster's names itself.
    pub(crate) single_node_dnsmasq: bool,
    /// Addresses for which two machines answer, with their hardware addresses.
    pub(crate) collisions: BTreeMap<IpAddr, BTreeSet<String>>,
}

/// All facts that a check may use.
pub(crate) struct Context<'a> {
    pub(crate) record: &'a HostRecord,
    /// When it was last heard of.
    pub(crate) presence: Presence,
    pub(crate) cluster: Option<&'a ClusterRecord>,
    pub(crate) infra_env: Option<&'a InfraEnvRecord>,
    pub(crate) shared: &'a Shared,
    /// The hardware requirements.
    pub(crate) requirements: &'a Requirements,
    /// What becomes of hosts that prove no good boot.
    pub(crate) attest: Policy,
    pub(crate) now: Timestamp,
    /// Start of the service: no host could report before.
    pub(crate) started: Timestamp,
}

impl<'a> Context<'a> {
    pub(super) fn inventory(&self) -> Option<&'a Inventory> {
        self.record.facts().inventory.as_ref()
    }

    pub(super) fn version(&self) -> &'a str {
        self.cluster.map_or("", |record| &record.cluster.openshift_version)
    }

    pub(super) fn single_node(&self) -> bool {
        self.cluster.is_some_and(ClusterRecord::single_node)
    }

    pub(super) fn day2(&self) -> bool {
        self.cluster.is_some_and(ClusterRecord::day2)
    }

    pub(super) fn user_managed(&self) -> bool {
        self.cluster.is_some_and(|record| record.cluster.user_managed_networking)
    }

    /// The user's own load balancer answers for the virtual addresses.
    pub(super) fn user_balanced(&self) -> bool {
        self.cluster.is_some_and(ClusterRecord::user_balanced)
    }

    /// The cluster as operators see it.
    pub(super) fn situation(&self) -> Option<Situation<'a>> {
        Some(Situation { cluster: self.cluster?, roles: self.shared.roles })
    }

    /// The requirements of the host's role, with what the cluster's operators take.
    pub(super) fn needs(&self) -> RoleNeeds {
        let (role, single_node) = (self.record.effective_role(), self.single_node());
        let needs = self.requirements.machine_needs(self.version(), role, single_node, self.inventory());
        let machine = Machine::of(self.record);
        self.situation().map_or(needs, |situation| needs.with(operators::total(&situation, &machine)))
    }
}

/// A reply of the host, stored as JSON text.
pub(super) fn reply<T: serde::de::DeserializeOwned>(text: &Option<String>) -> Option<T> {
    text.as_ref().and_then(|text| serde_json::from_str(text).ok())
}

pub(super) fn no_inventory() -> Option<Verdict> {
    Some((Status::Pending, "The host has not sent its inventory yet".to_owned()))
}

pub(super) fn no_network() -> Option<Verdict> {
    Some((Status::Pending, "The machine network is not defined yet".to_owned()))
}

pub(super) fn success(message: impl Into<String>) -> Option<Verdict> {
    Some((Status::Success, message.into()))
}

pub(super) fn pending(message: impl Into<String>) -> Option<Verdict> {
    Some((Status::Pending, message.into()))
}

/// The condition decides between two messages.
pub(super) fn verdict(holds: bool, success: impl Into<String>, failure: impl FnOnce() -> String) -> Option<Verdict> {
    Some(crate::check::verdict(holds, success, failure))
}
