//! Manifests of an installation, which no change of settings reaches once it has begun.

use super::all;
use super::generated::Generated;
use crate::manifest_files::{self, Name};
use crate::model::{ClusterRecord, Model};
use crate::service::Service;
use std::io;

/// Those that the cluster's installation began with. Before it, and where none were stored, those that its settings ask for now. Without
/// a control plane nothing would apply them: there are none.
pub(crate) fn of_cluster(service: &Service, model: &Model, cluster: &ClusterRecord) -> io::Result<Vec<Generated>> {
    let id = cluster.cluster.id;
    if !service.rules().with_control_plane {
        return Ok(Vec::new());
    }
    if !cluster.state.is_before_installation()
        && let Some(content) = manifest_files::read_generated(service.store.directory(), id)?
    {
        let rows: Vec<[String; 3]> = serde_json::from_slice(&content)?;
        let manifest = |[folder, file, content]: [String; 3]| {
            let Name { folder, file } = Name::parse(&folder, &file)?;
            Some(Generated { folder, file, content })
        };
        return Ok(rows.into_iter().filter_map(manifest).collect());
    }
    // A cluster that was installed elsewhere, or before manifests were stored, has what it has.
    if cluster.day2() {
        return Ok(Vec::new());
    }
    Ok(all(cluster, &model.hosts_of_cluster(id), model, &service.settings))
}

/// Stores those of an installation that begins.
pub(crate) fn store(service: &Service, model: &Model, cluster: &ClusterRecord) -> io::Result<()> {
    if !service.rules().with_control_plane {
        return Ok(());
    }
    let id = cluster.cluster.id;
    let manifests = all(cluster, &model.hosts_of_cluster(id), model, &service.settings);
    let rows: Vec<_> = manifests.iter().map(|own| [own.folder, &own.file, &own.content]).collect();
    manifest_files::write_generated(service.store.directory(), id, &serde_json::to_vec(&rows)?)
}
