//! What each operator is told to do, once it is there.

use super::object::{Object, machine_config};
use super::storage;
use crate::operators::situation::{MACHINES_POOL_GIB, Situation};
use crate::operators::table::Operator;
use crate::releases::version::older;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

/// Both kinds of nodes that run what users bring.
const POOLS: [&str; 2] = ["worker", "master"];
/// Where the applications of OpenShift AI are.
const MODELS: &str = "redhat-ods-applications";
/// PCI ids of accelerators, of their virtual functions, and of network cards with theirs.
const AMD_GPUS: [&str; 15] = [
    "75a3", "75a8", "75a0", "74a5", "74a2", "74a8", "74a0", "74a1", "74a9", "74bd", "740f", "7408", "740c", "738c",
    "738e",
];
const AMD_VIRTUAL_GPUS: [&str; 9] = ["75b3", "75b8", "75b0", "74b9", "74b6", "74bc", "74b5", "74bd", "7410"];
const AMD_NICS: [&str; 1] = ["1002"];
const AMD_VIRTUAL_NICS: [&str; 1] = ["1003"];

/// The operator's own objects, in the order they are applied in.
pub(super) fn of(operator: &Operator, situation: &Situation, disks: usize) -> Vec<Object> {
    let own = operator.namespace;
    match operator.name {
        "amd-gpu" => amd_gpu(own),
        "cluster-observability" => observability(own),
        "cnv" => machines(own, situation),
        "kmm" => registry(situation),
        "kube-descheduler" => descheduler(own, situation),
        "lso" => {
            vec![Object::new("local.storage.openshift.io/v1alpha1", "LocalVolumeSet", "local-disks").within(own).spec(
                json!({
                    "deviceInclusionSpec": {"deviceTypes": ["disk"]},
                    "storageClassName": storage::LOCAL_DISKS,
                    "volumeMode": "Block",
                }),
            )]
        }
        "lvm" => vec![storage::volumes(situation)],
        "mce" => vec![
            Object::new("multicluster.openshift.io/v1", "MultiClusterEngine", "mce")
                .spec(json!({"targetNamespace": own})),
        ],
        "metallb" => vec![Object::new("metallb.io/v1beta1", "MetalLB", "metallb").within(own).spec(json!({}))],
        "mtv" => vec![
            Object::new("forklift.konveyor.io/v1beta1", "ForkliftController", "forklift-controller")
                .within(own)
                .spec(json!({"olm_managed": true})),
        ],
        "nmstate" => vec![Object::new("nmstate.io/v1", "NMState", "nmstate")],
        "node-feature-discovery" => features(own),
        "node-healthcheck" => vec![healthcheck(own)],
        "numaresources" => {
            vec![Object::new("nodetopology.openshift.io/v1", "NUMAResourcesOperator", operator.name).spec(json!({
                "nodeGroups": [{"machineConfigPoolSelector": {
                    "matchLabels": {"pools.operator.machineconfiguration.openshift.io/worker": ""},
                }}],
            }))]
        }
        "nvidia-gpu" => vec![nvidia_policy()],
        "oadp" => vec![
            Object::new("oadp.openshift.io/v1alpha1", "DataProtectionApplication", "dpa-sample")
                .within(own)
                .spec(json!({"configuration": {"velero": {"defaultPlugins": ["openshift"]}}})),
        ],
        "odf" => storage::cluster(situation, disks),
        "openshift-ai" => models(situation),
        "osc" => vec![
            Object::new("kataconfiguration.openshift.io/v1", "KataConfig", "cluster-kataconfig")
                .spec(json!({"enablePeerPods": false, "logLevel": "info"})),
        ],
        _ => Vec::new(),
    }
}

/// Further files for the first node, by how their names end.
pub(super) fn beside(operator: &Operator, situation: &Situation) -> Vec<(&'static str, Object)> {
    if operator.name != "cnv" {
        return Vec::new();
    }
    let counters = |role: &str| {
        let name = format!("50-{role}s-enable-schedstats");
        machine_config(&name, role, json!({"kernelArguments": ["schedstats=enable"]}))
    };
    let class = situation.pools_machines().then(|| {
        let class = Object::new("storage.k8s.io/v1", "StorageClass", "sno-storage")
            .about("annotations", json!({"storageclass.kubernetes.io/is-default-class": "true"}))
            .with("parameters", json!({"storagePool": "sno"}))
            .with("provisioner", "kubevirt.io.hostpath-provisioner".into())
            .with("reclaimPolicy", "Delete".into())
            .with("volumeBindingMode", "Immediate".into());
        ("hpp_sc", class)
    });
    let counters = [("workers_schedstats", counters("worker")), ("masters_schedstats", counters("master"))];
    counters.into_iter().chain(class).collect()
}

/// Applied with the operator that keeps the data of multicluster engine.
pub(super) fn engine_on_storage(situation: &Situation) -> Option<(&'static str, Vec<Object>)> {
    let (keeper, object) = storage::of_engine(situation).filter(|_| situation.has("mce"))?;
    Some((keeper, vec![object]))
}

/// The kernel's own driver leaves the devices alone.
fn amd_gpu(own: &str) -> Vec<Object> {
    let source = format!("data:text/plain;base64,{}", BASE64.encode("blacklist amdgpu\n"));
    let file = json!({
        "contents": {"source": source},
        "mode": 0o644,
        "overwrite": true,
        "path": "/etc/modprobe.d/amdgpu-blacklist.conf",
    });
    let config = json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}});
    let blacklists =
        POOLS.map(|role| machine_config(&format!("99-amdgpu-module-blacklist-{role}"), role, config.clone()));
    let devices = Object::new("amd.com/v1alpha1", "DeviceConfig", "default").within(own).spec(json!({
        "devicePlugin": {
            "devicePluginImage": "docker.io/rocm/k8s-device-plugin:latest",
            "nodeLabellerImage": "docker.io/rocm/k8s-device-plugin:labeller-latest",
        },
        "driver": {"version": "6.4.3"},
        "selector": {"feature.node.kubernetes.io/amd-gpu": "true"},
    }));
    blacklists.into_iter().chain([devices]).collect()
}

fn observability(own: &str) -> Vec<Object> {
    let api = "monitoring.rhobs/v1alpha1";
    let stack = Object::new(api, "MonitoringStack", "sample-monitoring-stack")
        .within(own)
        .labelled("mso", "example")
        .spec(json!({"logLevel": "debug", "resourceSelector": {"matchLabels": {"app": "demo"}}, "retention": "1d"}));
    let querier = Object::new(api, "ThanosQuerier", "example-thanos")
        .within(own)
        .spec(json!({"selector": {"matchLabels": {"mso": "example"}}}));
    vec![stack, querier]
}

fn machines(own: &str, situation: &Situation) -> Vec<Object> {
    let machines = Object::new("hco.kubevirt.io/v1beta1", "HyperConverged", "kubevirt-hyperconverged")
        .within(own)
        .spec(json!({"BareMetalPlatform": true}));
    let pool = situation.pools_machines().then(|| {
        let claim = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": format!("{MACHINES_POOL_GIB}Gi")}},
            "storageClassName": storage::LOCAL_DISKS,
            "volumeMode": "Block",
        });
        let pool = json!({"name": "sno", "path": "/var/hpvolumes", "pvcTemplate": claim});
        Object::new("hostpathprovisioner.kubevirt.io/v1beta1", "HostPathProvisioner", "hostpath-provisioner").spec(
            json!({
                "imagePullPolicy": "IfNotPresent",
                "storagePools": [pool],
                "workload": {"nodeSelector": {"kubernetes.io/os": "linux"}},
            }),
        )
    });
    [machines].into_iter().chain(pool).collect()
}

/// Modules are built into images, which need the cluster's own registry, and that needs storage.
fn registry(situation: &Situation) -> Vec<Object> {
    const NAMESPACE: &str = "openshift-image-registry";
    const CLAIM: &str = "registry-storage";
    if !situation.has("odf") {
        return Vec::new();
    }
    let claim = Object::new("v1", "PersistentVolumeClaim", CLAIM).within(NAMESPACE).spec(json!({
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "100Gi"}},
        "storageClassName": storage::FILES,
    }));
    let registry = Object::new("imageregistry.operator.openshift.io/v1", "Config", "cluster")
        .spec(json!({"managementState": "Managed", "replicas": 2, "storage": {"pvc": {"claim": CLAIM}}}));
    vec![claim, registry]
}

/// Beside virtual machines it moves them where there is room; else it only predicts.
fn descheduler(own: &str, situation: &Situation) -> Vec<Object> {
    let version = situation.version();
    let descheduler = |mode: &str, seconds: u32, profiles: &[&str], custom: Value| {
        let mut spec = json!({
            "deschedulingIntervalSeconds": seconds,
            "logLevel": "Normal",
            "managementState": "Managed",
            "mode": mode,
            "operatorLogLevel": "Normal",
            "profiles": profiles,
        });
        if !custom.is_null() {
            spec["profileCustomizations"] = custom;
        }
        Object::new("operator.openshift.io/v1", "KubeDescheduler", "cluster").within(own).spec(spec)
    };
    if !situation.has("cnv") {
        return vec![descheduler("Predictive", 3600, &["AffinityAndTaints"], Value::Null)];
    }
    let (profiles, custom): (&[&str], Value) = if older(version, "4.18.0") {
        (
            &["DevPreviewLongLifecycle", "EvictPodsWithPVC", "EvictPodsWithLocalStorage"],
            json!({"devEnableEvictionsInBackground": true}),
        )
    } else if older(version, "4.19.0") {
        (
            &["DevKubeVirtRelieveAndMigrate"],
            json!({
                "devActualUtilizationProfile": "PrometheusCPUCombined",
                "devDeviationThresholds": "AsymmetricLow",
                "devEnableEvictionsInBackground": true,
                "devEnableSoftTainter": true,
            }),
        )
    } else if older(version, "4.20.0") {
        (&["DevKubeVirtRelieveAndMigrate"], Value::Null)
    } else {
        (&["KubeVirtRelieveAndMigrate"], Value::Null)
    };
    let descheduler = descheduler("Automatic", 60, profiles, custom);
    // From that version on it goes by what the kernel measures of pressure.
    let pressure = POOLS.into_iter().filter(|_| !older(version, "4.18.0")).map(|role| {
        machine_config(
            &format!("99-openshift-machineconfig-{role}-psi-karg"),
            role,
            json!({"kernelArguments": ["psi=1"]}),
        )
    });
    [descheduler].into_iter().chain(pressure).collect()
}

fn features(own: &str) -> Vec<Object> {
    let any_of = |values: &[&str]| json!({"op": "In", "value": values});
    let rule = |name: &str, mut matched: Value, devices: &[&str]| {
        matched["device"] = any_of(devices);
        let label = format!("feature.node.kubernetes.io/{name}");
        Object::new("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule", name).within(own).spec(json!({"rules": [{
            "labels": {label: "true"},
            "matchFeatures": [{"feature": "pci.device", "matchExpressions": matched}],
            "name": name,
        }]}))
    };
    let gpu = json!({"vendor": any_of(&["1002"])});
    let maker = any_of(&["1dd8"]);
    let nic = json!({"subsystem_device": any_of(&["5201"]), "subsystem_vendor": maker, "vendor": maker});
    let worker = json!({
        "core": {"sleepInterval": "60s"},
        "sources": {"pci": {"deviceClassWhitelist": ["0200", "03", "12"], "deviceLabelFields": ["vendor"]}},
    });
    let discovery =
        Object::new("nfd.openshift.io/v1", "NodeFeatureDiscovery", "nfd-instance").within(own).spec(json!({
            "instance": "",
            "operand": {"imagePullPolicy": "IfNotPresent", "servicePort": 12000},
            "topologyUpdater": false,
            "workerConfig": {"configData": super::object::yaml(&worker)},
        }));
    vec![
        rule("amd-gpu", gpu.clone(), &AMD_GPUS),
        rule("amd-nic", nic.clone(), &AMD_NICS),
        rule("amd-vgpu", gpu, &AMD_VIRTUAL_GPUS),
        rule("amd-vnic", nic, &AMD_VIRTUAL_NICS),
        discovery,
    ]
}

fn healthcheck(own: &str) -> Object {
    let without = |role: &str| json!({"key": format!("node-role.kubernetes.io/{role}"), "operator": "DoesNotExist"});
    let not_ready = |status: &str| json!({"duration": "300s", "status": status, "type": "Ready"});
    let name = "node-healthcheck-self-node-remediation-workers";
    Object::new("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", name).spec(json!({
        "minHealthy": "51%",
        "remediationTemplate": {
            "apiVersion": "self-node-remediation.medik8s.io/v1alpha1",
            "kind": "SelfNodeRemediationTemplate",
            "name": "self-node-remediation-automatic-strategy-template",
            "namespace": own,
        },
        "selector": {"matchExpressions": [without("control-plane"), without("master")]},
        "unhealthyConditions": [not_ready("False"), not_ready("Unknown")],
    }))
}

fn nvidia_policy() -> Object {
    let on = json!({"enabled": true});
    let off = json!({"enabled": false});
    let no_config = json!({"name": ""});
    Object::new("nvidia.com/v1", "ClusterPolicy", "gpu-cluster-policy").spec(json!({
        "daemonsets": {"rollingUpdate": {"maxUnavailable": "1"}, "updateStrategy": "RollingUpdate"},
        "dcgm": on,
        "dcgmExporter": {"config": no_config, "enabled": true, "serviceMonitor": on},
        "devicePlugin": {"config": {"default": "", "name": ""}, "enabled": true, "mps": {"root": "/run/nvidia/mps"}},
        "driver": {
            "certConfig": no_config,
            "enabled": true,
            "kernelModuleConfig": no_config,
            "licensingConfig": {"configMapName": "", "nlsEnabled": true},
            "repoConfig": {"configMapName": ""},
            "upgradePolicy": {
                "autoUpgrade": true,
                "drain": {"deleteEmptyDir": false, "enable": false, "force": false, "timeoutSeconds": 300},
                "maxParallelUpgrades": 1,
                "maxUnavailable": "25%",
                "podDeletion": {"deleteEmptyDir": false, "force": false, "timeoutSeconds": 300},
                "waitForCompletion": {"timeoutSeconds": 0},
            },
            "useNvidiaDriverCRD": false,
            "useOpenKernelModules": false,
            "virtualTopology": {"config": ""},
        },
        "gdrcopy": off,
        "gds": off,
        "gfd": on,
        "mig": {"strategy": "single"},
        "migManager": on,
        "nodeStatusExporter": on,
        "operator": {
            "defaultRuntime": "crio",
            "initContainer": {},
            "runtimeClass": "nvidia",
            "use_ocp_driver_toolkit": true,
        },
        "sandboxDevicePlugin": on,
        "sandboxWorkloads": {"defaultWorkload": "container", "enabled": false},
        "toolkit": {"enabled": true, "installDir": "/usr/local/nvidia"},
        "validator": {"plugin": {"env": [{"name": "WITH_WORKLOAD", "value": "false"}]}},
        "vfioManager": on,
        "vgpuDeviceManager": on,
        "vgpuManager": off,
    }))
}

/// OpenShift AI; a single node has neither Serverless nor Service Mesh.
fn models(situation: &Situation) -> Vec<Object> {
    let state = |managed: bool| json!({"managementState": if managed { "Managed" } else { "Removed" }});
    let many = !situation.cluster.single_node();
    let served = if many { "Managed" } else { "Removed" };
    let profile = |operator: &str, vendor: &str, title: &str| {
        let device = format!("{vendor}.com/gpu");
        situation.has(operator).then(|| {
            Object::new("infrastructure.opendatahub.io/v1alpha1", "HardwareProfile", operator).within(MODELS).spec(
                json!({
                    "identifiers": [{
                        "defaultCount": 1,
                        "displayName": title,
                        "identifier": device,
                        "minCount": 0,
                        "resourceType": "Accelerator",
                    }],
                    "scheduling": {"node": {
                        "tolerations": [{"effect": "NoSchedule", "key": device, "operator": "Exists"}],
                    }, "type": "Node"},
                }),
            )
        })
    };
    let serving = json!({
        "ingressGateway": {"certificate": {"type": "OpenshiftDefaultIngress"}},
        "managementState": "Managed",
        "name": "knative-serving",
    });
    let cluster =
        Object::new("datasciencecluster.opendatahub.io/v1", "DataScienceCluster", "default-dsc").spec(json!({
            "components": {
                "codeflare": state(true),
                "dashboard": state(true),
                "datasciencepipelines": state(true),
                "kserve": {"managementState": served, "serving": serving},
                "kueue": state(true),
                "modelmeshserving": state(true),
                "ray": state(true),
                "trainingoperator": state(false),
                "trustyai": state(false),
                "workbenches": state(true),
            },
        }));
    let beginning =
        Object::new("dscinitialization.opendatahub.io/v1", "DSCInitialization", "default-dsci").spec(json!({
            "applicationsNamespace": MODELS,
            "monitoring": {"managementState": "Managed", "namespace": "redhat-ods-monitoring"},
            "serviceMesh": {"managementState": served},
            "trustedCABundle": {"customCABundle": "", "managementState": "Managed"},
        }));
    profile("amd-gpu", "amd", "AMD GPU")
        .into_iter()
        .chain([cluster, beginning])
        .chain(profile("nvidia-gpu", "nvidia", "NVIDIA GPU"))
        .collect()
}
