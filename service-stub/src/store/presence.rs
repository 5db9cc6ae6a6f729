//! When each host last polled. Separate from the records, since every poll changes it.

use crate::model::{HostKey, Presence};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

#[derive(Default)]
pub struct Presences(Mutex<Table>);

#[derive(Default)]
struct Table {
    by_host: BTreeMap<HostKey, Presence>,
    unsaved: BTreeSet<HostKey>,
}

impl Presences {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a host polled. Written to disk later: a poll does not cause a write.
    pub fn note(&self, host: HostKey, presence: Presence) {
        let mut table = self.lock();
        table.by_host.insert(host, presence);
        table.unsaved.insert(host);
    }

    pub(crate) fn get(&self, host: HostKey) -> Presence {
        self.lock().by_host.get(&host).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> BTreeMap<HostKey, Presence> {
        self.lock().by_host.clone()
    }

    /// Loads a row of the store.
    pub(super) fn load(&self, host: HostKey, presence: Presence) {
        self.lock().by_host.insert(host, presence);
    }

    /// Forgets deleted hosts and returns the rows to write.
    pub(super) fn take_unsaved(&self, exists: impl Fn(&HostKey) -> bool) -> Vec<(HostKey, Option<Presence>)> {
        let mut table = self.lock();
        table.by_host.retain(|host, _| exists(host));
        let unsaved = std::mem::take(&mut table.unsaved);
        unsaved.into_iter().map(|host| (host, table.by_host.get(&host).copied())).collect()
    }
}
