//! A change in progress: the records as they will be, and which of them it must write.

use crate::model::{ClusterRecord, Event, HostKey, HostRecord, InfraEnvRecord, Model};
use api::{ClusterId, InfraEnvId, Timestamp};
use std::{collections::BTreeSet, sync::Arc};

/// A change in progress: the model as it will be, and what it must write.
pub struct Change {
    /// The time of the change.
    pub now: Timestamp,
    /// The request that causes it; empty for the service's own passes.
    pub(crate) request_id: String,
    model: Model,
    touched: Touched,
}

impl Change {
    /// Starts without changes.
    pub(super) fn new(model: &Model, request_id: &str) -> Self {
        Self {
            now: Timestamp::now(),
            request_id: request_id.to_owned(),
            model: model.clone(),
            touched: Touched::default(),
        }
    }

    pub(super) fn into_parts(self) -> (Model, Touched) {
        (self.model, self.touched)
    }

    /// The model as changed so far.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Adds or replaces a cluster.
    pub fn put_cluster(&mut self, mut record: ClusterRecord) {
        record.cluster.updated_at = self.now;
        let id = record.cluster.id;
        Arc::make_mut(&mut self.model.clusters).insert(id, Arc::new(record));
        self.touched.clusters.insert(id);
    }

    /// Adds or replaces an infra-env.
    pub fn put_infra_env(&mut self, record: InfraEnvRecord) {
        let id = record.infra_env.id;
        Arc::make_mut(&mut self.model.infra_envs).insert(id, Arc::new(record));
        self.touched.infra_envs.insert(id);
    }

    /// Adds or replaces a host.
    pub fn put_host(&mut self, mut record: HostRecord) {
        record.host.updated_at = self.now;
        let key = record.key();
        Arc::make_mut(&mut self.model.hosts).insert(key, Arc::new(record));
        self.touched.hosts.insert(key);
    }

    pub(crate) fn remove_cluster(&mut self, id: ClusterId) {
        Arc::make_mut(&mut self.model.clusters).remove(&id);
        self.touched.clusters.insert(id);
    }

    pub(crate) fn remove_infra_env(&mut self, id: InfraEnvId) {
        Arc::make_mut(&mut self.model.infra_envs).remove(&id);
        self.touched.infra_envs.insert(id);
    }

    pub(crate) fn remove_host(&mut self, key: HostKey) {
        Arc::make_mut(&mut self.model.hosts).remove(&key);
        self.touched.hosts.insert(key);
    }

    /// Records an event, its texts cut to size.
    pub fn event(&mut self, mut event: Event) {
        if event.request_id.is_empty() {
            event.request_id = self.request_id.clone();
        }
        event.bound();
        self.touched.events.push(event);
    }
}

/// What must be written.
#[derive(Default)]
pub(super) struct Touched {
    pub(super) clusters: BTreeSet<ClusterId>,
    pub(super) infra_envs: BTreeSet<InfraEnvId>,
    pub(super) hosts: BTreeSet<HostKey>,
    pub(super) events: Vec<Event>,
}

impl Touched {
    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.infra_envs.is_empty() && self.hosts.is_empty() && self.events.is_empty()
    }

    /// Whether it removes something.
    pub(super) fn removes(&self, model: &Model) -> bool {
        self.clusters.iter().any(|id| !model.clusters.contains_key(id))
            || self.infra_envs.iter().any(|id| !model.infra_envs.contains_key(id))
            || self.hosts.iter().any(|id| !model.hosts.contains_key(id))
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.clusters.extend(other.clusters);
        self.infra_envs.extend(other.infra_envs);
        self.hosts.extend(other.hosts);
        self.events.extend(other.events);
    }

    /// The same, and every record of a model.
    pub(super) fn with_model(&self, model: &Model) -> Self {
        Self {
            clusters: model.clusters.keys().copied().collect(),
            infra_envs: model.infra_envs.keys().copied().collect(),
            hosts: model.hosts.keys().copied().collect(),
            events: self.events.clone(),
        }
    }
}
