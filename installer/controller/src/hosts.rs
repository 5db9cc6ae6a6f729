//! What the service knows of the cluster and its hosts, and which host a node is.

use crate::cluster::objects::{Node, NodeFacts};
use api::{HostId, HostRole, HostStage, InfraEnvId, Secret};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::{collections::HashMap, fmt, net::IpAddr, time::Instant};

/// A cluster as the service shows it, with its hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// When the service was asked.
    pub(crate) asked: Option<Instant>,
    pub(crate) status: String,
    pub(crate) name: String,
    pub(crate) base_domain: String,
    /// `baremetal`, `none`, `vsphere`, …; empty if the service does not say.
    pub(crate) platform: String,
    pub(crate) finalizing_stage: String,
    /// The service gives this stage no more time.
    pub(crate) stage_timed_out: bool,
    /// JSON that users had merged into the install configuration.
    pub(crate) overrides: Secret,
    /// Addresses that move between hosts.
    pub(crate) vips: Vec<IpAddr>,
    pub(crate) hosts: Vec<Host>,
}

/// A host as the service shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) infra_env: InfraEnvId,
    /// In lower case, as nodes are called.
    pub(crate) name: String,
    /// As it called itself in its inventory, in lower case: its node may, too. Empty without one.
    pub(crate) own_name: String,
    pub(crate) status: String,
    pub(crate) role: HostRole,
    pub(crate) stage: Option<HostStage>,
    pub(crate) addresses: Vec<IpAddr>,
    /// Labels that its node is to have.
    pub(crate) labels: Map<String, Value>,
    /// The pool whose configuration it is to have; empty for that of its role.
    pub(crate) pool: String,
}

impl Host {
    pub(crate) fn is(&self, status: &str) -> bool {
        self.status == status
    }
}

#[derive(Deserialize)]
struct ClusterDocument {
    #[serde(default, deserialize_with = "hosts")]
    hosts: Vec<Host>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What is read of an inventory, which is large.
#[derive(Default, Deserialize)]
struct Inventory {
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    interfaces: Option<Vec<Interface>>,
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default)]
    ipv4_addresses: Option<Vec<String>>,
    #[serde(default)]
    ipv6_addresses: Option<Vec<String>>,
}

/// The wire's form. Anything but the ids may be missing or null.
#[derive(Deserialize)]
struct HostDocument<'a> {
    id: HostId,
    #[serde(default)]
    infra_env_id: Option<InfraEnvId>,
    #[serde(default)]
    requested_hostname: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    role: Option<Value>,
    #[serde(default)]
    progress: Option<Value>,
    #[serde(default)]
    inventory: Option<&'a str>,
    #[serde(default)]
    node_labels: Option<String>,
    #[serde(default)]
    machine_config_pool_name: Option<String>,
}

impl Snapshot {
    /// From the service's document. A host that can't be read, or without an inventory, stops no other.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, serde_json::Error> {
        use crate::text::text_at as text;
        let ClusterDocument { hosts, rest } = serde_json::from_slice(document)?;
        let document = &Value::Object(rest);
        let addresses = |list: &str| {
            let entries = document.pointer(list).and_then(Value::as_array).into_iter().flatten();
            entries.filter_map(|entry| text(entry, "/ip").parse().ok()).collect::<Vec<IpAddr>>()
        };
        Ok(Self {
            asked: None,
            status: text(document, "/status").to_owned(),
            name: text(document, "/name").to_owned(),
            base_domain: text(document, "/base_dns_domain").to_owned(),
            platform: text(document, "/platform/type").to_owned(),
            finalizing_stage: text(document, "/progress/finalizing_stage").to_owned(),
            stage_timed_out: document.pointer("/progress/finalizing_stage_timed_out") == Some(&Value::Bool(true)),
            overrides: Secret::new(text(document, "/install_config_overrides").to_owned()),
            vips: [addresses("/api_vips"), addresses("/ingress_vips")].concat(),
            hosts,
        })
    }

    /// Hosts that are still to become nodes.
    pub(crate) fn remaining(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| !host.is("disabled") && !host.is("installed"))
    }
}

/// One after another: a host's document, with its inventory, is much larger than what is kept of it.
fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Host>, D::Error> {
    struct Hosts;

    impl<'de> Visitor<'de> for Hosts {
        type Value = Vec<Host>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of hosts, or null")
        }

        fn visit_unit<E>(self) -> Result<Vec<Host>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut documents: A) -> Result<Vec<Host>, A::Error> {
            let mut hosts = Vec::new();
            while let Some(document) = documents.next_element::<Value>()? {
                hosts.extend(host(&document));
            }
            Ok(hosts)
        }
    }

    deserializer.deserialize_any(Hosts)
}

fn host(document: &Value) -> Option<Host> {
    let document = HostDocument::deserialize(document);
    let document = document.inspect_err(|error| tracing::warn!(%error, "a host of the service can't be read")).ok()?;
    let name = document.requested_hostname.unwrap_or_default().to_lowercase();
    let inventory = document.inventory.filter(|text| !text.is_empty());
    let inventory = inventory.and_then(|text| {
        let parsed = serde_json::from_str::<Inventory>(text);
        parsed.inspect_err(|error| tracing::warn!(host = name, %error, "its inventory can't be read")).ok()
    });
    let inventory = inventory.unwrap_or_default();
    let interfaces = inventory.interfaces.iter().flatten();
    let lists = interfaces.flat_map(|interface| [&interface.ipv4_addresses, &interface.ipv6_addresses]);
    let addresses = lists.flatten().flatten();
    let addresses = addresses.filter_map(|address| address.split('/').next()?.parse().ok()).collect();
    let labels = document.node_labels.filter(|text| !text.is_empty());
    let labels = labels.and_then(|text| {
        let parsed = serde_json::from_str(&text);
        parsed.inspect_err(|error| tracing::warn!(host = name, %error, "its labels can't be read")).ok()
    });
    let stage = document.progress.as_ref().and_then(|progress| progress.get("current_stage")).cloned();
    Some(Host {
        id: document.id,
        infra_env: document.infra_env_id.unwrap_or_default(),
        name,
        own_name: inventory.hostname.unwrap_or_default().to_lowercase(),
        status: document.status.unwrap_or_default(),
        role: document.role.and_then(|role| serde_json::from_value(role).ok()).unwrap_or_default(),
        stage: stage.and_then(|stage| serde_json::from_value(stage).ok()),
        addresses,
        labels: labels.unwrap_or_default(),
        pool: document.machine_config_pool_name.unwrap_or_default(),
    })
}

/// Finds the host that a node is: by name among some hosts, else by an internal address among others.
pub(crate) struct Matcher<'a> {
    names: HashMap<&'a str, &'a Host>,
    addresses: HashMap<IpAddr, &'a Host>,
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(
        named: impl IntoIterator<Item = &'a Host>,
        addressed: impl IntoIterator<Item = &'a Host>,
    ) -> Self {
        let named = named.into_iter().filter(|host| !host.name.is_empty());
        let addressed =
            addressed.into_iter().flat_map(|host| host.addresses.iter().map(move |address| (*address, host)));
        Self { names: named.map(|host| (host.name.as_str(), host)).collect(), addresses: addressed.collect() }
    }

    pub(crate) fn host(&self, node: &Node) -> Option<&'a Host> {
        let by_name = self.names.get(node.host_name().as_str());
        let by_address = || node.internal_ips().into_iter().rev().find_map(|ip| self.addresses.get(&ip));
        by_name.or_else(by_address).copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;
    use serde_json::json;

    fn hosts(hosts: Value) -> Vec<Host> {
        Snapshot::parse(json!({"status": "installing", "hosts": hosts}).to_string().as_bytes()).unwrap().hosts
    }

    #[test]
    fn a_host_that_cannot_be_read_stops_no_other() {
        let id = HostId::default();
        let interfaces = json!([{"ipv4_addresses": ["10.0.0.1/24", "x"], "ipv6_addresses": null}, {}]);
        let inventory = json!({"hostname": "Own", "interfaces": interfaces, "disks": "of another form"}).to_string();
        let list = hosts(json!([
            {"id": id, "requested_hostname": "Node0", "inventory": inventory},
            {"id": "no id"},
            "no host",
            {"id": id, "requested_hostname": null, "inventory": "{"},
            {"id": id, "inventory": "{\"interfaces\": null}"},
        ]));
        let [first, second, third] = list.as_slice() else { panic!("{list:?}") };
        assert_eq!((first.name.as_str(), first.own_name.as_str()), ("node0", "own"));
        assert_eq!(first.addresses, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        assert!([second, third].iter().all(|host| host.addresses.is_empty() && host.own_name.is_empty()));
        assert!(hosts(Value::Null).is_empty() && hosts(json!([])).is_empty());
        assert!(Snapshot::parse(b"{}").unwrap().hosts.is_empty());
        assert!(Snapshot::parse(b"<html>").is_err());
    }
}
