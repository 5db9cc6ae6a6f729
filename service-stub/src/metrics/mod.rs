//! Counts for Prometheus (text exposition format 0.0.4). No label holds anything a client wrote: routes are templates of our
//! own tables, methods the known ones.

pub mod published;

use crate::http::{Answer, Call, Refusal};
use crate::service::Service;
use crate::state::{ClusterState, HostState};
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Upper bounds of the buckets of durations, seconds.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// What was answered since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<Key, Counter>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Default)]
struct Counter {
    count: u64,
    sum: Duration,
    /// By bucket, each alone.
    buckets: [u64; BUCKETS.len()],
}

impl Metrics {
    /// Notes an answer. `route` is the template a request matched; none when it matched none.
    pub fn note(&self, method: &str, route: Option<&str>, status: u16, took: Duration) {
        let method = METHODS.into_iter().find(|own| *own == method).unwrap_or("other");
        let key = Key { method, route: route.unwrap_or("none").to_owned(), status };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = requests.entry(key).or_default();
        counter.count += 1;
        counter.sum = counter.sum.saturating_add(took);
        let bucket = BUCKETS.iter().position(|bound| took.as_secs_f64() <= *bound);
        if let Some(bucket) = bucket.and_then(|at| counter.buckets.get_mut(at)) {
            *bucket += 1;
        }
    }

    fn write(&self, text: &mut Text) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        text.family("landfall_http_request_duration_seconds", "histogram", "Time to the head of an answer.");
        for (key, counter) in requests.iter() {
            let labels = format!("method=\"{}\",route=\"{}\",status=\"{}\"", key.method, key.route, key.status);
            let mut below = 0;
            for (bound, count) in BUCKETS.iter().zip(counter.buckets) {
                below += count;
                text.line("_bucket", &format!("{labels},le=\"{bound}\""), below);
            }
            text.line("_bucket", &format!("{labels},le=\"+Inf\""), counter.count);
            text.line("_sum", &labels, counter.sum.as_secs_f64());
            text.line("_count", &labels, counter.count);
        }
    }
}

#[derive(Default)]
struct Text {
    text: String,
    name: &'static str,
}

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, suffix: &str, labels: &str, value: impl std::fmt::Display) {
        let name = self.name;
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.text, "{name}{suffix}{labels} {value}");
    }

    fn gauge(&mut self, name: &'static str, help: &str, value: impl std::fmt::Display) {
        self.family(name, "gauge", help);
        self.line("", "", value);
    }
}

/// How much of a file system is in use.
// For people: a percentage needs no more than a float has.
#[allow(clippy::cast_precision_loss)]
fn used_percent(directory: &Path) -> Option<f64> {
    let status = nix::sys::statvfs::statvfs(directory).ok()?;
    let (all, free) = (status.blocks() as f64, status.blocks_free() as f64);
    (all > 0.0).then(|| (all - free) * 100.0 / all)
}

/// GET /metrics.
pub fn show(service: &Service, _: &Call) -> Result<Answer, Refusal> {
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
    text.gauge("landfall_store_bytes", "Length of the store's file.", store);
    service.metrics.write(&mut text);
    service.store.published().write(&mut text);
    if let Some(percent) = used_percent(service.store.directory()) {
        let name = "service_assisted_installer_filesystem_usage_percentage";
        text.gauge(name, "How full the file system of the state directory is.", percent);
    }
    Ok(Answer::text("text/plain; version=0.0.4; charset=utf-8", text.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up_and_strange_methods_are_one() {
        let metrics = Metrics::default();
        for milliseconds in [1, 4, 70, 60_000] {
            metrics.note("GET", Some("/v2/events"), 200, Duration::from_millis(milliseconds));
        }
        metrics.note("X\"Y", None, 404, Duration::ZERO);
        let mut text = Text::default();
        metrics.write(&mut text);
        let labels = "method=\"GET\",route=\"/v2/events\",status=\"200\"";
        for (le, count) in [("0.001", 1), ("0.005", 2), ("0.1", 3), ("30", 3), ("+Inf", 4)] {
            let line = format!("_bucket{{{labels},le=\"{le}\"}} {count}\n");
            assert!(text.text.contains(&line), "{line} in {}", text.text);
        }
        assert!(text.text.contains("method=\"other\",route=\"none\",status=\"404\""), "{}", text.text);
    }
}
