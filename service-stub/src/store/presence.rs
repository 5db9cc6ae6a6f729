//! When hosts were last heard of. Kept apart from their records: every poll changes it.

use crate::model::{HostKey, Presence};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// By host.
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

    /// Notes that a host was heard of. It is on disk later: a poll is no write.
    pub fn note(&self, host: HostKey, presence: Presence) {
        let mut table = self.lock();
        table.by_host.insert(host, presence);
        table.unsaved.insert(host);
    }

    /// When a host was last heard of.
    pub fn get(&self, host: HostKey) -> Presence {
        self.lock().by_host.get(&host).copied().unwrap_or_default()
    }

    /// When each host was last heard of.
    pub fn all(&self) -> BTreeMap<HostKey, Presence> {
        self.lock().by_host.clone()
    }

    /// Takes what the disk says.
    pub(super) fn load(&self, host: HostKey, presence: Presence) {
        self.lock().by_host.insert(host, presence);
    }

    /// Forgets hosts that are gone, and hands over what is to be written.
    pub(super) fn take_unsaved(&self, exists: impl Fn(&HostKey) -> bool) -> Vec<(HostKey, Option<Presence>)> {
        let mut table = self.lock();
        table.by_host.retain(|host, _| exists(host));
        let unsaved = std::mem::take(&mut table.unsaved);
        unsaved.into_iter().map(|host| (host, table.by_host.get(&host).copied())).collect()
    }
}
