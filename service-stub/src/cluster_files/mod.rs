//! The install-time files of clusters with a control plane: an operator's, in a directory ([`GivenFiles`]), or those that were prepared for
//! one cluster, beside the records (docs/compatibility.md#cluster-file-names).

mod error;
pub(crate) mod given;
pub(crate) mod prepared;
mod reading;

pub use error::ClusterFilesError;
pub use given::GivenFiles;

use crate::model::ClusterRecord;
use crate::service::Service;
use api::{ClusterId, HostRole};
use ignition::data_url;
use preparation::Files;
use reading::read;
use serde::Deserialize;
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};
use uuid::Uuid;

/// Where the bootstrap host finds the cluster's identity.
const IDENTITY: &str = "/opt/openshift/manifests/cvo-overrides.yaml";

/// The files of one cluster.
#[derive(Clone, Debug)]
pub(crate) enum ClusterFiles {
    /// In an operator's directory. They are read anew for each request, so that they can be replaced while the service runs.
    Given(PathBuf),
    /// Beside the records, sealed.
    Prepared(prepared::Place),
    /// Just made.
    Made(Arc<Files>),
}

impl ClusterFiles {
    /// Those of a cluster, if it has any.
    pub(crate) fn of_cluster(service: &Service, record: &ClusterRecord) -> Option<Self> {
        match &service.settings.cluster_files {
            Some(given) => given.of_cluster(record).map(Self::Given),
            None => {
                let attempt = record.course.prepared_files?;
                Some(Self::Prepared(Self::place(service, record.cluster.id, attempt)))
            }
        }
    }

    /// Where the files of a preparation are.
    pub(crate) fn place(service: &Service, cluster: ClusterId, attempt: Uuid) -> prepared::Place {
        prepared::Place::new(service.store.directory(), service.store.seal(), cluster, attempt)
    }

    /// The contents of a file, if it exists. `name` must not come from a client as it is.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ClusterFilesError> {
        match self {
            Self::Given(directory) => read(&directory.join(name)),
            Self::Prepared(place) => place.read(name),
            Self::Made(files) => Ok(files.get(name).cloned()),
        }
    }

    /// Whether they were made from this cluster's settings, its manifests among them.
    pub(crate) fn are_prepared(&self) -> bool {
        !matches!(self, Self::Given(_))
    }

    /// The identity of the future control plane: that in the bootstrap's config, else that in `metadata.json`.
    pub(crate) fn cluster_id(&self) -> Result<Option<Uuid>, ClusterFilesError> {
        let bootstrap = self.read("bootstrap.ign")?.as_deref().and_then(identity);
        if bootstrap.is_some() {
            return Ok(bootstrap);
        }
        let metadata = self.read("metadata.json")?;
        let metadata: Option<Value> = metadata.and_then(|metadata| serde_json::from_slice(&metadata).ok());
        Ok(metadata.and_then(|metadata| metadata["clusterID"].as_str()?.parse().ok()))
    }

    /// The file with the config of a role.
    pub(crate) fn file_name(role: HostRole) -> &'static str {
        match role {
            HostRole::Worker | HostRole::AutoAssign => "worker.ign",
            HostRole::Arbiter => "arbiter.ign",
            HostRole::Master | HostRole::Bootstrap => "master.ign",
        }
    }
}

/// The cluster's identity in its bootstrap's config.
fn identity(bootstrap: &[u8]) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct Config {
        storage: Storage,
    }
    #[derive(Deserialize)]
    struct Storage {
        files: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        path: String,
        #[serde(default)]
        contents: Value,
    }
    let config: Config = serde_json::from_slice(bootstrap).ok()?;
    let entry = config.storage.files.iter().find(|entry| entry.path == IDENTITY)?;
    let text = data_url::decode(entry.contents["source"].as_str()?).ok()?.data;
    let documents = ignition::yaml::documents::<Value>(&text, text.len()).ok()?;
    documents.first()?.pointer("/spec/clusterID")?.as_str()?.parse().ok()
}
