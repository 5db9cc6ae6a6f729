//! A generated manifest, and the form that most of them have.

use ignition::data_url;
use serde_json::{Value, json};

/// The folder of them all.
const FOLDER: &str = "openshift";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    pub(crate) folder: &'static str,
    /// Its name in the folder.
    pub(crate) file: String,
    /// YAML.
    pub(crate) content: String,
}

impl Generated {
    pub(super) fn new(file: impl Into<String>, content: &Value) -> Self {
        // JSON is YAML too.
        let content = serde_norway::to_string(content).unwrap_or_else(|_| content.to_string());
        Self { folder: FOLDER, file: file.into(), content }
    }

    /// One whose content is a text already.
    pub(super) fn text(file: String, content: String) -> Self {
        Self { folder: FOLDER, file, content }
    }

    /// A `MachineConfig` in a file of its name.
    pub(super) fn machine_config(name: &str, role: &str, config: Value) -> Self {
        Self::new(format!("{name}.yaml"), &machine_config(name, role, config))
    }
}

/// What nodes of a role get: an Ignition config.
pub(super) fn machine_config(name: &str, role: &str, config: Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": role}},
        "spec": {"config": config},
    })
}

/// A file of such a config.
pub(super) fn file(path: &str, mode: u32, content: &str) -> Value {
    let source = data_url::base64(content.as_bytes());
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}})
}
