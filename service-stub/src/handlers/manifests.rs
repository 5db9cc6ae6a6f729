//! Manifests users add to a cluster, and those that the service generates.

use super::models;
use crate::cluster_files::ClusterFiles;
use crate::events::{self, kinds};
use crate::generated_manifests;
use crate::http::body::{BodyShape, form, one_of, shape, text};
use crate::http::{Answer, Call, Refusal, call::shortened};
use crate::manifest_files::{self, FOLDERS, Form, MAX_BYTES, MAX_FILES, Name};
use crate::model::ClusterRecord;
use crate::operators;
use crate::service::Service;
use crate::store::room;
use api::ClusterId;
use axum::http::StatusCode;
use base64::Engine;
use ignition::yaml;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, io, sync::Arc};

const USER: &str = "user";
const SYSTEM: &str = "system";

fn failed(error: io::Error) -> Refusal {
    Refusal::internal(&error)
}

fn document(folder: &str, file: &str, source: &str) -> Value {
    json!({"file_name": file, "folder": folder, "manifest_source": source})
}

fn users(status: StatusCode, name: &Name) -> Answer {
    Answer::json(status, &document(name.folder, &name.file, USER))
}

/// The real service has other words for it here than elsewhere.
fn find_cluster(service: &Service, id: ClusterId) -> Result<Arc<ClusterRecord>, Refusal> {
    service.store.model().clusters.get(&id).cloned().ok_or_else(|| Refusal::not_found("Object Not Found"))
}

/// GET /v2/clusters/{id}/manifests.
pub(crate) fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let cluster = find_cluster(service, id)?;
    let mut sources = BTreeMap::new();
    if call.query_flag("include_system_generated") {
        let generated = generated_manifests::of_cluster(service, &service.store.model(), &cluster).map_err(failed)?;
        sources.extend(generated.into_iter().map(|own| (Name { folder: own.folder, file: own.file }, SYSTEM)));
    }
    // A user's replaces a generated one of its name.
    let names = manifest_files::list(service.store.directory(), id).map_err(failed)?;
    sources.extend(names.into_iter().map(|name| (name, USER)));
    let all: Vec<Value> = sources.iter().map(|(name, source)| document(name.folder, &name.file, source)).collect();
    Ok(Answer::json(StatusCode::OK, &all))
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

/// POST /v2/clusters/{id}/manifests, in any state of the cluster. One of the same name is replaced.
pub(crate) fn create(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let NewManifest { folder, file_name, content } = call.json(&NEW_MANIFEST)?;
    let cluster = find_cluster(service, id)?;
    check_name(id, &file_name)?;
    let name = plain_name(id, folder.as_deref(), &file_name)?;
    let content = decoded(id, &name.path_text(), &content)?;
    check_content(id, &name.path_text(), &content)?;
    let all = manifest_files::list(service.store.directory(), id).map_err(failed)?;
    refuse_twin(service, &cluster, &all, &name)?;
    refuse_too_many(id, &all, &name)?;
    write(service, call, id, &name, &content)?;
    Ok(users(StatusCode::CREATED, &name))
}

fn refuse_too_many(id: ClusterId, all: &[Name], name: &Name) -> Result<(), Refusal> {
    if all.len() < MAX_FILES || all.contains(name) {
        return Ok(());
    }
    let reason = format!("cluster {id} has {MAX_FILES} manifests, the maximum: put several into one file");
    Err(Refusal::invalid(reason))
}

fn write(service: &Service, call: &Call, id: ClusterId, name: &Name, content: &[u8]) -> Result<(), Refusal> {
    room::check(service.store.directory(), service.settings.limits.store_free_bytes)?;
    manifest_files::write(service.store.directory(), id, name, content).map_err(failed)?;
    let Some(reason) = why_without_effect(service, name) else { return Ok(()) };
    service.change(call.request_id(), |change| {
        // Deleted meanwhile, it has no events.
        if let Some(cluster) = change.model().clusters.get(&id).cloned() {
            let details = json!({"what": format!("Manifest {}", name.path_text()), "reason": reason});
            events::cluster(change, &cluster, kinds::CLUSTER_SETTING_WITHOUT_EFFECT, details);
        }
        Ok(())
    })
}

fn why_without_effect(service: &Service, name: &Name) -> Option<&'static str> {
    if !service.rules().with_control_plane {
        return Some(events::NO_CONTROL_PLANE);
    }
    // openshift-install has been run, and its manifests are inside of its files.
    let is_ready_made = service.settings.cluster_files.is_some();
    (is_ready_made && name.is_patch()).then_some("the files of the control plane are ready-made")
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

/// PATCH /v2/clusters/{id}/manifests. What is changed is the user's from then on.
pub(crate) fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let wanted: ChangedManifest = call.json(&CHANGED_MANIFEST)?;
    let cluster = find_cluster(service, id)?;
    may_change(&cluster)?;
    let (file, folder) = (&wanted.file_name, &wanted.folder);
    let new_file = wanted.updated_file_name.as_ref().unwrap_or(file);
    check_name(id, file)?;
    check_name(id, new_file)?;
    let new = plain_name(id, Some(wanted.updated_folder.as_ref().unwrap_or(folder)), new_file)?;
    let state = service.store.directory();
    let all = manifest_files::list(state, id).map_err(failed)?;
    if new_file != file {
        refuse_twin(service, &cluster, &all, &new)?;
    }
    let old = Name::parse(folder, file).filter(|old| all.contains(old));
    if old.is_none() {
        refuse_too_many(id, &all, &new)?;
    }
    let content = match &wanted.updated_content {
        Some(content) => {
            let content = decoded(id, &format!("{folder}/{file}"), content)?;
            // As in the real service, by the old name.
            check_content(id, file, &content)?;
            content
        }
        None => content_of(service, &cluster, folder, file)?,
    };
    write(service, call, id, &new, &content)?;
    if let Some(old) = old.filter(|old| *old != new) {
        manifest_files::remove(state, id, &old).map_err(failed)?;
    }
    Ok(users(StatusCode::OK, &new))
}

/// DELETE /v2/clusters/{id}/manifests.
pub(crate) fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let (folder, file) = queried(call)?;
    let cluster = find_cluster(service, id)?;
    may_change(&cluster)?;
    check_name(id, file)?;
    // A missing one is as good as deleted.
    if let Some(name) = Name::parse(folder, file) {
        manifest_files::remove(service.store.directory(), id, &name).map_err(failed)?;
    }
    Ok(Answer::empty(StatusCode::OK))
}

/// GET /v2/clusters/{id}/manifests/files.
pub(crate) fn file(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let (folder, file) = queried(call)?;
    let cluster = find_cluster(service, id)?;
    check_name(id, file)?;
    Ok(Answer::file(file, content_of(service, &cluster, folder, file)?))
}

/// The content of a user's manifest, else of a generated one.
fn content_of(service: &Service, cluster: &ClusterRecord, folder: &str, file: &str) -> Result<Vec<u8>, Refusal> {
    let id = cluster.cluster.id;
    let missing = || {
        let file = shortened(file);
        Refusal::not_found(format!("Cluster manifest {folder}/{file} doesn't exist in cluster {id}"))
    };
    let name = Name::parse(folder, file).ok_or_else(missing)?;
    if let Some(content) = manifest_files::read(service.store.directory(), id, &name).map_err(failed)? {
        return Ok(content);
    }
    let generated = generated_manifests::of_cluster(service, &service.store.model(), cluster).map_err(failed)?;
    let own = generated.into_iter().find(|own| own.folder == name.folder && own.file == name.file);
    own.map(|own| own.content.into_bytes()).ok_or_else(missing)
}

/// Folder and file of a query.
fn queried(call: &Call) -> Result<(&str, &str), Refusal> {
    let folder = call.query("folder").map(|_| call.query_one_of("folder", &FOLDERS)).transpose()?;
    let file = call.query("file_name").ok_or_else(|| Refusal::bad_request("file_name in query is required"))?;
    Ok((folder.unwrap_or(FOLDERS[0]), file))
}

/// A bad name is 422, as in the real service.
/// Whether a cluster can have this file among its manifests.
pub(crate) fn check(file: &str, content: &[u8]) -> Result<(), Refusal> {
    let id = ClusterId::default();
    check_name(id, file)?;
    let name = plain_name(id, None, file)?;
    check_content(id, &name.path_text(), content)
}

fn check_name(id: ClusterId, file: &str) -> Result<(), Refusal> {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let fault = if stem.trim().is_empty() || file.starts_with('.') {
        "has an invalid filename."
    } else if file.contains(' ') {
        "should not include a space in its name."
    } else if file.contains('/') {
        "should not include a directory in it's name."
    } else {
        return Ok(());
    };
    Err(bad_name(id, file, fault))
}

fn bad_name(id: ClusterId, file: &str, fault: &str) -> Refusal {
    let file = shortened(file);
    Refusal::Application(StatusCode::UNPROCESSABLE_ENTITY, format!("Cluster manifest {file} for cluster {id} {fault}"))
}

/// Names of further characters, and long ones, are refused here too.
fn plain_name(id: ClusterId, folder: Option<&str>, file: &str) -> Result<Name, Refusal> {
    Name::parse(folder.unwrap_or(FOLDERS[0]), file).ok_or_else(|| bad_name(id, file, "has an invalid filename."))
}

/// Once an installation has begun, only new ones are taken.
fn may_change(cluster: &ClusterRecord) -> Result<(), Refusal> {
    if cluster.state.is_before_installation() {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "cluster {} is not in pre-installation states, can't modify manifests after installation has been started",
        cluster.cluster.id
    )))
}

/// A name must be in one folder only.
fn refuse_twin(service: &Service, cluster: &ClusterRecord, users: &[Name], name: &Name) -> Result<(), Refusal> {
    let generated = generated_manifests::of_cluster(service, &service.store.model(), cluster).map_err(failed)?;
    let generated = generated.iter().map(|own| (own.folder, &own.file));
    let mut all = users.iter().map(|own| (own.folder, &own.file)).chain(generated);
    if !all.any(|(folder, file)| *file == name.file && folder != name.folder) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "manifest file {} for cluster ID {} in folder {} cannot be uploaded as it is not distinct between {{manifest, openshift}} folders",
        name.file, cluster.cluster.id, name.folder
    )))
}

/// A content, which is sent as base64.
fn decoded(id: ClusterId, file: &str, content: &str) -> Result<Vec<u8>, Refusal> {
    if content.trim_matches(' ').is_empty() {
        return Err(Refusal::invalid(format!("Manifest content of file {file} for cluster ID {id} is empty")));
    }
    // Line ends do not count.
    let content: String = content.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    base64::engine::general_purpose::STANDARD
        .decode(content)
        .map_err(|_| Refusal::invalid(format!("failed to base64-decode cluster manifest content for cluster {id}")))
}

/// YAML, of several documents too, JSON, or a list of operations, by the file's extension.
fn check_content(id: ClusterId, file: &str, content: &[u8]) -> Result<(), Refusal> {
    let refused =
        |what: &str, why: String| Refusal::invalid(format!("{what} of file {file} for cluster ID {id} {why}"));
    if content.len() > MAX_BYTES {
        return Err(refused("Manifest content", "exceeds the maximum file size of 1MiB".to_owned()));
    }
    match Form::of_file(file) {
        Some(Form::Yaml) => yaml::documents::<serde_norway::Value>(content, MAX_BYTES)
            .map(drop)
            .map_err(|error| refused("Manifest content", format!("has an invalid YAML format: {error}"))),
        Some(Form::Json) => serde_json::from_slice::<Value>(content)
            .map(drop)
            .map_err(|_| refused("Manifest content", "has an illegal JSON format".to_owned())),
        Some(Form::Patch) => yaml::documents::<Option<Vec<Option<Operation>>>>(content, MAX_BYTES)
            .map(drop)
            .map_err(|error| refused("Patch content", format!("is invalid: {error}"))),
        None => Err(refused(
            "Manifest filename",
            "is invalid. Only json, yaml and yml or patch extensions are supported".to_owned(),
        )),
    }
}

/// What an operation of a patch has, if anything. Whether it fits its manifest is seen when it is applied.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only the form is checked here")]
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
}

/// Whether the files of a cluster's control plane were made with its manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// By an operator, without them.
    ReadyMade,
    /// For this cluster, with them.
    Generated,
}

/// `custom_manifests.json`, which the cluster's controller applies: the list of who operates the service, if any, what the cluster's
/// operators need besides, and the users' manifests that are not in the cluster's files.
pub(crate) fn custom_manifests(
    service: &Service,
    cluster: &ClusterRecord,
    content: Option<Vec<u8>>,
    files: Files,
) -> Result<Option<Vec<u8>>, Refusal> {
    let id = cluster.cluster.id;
    let operators = operators::manifests(cluster, &service.store.model().hosts_of_cluster(id)).custom;
    let later = files == Files::ReadyMade;
    let scheduler =
        generated_manifests::scheduler(cluster).filter(|_| later && !bootstrap_has_scheduler(service, cluster));
    let mut users = match later {
        true => manifest_files::read_all(service.store.directory(), id).map_err(failed)?,
        false => Vec::new(),
    };
    // Patches are not objects.
    users.retain(|(name, _)| !name.is_patch());
    if users.is_empty() && scheduler.is_none() && operators.is_empty() {
        return Ok(content);
    }
    let mut list: Vec<Value> = match content {
        Some(content) => serde_json::from_slice(&content).map_err(|error| Refusal::internal(&error))?,
        None => Vec::new(),
    };
    let given = |name: &str| list.iter().any(|own| own["Name"] == name);
    let operators: Vec<_> = operators.into_iter().filter(|own| !given(&own.name)).collect();
    let row = |name: &str, content: &[u8]| {
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        json!({"Name": name, "Content": content})
    };
    list.extend(operators.iter().map(|own| row(&own.name, own.content.as_bytes())));
    list.extend(scheduler.map(|manifest| row(&manifest.file, manifest.content.as_bytes())));
    list.extend(users.iter().map(|(name, content)| row(&name.file, content)));
    Ok(Some(Value::Array(list).to_string().into_bytes()))
}

fn bootstrap_has_scheduler(service: &Service, cluster: &ClusterRecord) -> bool {
    let files = ClusterFiles::of_cluster(service, cluster);
    let config = files.and_then(|files| files.read("bootstrap.ign").ok().flatten());
    config.is_some_and(|config| generated_manifests::has_scheduler(&config))
}

/// A ready-made `bootstrap.ign` with the manifests that must be there when the first node boots.
pub(crate) fn bootstrap(service: &Service, cluster: &ClusterRecord, config: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    let generated = generated_manifests::of_cluster(service, &service.store.model(), cluster).map_err(failed)?;
    let users = manifest_files::read_all(service.store.directory(), cluster.cluster.id).map_err(failed)?;
    generated_manifests::with_manifests(config, &generated, &users).map_err(|error| Refusal::internal(&error))
}
