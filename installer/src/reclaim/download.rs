//! One file from a server, over as many connections as it takes.

use api::http::{HttpConfig, HttpConfigError, agent, public_url};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    time::Duration,
};
use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, header},
};

/// An initramfs with all its firmware has a few hundred megabytes.
const MAX_BYTES: u64 = 4 << 30;
const CHUNK_BYTES: usize = 256 << 10;

/// Why a file did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The client can't be set up.
    #[error(transparent)]
    Config(#[from] HttpConfigError),
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
    #[error("{url} has more than {}", kernel::units::binary(MAX_BYTES))]
    TooLarge {
        /// Without what may be secret.
        url: String,
    },
    #[error("cannot store the download from {url}")]
    Write {
        /// Without what may be secret.
        url: String,
        source: io::Error,
    },
}

/// A file on its way. What has arrived stays between attempts, as long as the server says that it is of the same file.
#[derive(Debug)]
pub struct Download {
    agent: Agent,
    url: String,
    file: File,
    timeout: Duration,
    /// ETag or date of what has arrived (RFC 9110, 13.1.5).
    validator: Option<String>,
}

impl Download {
    /// A download from `url` to the empty `file`, each attempt of which may take `timeout`.
    pub fn new(http: &HttpConfig, url: &str, file: File, timeout: Duration) -> Result<Self, DownloadError> {
        Ok(Self { agent: agent(http)?, url: url.to_owned(), file, timeout, validator: None })
    }

    /// The file, with what has arrived.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Tries once, from where the last attempt broke off. Gives the file's size.
    pub fn attempt(&mut self) -> Result<u64, DownloadError> {
        let have = match &self.validator {
            Some(_) => self.file.metadata().map_or(0, |file| file.len()),
            None => 0,
        };
        let mut response = self.ask(have)?;
        let status = response.status().as_u16();
        let start = match status {
            206 if starts_at(response.headers(), have) => have,
            200..=299 if status != 206 => 0,
            // A part that wasn't asked for, or none where there is nothing more: from the start then.
            206 | 416 => {
                self.validator = None;
                return Err(DownloadError::Status { url: public_url(&self.url), status });
            }
            _ => return Err(DownloadError::Status { url: public_url(&self.url), status }),
        };
        self.validator = validator(response.headers());
        let announced = response.body().content_length().map(|len| start.saturating_add(len));
        self.cut(start).map_err(|source| self.write_error(source))?;
        let size = self.copy(&mut response, start)?;
        if let Some(announced) = announced.filter(|&announced| announced != size) {
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, format!("{announced} bytes were announced"));
            return Err(DownloadError::Broken { url: public_url(&self.url), bytes: size, source });
        }
        Ok(size)
    }

    fn ask(&self, have: u64) -> Result<Response<Body>, DownloadError> {
        let mut request = self.agent.get(&self.url);
        if let (Some(validator), 1..) = (&self.validator, have) {
            request = request.header(header::RANGE, format!("bytes={have}-")).header(header::IF_RANGE, validator);
        }
        let request = request.config().timeout_global(Some(self.timeout)).build();
        let transport = |source| DownloadError::Transport { url: public_url(&self.url), source: Box::new(source) };
        request.call().map_err(transport)
    }

    /// Goes on at `start`; what is behind goes.
    fn cut(&self, start: u64) -> io::Result<()> {
        self.file.set_len(start)?;
        (&self.file).seek(SeekFrom::Start(start)).map(drop)
    }

    fn copy(&self, response: &mut Response<Body>, start: u64) -> Result<u64, DownloadError> {
        let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut size = start;
        loop {
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
            if size > MAX_BYTES {
                return Err(DownloadError::TooLarge { url: public_url(&self.url) });
            }
            (&self.file).write_all(chunk).map_err(|source| self.write_error(source))?;
        }
    }

    fn write_error(&self, source: io::Error) -> DownloadError {
        DownloadError::Write { url: public_url(&self.url), source }
    }
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
