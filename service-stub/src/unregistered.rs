//! Clusters that were deleted, as they were when they were. They are listed for those who ask, until the service is restarted.

use api::{ClusterId, Timestamp};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// No more are held, the latest ones.
const MAX_CLUSTERS: usize = 100;
/// No larger document is held, bytes: that of a cluster with a hundred hosts is smaller.
const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// The documents of deleted clusters, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unregistered(Mutex<VecDeque<Value>>);

impl Unregistered {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the document of a cluster that was deleted, with its hosts.
    pub(crate) fn push(&self, mut document: Value, now: Timestamp) {
        if document.to_string().len() > MAX_DOCUMENT_BYTES {
            document["hosts"] = json!([]);
        }
        document["deleted_at"] = json!(now);
        for host in document["hosts"].as_array_mut().into_iter().flatten() {
            host["deleted_at"] = json!(now);
        }
        let mut all = self.lock();
        if all.len() == MAX_CLUSTERS {
            all.pop_front();
        }
        all.push_back(document);
    }

    /// All of them, with or without their hosts.
    pub(crate) fn list(&self, with_hosts: bool) -> Vec<Value> {
        let mut all: Vec<Value> = self.lock().iter().cloned().collect();
        if !with_hosts {
            all.iter_mut().for_each(|document| document["hosts"] = json!([]));
        }
        all
    }

    /// One of them, with its hosts.
    pub(crate) fn find(&self, id: ClusterId) -> Option<Value> {
        let id = json!(id);
        self.lock().iter().find(|document| document["id"] == id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_hundred_are_held() {
        let deleted = Unregistered::default();
        let ids: Vec<ClusterId> = (0..=MAX_CLUSTERS).map(|_| ClusterId::random()).collect();
        for id in &ids {
            deleted.push(json!({"id": id, "hosts": [{"id": "a"}]}), Timestamp::from_unix_seconds(5));
        }
        assert_eq!((deleted.list(true).len(), deleted.find(ids[0])), (MAX_CLUSTERS, None));
        let last = deleted.find(ids[MAX_CLUSTERS]).unwrap();
        assert_eq!(
            (&last["deleted_at"], &last["hosts"][0]["deleted_at"]),
            (&json!("1970-01-01T00:00:05.000Z"), &last["deleted_at"])
        );
        assert_eq!(deleted.list(false)[0]["hosts"], json!([]));
        deleted.push(json!({"id": ids[0], "hosts": ["x".repeat(MAX_DOCUMENT_BYTES)]}), Timestamp::ZERO);
        assert_eq!(deleted.find(ids[0]).unwrap()["hosts"], json!([]), "too large");
    }
}
