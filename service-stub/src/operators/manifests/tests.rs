//! Every operator's manifests: that they are objects, where they are, and what depends on the cluster.

use super::*;
use crate::operators::OPERATORS;
use crate::operators::tests::{cluster, host};
use api::HostRole;
use std::collections::BTreeSet;

/// Kinds of these manifests that are not in a namespace.
const CLUSTER_WIDE: [&str; 10] = [
    "ClusterPolicy",
    "DSCInitialization",
    "DataScienceCluster",
    "HostPathProvisioner",
    "KataConfig",
    "MachineConfig",
    "MultiClusterEngine",
    "NMState",
    "Namespace",
    "StorageClass",
];
/// The same, where the names alone do not tell.
const ALSO_CLUSTER_WIDE: [&str; 4] = ["AgentServiceConfig", "Config", "NUMAResourcesOperator", "NodeHealthCheck"];

fn masters() -> Vec<Arc<HostRecord>> {
    (0..3).map(|_| Arc::new(host(HostRole::Master, &[120, 50, 60, 1]))).collect()
}

fn of(version: &str, masters_wanted: u32, operators: &[&str]) -> OperatorManifests {
    manifests(&cluster(version, masters_wanted, operators), &masters())
}

fn documents(text: &str) -> Vec<Value> {
    if text.is_empty() {
        return Vec::new();
    }
    ignition::yaml::documents::<Value>(text.as_bytes(), 1 << 20).unwrap()
}

fn checked(object: &Value, of: &str) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind");
    assert!(!kind.is_empty() && !text("/metadata/name").is_empty(), "{of}: {object}");
    assert!(text("/apiVersion").rsplit('/').next().unwrap().starts_with('v'), "{of}: {object}");
    let wide = CLUSTER_WIDE.contains(&kind) || ALSO_CLUSTER_WIDE.contains(&kind);
    assert_eq!(text("/metadata/namespace").is_empty(), wide, "{of}: {kind}");
}

#[test]
fn each_operator_has_a_subscription_and_only_objects() {
    for operator in OPERATORS {
        for (version, masters) in [("4.11.9", 1), ("4.18.1", 3), ("4.22.9", 3), ("4.22.9", 1)] {
            let made = of(version, masters, &[operator.name]);
            let names: BTreeSet<&str> = made.openshift.iter().map(|own| own.file.as_str()).collect();
            assert_eq!(names.len(), made.openshift.len(), "{names:?}");
            for own in &made.openshift {
                assert!(
                    own.file == LIST_FILE || own.file.starts_with("50_") && own.file.ends_with(".yaml"),
                    "{}",
                    own.file
                );
                let [object] = documents(&own.content).try_into().unwrap();
                checked(&object, &own.file);
            }
            let of_kind = |kind: &str| {
                let objects = made.openshift.iter().map(|own| documents(&own.content).remove(0));
                objects.filter(|object| object["kind"] == kind).collect::<Vec<_>>()
            };
            let [subscription] = of_kind("Subscription").try_into().unwrap();
            assert_eq!(subscription["metadata"]["namespace"], operator.namespace);
            assert_eq!(subscription["spec"]["sourceNamespace"], MARKETPLACE);
            assert_eq!(of_kind("Namespace").len(), of_kind("OperatorGroup").len());
            let [custom] = &made.custom[..] else { panic!("{:?}", made.custom) };
            assert_eq!(custom.name, operator.name);
            for object in documents(&custom.content) {
                checked(&object, operator.name);
            }
        }
    }
}

#[test]
fn files_have_the_published_names() {
    let names = |operators: &[&str]| {
        let made = of("4.22.9", 3, operators).openshift;
        made.into_iter().map(|own| own.file).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&["lso"]),
        [
            "50_openshift-lso_ns.yaml",
            "50_openshift-lso_operator_group.yaml",
            "50_openshift-lso_subscription.yaml",
            "50_openshift-lso_prometheus-rolebinding.yaml",
            "50_openshift-lso_prometheus-role.yaml",
            LIST_FILE
        ]
    );
    assert_eq!(names(&["mce"])[2], "50_openshift-mce_operator_subscription.yaml");
    assert_eq!(names(&["authorino"]), ["50_authorino_subscription.yaml", LIST_FILE]);
    assert_eq!(names(&["nvidia-gpu"])[..2], ["50_nvidia_gpu_namespace.yaml", "50_nvidia_gpu_operatorgroup.yaml"]);
    assert_eq!(
        names(&["cnv"])[3..5],
        ["50_openshift-cnv_workers_schedstats.yaml", "50_openshift-cnv_masters_schedstats.yaml"]
    );
    assert_eq!(names(&[]), [""; 0]);
}

#[test]
fn a_subscription_says_where_the_operator_comes_from() {
    let spec = |version: &str, name: &str| {
        let made = of(version, 3, &[name]).openshift;
        let own = made.iter().find(|own| own.file.ends_with("subscription.yaml")).unwrap();
        documents(&own.content).remove(0)
    };
    let cnv = spec("4.22.9", "cnv");
    assert_eq!(cnv["metadata"], json!({"name": "hco-operatorhub", "namespace": "openshift-cnv"}));
    assert_eq!(
        cnv["spec"],
        json!({"channel": "stable", "installPlanApproval": "Automatic", "name": "kubevirt-hyperconverged",
               "source": "redhat-operators", "sourceNamespace": "openshift-marketplace"})
    );
    assert_eq!(spec("4.22.9", "amd-gpu")["spec"]["source"], "certified-operators");
    assert_eq!(spec("4.22.9", "amd-gpu")["spec"]["channel"], "alpha");
    assert_eq!(spec("4.22.9", "odf")["spec"].get("channel"), None);
    let lvm = |version| spec(version, "lvm")["spec"]["name"].clone();
    assert_eq!((lvm("4.11.9"), lvm("4.12.0")), (json!("odf-lvm-operator"), json!("lvms-operator")));
}

fn custom(version: &str, masters: u32, operators: &[&str], name: &str) -> Vec<Value> {
    let made = of(version, masters, operators).custom;
    made.iter().filter(|own| own.name == name).flat_map(|own| documents(&own.content)).collect()
}

#[test]
fn storage_has_the_disks_that_are_there() {
    let cluster = custom("4.22.9", 3, &["odf"], "odf");
    assert_eq!(cluster.len(), 1);
    let set = &cluster[0]["spec"]["storageDeviceSets"][0];
    assert_eq!((&set["count"], &set["resources"]["limits"]["memory"]), (&json!(6), &json!("5Gi")));
    assert_eq!(custom("4.18.9", 3, &["odf"], "odf")[0]["kind"], "StorageSystem");
    let default = |operators: &[&str]| {
        let made = custom("4.22.9", 3, operators, "odf");
        made[0]["spec"].pointer("/managedResources/cephBlockPools/defaultStorageClass").cloned()
    };
    assert_eq!((default(&["odf"]), default(&["odf", "openshift-ai"])), (None, Some(json!(true))));
    let class = |operators: &[&str]| {
        let made = custom("4.22.9", 1, operators, "lvm");
        made[0]["spec"]["storage"]["deviceClasses"][0].get("default").cloned()
    };
    assert_eq!((class(&["lvm"]), class(&["lvm", "openshift-ai"])), (None, Some(json!(true))));
}

#[test]
fn what_is_beside_an_operator_changes_its_objects() {
    let kinds = |objects: Vec<Value>| {
        objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(custom("4.11.9", 1, &["cnv"], "cnv")), ["HyperConverged", "HostPathProvisioner"]);
    assert_eq!(kinds(custom("4.12.0", 1, &["cnv"], "cnv")), ["HyperConverged"]);
    assert_eq!(kinds(custom("4.22.9", 3, &["kmm"], "kmm")), [""; 0]);
    assert_eq!(kinds(custom("4.22.9", 3, &["kmm", "odf"], "kmm")), ["PersistentVolumeClaim", "Config"]);
    let ai = custom("4.22.9", 1, &["openshift-ai", "nvidia-gpu"], "openshift-ai");
    assert_eq!(ai[0]["spec"]["components"]["kserve"]["managementState"], "Removed");
    assert_eq!(kinds(ai), ["DataScienceCluster", "DSCInitialization", "HardwareProfile"]);
    let descheduler = |version: &str, operators: &[&str]| custom(version, 3, operators, "kube-descheduler");
    assert_eq!(descheduler("4.22.9", &["kube-descheduler"])[0]["spec"]["mode"], "Predictive");
    for (version, profile, objects) in [
        ("4.16.1", "DevPreviewLongLifecycle", 1),
        ("4.18.1", "DevKubeVirtRelieveAndMigrate", 3),
        ("4.22.9", "KubeVirtRelieveAndMigrate", 3),
    ] {
        let made = descheduler(version, &["kube-descheduler", "cnv"]);
        assert_eq!((&made[0]["spec"]["profiles"][0], made.len()), (&json!(profile), objects), "{version}");
    }
}

#[test]
fn the_engine_keeps_its_data_with_the_storage() {
    let names = |operators: &[&str]| {
        let made = of("4.22.9", 3, operators).custom;
        made.into_iter().map(|own| own.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["mce", "lvm"]), ["lvm", "mce", "lvm"]);
    assert_eq!(names(&["mce"]), ["mce"]);
    let made = custom("4.22.9", 3, &["mce", "odf"], "odf");
    let spec = &made.last().unwrap()["spec"];
    assert_eq!(spec["imageStorage"]["storageClassName"], "ocs-storagecluster-cephfs");
    assert_eq!(spec["imageStorage"]["resources"]["requests"]["storage"], "50Gi");
}

#[test]
fn the_list_has_every_document_once() {
    let made = of("4.22.9", 3, &["mce", "odf", "authorino"]);
    let list = documents(&made.openshift.last().unwrap().content).remove(0);
    assert_eq!(list["metadata"], json!({"name": "olm-operator-manifests", "namespace": "assisted-installer"}));
    let names: Vec<&str> = list["data"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["mce-01.yaml", "mce.metadata.yaml", "odf-01.yaml", "odf-02.yaml", "odf.metadata.yaml"]);
    let about = documents(list["data"]["odf.metadata.yaml"].as_str().unwrap()).remove(0);
    let files = json!(["odf-01.yaml", "odf-02.yaml"]);
    assert_eq!(
        about,
        json!({"manifests": files, "namespace": "openshift-storage", "subscriptionName": "odf-operator"})
    );
    let first = BASE64.decode(list["data"]["odf-01.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(documents(std::str::from_utf8(&first).unwrap())[0]["kind"], "StorageCluster");
}

#[test]
fn hosts_that_are_added_find_the_operators_there() {
    let mut cluster = cluster("4.22.9", 3, &["lso"]);
    cluster.cluster.kind = crate::model::DAY2_CLUSTER.into();
    assert_eq!(manifests(&cluster, &masters()), OperatorManifests::default());
}
