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
    /// Those that were no hosts at the last saving: they may have been about to register.
    awaited: BTreeSet<HostKey>,
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

    /// Forgets deleted hosts and returns the rows to write. A host polls just before it is one, so it is looked for twice.
    pub(super) fn take_unsaved(&self, exists: impl Fn(&HostKey) -> bool) -> Vec<(HostKey, Option<Presence>)> {
        let table = &mut *self.lock();
        let (mut to_save, unknown): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut table.unsaved).into_iter().partition(&exists);
        let (gone, new): (BTreeSet<_>, BTreeSet<_>) =
            unknown.into_iter().partition(|host| table.awaited.contains(host));
        table.by_host.retain(|host, _| exists(host) || new.contains(host));
        to_save.extend(gone);
        table.unsaved.extend(&new);
        table.awaited = new;
        to_save.into_iter().map(|host| (host, table.by_host.get(&host).copied())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{HostId, InfraEnvId};

    #[test]
    fn a_host_that_is_about_to_register_is_not_forgotten() {
        let presences = Presences::default();
        let [new, gone] = [1, 2].map(|_| HostKey { infra_env: InfraEnvId::random(), host: HostId::random() });
        let presence = Presence { clock: 7, ..Presence::default() };
        presences.note(new, presence);
        presences.note(gone, presence);
        assert_eq!(presences.take_unsaved(|_| false), []);
        assert_eq!(presences.get(new), presence);
        let mut saved = presences.take_unsaved(|host| *host == new);
        saved.sort_by_key(|(host, _)| *host != new);
        assert_eq!(saved, [(new, Some(presence)), (gone, None)]);
        assert_eq!(presences.get(gone), Presence::default());
        assert_eq!(presences.take_unsaved(|_| true), []);
        presences.note(new, presence);
        assert_eq!(presences.take_unsaved(|_| true), [(new, Some(presence))]);
    }
}
