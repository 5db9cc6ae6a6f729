//! The preparation of clusters: their install-time files are made in the background, one run for each cluster, by `openshift-install` of the
//! cluster's release.
//!
//! A cluster that is preparing and has no files is due. So nothing has to be remembered about runs: after a restart they begin again, and
//! a cluster that was cancelled, reset or deleted meanwhile ends its run.

pub(crate) mod args;
mod job;
pub(crate) mod running;

pub use args::Generation;
pub(crate) use args::GenerationArgs;

use crate::cluster_files::ClusterFiles;
use crate::documents;
use crate::events::{self, kinds, measured};
use crate::http::Refusal;
use crate::install_config;
use crate::model::{ClusterRecord, Model};
use crate::payload::release_image;
use crate::releases::version;
use crate::service::Service;
use crate::state::{ClusterState, cluster::Preparation};
use crate::store::Change;
use crate::text::chain;
use api::{ClusterId, Secret, Timestamp};
use preparation::{Bounds, Files, Phase, PreparationError};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};
use uuid::Uuid;

/// Runs at the same time. Each takes a processor and some hundred MB for a minute.
const AT_ONCE: usize = 2;
/// What a run may leave on the disk meanwhile.
const DIRECTORY_BYTES: u64 = 2 << 30;
/// Where runs work, in the state directory.
const WORK: &str = "preparation";

/// Removes what runs of an earlier process have left.
pub(crate) fn clean(state: &Path) {
    if let Err(error) = preparation::clean(&state.join(WORK)) {
        tracing::warn!(error = chain(&error), "cannot remove what an interrupted preparation has left");
    }
}

/// Makes the part of the files that needs nothing but records, when an installation begins.
pub(crate) fn start(service: &Service, change: &mut Change, record: &mut ClusterRecord) {
    record.course.prepares_files = service.settings.generation.is_some();
    match install_config::text(record, change.model(), &service.settings.site()) {
        Ok(text) => {
            record.course.install_config = Secret::new(text);
            if !record.course.prepares_files {
                succeed(change, record);
            }
        }
        Err(error) => {
            let id = record.cluster.id;
            fail(change, record, format!("failed to get install config for cluster {id}: {}", chain(&error)));
        }
    }
}

fn succeed(change: &mut Change, record: &mut ClusterRecord) {
    record.course.preparation = Preparation::Success;
    record.course.preparation_reason.clear();
    events::cluster(change, record, kinds::CLUSTER_PREPARE_INSTALLATION_STARTED, Value::Null);
}

fn fail(change: &mut Change, record: &mut ClusterRecord, reason: String) {
    record.course.preparation = Preparation::Failed;
    events::cluster(change, record, kinds::PREPARE_INSTALLATION_FAILED, json!({"error": reason}));
    record.course.preparation_reason = reason;
}

fn is_due(record: &ClusterRecord) -> bool {
    record.state == ClusterState::PreparingForInstallation && record.course.awaits_files()
}

/// Begins the runs that are due, as many as there may be at the same time, those that wait longest first.
pub(crate) fn begin(service: &Service) {
    let Some(shared) = service.shared().filter(|service| service.settings.generation.is_some()) else { return };
    let model = service.store.model();
    let mut due: Vec<&Arc<ClusterRecord>> = model.clusters.values().filter(|record| is_due(record)).collect();
    kernel::order::sort_by_key(&mut due, |record| record.cluster.install_started_at);
    for record in due {
        let mut running = service.preparations.running();
        let id = record.cluster.id;
        if running.len() >= AT_ONCE || !running.insert(id) {
            continue;
        }
        drop(running);
        let (shared, record) = (shared.clone(), record.clone());
        let spawned = thread::Builder::new().name("prepare".into()).spawn(move || {
            prepare(&shared, &record);
            shared.preparations.running().remove(&id);
            begin(&shared);
        });
        if let Err(error) = spawned {
            tracing::error!(cluster = %id, %error, "cannot start the preparation: it is tried again");
            service.preparations.running().remove(&id);
        }
    }
}

/// One run, and its outcome in the records.
fn prepare(service: &Service, record: &ClusterRecord) {
    let id = record.cluster.id;
    let attempt = |model: &Model| {
        let now = model.clusters.get(&id)?;
        (is_due(now) && now.cluster.install_started_at == record.cluster.install_started_at).then(|| now.clone())
    };
    let stop = || *service.stopping.borrow() || attempt(&service.store.model()).is_none();
    let outcome = make(service, record, &stop);
    if matches!(outcome, Err(Failure::Stopped)) {
        tracing::info!(cluster = %id, "the preparation ended before it was complete");
        return;
    }
    let done = service.change("", |change| {
        let Some(now) = attempt(change.model()) else { return Ok(()) };
        let mut record = ClusterRecord::clone(&now);
        match &outcome {
            Ok(made) => {
                record.course.prepared_files = Some(made.attempt);
                record.course.openshift_cluster_id = Some(made.openshift_cluster_id);
                succeed(change, &mut record);
            }
            Err(failure) => fail(change, &mut record, failure.to_string()),
        }
        change.put_cluster(record);
        Ok(())
    });
    match (done, outcome) {
        (Ok(()), Ok(made)) => {
            ClusterFiles::place(service, id, made.attempt).remove_others();
            tracing::info!(cluster = %id, "the cluster's files are made");
        }
        (Ok(()), Err(failure)) => tracing::warn!(cluster = %id, "the preparation failed: {failure}"),
        (Err(refusal), _) => {
            tracing::error!(cluster = %id, ?refusal, "cannot record the outcome of the preparation: it begins again")
        }
    }
    service.unsettled.note(Some(id));
}

/// Files that are on disk.
struct Made {
    attempt: Uuid,
    openshift_cluster_id: Uuid,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// Nobody wants them any more, or the service stops.
    #[error("the preparation was stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    /// The reason is shown to users; the published service begins it so.
    fn in_generation(id: ClusterId, reason: &str) -> Self {
        Self::Failed(format!("failed generating install config for cluster {id}: {reason}"))
    }
}

fn make(service: &Service, record: &ClusterRecord, stop: &dyn Fn() -> bool) -> Result<Made, Failure> {
    let id = record.cluster.id;
    let Some(generation) = &service.settings.generation else { return Err(Failure::Stopped) };
    let failed = |reason: &str| if stop() { Failure::Stopped } else { Failure::in_generation(id, reason) };
    let model = service.store.model();
    let catalogue = service.catalogue();
    let release = release_image(catalogue.as_deref(), record);
    tracing::info!(cluster = %id, release = release.as_deref(), "making the cluster's files");
    let job = job::of_cluster(service, generation, &model, record, release.unwrap_or_default());
    let job = job.map_err(|reason| failed(&reason))?;
    let request = generation.request(record, &job.release_image, catalogue.as_deref());
    let since = Timestamp::now();
    let installer = generation.installers.get(&request, stop);
    let installer = installer.map_err(|error| failed(&format!("failed to get installer path: {}", chain(&error))))?;
    if let Some(was_cached) = installer.was_cached() {
        let minor = version::minor(&request.version);
        service.store.published().program(minor.as_deref().unwrap_or("unknown"), was_cached);
    }
    let work: PathBuf = service.store.directory().join(WORK);
    let bounds = Bounds { time: generation.time, directory_bytes: DIRECTORY_BYTES };
    let mut on_phase = |phase: Phase| tracing::info!(cluster = %id, ?phase, "preparing");
    let files = preparation::run(&job, installer.path(), &work, &bounds, stop, &mut on_phase);
    let files = files.map_err(|error| match error {
        PreparationError::Cancelled => Failure::Stopped,
        error => failed(&chain(&error)),
    })?;
    if !job.release_image.is_empty() {
        let noted = service.change("", |change| {
            measured::program_used(change, record, &job.release_image, since, installer.extraction());
            Ok(())
        });
        noted.map_err(|refusal| failed(refusal.message()))?;
    }
    drop(installer);
    let files = with_hosts(service, &model, id, files).map_err(|reason| failed(&reason))?;
    let made = ClusterFiles::Made(Arc::new(files.clone()));
    let openshift_cluster_id = made.cluster_id().ok().flatten();
    let openshift_cluster_id = openshift_cluster_id.ok_or_else(|| failed("could not find cvo-overrides file"))?;
    let attempt = Uuid::new_v4();
    ClusterFiles::place(service, id, attempt).write(&files).map_err(|error| failed(&chain(&error)))?;
    Ok(Made { attempt, openshift_cluster_id })
}

/// The files with those of the cluster's hosts.
fn with_hosts(service: &Service, model: &Model, id: ClusterId, files: Files) -> Result<Files, String> {
    let roles = ClusterFiles::Made(Arc::new(files.clone()));
    let mut all = files;
    for host in model.hosts_of_cluster(id) {
        let config = documents::installed_host_with(service, model, &host, Some(&roles));
        let config = config.map_err(|refusal: Refusal| {
            format!("failed to apply ignition config overrides for host {}: {}", host.host.id, refusal.message())
        })?;
        all.insert(host_file(&host), config);
    }
    Ok(all)
}

/// The name of a host's file.
pub(crate) fn host_file(host: &crate::model::HostRecord) -> String {
    format!("{}-{}.ign", host.effective_role(), host.host.id)
}
