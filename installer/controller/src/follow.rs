//! The service's view of the cluster, read once for all tasks.

use crate::{
    clock::{Clock, End},
    hosts::Snapshot,
    service::{Service, ServiceError},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Notify, watch};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(30);
/// So much that the cluster is gone, or this controller is not welcome, ends the work.
const ENOUGH: u32 = 3;

/// What the service last said. Clones are the same.
#[derive(Clone)]
pub(crate) struct Follow {
    service: Service,
    seen: Arc<watch::Sender<Option<Arc<Snapshot>>>>,
    soon: Arc<Notify>,
}

impl Follow {
    pub(crate) fn new(service: Service) -> Self {
        Self { service, seen: Arc::new(watch::Sender::new(None)), soon: Arc::default() }
    }

    /// The last snapshot; none while the service has not answered.
    pub(crate) fn last(&self) -> Option<Arc<Snapshot>> {
        self.seen.borrow().clone()
    }

    /// Sees each new snapshot.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<Snapshot>>> {
        self.seen.subscribe()
    }

    /// Asks for a look now: something was reported.
    pub(crate) fn look_soon(&self) {
        self.soon.notify_one();
    }

    /// Reads the cluster once. Hosts that are all installed are not read again: their inventories are large.
    pub(crate) async fn look(&self) -> Result<Arc<Snapshot>, ServiceError> {
        let before = self.last();
        let with_hosts =
            before.as_ref().is_none_or(|before| before.hosts.is_empty() || before.remaining().next().is_some());
        let asked = Some(Instant::now());
        let mut snapshot = Snapshot::parse(&self.service.cluster(with_hosts).await?)?;
        snapshot.asked = asked;
        if let Some(before) = before.filter(|_| !with_hosts) {
            snapshot.hosts = before.hosts.clone();
        }
        let snapshot = Arc::new(snapshot);
        self.seen.send_replace(Some(snapshot.clone()));
        Ok(snapshot)
    }

    /// Looks until the cluster is at its end, and returns its last status; none if it is gone or this controller is refused.
    pub(crate) async fn run(&self, clock: &Clock, end: &End) -> Option<String> {
        let mut refused = 0;
        while !end.is_set() {
            match self.look().await {
                Ok(snapshot) => {
                    refused = 0;
                    if matches!(snapshot.status.as_str(), "installed" | "adding-hosts" | "error" | "cancelled") {
                        return Some(snapshot.status.clone());
                    }
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the service's cluster can't be read");
                    refused += match error.status() {
                        Some(404) => ENOUGH,
                        Some(401 | 403) => 1,
                        _ => 0,
                    };
                    if refused >= ENOUGH {
                        return None;
                    }
                }
            }
            tokio::select! {
                () = clock.sleep(INTERVAL) => {}
                () = self.soon.notified() => {}
                () = end.wait() => {}
            }
        }
        None
    }
}
