//! Images that a release is made of, as its release image names them. They are read from the registry in the background, once for
//! each image: no answer waits for them.

mod args;
mod read;

pub use args::{ForVersion, ImageArgs};
pub use read::{PayloadError, parse};

use crate::events::{self, kinds};
use crate::http::Refusal;
use crate::model::{ClusterRecord, Model};
use crate::releases::{Catalogue, MustGather};
use crate::server::blocking;
use crate::service::Service;
use crate::state::ClusterState;
use api::{ClusterId, Secret};
use netcheck::image::reference::Digest;
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// What a release image names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// With it installers of other makers apply `bootstrap.ign`.
    pub machine_config_operator: Option<String>,
    /// It gathers a cluster's logs.
    pub must_gather: Option<String>,
}

/// How often it is looked for clusters with an image that is to be read.
const LOOK_EVERY: Duration = Duration::from_secs(4);
/// A registry that is down may be back after this long.
const RETRY: Duration = Duration::from_secs(600);
/// More releases than any service installs: the ones asked for first are forgotten.
const MAX_KNOWN: usize = 64;

#[derive(Clone, Debug)]
enum State {
    Read(Arc<Payload>),
    Failed { error: String, at: Instant },
}

/// What is known of release images.
#[derive(Debug, Default)]
pub struct Payloads {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_name: BTreeMap<String, State>,
    by_digest: BTreeMap<Digest, Arc<Payload>>,
}

/// A release image that is to be read.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub cluster: ClusterId,
    pub image: String,
    /// Credentials for its registry.
    pub pull_secret: Secret,
}

impl Payloads {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an image names, if it has been read.
    pub fn get(&self, image: &str) -> Option<Arc<Payload>> {
        match self.lock().by_name.get(image)? {
            State::Read(payload) => Some(payload.clone()),
            State::Failed { .. } => None,
        }
    }

    /// What was read under another name.
    fn by_digest(&self, digest: &Digest) -> Option<Arc<Payload>> {
        self.lock().by_digest.get(digest).cloned()
    }

    /// Whether an image is to be read, now or again.
    fn is_due(&self, image: &str, now: Instant) -> bool {
        match self.lock().by_name.get(image) {
            None => true,
            Some(State::Read(_)) => false,
            Some(State::Failed { at, .. }) => now.saturating_duration_since(*at) >= RETRY,
        }
    }

    /// Notes how reading went. Says whether that is news.
    fn note(&self, image: &str, outcome: Result<(Digest, Arc<Payload>), String>, now: Instant) -> bool {
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
    let named = record.kept.get("ocp_release_image").and_then(|image| image.as_str()).filter(|image| !image.is_empty());
    named.map(str::to_owned).or_else(|| {
        let cluster = &record.cluster;
        Some(catalogue?.release(&cluster.openshift_version, &cluster.cpu_architecture).ok()?.url.clone())
    })
}

/// The first release image that some cluster is still to be installed with, and that is to be read.
pub fn wanted(service: &Service, model: &Model, now: Instant) -> Option<Wanted> {
    use ClusterState as S;
    service.settings.registry.as_ref()?;
    // Without a control plane no request names these images.
    service.settings.cluster_files.as_ref()?;
    let open = model.clusters.values().filter(|record| {
        let state = record.state;
        !record.day2() && !matches!(state, S::Installed | S::Finalizing | S::Error | S::Cancelled)
    });
    open.filter(|record| !service.settings.image_args.names_all(&record.cluster.openshift_version)).find_map(|record| {
        let image = release_image(service.settings.catalogue.as_deref(), record)?;
        let due = service.payloads.is_due(&image, now);
        due.then(|| Wanted { cluster: record.cluster.id, image, pull_secret: record.pull_secret.clone() })
    })
}

/// Reads one release image if one is wanted, and notes the outcome. Blocks for as long as that takes, which is bounded. Says
/// whether there was one.
pub fn read_one(service: &Service) -> Result<bool, Refusal> {
    let Some(wanted) = wanted(service, &service.store.model(), Instant::now()) else { return Ok(false) };
    let Some(options) = service.settings.registry.as_deref() else { return Ok(false) };
    let known = |digest: &Digest| service.payloads.by_digest(digest);
    let outcome = read::read(&wanted, options, &known);
    let outcome = outcome.map_err(|error| chain(&error));
    let failed = outcome.as_ref().err().cloned();
    let is_news = service.payloads.note(&wanted.image, outcome, Instant::now());
    match failed {
        None => tracing::info!(image = wanted.image, cluster = %wanted.cluster, "the release image was read"),
        Some(error) if is_news => {
            tracing::warn!(image = wanted.image, cluster = %wanted.cluster, error, "the release image can't be read");
            service.change("", |change| {
                if let Some(record) = change.model().clusters.get(&wanted.cluster).cloned() {
                    let details = json!({"image": wanted.image, "error": error});
                    events::cluster(change, &record, kinds::RELEASE_IMAGE_UNREADABLE, details);
                }
                Ok(())
            })?;
        }
        Some(_) => {}
    }
    Ok(true)
}

/// What the install requests of a cluster name: by the options, the catalogue, or the release image as far as it was read.
pub fn of_cluster(service: &Service, record: &ClusterRecord) -> Payload {
    let (settings, cluster) = (&service.settings, &record.cluster);
    let catalogue = settings.catalogue.as_deref();
    let version = cluster.openshift_version.as_str();
    let named = settings.image_args.of_version(version);
    let listed = catalogue.and_then(|catalogue| catalogue.must_gather(version, &cluster.cpu_architecture));
    let read = release_image(catalogue, record).and_then(|image| service.payloads.get(&image)).unwrap_or_default();
    Payload {
        machine_config_operator: named.machine_config_operator.or(read.machine_config_operator.clone()),
        must_gather: named.must_gather.or_else(|| listed.map(argument)).or(read.must_gather.clone()),
    }
}

/// One image as it is, several as an object.
fn argument(images: &MustGather) -> String {
    match (images.len(), images.get("ocp")) {
        (1, Some(image)) => image.clone(),
        _ => json!(images).to_string(),
    }
}

/// Reads release images as clusters want them, until the service stops.
pub async fn keep_reading(service: Arc<Service>, mut stopped: watch::Receiver<bool>) {
    loop {
        let reading = service.clone();
        let pause = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            done = blocking(move || read_one(&reading)) => match done {
                Ok(true) => Duration::ZERO,
                Ok(false) => LOOK_EVERY,
                Err(refusal) => {
                    tracing::error!(?refusal, "a release image that can't be read could not be told of");
                    LOOK_EVERY
                }
            },
        };
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_read_once_and_a_failure_is_told_once_and_tried_again_later() {
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
        let digest = Digest::of(b"manifest");
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
