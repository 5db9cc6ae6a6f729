//! The taint that a cloud's controller removes from new nodes. Without valid credentials it would stay, and the cluster
//! would wait for ever.

use super::nodes::AGENT_INSTALLER;
use crate::kube::{Client, Node, Taint};
use api::{Cluster, Secret};
use serde_json::Value;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The first version whose agent-based installer hands credentials on to vSphere's controller.
const WITH_CREDENTIALS: (u32, u32) = (4, 15);

/// What decides whether we remove the taint.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    platform: String,
    has_credentials: bool,
    version: (u32, u32),
}

impl Policy {
    pub(super) fn new(cluster: &Cluster, version: Option<&str>) -> Self {
        let platform = cluster.platform.as_ref().map(|platform| platform.kind.clone()).unwrap_or_default();
        let has_credentials = has_credentials(&cluster.install_config_overrides);
        Self { platform, has_credentials, version: numbers(version.unwrap_or_default()) }
    }

    /// Whether it can be at all; saves asking who invoked the installation.
    pub(super) fn may_apply(&self) -> bool {
        matches!(self.platform.as_str(), "nutanix" | "vsphere")
    }

    /// Whether it is, in an installation that `invoker` started.
    pub(super) fn applies(&self, invoker: Option<&str>) -> bool {
        let by_its_controller = self.platform == "vsphere"
            && self.has_credentials
            && invoker == Some(AGENT_INSTALLER)
            && self.version >= WITH_CREDENTIALS;
        self.may_apply() && !by_its_controller
    }
}

/// `major.minor` of a version; anything but a number counts as 0.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// Whether the install configuration names vCenters with credentials for each. Older forms, and those the service fills in itself,
/// have made-up ones.
fn has_credentials(overrides: &Secret) -> bool {
    let overrides: Value = serde_json::from_slice(overrides.expose().as_bytes()).unwrap_or_default();
    let Some(Value::Array(centers)) = overrides.pointer("/platform/vsphere/vcenters") else { return false };
    let has = |center: &Value, key| center.get(key).and_then(Value::as_str).is_some_and(|text: &str| !text.is_empty());
    !centers.is_empty()
        && centers.iter().all(|center| ["server", "user", "password"].iter().all(|key| has(center, key)))
}

/// Removes the taint from those that are not ready. A failure is only logged: the next look tries again.
pub(super) fn remove(kube: &Client, nodes: &[Node]) {
    for node in nodes.iter().filter(|node| !node.is_ready()) {
        let others: Vec<Taint> = node.taints().iter().filter(|taint| taint.key != UNINITIALIZED).cloned().collect();
        if others.len() == node.taints().len() {
            continue;
        }
        let name = &node.metadata.name;
        match kube.set_taints(node, &others) {
            Ok(()) => tracing::info!(node = name, taint = UNINITIALIZED, "taint removed"),
            Err(error) => {
                tracing::warn!(
                    node = name,
                    taint = UNINITIALIZED,
                    error = &error as &dyn std::error::Error,
                    "cannot remove the taint"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn we_remove_the_taint_where_it_would_stay() {
        let valid = json!({"platform": {"vsphere": {"vcenters": [{"server": "s", "user": "u", "password": "p"}]}}});
        let partly = json!({"platform": {"vsphere": {"vcenters": [{"server": "s", "user": "u", "password": ""}]}}});
        let old = json!({"platform": {"vsphere": {"username": "u", "password": "p", "vCenter": "s"}}});
        let agent = Some("agent-installer");
        let applies = |platform: &str, overrides: &Value, invoker, version| {
            let cluster: Cluster = serde_json::from_value(json!({"id": "11111111-2222-3333-4444-555555555555",
                "platform": {"type": platform}, "install_config_overrides": overrides.to_string()}))
            .unwrap();
            Policy::new(&cluster, version).applies(invoker)
        };
        assert!(applies("nutanix", &valid, agent, Some("4.16.1")));
        assert!(applies("vsphere", &valid, None, Some("4.16.1")));
        assert!(applies("vsphere", &valid, Some("assisted-service"), Some("4.16.1")));
        assert!(applies("vsphere", &valid, agent, Some("4.14.9")));
        assert!(applies("vsphere", &partly, agent, Some("4.15.0")));
        assert!(applies("vsphere", &old, agent, Some("4.15.0")));
        assert!(!applies("vsphere", &valid, agent, Some("4.15.0-rc.1")));
        assert!(!applies("vsphere", &valid, agent, Some("5.0.0")));
        for platform in ["none", "baremetal", "external", ""] {
            assert!(!applies(platform, &valid, None, Some("4.16.1")), "{platform}");
        }
    }
}
