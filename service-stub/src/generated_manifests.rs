//! Manifests that a cluster's settings ask for: they are listed beside those of users, and are in the files of the control plane.

use crate::encryption;
use crate::model::{ClusterRecord, HostRecord};
use crate::operators::{self, ManifestFile};
use crate::rules;
use api::HostRole;
use base64::Engine;
use serde_json::{Value, json};
use std::sync::Arc;

/// The folder of them all.
pub(crate) const FOLDER: &str = "openshift";
/// Where the bootstrap finds what is in the folder.
const BOOTSTRAP_FOLDER: &str = "/opt/openshift/openshift";
const CIPHER: &str = "aes-cbc-essiv:sha256";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    /// Its name in the folder.
    pub(crate) file: String,
    /// YAML.
    pub(crate) content: String,
}

/// Those that must be there when the first node boots: one for each role whose disks are encrypted, and those that install operators.
pub(crate) fn machine_configs(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Vec<Generated> {
    let files = operators::manifests(cluster, hosts).openshift.into_iter();
    let operators = files.map(|ManifestFile { file, content }| Generated { file, content });
    let Some(setting) = cluster.settings.get("disk_encryption") else { return operators.collect() };
    let text = |name: &str| setting[name].as_str().unwrap_or_default();
    let lock = if text("mode") == "tang" { Lock::tang(text("tang_servers")) } else { Lock::tpm() };
    let has_arbiter = hosts.iter().any(|host| host.effective_role() == HostRole::Arbiter);
    [("master", HostRole::Master), ("arbiter", HostRole::Arbiter), ("worker", HostRole::Worker)]
        .into_iter()
        .filter(|(_, role)| encryption::covers(text("enable_on"), *role) && (*role != HostRole::Arbiter || has_arbiter))
        .map(|(role, _)| Generated {
            file: format!("99-openshift-{role}-{}-encryption.yaml", lock.name),
            content: lock.machine_config(role),
        })
        .chain(operators)
        .collect()
}

/// What opens a disk.
struct Lock {
    name: &'static str,
    /// The lines of `clevis`.
    clevis: String,
    /// The lines behind everything else.
    rest: &'static str,
}

impl Lock {
    fn tpm() -> Self {
        Self { name: "tpm", clevis: "            tpm2: true\n".to_owned(), rest: "" }
    }

    fn tang(servers: &str) -> Self {
        let servers = rules::encryption::tang_servers(servers).unwrap_or_default();
        let mut clevis = "            tang:\n".to_owned();
        for server in servers {
            let (url, thumbprint) = (server.url, server.thumbprint);
            clevis += &format!("              - url: {url}\n                thumbprint: {thumbprint}\n");
        }
        Self { name: "tang", clevis, rest: "\n  kernelArguments:\n    - rd.neednet=1" }
    }

    fn machine_config(&self, role: &str) -> String {
        let Self { name, clevis, rest } = self;
        format!(
            "apiVersion: machineconfiguration.openshift.io/v1\n\
             kind: MachineConfig\n\
             metadata:\n  name: {role}-{name}\n  labels:\n    machineconfiguration.openshift.io/role: {role}\n\
             spec:\n  config:\n    ignition:\n      version: 3.2.0\n    storage:\n      luks:\n        - name: root\n          \
             label: luks-root\n          device: /dev/disk/by-partlabel/root\n          clevis:\n{clevis}          \
             options: [--cipher, {CIPHER}]\n          wipeVolume: true\n      filesystems:\n        - \
             device: /dev/mapper/root\n          format: xfs\n          wipeFilesystem: true\n          label: root{rest}"
        )
    }
}

/// The bootstrap's config with the manifests in it. One that it has already stays as it is: the files were made with it.
pub(crate) fn with_machine_configs(config: Vec<u8>, manifests: &[Generated]) -> Result<Vec<u8>, serde_json::Error> {
    if manifests.is_empty() {
        return Ok(config);
    }
    let mut config: Value = serde_json::from_slice(&config)?;
    let files = &mut config["storage"]["files"];
    if !files.is_array() {
        *files = json!([]);
    }
    let Value::Array(files) = files else { return serde_json::to_vec(&config) };
    for manifest in manifests {
        let path = format!("{BOOTSTRAP_FOLDER}/{}", manifest.file);
        if files.iter().any(|file| file["path"] == path.as_str()) {
            continue;
        }
        let data = base64::engine::general_purpose::STANDARD.encode(&manifest.content);
        let source = format!("data:text/plain;charset=utf-8;base64,{data}");
        files.push(json!({"path": path, "mode": 0o644, "overwrite": true, "contents": {"source": source}}));
    }
    serde_json::to_vec(&config)
}

/// The manifest that lets control-plane nodes run what users bring, where that is wanted. The cluster's controller applies it.
pub(crate) fn scheduler(cluster: &ClusterRecord) -> Option<Generated> {
    (cluster.settings.get("schedulable_masters") == Some(&Value::Bool(true))).then(|| Generated {
        file: "cluster-scheduler-masters-schedulable.yaml".to_owned(),
        content: "apiVersion: config.openshift.io/v1\nkind: Scheduler\nmetadata:\n  name: cluster\nspec:\n  \
                  mastersSchedulable: true\n"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ClusterState;
    use api::{Cluster, Secret};

    const TANG: &str = r#"[{"url":"http://a:7500","thumbprint":"x"},{"URL":"http://b","Thumbprint":"y"}]"#;

    fn made(setting: Value) -> Vec<Generated> {
        let mut cluster = ClusterRecord::new(ClusterState::Ready, Cluster::default(), Secret::default());
        cluster.settings.insert("disk_encryption".into(), setting);
        machine_configs(&cluster, &[])
    }

    #[test]
    fn each_role_has_one_by_its_lock() {
        let names = |setting| made(setting).into_iter().map(|made| made.file).collect::<Vec<_>>();
        let (master, worker) = ("99-openshift-master-tpm-encryption.yaml", "99-openshift-worker-tpm-encryption.yaml");
        assert_eq!(names(json!({"enable_on": "all", "mode": "tpmv2"})), [master, worker]);
        assert_eq!(names(json!({"enable_on": "workers", "mode": "tpmv2"})), [worker]);
        assert_eq!(names(json!({"enable_on": "none", "mode": "tpmv2"})), [""; 0]);
        let tang = made(json!({"enable_on": "masters", "mode": "tang", "tang_servers": TANG}));
        assert_eq!(tang[0].file, "99-openshift-master-tang-encryption.yaml");
        let config: Value = serde_norway::from_str(&tang[0].content).unwrap();
        assert_eq!(config["metadata"]["labels"]["machineconfiguration.openshift.io/role"], "master");
        assert_eq!(config["spec"]["kernelArguments"], json!(["rd.neednet=1"]));
        let lock = &config["spec"]["config"]["storage"]["luks"][0];
        let servers = json!([{"url": "http://a:7500", "thumbprint": "x"}, {"url": "http://b", "thumbprint": "y"}]);
        assert_eq!(lock["clevis"], json!({"tang": servers}));
        assert_eq!(lock["options"], json!(["--cipher", CIPHER]));
    }

    #[test]
    fn the_bootstrap_has_them_once() {
        let manifests = made(json!({"enable_on": "all", "mode": "tpmv2"}));
        let plain = br#"{"ignition":{"version":"3.2.0"}}"#.to_vec();
        assert_eq!(with_machine_configs(plain.clone(), &[]).unwrap(), plain);
        let once = with_machine_configs(plain, &manifests).unwrap();
        assert_eq!(with_machine_configs(once.clone(), &manifests).unwrap(), once);
        let (_, _, report) = ignition::parse(&once).unwrap();
        assert!(!report.is_fatal(), "{report}");
        let config: Value = serde_json::from_slice(&once).unwrap();
        let files = config["storage"]["files"].as_array().unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(files[1]["path"], "/opt/openshift/openshift/99-openshift-worker-tpm-encryption.yaml");
    }
}
