//! Kubernetes objects, the fields needed of them.

use api::json::null_is_default;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    #[serde(default)]
    pub metadata: ListMetadata,
    #[serde(default = "Option::default")]
    pub items: Option<Vec<T>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListMetadata {
    /// Where the next page begins; empty on the last.
    #[serde(default, rename = "continue", deserialize_with = "null_is_default")]
    pub more: String,
}

/// `metadata` of any object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(default)]
    pub name: String,
    /// Changes with the object.
    #[serde(default)]
    pub resource_version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Node {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default, deserialize_with = "null_is_default")]
    spec: NodeSpec,
    #[serde(default, deserialize_with = "null_is_default")]
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct NodeSpec {
    #[serde(default, deserialize_with = "null_is_default")]
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct NodeStatus {
    #[serde(default, deserialize_with = "null_is_default")]
    conditions: Vec<Condition>,
    #[serde(default, deserialize_with = "null_is_default")]
    addresses: Vec<Address>,
}

/// A taint, with all it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Taint {
    /// What it is about.
    #[serde(default)]
    pub key: String,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Condition {
    /// `Ready`, …
    #[serde(default, rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
}

/// An address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Address {
    /// `InternalIP`, `Hostname`, …
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub address: String,
}

impl Node {
    /// Whether its kubelet says that it takes pods.
    pub fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }

    pub fn taints(&self) -> &[Taint] {
        &self.spec.taints
    }

    /// Addresses inside the cluster, those that can be read.
    pub fn internal_addresses(&self) -> impl Iterator<Item = std::net::IpAddr> + '_ {
        let internal = self.status.addresses.iter().filter(|address| address.kind == "InternalIP");
        internal.filter_map(|address| address.address.parse().ok())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ConfigMap {
    /// Its texts by key.
    #[serde(default, deserialize_with = "null_is_default")]
    pub data: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Event {
    #[serde(default)]
    pub metadata: Metadata,
}

/// A MachineConfig; only its existence counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MachineConfig {
    #[serde(default)]
    pub metadata: Metadata,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Pod {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default, deserialize_with = "null_is_default")]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: String,
}

impl Pod {
    /// Whether a container of it runs.
    pub fn is_running(&self) -> bool {
        self.status.phase == "Running"
    }
}
