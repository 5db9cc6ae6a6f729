//! Manifests users add to a cluster. The cluster's own controller applies them when the control plane is up: it fetches
//! `custom_manifests.json`, which they are put into.

use super::models;
use crate::find::find_cluster;
use crate::generated_manifests::{self, Generated};
use crate::http::body::{BodyShape, form, one_of, shape, text};
use crate::http::{Answer, Call, Refusal};
use crate::manifest_files::{self, EXTENSIONS, FOLDERS, MAX_BYTES, MAX_FILES, Name};
use crate::model::ClusterRecord;
use crate::operators;
use crate::service::Service;
use crate::state::ClusterState;
use crate::store::room;
use api::ClusterId;
use axum::http::StatusCode;
use base64::Engine;
use ignition::yaml;
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
pub(crate) fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let with_generated = call.query_flag("include_system_generated");
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

/// Those generated from the cluster's settings.
fn generated(service: &Service, id: ClusterId) -> Result<Vec<Generated>, Refusal> {
    let model = service.store.model();
    let cluster = find_cluster(&model, id)?;
    Ok(generated_manifests::machine_configs(&cluster, &model.hosts_of_cluster(id)))
}

pub(crate) const NEW_MANIFEST: BodyShape = shape(
    "createManifestParams",
    "CreateManifestParams",
    &[text("content").required(), form("file_name", &models::MANIFEST_FILE).required(), one_of("folder", &FOLDERS)],
);

#[derive(Deserialize)]
struct NewManifest {
    folder: Option<String>,
    file_name: String,
    content: String,
}

/// POST /v2/clusters/{id}/manifests.
pub(crate) fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let NewManifest { folder, file_name, content } = call.json(&NEW_MANIFEST)?;
    let name = manifest_name(id, folder.as_deref(), &file_name)?;
    let content = decoded(id, &name, &content)?;
    may_change(service, id)?;
    let all = manifest_files::list(service.store.directory(), id).map_err(failed)?;
    refuse_twin(id, &all, &name)?;
    if all.len() >= MAX_FILES && !all.contains(&name) {
        return Err(Refusal::invalid(format!(
            "cluster {id} has {MAX_FILES} manifests, the maximum: put several into one file"
        )));
    }
    room::check(service.store.directory(), service.settings.limits.store_free_bytes)?;
    manifest_files::write(service.store.directory(), id, &name, &content).map_err(failed)?;
    Ok(Answer::json(StatusCode::CREATED, &document(&name)))
}

pub(crate) const CHANGED_MANIFEST: BodyShape = shape(
    "updateManifestParams",
    "UpdateManifestParams",
    &[
        form("file_name", &models::MANIFEST_FILE).required().or_zero(),
        one_of("folder", &FOLDERS).required().or_zero(),
        text("updated_content").nullable(),
        form("updated_file_name", &models::MANIFEST_FILE).nullable(),
        one_of("updated_folder", &FOLDERS).nullable(),
    ],
);

#[derive(Deserialize)]
struct ChangedManifest {
    folder: String,
    file_name: String,
    updated_folder: Option<String>,
    updated_file_name: Option<String>,
    updated_content: Option<String>,
}

/// PATCH /v2/clusters/{id}/manifests.
pub(crate) fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let wanted: ChangedManifest = call.json(&CHANGED_MANIFEST)?;
    let old = manifest_name(id, Some(&wanted.folder), &wanted.file_name)?;
    let folder = wanted.updated_folder.as_deref().unwrap_or(&wanted.folder);
    let new = manifest_name(id, Some(folder), wanted.updated_file_name.as_deref().unwrap_or(&wanted.file_name))?;
    may_change(service, id)?;
    let state = service.store.directory();
    let before = manifest_files::read(state, id, &old).map_err(failed)?.ok_or_else(|| not_found(id, &old))?;
    let content = wanted.updated_content.map(|content| decoded(id, &new, &content)).transpose()?.unwrap_or(before);
    if new != old {
        let mut others = manifest_files::list(state, id).map_err(failed)?;
        others.retain(|name| *name != old);
        refuse_twin(id, &others, &new)?;
        if others.contains(&new) {
            return Err(Refusal::conflict(format!("cluster {id} already has a manifest {}/{}", new.folder, new.file)));
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
pub(crate) fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let name = queried(call)?;
    may_change(service, id)?;
    // A missing one is as good as deleted.
    manifest_files::remove(service.store.directory(), id, &name).map_err(failed)?;
    Ok(Answer::empty(StatusCode::OK))
}

/// GET /v2/clusters/{id}/manifests/files.
pub(crate) fn file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
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
    manifest_name(call.cluster_id()?, folder, file)
}

/// A bad name is 422, as in the real service.
fn manifest_name(id: ClusterId, folder: Option<&str>, file: &str) -> Result<Name, Refusal> {
    if file.contains(".patch") {
        return Err(Refusal::not_implemented("a manifest that patches another"));
    }
    Name::parse(folder.unwrap_or("manifests"), file).ok_or_else(|| {
        let file = crate::http::call::shortened(file);
        let reason = if file.contains(' ') {
            format!("Cluster manifest {file} for cluster {id} should not include a space in its name.")
        } else if file.contains('/') {
            format!("Cluster manifest {file} for cluster {id} should not include a directory in it's name.")
        } else if !EXTENSIONS.iter().any(|end| file.ends_with(end)) && !file.starts_with('.') {
            return Refusal::invalid(format!(
                "Manifest filename of file {file} for cluster ID {id} is invalid. Only json, yaml and yml or patch extensions are supported"
            ));
        } else {
            // Characters that don't belong in a plain file name are refused too.
            format!("Cluster manifest {file} for cluster {id} has an invalid filename.")
        };
        Refusal::Application(StatusCode::UNPROCESSABLE_ENTITY, reason)
    })
}

/// Manifests need a control plane, and must precede its installation.
fn may_change(service: &Service, id: ClusterId) -> Result<(), Refusal> {
    let state = find_cluster(&service.store.model(), id)?.state;
    if service.settings.cluster_files.is_none() {
        return Err(Refusal::not_implemented("manifests without a control plane (see --cluster-files)"));
    }
    if !matches!(state, ClusterState::PendingForInput | ClusterState::Insufficient | ClusterState::Ready) {
        return Err(Refusal::invalid(format!(
            "cluster {id} is not in pre-installation states, can't modify manifests after installation has been started"
        )));
    }
    Ok(())
}

/// A name must be in one folder only.
fn refuse_twin(id: ClusterId, all: &[Name], name: &Name) -> Result<(), Refusal> {
    match all.iter().find(|own| own.file == name.file && own.folder != name.folder) {
        None => Ok(()),
        Some(_) => Err(Refusal::invalid(format!(
            "manifest file {} for cluster ID {id} in folder {} cannot be uploaded as it is not distinct between {{manifest, openshift}} folders",
            name.file, name.folder
        ))),
    }
}

/// Base64 of YAML or JSON; YAML may have several documents.
fn decoded(id: ClusterId, name: &Name, content: &str) -> Result<Vec<u8>, Refusal> {
    let refused =
        |why: String| Refusal::invalid(format!("Manifest content of file {} for cluster ID {id} {why}", name.file));
    if content.trim_matches(' ').is_empty() {
        return Err(refused("is empty".to_owned()));
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(content)
        .map_err(|_| Refusal::invalid(format!("failed to base64-decode cluster manifest content for cluster {id}")))?;
    if bytes.len() > MAX_BYTES {
        return Err(refused("exceeds the maximum file size of 1MiB".to_owned()));
    }
    if name.file.ends_with(".json") {
        serde_json::from_slice::<Value>(&bytes).map_err(|_| refused("has an illegal JSON format".to_owned()))?;
        return Ok(bytes);
    }
    yaml::documents::<serde_norway::Value>(&bytes, MAX_BYTES)
        .map_err(|error| refused(format!("has an invalid YAML format: {error}")))?;
    Ok(bytes)
}

/// `custom_manifests.json`: the list of who operates the service, if any, what the cluster's operators need besides, and the users' manifests.
pub(crate) fn custom_manifests(
    service: &Service,
    cluster: &ClusterRecord,
    content: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let (state, id) = (service.store.directory(), cluster.cluster.id);
    let operators = operators::manifests(cluster, &service.store.model().hosts_of_cluster(id)).custom;
    let scheduler = generated_manifests::scheduler(cluster);
    let names = manifest_files::list(state, id).map_err(failed)?;
    if names.is_empty() && scheduler.is_none() && operators.is_empty() {
        return Ok(content);
    }
    let mut list: Vec<Value> = match content {
        Some(content) => serde_json::from_slice(&content).map_err(|error| Refusal::internal(&error))?,
        None => Vec::new(),
    };
    let encoded = |content: &str| base64::engine::general_purpose::STANDARD.encode(content);
    let given = |name: &str| list.iter().any(|own| own["Name"] == name);
    let operators: Vec<_> = operators.into_iter().filter(|own| !given(&own.name)).collect();
    list.extend(operators.iter().map(|own| json!({"Name": own.name, "Content": encoded(&own.content)})));
    list.extend(scheduler.map(|manifest| json!({"Name": manifest.file, "Content": encoded(&manifest.content)})));
    for name in names {
        let Some(content) = manifest_files::read(state, id, &name).map_err(failed)? else { continue };
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        list.push(json!({"Name": name.file, "Content": content}));
    }
    Ok(Some(Value::Array(list).to_string().into_bytes()))
}
