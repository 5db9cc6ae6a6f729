//! Cache of what release images name.

use crate::model::ClusterRecord;
use crate::releases::Catalogue;
use api::{ClusterId, Secret};
use netcheck::image::reference::Digest;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The images that a release image names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Other installers apply `bootstrap.ign` with it.
    pub machine_config_operator: Option<String>,
    /// It gathers a cluster's logs.
    pub must_gather: Option<String>,
    /// The system of nodes, for hosts that get it into the root file system they run from.
    pub coreos: Option<String>,
}

/// Pause before retrying a failed registry.
const RETRY: Duration = Duration::from_secs(600);
/// More releases than any service installs: beyond it the cache is cleared.
const MAX_KNOWN: usize = 64;

#[derive(Clone, Debug)]
enum State {
    Read(Arc<Payload>),
    Failed { error: String, at: Instant },
}

/// The cache.
#[derive(Debug, Default)]
pub struct Payloads {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_name: BTreeMap<String, State>,
    by_digest: BTreeMap<Digest, Arc<Payload>>,
}

/// A release image to read.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub cluster: ClusterId,
    pub image: String,
    /// Credentials for its registry.
    pub pull_secret: Secret,
}

impl Payloads {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an image names, if it was read.
    pub fn get(&self, image: &str) -> Option<Arc<Payload>> {
        match self.lock().by_name.get(image)? {
            State::Read(payload) => Some(payload.clone()),
            State::Failed { .. } => None,
        }
    }

    /// What was read under another name with the same digest.
    pub(super) fn by_digest(&self, digest: &Digest) -> Option<Arc<Payload>> {
        self.lock().by_digest.get(digest).cloned()
    }

    /// Whether to read an image, for the first time or again.
    pub(super) fn is_due(&self, image: &str, now: Instant) -> bool {
        match self.lock().by_name.get(image) {
            None => true,
            Some(State::Read(_)) => false,
            Some(State::Failed { at, .. }) => now.saturating_duration_since(*at) >= RETRY,
        }
    }

    /// Records the outcome of reading; false if the same failure was recorded last.
    pub(super) fn note(&self, image: &str, outcome: Result<(Digest, Arc<Payload>), String>, now: Instant) -> bool {
        let mut known = self.lock();
        if known.by_name.len() >= MAX_KNOWN && !known.by_name.contains_key(image) {
            *known = Known::default();
        }
        let before = known.by_name.get(image).cloned();
        match outcome {
            Ok((digest, payload)) => {
                known.by_digest.insert(digest, payload.clone());
                known.by_name.insert(image.to_owned(), State::Read(payload));
                true
            }
            Err(error) => {
                let is_news = !matches!(before, Some(State::Failed { error: before, .. }) if before == error);
                known.by_name.insert(image.to_owned(), State::Failed { error, at: now });
                is_news
            }
        }
    }
}

/// The release image of a cluster: the one that its user names, else the catalogue's.
pub fn release_image(catalogue: Option<&Catalogue>, record: &ClusterRecord) -> Option<String> {
    let named =
        record.settings.get("ocp_release_image").and_then(|image| image.as_str()).filter(|image| !image.is_empty());
    named.map(str::to_owned).or_else(|| {
        let cluster = &record.cluster;
        Some(catalogue?.release(&cluster.openshift_version, &cluster.cpu_architecture).ok()?.url.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_read_once_and_a_failure_is_reported_once_and_retried_later() {
        let payloads = Payloads::default();
        let now = Instant::now();
        let payload = Arc::new(Payload { must_gather: Some("r.io/mg:1".into()), ..Payload::default() });
        assert!(payloads.is_due("r.io/a:1", now));
        assert!(payloads.note("r.io/a:1", Err("down".into()), now));
        assert!(!payloads.is_due("r.io/a:1", now + RETRY - Duration::from_secs(1)));
        assert!(payloads.is_due("r.io/a:1", now + RETRY));
        assert!(!payloads.note("r.io/a:1", Err("down".into()), now + RETRY), "the same again is no news");
        assert!(payloads.note("r.io/a:1", Err("forbidden".into()), now + RETRY));
        assert_eq!(payloads.get("r.io/a:1"), None);
        let digest = Digest::compute(b"manifest");
        assert!(payloads.note("r.io/a:1", Ok((digest.clone(), payload.clone())), now));
        assert_eq!(payloads.get("r.io/a:1"), Some(payload.clone()));
        assert!(!payloads.is_due("r.io/a:1", now + RETRY * 100), "an image does not change");
        assert_eq!(payloads.by_digest(&digest), Some(payload));
        for n in 0..2 * MAX_KNOWN {
            payloads.note(&format!("r.io/b:{n}"), Err("down".into()), now);
        }
        assert!(payloads.lock().by_name.len() <= MAX_KNOWN);
    }
}
