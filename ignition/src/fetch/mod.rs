//! What a config refers to: other configs, certificates, contents of files (docs/compatibility.md#ignition-fetching).
//!
//! As Ignition fetches it, but for three things: we end after some retries, where Ignition continues until the machine is
//! switched off; no resource may be larger than the caller allows; and tftp:, s3:, gs: and arn: are left to Ignition.

mod error;
mod http;
mod url;

pub use error::{FetchError, FetchFault};

use crate::check::url::{Scheme, scheme};
use crate::data_url;
use crate::model::{HttpHeader, Ignition, Proxy, Reference, Resource};
use crate::redact::redact_url;
use api::proxy::ProxyVariables;
use flate2::read::MultiGzDecoder;
use kernel::{clock::Clock, hex};
use sha2::{Digest, Sha256, Sha512};
use std::{
    borrow::Cow,
    collections::HashMap,
    io::{self, Read},
    sync::OnceLock,
    time::Duration,
};

/// Size limit of a resource by default: more than the largest of configs.
pub const MAX_BYTES: u64 = 64 << 20;
/// How often a request is retried by default.
pub const RETRIES: u32 = 3;
/// Ignition's own, until a config says otherwise.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// As long as any timeout may be: clocks overflow some time.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);
/// Of a URL in an error.
const MAX_SHOWN_CHARS: usize = 200;

/// What the caller decides.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// PEM bundles trusted in addition to the system's roots and to those a config names.
    pub ca_bundles: Vec<Vec<u8>>,
    /// Fetch nothing from the network.
    pub offline: bool,
    /// How many bytes a resource may have, both packed and unpacked.
    pub max_bytes: u64,
    /// How often a request that failed is made again, 200 ms later, then 400, up to 5 s.
    pub retries: u32,
    /// What it waits by between them.
    pub clock: Clock,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { ca_bundles: Vec::new(), offline: false, max_bytes: MAX_BYTES, retries: RETRIES, clock: Clock::default() }
    }
}

/// Where a resource is, and what it is.
#[derive(Clone, Copy)]
pub struct Location<'a> {
    /// URL. Nothing is fetched for an empty one: the resource is empty.
    pub source: &'a str,
    /// `gzip`, or nothing.
    pub compression: Option<&'a str>,
    /// Sent with the request, but not on after a redirect.
    pub headers: &'a [HttpHeader<'a>],
    /// `sha512-` or `sha256-` and the sum in hexadecimal, of the bytes unpacked.
    pub hash: Option<&'a str>,
}

macro_rules! location_of {
    ($($resource:ident),*) => {$(
        impl<'a> From<&'a $resource<'a>> for Location<'a> {
            fn from(resource: &'a $resource<'a>) -> Self {
                Self {
                    source: resource.source.as_deref().unwrap_or_default(),
                    compression: resource.compression.as_deref(),
                    headers: &resource.http_headers,
                    hash: resource.verification.hash.as_deref(),
                }
            }
        }
    )*};
}
location_of!(Reference, Resource);

impl Location<'_> {
    /// For people: the URL without secrets.
    pub fn public_name(&self) -> String {
        let is_data = self.source.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:"));
        if is_data {
            return "a data: URL".to_owned();
        }
        if !self.source.contains("://") {
            return "a URL without a host".to_owned();
        }
        redact_url(self.source).chars().take(MAX_SHOWN_CHARS).flat_map(char::escape_debug).collect()
    }
}

/// A config's settings for fetching.
#[derive(Clone, PartialEq)]
struct Settings {
    /// None for no limit.
    header_timeout: Option<Duration>,
    total_timeout: Option<Duration>,
    proxies: ProxyVariables,
    authorities: Vec<Vec<u8>>,
}

pub struct Fetcher {
    options: FetchOptions,
    settings: Settings,
    /// Made when it is first needed: it reads the system's roots.
    agent: OnceLock<ureq::Agent>,
    /// Certificates fetched before, by URL.
    known_authorities: HashMap<String, Vec<u8>>,
}

impl Fetcher {
    /// One with Ignition's own settings and the proxies of the environment.
    pub fn new(options: FetchOptions) -> Self {
        let proxies = ProxyVariables::from_env();
        let settings =
            Settings { header_timeout: Some(HEADER_TIMEOUT), total_timeout: None, proxies, authorities: Vec::new() };
        Self { options, settings, agent: OnceLock::new(), known_authorities: HashMap::new() }
    }

    /// Fetches from now on as a config's `ignition` says: its timeouts, its proxies, and the certificates it trusts, which are
    /// fetched. One that names no certificates leaves those of earlier configs.
    pub fn configure(&mut self, ignition: &Ignition<'_>) -> Result<(), FetchError> {
        let timeouts = &ignition.timeouts;
        self.set(Settings {
            header_timeout: timeout(timeouts.http_response_headers, Some(HEADER_TIMEOUT)),
            total_timeout: timeout(timeouts.http_total, None),
            proxies: proxies(&ignition.proxy),
            authorities: self.settings.authorities.clone(),
        });
        let references = &ignition.security.tls.certificate_authorities;
        let mut authorities = Vec::with_capacity(references.len());
        for reference in references.iter() {
            let location = Location::from(reference);
            let pem = match self.known_authorities.get(location.source) {
                Some(pem) => pem.clone(),
                None => self.fetch_authority(&location)?,
            };
            authorities.push(pem);
        }
        if !authorities.is_empty() {
            self.set(Settings { authorities, ..self.settings.clone() });
        }
        Ok(())
    }

    /// A client that has them already is reused.
    fn set(&mut self, settings: Settings) {
        if self.settings != settings {
            self.settings = settings;
            self.agent = OnceLock::new();
        }
    }

    fn fetch_authority(&mut self, location: &Location<'_>) -> Result<Vec<u8>, FetchError> {
        let pem = self.fetch(location)?.into_owned();
        if !api::http::has_certificate(&pem) {
            return Err(FetchError { resource: location.public_name(), source: FetchFault::NoCertificate });
        }
        self.known_authorities.insert(location.source.to_owned(), pem.clone());
        Ok(pem)
    }

    /// Fetches, unpacks and verifies. The bytes are borrowed from a `data:` URL with nothing encoded in it.
    pub fn fetch<'a>(&self, location: &Location<'a>) -> Result<Cow<'a, [u8]>, FetchError> {
        self.resource(location).map_err(|source| FetchError { resource: location.public_name(), source })
    }

    fn resource<'a>(&self, location: &Location<'a>) -> Result<Cow<'a, [u8]>, FetchFault> {
        if location.source.is_empty() {
            return Ok(Cow::Borrowed(&[]));
        }
        let is_packed = match location.compression {
            None | Some("") => false,
            Some("gzip") => true,
            Some(method) => return Err(FetchFault::Compression { method: method.chars().take(40).collect() }),
        };
        let sum = location.hash.map(|hash| Sum::parse(hash).ok_or(FetchFault::Hash)).transpose()?;
        let limit_bytes = self.options.max_bytes;
        let bytes = match scheme(location.source) {
            Ok(Scheme::Data) => data_url::decode(location.source)?.data,
            Ok(Scheme::Http | Scheme::Https) => self.over_http(location)?.into(),
            Ok(_) => {
                let scheme = location.source.split_once(':').map_or("other", |(scheme, _)| scheme);
                return Err(FetchFault::Scheme { scheme: scheme.chars().take(40).collect() });
            }
            Err(_) => return Err(FetchFault::Url),
        };
        if len(&bytes) > limit_bytes {
            return Err(FetchFault::TooLarge { limit_bytes, unpacked: false });
        }
        let bytes = if is_packed { unpack(&bytes, limit_bytes)?.into() } else { bytes };
        if let Some(sum) = sum {
            sum.check(&bytes)?;
        }
        Ok(bytes)
    }
}

/// A config's timeout; 0 is none.
fn timeout(seconds: Option<i64>, default: Option<Duration>) -> Option<Duration> {
    let Some(seconds) = seconds else { return default };
    let seconds = u64::try_from(seconds).unwrap_or(0);
    (seconds > 0).then(|| Duration::from_secs(seconds).min(MAX_TIMEOUT))
}

/// A config's proxies. Those of the environment count where it says nothing at all.
fn proxies(proxy: &Proxy<'_>) -> ProxyVariables {
    if *proxy == Proxy::default() {
        return ProxyVariables::from_env();
    }
    let value = |proxy: &Option<Cow<'_, str>>| proxy.as_deref().unwrap_or_default().to_owned();
    let exceptions = proxy.no_proxy.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(",");
    ProxyVariables::from_pairs(&[
        ("HTTP_PROXY", &value(&proxy.http_proxy)),
        ("HTTPS_PROXY", &value(&proxy.https_proxy)),
        ("NO_PROXY", &exceptions),
    ])
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// What `packed` unpacks to. It is unpacked twice, the first time only to count: a few kilobytes may unpack to gigabytes,
/// which are not stored if they are too many.
fn unpack(packed: &[u8], limit_bytes: u64) -> Result<Vec<u8>, FetchFault> {
    let decoder = || MultiGzDecoder::new(packed).take(limit_bytes.saturating_add(1));
    let unpacked_bytes = io::copy(&mut decoder(), &mut io::sink()).map_err(FetchFault::Gzip)?;
    if unpacked_bytes > limit_bytes {
        return Err(FetchFault::TooLarge { limit_bytes, unpacked: true });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(unpacked_bytes).unwrap_or_default());
    decoder().read_to_end(&mut bytes).map_err(FetchFault::Gzip)?;
    Ok(bytes)
}

/// A sum of a resource's bytes.
struct Sum<'a> {
    is_long: bool,
    digits: &'a str,
}

impl<'a> Sum<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (kind, digits) = text.split_once('-')?;
        let (is_long, len) = match kind {
            "sha512" => (true, 128),
            "sha256" => (false, 64),
            _ => return None,
        };
        let is_sum = digits.len() == len && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_sum.then_some(Self { is_long, digits })
    }

    fn check(&self, bytes: &[u8]) -> Result<(), FetchFault> {
        let calculated =
            if self.is_long { hex::lower(Sha512::digest(bytes)) } else { hex::lower(Sha256::digest(bytes)) };
        if calculated.eq_ignore_ascii_case(self.digits) {
            return Ok(());
        }
        Err(FetchFault::Mismatch { calculated, expected: self.digits.to_ascii_lowercase() })
    }
}

#[cfg(test)]
mod tests;
