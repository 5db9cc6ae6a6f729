//! The manifests that bring the controller into a cluster (docs/compatibility.md#controller): bootkube creates them from files.
//!
//! One object to a file: bootkube reads no lists, and only the first document of a file.

use api::{ClusterId, Secret};
use serde_json::{Value, json};
use std::path::Path;

/// Where the controller lives.
pub const NAMESPACE: &str = "assisted-installer";
/// Its name, the name of its Job and its rights, and what the names of its pods and files begin with.
pub const CONTROLLER: &str = "assisted-installer-controller";
/// The event by which the bootstrap host knows that it works.
pub const READY_EVENT: &str = "AssistedControllerIsReady";

const CONFIG_MAP: &str = "assisted-installer-controller-config";
const SECRET: &str = "assisted-installer-controller-secret";
const TOKEN_KEY: &str = "pull-secret-token";
/// The name by which the controller knows the service where that has addresses only.
const SERVICE_NAME: &str = "assisted-api.local.openshift.io";
const MASTER: &str = "node-role.kubernetes.io/master";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Namespace (none: the whole cluster), API group, resources, names (none: all), verbs.
type Right = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// What the controller may do, by namespace. A list or watch of named objects needs a field selector for the name.
///
/// Bootkube fails if one of its manifests cannot be created within an hour. Namespaces here exist in every cluster. Those of
/// capabilities (`openshift-machine-api`, `openshift-marketplace`) may not, so what is done there is granted in the whole cluster.
const RIGHTS: [Right; 27] = [
    ("", "", "nodes", "", "get list watch patch"),
    ("", "", "services", "", "list delete"),
    ("", "batch", "jobs", "", "list delete"),
    ("", "certificates.k8s.io", "certificatesigningrequests", "", "list watch"),
    ("", "certificates.k8s.io", "certificatesigningrequests/approval", "", "update"),
    (
        "",
        "certificates.k8s.io",
        "signers",
        "kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving",
        "approve",
    ),
    ("", "config.openshift.io", "clusteroperators", "", "get list"),
    ("", "config.openshift.io", "clusterversions", "version", "get list"),
    ("", "config.openshift.io", "proxies", "cluster", "get"),
    ("", "machine.openshift.io", "machines", "", "list"),
    ("", "machineconfiguration.openshift.io", "machineconfigpools", "worker", "get patch"),
    ("", "metal3.io", "baremetalhosts", "", "get list update"),
    ("", "metal3.io", "baremetalhosts/status", "", "update"),
    ("", "metal3.io", "provisionings", "provisioning-configuration", "get"),
    ("", "operators.coreos.com", "clusterserviceversions subscriptions", "", "get"),
    ("", "operators.coreos.com", "installplans", "", "list delete"),
    // The first exists from the beginning. The second, which allows root, is created with the cluster's monitoring.
    ("", "security.openshift.io", "securitycontextconstraints", "hostaccess node-exporter", "use"),
    (NAMESPACE, "", "configmaps", "olm-operator-manifests", "get"),
    (NAMESPACE, "", "events", "", "create"),
    (NAMESPACE, "", "pods", "", "list"),
    (NAMESPACE, "", "pods/log", "", "get"),
    ("kube-system", "", "configmaps", "cluster-config-v1", "get"),
    ("openshift-config", "", "configmaps", "openshift-install-manifests", "get"),
    ("openshift-config-managed", "", "configmaps", "default-ingress-cert", "get"),
    ("openshift-dns-operator", "", "pods", "", "deletecollection"),
    ("openshift-machine-config-operator", "", "pods", "", "list"),
    ("openshift-machine-config-operator", "", "pods/log", "", "get"),
];

/// What a controller is deployed with.
#[derive(Clone, Copy, Debug)]
pub struct Controller<'a> {
    /// The cluster it finishes.
    pub cluster_id: ClusterId,
    /// Base URL of the service, as nodes reach it.
    pub url: &'a str,
    /// Skip verification of the service's certificate.
    pub insecure: bool,
    /// A file of the nodes with CA certificates, beside those below `/etc/pki`.
    pub ca_cert: Option<&'a Path>,
    /// Also wait for the cluster version.
    pub check_cluster_version: bool,
    /// 1 for a single node.
    pub control_plane_count: u32,
    /// Image, or a JSON map of images as text; empty for the release's.
    pub must_gather_image: &'a str,
    /// Its image.
    pub image: &'a str,
    /// Version of the cluster.
    pub openshift_version: &'a str,
    /// Count reboots of nodes in events.
    pub notify_num_reboots: bool,
    /// Addresses of the service, if it has no name.
    pub service_ips: &'a [String],
    /// For requests to the service.
    pub token: &'a Secret,
    /// Approve every certificate request of a node, unseen.
    pub approve_any: bool,
}

/// Each manifest with the name of its file and the mode, in no order that matters: bootkube repeats what fails.
pub fn manifests(controller: &Controller<'_>) -> Vec<(String, Value, u32)> {
    let settings = settings(controller);
    let mut manifests = vec![
        ("nm".to_owned(), namespace()),
        ("sa".to_owned(), object("v1", "ServiceAccount", NAMESPACE, CONTROLLER)),
        // Without a rule: it is there for audits that count policies.
        (
            "network-policy".to_owned(),
            object("networking.k8s.io/v1", "NetworkPolicy", NAMESPACE, "assisted-installer-network-policy"),
        ),
        ("cm".to_owned(), with_data(object("v1", "ConfigMap", NAMESPACE, CONFIG_MAP), "data", &settings)),
        ("secret".to_owned(), secret(controller.token)),
        ("pod".to_owned(), job(controller, &settings)),
    ];
    for rights in RIGHTS.chunk_by(|right, next| right.0 == next.0) {
        manifests.extend(access(rights));
    }
    let file = |(part, manifest): (String, Value)| {
        let mode = if part == "secret" { 0o600 } else { 0o644 };
        (format!("{CONTROLLER}-{part}.yaml"), manifest, mode)
    };
    manifests.into_iter().map(file).collect()
}

/// An object of which there is nothing else to say.
fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// With a map of texts, and the label that such objects have.
fn with_data(mut object: Value, field: &str, data: &[(&str, String)]) -> Value {
    object["metadata"]["labels"] = json!({"app": CONTROLLER});
    object[field] = data.iter().map(|(key, value)| (*key, value.as_str())).collect();
    object
}

fn namespace() -> Value {
    let mut namespace = object("v1", "Namespace", "", NAMESPACE);
    let mut labels = json!({"security.openshift.io/scc.podSecurityLabelSync": "false"});
    for check in ["enforce", "audit", "warn"] {
        labels[format!("pod-security.kubernetes.io/{check}")] = "privileged".into();
    }
    namespace["metadata"]["labels"] = labels;
    namespace
}

/// Role and binding for rights in one namespace, or in the cluster.
fn access(rights: &[Right]) -> [(String, Value); 2] {
    let namespace = rights.first().map(|right| right.0).unwrap_or_default();
    let words = |text: &str| text.split(' ').collect::<Value>();
    let rules = rights.iter().map(|(_, group, resources, names, verbs)| {
        let mut rule = json!({"apiGroups": [group], "resources": words(resources), "verbs": words(verbs)});
        if !names.is_empty() {
            rule["resourceNames"] = words(names);
        }
        rule
    });
    let (kind, part) = match namespace {
        "" => ("ClusterRole", String::new()),
        name => ("Role", format!("-{name}")),
    };
    let version = format!("{RBAC}/v1");
    let mut role = object(&version, kind, namespace, CONTROLLER);
    role["rules"] = rules.collect();
    let mut binding = object(&version, &format!("{kind}Binding"), namespace, CONTROLLER);
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": kind, "name": CONTROLLER});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": NAMESPACE}]);
    [(format!("role{part}"), role), (format!("role-binding{part}"), binding)]
}

/// Settings by their keys in the ConfigMap. In upper case, with underscores, these are the controller's variables.
fn settings(controller: &Controller<'_>) -> [(&'static str, String); 7] {
    [
        ("cluster-id", controller.cluster_id.to_string()),
        ("inventory-url", controller.url.to_owned()),
        ("skip-cert-verification", controller.insecure.to_string()),
        ("ca-cert-path", controller.ca_cert.unwrap_or(Path::new("")).to_string_lossy().into_owned()),
        ("check-cluster-version", controller.check_cluster_version.to_string()),
        ("control-plane-count", controller.control_plane_count.to_string()),
        ("must-gather-image", controller.must_gather_image.to_owned()),
    ]
}

fn secret(token: &Secret) -> Value {
    let mut secret = object("v1", "Secret", NAMESPACE, SECRET);
    secret["type"] = "Opaque".into();
    with_data(secret, "stringData", &[(TOKEN_KEY, token.expose().to_owned())])
}

fn environment(controller: &Controller<'_>, settings: &[(&str, String)]) -> Vec<Value> {
    let from_map = |(number, (key, _)): (usize, &(&str, String))| {
        let source = json!({"configMapKeyRef": {"name": CONFIG_MAP, "key": key, "optional": number > 1}});
        json!({"name": key.to_uppercase().replace('-', "_"), "valueFrom": source})
    };
    let reboots = controller.notify_num_reboots.to_string();
    let mut literals = vec![("OPENSHIFT_VERSION", controller.openshift_version), ("NOTIFY_NUM_REBOOTS", &reboots)];
    if controller.approve_any {
        literals.push(("LANDFALL_APPROVE", "any"));
    }
    let literals = literals.into_iter().map(|(name, value)| json!({"name": name, "value": value}));
    settings.iter().enumerate().map(from_map).chain(literals).collect()
}

fn job(controller: &Controller<'_>, settings: &[(&str, String)]) -> Value {
    let is_single_node = controller.control_plane_count == 1;
    let ca_cert = controller.ca_cert.unwrap_or(Path::new("")).to_string_lossy();
    // Files of the host: name, where they are, where the controller looks for them.
    let mut shared = vec![
        ("host-ca-bundle", "/etc/pki", "/etc/pki"),
        ("host-resolv-conf", "/etc/resolv.conf", "/tmp/host-resolv.conf"),
        ("host-var-run-resolv-conf", "/var/run/NetworkManager/resolv.conf", "/tmp/var-run-resolv.conf"),
    ];
    if !ca_cert.is_empty() && !ca_cert.starts_with("/etc/pki/") {
        shared.push(("service-ca-cert", &ca_cert, &ca_cert));
    }
    let mut tolerated = vec![MASTER];
    if is_single_node {
        shared.push(("bootstrap-secrets", "/etc/kubernetes/bootstrap-secrets", "/tmp/bootstrap-secrets"));
        tolerated.extend(["node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"]);
    }
    // Logs and downloads go to /tmp, and outlive a restart of the container there. The others are mounted below it.
    let token = json!({"secretName": SECRET, "items": [{"key": TOKEN_KEY, "path": "token", "mode": 0o440}]});
    let mut volumes = vec![json!({"name": "tmp", "emptyDir": {}}), json!({"name": "token", "secret": token})];
    let mount =
        |name: &str, path: &str, is_read_only: bool| json!({"name": name, "mountPath": path, "readOnly": is_read_only});
    let mut mounts = vec![mount("tmp", "/tmp", false), mount("token", "/etc/assisted-installer-controller", true)];
    for (name, from, to) in shared {
        volumes.push(json!({"name": name, "hostPath": {"path": from}}));
        mounts.push(mount(name, to, true));
    }
    let tolerate = |key| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let alias = |ip| json!({"ip": ip, "hostnames": [SERVICE_NAME]});
    // The user is left to the cluster, on a single node too: the bootstrap kubeconfig there has the mode 0644, and a pod that asks for
    // root is refused until monitoring has been set up (`hostaccess` allows the namespace's users only).
    let mut pod = json!({
        "containers": [{
            "name": CONTROLLER,
            "image": controller.image,
            "imagePullPolicy": "IfNotPresent",
            "env": environment(controller, settings),
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": mounts,
        }],
        "hostNetwork": true,
        "nodeSelector": {MASTER: ""},
        "restartPolicy": "OnFailure",
        "serviceAccountName": CONTROLLER,
        "tolerations": tolerated.into_iter().map(tolerate).collect::<Value>(),
        "volumes": volumes,
    });
    let aliases: Vec<_> = controller.service_ips.iter().filter(|ip| !ip.is_empty()).map(alias).collect();
    if !aliases.is_empty() {
        pod["hostAliases"] = aliases.into();
    }
    let mut job = object("batch/v1", "Job", NAMESPACE, CONTROLLER);
    job["spec"] = json!({"backoffLimit": 100, "template": {"metadata": {"labels": {"app": CONTROLLER}}, "spec": pod}});
    job
}

#[cfg(test)]
mod tests;
