//! One file from a server, over as many connections as it takes.

use crate::{Secret, http::public_url};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    time::Duration,
};
use ureq::{
    Agent, Body, RequestBuilder,
    config::ConfigBuilder,
    http::{HeaderMap, HeaderName, HeaderValue, Response, header},
    typestate::{RequestScope, WithoutBody},
};

const CHUNK_BYTES: usize = 256 << 10;

/// Why a file did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("cannot fetch {url}")]
    Transport {
        /// Without what may be secret.
        url: String,
        source: Box<ureq::Error>,
    },
    /// An answer without the file.
    #[error("cannot fetch {url}: the server answered {status}")]
    Status {
        /// Without what may be secret.
        url: String,
        status: u16,
    },
    /// The connection broke, or took too long.
    #[error("fetching {url} broke off after {}", kernel::units::binary(*bytes))]
    Broken {
        /// Without what may be secret.
        url: String,
        /// This many are retained for the next attempt.
        bytes: u64,
        source: io::Error,
    },
    /// It can't be the right file.
    #[error("{url} has more than {}", kernel::units::binary(*limit_bytes))]
    TooLarge {
        /// Without what may be secret.
        url: String,
        limit_bytes: u64,
    },
    /// The caller wants no more of it.
    #[error("stopped the download from {url} after {}", kernel::units::binary(*bytes))]
    Stopped {
        /// Without what may be secret.
        url: String,
        /// This many are retained for the next attempt.
        bytes: u64,
        source: io::Error,
    },
    #[error("cannot store the download from {url}")]
    Write {
        /// Without what may be secret.
        url: String,
        source: io::Error,
    },
}

/// What a download may take, and what its requests have.
#[derive(Clone, Debug)]
pub struct DownloadOptions {
    /// A larger file can't be the right one.
    pub max_bytes: u64,
    /// Time for an attempt.
    pub attempt: Option<Duration>,
    /// Time in which some data must arrive.
    pub silence: Option<Duration>,
    /// Sent with each request, but not on after a redirect.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Added to the URL's query.
    pub query: Vec<(String, Secret)>,
    /// Redirects may not lead away from https.
    pub https_only: bool,
}

impl DownloadOptions {
    /// At most `max_bytes`, without limits of time.
    pub fn new(max_bytes: u64) -> Self {
        Self { max_bytes, attempt: None, silence: None, headers: Vec::new(), query: Vec::new(), https_only: false }
    }
}

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    pub bytes: u64,
    /// The file's length, if the server announced it.
    pub total: Option<u64>,
    /// With this the file can be continued, by [`Download::with_validator`].
    pub validator: Option<&'a str>,
}

/// A file on its way. What has arrived stays between attempts, as long as the server says that it is of the same file.
#[derive(Debug)]
pub struct Download {
    agent: Agent,
    url: String,
    file: File,
    options: DownloadOptions,
    /// ETag or date of what has arrived (RFC 9110, 13.1.5).
    validator: Option<String>,
}

impl Download {
    /// A download from `url` to `file`.
    pub fn new(agent: Agent, url: &str, file: File, options: DownloadOptions) -> Self {
        Self { agent, url: url.to_owned(), file, options, validator: None }
    }

    /// Continues a file of which another download reported this.
    pub fn with_validator(mut self, validator: Option<String>) -> Self {
        self.validator = validator;
        self
    }

    /// What the next attempt continues with; none if it must start anew.
    pub fn validator(&self) -> Option<&str> {
        self.validator.as_deref()
    }

    /// The file, with what has arrived.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Tries once, from where the last attempt broke off. `watch` sees how far it is, first before any data is written; an error of
    /// it ends the attempt. Gives the file's size, and whether the server had announced it.
    pub fn attempt(
        &mut self,
        watch: &mut dyn FnMut(Received<'_>) -> io::Result<()>,
    ) -> Result<(u64, bool), DownloadError> {
        let have = match &self.validator {
            Some(_) => self.file.metadata().map_or(0, |file| file.len()),
            None => 0,
        };
        let mut response = self.ask(have)?;
        let status = response.status().as_u16();
        let found = validator(response.headers());
        let is_same = found.is_none() || found == self.validator;
        let start = match status {
            206 if starts_at(response.headers(), have) && is_same => have,
            200..=299 if status != 206 => 0,
            // A part that wasn't asked for, or none where there is nothing more: from the start then.
            206 | 416 => {
                self.validator = None;
                return Err(DownloadError::Status { url: public_url(&self.url), status });
            }
            _ => return Err(DownloadError::Status { url: public_url(&self.url), status }),
        };
        self.cut(start).map_err(|source| self.write_error(source))?;
        if status != 206 {
            self.validator = found;
        }
        let total = response.body().content_length().map(|len| start.saturating_add(len));
        let size = self.copy(&mut response, start, total, watch)?;
        if let Some(announced) = total.filter(|&announced| announced != size) {
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, format!("{announced} bytes were announced"));
            return Err(DownloadError::Broken { url: public_url(&self.url), bytes: size, source });
        }
        Ok((size, total.is_some()))
    }

    fn ask(&self, have: u64) -> Result<Response<Body>, DownloadError> {
        let transport = |source| DownloadError::Transport { url: public_url(&self.url), source: Box::new(source) };
        let query = |request: RequestBuilder<WithoutBody>| {
            self.options.query.iter().fold(request, |request, (name, value)| request.query(name, value.expose()))
        };
        let own = |request: RequestBuilder<WithoutBody>| {
            self.options.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
        };
        let first = own(query(self.agent.get(&self.url)));
        if self.options.headers.is_empty() {
            return self.configured(first, have).build().call().map_err(transport);
        }
        let first = self.configured(first, have).max_redirects(0).max_redirects_will_error(false).build();
        let response = first.call().map_err(transport)?;
        match elsewhere(&self.url, &response) {
            Some(target) => self.configured(self.agent.get(&target), have).build().call().map_err(transport),
            None => Ok(response),
        }
    }

    fn configured(&self, request: RequestBuilder<WithoutBody>, have: u64) -> ConfigBuilder<RequestScope<WithoutBody>> {
        // The body must come as the file is, or offsets mean nothing.
        let mut request = request.header(header::ACCEPT_ENCODING, "identity");
        if let (Some(validator), 1..) = (&self.validator, have) {
            request = request.header(header::RANGE, format!("bytes={have}-")).header(header::IF_RANGE, validator);
        }
        let config = request.config().timeout_global(self.options.attempt).https_only(self.options.https_only);
        config.timeout_per_read(self.options.silence)
    }

    /// Goes on at `start`; what is behind goes.
    fn cut(&self, start: u64) -> io::Result<()> {
        self.file.set_len(start)?;
        (&self.file).seek(SeekFrom::Start(start)).map(drop)
    }

    fn copy(
        &self,
        response: &mut Response<Body>,
        start: u64,
        total: Option<u64>,
        watch: &mut dyn FnMut(Received<'_>) -> io::Result<()>,
    ) -> Result<u64, DownloadError> {
        let limit_bytes = self.options.max_bytes;
        let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut size = start;
        loop {
            watch(Received { bytes: size, total, validator: self.validator.as_deref() })
                .map_err(|source| DownloadError::Stopped { url: public_url(&self.url), bytes: size, source })?;
            let chunk = match body.read(&mut buffer) {
                Ok(len) => buffer.get(..len).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(DownloadError::Broken { url: public_url(&self.url), bytes: size, source });
                }
            };
            if chunk.is_empty() {
                return Ok(size);
            }
            size = size.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            if size > limit_bytes || total.is_some_and(|total| total > limit_bytes) {
                return Err(DownloadError::TooLarge { url: public_url(&self.url), limit_bytes });
            }
            (&self.file).write_all(chunk).map_err(|source| self.write_error(source))?;
        }
    }

    fn write_error(&self, source: io::Error) -> DownloadError {
        DownloadError::Write { url: public_url(&self.url), source }
    }
}

/// Where a redirect leads. Only URLs in full and paths are followed.
fn elsewhere(url: &str, response: &Response<Body>) -> Option<String> {
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    if location.starts_with("http://") || location.starts_with("https://") {
        return Some(location.to_owned());
    }
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let is_path = location.starts_with('/') && !location.starts_with("//");
    is_path.then(|| format!("{scheme}://{authority}{location}"))
}

/// Whether the part that came is the one from `have` on (RFC 9110, 14.4).
fn starts_at(headers: &HeaderMap, have: u64) -> bool {
    let range = headers.get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
    let start = range.strip_prefix("bytes ").and_then(|range| range.split('-').next());
    start.and_then(|start| start.parse().ok()) == Some(have)
}

/// What tells one version of the file from another; weak ones don't say that every byte is the same.
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let etag = text(header::ETAG).filter(|etag| !etag.starts_with("W/"));
    etag.or_else(|| text(header::LAST_MODIFIED))
}
