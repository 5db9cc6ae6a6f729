//! http: and https:, with retries and redirects.

use super::error::WithoutUrl;
use super::{FetchFault, Fetcher, Location, url};
use crate::model::Version;
use api::{BodyFault, read_body};
use std::time::{Duration, Instant};
use ureq::{
    Body,
    http::{HeaderMap, HeaderName, HeaderValue, Response, header},
};

/// Before the first retry.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// As many as Go follows by default.
const MAX_REDIRECTS: u32 = 10;
/// A connection without data for this long is closed, unless the config allows for more.
const SILENCE: Duration = Duration::from_secs(30);
/// The same for a config that says that it will wait without end.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);
/// Headers that Go's client sets itself, whatever a program says.
const NOT_SENT: [HeaderName; 4] = [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::TRAILER];

impl Fetcher {
    /// The body, still packed. Retries transient failures.
    pub(super) fn over_http(&self, location: &Location<'_>) -> Result<Vec<u8>, FetchFault> {
        if self.options.offline {
            return Err(FetchFault::Offline);
        }
        let headers = headers(location)?;
        let url = url::escaped(location.source);
        let total = self.settings.total_timeout;
        let deadline = total.and_then(|total| Some((self.options.clock.now().checked_add(total)?, total)));
        let mut pause = FIRST_PAUSE;
        let mut retries = 0;
        loop {
            let fault = match self.attempt(&url, &headers, deadline) {
                Ok(body) => return Ok(body),
                Err(fault) => fault,
            };
            if !fault.passes() || retries >= self.options.retries {
                return Err(fault);
            }
            if let Some((deadline, after)) = deadline
                && deadline.saturating_duration_since(self.options.clock.now()) <= pause
            {
                return Err(FetchFault::Total { after, last: Some(Box::new(fault)) });
            }
            tracing::warn!(resource = location.public_name(), error = %fault, retry_in = ?pause, "fetching failed");
            self.options.clock.sleep(pause);
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            retries += 1;
        }
    }

    /// One request, and those that redirects lead to, to which no headers are sent.
    fn attempt(
        &self,
        url: &str,
        headers: &HeaderMap,
        deadline: Option<(Instant, Duration)>,
    ) -> Result<Vec<u8>, FetchFault> {
        let mut url = url.to_owned();
        let mut headers = Some(headers);
        for _ in 0..=MAX_REDIRECTS {
            let mut response = self.get(&url, headers.take(), deadline)?;
            let status = response.status().as_u16();
            match (status, response.headers().get(header::LOCATION)) {
                (200 | 204, _) => return self.body(&mut response, deadline),
                (301 | 302 | 303 | 307 | 308, Some(to)) => {
                    let to = str::from_utf8(to.as_bytes()).ok().and_then(|to| url::resolve(&url, to));
                    url = to.ok_or(FetchFault::Redirect)?;
                }
                (404, _) => return Err(FetchFault::NotFound),
                (status, _) => return Err(FetchFault::Status { status }),
            }
        }
        Err(FetchFault::Redirects { count: MAX_REDIRECTS })
    }

    fn get(
        &self,
        url: &str,
        headers: Option<&HeaderMap>,
        deadline: Option<(Instant, Duration)>,
    ) -> Result<Response<Body>, FetchFault> {
        let mut request = self.agent().get(url);
        for (name, value) in headers.into_iter().flatten() {
            request = request.header(name, value);
        }
        let left = deadline.map(|(deadline, _)| deadline.saturating_duration_since(self.options.clock.now()));
        let request = request.config().timeout_global(left).build();
        request.call().map_err(|error| match (error, deadline) {
            (ureq::Error::Timeout(ureq::Timeout::Global), Some((_, after))) => FetchFault::Total { after, last: None },
            (error, _) => FetchFault::Transport(WithoutUrl(error)),
        })
    }

    /// A body of no more bytes than are allowed.
    fn body(
        &self,
        response: &mut Response<Body>,
        deadline: Option<(Instant, Duration)>,
    ) -> Result<Vec<u8>, FetchFault> {
        let too_large = |limit_bytes| FetchFault::TooLarge { limit_bytes, unpacked: false };
        let limit_bytes = self.options.max_bytes;
        if response.body().content_length().is_some_and(|announced| announced > limit_bytes) {
            return Err(too_large(limit_bytes));
        }
        read_body(response, limit_bytes).map_err(|error| match (&error.cause, deadline) {
            (BodyFault::TooLong { limit_bytes }, _) => too_large(*limit_bytes),
            (BodyFault::Broken(_), Some((deadline, after))) if self.options.clock.now() >= deadline => {
                FetchFault::Total { after, last: Some(Box::new(FetchFault::Body(error))) }
            }
            _ => FetchFault::Body(error),
        })
    }

    fn agent(&self) -> &ureq::Agent {
        self.agent.get_or_init(|| {
            let settings = &self.settings;
            let bundles = self.options.ca_bundles.iter().chain(&settings.authorities);
            let silence = settings.header_timeout.map_or(LONGEST_SILENCE, |timeout| timeout.max(SILENCE));
            let configuration = api::http::configuration_trusting(bundles.map(Vec::as_slice))
                .accept_encoding("identity")
                .max_redirects(0)
                .timeout_recv_response(settings.header_timeout)
                .timeout_per_read(Some(silence));
            api::http::build(configuration, settings.proxies.clone())
        })
    }
}

/// Ours, replaced by the config's where it has them.
fn headers(location: &Location<'_>) -> Result<HeaderMap, FetchFault> {
    let mut headers = HeaderMap::new();
    for header in location.headers {
        let bad = || FetchFault::Header { name: header.name.chars().take(100).flat_map(char::escape_debug).collect() };
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| bad())?;
        let value = header.value.as_deref().filter(|value| !value.is_empty()).ok_or_else(bad)?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        if !NOT_SENT.contains(&name) {
            headers.try_append(name, value).map_err(|_| bad())?;
        }
    }
    if !headers.contains_key(header::ACCEPT) {
        let version = Version::NEWEST_STABLE;
        let accept = format!("application/vnd.coreos.ignition+json;version={version}, */*;q=0.1");
        headers.extend(HeaderValue::from_str(&accept).ok().map(|accept| (header::ACCEPT, accept)));
    }
    Ok(headers)
}
