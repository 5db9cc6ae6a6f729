//! Work without a request: every few seconds, and after large changes.

use crate::handlers::plans;
use crate::pass::{self, Rules};
use crate::preparing;
use crate::rendezvous;
use crate::retention;
use crate::service::Service;
use crate::store::{Change, StoreError};
use api::{ClusterId, Timestamp};
use std::{sync::atomic::Ordering, thread, time::Instant};

impl Service {
    /// One pass over all records that may change with time.
    pub fn refresh(&self) -> Result<(), StoreError> {
        self.refreshed.store(Timestamp::now().unix_seconds(), Ordering::Relaxed);
        self.unsettled.take();
        let model = self.store.model();
        self.outstanding.retain(|key| model.hosts.contains_key(key));
        let unbound = model.hosts.values().any(|record| record.host.cluster_id.is_none());
        let began = Instant::now();
        let all = model.clusters.keys().map(|id| Some(*id)).chain(unbound.then_some(None));
        self.settle_all(all, pass::monitor_cluster)?;
        preparing::begin(self);
        self.store.published().cycle(began.elapsed());
        plans::carry_out_all(self);
        if let Err(refusal) = rendezvous::advance(self) {
            tracing::error!(?refusal, "cannot carry out the rack plan");
        }
        self.advance_certifications();
        let up = i64::try_from(self.up.elapsed().as_secs()).unwrap_or(i64::MAX);
        let idle = up.saturating_sub(self.swept.load(Ordering::Relaxed));
        if self.settings.retention.interval().is_some_and(|interval| idle >= interval) {
            self.swept.store(up, Ordering::Relaxed);
            retention::sweep(self, Timestamp::now(), up)?;
        }
        self.store.save_presence()
    }

    /// Updates the states of clusters noted as changed.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        self.settle_all(self.unsettled.take(), pass::settle_cluster)
    }

    fn settle_all(
        &self,
        ids: impl IntoIterator<Item = Option<ClusterId>>,
        judge: fn(&Rules, &mut Change, ClusterId),
    ) -> Result<(), StoreError> {
        for id in ids {
            // One at a time, each followed by a pause as long as its work, so that requests are served.
            let began = Instant::now();
            self.store.change("", |change| {
                match id {
                    Some(id) => judge(&self.rules(), change, id),
                    None => pass::settle_unbound(&self.rules(), change),
                }
                Ok::<_, StoreError>(())
            })?;
            thread::sleep(began.elapsed());
        }
        Ok(())
    }
}
