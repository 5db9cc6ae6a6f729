//! `create manifests`.

use crate::{
    Config,
    assets::{self, Asset, yaml},
};
use anyhow::Context;
use serde_json::{Value, json};
use std::{env, fs, path::Path};
use uuid::Uuid;

/// What the next command knows of this one.
pub(crate) const STATE: &str = ".openshift_install_state.json";

pub(crate) fn release_image() -> String {
    let image = env::var("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE");
    image.unwrap_or_else(|_| "quay.io/openshift-release-dev/ocp-release@sha256:0".to_owned())
}

pub(crate) fn create(directory: &Path) -> anyhow::Result<Vec<Asset>> {
    let path = directory.join("install-config.yaml");
    let text = fs::read(&path).context("failed to fetch Manifests: there is no install-config.yaml")?;
    let text: Value = serde_norway::from_slice(&text).context("install-config.yaml is not YAML")?;
    let config = Config::check(text)?;
    fs::remove_file(path)?;
    eprintln!("level=info msg=\"Consuming Install Config from target directory\"");
    let mut made = of_cluster(&config);
    made.extend(of_openshift(&config));
    made.push(assets::json(STATE, &json!({"*installconfig.InstallConfig": {"config": config.text}})));
    made.push((".openshift_install.log".to_owned(), b"time=now level=info msg=\"Manifests created\"\n".to_vec()));
    eprintln!("level=info msg=\"Manifests created in: {}\"", directory.display());
    Ok(made)
}

/// The folder `manifests`.
fn of_cluster(config: &Config) -> Vec<Asset> {
    let object = |file: &str, version: &str, kind: &str, rest: Value| {
        let mut all = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "cluster"}});
        if let (Some(all), Value::Object(rest)) = (all.as_object_mut(), rest) {
            all.extend(rest);
        }
        yaml(&format!("manifests/{file}"), &all)
    };
    let domain = config.full_domain();
    let control_plane = match (config.masters, config.arbiters) {
        (1, _) => "SingleReplica",
        (_, 0) => "HighlyAvailable",
        _ => "HighlyAvailableArbiter",
    };
    let infrastructure = match config.workers {
        0 if config.masters > 1 => "HighlyAvailable",
        0 | 1 => "SingleReplica",
        _ => "HighlyAvailable",
    };
    let version = "config.openshift.io/v1";
    let text = serde_norway::to_string(&config.text).unwrap_or_default();
    vec![
        object(
            "cluster-config.yaml",
            "v1",
            "ConfigMap",
            json!({"metadata": {"name": "cluster-config-v1", "namespace": "kube-system"}, "data": {"install-config": text}}),
        ),
        object(
            "cluster-infrastructure-02-config.yml",
            version,
            "Infrastructure",
            json!({
                "spec": {"platformSpec": {"type": config.platform}},
                "status": {
                    "apiServerInternalURI": format!("https://api-int.{domain}:6443"),
                    "apiServerURL": format!("https://api.{domain}:6443"),
                    "controlPlaneTopology": control_plane,
                    "infrastructureTopology": infrastructure,
                    "platform": config.platform,
                },
            }),
        ),
        object("cluster-dns-02-config.yml", version, "DNS", json!({"spec": {"baseDomain": domain}})),
        object(
            "cluster-ingress-02-config.yml",
            version,
            "Ingress",
            json!({"spec": {"domain": format!("apps.{domain}")}}),
        ),
        object("cluster-network-02-config.yml", version, "Network", json!({"spec": config.text["networking"]})),
        object("cluster-proxy-01-config.yaml", version, "Proxy", json!({"spec": config.text["proxy"]})),
        object(
            "cluster-scheduler-02-config.yml",
            version,
            "Scheduler",
            json!({"spec": {"mastersSchedulable": config.workers == 0, "policy": {"name": ""}}, "status": {}}),
        ),
        object(
            "cvo-overrides.yaml",
            version,
            "ClusterVersion",
            json!({
                "metadata": {"name": "version", "namespace": "openshift-cluster-version"},
                "spec": {"channel": "stable-4.22", "clusterID": Uuid::new_v4()},
            }),
        ),
    ]
}

/// The folder `openshift`.
fn of_openshift(config: &Config) -> Vec<Asset> {
    let file = |name: &str, content: Value| yaml(&format!("openshift/{name}"), &content);
    let machine_config = |role: &str| {
        let ssh = json!({"ignition": {"version": "3.2.0"}, "passwd": {"users": [{"name": "core",
            "sshAuthorizedKeys": [config.text["sshKey"]]}]}});
        let content = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"labels": {"machineconfiguration.openshift.io/role": role}, "name": format!("99-{role}-ssh")},
            "spec": {"config": ssh}});
        file(&format!("99_openshift-machineconfig_99-{role}-ssh.yaml"), content)
    };
    let invoker = env::var("OPENSHIFT_INSTALL_INVOKER").unwrap_or_else(|_| "user".to_owned());
    let mut made = vec![file(
        "openshift-install-manifests.yaml",
        json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "openshift-install-manifests", "namespace": "openshift-config"},
                "data": {"invoker": invoker, "version": crate::VERSION}}),
    )];
    if config.text["sshKey"].as_str().is_some_and(|key| !key.is_empty()) {
        let roles = ["master", "worker"].into_iter().chain((config.arbiters > 0).then_some("arbiter"));
        made.extend(roles.map(machine_config));
    }
    if matches!(config.platform.as_str(), "baremetal" | "vsphere" | "nutanix") {
        made.extend(machines(config));
    }
    if config.platform == "baremetal" {
        let content = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
            "metadata": {"name": "provisioning-configuration"}, "spec": {"provisioningNetwork": "Disabled"}});
        made.push(file("99_baremetal-provisioning-config.yaml", content));
        made.extend(hosts(config));
    }
    made
}

fn machines(config: &Config) -> Vec<Asset> {
    let object = |kind: &str, name: String| {
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": kind,
            "metadata": {"name": format!("{}-{name}", config.name), "namespace": "openshift-machine-api"}})
    };
    let machine = |index| {
        let path = format!("openshift/99_openshift-cluster-api_master-machines-{index}.yaml");
        yaml(&path, &object("Machine", format!("master-{index}")))
    };
    let mut made: Vec<Asset> = (0..config.masters).map(machine).collect();
    let set = "openshift/99_openshift-cluster-api_worker-machineset-0.yaml";
    made.push(yaml(set, &object("MachineSet", "worker-0".to_owned())));
    if config.platform != "baremetal" {
        let set = "openshift/99_openshift-machine-api_master-control-plane-machine-set.yaml";
        made.push(yaml(set, &object("ControlPlaneMachineSet", "cluster".to_owned())));
    }
    made
}

fn hosts(config: &Config) -> Vec<Asset> {
    let listed = config.text.pointer("/platform/baremetal/hosts").and_then(Value::as_array);
    let host = |(index, host): (usize, &Value)| {
        let kind = if host["role"] == "arbiter" { "arbiter_hosts" } else { "hosts" };
        let spec = json!({"bmc": {"address": "", "credentialsName": ""}, "bootMACAddress": host["bootMACAddress"],
            "online": true, "bootMode": "UEFI"});
        let content = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": host["name"], "namespace": "openshift-machine-api"}, "spec": spec,
            "status": {"operationalStatus": "", "errorMessage": ""}});
        yaml(&format!("openshift/99_openshift-cluster-api_{kind}-{index}.yaml"), &content)
    };
    listed.into_iter().flatten().enumerate().map(host).collect()
}
