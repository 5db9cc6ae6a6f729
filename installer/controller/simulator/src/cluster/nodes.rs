//! Nodes as their kubelets describe them, and pods on them.

use super::{Cluster, now};
use serde_json::{Map, Value, json};

/// A kubelet names so many images and no more.
const IMAGES: usize = 50;
const MACHINE_CONFIG: &str = "openshift-machine-config-operator";

/// A node that joins.
#[derive(Clone, Debug, Default)]
pub struct NodeState<'a> {
    pub name: &'a str,
    pub internal_ips: &'a [&'a str],
    pub is_ready: bool,
    /// Beside those that each node has; `node-role.kubernetes.io/master` among them.
    pub labels: &'a [(&'a str, &'a str)],
    /// As in the node's `spec`.
    pub taints: Vec<Value>,
}

/// The name of one of [`Cluster::nodes`].
pub fn numbered_node(number: usize) -> String {
    format!("worker-{number}")
}

/// Its address.
pub fn numbered_ip(number: usize) -> String {
    format!("10.{}.{}.{}", 100 + number / 65536, number / 256 % 256, number % 256)
}

impl Cluster {
    /// A node joins, or one that did says all this of itself again; labels that it was given stay. Its object is as large as real ones.
    pub fn node_joins(&self, node: &NodeState<'_>) {
        self.client.put("/api/v1/nodes", &self.node(node)).unwrap();
    }

    /// So many ready workers: [`numbered_node`] with [`numbered_ip`].
    pub fn nodes(&self, count: usize) {
        for number in 0..count {
            let (name, ip) = (numbered_node(number), numbered_ip(number));
            let labels = [("node-role.kubernetes.io/worker", "")];
            self.node_joins(&NodeState {
                name: &name,
                internal_ips: &[&ip],
                is_ready: true,
                labels: &labels,
                taints: Vec::new(),
            });
        }
    }

    /// A node gets ready or stops being it.
    pub fn set_ready(&self, name: &str, is_ready: bool) {
        self.client
            .patch_status(&format!("/api/v1/nodes/{name}"), &json!({ "conditions": conditions(is_ready) }))
            .unwrap();
    }

    /// The node's object is deleted.
    pub fn node_leaves(&self, name: &str) {
        self.client.delete(&format!("/api/v1/nodes/{name}")).unwrap();
    }

    /// The node as it is now.
    pub fn read_node(&self, name: &str) -> Option<Value> {
        self.client.find(&format!("/api/v1/nodes/{name}")).unwrap()
    }

    /// A pod that runs on a node, with one container of the same name; deleted, it is gone at once.
    pub fn pod(&self, namespace: &str, name: &str, node: &str, labels: &[(&str, &str)]) {
        let container = json!({ "name": name, "image": image(0) });
        let running = json!({ "name": name, "image": image(0), "imageID": image(0), "ready": true, "restartCount": 0,
            "state": { "running": { "startedAt": now() } } });
        let pod = json!({
            "metadata": { "name": name, "labels": map(labels) },
            "spec": { "nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0 },
            "status": { "phase": "Running", "containerStatuses": [running] },
        });
        self.put("/api/v1", namespace, "pods", &pod);
    }

    /// The machine-config-server on a node, and its log.
    pub fn mcs_pod(&self, node: &str, log: &str) {
        let name = format!("machine-config-server-{node}");
        self.pod(MACHINE_CONFIG, &name, node, &[("k8s-app", "machine-config-server")]);
        self.kubelet.set_log(MACHINE_CONFIG, &name, log);
    }

    fn node(&self, node: &NodeState<'_>) -> Value {
        let mut labels = map(node.labels);
        for (name, value) in [("arch", "amd64"), ("os", "linux"), ("hostname", node.name)] {
            labels.insert(format!("kubernetes.io/{name}"), value.into());
        }
        labels.insert("node.openshift.io/os_id".to_owned(), "rhcos".into());
        let address = |kind: &str, address: &str| json!({ "type": kind, "address": address });
        let mut addresses: Vec<_> = node.internal_ips.iter().map(|ip| address("InternalIP", ip)).collect();
        addresses.push(address("Hostname", node.name));
        // By this one the API server finds the kubelet, whatever the others are.
        addresses.push(address("ExternalIP", "127.0.0.1"));
        let sizes = json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "125277164Ki", "hugepages-1Gi": "0",
            "hugepages-2Mi": "0", "pods": "250" });
        let mut id = [0_u8; 16];
        node.name.bytes().enumerate().for_each(|(at, byte)| id[at % 16] ^= byte);
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "metadata": {
                "name": node.name,
                "labels": labels,
                "annotations": {
                    "machineconfiguration.openshift.io/controlPlaneTopology": "HighlyAvailable",
                    "machineconfiguration.openshift.io/currentConfig": format!("rendered-worker-{id}"),
                    "machineconfiguration.openshift.io/desiredConfig": format!("rendered-worker-{id}"),
                    "machineconfiguration.openshift.io/state": "Done",
                    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                },
            },
            "spec": { "taints": node.taints },
            "status": {
                "addresses": addresses,
                "capacity": sizes,
                "allocatable": sizes,
                "conditions": conditions(node.is_ready),
                "daemonEndpoints": { "kubeletEndpoint": { "Port": self.kubelet.port() } },
                "images": (0..IMAGES).map(|number| json!({
                    "names": [image(number), format!("{}:latest", image(number).split('@').next().unwrap_or_default())],
                    "sizeBytes": 1_000_000_000 - number,
                })).collect::<Vec<_>>(),
                "nodeInfo": {
                    "machineID": id,
                    "systemUUID": id,
                    "bootID": id,
                    "architecture": "amd64",
                    "operatingSystem": "linux",
                    "kernelVersion": "5.14.0-427.el9.x86_64",
                    "osImage": "a CoreOS of 9.4",
                    "containerRuntimeVersion": "cri-o://1.30.0",
                    "kubeletVersion": "v1.30.0",
                    "kubeProxyVersion": "v1.30.0",
                },
            },
        })
    }
}

fn map(pairs: &[(&str, &str)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

fn image(number: usize) -> String {
    format!("quay.example.com/openshift-release-dev/ocp-v4.0-art-dev@sha256:{number:064x}")
}

fn conditions(is_ready: bool) -> Value {
    let condition = |kind: &str, status: bool, reason: &str, message: &str| {
        json!({ "type": kind, "status": if status { "True" } else { "False" }, "reason": reason, "message": message,
            "lastHeartbeatTime": now(), "lastTransitionTime": now() })
    };
    let pressure =
        |kind: &str| condition(&format!("{kind}Pressure"), false, "KubeletHasEnough", "there is enough left");
    let ready = match is_ready {
        true => condition("Ready", true, "KubeletReady", "kubelet is posting ready status"),
        false => condition("Ready", false, "KubeletNotReady", "container runtime network not ready"),
    };
    json!([pressure("Memory"), pressure("Disk"), pressure("PID"), ready])
}
