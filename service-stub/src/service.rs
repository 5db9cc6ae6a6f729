//! The service: settings, store and files on offer, and what handlers do with them.

use crate::check::requirements::Requirements;
use crate::cluster_files::ClusterFiles;
use crate::media::Media;
use crate::store::{Change, Store};
use crate::{http::Refusal, pass};
use api::Timestamp;

/// How the service behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL hosts use, without a slash at the end.
    pub url: String,
    /// Seconds between two polls of a host.
    pub poll_interval: u64,
    /// What hardware is needed.
    pub requirements: Requirements,
    /// Name of the agent's image, for agents that don't tell theirs.
    pub agent_image: String,
    /// Name of the installer's image.
    pub installer_image: String,
    /// Name of the controller's image.
    pub controller_image: String,
    /// Have the discovery config fetch the binary: for an ISO that doesn't carry it.
    pub deliver_agent: bool,
    /// Clusters have a control plane, and these are its files.
    pub cluster_files: Option<ClusterFiles>,
    /// Name of the machine-config operator's image, with which installers of other makers apply `bootstrap.ign`.
    pub mco_image: Option<String>,
}

/// The running service.
pub struct Service {
    /// How it behaves.
    pub settings: Settings,
    /// Records.
    pub store: Store,
    /// Files on offer.
    pub media: Media,
    /// When it started: silence before that is nobody's fault.
    pub started: Timestamp,
}

impl Service {
    /// A service on an open store.
    pub fn new(settings: Settings, store: Store, media: Media) -> Self {
        Self { settings, store, media, started: Timestamp::now() }
    }

    /// Makes a change and answers only once it is on disk.
    pub fn change<T>(
        &self,
        request_id: &str,
        work: impl FnOnce(&mut Change) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.store.change(request_id, work)
    }

    /// One pass over everything that time alone may change.
    pub fn refresh(&self) -> Result<(), crate::store::StoreError> {
        let model = self.store.model();
        for id in model.clusters.keys() {
            self.store.change("", |change| {
                pass::settle_cluster(self, change, *id);
                Ok::<_, crate::store::StoreError>(())
            })?;
        }
        if model.hosts.values().any(|record| record.host.cluster_id.is_none()) {
            self.store.change("", |change| {
                pass::settle_unbound(self, change);
                Ok::<_, crate::store::StoreError>(())
            })?;
        }
        self.store.save_presence()
    }
}
