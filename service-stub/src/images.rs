//! Streams ISOs with a discovery config, OS images, and our own binary.

use crate::auth::Caller;
use crate::boot_media::iso_of;
use crate::disconnected;
use crate::documents;
use crate::http::call::call_of;
use crate::http::work::blocking;
use crate::http::{Call, Refusal, file::Offer};
use crate::infra_env::{DISCONNECTED_ISO, appended};
use crate::media::LiveIso;
use crate::netboot;
use crate::service::Service;
use axum::{
    extract::{RawPathParams, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use std::{path::PathBuf, sync::Arc};

/// Seconds after which a client may ask again for what is being downloaded.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("10");

type Shared = State<Arc<Service>>;

/// Kinds of ISOs. A short address has them as file names: `full.iso`.
const KINDS: [&str; 3] = ["full-iso", "minimal-iso", DISCONNECTED_ISO];

async fn send(
    service: Arc<Service>,
    params: RawPathParams,
    request: Request,
    find: impl FnOnce(&Service, &Call) -> Result<Offer, Refusal> + Send + 'static,
) -> Response {
    let (parts, _) = request.into_parts();
    let (method, headers) = (parts.method.clone(), parts.headers.clone());
    let call = match call_of(&params, &parts) {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    match blocking(move || find(&service, &call)).await {
        Ok(offer) => offer.answer(if method == Method::HEAD { &Method::HEAD } else { &Method::GET }, &headers),
        Err(refusal) => {
            let mut response = refusal.into_response();
            if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
            }
            response
        }
    }
}

fn iso(service: &Service, call: &Call, kind: &str) -> Result<Offer, Refusal> {
    let id = match call.caller {
        // A short address names its infra-env only in the token.
        Caller::InfraEnv(id) => id,
        _ if !call.path("token").is_empty() => return Err(Refusal::not_found("no token names an infra-env here")),
        _ => call.infra_env_id()?,
    };
    let model = service.store.model();
    let record = model.infra_envs.get(&id).ok_or_else(|| Refusal::not_found("record not found"))?;
    let full = match kind {
        DISCONNECTED_ISO => disconnected::iso(service, &record.infra_env)?,
        _ => iso_of(service, &record.infra_env)?,
    };
    let pack = |config: &[u8]| ignition::pack(config).map_err(|error| Refusal::internal(&error));
    let (path, archives) = match kind {
        "minimal-iso" => {
            let path = minimal(service, full)?;
            // The network is needed before there is a root file system (docs/compatibility.md#minimal-iso-ramdisk).
            let mut archives = pack(&documents::discovery_for(service, record, false)?)?;
            archives.resize(archives.len().next_multiple_of(4), 0);
            archives.extend(netboot::minimal_initrd(&record.infra_env)?.unwrap_or_default());
            (path, archives)
        }
        DISCONNECTED_ISO => (full.path().to_owned(), pack(&disconnected::config(service, record)?)?),
        "full-iso" => (full.path().to_owned(), pack(&documents::discovery(service, record)?)?),
        kind => return Err(Refusal::not_implemented(&format!("type={kind}"))),
    };
    let arguments = appended(record.infra_env.kernel_arguments.as_deref());
    let modified = record.infra_env.updated_at.unix_seconds();
    Ok(service.media.iso(&path, format!("{id}-discovery.iso"), archives, &arguments, modified)?)
}

/// The base of minimal ISOs.
fn minimal(service: &Service, full: &LiveIso) -> Result<PathBuf, Refusal> {
    let rootfs_url = format!("{}/boot-artifacts/rootfs{}", service.settings.boot_url, full.query());
    Ok(full.minimal(service.store.directory(), &rootfs_url)?)
}

/// GET /images/{infra_env_id}?type=…&version=….
pub(crate) async fn by_id(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let find = |service: &Service, call: &Call| {
        call.infra_env_id()?;
        let kind = call.query_one_of("type", &KINDS)?;
        call.query("version").ok_or_else(|| Refusal::bad_request("version in query is required"))?;
        iso(service, call, kind)
    };
    send(service, params, request, find).await
}

/// GET /byid/{infra_env_id}/{version}/{arch}/{full,minimal,disconnected}.iso: the infra-env's; version and architecture are ignored.
pub(crate) async fn short(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let find = move |service: &Service, call: &Call| {
        let kind = KINDS.into_iter().find(|kind| kind.replace('-', ".") == name);
        iso(service, call, kind.ok_or_else(|| Refusal::unknown_path(&name))?)
    };
    send(service, params, request, find).await
}

/// GET /images/{infra_env_id}/pxe-initrd.
pub(crate) async fn initrd(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    send(service, params, request, netboot::initrd).await
}

/// GET /images/{infra_env_id}/s390x-initrd-addrsize.
pub(crate) async fn addrsize(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    send(service, params, request, netboot::addrsize).await
}

/// GET /boot-artifacts/{artifact}.
pub(crate) async fn iso_artifact(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    send(service, params, request, netboot::artifact).await
}

/// GET /boot-artifacts/landfall, for the processor `arch`.
pub(crate) async fn agent(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let find = |service: &Service, call: &Call| {
        let architecture = call.query("arch").unwrap_or_default();
        let missing =
            || Refusal::not_found("the service has no binary for this processor: start it with --agent-binary FILE");
        service.media.agent(architecture)?.ok_or_else(missing)
    };
    send(service, params, request, find).await
}

/// GET /boot-artifacts/os/{file}.
pub(crate) async fn os(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let find = |service: &Service, call: &Call| {
        let refusal = || Refusal::not_found("the service has no image of this name: start it with --image FILE");
        service.media.image(call.path("file"))?.ok_or_else(refusal)
    };
    send(service, params, request, find).await
}
