//! An image from a server, picked up where it broke off when the connection dies and the server comes back.

use super::{OnRetry, Retry, SourceError};
use crate::options::{InstallOptions, Retries, Source};
use api::backoff;
use kernel::Cancel;
use std::{
    io::{self, Read},
    time::{Duration, Instant},
};
use ureq::http::{HeaderMap, Response, header};

/// A connection on which nothing comes for this long is given up and made anew.
const SILENCE: Duration = Duration::from_secs(30);

/// What shows that a later answer is for the same file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Identity {
    total: Option<u64>,
    etag: Option<String>,
    modified: Option<String>,
}

impl Identity {
    fn new(headers: &HeaderMap, total: Option<u64>) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Self { total, etag: text(header::ETAG), modified: text(header::LAST_MODIFIED) }
    }

    /// For `If-Range`: only a strong tag, or else the date, may join two parts (RFC 9110, section 13.1.5). Without a
    /// length the end of the second part couldn't be checked, and the body may have been unpacked on the way.
    fn validator(&self) -> Option<&str> {
        self.total?;
        self.etag.as_deref().filter(|tag| tag.starts_with('"')).or(self.modified.as_deref())
    }

    /// What differs, leaving out what one side does not tell.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        fn differ<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
            matches!((a, b), (Some(a), Some(b)) if a != b)
        }
        if differ(&self.total, &other.total) {
            Some("its length")
        } else if differ(&self.etag, &other.etag) {
            Some("its ETag")
        } else if differ(&self.modified, &other.modified) {
            Some("its Last-Modified")
        } else {
            None
        }
    }
}

/// `Content-Range: bytes FIRST-LAST/TOTAL` as first byte and total.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?;
    let (range, total) = value.split_once('/')?;
    let (first, _last) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((first.parse().ok()?, total))
}

/// What one request came to.
enum Attempt {
    Connected,
    /// Worth another try.
    Later(SourceError),
}

pub(super) struct HttpReader {
    agent: ureq::Agent,
    url: String,
    public_url: String,
    /// Whether nothing but the server's certificate speaks for the image, so that no other may take its place.
    https_only: bool,
    cancel: Cancel,
    stall_timeout: Duration,
    retries: Retries,
    on_retry: OnRetry,
    body: Option<ureq::BodyReader<'static>>,
    /// Known once the server has answered.
    identity: Option<Identity>,
    /// Bytes given to the caller, and their checksum.
    offset: u64,
    delivered: crc32fast::Hasher,
    /// Bytes of the present body the caller already has, and the checksum of those passed over.
    skip: u64,
    skipped: crc32fast::Hasher,
    /// When the last byte new to the caller came, and failures since.
    progress: Instant,
    failures: u32,
}

impl HttpReader {
    /// Waits for an answer, for as long as failures are of the kind that passes.
    pub(super) fn open(url: &str, options: &InstallOptions, on_retry: OnRetry) -> Result<Self, SourceError> {
        let public_url = Source::Url(url.to_owned()).to_string();
        let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if !host.is_some_and(|host| !host.is_empty() && !host.starts_with('/') && !host.contains(char::is_whitespace)) {
            return Err(SourceError::Url { url: public_url });
        }
        let mut reader = Self {
            agent: api::http::agent(&options.http)?,
            url: url.to_owned(),
            public_url,
            https_only: is_https_only(url, options),
            cancel: options.cancel.clone(),
            stall_timeout: options.stall_timeout,
            retries: options.retries,
            on_retry,
            body: None,
            identity: None,
            offset: 0,
            delivered: crc32fast::Hasher::new(),
            skip: 0,
            skipped: crc32fast::Hasher::new(),
            progress: Instant::now(),
            failures: 0,
        };
        while reader.body.is_none() {
            reader.connect_or_wait()?;
        }
        Ok(reader)
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.identity.as_ref().and_then(|identity| identity.total)
    }

    fn connect_or_wait(&mut self) -> Result<(), SourceError> {
        match self.connect()? {
            Attempt::Connected => Ok(()),
            Attempt::Later(error) => self.wait_after(error),
        }
    }

    fn connect(&mut self) -> Result<Attempt, SourceError> {
        // The body must come as the file is, or offsets mean nothing.
        let mut request = self.agent.get(&self.url).header(header::ACCEPT_ENCODING, "identity");
        let validator = self.identity.as_ref().and_then(Identity::validator).filter(|_| self.offset > 0);
        if let Some(validator) = validator {
            request = request.header(header::RANGE, format!("bytes={}-", self.offset));
            request = request.header(header::IF_RANGE, validator);
        }
        let silence = SILENCE.min(self.stall_timeout).max(Duration::from_secs(1));
        let request = request.config().https_only(self.https_only).timeout_per_read(Some(silence));
        match request.build().call() {
            Ok(response) => self.accept(response),
            Err(error) => {
                let patient = self.retries == Retries::Forever && may_pass_one_day(&error);
                let is_refused = matches!(error, ureq::Error::RequireHttpsOnly(_));
                let passes = !is_refused && (self.identity.is_some() || may_pass(&error) || patient);
                let error = SourceError::Transport {
                    url: self.public_url.clone(),
                    offset: self.offset,
                    source: Box::new(error),
                };
                if passes { Ok(Attempt::Later(error)) } else { Err(error) }
            }
        }
    }

    fn accept(&mut self, response: Response<ureq::Body>) -> Result<Attempt, SourceError> {
        let changed = |what| SourceError::Changed { url: self.public_url.clone(), what, offset: self.offset };
        let status = response.status().as_u16();
        let total = match (status, &self.identity) {
            (200, _) => response.body().content_length(),
            (206, Some(_)) if self.offset > 0 => match content_range(response.headers()) {
                Some((first, total)) if first == self.offset => total,
                _ => return Err(changed("its Content-Range")),
            },
            (416, Some(_)) => return Err(changed("its length")),
            _ => {
                let error = SourceError::Status { url: self.public_url.clone(), status, offset: self.offset };
                let passes = matches!(status, 408 | 425 | 429 | 500..=599);
                return if passes { Ok(Attempt::Later(error)) } else { Err(error) };
            }
        };
        let identity = Identity::new(response.headers(), total);
        match &self.identity {
            None => self.identity = Some(identity),
            Some(known) => {
                if let Some(what) = known.difference(&identity) {
                    return Err(changed(what));
                }
            }
        }
        // Without a validator, or from a server that knows no ranges, it all comes again: what the caller has is passed
        // over, and compared by its checksum.
        self.skip = if status == 200 { self.offset } else { 0 };
        self.skipped = crc32fast::Hasher::new();
        self.body = Some(response.into_body().into_reader());
        Ok(Attempt::Connected)
    }

    /// Gives up after the configured number of tries or length of silence, else pauses.
    fn wait_after(&mut self, error: SourceError) -> Result<(), SourceError> {
        self.body = None;
        let silent = self.progress.elapsed();
        let patience = match self.retries {
            Retries::Forever => Duration::MAX,
            Retries::Count(count) if self.identity.is_none() => {
                if self.failures >= count {
                    return Err(error);
                }
                Duration::MAX
            }
            Retries::Count(_) | Retries::UntilStalled => self.stall_timeout.saturating_sub(silent),
        };
        if patience.is_zero() {
            return Err(SourceError::Stalled {
                url: self.public_url.clone(),
                offset: self.offset,
                total: self.total(),
                silent,
                source: Box::new(error),
            });
        }
        let wait = backoff(self.failures).min(patience);
        self.failures = self.failures.saturating_add(1);
        if !(self.on_retry)(Retry { error: kernel::in_full(&error), wait, offset: self.offset }) {
            return Err(SourceError::Cancelled { offset: self.offset });
        }
        match self.cancel.sleep(wait) {
            true => Err(SourceError::Cancelled { offset: self.offset }),
            false => Ok(()),
        }
    }

    /// One read from the present body; None if nothing came of it and it should be tried again.
    fn read_body(&mut self, buf: &mut [u8]) -> Result<Option<usize>, SourceError> {
        let Some(body) = self.body.as_mut() else {
            self.connect_or_wait()?;
            return Ok(None);
        };
        let room = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let room = if self.skip > 0 { room.min(buf.len()) } else { buf.len() };
        let count = match body.read(&mut buf[..room]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(source) => {
                let error = SourceError::Body { url: self.public_url.clone(), offset: self.offset, source };
                return self.wait_after(error).map(|()| None);
            }
        };
        let bytes = u64::try_from(count).unwrap_or(u64::MAX);
        if count == 0 {
            let expected = self.total().unwrap_or(self.offset);
            if self.skip == 0 && expected <= self.offset {
                return Ok(Some(0));
            }
            let error = SourceError::Short { name: self.public_url.clone(), expected, found: self.offset };
            return self.wait_after(error).map(|()| None);
        }
        if self.skip > 0 {
            self.skipped.update(&buf[..count]);
            self.skip -= bytes;
            if self.skip == 0 && self.skipped.clone().finalize() != self.delivered.clone().finalize() {
                return Err(SourceError::Changed {
                    url: self.public_url.clone(),
                    what: "what came before",
                    offset: self.offset,
                });
            }
            return Ok(None);
        }
        self.delivered.update(&buf[..count]);
        self.offset += bytes;
        self.progress = Instant::now();
        self.failures = 0;
        Ok(Some(count))
    }
}

impl Read for HttpReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        // The time the caller took to come back is not the server's.
        self.progress = Instant::now();
        loop {
            if self.cancel.is_cancelled() {
                return Err(io::Error::other(SourceError::Cancelled { offset: self.offset }));
            }
            if let Some(count) = self.read_body(buf).map_err(io::Error::other)? {
                return Ok(count);
            }
        }
    }
}

/// Whether a redirect from `url` may not lead away from https: where nothing has to vouch for what comes.
pub(crate) fn is_https_only(url: &str, options: &InstallOptions) -> bool {
    let is_https = url.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"));
    is_https && !options.trust.must_be_vouched_for()
}

/// Whether a server never heard of may yet answer. A name that can't be resolved and an untrusted certificate stay so;
/// of a server that has answered before, everything passes.
fn may_pass(error: &ureq::Error) -> bool {
    use io::ErrorKind::*;
    match error {
        ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed => true,
        ureq::Error::Io(error) => matches!(
            error.kind(),
            ConnectionRefused
                | ConnectionReset
                | ConnectionAborted
                | NotConnected
                | BrokenPipe
                | TimedOut
                | WouldBlock
                | UnexpectedEof
                | HostUnreachable
                | NetworkUnreachable
                | NetworkDown
                | AddrNotAvailable
        ),
        _ => false,
    }
}

/// Whether a server may answer one day, for callers with unlimited time: names that can't be resolved yet, too. An
/// untrusted certificate, which the TLS library reports as bad data, stays so.
fn may_pass_one_day(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => error.kind() != io::ErrorKind::InvalidData,
        ureq::Error::HostNotFound => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
