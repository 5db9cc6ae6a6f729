//! The taint of nodes whose cloud provider has not looked at them yet, where nothing else takes it away.

use crate::{
    Context,
    cluster::{
        Cluster,
        objects::{self, CONFIG_MAP, NODE, Node, NodeFacts},
    },
    hosts::Snapshot,
};
use serde_json::{Value, json};

const KEY: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// What the service writes where the user gave no credentials.
const PLACEHOLDERS: [&str; 3] = ["usernameplaceholder", "passwordplaceholder", "vcenterplaceholder"];
const VCENTER: &str = "/platform/vsphere/vcenters/0";
/// From here on the vSphere provider itself initialises the nodes of the agent-based installer.
const PROVIDER_INITIALIZES: (u32, u32) = (4, 15);

/// Where the install configuration is.
pub(crate) const INSTALL_CONFIG: (&str, &str, &str) = ("kube-system", "cluster-config-v1", "install-config");

/// Whether nodes must be untainted here. `snapshot` is none if the service is not there.
pub(crate) async fn is_wanted(
    ctx: &Context,
    platform: &str,
    is_agent_based: bool,
    snapshot: Option<&Snapshot>,
) -> bool {
    match platform {
        "nutanix" => true,
        "vsphere" if is_agent_based && initializes(&ctx.config.openshift_version) => {
            !has_credentials(ctx, snapshot).await
        }
        "vsphere" => true,
        _ => false,
    }
}

/// Whether this version's provider does it. Two numbers suffice; what can't be read is an old one.
fn initializes(version: &str) -> bool {
    let mut numbers = version.split('-').next().unwrap_or_default().split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= PROVIDER_INITIALIZES,
        _ => false,
    }
}

/// Credentials with which the provider can work.
async fn has_credentials(ctx: &Context, snapshot: Option<&Snapshot>) -> bool {
    match snapshot {
        Some(snapshot) => serde_json::from_str(snapshot.overrides.expose()).is_ok_and(|overrides| all_real(&overrides)),
        None => install_config(&ctx.cluster).await.is_some_and(|config| is_real(&config, "server")),
    }
}

fn all_real(overrides: &Value) -> bool {
    ["user", "password", "server"].iter().all(|member| is_real(overrides, member))
}

fn is_real(config: &Value, member: &str) -> bool {
    let text = crate::text::text_at(config, &format!("{VCENTER}/{member}"));
    !text.is_empty() && !PLACEHOLDERS.contains(&text)
}

/// The cluster's install configuration; none if it can't be read.
pub(crate) async fn install_config(cluster: &Cluster) -> Option<Value> {
    let (namespace, name, key) = INSTALL_CONFIG;
    let map = cluster.read(CONFIG_MAP, Some(namespace), name).await;
    let map =
        map.inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "no install configuration"));
    let text = objects::entry(&map.ok()?, key)?;
    let config = serde_norway::from_str(&text);
    config.inspect_err(|error| tracing::warn!(%error, "the install configuration can't be read")).ok()
}

/// Takes the taint from a node. False if that failed; a node without it is well.
pub(crate) async fn remove(cluster: &Cluster, node: &Node) -> bool {
    if node.taints().iter().all(|taint| taint.key != KEY) {
        return true;
    }
    let name = objects::name(&node.metadata);
    match removed(cluster, name).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(node = name, error = &error as &dyn std::error::Error, "the taint stays");
            false
        }
    }
}

/// The node's other taints stay as they are now: if it changes meanwhile, the server refuses.
async fn removed(cluster: &Cluster, name: &str) -> Result<(), crate::cluster::CallError> {
    let node = cluster.read(NODE, None, name).await?;
    let taints = node.data.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let others: Vec<&Value> =
        taints.iter().filter(|taint| taint.get("key").and_then(Value::as_str) != Some(KEY)).collect();
    if others.len() == taints.len() {
        return Ok(());
    }
    let version = node.metadata.resource_version.unwrap_or_default();
    let change = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": others}});
    cluster.merge(NODE, None, name, &change).await?;
    tracing::info!(node = name, "untainted");
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let old = ["4.14.0", "4.14.0-rc0", "4.9", "", "x.y", "3.99"];
        let new = ["4.15.0", "4.15", "4.15.0-rc1", "4.20.3", "5.0"];
        assert!(old.iter().all(|version| !initializes(version)) && new.iter().all(|version| initializes(version)));
    }

    #[test]
    fn placeholders_are_not_credentials() {
        let overrides = |user: &str, server: &str| json!({"platform": {"vsphere": {"vcenters": [{"user": user, "password": "p", "server": server}]}}});
        assert!(all_real(&overrides("u", "s")));
        assert!(!all_real(&overrides("usernameplaceholder", "s")));
        assert!(!all_real(&overrides("u", "")));
        assert!(!all_real(&json!({"platform": {"vsphere": {"username": "u", "password": "p", "vCenter": "v"}}})));
        assert!(!all_real(&json!({"platform": {"baremetal": {}}})));
        assert!(
            is_real(&overrides("", "vc.example.com"), "server")
                && !is_real(&overrides("u", "vcenterplaceholder"), "server")
        );
    }
}
