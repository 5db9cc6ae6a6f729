//! From the records to what a run needs.

use super::Generation;
use crate::generated_manifests;
use crate::manifest_files;
use crate::model::{ClusterRecord, Model};
use crate::node_addresses;
use crate::node_settings::node_settings;
use crate::service::Service;
use crate::text::chain;
use api::HostRole;
use preparation::{Folder, Job, Manifest, Source, edit};

pub(super) fn of_cluster(
    service: &Service,
    generation: &Generation,
    model: &Model,
    record: &ClusterRecord,
    release_image: String,
) -> Result<Job, String> {
    let cluster = &record.cluster;
    let hosts = model.hosts_of_cluster(cluster.id);
    let platform = cluster.platform.as_ref().map_or("none", |platform| platform.kind.as_str());
    let workers = hosts.iter().filter(|host| host.effective_role() == HostRole::Worker).count();
    let bootstrap_address = node_addresses::bootstrap_address(record, &hosts);
    let job = Job {
        cluster: cluster.id,
        install_config: record.course.install_config.clone(),
        openshift_version: cluster.openshift_version.clone(),
        release_image,
        invoker: generation.invoker.clone(),
        bootstrap_address: bootstrap_address.map_err(|error| error.to_string())?,
        platform: platform.to_owned(),
        workers,
        manifests: manifests(service, model, record)?,
        signers: generation.signers.clone(),
        nodes: node_settings(record, &hosts, service.settings.ca_pem.as_deref()),
    };
    edit::check(&job.nodes, &job.manifests).map_err(|error| chain(&error))?;
    Ok(job)
}

/// The service's own, then the user's.
fn manifests(service: &Service, model: &Model, record: &ClusterRecord) -> Result<Vec<Manifest>, String> {
    let id = record.cluster.id;
    let state = service.store.directory();
    let unreadable = |error: std::io::Error| format!("cannot read the manifests of cluster {id}: {error}");
    let folder = |name: &str| if name == Folder::Openshift.as_str() { Folder::Openshift } else { Folder::Manifests };
    let generated = generated_manifests::of_cluster(service, model, record).map_err(unreadable)?.into_iter();
    let mut all: Vec<Manifest> = generated
        .map(|manifest| Manifest {
            folder: folder(manifest.folder),
            file: manifest.file,
            content: manifest.content.into_bytes(),
            source: Source::System,
        })
        .collect();
    for (name, content) in manifest_files::read_all(state, id).map_err(unreadable)? {
        all.push(Manifest { folder: folder(name.folder), file: name.file, content, source: Source::User });
    }
    Ok(all)
}
