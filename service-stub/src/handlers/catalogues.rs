//! What may be asked for: versions, defaults. Read-only, and only what is really here: a list of what
//! this service has none of is empty.

use crate::http::{Answer, Call, Refusal};
use crate::releases::{Catalogue, normal_architecture, version::Version};
use crate::service::Service;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn answer(document: &Value) -> Result<Answer, Refusal> {
    Ok(Answer::json(StatusCode::OK, document))
}

/// GET /v2/clusters/default-config.
pub(crate) fn default_config(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    let pods = json!({"cidr": "10.128.0.0/14", "host_prefix": 23});
    let services = json!({"cidr": "172.30.0.0/16"});
    answer(&json!({
        "cluster_network_cidr": "10.128.0.0/14",
        "cluster_network_host_prefix": 23,
        "cluster_networks_dualstack": [pods, {"cidr": "fd01::/48", "host_prefix": 64}],
        "cluster_networks_ipv4": [pods],
        "forbidden_hostnames": api::FORBIDDEN_HOSTNAMES,
        // (Nought where nothing is deleted for being old.)
        "inactive_deletion_hours": service.settings.retention.0.unwrap_or_default() / 3600,
        "ntp_source": "",
        "service_network_cidr": "172.30.0.0/16",
        "service_networks_dualstack": [services, {"cidr": "fd02::/112"}],
        "service_networks_ipv4": [services],
    }))
}

/// GET /v2/component-versions.
pub(crate) fn component_versions(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    let settings = &service.settings;
    answer(&json!({
        "release_tag": env!("CARGO_PKG_VERSION"),
        "versions": {
            "assisted-installer": settings.installer_image,
            "assisted-installer-controller": settings.controller_image,
            "assisted-installer-service": concat!("landfall-", env!("CARGO_PKG_VERSION")),
            "discovery-agent": settings.agent_image,
        },
    }))
}

/// GET /v2/openshift-versions: those of the catalogue; without one those the operator named, of which the last is the default, and
/// without any the versions of OS images.
pub(crate) fn openshift_versions(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let latest = call.query_flag("only_latest");
    let wanted = call.query("version");
    if let Some(catalogue) = service.catalogue().filter(|catalogue| catalogue.lists_releases()) {
        return Ok(Answer::json(StatusCode::OK, &catalogue.offers(wanted, latest)));
    }
    let os_images = service.settings.catalogue.as_deref().filter(|catalogue| catalogue.lists_os_images());
    let mut all = service.settings.openshift_versions.clone();
    if all.is_empty() {
        // Those that hosts can boot.
        let images = os_images.into_iter().flat_map(Catalogue::os_images).filter(|image| !image.offline);
        let versions: BTreeSet<&String> = images.map(|image| &image.openshift_version).collect();
        all = versions.into_iter().cloned().collect();
        all.sort_by_key(|version| Version::parse(version));
    }
    let architectures = |version: &str| match os_images {
        Some(listed) => listed.os_architectures(version),
        None => vec![normal_architecture(std::env::consts::ARCH)],
    };
    let skipped = if latest { all.len().saturating_sub(1) } else { 0 };
    let entry = |(at, version): (usize, &String)| {
        let document = json!({
            "cpu_architectures": architectures(version),
            "default": at + 1 == all.len(),
            "display_name": version,
            "support_level": "production",
        });
        (version.clone(), document)
    };
    let listed = all.iter().enumerate().skip(skipped).filter(|(_, version)| !architectures(version).is_empty());
    let listed = listed.filter(|(_, version)| wanted.is_none_or(|wanted| matches_version(version, wanted)));
    answer(&Value::Object(listed.map(entry).collect()))
}

/// GET /v2/offline-openshift-versions: those that an image installs without any network.
pub(crate) fn offline_openshift_versions(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let catalogue = service.settings.catalogue.as_deref();
    let offers =
        catalogue.map(|catalogue| catalogue.offline_offers(call.query("version"), call.query_flag("only_latest")));
    Ok(Answer::json(StatusCode::OK, &offers.unwrap_or_default()))
}

/// The version itself, or one of that minor release.
fn matches_version(version: &str, wanted: &str) -> bool {
    version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// GET /v2/release-sources: the setting.
pub(crate) fn release_sources(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    Ok(Answer::json(StatusCode::OK, &service.settings.release_sources.list))
}

/// GET /landfall/os-images: the OS images that are downloaded, and how far each is; 503 until all are ready.
pub(crate) fn os_images(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    let status = if service.iso_store.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Answer::json(status, &service.iso_store.show()))
}

/// GET /v2/domains: there are none.
pub(crate) fn none(_: &Service, _: &Call) -> Result<Answer, Refusal> {
    answer(&json!([]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_release_takes_its_patches_only() {
        for (wanted, taken) in [("4.22", true), ("4.22.9", true), ("4.2", false), ("4.22.90", false), ("4", true)] {
            assert_eq!(matches_version("4.22.9", wanted), taken, "{wanted}");
        }
    }
}
