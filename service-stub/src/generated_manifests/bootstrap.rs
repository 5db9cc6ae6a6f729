//! Manifests in a bootstrap config that was made without them.

use super::generated::Generated;
use super::scheduler;
use crate::manifest_files::{MAX_BYTES, Name};
use ignition::{data_url, yaml};
use serde_json::{Value, json};
use serde_norway::Value as Yaml;

/// Where the bootstrap finds the folders of manifests.
const ROOT: &str = "/opt/openshift";
const KIND: &str = "MachineConfig";

/// Why manifests cannot be put in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    #[error("bootstrap.ign is not JSON")]
    Json(#[from] serde_json::Error),
    #[error("bootstrap.ign has no list of files where Ignition has one")]
    Files,
}

/// The config with the manifests in it. A generated one whose file it has already stays out: the files were made with it. Of users'
/// manifests those go in that must be there when the first node boots, and replace what has their name.
pub(crate) fn with_manifests(
    config: Vec<u8>,
    generated: &[Generated],
    users: &[(Name, Vec<u8>)],
) -> Result<Vec<u8>, BootstrapError> {
    let users: Vec<_> = users.iter().flat_map(|(name, content)| machine_configs(name, content)).collect();
    if generated.is_empty() && users.is_empty() {
        return Ok(config);
    }
    let mut config: Value = serde_json::from_slice(&config)?;
    let files = files(&mut config).ok_or(BootstrapError::Files)?;
    for (path, content) in &users {
        put(files, path, content);
    }
    for manifest in generated {
        let path = format!("{ROOT}/{}/{}", manifest.folder, manifest.file);
        if manifest.file.starts_with(scheduler::FILE) {
            make_schedulable(files);
        } else if !files.iter().any(|file| file["path"] == path.as_str()) {
            put(files, &path, manifest.content.as_bytes());
        }
    }
    Ok(serde_json::to_vec(&config)?)
}

fn files(config: &mut Value) -> Option<&mut Vec<Value>> {
    let storage = config.as_object_mut()?.entry("storage").or_insert(Value::Null);
    if storage.is_null() {
        *storage = json!({});
    }
    let files = storage.as_object_mut()?.entry("files").or_insert(Value::Null);
    if files.is_null() {
        *files = json!([]);
    }
    files.as_array_mut()
}

fn put(files: &mut Vec<Value>, path: &str, content: &[u8]) {
    let source = data_url::base64(content);
    files.retain(|file| file["path"] != path);
    files.push(json!({"path": path, "mode": 0o644, "overwrite": true, "contents": {"source": source}}));
}

/// The `MachineConfig`s among a manifest's documents, with their paths: each in a file by itself, as the bootstrap reads them.
fn machine_configs(name: &Name, content: &[u8]) -> Vec<(String, Vec<u8>)> {
    let path = |file: &str| format!("{ROOT}/{}/{file}", name.folder);
    if !str::from_utf8(content).is_ok_and(|text| text.contains(KIND)) {
        return Vec::new();
    }
    // A patch is a list, and what cannot be read is left to its reader.
    let mut documents = yaml::documents::<Yaml>(content, MAX_BYTES).unwrap_or_default();
    documents.retain(|document| !document.is_null());
    let is_one = |document: &Yaml| document.get("kind").and_then(Yaml::as_str) == Some(KIND);
    if let [only] = documents.as_slice() {
        return if is_one(only) { vec![(path(&name.file), content.to_vec())] } else { Vec::new() };
    }
    let (stem, extension) = name.file.rsplit_once('.').unwrap_or((&name.file, "yaml"));
    let ones = documents.iter().enumerate().filter(|(_, document)| is_one(document));
    let written = ones.filter_map(|(number, document)| {
        let text = serde_norway::to_string(document).ok()?;
        Some((path(&format!("{stem}-{number:02}.{extension}")), text.into_bytes()))
    });
    written.collect()
}

/// Whether the config has the file that makes masters schedulable.
pub(crate) fn has_scheduler(config: &[u8]) -> bool {
    let mut config: Value = serde_json::from_slice(config).unwrap_or_default();
    files(&mut config).is_some_and(|files| make_schedulable(files))
}

fn make_schedulable(files: &mut [Value]) -> bool {
    let paths = ["openshift", "manifests"].map(|folder| format!("{ROOT}/{folder}/{}", scheduler::FILE));
    let own = files.iter_mut().find(|file| paths.iter().any(|path| file["path"] == path.as_str()));
    let Some((file, schedulable)) = own.and_then(|file| schedulable(file).map(|changed| (file, changed))) else {
        return false;
    };
    file["contents"] = json!({"source": data_url::base64(schedulable.as_bytes())});
    true
}

/// The `Scheduler` in the file, changed.
fn schedulable(file: &Value) -> Option<String> {
    if file.pointer("/contents/compression").and_then(Value::as_str).is_some_and(|kind| !kind.is_empty()) {
        return None;
    }
    let url = data_url::decode(file.pointer("/contents/source")?.as_str()?).ok()?;
    let mut object: Yaml = yaml::document(&url.data, MAX_BYTES).ok()?;
    let spec = object.get_mut("spec")?.as_mapping_mut()?;
    spec.insert("mastersSchedulable".into(), true.into());
    serde_norway::to_string(&object).ok()
}
