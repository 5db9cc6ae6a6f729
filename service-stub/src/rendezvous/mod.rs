//! A self-contained rack: this service runs on one of the rack's own hosts, started from the live ISO.
//!
//! The plan is in files of the image ([`plan`]: `read` parses documents, `kinds` finds the reader of each, the readers fill a `draft`, and
//! `judge` holds what comes of it against the service's rules). `rack` creates its records, has each host get its part, and starts the
//! installation once all hosts are present. The machine that the service runs on installs last (`hold`), and saves the records
//! (`handover`). Where the plan adds nodes to a cluster that exists, each of them serves itself (`add`).

mod add;
mod agent;
mod announce;
mod cli;
mod draft;
mod error;
mod existing;
mod handover;
mod hold;
mod hosts;
mod hub;
mod install_config;
mod judge;
mod kinds;
mod listed;
mod machine;
mod manifests;
mod metadata;
mod names;
mod plan;
mod rack;
mod rack_file;
mod read;
mod references;
mod show;
mod wait;

pub(crate) use announce::Announcement;
pub(crate) use cli::{Outcome, RendezvousArgs};
pub(crate) use draft::MANIFESTS;
pub use draft::PlannedManifest;
pub use error::PlanError;
pub use existing::{ExistingCluster, Mirror};
pub use handover::PATH as HANDOVER_PATH;
pub(crate) use handover::with_records;
pub(crate) use hold::step;
pub(crate) use manifests::{UsersManifest, manifests};
pub(crate) use names::RACK_FILE;
pub(crate) use plan::{Unknown, changes, plan_with};
pub use plan::{directory, plan};
pub use rack::begin;
pub(crate) use rack::{advance, tell};
pub use read::{Document, documents, parse};
pub(crate) use show::{as_json, lines};
pub(crate) use wait::here;

use crate::auth::keys::SigningKey;
use crate::planned::PlannedHost;
use api::{ClusterCreateParams, ClusterId, HostId, InfraEnvCreateParams, InfraEnvId};
use sha2::{Digest, Sha256};
use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};
use uuid::Uuid;

/// The plan of the rack.
#[derive(Clone, Debug, Default)]
pub struct Rack {
    pub cluster: ClusterCreateParams,
    /// Its infra-env.
    pub infra_env: InfraEnvCreateParams,
    /// Hosts known beforehand.
    pub hosts: Vec<PlannedHost>,
    pub masters: usize,
    /// Number of hosts, known beforehand or not.
    pub total: usize,
    /// Address of the serving machine; any machine if `None`.
    pub address: Option<IpAddr>,
    /// A user starts the installation.
    pub hold: bool,
    /// The hosts are added to this cluster: each serves itself alone.
    pub existing: Option<ExistingCluster>,
    /// JSON text that is decoded over the cluster's install configuration; may be empty.
    pub overrides: String,
    /// Files that are added to the cluster's manifests.
    pub manifests: Vec<PlannedManifest>,
    /// Unknown fields that were ignored because the user asked for that.
    pub warnings: Vec<String>,
    /// What the documents have that does nothing here, each with the reason.
    pub idle: Vec<String>,
}

impl Rack {
    /// Logs what of the documents is ignored or does nothing here.
    pub(crate) fn tell(&self) {
        self.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        self.idle.iter().for_each(|idle| tracing::info!("{idle}"));
    }
}

/// A rack that this service brings up from within.
#[derive(Debug)]
pub struct Rendezvous {
    pub rack: Rack,
    /// The id of the machine we run on.
    pub serving_host: Option<HostId>,
    pub cluster: ClusterId,
    pub infra_env: InfraEnvId,
    /// Signs answers to agents; without it they are unsigned.
    pub key: Option<Arc<SigningKey>>,
    /// The last logged reason for waiting.
    last_text: Mutex<String>,
}

impl Rendezvous {
    /// Ids are derived from the cluster's name, so that a restarted service finds its records.
    pub fn new(rack: Rack, serving_host: Option<HostId>) -> Self {
        let id = |kind: &str| {
            let digest = Sha256::digest(format!("landfall rendezvous {kind} {}", rack.cluster.name));
            let mut bytes = [0; 16];
            bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
            uuid::Builder::from_custom_bytes(bytes).into_uuid()
        };
        let (cluster, infra_env): (Uuid, Uuid) = (id("cluster"), id("infra-env"));
        Self {
            rack,
            serving_host,
            cluster: ClusterId(cluster),
            infra_env: InfraEnvId(infra_env),
            key: None,
            last_text: Mutex::default(),
        }
    }

    /// Its name in multicast DNS. Unlike the cluster's name it fits into a label, and is unique to the rack.
    fn label(&self) -> String {
        let id = self.infra_env.to_string();
        format!("landfall-{}", id.split('-').next().unwrap_or(&id))
    }

    /// Whether a text differs from the last.
    fn is_news(&self, text: &str) -> bool {
        let mut last_text = self.last_text.lock().unwrap_or_else(PoisonError::into_inner);
        let news = *last_text != text;
        text.clone_into(&mut last_text);
        news
    }
}
