//! Reads release images for clusters that will be installed.

use super::known::{Payload, Wanted, release_image};
use super::read;
use crate::events::{self, kinds};
use crate::http::{Refusal, work::blocking};
use crate::model::{ClusterRecord, Model};
use crate::releases::MustGather;
use crate::service::Service;
use crate::state::ClusterState;
use crate::text::chain;
use netcheck::image::reference::Digest;
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Time between two searches for images to read.
const LOOK_EVERY: Duration = Duration::from_secs(4);

/// The first release image to read: one that a cluster will be installed with.
pub(super) fn wanted(service: &Service, model: &Model, now: Instant) -> Option<Wanted> {
    use ClusterState as S;
    service.settings.registry.as_ref()?;
    // Without a control plane no request names these images.
    if !service.settings.has_control_plane() {
        return None;
    }
    let from_disk =
        |record: &ClusterRecord| model.hosts_of_cluster(record.cluster.id).iter().any(|host| host.boots_from_disk());
    let mut open = model.clusters.values().filter(|record| match record.state {
        S::Installed | S::Finalizing | S::Error | S::Cancelled => false,
        // Of the release an added host needs at most its system.
        _ if record.day2() => from_disk(record),
        _ => !service.settings.image_args.names_all(&record.cluster.openshift_version) || from_disk(record),
    });
    open.find_map(|record| {
        let image = release_image(service.catalogue().as_deref(), record)?;
        let due = service.payloads.is_due(&image, now);
        due.then(|| Wanted { cluster: record.cluster.id, image, pull_secret: record.pull_secret.clone() })
    })
}

/// Reads one release image if needed, and records the outcome. Blocks for a limited time. Returns whether there was one.
pub fn read_one(service: &Service) -> Result<bool, Refusal> {
    let Some(wanted) = wanted(service, &service.store.model(), Instant::now()) else { return Ok(false) };
    let Some(options) = service.settings.registry.as_deref() else { return Ok(false) };
    let known = |digest: &Digest| service.payloads.by_digest(digest);
    let outcome = read::read(&wanted, options, &known);
    let outcome = outcome.map_err(|error| chain(&error));
    let failed = outcome.as_ref().err().cloned();
    let is_news = service.payloads.note(&wanted.image, outcome, Instant::now());
    match failed {
        None => tracing::info!(image = wanted.image, cluster = %wanted.cluster, "read the release image"),
        Some(error) if is_news => {
            tracing::warn!(image = wanted.image, cluster = %wanted.cluster, error, "cannot read the release image");
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

/// The images in a cluster's install requests: from the options, the catalogue, or the release image once read.
pub fn of_cluster(service: &Service, record: &ClusterRecord) -> Payload {
    let (settings, cluster) = (&service.settings, &record.cluster);
    let catalogue = service.catalogue();
    let catalogue = catalogue.as_deref();
    let version = cluster.openshift_version.as_str();
    let named = settings.image_args.of_version(version);
    let listed = catalogue.and_then(|catalogue| catalogue.must_gather(version, &cluster.cpu_architecture));
    let read = release_image(catalogue, record).and_then(|image| service.payloads.get(&image)).unwrap_or_default();
    Payload {
        machine_config_operator: named.machine_config_operator.or(read.machine_config_operator.clone()),
        must_gather: named.must_gather.or_else(|| listed.map(argument)).or(read.must_gather.clone()),
        coreos: read.coreos.clone(),
    }
}

/// One image as a plain text, several as an object.
fn argument(images: &MustGather) -> String {
    match (images.len(), images.get("ocp")) {
        (1, Some(image)) => image.clone(),
        _ => json!(images).to_string(),
    }
}

/// Reads release images as clusters need them, until the service stops.
pub async fn keep_reading(service: Arc<Service>, mut stopped: watch::Receiver<bool>) {
    loop {
        let reading = service.clone();
        let pause = tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            done = blocking(move || read_one(&reading)) => match done {
                Ok(true) => Duration::ZERO,
                Ok(false) => LOOK_EVERY,
                Err(refusal) => {
                    tracing::error!(?refusal, "cannot record an event about an unreadable release image");
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
