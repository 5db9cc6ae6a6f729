#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::{BTreeMap, BTreeSet};

const ID: &str = "11111111-2222-3333-4444-555555555555";

fn controller<'a>(token: &'a Secret, service_ips: &'a [String]) -> Controller<'a> {
    Controller {
        cluster_id: serde_json::from_value(ID.into()).unwrap(),
        url: "https://service.lab:8090",
        insecure: false,
        ca_cert: None,
        check_cluster_version: true,
        control_plane_count: 3,
        must_gather_image: r#"{"ocp":"r.io/mg:1"}"#,
        image: "r.io/controller:1",
        openshift_version: "4.22.9",
        notify_num_reboots: false,
        service_ips,
        token,
        approve_any: false,
    }
}

/// By the names of their files, without what these have in common.
fn rendered(change: impl Fn(&mut Controller<'_>)) -> BTreeMap<String, Value> {
    let (token, ips) = (Secret::new("t0ken"), ["10.0.0.9".to_owned(), String::new(), "fd00::9".to_owned()]);
    let mut controller = controller(&token, &ips);
    change(&mut controller);
    let part = |name: String| {
        name.strip_prefix("assisted-installer-controller-").unwrap().strip_suffix(".yaml").unwrap().to_owned()
    };
    let manifests = manifests(&controller);
    let len = manifests.len();
    let by_name: BTreeMap<_, _> = manifests.into_iter().map(|(name, manifest, _)| (part(name), manifest)).collect();
    assert_eq!(by_name.len(), len, "two have one name");
    by_name
}

/// A map's entries, of a list of objects with a field that names them.
fn by<'a>(list: &'a Value, field: &str) -> BTreeMap<&'a str, &'a Value> {
    list.as_array().unwrap().iter().map(|entry| (entry[field].as_str().unwrap(), entry)).collect()
}

fn mounted(pod: &Value) -> BTreeMap<&str, &Value> {
    let volumes = by(&pod["volumes"], "name");
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    mounts
        .iter()
        .map(|mount| (mount["mountPath"].as_str().unwrap(), volumes[mount["name"].as_str().unwrap()]))
        .collect()
}

#[test]
fn objects_have_the_names_that_others_look_for() {
    let manifests = rendered(|_| {});
    for (part, api_version, kind, namespace, name) in [
        ("nm", "v1", "Namespace", None, "assisted-installer"),
        ("sa", "v1", "ServiceAccount", Some(NAMESPACE), CONTROLLER),
        (
            "network-policy",
            "networking.k8s.io/v1",
            "NetworkPolicy",
            Some(NAMESPACE),
            "assisted-installer-network-policy",
        ),
        ("cm", "v1", "ConfigMap", Some(NAMESPACE), "assisted-installer-controller-config"),
        ("secret", "v1", "Secret", Some(NAMESPACE), "assisted-installer-controller-secret"),
        ("pod", "batch/v1", "Job", Some(NAMESPACE), "assisted-installer-controller"),
        ("role", "rbac.authorization.k8s.io/v1", "ClusterRole", None, CONTROLLER),
        ("role-binding", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None, CONTROLLER),
        ("role-kube-system", "rbac.authorization.k8s.io/v1", "Role", Some("kube-system"), CONTROLLER),
        ("role-binding-kube-system", "rbac.authorization.k8s.io/v1", "RoleBinding", Some("kube-system"), CONTROLLER),
    ] {
        let object = &manifests[part];
        assert_eq!((&object["apiVersion"], &object["kind"]), (&json!(api_version), &json!(kind)), "{part}");
        assert_eq!(object["metadata"].get("namespace").and_then(Value::as_str), namespace, "{part}");
        assert_eq!(object["metadata"]["name"], name, "{part}");
    }
    assert_eq!(manifests["network-policy"].get("spec"), None);
    assert_eq!(READY_EVENT, "AssistedControllerIsReady");
    for part in ["cm", "secret"] {
        assert_eq!(manifests[part]["metadata"]["labels"], json!({"app": "assisted-installer-controller"}), "{part}");
    }
}

#[test]
fn the_token_alone_is_secret() {
    let (token, ips) = (Secret::new("t0ken"), []);
    for (name, manifest, mode) in manifests(&controller(&token, &ips)) {
        let is_secret = name.ends_with("-secret.yaml");
        assert_eq!(manifest.to_string().contains("t0ken"), is_secret, "{name}");
        assert_eq!(mode, if is_secret { 0o600 } else { 0o644 }, "{name}");
    }
    let secret = &rendered(|_| {})["secret"];
    assert_eq!((&secret["type"], &secret["stringData"]), (&json!("Opaque"), &json!({"pull-secret-token": "t0ken"})));
}

#[test]
fn admission_neither_skips_the_namespace_nor_changes_its_labels() {
    assert_eq!(
        rendered(|_| {})["nm"]["metadata"]["labels"],
        json!({
            "security.openshift.io/scc.podSecurityLabelSync": "false",
            "pod-security.kubernetes.io/enforce": "privileged",
            "pod-security.kubernetes.io/audit": "privileged",
            "pod-security.kubernetes.io/warn": "privileged",
        })
    );
}

#[test]
fn settings_reach_the_controller() {
    let manifests = rendered(|controller| controller.ca_cert = Some(Path::new("/etc/lab/ca.pem")));
    assert_eq!(
        manifests["cm"]["data"],
        json!({
            "cluster-id": ID, "inventory-url": "https://service.lab:8090", "skip-cert-verification": "false",
            "ca-cert-path": "/etc/lab/ca.pem", "check-cluster-version": "true", "control-plane-count": "3",
            "must-gather-image": r#"{"ocp":"r.io/mg:1"}"#,
        })
    );
    let container = &manifests["pod"]["spec"]["template"]["spec"]["containers"][0];
    let environment = by(&container["env"], "name");
    for (name, key, is_optional) in [
        ("CLUSTER_ID", "cluster-id", false),
        ("INVENTORY_URL", "inventory-url", false),
        ("SKIP_CERT_VERIFICATION", "skip-cert-verification", true),
        ("CA_CERT_PATH", "ca-cert-path", true),
        ("CHECK_CLUSTER_VERSION", "check-cluster-version", true),
        ("CONTROL_PLANE_COUNT", "control-plane-count", true),
        ("MUST_GATHER_IMAGE", "must-gather-image", true),
    ] {
        let source = json!({"name": "assisted-installer-controller-config", "key": key, "optional": is_optional});
        assert_eq!(environment[name]["valueFrom"]["configMapKeyRef"], source, "{name}");
    }
    for (name, value) in [("OPENSHIFT_VERSION", "4.22.9"), ("NOTIFY_NUM_REBOOTS", "false")] {
        assert_eq!(environment[name]["value"], value, "{name}");
    }
    assert_eq!(environment.len(), 9, "no token, and nothing for our controller alone");
    let asked = rendered(|controller| controller.approve_any = true);
    let environment = by(&asked["pod"]["spec"]["template"]["spec"]["containers"][0]["env"], "name");
    assert_eq!((environment["LANDFALL_APPROVE"]["value"].as_str(), environment.len()), (Some("any"), 10));
}

#[test]
fn the_job_runs_on_a_master_until_it_succeeds() {
    let job = rendered(|_| {})["pod"]["spec"].clone();
    assert_eq!(
        (&job["backoffLimit"], &job["template"]["metadata"]["labels"]),
        (&json!(100), &json!({"app": CONTROLLER}))
    );
    let pod = &job["template"]["spec"];
    assert_eq!((&pod["hostNetwork"], &pod["restartPolicy"]), (&json!(true), &json!("OnFailure")));
    assert_eq!(pod["serviceAccountName"], CONTROLLER);
    assert_eq!(pod["nodeSelector"], json!({"node-role.kubernetes.io/master": ""}));
    assert_eq!(pod["tolerations"], json!([{"key": MASTER, "operator": "Exists", "effect": "NoSchedule"}]));
    let hostnames = json!(["assisted-api.local.openshift.io"]);
    assert_eq!(
        pod["hostAliases"],
        json!([{"ip": "10.0.0.9", "hostnames": hostnames}, {"ip": "fd00::9", "hostnames": hostnames}])
    );
    let container = &pod["containers"][0];
    assert_eq!((&container["name"], &container["image"]), (&json!(CONTROLLER), &json!("r.io/controller:1")));
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    let named = rendered(|controller| controller.service_ips = &[]);
    assert_eq!(named["pod"]["spec"]["template"]["spec"].get("hostAliases"), None);
}

#[test]
fn the_controller_sees_what_it_looks_for_of_its_host() {
    let host = |path: &str| json!({"path": path});
    let manifests = rendered(|_| {});
    let mounted_there = mounted(&manifests["pod"]["spec"]["template"]["spec"]);
    for (path, from) in [
        ("/etc/pki", "/etc/pki"),
        ("/tmp/var-run-resolv.conf", "/var/run/NetworkManager/resolv.conf"),
        ("/tmp/host-resolv.conf", "/etc/resolv.conf"),
    ] {
        assert_eq!(mounted_there[path]["hostPath"], host(from), "{path}");
    }
    let token = &mounted_there["/etc/assisted-installer-controller"]["secret"];
    // Group 0 reads it too: the user is any.
    assert_eq!(token["items"], json!([{"key": "pull-secret-token", "path": "token", "mode": 0o440}]));
    assert_eq!(mounted_there["/tmp"]["emptyDir"], json!({}));
    assert_eq!(mounted_there.len(), 5);
    for (path, is_mounted) in [("/etc/lab/ca.pem", true), ("/etc/pki/lab/ca.pem", false), ("", false)] {
        let manifests = rendered(|controller| controller.ca_cert = Some(Path::new(path)));
        let mounted = mounted(&manifests["pod"]["spec"]["template"]["spec"]);
        let volume = mounted.get(path).map(|volume| &volume["hostPath"]);
        assert_eq!(volume, is_mounted.then_some(&host(path)), "{path}: it is below a mount, or missing");
    }
}

#[test]
fn a_single_nodes_controller_starts_before_the_node_is_ready() {
    let manifests = rendered(|controller| controller.control_plane_count = 1);
    let pod = &manifests["pod"]["spec"]["template"]["spec"];
    let secrets = mounted(pod)["/tmp/bootstrap-secrets"];
    assert_eq!(secrets["hostPath"], json!({"path": "/etc/kubernetes/bootstrap-secrets"}));
    let tolerated: Vec<_> =
        ["node-role.kubernetes.io/master", "node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"]
            .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}))
            .into();
    assert_eq!(pod["tolerations"], Value::from(tolerated));
    assert_eq!(pod["containers"][0]["securityContext"].get("runAsUser"), None, "no constraint allows root so early");
}

/// Namespace, group, resource, name, verb.
type Access = (String, String, String, String, String);

/// What roles grant, bound as they are to the account.
fn granted() -> BTreeSet<Access> {
    let manifests = rendered(|_| {});
    let texts = |list: &Value| {
        list.as_array()
            .map_or(vec![String::new()], |list| list.iter().map(|text| text.as_str().unwrap().to_owned()).collect())
    };
    let mut granted = BTreeSet::new();
    for (part, role) in
        manifests.iter().filter(|(part, _)| part.starts_with("role") && !part.starts_with("role-binding"))
    {
        let binding = &manifests[&part.replacen("role", "role-binding", 1)];
        assert_eq!(binding["kind"], format!("{}Binding", role["kind"].as_str().unwrap()));
        assert_eq!(binding["metadata"], role["metadata"], "{part}");
        let reference =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]});
        assert_eq!(binding["roleRef"], reference, "{part}");
        assert_eq!(
            binding["subjects"],
            json!([{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": NAMESPACE}])
        );
        let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
        for rule in role["rules"].as_array().unwrap() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for name in texts(&rule["resourceNames"]) {
                        for verb in texts(&rule["verbs"]) {
                            assert!(!group.contains('*') && !resource.contains('*') && !verb.contains('*'));
                            let right = (namespace.to_owned(), group.clone(), resource.clone(), name.clone(), verb);
                            assert!(granted.insert(right.clone()), "twice: {right:?}");
                        }
                    }
                }
            }
        }
    }
    granted
}

/// What controllers do: verb, group, resource, name (`*`: any), namespace (`*`: any or none). Of these, our controller alone watches.
const DONE: [(&str, &str, &str, &str, &str); 42] = [
    ("get", "", "nodes", "*", "*"),
    ("list", "", "nodes", "*", "*"),
    ("patch", "", "nodes", "*", "*"),
    ("watch", "", "nodes", "*", "*"),
    ("list", "", "services", "*", "*"),
    ("delete", "", "services", "*", "*"),
    ("get", "", "configmaps", "openshift-install-manifests", "openshift-config"),
    ("get", "", "configmaps", "cluster-config-v1", "kube-system"),
    ("get", "", "configmaps", "default-ingress-cert", "openshift-config-managed"),
    ("get", "", "configmaps", "olm-operator-manifests", "assisted-installer"),
    ("list", "", "pods", "*", "openshift-machine-config-operator"),
    ("get", "", "pods/log", "*", "openshift-machine-config-operator"),
    ("list", "", "pods", "*", "assisted-installer"),
    ("get", "", "pods/log", "*", "assisted-installer"),
    ("deletecollection", "", "pods", "*", "openshift-dns-operator"),
    ("create", "", "events", "*", "assisted-installer"),
    ("list", "certificates.k8s.io", "certificatesigningrequests", "*", "*"),
    ("watch", "certificates.k8s.io", "certificatesigningrequests", "*", "*"),
    ("update", "certificates.k8s.io", "certificatesigningrequests/approval", "*", "*"),
    ("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet", "*"),
    ("approve", "certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving", "*"),
    ("list", "batch", "jobs", "*", "*"),
    ("delete", "batch", "jobs", "*", "openshift-marketplace"),
    ("get", "config.openshift.io", "proxies", "cluster", "*"),
    ("get", "config.openshift.io", "clusterversions", "version", "*"),
    ("list", "config.openshift.io", "clusterversions", "version", "*"),
    ("get", "config.openshift.io", "clusteroperators", "*", "*"),
    ("list", "config.openshift.io", "clusteroperators", "*", "*"),
    ("get", "operators.coreos.com", "subscriptions", "*", "*"),
    ("get", "operators.coreos.com", "clusterserviceversions", "*", "*"),
    ("list", "operators.coreos.com", "installplans", "*", "*"),
    ("delete", "operators.coreos.com", "installplans", "*", "*"),
    ("get", "metal3.io", "provisionings", "provisioning-configuration", "*"),
    ("get", "metal3.io", "baremetalhosts", "*", "openshift-machine-api"),
    ("list", "metal3.io", "baremetalhosts", "*", "openshift-machine-api"),
    ("update", "metal3.io", "baremetalhosts", "*", "openshift-machine-api"),
    ("update", "metal3.io", "baremetalhosts/status", "*", "openshift-machine-api"),
    ("list", "machine.openshift.io", "machines", "*", "openshift-machine-api"),
    ("get", "machineconfiguration.openshift.io", "machineconfigpools", "worker", "*"),
    ("patch", "machineconfiguration.openshift.io", "machineconfigpools", "worker", "*"),
    ("use", "security.openshift.io", "securitycontextconstraints", "node-exporter", "*"),
    ("use", "security.openshift.io", "securitycontextconstraints", "hostaccess", "*"),
];

/// Namespaces that a capability creates: what is done there has to be granted in the whole cluster.
const OPTIONAL: [&str; 2] = ["openshift-machine-api", "openshift-marketplace"];

#[test]
fn rights_are_those_that_controllers_use_and_no_others() {
    let used = DONE.map(|(verb, group, resource, name, namespace)| {
        let namespace = if namespace == "*" || OPTIONAL.contains(&namespace) { "" } else { namespace };
        let name = if name == "*" { "" } else { name };
        (namespace.to_owned(), group.to_owned(), resource.to_owned(), name.to_owned(), verb.to_owned())
    });
    let (used, granted) = (BTreeSet::from(used), granted());
    let difference =
        |one: &BTreeSet<Access>, other: &BTreeSet<Access>| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!((difference(&used, &granted), difference(&granted, &used)), (vec![], vec![]), "missing, unused");
}

#[test]
fn no_manifest_waits_for_a_namespace_that_a_cluster_may_lack() {
    let exist = [
        "assisted-installer",
        "kube-system",
        "openshift-config",
        "openshift-config-managed",
        "openshift-dns-operator",
        "openshift-machine-config-operator",
    ];
    for (part, manifest) in rendered(|_| {}) {
        let namespace = manifest["metadata"].get("namespace").and_then(Value::as_str);
        assert!(namespace.is_none_or(|namespace| exist.contains(&namespace)), "{part}: {namespace:?}");
        assert_ne!(manifest["kind"], "List", "bootkube reads none");
    }
}
