//! A kind of objects, watched.

use super::{CallError, bounded, objects::Kind, pages};
use futures_util::StreamExt;
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
    core::ApiResource,
};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, error::Error, fmt::Debug, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// The server ends a watch after so long.
const TIMEOUT_S: u32 = 120;
/// A watch says something at least each minute. One that says nothing for so many deadlines is on a dead connection.
const SILENCE: u32 = 3;
/// The shortest pause is this part of a deadline, the longest is one.
const PAUSES: u32 = 30;
/// After so many failures in a row all objects are listed again. The first two are a server that restarts.
const MANY: u32 = 3;
/// A lasting failure is logged again after so many: each five minutes.
const LOGGED: u32 = 10;

/// By namespace and name.
type Objects<K> = BTreeMap<(String, String), Arc<K>>;

/// All objects of a kind as they were when the server last said so. Clones share one watch, which ends with the last of them.
#[derive(Clone)]
pub struct Watched<K> {
    seen: watch::Receiver<Option<Objects<K>>>,
    deadline: Duration,
    _watching: Arc<Watching>,
}

struct Watching(JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<K> Watched<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// `trim` removes what no task reads: many objects are held.
    pub(super) fn start(api: Api<K>, kind: Kind, deadline: Duration, trim: fn(&mut K)) -> Self {
        let (objects, seen) = watch::channel(None);
        let watcher = Watcher { api, kind, deadline, trim, objects, version: None };
        Self { seen, deadline, _watching: Arc::new(Watching(tokio::spawn(watcher.run()))) }
    }

    /// All objects; `None` while the server has not listed them once.
    pub async fn all(&self) -> Option<Vec<Arc<K>>> {
        let mut seen = self.seen.clone();
        let objects = timeout(self.deadline, seen.wait_for(Option::is_some)).await.ok()?.ok()?;
        Some(objects.iter().flat_map(BTreeMap::values).cloned().collect())
    }

    /// Returns with the next change.
    pub async fn changed(&mut self) {
        if self.seen.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

struct Watcher<K> {
    api: Api<K>,
    kind: Kind,
    deadline: Duration,
    trim: fn(&mut K),
    objects: watch::Sender<Option<Objects<K>>>,
    /// From which a watch continues; none before a list.
    version: Option<String>,
}

impl<K> Watcher<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + DeserializeOwned + Debug,
{
    async fn run(mut self) {
        let mut failed = 0_u32;
        loop {
            match self.round().await {
                Ok(()) => {
                    if failed >= MANY {
                        tracing::info!(kind = self.kind.plural(), "watched again");
                    }
                    failed = 0;
                }
                Err(error) => {
                    failed = failed.saturating_add(1);
                    // Refusals do not end by themselves.
                    let is_refused = matches!(error.status(), Some(401 | 403));
                    if failed == if is_refused { 1 } else { MANY } || failed.is_multiple_of(LOGGED) {
                        let error = &error as &dyn Error;
                        tracing::warn!(kind = self.kind.plural(), error, failed, "cannot be watched; tried again");
                    }
                    // Who may list and not watch lists again and again.
                    if matches!(error.status(), Some(403 | 410)) || failed.is_multiple_of(MANY) {
                        self.version = None;
                    }
                }
            }
            let pause = self.deadline / PAUSES * 2_u32.saturating_pow(failed);
            sleep(pause.min(self.deadline)).await;
        }
    }

    /// Lists if nothing is known, and watches until the server ends that.
    async fn round(&mut self) -> Result<(), CallError> {
        let version = match &self.version {
            Some(version) => version.clone(),
            None => self.list().await?,
        };
        let parameters = WatchParams::default().timeout(TIMEOUT_S);
        let kind = self.kind;
        let what = || format!("watch {}", kind.plural());
        let stream = bounded(self.deadline, what, self.api.watch(&parameters, &version)).await?;
        let mut stream = pin!(stream);
        // Silence is an end, too: the next watch continues from there.
        while let Ok(Some(event)) = timeout(self.deadline * SILENCE, stream.next()).await {
            let failed = |source| CallError::Api { what: what(), source: Box::new(source) };
            self.take(event.map_err(failed)?).map_err(failed)?;
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<String, CallError> {
        let what = || format!("list {}", self.kind.plural());
        let parameters = ListParams::default();
        let (items, version) = pages(&self.api, parameters, self.deadline, what, self.trim).await?;
        let objects = items.into_iter().map(|object| (key(&object), Arc::new(object))).collect();
        self.objects.send_replace(Some(objects));
        self.version = Some(version.clone());
        Ok(version)
    }

    fn take(&mut self, event: WatchEvent<K>) -> Result<(), kube::Error> {
        let (mut object, is_there) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
            WatchEvent::Deleted(object) => (object, false),
            WatchEvent::Bookmark(mark) => {
                self.version = Some(mark.metadata.resource_version);
                return Ok(());
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        self.version = object.meta().resource_version.clone();
        (self.trim)(&mut object);
        self.objects.send_modify(|objects| {
            let objects = objects.get_or_insert_default();
            match is_there {
                true => drop(objects.insert(key(&object), Arc::new(object))),
                false => drop(objects.remove(&key(&object))),
            }
        });
        Ok(())
    }
}

fn key<K: Resource>(object: &K) -> (String, String) {
    let metadata = object.meta();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
