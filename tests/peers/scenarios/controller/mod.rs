//! The real controller as judge of ours, then ours as partner of the real service: at a real API server of Kubernetes.

mod alike;
mod finishing;

use super::*;
use crate::{
    host::pod::{Plan, Pod},
    net::Namespace,
    site::landfall,
};
use api::Secret;
use installer::controller_manifests::{self, CONTROLLER, Controller, NAMESPACE};
use simulator::{ApiServer, Cluster, FaultProxy};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CLUSTER: &str = "1d0f3b5e-8f0c-4d35-9a3e-0a6a1f0e9d11";
const VERSION: &str = "4.22.9";
const OPERATOR: &str = "lso";
const OPERATOR_NAMESPACE: &str = "openshift-local-storage";
const SUBSCRIPTION: &str = "local-storage-operator";
const CSV: &str = "local-storage-operator.v4.22.0";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn until(pod: &mut Pod, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        if let Some(status) = pod.ended() {
            panic!("the controller ended ({status}) before {what}: {}", pod.log_end());
        }
        assert!(Instant::now() < end, "never came: {what}; {}", pod.log_end());
        thread::sleep(Duration::from_millis(250));
    }
}

fn await_end(pod: &mut Pod) {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = pod.ended() {
            assert!(status.success(), "the controller ended with {status}: {}", pod.log_end());
            return;
        }
        thread::sleep(Duration::from_millis(250));
    }
    panic!("the controller does not end: {}", pod.log_end());
}

/// What each cluster has when its controller starts, and what the installer puts there for it.
fn prepare(cluster: &Cluster) {
    cluster.namespace(NAMESPACE);
    cluster.proxy("", "", "");
    cluster.invoker("assisted-service");
    cluster
        .install_config("apiVersion: v1\nnetworking:\n  serviceNetwork:\n  - 172.30.0.0/16\nplatform:\n  none: {}\n");
    cluster.service("openshift-dns", "dns-default", "172.30.0.10");
    let token = Secret::new(crate::host::pod::TOKEN);
    let controller = Controller {
        cluster_id: CLUSTER.parse().unwrap(),
        url: "http://127.0.0.1",
        insecure: false,
        ca_cert: None,
        check_cluster_version: true,
        control_plane_count: 3,
        must_gather_image: "",
        image: "localhost/controller",
        openshift_version: VERSION,
        notify_num_reboots: false,
        service_ips: &[],
        token: &token,
        approve_any: false,
    };
    for (_, manifest, _) in controller_manifests::manifests(&controller) {
        let group = "/apis/rbac.authorization.k8s.io/v1";
        let (group, plural) = match manifest["kind"].as_str().unwrap() {
            "ClusterRole" => (group, "clusterroles"),
            "ClusterRoleBinding" => (group, "clusterrolebindings"),
            "Role" => (group, "roles"),
            "RoleBinding" => (group, "rolebindings"),
            "ServiceAccount" => ("/api/v1", "serviceaccounts"),
            _ => continue,
        };
        match manifest["metadata"]["namespace"].as_str() {
            Some(namespace) => drop(cluster.put(group, namespace, plural, &manifest)),
            None => drop(cluster.client().put(&format!("{group}/{plural}"), &manifest).unwrap()),
        }
    }
}

fn start(
    namespace: &Namespace,
    name: &str,
    program: &[String],
    service: &str,
    server: &ApiServer,
    proxy: &FaultProxy,
    cluster: &str,
) -> Pod {
    let token = server.service_account_token(NAMESPACE, CONTROLLER);
    let kubernetes = (&*proxy.url(), proxy.ca_pem(), &*token);
    Pod::start(namespace, name, &Plan { program, cluster, service, kubernetes })
}

fn ours() -> Vec<String> {
    vec![landfall().display().to_string(), "controller".to_owned()]
}

fn console(cluster: &Cluster, kind: &str, message: &str) {
    cluster.cluster_operator("console", &[(kind, "True", message)], VERSION);
    cluster.cluster_version(&[(kind, "True", message)], VERSION, &["Console"], &["Console"]);
}
