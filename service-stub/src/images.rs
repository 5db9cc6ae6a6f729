//! Streams ISOs with a discovery config, OS images, and our own binary.

use crate::auth::Caller;
use crate::disconnected;
use crate::documents;
use crate::http::call::call_of;
use crate::http::work::blocking;
use crate::http::{Call, Refusal, file::Offer};
use crate::infra_env::{DISCONNECTED_ISO, appended};
use crate::media::LiveIso;
use crate::netboot;
use crate::releases::OsImage;
use crate::service::Service;
use api::InfraEnv;
use axum::{
    extract::{RawPathParams, Request, State},
    http::Method,
    response::{IntoResponse, Response},
};
use std::{path::PathBuf, sync::Arc};

type Shared = State<Arc<Service>>;

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
        Err(refusal) => refusal.into_response(),
    }
}

fn iso(service: &Service, call: &Call, kind: Option<&str>) -> Result<Offer, Refusal> {
    let id = match call.caller {
        // A short address names its infra-env only in the token.
        Caller::InfraEnv(id) => id,
        _ => call.infra_env_id()?,
    };
    let model = service.store.model();
    let record = model.infra_envs.get(&id).ok_or_else(|| Refusal::not_found("record not found"))?;
    let kind = kind.unwrap_or(&record.infra_env.kind_of_image);
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

/// The live ISO that an infra-env's hosts boot.
pub(crate) fn iso_of<'a>(service: &'a Service, infra_env: &InfraEnv) -> Result<&'a LiveIso, Refusal> {
    let (version, architecture) = (&infra_env.openshift_version, &infra_env.cpu_architecture);
    let catalogue = service.settings.catalogue.as_deref();
    let listed = catalogue.and_then(|catalogue| catalogue.os_image(version, architecture, &infra_env.os_stream).ok());
    iso_for(service, listed, architecture)
}

/// The live ISO of an OS image's build, or of the image for a version.
pub(crate) fn iso_of_build<'a>(service: &'a Service, build: &str, architecture: &str) -> Result<&'a LiveIso, Refusal> {
    let catalogue = service.settings.catalogue.as_deref();
    iso_for(service, catalogue.and_then(|catalogue| catalogue.os_image_of_build(build, architecture)), architecture)
}

/// An OS image's own ISO if it is on this machine, else that for its processor.
fn iso_for<'a>(service: &'a Service, listed: Option<&OsImage>, architecture: &str) -> Result<&'a LiveIso, Refusal> {
    let Some(image) = listed else { return live_iso(service, architecture) };
    service.media.listed(image).map_or_else(|| live_iso(service, architecture), Ok).map_err(|missing| {
        if image.path().is_some() {
            return missing;
        }
        Refusal::not_found(format!(
            "the OS image {} for {} is at {}, and this service downloads none: start it with --iso {}:{}=FILE, or with --iso FILE",
            image.version,
            image.cpu_architecture,
            api::http::public_url(&image.url),
            image.openshift_version,
            image.cpu_architecture
        ))
    })
}

/// The live ISO for a processor.
fn live_iso<'a>(service: &'a Service, architecture: &str) -> Result<&'a LiveIso, Refusal> {
    let media = &service.media;
    media.iso_for(architecture).ok_or_else(|| match media.processors_of_isos().as_slice() {
        [] => Refusal::not_found("the service has no live ISO: start it with --iso FILE"),
        others => Refusal::not_found(format!(
            "the service has no live ISO for {architecture}, only for {}: start it with another --iso FILE, or create the infra-env \
             with another cpu_architecture",
            others.join(", ")
        )),
    })
}

/// The base of minimal ISOs.
fn minimal(service: &Service, full: &LiveIso) -> Result<PathBuf, Refusal> {
    let rootfs_url = format!("{}/boot-artifacts/rootfs{}", service.settings.boot_url, full.query());
    let made = full.minimal(service.store.directory(), &rootfs_url)?;
    made.ok_or_else(|| {
        Refusal::not_found(
            "the live ISO has no coreos/miniso.dat, which a minimal ISO needs: use image_type full-iso, or an ISO that has it \
             (coreos-installer pack minimal-iso)",
        )
    })
}

/// GET /images/{infra_env_id}.
pub(crate) async fn by_id(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    send(service, params, request, |service, call| iso(service, call, call.query("type"))).await
}

/// GET /byid/{infra_env_id}/{version}/{arch}/{full,minimal,disconnected}.iso: the infra-env's; version and architecture are ignored.
pub(crate) async fn short(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let kind = match request.uri().path().rsplit('/').next() {
        Some("minimal.iso") => "minimal-iso",
        Some("disconnected.iso") => DISCONNECTED_ISO,
        _ => "full-iso",
    };
    send(service, params, request, move |service, call| iso(service, call, Some(kind))).await
}

/// GET /images/{infra_env_id}/{artifact}.
pub(crate) async fn artifact(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let find = move |service: &Service, call: &Call| match call.path("artifact") {
        "pxe-initrd" => netboot::initrd(service, call),
        "s390x-initrd-addrsize" => Err(Refusal::not_implemented("s390x-initrd-addrsize")),
        _ => Err(Refusal::unknown_path(&path)),
    };
    send(service, params, request, find).await
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
