//! A kind of objects, watched.

use super::objects::Kind;
use futures_util::{StreamExt, pin_mut};
use kube::{
    Api, Resource,
    core::ApiResource,
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinHandle};

/// The server ends a watch after so long, and says something at least each minute before. A watch on a dead connection ends with this, too.
const TIMEOUT_S: u32 = 120;
/// The first list is there soon or there is something wrong.
const FIRST: Duration = Duration::from_secs(30);

/// All objects of a kind as they were when the server last said so. Clones share one watch, which ends with the last of them.
#[derive(Clone)]
pub struct Watched<K: Resource<DynamicType = ApiResource> + Clone + 'static> {
    store: reflector::Store<K>,
    changes: watch::Receiver<u64>,
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
    pub(super) fn start(api: Api<K>, kind: Kind) -> Self {
        let writer = reflector::store::Writer::new(kind.resource());
        let (store, (changed, changes)) = (writer.as_reader(), watch::channel(0_u64));
        let config = watcher::Config::default().timeout(TIMEOUT_S);
        let stream = watcher(api, config).default_backoff().modify(|object| object.meta_mut().managed_fields = None);
        let stream = stream.reflect(writer);
        let watching = tokio::spawn(async move {
            pin_mut!(stream);
            let mut failed = 0_u32;
            while let Some(event) = stream.next().await {
                match event {
                    Ok(_) => {
                        failed = 0;
                        changed.send_modify(|count| *count = count.wrapping_add(1));
                    }
                    Err(error) => {
                        failed = failed.saturating_add(1);
                        // The first two are a server that restarts.
                        if failed == 3 {
                            tracing::warn!(
                                kind = kind.plural(),
                                error = &error as &dyn std::error::Error,
                                "watch failed; it goes on"
                            );
                        }
                    }
                }
            }
        });
        Self { store, changes, _watching: Arc::new(Watching(watching)) }
    }

    /// All objects; `None` while the server has not listed them once.
    pub async fn all(&self) -> Option<Vec<Arc<K>>> {
        tokio::time::timeout(FIRST, self.store.wait_until_ready()).await.ok()?.ok()?;
        Some(self.store.state())
    }

    /// Returns with the next change.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
