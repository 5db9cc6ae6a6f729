//! The metrics endpoint.

use crate::http::{Answer, Call, Refusal};
use crate::metrics::Text;
use crate::service::Service;
use crate::state::{ClusterState, HostState};
use std::path::Path;

/// The used part of a file system, percent.
// A float is precise enough for a percentage.
#[allow(clippy::cast_precision_loss)]
fn used_percent(directory: &Path) -> Option<f64> {
    let status = nix::sys::statvfs::statvfs(directory).ok()?;
    let (all, free) = (status.blocks() as f64, status.blocks_free() as f64);
    (all > 0.0).then(|| (all - free) * 100.0 / all)
}

/// GET /metrics.
pub(crate) fn show(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let mut text = Text::default();
    text.family("landfall_build_info", "gauge", "Version of the program.");
    text.line("", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1);
    text.gauge("landfall_start_time_seconds", "When the service started.", service.started.unix_seconds());
    text.family("landfall_hosts", "gauge", "Hosts by state.");
    for state in HostState::ALL {
        let count = model.hosts.values().filter(|record| record.state == *state).count();
        text.line("", &format!("state=\"{state}\""), count);
    }
    text.family("landfall_clusters", "gauge", "Clusters by state.");
    for state in ClusterState::ALL {
        let count = model.clusters.values().filter(|record| record.state == *state).count();
        text.line("", &format!("state=\"{state}\""), count);
    }
    text.gauge("landfall_infra_envs", "Infra-envs.", model.infra_envs.len());
    let store = service.store.directory().join("state.redb").metadata().map_or(0, |metadata| metadata.len());
    text.gauge("landfall_store_bytes", "Size of the store's file.", store);
    service.metrics.write(&mut text);
    service.store.published().write(&mut text);
    if let Some(generation) = &service.settings.generation {
        let evictions = generation.installers.evictions();
        let name = "service_assisted_installer_release_cache_eviction";
        text.family(name, "counter", "Times that the cache of openshift-install was full, by whether one was removed.");
        text.line("", "success=\"true\"", evictions.removed);
        text.line("", "success=\"false\"", evictions.in_vain);
    }
    if let Some(percent) = used_percent(service.store.directory()) {
        let name = "service_assisted_installer_filesystem_usage_percentage";
        text.gauge(name, "Used part of the state directory's file system, percent.", percent);
    }
    Ok(Answer::text("text/plain; version=0.0.4; charset=utf-8", text.text))
}
