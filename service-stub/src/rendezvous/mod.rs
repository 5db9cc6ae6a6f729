//! A rack with nothing else around: this service on one of the rack's own hosts, started from the live ISO.
//!
//! What the rack is to become lies in files of the image ([`plan`], from documents as `read` finds them and `kinds` knows
//! them). `rack` makes the records of it, gives each host what is planned for it, and starts the installation once everybody is
//! there. The machine the service runs on installs last (`hold`), and takes the records with it (`handover`).

mod announce;
mod cli;
mod error;
mod handover;
mod hints;
mod hold;
mod hosts;
mod kinds;
mod plan;
mod rack;
mod read;
mod show;
mod wait;

pub(crate) use announce::Announcement;
pub(crate) use cli::{Outcome, RendezvousArgs};
pub(crate) use error::PlanError;
pub use handover::PATH as HANDOVER_PATH;
pub(crate) use handover::with_records;
pub(crate) use hold::step;
pub(crate) use hosts::PlannedHost;
pub(crate) use kinds::RACK_FILE;
pub use plan::{directory, plan};
pub use rack::begin;
pub(crate) use rack::{advance, tell};
pub use read::parse;
pub(crate) use show::{as_json, lines};
pub(crate) use wait::here;

use crate::auth::keys::SigningKey;
use api::{ClusterCreateParams, ClusterId, HostId, InfraEnvCreateParams, InfraEnvId};
use sha2::{Digest, Sha256};
use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};
use uuid::Uuid;

/// What the rack is to become.
#[derive(Clone, Debug)]
pub struct Rack {
    pub cluster: ClusterCreateParams,
    /// What its hosts boot.
    pub infra_env: InfraEnvCreateParams,
    /// Hosts that are known beforehand.
    pub hosts: Vec<PlannedHost>,
    pub masters: usize,
    /// Hosts, known beforehand or not.
    pub total: usize,
    /// Where the service is to be; any machine when there is none.
    pub address: Option<IpAddr>,
    /// The installation is started by somebody.
    pub hold: bool,
    /// What was not understood.
    pub warnings: Vec<String>,
}

/// A rack that this service brings up from within.
#[derive(Debug)]
pub struct Rendezvous {
    pub rack: Rack,
    /// The machine we run on, as its agent names it.
    pub serving_host: Option<HostId>,
    pub cluster: ClusterId,
    pub infra_env: InfraEnvId,
    /// Signs what agents are told of it; without one nothing is proven to them.
    pub key: Option<Arc<SigningKey>>,
    /// What was told last of what is waited for.
    last_text: Mutex<String>,
}

impl Rendezvous {
    /// Ids follow from the cluster's name, so that a service that is started again finds its own.
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

    /// Its name in multicast DNS. Unlike the cluster's name it fits into a label, and is another one on each rack.
    fn label(&self) -> String {
        let id = self.infra_env.to_string();
        format!("landfall-{}", id.split('-').next().unwrap_or(&id))
    }

    /// Whether a text is another one than the last.
    fn is_news(&self, text: &str) -> bool {
        let mut last_text = self.last_text.lock().unwrap_or_else(PoisonError::into_inner);
        let news = *last_text != text;
        text.clone_into(&mut last_text);
        news
    }
}
