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

/// Name and address of a node.
pub type Node = (String, String);

/// Plays the control plane of a bootstrap host: the nodes that are named later are its masters.
pub fn play(site: &Site) -> Arc<Mutex<Vec<Node>>> {
    let nodes = Arc::new(Mutex::new(Vec::new()));
    let masters = nodes.clone();
    site.serve(CONTROL_PLANE, move |line| {
        let path = line.split([' ', '?']).nth(1).unwrap_or_default();
        let masters: Vec<Value> = masters.lock().unwrap().iter().map(node).collect();
        let answer = match path {
            "/api/v1/nodes" if line.contains("master") => json!({ "items": masters }),
            "/api/v1/nodes" => json!({ "items": [] }),
            "/api/v1/namespaces/kube-system/configmaps/cluster-config-v1" => {
                json!({"data": {"install-config": "apiVersion: v1\ncontrolPlane:\n  name: master\n  replicas: 3\n"}})
            }
            "/api/v1/namespaces/assisted-installer/events" => {
                json!({"items": [{"metadata": {"name": "AssistedControllerIsReady"}}]})
            }
            path if path.ends_with("/pods") => json!({ "items": [] }),
            path if path.ends_with("/machineconfigs/rendered-1") => json!({"metadata": {"name": "rendered-1"}}),
            _ => return ("404 Not Found", json!({"kind": "Status", "code": 404}).to_string().into_bytes()),
        };
        ("200 OK", answer.to_string().into_bytes())
    });
    nodes
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
pub fn controller(peers: &Peers, site: &Site, cluster: &str) -> (Host, Clock) {
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
pub fn name_hosts(to: &Host, nodes: &[Node]) {
    let marker = |name: &str| to.shared.path().join(format!("rebooted-{name}"));
    let host = |(name, address): &Node| json!({"hostname": name, "ip": address, "rebootMarkerPath": marker(name)});
    let hosts: Value = nodes.iter().map(host).collect();
    fs::write(to.shared.path().join("hosts.json"), hosts.to_string()).unwrap();
}

/// Tells it that a host has rebooted.
pub fn rebooted(to: &Host, name: &str) {
    fs::write(to.shared.path().join(format!("rebooted-{name}")), "").unwrap();
}

/// Lets the controller begin.
pub fn begin(controller: &Host) {
    fs::write(controller.shared.path().join("start"), "").unwrap();
}
