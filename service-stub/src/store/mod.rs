//! Records on disk: one redb file, and the rule that a change is on disk before it is acknowledged.
//!
//! Readers take the current [`Model`] and never wait for the disk. A writer works on a clone of the next model; its changes are
//! committed with a sync, and only then become current and are acknowledged. Writers work one at a time; what several of them
//! changed during a sync is committed together by the next. One process has the store: the file is locked while it is open.

pub mod backup;
mod change;
pub(crate) mod cli;
mod error;
mod file;
mod journal;
mod key;
mod layout;
mod open;
mod presence;
mod rates;
mod records;
pub(crate) mod room;
mod salvage;
pub mod seal;

pub use change::Change;
pub use error::StoreError;
pub use journal::EventQuery;
pub(crate) use journal::{EventPage, HostFilter};
pub(crate) use open::is_in_use;
pub(crate) use presence::Presences;
pub(crate) use salvage::Damage;

use change::Touched;
use file::DatabaseFile;
use journal::Journal;
use layout::{CLUSTERS, EVENTS, FILE, FORMAT, HOSTS, INFRA_ENVS, META, PLAIN_FORMAT, PRESENCE, key, pair, unpair};
use rates::EventRates;
use seal::{Seal, SealError};

use crate::events::limits::EventLimits;
use crate::metrics::published::Published;
use crate::model::{Event, HostKey, Model, Presence};
use crate::text::chain;
use api::{ClusterId, InfraEnvId, Timestamp};
use redb::ReadableTable;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::sync::watch;
use uuid::Uuid;

/// Older events are dropped: a host that loops must not fill the disk.
const MAX_EVENTS: usize = 100_000;
/// Largest gap between the numbers of two stored events.
const MAX_EVENTS_GAP: u64 = 100_000;
/// The same for one cluster, which must not displace the events of others.
const MAX_EVENTS_OF_CLUSTER: usize = 20_000;

/// The open store.
pub struct Store {
    file: DatabaseFile,
    /// A commit failed, and it is unknown how much of it is on disk: the next one writes everything.
    behind: AtomicBool,
    seal: Arc<Seal>,
    directory: PathBuf,
    current: RwLock<Arc<Model>>,
    presences: Presences,
    journal: RwLock<Journal>,
    queue: Mutex<Queue>,
    committed: Condvar,
    changes: watch::Sender<u64>,
    published: Published,
    damage: Vec<Damage>,
    free_bytes: AtomicU64,
    rates: Mutex<EventRates>,
}

/// Changes on their way to the disk.
#[derive(Default)]
struct Queue {
    /// The records as they will be.
    next: Arc<Model>,
    /// What the next commit will write.
    batch: Batch,
    /// What a writer is committing.
    committing: Option<Outcome>,
}

/// The result of a commit, once it ended.
type Outcome = Arc<OnceLock<Result<(), Arc<StoreError>>>>;

/// Changes written together.
#[derive(Default)]
struct Batch {
    touched: Touched,
    /// Shared by all writers with changes in it.
    outcome: Outcome,
}

impl Store {
    fn over(file: DatabaseFile, directory: &Path, seal: Seal) -> Result<Self, StoreError> {
        let mut store = Self {
            file,
            behind: AtomicBool::new(false),
            seal: Arc::new(seal),
            directory: directory.into(),
            current: RwLock::default(),
            presences: Presences::default(),
            journal: RwLock::default(),
            queue: Mutex::default(),
            committed: Condvar::new(),
            changes: watch::Sender::new(0),
            published: Published::default(),
            damage: Vec::new(),
            free_bytes: AtomicU64::new(0),
            rates: Mutex::default(),
        };
        store.damage = store.load(&directory.join(FILE))?;
        Ok(store)
    }

    /// What was lost, or may have been, when it was opened.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// From now on changes must leave this much of the file system free; those that remove something are exempt.
    pub(crate) fn leave_free(&self, bytes: u64) {
        self.free_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What files beside the records are sealed with.
    pub(crate) fn seal(&self) -> Arc<Seal> {
        self.seal.clone()
    }

    /// From now on events are recorded this often at most. Those that are stored count.
    pub(crate) fn limit_events(&self, limits: &EventLimits) {
        let mut rates = EventRates::new(limits.clone());
        // The usual ones are remembered with their hosts.
        if limits.has_own {
            match self.events(&EventQuery { limit: usize::MAX, ..EventQuery::default() }) {
                Ok(page) => page.events.iter().for_each(|event| rates.note(event)),
                Err(error) => tracing::warn!(error = chain(&error), "cannot read the events that limits count from"),
            }
        }
        *lock(&self.rates) = rates;
    }

    /// Where uploaded files may be stored.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The records as they are on disk.
    pub fn model(&self) -> Arc<Model> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Metrics of changes. A change is counted when made, although its commit may still fail.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Changes with every commit, for those that wait for it.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Makes a change: when this returns, all that `work` did is on disk, or none of it is anywhere. All that it read is on disk
    /// too, so that no answer shows a change that a crash could undo.
    pub fn change<T, E: From<StoreError>>(
        &self,
        request_id: &str,
        work: impl FnOnce(&mut Change) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut queue = lock(&self.queue);
        let mut change = Change::new(&queue.next, request_id);
        let result = work(&mut change);
        let now = change.now;
        let (model, mut touched) = change.into_parts();
        if result.is_ok() {
            lock(&self.rates).thin(&mut touched.events, now);
        }
        if result.is_ok() && !touched.is_empty() {
            if !touched.removes(&model) {
                room::check(&self.directory, self.free_bytes.load(Ordering::Relaxed)).map_err(StoreError::Room)?;
            }
            self.published.note(&queue.next, &model, &touched.events, now);
            queue.next = Arc::new(model);
            queue.batch.touched.extend(touched);
        }
        self.settle(queue).map_err(|error| StoreError::Commit(error).into()).and(result)
    }

    /// Waits until the whole queue is on disk; the first waiter commits it for all.
    fn settle<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> Result<(), Arc<StoreError>> {
        let outcome = match &queue.committing {
            _ if !queue.batch.touched.is_empty() => queue.batch.outcome.clone(),
            Some(outcome) => outcome.clone(),
            None => return Ok(()),
        };
        loop {
            if let Some(outcome) = outcome.get() {
                return outcome.clone();
            }
            if queue.committing.is_some() {
                queue = self.committed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let batch = std::mem::take(&mut queue.batch);
            queue.committing = Some(batch.outcome.clone());
            let model = queue.next.clone();
            drop(queue);
            let written = self.commit(&batch.touched, &model).map_err(Arc::new);
            queue = lock(&self.queue);
            queue.committing = None;
            match &written {
                Ok(()) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = model;
                    self.changes.send_modify(|count| *count = count.wrapping_add(1));
                }
                Err(error) => {
                    // Changes made meanwhile build on the failed ones.
                    let late = std::mem::take(&mut queue.batch);
                    queue.next = self.model();
                    drop(late.outcome.set(Err(error.clone())));
                }
            }
            drop(batch.outcome.set(written));
            self.committed.notify_all();
        }
    }

    fn commit(&self, touched: &Touched, model: &Model) -> Result<(), StoreError> {
        let behind = self.behind.load(Ordering::Acquire);
        let written = match behind {
            true => self.write(&touched.with_model(model), model, true),
            false => self.write(touched, model, false),
        };
        match &written {
            Ok(()) if behind => {
                tracing::info!("the store accepts changes again");
                self.behind.store(false, Ordering::Release);
            }
            Ok(()) => {}
            Err(error) => {
                if !behind {
                    tracing::error!(?error, "the store cannot be written: changes are refused until a write succeeds");
                }
                self.behind.store(true, Ordering::Release);
                self.file.close();
            }
        }
        written
    }

    /// Writes what changed; with `anew`, it replaces everything.
    fn write(&self, touched: &Touched, model: &Model, anew: bool) -> Result<(), StoreError> {
        let (next_event, crowded_out) = {
            let journal = self.journal.read().unwrap_or_else(PoisonError::into_inner);
            (journal.next(), journal.crowded_out(&touched.events, MAX_EVENTS_OF_CLUSTER))
        };
        let transaction = self.file.begin_write()?;
        if anew {
            transaction.delete_table(CLUSTERS)?;
            transaction.delete_table(INFRA_ENVS)?;
            transaction.delete_table(HOSTS)?;
            transaction.open_table(EVENTS)?.retain_in(next_event.., |_, _| false)?;
        }
        {
            let mut table = transaction.open_table(CLUSTERS)?;
            for id in &touched.clusters {
                match model.clusters.get(id) {
                    Some(record) => drop(table.insert(key(id.0), &*self.encode("cluster", id, record.as_ref())?)?),
                    None => drop(table.remove(key(id.0))?),
                }
            }
            let mut table = transaction.open_table(INFRA_ENVS)?;
            for id in &touched.infra_envs {
                match model.infra_envs.get(id) {
                    Some(record) => drop(table.insert(key(id.0), &*self.encode("infra-env", id, record.as_ref())?)?),
                    None => drop(table.remove(key(id.0))?),
                }
            }
            let mut table = transaction.open_table(HOSTS)?;
            for id in &touched.hosts {
                match model.hosts.get(id) {
                    Some(record) => drop(table.insert(pair(*id), &*self.encode("host", &id.host, record.as_ref())?)?),
                    None => drop(table.remove(pair(*id))?),
                }
            }
            let mut table = transaction.open_table(EVENTS)?;
            for sequence in &crowded_out {
                table.remove(sequence)?;
            }
            for (sequence, event) in (next_event..).zip(&touched.events) {
                table.insert(sequence, &*self.encode("event", &sequence, event)?)?;
                if let Some(old) = u64::try_from(MAX_EVENTS).ok().and_then(|max| sequence.checked_sub(max)) {
                    table.remove(old)?;
                }
            }
        }
        transaction.commit()?;
        let mut journal = self.journal.write().unwrap_or_else(PoisonError::into_inner);
        crowded_out.into_iter().for_each(|sequence| journal.remove(sequence));
        for event in &touched.events {
            journal.push(Some(event), MAX_EVENTS);
        }
        Ok(())
    }

    /// When hosts last polled.
    pub fn presences(&self) -> &Presences {
        &self.presences
    }

    /// Writes the polls of hosts since the last call, and forgets deleted hosts.
    pub(crate) fn save_presence(&self) -> Result<(), StoreError> {
        room::check(&self.directory, self.free_bytes.load(Ordering::Relaxed))?;
        let model = self.model();
        let rows = self.presences.take_unsaved(|host| model.hosts.contains_key(host));
        if rows.is_empty() {
            return Ok(());
        }
        self.write_presence(rows).inspect_err(|_| self.file.close())
    }

    fn write_presence(&self, rows: Vec<(HostKey, Option<Presence>)>) -> Result<(), StoreError> {
        let transaction = self.file.begin_write()?;
        {
            let mut table = transaction.open_table(PRESENCE)?;
            for (host, presence) in rows {
                match presence {
                    Some(presence) => {
                        drop(table.insert(pair(host), (presence.checked_in_at.unix_seconds(), presence.clock))?);
                    }
                    None => drop(table.remove(pair(host))?),
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// The events that match a query. A damaged one is logged and left out: it must not hide the others.
    pub fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
        // The table first: events that the journal has beyond it are left for the next reader.
        let transaction = self.file.begin_read()?;
        let table = transaction.open_table(EVENTS)?;
        let read = |sequence: u64| -> Result<Option<Event>, StoreError> {
            let Some(value) = table.get(sequence)? else { return Ok(None) };
            let event = self.decode("event", &sequence, value.value());
            Ok(event.inspect_err(|error| tracing::warn!(sequence, ?error, "omitting a damaged event from a list")).ok())
        };
        let found = self.journal.read().unwrap_or_else(PoisonError::into_inner).find(query);
        let mut page = EventPage::default();
        for (sequence, severity) in found {
            let on_page = page.total >= query.offset && page.events.len() < query.limit;
            if on_page || query.message.is_some() {
                let Some(event) = read(sequence)? else { continue };
                if query.message.as_ref().is_some_and(|text| !event.message.to_lowercase().contains(text)) {
                    continue;
                }
                if on_page {
                    page.events.push(event);
                }
            }
            page.total += 1;
            if let Some(count) = page.by_severity.get_mut(usize::from(severity)) {
                *count += 1;
            }
        }
        Ok(page)
    }

    /// Reads everything; a damaged record is left out and listed.
    fn load(&self, path: &Path) -> Result<Vec<Damage>, StoreError> {
        let mut damage = Vec::new();
        let mut read = 0_u64;
        let mut skip = |kind: &'static str, key: String, error: StoreError| {
            tracing::error!(kind, key, ?error, "ignoring a damaged record");
            damage.push(Damage { kind, key, reason: chain(&error) });
        };
        let transaction = self.file.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            let found = meta.get("format")?.map(|value| value.value());
            match found {
                Some(FORMAT) => {}
                Some(PLAIN_FORMAT) => {
                    tracing::info!(path = %path.display(), "encrypting the records of an earlier version");
                    self.seal_all(&transaction)?;
                    meta.insert("format", FORMAT)?;
                }
                Some(found) => return Err(StoreError::Format { path: path.into(), found }),
                None => drop(meta.insert("format", FORMAT)?),
            }
            let sealed_with = meta.get("key")?.map(|value| value.value());
            if sealed_with.is_some_and(|key| key != self.seal.fingerprint()) {
                return Err(SealError::Foreign.into());
            }
            let (mut clusters, mut infra_envs, mut hosts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
            for row in transaction.open_table(CLUSTERS)?.iter()? {
                let (id, value) = row?;
                let id = ClusterId(Uuid::from_u128(id.value()));
                match self.decode("cluster", &id, value.value()) {
                    Ok(record) => drop(clusters.insert(id, Arc::new(record))),
                    Err(error) => skip("cluster", id.to_string(), error),
                }
            }
            for row in transaction.open_table(INFRA_ENVS)?.iter()? {
                let (id, value) = row?;
                let id = InfraEnvId(Uuid::from_u128(id.value()));
                match self.decode("infra-env", &id, value.value()) {
                    Ok(record) => drop(infra_envs.insert(id, Arc::new(record))),
                    Err(error) => skip("infra-env", id.to_string(), error),
                }
            }
            for row in transaction.open_table(HOSTS)?.iter()? {
                let (id, value) = row?;
                let id = unpair(id.value());
                match self.decode("host", &id.host, value.value()) {
                    Ok(record) => drop(hosts.insert(id, Arc::new(record))),
                    Err(error) => skip("host", id.host.to_string(), error),
                }
            }
            for row in transaction.open_table(PRESENCE)?.iter()? {
                let (id, value) = row?;
                let (seconds, clock) = value.value();
                let heard = Presence { checked_in_at: Timestamp::from_unix_seconds(seconds), clock };
                self.presences.load(unpair(id.value()), heard);
            }
            let mut journal = self.journal.write().unwrap_or_else(PoisonError::into_inner);
            for row in transaction.open_table(EVENTS)?.iter()? {
                let (sequence, value) = row?;
                // Replaced events left gaps; a gap longer than the maximum is the start of a table.
                match sequence.value().checked_sub(journal.next()) {
                    Some(gap) if gap < MAX_EVENTS_GAP && journal.next() > 0 => {
                        (0..gap).for_each(|_| journal.push(None, MAX_EVENTS))
                    }
                    _ => journal.begin_at(sequence.value()),
                }
                match self.decode("event", &sequence.value(), value.value()) {
                    Ok(event) => {
                        read += 1;
                        journal.push(Some(&event), MAX_EVENTS);
                    }
                    Err(error) => {
                        skip("event", sequence.value().to_string(), error);
                        journal.push(None, MAX_EVENTS);
                    }
                }
            }
            let records = clusters.len() + infra_envs.len() + hosts.len();
            // None of them opens, so the key is wrong.
            if records == 0 && read == 0 && damage.iter().any(|damage| damage.reason == SealError::Foreign.to_string())
            {
                return Err(SealError::Foreign.into());
            }
            if sealed_with.is_none() {
                meta.insert("key", self.seal.fingerprint())?;
            }
            let model = Model { clusters: clusters.into(), infra_envs: infra_envs.into(), hosts: hosts.into() };
            let model = Arc::new(model);
            lock(&self.queue).next = model.clone();
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = model;
        }
        transaction.commit()?;
        Ok(damage)
    }
}

// If panics unwind, as in tests, a panic left complete values: they are replaced, never edited in place.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
