//! Logs uploaded by hosts: streamed to a file, on disk before the answer, and downloaded from there.

use crate::events::{self, kinds};
use crate::http::call::call_of;
use crate::http::file::Offer;
use crate::http::multipart::{Multipart, MultipartError};
use crate::http::work::{blocking, in_time, next_piece};
use crate::http::{Answer, Call, Refusal};
use crate::log_archive::{self, plain};
use crate::media;
use crate::model::{ClusterRecord, HostKey, HostRecord};
use crate::service::Service;
use crate::store::room;
use api::{ClusterId, HostId, InfraEnvId};
use axum::{
    body::Body,
    extract::{RawPathParams, Request, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A larger upload is refused.
const MAX_UPLOAD_BYTES: u64 = 250 << 20;
/// Bytes written at once.
const CHUNK_BYTES: usize = 256 * 1024;

type Shared = State<Arc<Service>>;

#[derive(Clone, Copy, Debug)]
enum Owner {
    Host(ClusterId, HostKey),
    Controller(ClusterId),
}

impl Owner {
    fn from_call(call: &Call) -> Result<Self, Refusal> {
        let cluster = call.cluster_id()?;
        if call.query_one_of("logs_type", &["host", "controller"])? == "controller" {
            return Ok(Self::Controller(cluster));
        }
        let required = |name: &str| Refusal::bad_request(format!("{name} in query is required"));
        let host = call.query_uuid("host_id")?.ok_or_else(|| required("host_id"))?;
        let infra_env = call.query_uuid("infra_env_id")?.ok_or_else(|| required("infra_env_id"))?;
        Ok(Self::Host(cluster, HostKey { infra_env: InfraEnvId(infra_env), host: HostId(host) }))
    }

    /// Built from identifiers only: clients' text never becomes a path.
    fn directory(self, state: &Path) -> PathBuf {
        match self {
            Self::Host(cluster, key) => state.join("logs").join(cluster.to_string()).join(key.host.to_string()),
            Self::Controller(cluster) => state.join("logs").join(cluster.to_string()).join("controller"),
        }
    }

    fn forget(self, state: &Path) {
        // A host's cluster may still exist; a controller's is gone when this is called.
        match self {
            Self::Host(cluster, key) => forget(state, cluster, Some(key.host)),
            Self::Controller(cluster) => forget(state, cluster, None),
        }
    }

    fn check(self, service: &Service) -> Result<(), Refusal> {
        let model = service.store.model();
        let (Self::Host(cluster, _) | Self::Controller(cluster)) = self;
        if !model.clusters.contains_key(&cluster) {
            return Err(Refusal::not_found(format!("cluster {cluster} was not found")));
        }
        match self {
            Self::Host(cluster, key) => match model.hosts.get(&key) {
                Some(record) if record.host.cluster_id == Some(cluster) => Ok(()),
                _ => Err(Refusal::not_found(format!("host {} was not found in cluster {cluster}", key.host))),
            },
            Self::Controller(_) => Ok(()),
        }
    }
}

const FILE_NAME: &str = "logs.tar.gz";
const PARTIAL_SUFFIX: &str = ".part";

/// A file that is removed unless it is committed.
struct Partial {
    path: PathBuf,
    is_complete: bool,
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_complete {
            // If that fails, the next start removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// An upload in progress.
struct Upload {
    multipart: Multipart,
    file: File,
    partial: Partial,
}

impl Upload {
    fn open(content_type: &str, directory: &Path) -> Result<Self, MultipartError> {
        let multipart = Multipart::new(content_type, "upfile")?;
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join(format!("{:016x}{PARTIAL_SUFFIX}", fastrand::u64(..)));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { multipart, file, partial: Partial { path, is_complete: false } })
    }

    fn feed(mut self, piece: &[u8]) -> Result<Self, MultipartError> {
        self.multipart.feed(piece, &mut self.file)?;
        Ok(self)
    }

    /// Renames it; when this returns, file and directories are on disk.
    fn commit(self, directory: &Path, state: &Path) -> Result<(), MultipartError> {
        let Self { multipart, file, mut partial } = self;
        multipart.finish()?;
        file.sync_all()?;
        std::fs::rename(&partial.path, directory.join(FILE_NAME))?;
        partial.is_complete = true;
        for directory in directory.ancestors().take_while(|path| path.starts_with(state)) {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }
}

/// Removes the uploads of a deleted host, or without `host` all of a deleted cluster. The records are gone, so failures are only
/// logged.
pub(crate) fn forget(state: &Path, cluster: ClusterId, host: Option<HostId>) {
    let of_cluster = state.join("logs").join(cluster.to_string());
    let path = host.map_or(of_cluster.clone(), |host| of_cluster.join(host.to_string()));
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove the logs of a deleted record: remove them by hand");
        }
        _ => {}
    }
}

/// Removes uploads that a crash interrupted.
pub(crate) fn clean(state: &Path) -> io::Result<()> {
    let list = |path: &Path| match std::fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    for cluster in list(&state.join("logs"))? {
        for owner in list(&cluster)? {
            let partial = |path: &PathBuf| path.to_string_lossy().ends_with(PARTIAL_SUFFIX);
            for path in list(&owner)?.into_iter().filter(partial) {
                std::fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// POST /v2/clusters/{id}/logs.
pub(crate) async fn upload(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let taken = match call_of(&params, &parts) {
        Ok(call) => in_time(service.settings.limits.upload, take(service.clone(), call, body)).await,
        Err(refusal) => Err(refusal),
    };
    taken.unwrap_or_else(Answer::from).into_response()
}

async fn take(service: Arc<Service>, call: Call, mut body: Body) -> Result<Answer, Refusal> {
    let owner = Owner::from_call(&call)?;
    owner.check(&service)?;
    let state = service.store.directory().to_owned();
    let directory = owner.directory(&state);
    let content_type = call.header(&header::CONTENT_TYPE).to_owned();
    let limits = &service.settings.limits;
    let (opened, free_bytes) = (directory.clone(), limits.free_bytes);
    let mut upload = blocking(move || {
        let upload = Upload::open(&content_type, &opened).map_err(refusal)?;
        room::check(&opened, free_bytes)?;
        Ok(upload)
    })
    .await?;
    let (mut taken, mut waiting) = (0_u64, Vec::new());
    loop {
        let piece = next_piece(&mut body, limits).await?;
        let ended = piece.is_none();
        let piece = piece.unwrap_or_default();
        taken = taken.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if taken > MAX_UPLOAD_BYTES {
            let message = format!("the upload is larger than {MAX_UPLOAD_BYTES} bytes");
            return Err(Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        waiting.extend_from_slice(&piece);
        if ended || waiting.len() >= CHUNK_BYTES {
            let (chunk, place) = (std::mem::take(&mut waiting), directory.clone());
            upload = blocking(move || {
                room::check(&place, free_bytes)?;
                upload.feed(&chunk).map_err(refusal)
            })
            .await?;
        }
        if ended {
            break;
        }
    }
    blocking(move || {
        upload.commit(&directory, &state).map_err(refusal)?;
        note(&service, call.request_id(), owner)?;
        // It may have been deleted during the upload.
        owner.check(&service).inspect_err(|_| owner.forget(&state))?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
    .await
}

fn refusal(error: MultipartError) -> Refusal {
    match error {
        MultipartError::Write(_) => Refusal::internal(&error),
        error => Refusal::bad_request(error.to_string()),
    }
}

fn note(service: &Service, request_id: &str, owner: Owner) -> Result<(), Refusal> {
    service.change(request_id, |change| {
        match owner {
            Owner::Host(_, key) => {
                let Some(record) = change.model().hosts.get(&key).cloned() else { return Ok(()) };
                let mut record = HostRecord::clone(&record);
                record.host.logs_collected_at = change.now;
                record.host.logs_info = "collecting".to_owned();
                events::host(change, &record, kinds::HOST_LOGS_UPLOADED, Value::Null);
                change.put_host(record);
            }
            Owner::Controller(id) => {
                let Some(record) = change.model().clusters.get(&id).cloned() else { return Ok(()) };
                let mut record = ClusterRecord::clone(&record);
                record.cluster.controller_logs_collected_at = change.now;
                events::cluster(change, &record, kinds::CLUSTER_LOGS_UPLOADED, Value::Null);
                change.put_cluster(record);
            }
        }
        Ok(())
    })
}

/// GET /v2/clusters/{id}/logs: of one host, of the controller, or all in one archive.
pub(crate) async fn download(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let headers = parts.headers.clone();
    let find = match call_of(&params, &parts) {
        Ok(call) => blocking(move || find(&service, &call)).await,
        Err(refusal) => Err(refusal),
    };
    match find {
        Ok(offer) => offer.answer(&Method::GET, &headers),
        Err(refusal) => refusal.into_response(),
    }
}

fn find(service: &Service, call: &Call) -> Result<Offer, Refusal> {
    let id = call.cluster_id()?;
    let model = service.store.model();
    let kind = match call.query("logs_type") {
        Some(_) => call.query_one_of("logs_type", &["host", "controller", "all"])?,
        None => "all",
    };
    let record = model.clusters.get(&id);
    let record = record.ok_or_else(|| Refusal::not_found(format!("cluster {id} was not found")))?;
    let state = service.store.directory();
    let stored_log = |owner: Owner, name: &str| media::stored(&owner.directory(state).join(FILE_NAME), &plain(name));
    let cluster = &record.cluster.name;
    let of_host =
        |host: &HostRecord| stored_log(Owner::Host(id, host.key()), &format!("{}.tar.gz", label(cluster, host)));
    let missing = |what: &str| {
        let message = format!("{what} were not found");
        move |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Refusal::conflict(message),
            _ => Refusal::internal(&error),
        }
    };
    let hosts = model.hosts_of_cluster(id);
    match kind {
        "controller" => {
            let name = format!("{cluster}_{id}_controller.tar.gz");
            stored_log(Owner::Controller(id), &name).map_err(missing(&format!("Controller Logs for cluster {id}")))
        }
        "host" => {
            let wanted = call.query_uuid("host_id")?;
            let wanted =
                wanted.ok_or_else(|| Refusal::invalid("Host ID must be provided for downloading host logs"))?;
            let host = hosts.iter().find(|host| host.host.id.0 == wanted);
            let host = host.ok_or_else(|| Refusal::not_found(format!("host {wanted} was not found")))?;
            of_host(host).map_err(missing(&format!("Logs for host {wanted}")))
        }
        _ => {
            let mut files = log_archive::records(service, &model, record)?;
            let pack = || -> io::Result<Offer> {
                files.extend(if_there(stored_log(Owner::Controller(id), "controller_logs.tar.gz"))?);
                for host in &hosts {
                    let Some(file) = if_there(of_host(host))? else { continue };
                    files.push(log_archive::tar(vec![file], plain(&format!("{}.tar", label(cluster, host))))?);
                }
                log_archive::tar(files, plain(&format!("{cluster}_{id}.tar")))
            };
            pack().map_err(|error| Refusal::internal(&error))
        }
    }
}

/// Opens a file, if it exists.
fn if_there(found: io::Result<Offer>) -> io::Result<Option<Offer>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn label(cluster: &str, host: &HostRecord) -> String {
    let role = if host.host.bootstrap { "bootstrap" } else { host.host.role.as_str() };
    let name = host.name_or_id();
    format!("{cluster}_{role}_{name}")
}
