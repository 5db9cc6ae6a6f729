//! Manifests between the two commands: split into documents, put in, patched.

mod patch;
mod release_image;
mod tree;

pub use patch::PatchError;
pub(crate) use release_image::ReleaseImage;

use crate::{
    Folder, Job, Manifest, Source,
    directory::{Directory, DirectoryError, MAX_FILE_BYTES, is_file_name},
};
use ignition::yaml::{self, NodeError};
use serde::de::IgnoredAny;
use uuid::Uuid;

/// The installer leaves it to its own rules which topology the infrastructure has, and they do not know of a single worker.
const INFRASTRUCTURE: &str = "manifests/cluster-infrastructure-02-config.yml";
const HIGHLY_AVAILABLE: &[u8] =
    br#"[{"op": "replace", "path": "/status/infrastructureTopology", "value": "HighlyAvailable"}]"#;
/// Letters that make the names of split documents new ones.
const TOKEN_LETTERS: usize = 7;

/// What can't be made of the manifests.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{name:?} is not the name of a manifest")]
    Name { name: String },
    #[error("Failed to parse yaml document {file}")]
    Split { file: String, source: NodeError },
    #[error("failed to apply patches: failed to read manifest {target}, which {patch} is for")]
    NoTarget { target: String, patch: String, source: DirectoryError },
    #[error("failed to apply patches: failed to patch manifest \"{target}\" with {patch}")]
    Patch { target: String, patch: String, source: PatchError },
    #[error("failed to patch Infrastructure Manifest \"{INFRASTRUCTURE}\"")]
    Infrastructure(#[source] PatchError),
    #[error("{kind} {name} has no text at {image}")]
    Catalog { kind: String, name: String, image: &'static str },
}

/// Does to the manifests of `openshift-install` what the cluster asks for.
pub(crate) fn complete(
    directory: &Directory,
    job: &Job,
    release_image: Option<&ReleaseImage>,
) -> Result<(), ManifestError> {
    remove_machines(directory, &job.platform)?;
    let patched = release_image.map(|image| image.patch(&job.manifests)).transpose()?;
    for manifest in split(patched.as_ref().unwrap_or(&job.manifests), &token())? {
        directory.write(&format!("{}/{}", manifest.folder.as_str(), manifest.file), &manifest.content)?;
    }
    apply_patches(directory)?;
    if job.workers == 1 {
        let manifest = directory.read(INFRASTRUCTURE)?;
        let manifest = patch::apply(&manifest, HIGHLY_AVAILABLE).map_err(ManifestError::Infrastructure)?;
        directory.write(INFRASTRUCTURE, &manifest)?;
    }
    Ok(())
}

/// The installer would let the platform make machines that the service installs.
fn remove_machines(directory: &Directory, platform: &str) -> Result<(), DirectoryError> {
    if !matches!(platform, "vsphere" | "nutanix") {
        return Ok(());
    }
    for name in directory.names("openshift")? {
        if is_machines(&name, platform) {
            directory.remove(&format!("openshift/{name}"))?;
        }
    }
    Ok(())
}

fn is_machines(name: &str, platform: &str) -> bool {
    const SET: &str = "_openshift-machine-api_master-control-plane-machine-set";
    let Some(stem) = name.strip_suffix(".yaml") else { return false };
    stem.contains("_openshift-cluster-api_master-machines-")
        || stem.contains("_openshift-cluster-api_worker-machineset-")
        || if platform == "nutanix" { stem.contains(SET) } else { stem.ends_with(SET) }
}

fn token() -> String {
    let mut token = Uuid::new_v4().simple().to_string();
    token.truncate(TOKEN_LETTERS);
    token
}

/// The manifests that are not empty. A user's with several documents becomes one manifest for each.
fn split(manifests: &[Manifest], token: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut all = Vec::new();
    for manifest in manifests.iter().filter(|manifest| !manifest.content.is_empty()) {
        let file = &manifest.file;
        if !is_file_name(file) {
            return Err(ManifestError::Name { name: file.clone() });
        }
        let (stem, extension) = split_extension(file);
        if manifest.source != Source::User || !matches!(extension, ".yaml" | ".yml") {
            all.push(manifest.clone());
            continue;
        }
        let failed = |source| ManifestError::Split { file: file.clone(), source };
        // A single one stays as it is, whatever it has that is not read below.
        let read = yaml::documents::<IgnoredAny>(&manifest.content, MAX_FILE_BYTES);
        let mut documents = match read.map_err(|error| failed(error.into()))?.len() {
            0 | 1 => Vec::new(),
            _ => tree::documents(&manifest.content).map_err(failed)?,
        };
        documents.retain(|document| !document.is_null());
        if documents.len() < 2 {
            all.push(manifest.clone());
            continue;
        }
        all.extend(documents.iter().enumerate().map(|(number, document)| Manifest {
            file: format!("{stem}-{token}-{number:02}{extension}"),
            content: tree::text(std::slice::from_ref(document)).into_bytes(),
            ..*manifest
        }));
    }
    Ok(all)
}

/// The last dot begins the extension.
fn split_extension(name: &str) -> (&str, &str) {
    name.split_at(name.rfind('.').unwrap_or(name.len()))
}

/// Applies every file `NAME.patch…` to the manifest NAME and removes it.
fn apply_patches(directory: &Directory) -> Result<(), ManifestError> {
    for folder in [Folder::Openshift, Folder::Manifests].map(Folder::as_str) {
        for name in directory.names(folder)? {
            let (target, extension) = split_extension(&name);
            if !extension.starts_with(".patch") {
                continue;
            }
            let own = format!("{folder}/{name}");
            let operations = directory.read(&own)?;
            let mut path = format!("openshift/{target}");
            let manifest = match directory.read_if_present(&path)? {
                Some(manifest) => manifest,
                None => {
                    path = format!("manifests/{target}");
                    let failed = |source| ManifestError::NoTarget { target: path.clone(), patch: own.clone(), source };
                    directory.read(&path).map_err(failed)?
                }
            };
            let failed = |source| ManifestError::Patch { target: path.clone(), patch: own.clone(), source };
            let manifest = patch::apply(&manifest, &operations).map_err(failed)?;
            directory.write(&path, &manifest)?;
            directory.remove(&own)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
