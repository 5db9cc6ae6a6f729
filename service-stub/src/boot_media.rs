//! Which ISO hosts boot, and which image their disks get.

use crate::http::Refusal;
use crate::iso_store::Found;
use crate::media::LiveIso;
use crate::model::{ClusterRecord, InfraEnvRecord};
use crate::releases::{OsImage, Target};
use crate::service::Service;
use api::InfraEnv;
use axum::http::StatusCode;

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

/// The ISO of a listed OS image: a file of this machine, or downloaded.
pub(crate) fn iso_of_image<'a>(service: &'a Service, image: &OsImage) -> Result<Option<&'a LiveIso>, Refusal> {
    match service.media.listed(image) {
        Some(iso) => Ok(Some(iso)),
        None => match service.iso_store.find(image) {
            None => Ok(None),
            Some(Found::Ready(iso)) => Ok(Some(iso)),
            Some(Found::Pending(why)) => Err(Refusal::Application(StatusCode::SERVICE_UNAVAILABLE, why)),
        },
    }
}

/// The image for the disks of an infra-env's hosts: by the version of their cluster, and the stream of the system that they booted.
pub(crate) fn disk_image<'a>(
    service: &'a Service,
    infra_env: Option<&InfraEnvRecord>,
    cluster: Option<&ClusterRecord>,
) -> Option<&'a str> {
    let own = infra_env.map(|record| &record.infra_env);
    let text = |part: fn(&InfraEnv) -> &String| own.map_or("", |own| part(own).as_str());
    let (architecture, stream) = (text(|own| &own.cpu_architecture), text(|own| &own.os_stream));
    let version = text(|own| &own.openshift_version);
    let catalogue = service.settings.catalogue.as_deref();
    let booted = catalogue.and_then(|catalogue| catalogue.os_image(version, architecture, stream).ok());
    let of_cluster = cluster.map(|record| record.cluster.openshift_version.as_str());
    let stream = if stream.is_empty() { booted.map_or("", |image| &image.os_stream) } else { stream };
    service.media.image_for(&Target {
        openshift_version: of_cluster.filter(|version| !version.is_empty()).unwrap_or(version).to_owned(),
        cpu_architecture: architecture.to_owned(),
        os_stream: stream.to_owned(),
    })
}

/// An OS image's own ISO if there is one, else that for its processor.
fn iso_for<'a>(service: &'a Service, listed: Option<&OsImage>, architecture: &str) -> Result<&'a LiveIso, Refusal> {
    let Some(image) = listed else { return live_iso(service, architecture) };
    if let Some(iso) = iso_of_image(service, image)? {
        return Ok(iso);
    }
    live_iso(service, architecture).map_err(|missing| {
        if image.path().is_some() {
            return missing;
        }
        Refusal::not_found(format!(
            "the OS image {} for {} is at {}, and this service downloads none: start it without --no-download, with --iso {}:{}=FILE, \
             or with --iso FILE",
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
