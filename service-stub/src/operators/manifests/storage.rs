//! Objects of OpenShift Data Foundation and Logical Volume Management, and what is stored there.

use super::object::Object;
use crate::operators::situation::{Situation, StorageMode};
use crate::releases::version::older;
use serde_json::{Value, json};

/// Where both operators are.
pub(super) const NAMESPACE: &str = "openshift-storage";
/// The local disks, as Local Storage Operator offers them.
pub(super) const LOCAL_DISKS: &str = "localblock-sc";
/// The class of shared file systems.
pub(super) const FILES: &str = "ocs-storagecluster-cephfs";
/// The class of volumes.
const VOLUMES: &str = "lvms-vg1";
const STORAGE: &str = "ocs-storagecluster";
const WORKER: &str = "node-role.kubernetes.io/worker";

pub(super) fn cluster(situation: &Situation, disks: usize) -> Vec<Object> {
    let compact = situation.storage_mode() == StorageMode::Compact;
    let mut set = json!({
        "count": disks,
        "dataPVCTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1"}},
            "storageClassName": LOCAL_DISKS,
            "volumeMode": "Block",
        }},
        "name": "ocs-deviceset",
        "placement": apart("rook-ceph-osd"),
        "portable": false,
        "preparePlacement": apart("rook-ceph-osd-prepare"),
        "replica": 1,
    });
    let mut spec = json!({
        "flexibleScaling": true,
        "labelSelector": {"matchExpressions": [{"key": WORKER, "operator": "In", "values": [""]}]},
        "manageNodes": false,
        "monDataDirHostPath": "/var/lib/rook",
    });
    if compact {
        // The control plane needs the rest of its nodes.
        set["resources"] = share("1", "2", "5Gi");
        spec["resources"] = json!({"mds": share("1", "3", "8Gi"), "rgw": share("1", "2", "4Gi")});
    }
    spec["storageDeviceSets"] = json!([set]);
    if is_default_for_models(situation) {
        spec["managedResources"] = json!({"cephBlockPools": {"defaultStorageClass": true}});
    }
    let cluster = Object::new("ocs.openshift.io/v1", "StorageCluster", STORAGE).within(NAMESPACE).spec(spec);
    let system = older(situation.version(), "4.19.0").then(|| {
        Object::new("odf.openshift.io/v1alpha1", "StorageSystem", "ocs-storagecluster-storagesystem")
            .within(NAMESPACE)
            .spec(json!({"kind": "storagecluster.ocs.openshift.io/v1", "name": STORAGE, "namespace": NAMESPACE}))
    });
    system.into_iter().chain([cluster]).collect()
}

/// On workers, and not beside another of its kind.
fn apart(app: &str) -> Value {
    let beside = json!({
        "podAffinityTerm": {
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]},
            "topologyKey": "kubernetes.io/hostname",
        },
        "weight": 100,
    });
    let node = json!({"matchExpressions": [{"key": WORKER, "operator": "Exists"}]});
    json!({
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node]}},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [beside]},
    })
}

fn share(cpus: &str, most_cpus: &str, memory: &str) -> Value {
    json!({"limits": {"cpu": most_cpus, "memory": memory}, "requests": {"cpu": cpus, "memory": memory}})
}

/// OpenShift AI takes the default class.
fn is_default_for_models(situation: &Situation) -> bool {
    situation.has("openshift-ai")
}

pub(super) fn volumes(situation: &Situation) -> Object {
    let pool = json!({"name": "thin-pool-1", "overprovisionRatio": 10, "sizePercent": 90});
    let mut class = json!({"name": "vg1", "thinPoolConfig": pool});
    if is_default_for_models(situation) {
        class["default"] = true.into();
    }
    Object::new("lvm.topolvm.io/v1alpha1", "LVMCluster", "lvmcluster-sample")
        .within(NAMESPACE)
        .spec(json!({"storage": {"deviceClasses": [class]}}))
}

/// What multicluster engine keeps, with the operator that keeps it.
pub(super) fn of_engine(situation: &Situation) -> Option<(&'static str, Object)> {
    let (keeper, class) = match (situation.has("odf"), situation.has("lvm")) {
        (true, _) => ("odf", FILES),
        (false, true) => ("lvm", VOLUMES),
        (false, false) => return None,
    };
    let volume = |size: &str| {
        json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": class,
        })
    };
    let spec = json!({
        "databaseStorage": volume("10Gi"),
        "filesystemStorage": volume("10Gi"),
        "imageStorage": volume("50Gi"),
    });
    Some((keeper, Object::new("agent-install.openshift.io/v1beta1", "AgentServiceConfig", "agent").spec(spec)))
}
