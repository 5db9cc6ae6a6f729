//! Metrics for Prometheus (text exposition format 0.0.4). No label holds clients' text: routes are templates from our tables, and
//! methods the known ones.

pub(crate) mod published;
mod text;

pub(crate) use text::Text;

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Upper bounds of the buckets of durations, seconds.
const BUCKETS: [f64; 13] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Answers since the start.
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
    /// Counts an answer. `route` is the template that the request matched, if any.
    pub(crate) fn note(&self, method: &str, route: Option<&str>, status: u16, took: Duration) {
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

    pub(crate) fn write(&self, text: &mut Text) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut family = |name: &'static str, labels: fn(&Key) -> String| {
            text.family(name, "histogram", "Time to the first byte of an answer.");
            for (key, counter) in requests.iter() {
                counter.write(text, &labels(key));
            }
        };
        family("landfall_http_request_duration_seconds", Key::labels);
        family("http_request_duration_seconds", Key::published);
        let name = "assisted_image_service_http_request_duration_seconds";
        text.family(name, "histogram", "Time to the first byte of an image's answer.");
        for (key, counter) in requests.iter() {
            if let Some(labels) = key.image_service() {
                counter.write(text, &labels);
            }
        }
    }
}

/// Routes of images, and what the published image service calls them.
const IMAGE_HANDLERS: [(&str, &str); 7] = [
    ("/images/{infra_env_id}/pxe-initrd", "/images/:imageID/pxe-initrd"),
    ("/images/{infra_env_id}/s390x-initrd-addrsize", "/images/:imageID/s390x-initrd-addrsize"),
    ("/images/", "/images/:imageID"),
    ("/byid/", "/byid/:token"),
    ("/byapikey/", "/byapikey/:token"),
    ("/bytoken/", "/bytoken/:token"),
    ("/boot-artifacts/", "/boot-artifacts/:artifact"),
];

impl Key {
    fn labels(&self) -> String {
        format!("method=\"{}\",route=\"{}\",status=\"{}\"", self.method, self.route, self.status)
    }

    /// The same under the published service's names.
    fn published(&self) -> String {
        let Self { method, route, status } = self;
        format!("code=\"{status}\",handler=\"{route}\",method=\"{method}\",service=\"assisted-installer\"")
    }

    /// The same under the image service's; none of other routes.
    fn image_service(&self) -> Option<String> {
        let Self { method, route, status } = self;
        let (_, handler) = IMAGE_HANDLERS.iter().find(|(prefix, _)| route.starts_with(prefix))?;
        Some(format!("code=\"{status}\",handler=\"{handler}\",method=\"{method}\",route=\"{route}\",service=\"\""))
    }
}

impl Counter {
    fn write(&self, text: &mut Text, labels: &str) {
        let mut below = 0;
        for (bound, count) in BUCKETS.iter().zip(self.buckets) {
            below += count;
            text.line("_bucket", &format!("{labels},le=\"{bound}\""), below);
        }
        text.line("_bucket", &format!("{labels},le=\"+Inf\""), self.count);
        text.line("_sum", labels, self.sum.as_secs_f64());
        text.line("_count", labels, self.count);
    }
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
        metrics.note("GET", Some("/byid/{infra_env_id}/{version}/{arch}/full.iso"), 206, Duration::ZERO);
        let mut text = Text::default();
        metrics.write(&mut text);
        let labels = "method=\"GET\",route=\"/v2/events\",status=\"200\"";
        for (le, count) in [("0.001", 1), ("0.005", 2), ("0.1", 3), ("30", 3), ("+Inf", 4)] {
            let line = format!("_bucket{{{labels},le=\"{le}\"}} {count}\n");
            assert!(text.text.contains(&line), "{line} in {}", text.text);
        }
        assert!(text.text.contains("method=\"other\",route=\"none\",status=\"404\""), "{}", text.text);
        let published = "http_request_duration_seconds_count{code=\"200\",handler=\"/v2/events\",method=\"GET\",service=\"assisted-installer\"} 4";
        assert!(text.text.lines().any(|line| line == published), "{}", text.text);
        let images = "assisted_image_service_http_request_duration_seconds_count{code=\"206\",handler=\"/byid/:token\",method=\"GET\"";
        assert_eq!(text.text.lines().filter(|line| line.starts_with(images)).count(), 1, "{}", text.text);
    }
}
