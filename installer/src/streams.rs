//! CoreOS stream metadata: which image a stream has for an architecture and a sector size, and what vouches for it.
//!
//! One JSON file a stream, `<base>/<stream>.json`, as Fedora CoreOS publishes it
//! (<https://docs.fedoraproject.org/en-US/fedora-coreos/stream-metadata/>).

use api::{
    BodyError, backoff,
    http::{HttpConfig, HttpConfigError, agent, public_url},
    read_body,
};
use diskwrite::Retries;
use kernel::Cancel;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use ureq::http::StatusCode;

/// Where Fedora CoreOS publishes its streams.
pub(crate) const STREAM_BASE_URL: &str = "https://builds.coreos.fedoraproject.org/streams/";
/// The platform whose images are written to disks.
const PLATFORM: &str = "metal";
/// The published files have about 100 KiB.
const METADATA_BYTES: u64 = 4 << 20;
/// How long a server may not answer before the next try, or the last.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// How long to try where no number of retries is set.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamQuery<'a> {
    /// Where the metadata are, such as [`STREAM_BASE_URL`].
    pub base_url: &'a str,
    /// Such as `stable`.
    pub stream: &'a str,
    /// As `uname -m` has it.
    pub architecture: &'a str,
    /// The disk's logical sector size, in bytes.
    pub sector_bytes: u32,
    /// How often a server that fails is retried; without a number for a minute.
    pub retries: Retries,
}

/// An image of a stream, and what vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamImage {
    pub image_url: String,
    /// Its detached OpenPGP signature.
    pub signature_url: Option<String>,
    /// SHA-256 of the file as it is downloaded.
    pub sha256: Option<[u8; 32]>,
    /// One line for the operator.
    pub description: String,
}

/// Why a stream gives no image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// HTTP can't be set up.
    #[error(transparent)]
    Config(#[from] HttpConfigError),
    /// Not a name that can be part of a URL's path.
    #[error("'{stream}' is not a stream's name: use letters, digits, '.', '_' and '-', as in stable, testing or next")]
    Name { stream: String },
    /// Not a URL that can be fetched.
    #[error("'{url}' is not a base URL of streams: it must start with http:// or https://")]
    BaseUrl {
        /// Without secrets.
        url: String,
    },
    /// The server can't be reached.
    #[error("cannot fetch the stream metadata {url}")]
    Transport {
        /// Without secrets.
        url: String,
        source: Box<ureq::Error>,
    },
    #[error("{url}: the server answered {status}{}", hint(*status))]
    Status {
        /// Without secrets.
        url: String,
        status: u16,
    },
    /// Too long, or it broke off.
    #[error("cannot read the stream metadata {url}")]
    Body {
        /// Without secrets.
        url: String,
        source: BodyError,
    },
    #[error("{url} is not CoreOS stream metadata")]
    Json {
        /// Without secrets.
        url: String,
        source: serde_json::Error,
    },
    /// The stream is for other machines.
    #[error("stream {stream} has nothing for architecture {architecture}; it has {}", list(available))]
    Architecture { stream: String, architecture: String, available: Vec<String> },
    /// The architecture has no images for disks.
    #[error("stream {stream} has no {PLATFORM} images for {architecture}; its platforms are {}", list(available))]
    Platform { stream: String, architecture: String, available: Vec<String> },
    /// Not for this sector size.
    #[error(
        "stream {stream} has no {format} image for {architecture}, which a disk with {sector_bytes}-byte sectors needs; \
         its formats are {}",
        list(available)
    )]
    Format {
        stream: String,
        architecture: String,
        /// The format looked for.
        format: &'static str,
        /// The disk's logical sector size.
        sector_bytes: u32,
        /// Those it has.
        available: Vec<String>,
    },
    /// Exactly one is needed for a disk.
    #[error("{format} of stream {stream} has {} where one image was expected", list(artifacts))]
    Artifacts { stream: String, format: &'static str, artifacts: Vec<String> },
    #[error("stream {stream}: '{found}' is not a SHA-256 in hexadecimal")]
    Sha256 {
        stream: String,
        /// As it stands there.
        found: String,
    },
    #[error("cancelled while fetching the stream metadata")]
    Cancelled,
}

fn hint(status: u16) -> &'static str {
    if status == 404 { " (is the stream's name right?)" } else { "" }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// What a stream has.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    architectures: BTreeMap<String, Architecture>,
}

#[derive(Debug, Default, Deserialize)]
struct Architecture {
    #[serde(default)]
    artifacts: BTreeMap<String, Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    #[serde(default)]
    release: String,
    #[serde(default)]
    formats: BTreeMap<String, BTreeMap<String, Artifact>>,
}

/// A file of a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct Artifact {
    pub location: String,
    /// URL of its detached OpenPGP signature.
    pub signature: Option<String>,
    /// SHA-256 of the file as it is downloaded, in hexadecimal.
    pub sha256: Option<String>,
}

impl Metadata {
    /// Architecture, platform and format of all it has, sorted.
    pub(crate) fn list(&self) -> Vec<[&str; 3]> {
        let mut all = Vec::new();
        for (architecture, Architecture { artifacts }) in &self.architectures {
            for (platform, Platform { formats, .. }) in artifacts {
                all.extend(formats.keys().map(|format| [architecture.as_str(), platform, format]));
            }
        }
        all
    }

    /// The files of a format by their names, such as `disk`; None if there is no such thing.
    pub(crate) fn artifacts(
        &self,
        architecture: &str,
        platform: &str,
        format: &str,
    ) -> Option<&BTreeMap<String, Artifact>> {
        self.architectures.get(architecture)?.artifacts.get(platform)?.formats.get(format)
    }
}

/// Asks the server for the stream's metadata and finds the image for the disk in it.
pub(crate) fn resolve(http: &HttpConfig, query: &StreamQuery<'_>, cancel: &Cancel) -> Result<StreamImage, StreamError> {
    let url = metadata_url(query.base_url, query.stream)?;
    select(metadata(http, &url, query.retries, cancel)?, query)
}

/// Asks the server for the metadata at `url`.
pub(crate) fn metadata(
    http: &HttpConfig,
    url: &str,
    retries: Retries,
    cancel: &Cancel,
) -> Result<Metadata, StreamError> {
    let metadata = fetch(http, url, retries, cancel)?;
    serde_json::from_slice(&metadata).map_err(|source| StreamError::Json { url: public_url(url), source })
}

/// Where the metadata of a stream are, below a base URL.
pub(crate) fn metadata_url(base_url: &str, stream: &str) -> Result<String, StreamError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if stream.is_empty() || stream.starts_with('.') || !stream.bytes().all(plain) {
        return Err(StreamError::Name { stream: stream.into() });
    }
    let lower = base_url.to_ascii_lowercase();
    if !(lower.starts_with("http://") || lower.starts_with("https://")) {
        return Err(StreamError::BaseUrl { url: public_url(base_url) });
    }
    Ok(format!("{}/{stream}.json", base_url.trim_end_matches('/')))
}

fn fetch(http: &HttpConfig, url: &str, retries: Retries, cancel: &Cancel) -> Result<Vec<u8>, StreamError> {
    let agent = agent(http)?;
    let started = Instant::now();
    let mut failures = 0;
    loop {
        let (error, passes) = match ask(&agent, url) {
            Ok(bytes) => return Ok(bytes),
            Err(failure) => failure,
        };
        let again = match retries {
            Retries::Count(count) => failures < count,
            Retries::UntilStalled => started.elapsed() < PATIENCE,
            Retries::Forever => true,
        };
        if !passes || !again {
            return Err(error);
        }
        let wait = backoff(failures);
        failures = failures.saturating_add(1);
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        tracing::warn!("{error}{cause}; trying again in {:.1} s", wait.as_secs_f32());
        if cancel.sleep(wait) {
            return Err(StreamError::Cancelled);
        }
    }
}

/// One request; with a failure goes whether it may pass.
fn ask(agent: &ureq::Agent, url: &str) -> Result<Vec<u8>, (StreamError, bool)> {
    let public = || public_url(url);
    let request = agent.get(url).config().timeout_global(Some(ANSWER_TIME)).build();
    let mut response = request.call().map_err(|error| {
        // An address that stays wrong is not worth another try.
        let passes = !matches!(error, ureq::Error::BadUri(_) | ureq::Error::Tls(_) | ureq::Error::Rustls(_));
        (StreamError::Transport { url: public(), source: Box::new(error) }, passes)
    })?;
    let status = response.status();
    if status != StatusCode::OK {
        let passes = matches!(status.as_u16(), 408 | 429 | 500..=599);
        return Err((StreamError::Status { url: public(), status: status.as_u16() }, passes));
    }
    read_body(&mut response, METADATA_BYTES).map_err(|source| (StreamError::Body { url: public(), source }, true))
}

fn select(metadata: Metadata, query: &StreamQuery<'_>) -> Result<StreamImage, StreamError> {
    let stream = || query.stream.to_owned();
    let architecture = || query.architecture.to_owned();
    let Some(found) = metadata.architectures.get(query.architecture) else {
        let available = names(&metadata.architectures);
        return Err(StreamError::Architecture { stream: stream(), architecture: architecture(), available });
    };
    let Some(platform) = found.artifacts.get(PLATFORM) else {
        let available = names(&found.artifacts);
        return Err(StreamError::Platform { stream: stream(), architecture: architecture(), available });
    };
    let sector_bytes = query.sector_bytes;
    let format = if sector_bytes == 4096 { "4k.raw.xz" } else { "raw.xz" };
    if !matches!(sector_bytes, 512 | 4096) {
        tracing::warn!("no stream has images for disks with {sector_bytes}-byte sectors; taking {format}");
    }
    let Some(artifacts) = platform.formats.get(format) else {
        let available = names(&platform.formats);
        let (stream, architecture) = (stream(), architecture());
        return Err(StreamError::Format { stream, architecture, format, sector_bytes, available });
    };
    let mut all = artifacts.values();
    let (Some(artifact), None) = (all.next(), all.next()) else {
        return Err(StreamError::Artifacts { stream: stream(), format, artifacts: names(artifacts) });
    };
    let sha256 = artifact.sha256.as_deref().map(|found| {
        let bad = || StreamError::Sha256 { stream: stream(), found: found.to_owned() };
        diskwrite::parse_sha256(found).ok_or_else(bad)
    });
    let release = if platform.release.is_empty() { String::new() } else { format!(" {}", platform.release) };
    Ok(StreamImage {
        image_url: artifact.location.clone(),
        signature_url: artifact.signature.clone().filter(|url| !url.is_empty()),
        sha256: sha256.transpose()?,
        description: format!("stream {}{release} for {} ({PLATFORM}, {format})", query.stream, query.architecture),
    })
}

fn names<T>(map: &BTreeMap<String, T>) -> Vec<String> {
    map.keys().cloned().collect()
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
