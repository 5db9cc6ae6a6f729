//! What a cluster has when it comes up: a control plane of canned answers, and the real controller in its dry mode.

use super::*;
use crate::{
    host::{Host, Plan},
    service::CONTROL_PLANE,
    site::Clock,
};
use std::{
    fs,
    sync::{Arc, Mutex},
};

const GROUP: &str = "machineconfiguration.openshift.io";

/// Name and address of a node.
pub(super) type Node = (String, String);

/// Plays the control plane of a bootstrap host: the nodes that are named later are its masters.
pub(super) fn play(site: &Site) -> Arc<Mutex<Vec<Node>>> {
    let nodes = Arc::new(Mutex::new(Vec::new()));
    let masters = nodes.clone();
    site.serve(CONTROL_PLANE, move |line| {
        let path = line.split([' ', '?']).nth(1).unwrap_or_default();
        let masters: Vec<Value> = masters.lock().unwrap().iter().map(node).collect();
        let answer = match path {
            "/api/v1/nodes" if line.contains("master") => list("Node", &masters),
            "/api/v1/nodes" => list("Node", &[]),
            "/api/v1/namespaces/kube-system/configmaps/cluster-config-v1" => {
                json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"install-config": "apiVersion: v1\ncontrolPlane:\n  name: master\n  replicas: 3\n"}})
            }
            "/api/v1/namespaces/assisted-installer/events" => {
                list("Event", &[json!({"metadata": {"name": "AssistedControllerIsReady"}})])
            }
            path if path.ends_with("/pods") => list("Pod", &[]),
            "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
            "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]}),
            path if path == format!("/apis/{GROUP}") => group(),
            path if path == format!("/apis/{GROUP}/v1") => json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
                "resources": [{
                    "name": "machineconfigs", "singularName": "machineconfig", "namespaced": false,
                    "kind": "MachineConfig", "verbs": ["get"],
                }],
            }),
            path if path.ends_with("/machineconfigs/rendered-1") => {
                json!({"kind": "MachineConfig", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": "rendered-1"}})
            }
            _ => {
                let failure = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                });
                return ("404 Not Found", failure.to_string().into_bytes());
            }
        };
        ("200 OK", answer.to_string().into_bytes())
    });
    nodes
}

fn list(kind: &str, items: &[Value]) -> Value {
    json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items})
}

/// The one group that clients look for before they ask.
fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/v1"), "version": "v1"});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version})
}

fn node((name, address): &Node) -> Value {
    let config = |kind: &str| (format!("machineconfiguration.openshift.io/{kind}Config"), json!("rendered-1"));
    let annotations: serde_json::Map<String, Value> = ["current", "desired"].map(config).into_iter().collect();
    json!({
        "metadata": {"name": name, "resourceVersion": "7", "annotations": annotations},
        "spec": {"taints": null},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}],
        },
    })
}

/// The real controller on a machine of its own. It takes a host for a node once there is a file for it.
pub(super) fn controller(peers: &Peers, site: &Site, cluster: &str) -> (Host, Clock) {
    let program = peers.program("assisted-installer-controller");
    let url = site.url();
    let environment = [
        ("CLUSTER_ID", cluster),
        ("DRY_CLUSTER_HOSTS_PATH", "$SHARED/hosts.json"),
        ("DRY_ENABLE", "true"),
        ("DRY_FAKE_REBOOT_MARKER_PATH", "$SHARED/start"),
        ("INVENTORY_URL", &url),
        ("OPENSHIFT_VERSION", "4.22.9"),
        ("PULL_SECRET_TOKEN", "dummy"),
    ];
    // It waits for the names of the cluster's hosts before it reads them.
    let wait = r#"while [ ! -e "$SHARED/start" ]; do sleep 1; done; exec assisted-installer-controller"#;
    site.host(Plan {
        number: 50,
        programs: &[("assisted-installer-controller", program)],
        scripts: &[],
        service: ["sh", "-c", wait].map(str::to_owned).to_vec(),
        environment: &environment,
    })
}

/// Names the hosts of a cluster to a program in dry mode.
pub(super) fn name_hosts(to: &Host, nodes: &[Node]) {
    let marker = |name: &str| to.shared.path().join(format!("rebooted-{name}"));
    let host = |(name, address): &Node| json!({"hostname": name, "ip": address, "rebootMarkerPath": marker(name)});
    let hosts: Value = nodes.iter().map(host).collect();
    fs::write(to.shared.path().join("hosts.json"), hosts.to_string()).unwrap();
}

/// Tells it that a host has rebooted.
pub(super) fn rebooted(to: &Host, name: &str) {
    fs::write(to.shared.path().join(format!("rebooted-{name}")), "").unwrap();
}

/// Lets the controller begin.
pub(super) fn begin(controller: &Host) {
    fs::write(controller.shared.path().join("start"), "").unwrap();
}
