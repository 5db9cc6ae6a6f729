//! Records on disk: one redb file, and the rule that a change is on disk before anybody is told of it.
//!
//! Readers take the current [`Model`] and never wait for the disk. A writer works on a clone of it, commits what it
//! changed with a sync, and only then makes the clone current. There is one writer at a time, and one process: the file
//! is locked while it is open.

use crate::model::{ClusterRecord, Event, HostKey, HostRecord, InfraEnvRecord, Model, Presence};
use api::{ClusterId, HostId, InfraEnvId, Timestamp};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{DirBuilder, File, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};
use uuid::Uuid;

/// Version of the layout below; a file of another version is refused.
const FORMAT: u64 = 1;
/// Older events are dropped: a host that loops must not fill the disk.
const MAX_EVENTS: u64 = 100_000;

type Id = u128;
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const CLUSTERS: TableDefinition<Id, &[u8]> = TableDefinition::new("clusters");
const INFRA_ENVS: TableDefinition<Id, &[u8]> = TableDefinition::new("infra_envs");
const HOSTS: TableDefinition<(Id, Id), &[u8]> = TableDefinition::new("hosts");
const PRESENCE: TableDefinition<(Id, Id), (i64, i64)> = TableDefinition::new("presence");
const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");

/// What can go wrong with the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The state directory can't be made or synced.
    #[error("cannot use the state directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error(
        "{} is in use by another process: one state directory serves one service; stop the other or choose another --state-dir",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version.
    #[error("{} has format version {found}, this program reads version {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// It can't be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: Box<DatabaseError>,
    },
    /// A record is damaged.
    #[error("the {kind} record {key} is damaged")]
    Record {
        /// Which table.
        kind: &'static str,
        /// Which record.
        key: String,
        /// Cause.
        source: serde_json::Error,
    },
    /// Reading or committing failed.
    #[error("the database failed")]
    Database(#[source] Box<redb::Error>),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::Database(Box::new(error.into()))
    }
}

/// The open store.
pub struct Store {
    database: Database,
    directory: PathBuf,
    current: RwLock<Arc<Model>>,
    presence: Mutex<PresenceTable>,
    next_event: Mutex<u64>,
}

#[derive(Default)]
struct PresenceTable {
    by_host: BTreeMap<HostKey, Presence>,
    unsaved: BTreeSet<HostKey>,
}

/// A change being made: the model as it will be, and what must be written for it.
pub struct Change {
    /// The moment of the change.
    pub now: Timestamp,
    /// The request that causes it; empty for the service's own passes.
    pub request_id: String,
    model: Model,
    clusters: BTreeSet<ClusterId>,
    infra_envs: BTreeSet<InfraEnvId>,
    hosts: BTreeSet<HostKey>,
    events: Vec<Event>,
}

impl Change {
    /// The model as changed so far.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Adds or replaces a cluster.
    pub fn put_cluster(&mut self, mut record: ClusterRecord) {
        record.cluster.updated_at = self.now;
        let id = record.cluster.id;
        self.model.clusters.insert(id, Arc::new(record));
        self.clusters.insert(id);
    }

    /// Adds or replaces an infra-env.
    pub fn put_infra_env(&mut self, record: InfraEnvRecord) {
        let id = record.infra_env.id;
        self.model.infra_envs.insert(id, Arc::new(record));
        self.infra_envs.insert(id);
    }

    /// Adds or replaces a host.
    pub fn put_host(&mut self, mut record: HostRecord) {
        record.host.updated_at = self.now;
        let key = record.key();
        self.model.hosts.insert(key, Arc::new(record));
        self.hosts.insert(key);
    }

    /// Removes a cluster.
    pub fn remove_cluster(&mut self, id: ClusterId) {
        self.model.clusters.remove(&id);
        self.clusters.insert(id);
    }

    /// Removes an infra-env.
    pub fn remove_infra_env(&mut self, id: InfraEnvId) {
        self.model.infra_envs.remove(&id);
        self.infra_envs.insert(id);
    }

    /// Removes a host.
    pub fn remove_host(&mut self, key: HostKey) {
        self.model.hosts.remove(&key);
        self.hosts.insert(key);
    }

    /// Records an event, its texts cut to size.
    pub fn event(&mut self, mut event: Event) {
        if event.request_id.is_empty() {
            event.request_id = self.request_id.clone();
        }
        event.bound();
        self.events.push(event);
    }

    fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.infra_envs.is_empty() && self.hosts.is_empty() && self.events.is_empty()
    }
}

impl Store {
    /// Opens the store in `directory`, making it when it isn't there (mode 0700: it holds pull secrets).
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let at = |source| StoreError::Directory { path: directory.into(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at)?;
        let path = directory.join("state.redb");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let database = Database::builder().create_file(file.map_err(at)?).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Locked { path: path.clone() },
            error => StoreError::Open { path: path.clone(), source: Box::new(error) },
        })?;
        // The file's name must survive a crash as well as its content.
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(at)?;
        let store = Self {
            database,
            directory: directory.into(),
            current: RwLock::default(),
            presence: Mutex::default(),
            next_event: Mutex::default(),
        };
        store.load(&path)?;
        Ok(store)
    }

    /// Where uploaded files may be kept.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The records as they are on disk.
    pub fn model(&self) -> Arc<Model> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a change: what `work` did is on disk when this returns, or nothing of it is anywhere.
    pub fn change<T, E: From<StoreError>>(
        &self,
        request_id: &str,
        work: impl FnOnce(&mut Change) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut next_event = lock(&self.next_event);
        let mut change = Change {
            now: Timestamp::now(),
            request_id: request_id.to_owned(),
            model: Model::clone(&self.model()),
            clusters: BTreeSet::new(),
            infra_envs: BTreeSet::new(),
            hosts: BTreeSet::new(),
            events: Vec::new(),
        };
        let result = work(&mut change)?;
        if !change.is_empty() {
            self.commit(&change, *next_event)?;
            *next_event += u64::try_from(change.events.len()).unwrap_or(u64::MAX);
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(change.model);
        }
        Ok(result)
    }

    fn commit(&self, change: &Change, next_event: u64) -> Result<(), StoreError> {
        let model = &change.model;
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(CLUSTERS)?;
            for id in &change.clusters {
                match model.clusters.get(id) {
                    Some(record) => drop(table.insert(key(id.0), &*encode("cluster", id, record.as_ref())?)?),
                    None => drop(table.remove(key(id.0))?),
                }
            }
            let mut table = transaction.open_table(INFRA_ENVS)?;
            for id in &change.infra_envs {
                match model.infra_envs.get(id) {
                    Some(record) => drop(table.insert(key(id.0), &*encode("infra-env", id, record.as_ref())?)?),
                    None => drop(table.remove(key(id.0))?),
                }
            }
            let mut table = transaction.open_table(HOSTS)?;
            for id in &change.hosts {
                match model.hosts.get(id) {
                    Some(record) => drop(table.insert(pair(*id), &*encode("host", &id.host, record.as_ref())?)?),
                    None => drop(table.remove(pair(*id))?),
                }
            }
            let mut table = transaction.open_table(EVENTS)?;
            for (sequence, event) in (next_event..).zip(&change.events) {
                table.insert(sequence, &*encode("event", &sequence, event)?)?;
                if let Some(old) = sequence.checked_sub(MAX_EVENTS) {
                    table.remove(old)?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Notes that a host was heard of. On disk with the next [`Store::save_presence`]: a poll is no write.
    pub fn note_presence(&self, host: HostKey, presence: Presence) {
        let mut table = lock(&self.presence);
        table.by_host.insert(host, presence);
        table.unsaved.insert(host);
    }

    /// When a host was last heard of.
    pub fn presence(&self, host: HostKey) -> Presence {
        lock(&self.presence).by_host.get(&host).copied().unwrap_or_default()
    }

    /// When each host was last heard of.
    pub fn presences(&self) -> BTreeMap<HostKey, Presence> {
        lock(&self.presence).by_host.clone()
    }

    /// Writes what [`Store::note_presence`] was told since the last time, and forgets hosts that are gone.
    pub fn save_presence(&self) -> Result<(), StoreError> {
        let model = self.model();
        let rows: Vec<_> = {
            let mut table = lock(&self.presence);
            table.by_host.retain(|host, _| model.hosts.contains_key(host));
            let unsaved = std::mem::take(&mut table.unsaved);
            unsaved.into_iter().map(|host| (host, table.by_host.get(&host).copied())).collect()
        };
        if rows.is_empty() {
            return Ok(());
        }
        let transaction = self.database.begin_write()?;
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

    /// All events, oldest first, that `wanted` takes. A damaged one is logged and left out: it must not hide the others.
    pub fn events(&self, mut wanted: impl FnMut(&Event) -> bool) -> Result<Vec<Event>, StoreError> {
        let transaction = self.database.begin_read()?;
        let mut events = Vec::new();
        for row in transaction.open_table(EVENTS)?.iter()? {
            let (sequence, value) = row?;
            match decode("event", &sequence.value(), value.value()) {
                Ok(event) if wanted(&event) => events.push(event),
                Ok(_) => {}
                Err(error) => tracing::warn!(sequence = sequence.value(), ?error, "an event is left out of a list"),
            }
        }
        Ok(events)
    }

    fn load(&self, path: &Path) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            let found = meta.get("format")?.map(|value| value.value());
            match found {
                Some(FORMAT) => {}
                Some(found) => return Err(StoreError::Format { path: path.into(), found }),
                None => drop(meta.insert("format", FORMAT)?),
            }
            let mut model = Model::default();
            for row in transaction.open_table(CLUSTERS)?.iter()? {
                let (id, value) = row?;
                let id = ClusterId(Uuid::from_u128(id.value()));
                model.clusters.insert(id, Arc::new(decode("cluster", &id, value.value())?));
            }
            for row in transaction.open_table(INFRA_ENVS)?.iter()? {
                let (id, value) = row?;
                let id = InfraEnvId(Uuid::from_u128(id.value()));
                model.infra_envs.insert(id, Arc::new(decode("infra-env", &id, value.value())?));
            }
            for row in transaction.open_table(HOSTS)?.iter()? {
                let (id, value) = row?;
                let id = unpair(id.value());
                model.hosts.insert(id, Arc::new(decode("host", &id.host, value.value())?));
            }
            let mut presence = lock(&self.presence);
            for row in transaction.open_table(PRESENCE)?.iter()? {
                let (id, value) = row?;
                let (seconds, clock) = value.value();
                let heard = Presence { checked_in_at: Timestamp::from_unix_seconds(seconds), clock };
                presence.by_host.insert(unpair(id.value()), heard);
            }
            let last = transaction.open_table(EVENTS)?.last()?.map(|(sequence, _)| sequence.value());
            *lock(&self.next_event) = last.map_or(0, |sequence| sequence.saturating_add(1));
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(model);
        }
        transaction.commit()?;
        Ok(())
    }
}

// A panic while one of these was held left whole values behind: they are replaced, never edited in place.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(id: Uuid) -> Id {
    id.as_u128()
}

fn pair(host: HostKey) -> (Id, Id) {
    (key(host.infra_env.0), key(host.host.0))
}

fn unpair((infra_env, host): (Id, Id)) -> HostKey {
    HostKey { infra_env: InfraEnvId(Uuid::from_u128(infra_env)), host: HostId(Uuid::from_u128(host)) }
}

fn encode<T: Serialize>(kind: &'static str, key: &impl ToString, record: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(record).map_err(|source| StoreError::Record { kind, key: key.to_string(), source })
}

fn decode<T: DeserializeOwned>(kind: &'static str, key: &impl ToString, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|source| StoreError::Record { kind, key: key.to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> Event {
        Event {
            name: String::new(),
            cluster_id: None,
            host_id: None,
            infra_env_id: None,
            severity: "info".into(),
            category: "user".into(),
            message: message.into(),
            event_time: Timestamp::now(),
            request_id: String::new(),
            props: String::new(),
        }
    }

    #[test]
    fn a_second_opener_is_told_so_and_content_survives() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let host = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        store
            .change("r1", |change| {
                change.put_host(HostRecord::new(host, None, change.now));
                change.event(event("hello"));
                Ok::<_, StoreError>(())
            })
            .unwrap();
        let heard = Presence { checked_in_at: Timestamp::from_unix_seconds(1_000), clock: 7 };
        store.note_presence(host, heard);
        store.save_presence().unwrap();
        assert!(matches!(Store::open(directory.path()), Err(StoreError::Locked { .. })));
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(store.model().hosts[&host].state, HostState::DiscoveringUnbound);
        assert_eq!(store.presence(host), heard);
        let events = store.events(|_| true).unwrap();
        assert_eq!((events.len(), events[0].request_id.as_str()), (1, "r1"));
    }

    #[test]
    fn a_failed_change_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let failed = store.change("", |change| {
            change.event(event("never"));
            Err::<(), _>(StoreError::Locked { path: PathBuf::new() })
        });
        assert!(failed.is_err());
        assert_eq!(store.events(|_| true).unwrap(), []);
    }

    #[test]
    fn a_damaged_event_hides_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        for text in ["first", "damaged", "last"] {
            store
                .change("", |change| {
                    change.event(event(text));
                    Ok::<_, StoreError>(())
                })
                .unwrap();
        }
        let transaction = store.database.begin_write().unwrap();
        transaction.open_table(EVENTS).unwrap().insert(1, b"{\"name\":".as_slice()).unwrap();
        transaction.commit().unwrap();
        let texts: Vec<_> = store.events(|_| true).unwrap().into_iter().map(|event| event.message).collect();
        assert_eq!(texts, ["first", "last"]);
    }

    #[test]
    fn another_format_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let transaction = store.database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("format", 99).unwrap();
        transaction.commit().unwrap();
        drop(store);
        assert!(matches!(Store::open(directory.path()), Err(StoreError::Format { found: 99, .. })));
    }

    use crate::state::HostState;
}
