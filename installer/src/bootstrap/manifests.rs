//! Manifests that the temporary control plane carries into the cluster: the controller, and the key to the masters.

use super::{BootstrapError, Context, files};
use serde_json::{Value, json};
use std::path::Path;

const DIR: &str = "/opt/openshift/manifests";
const SSH_KEY: &str = "/opt/openshift/openshift/99_openshift-machineconfig_99-assisted-installer-master-ssh.yaml";

/// Where the controller lives.
pub(super) const NAMESPACE: &str = "assisted-installer";
/// Its name, and what the names of its pods begin with.
pub(super) const CONTROLLER: &str = "assisted-installer-controller";
const CONFIG_MAP: &str = "assisted-installer-controller-config";
const SECRET: &str = "assisted-installer-controller-secret";
const TOKEN_KEY: &str = "pull-secret-token";
const TOKEN_DIR: &str = "/etc/assisted-installer-controller";
/// The name by which the controller knows the service where that has addresses only.
const SERVICE_NAME: &str = "assisted-api.local.openshift.io";
const MASTER: &str = "node-role.kubernetes.io/master";
/// Of this host, for the controller: see mounts.
const HOST_PATHS: [(&str, &str, &str); 3] = [
    ("host-pki", "/etc/pki", "Directory"),
    ("host-resolv-conf", "/etc/resolv.conf", "File"),
    ("host-nm-resolv-conf", "/var/run/NetworkManager/resolv.conf", ""),
];

/// Gives the holder of the bootstrap host's key access to the masters.
pub(super) fn write_ssh_key(root: &Path, key: &str) -> Result<(), BootstrapError> {
    let name = "99-assisted-installer-master-ssh";
    let manifest = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "master"}},
        "spec": {"config": {
            "ignition": {"version": "3.1.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]},
        }},
    });
    files::write(&files::below(root, SSH_KEY), &yaml(&manifest), 0o644)
}

/// The controller (docs/compatibility.md#controller).
pub(super) fn write_controller(root: &Path, ctx: &Context<'_>) -> Result<(), BootstrapError> {
    let dir = files::below(root, DIR);
    for (name, manifest, mode) in [
        ("assisted-installer-controller-nm.yaml", namespace(), 0o644),
        ("assisted-installer-controller-sa.yaml", account(), 0o644),
        ("assisted-installer-controller-role.yaml", role(), 0o644),
        ("assisted-installer-controller-role-binding.yaml", binding(), 0o644),
        ("assisted-installer-controller-cm.yaml", config_map(ctx), 0o644),
        ("assisted-installer-controller-secret.yaml", secret(ctx), 0o600),
        ("assisted-installer-controller-pod.yaml", job(ctx), 0o644),
    ] {
        files::write(&dir.join(name), &yaml(&manifest), mode)?;
    }
    Ok(())
}

/// JSON is also YAML, with every text quoted: readers of older YAML take a bare `on` or `1_0` for something else.
fn yaml(manifest: &Value) -> Vec<u8> {
    format!("{manifest:#}\n").into_bytes()
}

fn namespace() -> Value {
    // Run level 0: pods of it run before the cluster's own admission does.
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"openshift.io/run-level": "0"}}})
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": CONTROLLER, "namespace": NAMESPACE}})
}

/// What the controller does in the cluster (docs/compatibility.md#controller).
fn role() -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let signers = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"],
        "resourceNames": ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"]});
    let host_network = json!({"apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
        "verbs": ["use"], "resourceNames": ["hostnetwork", "hostaccess", "hostmount-anyuid", "anyuid", "nonroot"]});
    let read = ["get", "list", "watch"];
    let rules = [
        rule("", &["nodes"], &["get", "list", "watch", "patch"]),
        rule("", &["pods"], &["get", "list", "watch", "deletecollection"]),
        rule("", &["pods/log", "configmaps"], &read),
        rule("", &["events"], &["get", "list", "create"]),
        rule("", &["services"], &["list", "delete"]),
        rule("", &["namespaces"], &["get", "patch"]),
        rule("batch", &["jobs"], &["get", "list", "delete"]),
        rule("certificates.k8s.io", &["certificatesigningrequests"], &read),
        rule("certificates.k8s.io", &["certificatesigningrequests/approval"], &["update"]),
        signers,
        rule("config.openshift.io", &["clusteroperators", "clusterversions", "proxies"], &read),
        rule("operators.coreos.com", &["subscriptions", "clusterserviceversions"], &read),
        rule("operators.coreos.com", &["installplans"], &["get", "list", "delete"]),
        rule("metal3.io", &["baremetalhosts"], &["get", "list", "watch", "update", "patch"]),
        rule("metal3.io", &["baremetalhosts/status"], &["get", "update", "patch"]),
        rule("metal3.io", &["provisionings"], &read),
        rule("machine.openshift.io", &["machines"], &read),
        rule("machineconfiguration.openshift.io", &["machineconfigs"], &read),
        rule("machineconfiguration.openshift.io", &["machineconfigpools"], &["get", "list", "patch"]),
        rule("operator.openshift.io", &["ingresscontrollers"], &["get", "patch"]),
        host_network,
    ];
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": CONTROLLER}, "rules": rules})
}

fn binding() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": CONTROLLER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CONTROLLER},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": NAMESPACE}]})
}

fn config_map(ctx: &Context<'_>) -> Value {
    let (request, service) = (ctx.request, ctx.service);
    let ca_cert = service.ca_cert.as_deref().unwrap_or(Path::new("")).to_string_lossy();
    json!({"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE, "labels": {"app": CONTROLLER}},
    "data": {
        "cluster-id": request.cluster_id.to_string(),
        "inventory-url": service.url,
        "skip-cert-verification": service.insecure.to_string(),
        "ca-cert-path": ca_cert,
        "check-cluster-version": request.check_cvo.to_string(),
        "control-plane-count": request.control_plane_count.to_string(),
        "must-gather-image": request.must_gather_image.as_deref().unwrap_or_default(),
    }})
}

fn secret(ctx: &Context<'_>) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": SECRET, "namespace": NAMESPACE, "labels": {"app": CONTROLLER}},
        "stringData": {TOKEN_KEY: ctx.service.token.expose()}})
}

fn job(ctx: &Context<'_>) -> Value {
    let mut volumes = vec![json!({"name": "token",
        "secret": {"secretName": SECRET, "items": [{"key": TOKEN_KEY, "path": "token"}]}})];
    let mut mounts = vec![json!({"name": "token", "mountPath": TOKEN_DIR, "readOnly": true})];
    let mut mount = |name: &str, from: &str, to: &str, kind: &str| {
        volumes.push(json!({"name": name, "hostPath": {"path": from, "type": kind}}));
        mounts.push(json!({"name": name, "mountPath": to, "readOnly": true}));
    };
    for (name, path, kind) in HOST_PATHS {
        mount(name, path, path, kind);
    }
    if let Some(path) = ctx.service.ca_cert.as_deref().filter(|path| !path.starts_with("/etc/pki")) {
        let path = path.to_string_lossy();
        mount("service-ca-cert", &path, &path, "File");
    }
    if ctx.is_single_node() {
        mount("bootstrap-secrets", "/etc/kubernetes/bootstrap-secrets", "/tmp/bootstrap-secrets", "");
    }
    let mut pod = json!({
        "containers": [{
            "name": CONTROLLER,
            "image": ctx.request.controller_image,
            "imagePullPolicy": "IfNotPresent",
            "env": environment(ctx),
            "volumeMounts": mounts,
        }],
        "hostNetwork": true,
        "nodeSelector": {MASTER: ""},
        "restartPolicy": "OnFailure",
        "serviceAccountName": CONTROLLER,
        "tolerations": tolerations(ctx),
        "volumes": volumes,
    });
    let aliases: Vec<_> = ctx.request.service_ips.iter().flatten().filter(|ip| !ip.is_empty()).collect();
    if !aliases.is_empty() {
        let aliases: Vec<_> = aliases.iter().map(|ip| json!({"ip": ip, "hostnames": [SERVICE_NAME]})).collect();
        pod["hostAliases"] = aliases.into();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": CONTROLLER, "namespace": NAMESPACE},
        "spec": {"backoffLimit": 100, "template": {"metadata": {"labels": {"app": CONTROLLER}}, "spec": pod}}})
}

/// The token is given twice: controllers read the file, older ones only the variable.
fn environment(ctx: &Context<'_>) -> Vec<Value> {
    let from_map = |name: &str, key: &str| json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": CONFIG_MAP, "key": key}}});
    vec![
        from_map("CLUSTER_ID", "cluster-id"),
        from_map("INVENTORY_URL", "inventory-url"),
        from_map("SKIP_CERT_VERIFICATION", "skip-cert-verification"),
        from_map("CA_CERT_PATH", "ca-cert-path"),
        from_map("CHECK_CLUSTER_VERSION", "check-cluster-version"),
        from_map("CONTROL_PLANE_COUNT", "control-plane-count"),
        from_map("MUST_GATHER_IMAGE", "must-gather-image"),
        json!({"name": "NAMESPACE", "value": NAMESPACE}),
        json!({"name": "OPENSHIFT_VERSION", "value": ctx.request.openshift_version.as_deref().unwrap_or_default()}),
        json!({"name": "NOTIFY_NUM_REBOOTS", "value": ctx.request.notify_num_reboots.to_string()}),
        json!({"name": "PULL_SECRET_TOKEN", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": TOKEN_KEY}}}),
    ]
}

/// On a single node nothing else runs that would make it ready first.
fn tolerations(ctx: &Context<'_>) -> Vec<Value> {
    let mut keys = vec![MASTER, "node-role.kubernetes.io/control-plane"];
    if ctx.is_single_node() {
        keys.extend(["node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"]);
    }
    let tolerate = |key| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let mut tolerations: Vec<_> = keys.into_iter().map(tolerate).collect();
    if ctx.is_single_node() {
        tolerations.push(json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}));
    }
    tolerations
}
