//! The inputs of a pass besides the records.

use crate::attest::record::Policy;
use crate::check::requirements::Requirements;
use crate::model::IgnoredValidations;
use crate::steps::options::StepOptions;
use crate::store::Presences;
use api::{ClusterId, HostId, Timestamp};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Mutex, PoisonError},
};
use tokio::sync::Notify;

/// The inputs of a pass besides the records.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) requirements: &'a Requirements,
    /// Which steps hosts are given.
    pub(crate) steps: &'a StepOptions,
    /// Checks that are switched off, unless the cluster has its own list.
    pub(crate) disabled_validations: &'a IgnoredValidations,
    /// What becomes of hosts that prove no good boot.
    pub(crate) attest: Policy,
    /// Clusters have a control plane.
    pub(crate) with_control_plane: bool,
    /// Single nodes resolve the names of their clusters themselves.
    pub(crate) single_node_dnsmasq: bool,
    /// A cluster is not installed before its controller has reported operators and ingress.
    pub(crate) await_controller: bool,
    /// The host that the service runs on and that is installed last.
    pub(crate) own_host: Option<HostId>,
    /// When the service started: silence before that is not the hosts' fault.
    pub(crate) started: Timestamp,
    /// When hosts were last heard of.
    pub(crate) presences: &'a Presences,
    /// Has the manifests.
    pub(crate) state_directory: &'a Path,
    /// Collects clusters that are too large to be judged within every request.
    pub(crate) unsettled: &'a Unsettled,
}

/// Clusters, and hosts without one, that changed and are too large to be judged within every request.
#[derive(Default)]
pub(crate) struct Unsettled {
    clusters: Mutex<BTreeSet<Option<ClusterId>>>,
    noted: Notify,
}

impl Unsettled {
    /// Notes a cluster, or with none the hosts without a cluster.
    pub(crate) fn note(&self, id: Option<ClusterId>) {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        self.noted.notify_one();
    }

    /// Waits until something is noted.
    pub(crate) async fn noted(&self) {
        self.noted.notified().await;
    }

    /// Takes what is noted.
    pub(crate) fn take(&self) -> BTreeSet<Option<ClusterId>> {
        std::mem::take(&mut self.clusters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
