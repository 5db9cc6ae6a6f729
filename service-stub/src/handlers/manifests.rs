//! Manifests users add to a cluster. The cluster's own controller applies them when the control plane is up: it fetches
//! `custom_manifests.json`, which they are put into.

use super::{find_cluster, shapes};
use crate::generated_manifests::{self, Generated};
use crate::http::{Answer, Call, Refusal};
use crate::manifest_files::{self, FOLDERS, MAX_BYTES, MAX_FILES, Name};
use crate::model::ClusterRecord;
use crate::service::Service;
use crate::store::room;
use api::ClusterId;
use axum::http::StatusCode;
use base64::Engine;
use ignition::yaml::{self, YamlError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io;

fn failed(error: io::Error) -> Refusal {
    Refusal::internal(&error)
}

fn document(name: &Name) -> Value {
    json!({"file_name": name.file, "folder": name.folder, "manifest_source": "user"})
}

/// GET /v2/clusters/{id}/manifests.
pub fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let with_generated = call.query_flag("include_system_generated")?;
    let generated = generated(service, id)?;
    let names = manifest_files::list(service.store.directory(), id).map_err(failed)?;
    let mut all: Vec<Value> = names.iter().map(document).collect();
    if with_generated {
        let folder = generated_manifests::FOLDER;
        all.extend(
            generated
                .iter()
                .map(|manifest| json!({"file_name": manifest.file, "folder": folder, "manifest_source": "system"})),
        );
    }
    Ok(Answer::json(StatusCode::OK, &all))
}

/// Those that the cluster's settings ask for.
fn generated(service: &Service, id: ClusterId) -> Result<Vec<Generated>, Refusal> {
    let model = service.store.model();
    let cluster = find_cluster(&model, id)?;
    Ok(generated_manifests::machine_configs(&cluster, &model.hosts_of_cluster(id)))
}

#[derive(Deserialize)]
struct NewManifest {
    folder: Option<String>,
    file_name: String,
    content: String,
}

/// POST /v2/clusters/{id}/manifests.
pub fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let NewManifest { folder, file_name, content } = call.json(&shapes::NEW_MANIFEST)?;
    let name = name_of(folder.as_deref(), &file_name)?;
    let content = decoded(&name, &content)?;
    may_change(service, id)?;
    let all = manifest_files::list(service.store.directory(), id).map_err(failed)?;
    refuse_twin(&all, &name)?;
    if all.len() >= MAX_FILES && !all.contains(&name) {
        return Err(Refusal::invalid(format!(
            "cluster {id} has {MAX_FILES} manifests already: put several into one file"
        )));
    }
    room::check(service.store.directory(), service.settings.limits.store_free_bytes)?;
    manifest_files::write(service.store.directory(), id, &name, &content).map_err(failed)?;
    Ok(Answer::json(StatusCode::CREATED, &document(&name)))
}

#[derive(Deserialize)]
struct ChangedManifest {
    folder: String,
    file_name: String,
    updated_folder: Option<String>,
    updated_file_name: Option<String>,
    updated_content: Option<String>,
}

/// PATCH /v2/clusters/{id}/manifests.
pub fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let wanted: ChangedManifest = call.json(&shapes::UPDATE_MANIFEST)?;
    let old = name_of(Some(&wanted.folder), &wanted.file_name)?;
    let folder = wanted.updated_folder.as_deref().unwrap_or(&wanted.folder);
    let new = name_of(Some(folder), wanted.updated_file_name.as_deref().unwrap_or(&wanted.file_name))?;
    may_change(service, id)?;
    let state = service.store.directory();
    let before = manifest_files::read(state, id, &old).map_err(failed)?.ok_or_else(|| not_found(id, &old))?;
    let content = wanted.updated_content.map(|content| decoded(&new, &content)).transpose()?.unwrap_or(before);
    if new != old {
        let mut others = manifest_files::list(state, id).map_err(failed)?;
        others.retain(|name| *name != old);
        refuse_twin(&others, &new)?;
        if others.contains(&new) {
            return Err(Refusal::conflict(format!("cluster {id} has a manifest {}/{} already", new.folder, new.file)));
        }
    }
    room::check(state, service.settings.limits.store_free_bytes)?;
    manifest_files::write(state, id, &new, &content).map_err(failed)?;
    if new != old {
        manifest_files::remove(state, id, &old).map_err(failed)?;
    }
    Ok(Answer::json(StatusCode::OK, &document(&new)))
}

/// DELETE /v2/clusters/{id}/manifests.
pub fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let name = queried(call)?;
    may_change(service, id)?;
    // One that is not there is what was wanted.
    manifest_files::remove(service.store.directory(), id, &name).map_err(failed)?;
    Ok(Answer::empty(StatusCode::OK))
}

/// GET /v2/clusters/{id}/manifests/files.
pub fn file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let name = queried(call)?;
    let generated = generated(service, id)?;
    let content = match manifest_files::read(service.store.directory(), id, &name).map_err(failed)? {
        None if name.folder == generated_manifests::FOLDER => {
            let manifest = generated.into_iter().find(|manifest| manifest.file == name.file);
            manifest.map(|manifest| manifest.content.into_bytes())
        }
        content => content,
    };
    Ok(Answer::file(&name.file, content.ok_or_else(|| not_found(id, &name))?))
}

fn not_found(id: ClusterId, name: &Name) -> Refusal {
    Refusal::not_found(format!("manifest {}/{} of cluster {id} was not found", name.folder, name.file))
}

fn queried(call: &Call) -> Result<Name, Refusal> {
    let folder = call.query("folder").map(|_| call.query_one_of("folder", &FOLDERS)).transpose()?;
    let file = call.query("file_name").ok_or_else(|| Refusal::bad_request("file_name in query is required"))?;
    name_of(folder, file)
}

/// A bad name is 422, as the service has it.
fn name_of(folder: Option<&str>, file: &str) -> Result<Name, Refusal> {
    if file.contains(".patch") {
        return Err(Refusal::not_implemented("a manifest that patches another"));
    }
    Name::parse(folder.unwrap_or("manifests"), file).ok_or_else(|| {
        let file = crate::http::call::shortened(file);
        let reason = format!(
            "'{file}' can't name a manifest: letters, digits, . _ - and one of the extensions .yaml .yml .json are needed"
        );
        Refusal::Application(StatusCode::UNPROCESSABLE_ENTITY, reason)
    })
}

/// Manifests are for a control plane, and before it is installed.
fn may_change(service: &Service, id: ClusterId) -> Result<(), Refusal> {
    let state = find_cluster(&service.store.model(), id)?.state;
    if service.settings.cluster_files.is_none() {
        return Err(Refusal::not_implemented(
            "manifests without a control plane (see --cluster-files): nobody applies them",
        ));
    }
    if !state.accepts_hosts() {
        return Err(Refusal::conflict(format!(
            "cluster {id} is in status {state}: its manifests can change only before it is installed"
        )));
    }
    Ok(())
}

/// A name may be in one folder only.
fn refuse_twin(all: &[Name], name: &Name) -> Result<(), Refusal> {
    match all.iter().find(|own| own.file == name.file && own.folder != name.folder) {
        None => Ok(()),
        Some(twin) => Err(Refusal::invalid(format!("manifest {} is already in folder {}", twin.file, twin.folder))),
    }
}

/// Base64 of YAML or JSON, several documents of YAML too.
fn decoded(name: &Name, content: &str) -> Result<Vec<u8>, Refusal> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(content)
        .map_err(|error| Refusal::invalid(format!("content of {} is not base64: {error}", name.file)))?;
    if bytes.len() > MAX_BYTES {
        return Err(Refusal::invalid(format!("{} is longer than {MAX_BYTES} bytes", name.file)));
    }
    let bad = |why: String| {
        Refusal::invalid(format!("{} can't be read{why}: it must be YAML, or JSON by its extension", name.file))
    };
    let at = |line: usize| bad(format!(" at line {line}"));
    if name.file.ends_with(".json") {
        serde_json::from_slice::<Value>(&bytes).map_err(|error| at(error.line()))?;
        return Ok(bytes);
    }
    let read = yaml::documents::<serde_norway::Value>(&bytes, MAX_BYTES);
    read.map_err(|error| match (&error, error.line()) {
        (YamlError::Syntax { .. }, None) => bad(String::new()),
        (_, Some(line)) => at(line),
        _ => bad(format!(" ({error})")),
    })?;
    Ok(bytes)
}

/// `custom_manifests.json`: the operator's own list, if there is one, with what users added behind it.
pub fn custom_manifests(
    service: &Service,
    cluster: &ClusterRecord,
    own: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let (state, id) = (service.store.directory(), cluster.cluster.id);
    let scheduler = generated_manifests::scheduler(cluster);
    let names = manifest_files::list(state, id).map_err(failed)?;
    if names.is_empty() && scheduler.is_none() {
        return Ok(own);
    }
    let mut list: Vec<Value> = match own {
        Some(own) => serde_json::from_slice(&own).map_err(|error| Refusal::internal(&error))?,
        None => Vec::new(),
    };
    let encoded = |content: &str| base64::engine::general_purpose::STANDARD.encode(content);
    list.extend(scheduler.map(|manifest| json!({"Name": manifest.file, "Content": encoded(&manifest.content)})));
    for name in names {
        let Some(content) = manifest_files::read(state, id, &name).map_err(failed)? else { continue };
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        list.push(json!({"Name": name.file, "Content": content}));
    }
    Ok(Some(Value::Array(list).to_string().into_bytes()))
}
