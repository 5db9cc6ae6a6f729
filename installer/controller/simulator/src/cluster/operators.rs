//! What operators say of themselves, and what the installation leaves in the cluster.

use super::{Cluster, now};
use serde_json::{Value, json};

const MACHINE_API: &str = "openshift-machine-api";

/// A condition: its type, its status (`True`, `False`, `Unknown`) and its message.
pub type Condition<'a> = (&'a str, &'a str, &'a str);

fn condition_list(conditions: &[Condition<'_>]) -> Value {
    conditions
        .iter()
        .map(|(kind, status, message)| {
            json!({ "type": kind, "status": status, "message": message, "reason": "AsExpected", "lastTransitionTime": now() })
        })
        .collect()
}

impl Cluster {
    /// A ClusterOperator with its conditions in this order.
    pub fn cluster_operator(&self, name: &str, conditions: &[Condition<'_>], version: &str) {
        let status = json!({ "conditions": condition_list(conditions), "versions": [{ "name": "operator", "version": version }] });
        self.resource("clusteroperators", None, name, json!({ "spec": {}, "status": status }));
    }

    /// The ClusterVersion `version`; `enabled` of the `known` capabilities.
    pub fn cluster_version(&self, conditions: &[Condition<'_>], version: &str, enabled: &[&str], known: &[&str]) {
        let status = json!({
            "conditions": condition_list(conditions),
            "desired": { "version": version, "image": "quay.example.com/release" },
            "capabilities": { "enabledCapabilities": enabled, "knownCapabilities": known },
            "history": [{ "state": "Partial", "version": version, "startedTime": now() }],
        });
        self.resource("clusterversions", None, "version", json!({ "spec": {}, "status": status }));
    }

    /// The Proxy `cluster`: its status has these settings, its spec others.
    pub fn proxy(&self, http: &str, https: &str, no_proxy: &str) {
        let status = json!({ "httpProxy": http, "httpsProxy": https, "noProxy": no_proxy });
        self.resource(
            "proxies",
            None,
            "cluster",
            json!({ "spec": { "httpProxy": "http://unused.example.com" }, "status": status }),
        );
    }

    /// The configuration that the cluster was installed with, as YAML.
    pub fn install_config(&self, yaml: &str) {
        self.config_map("kube-system", "cluster-config-v1", &json!({ "install-config": yaml }));
    }

    /// Who installs the cluster.
    pub fn invoker(&self, invoker: &str) {
        self.config_map("openshift-config", "openshift-install-manifests", &json!({ "invoker": invoker }));
    }

    /// The authority of the router's certificate.
    pub fn ingress_ca(&self, pem: &str) {
        self.config_map("openshift-config-managed", "default-ingress-cert", &json!({ "ca-bundle.crt": pem }));
    }

    /// A Subscription; `csv` is empty before there is a version of its operator.
    pub fn subscription(&self, namespace: &str, name: &str, csv: &str) {
        let status = if csv.is_empty() { json!({}) } else { json!({ "currentCSV": csv, "state": "AtLatestKnown" }) };
        let spec = json!({ "name": name, "channel": "stable", "source": "redhat-operators" });
        self.resource("subscriptions", Some(namespace), name, json!({ "spec": spec, "status": status }));
    }

    /// A ClusterServiceVersion in a phase such as `Installing` or `Succeeded`.
    pub fn csv(&self, namespace: &str, name: &str, phase: &str, message: &str, version: &str) {
        let members = json!({ "spec": { "version": version }, "status": { "phase": phase, "message": message } });
        self.resource("clusterserviceversions", Some(namespace), name, members);
    }

    /// An InstallPlan of a subscription.
    pub fn install_plan(&self, namespace: &str, name: &str, subscription: &str, phase: &str) {
        let owner = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": subscription,
            "uid": "00000000-0000-4000-8000-000000000000" });
        let members = json!({ "metadata": { "ownerReferences": [owner] }, "spec": { "approved": true },
            "status": { "phase": phase } });
        self.resource("installplans", Some(namespace), name, members);
    }

    /// A Job that unpacks an operator's bundle.
    pub fn job(&self, namespace: &str, name: &str, failed: u32, conditions: &[Condition<'_>]) {
        let mut status = json!({ "conditions": condition_list(conditions) });
        if failed > 0 {
            status["failed"] = failed.into();
        }
        self.put_job(namespace, json!({ "name": name }), status);
    }

    /// The Job with which a service sets an operator up.
    pub fn setup_job(&self, namespace: &str, operator: &str) {
        let labels = json!({ "agent-install.openshift.io/setup-job": operator });
        self.put_job(namespace, json!({ "name": "setup", "labels": labels }), json!({}));
    }

    fn put_job(&self, namespace: &str, metadata: Value, status: Value) {
        let template =
            json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "script" }] } });
        let job = json!({ "metadata": metadata, "spec": { "template": template }, "status": status });
        self.put("/apis/batch/v1", namespace, "jobs", &job);
    }

    /// A Machine of a role.
    pub fn machine(&self, name: &str, role: &str) {
        let labels = json!({ "machine.openshift.io/cluster-api-machine-role": role });
        let members = json!({ "metadata": { "labels": labels }, "spec": {}, "status": {} });
        self.resource("machines", Some(MACHINE_API), name, members);
    }

    /// A BareMetalHost with these annotations, in a state of provisioning that may be empty.
    pub fn bare_metal_host(&self, name: &str, annotations: &Value, state: &str) {
        let status = if state.is_empty() { json!({}) } else { json!({ "provisioning": { "state": state, "ID": "" } }) };
        let members =
            json!({ "metadata": { "annotations": annotations }, "spec": { "online": true }, "status": status });
        self.resource("baremetalhosts", Some(MACHINE_API), name, members);
    }

    /// The Provisioning `provisioning-configuration`.
    pub fn provisioning(&self) {
        let members = json!({ "spec": { "provisioningNetwork": "Disabled" }, "status": {} });
        self.resource("provisionings", None, "provisioning-configuration", members);
    }

    /// A MachineConfigPool.
    pub fn pool(&self, name: &str, is_paused: bool) {
        self.resource("machineconfigpools", None, name, json!({ "spec": { "paused": is_paused }, "status": {} }));
    }

    /// A Service with this address among the services of the cluster.
    pub fn service(&self, namespace: &str, name: &str, cluster_ip: &str) {
        let spec = json!({ "clusterIP": cluster_ip, "ports": [{ "name": "port", "port": 80 }] });
        self.put("/api/v1", namespace, "services", &json!({ "metadata": { "name": name }, "spec": spec }));
    }
}
