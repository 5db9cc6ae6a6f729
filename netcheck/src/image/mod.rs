//! Whether the images that an installation needs can be had, and how fast: `container-image-availability`
//! (docs/compatibility.md#container-image-availability).
//!
//! Two ways. *Natively* each image is fetched from the place that podman would choose (registries.conf), with the
//! credentials that podman would use, all of it, verified, and nothing is stored: neither podman nor space is needed. With a
//! [`Store`] the image is pulled into it, so that the installation finds it there.

pub mod auth;
pub mod challenge;
mod client;
mod error;
mod fetch;
pub mod file;
pub mod manifest;
mod process;
pub mod program;
pub mod reference;
pub mod registries;
mod store;
pub(crate) mod table;

pub use error::{FetchError, Phase, Subject};
pub use store::{Podman, Store, StoreError};

use crate::privileges::{self, PrivilegeError};
use api::{
    ContainerImageAvailability, ContainerImageAvailabilityRequest, ContainerImageAvailabilityResponse,
    ContainerImageAvailabilityResult,
};
use auth::Credentials;
use client::Client;
use reference::{Digest, Name, ReferenceError};
use registries::{Endpoint, Registries, ResolveError};
use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

/// What the service asks for where it does not say.
const DEFAULT_TIMEOUT_S: u64 = 960;
/// A fetch shorter than this measures the registry's latency, not the speed of the network: the service refuses hosts whose
/// rate is low.
const MEASURABLE_BYTES: u64 = 100_000;
/// Queries of the store take milliseconds, unless another podman holds the storage's lock.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Such queries may take this long after the deadline: so all that is in the store counts, and what was pulled just in
/// time. Together with the end of a program that hangs it is well below the minute of grace that the agent gives us.
const QUESTION_GRACE: Duration = Duration::from_secs(20);
/// Longer than any user waits.
const MAX_TIMEOUT_S: u64 = 7 * 24 * 3600;

/// Options of the native check.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// Who we are to registries.
    pub credentials: Credentials,
    pub registries: Registries,
    /// PEM bundles trusted for every registry, in addition to the system's roots.
    pub ca_certs: Vec<PathBuf>,
    /// Directories as in containers-certs.d(5); of the first that has one for a registry, `*.crt` are trusted for that.
    pub certs_directories: Vec<PathBuf>,
    /// Which of an index's images, in Go's words.
    pub architecture: String,
    /// For name, TCP and TLS.
    pub connect_timeout: Duration,
    /// A registry that sends nothing for this long is given up.
    pub stall_timeout: Duration,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            credentials: Credentials::default(),
            registries: Registries::default(),
            ca_certs: Vec::new(),
            certs_directories: ["/etc/containers/certs.d", "/etc/docker/certs.d"].map(PathBuf::from).into(),
            architecture: manifest::own_architecture().to_owned(),
            connect_timeout: client::CONNECT_TIMEOUT,
            stall_timeout: client::STALL_TIMEOUT,
        }
    }
}

/// Progress of an image; reported at most five times a second, and at its end.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    pub name: &'a str,
    /// Bytes that have come.
    pub fetched_bytes: u64,
    /// Bytes that are to come, those that have included.
    pub total_bytes: u64,
    /// Since the first.
    pub elapsed: Duration,
}

/// What was found, in the order of the request.
#[derive(Debug)]
pub struct Findings {
    pub images: Vec<Finding>,
}

/// What was found of one image.
#[derive(Debug)]
pub struct Finding {
    pub name: String,
    /// Whether and how it can be had.
    pub outcome: Result<Availability, ImageError>,
}

/// How an image can be had.
#[derive(Debug)]
pub enum Availability {
    /// It was in the store.
    Present,
    /// From here, and now it has been verified.
    Fetched {
        endpoint: Endpoint,
        /// What came over the wire for this image: layers and configuration as they are stored, usually compressed. 0 when
        /// images before it in the request have the same.
        size_bytes: u64,
        /// For all of it, manifests and tokens included.
        time: Duration,
        /// Where it was not available.
        attempts: Vec<Attempt>,
    },
    /// It is in the store now.
    Stored {
        /// Its size there, uncompressed.
        size_bytes: u64,
        /// For the pull.
        time: Duration,
    },
}

/// A place where an image was not available.
#[derive(Debug)]
pub struct Attempt {
    pub endpoint: Endpoint,
    pub error: FetchError,
}

/// Why an image is not available.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not the name of one.
    #[error("not a valid image name")]
    Name(#[from] ReferenceError),
    #[error("no registry for this name")]
    Resolve(#[from] ResolveError),
    /// Images before it have taken it.
    #[error("no time was left of the {limit_s} s for all images: ask for fewer, or allow more")]
    NoTime { limit_s: u64 },
    #[error("podman could not pull it")]
    Store(#[from] StoreError),
    /// Nowhere; each place with its reason.
    #[error("none of {} places provides it", .0.len())]
    Nowhere(Vec<Attempt>),
}

/// Why the check did not take place.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// See [`PrivilegeError`].
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
}

/// Looks for each image in turn. All share one deadline: `timeout` of the request from now, 960 s where it says nothing.
///
/// Without `store` this thread gives up all its capabilities for good before it sends anything; podman needs them. A part
/// (layer) that several images of the request have is fetched once, as podman does.
///
/// A mirror counts as having an image when it has the manifest: then the parts must come from it too, since podman
/// looks no further either.
pub fn check(
    request: &ContainerImageAvailabilityRequest,
    options: &ImageOptions,
    store: Option<&dyn Store>,
    progress: &dyn Fn(&Progress<'_>),
) -> Result<Findings, CheckError> {
    let limit_s = match request.timeout {
        None => DEFAULT_TIMEOUT_S,
        Some(seconds) => u64::try_from(seconds).unwrap_or(0).min(MAX_TIMEOUT_S),
    };
    if store.is_none() {
        privileges::drop_all()?;
    }
    let mut run =
        Run { options, limit_s, deadline: Instant::now() + Duration::from_secs(limit_s), seen: BTreeSet::new() };
    let find = |name: &String| {
        let outcome = match store {
            Some(store) => run.pull(name, store),
            None => run.fetch(name, progress),
        };
        Finding { name: name.clone(), outcome }
    };
    Ok(Findings { images: request.images.iter().map(find).collect() })
}

struct Run<'a> {
    options: &'a ImageOptions,
    limit_s: u64,
    deadline: Instant,
    /// Parts that were fetched.
    seen: BTreeSet<Digest>,
}

impl Run<'_> {
    /// What is left of the time, if it is anything.
    fn remaining(&self) -> Result<Duration, ImageError> {
        self.until(self.deadline)
    }

    /// For a question about what is stored.
    fn question_timeout(&self) -> Result<Duration, ImageError> {
        Ok(self.until(self.deadline + QUESTION_GRACE)?.min(QUESTION_TIMEOUT))
    }

    fn until(&self, deadline: Instant) -> Result<Duration, ImageError> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(ImageError::NoTime { limit_s: self.limit_s }) } else { Ok(remaining) }
    }

    fn pull(&self, name: &str, store: &dyn Store) -> Result<Availability, ImageError> {
        // podman reads names by itself; this one keeps flags and other surprises from it.
        name.parse::<Name>()?;
        if store.holds(name, self.question_timeout()?)? {
            return Ok(Availability::Present);
        }
        let start = Instant::now();
        store.pull(name, self.remaining()?)?;
        let time = start.elapsed();
        Ok(Availability::Stored { size_bytes: store.size_bytes(name, self.question_timeout()?)?, time })
    }

    fn fetch(&mut self, name: &str, progress: &dyn Fn(&Progress<'_>)) -> Result<Availability, ImageError> {
        let endpoints = self.options.registries.endpoints(&name.parse()?)?;
        self.remaining()?;
        let start = Instant::now();
        let mut attempts = Vec::new();
        for endpoint in endpoints {
            let result = self.fetch_from(&endpoint, name, progress);
            match result {
                Ok(size_bytes) => {
                    return Ok(Availability::Fetched { endpoint, size_bytes, time: start.elapsed(), attempts });
                }
                Err(error) => {
                    let has_the_image = error.phase() == Phase::Layer;
                    attempts.push(Attempt { endpoint, error });
                    if has_the_image {
                        break;
                    }
                }
            }
        }
        Err(ImageError::Nowhere(attempts))
    }

    fn fetch_from(
        &mut self,
        endpoint: &Endpoint,
        name: &str,
        progress: &dyn Fn(&Progress<'_>),
    ) -> Result<u64, FetchError> {
        if endpoint.blocked {
            return Err(FetchError::Blocked);
        }
        let client = Client::new(endpoint, self.options, self.deadline)?;
        let parts = fetch::find_parts(&client, &endpoint.reference.version, self.options)?;
        let new: Vec<_> = parts.iter().filter(|part| !self.seen.contains(&part.digest)).collect();
        let fetched_bytes = fetch::fetch_parts(&client, name, &new, progress)?;
        self.seen.extend(parts.into_iter().map(|part| part.digest));
        Ok(fetched_bytes)
    }
}

impl Findings {
    /// The step's reply. Numbers are there where enough was fetched to tell a rate: `size_bytes` in `time` seconds at `download_rate`
    /// millions of bytes a second, all three of what came over the wire, or in podman's case of the image as stored.
    pub fn report(&self) -> ContainerImageAvailabilityResponse {
        let entry = |finding: &Finding| {
            let (size_bytes, time) = match &finding.outcome {
                Ok(Availability::Fetched { size_bytes, time, .. } | Availability::Stored { size_bytes, time })
                    if *size_bytes >= MEASURABLE_BYTES =>
                {
                    (*size_bytes, time.as_secs_f64())
                }
                _ => (0, 0.0),
            };
            ContainerImageAvailability {
                download_rate: rate(size_bytes, time),
                name: finding.name.clone(),
                result: match finding.outcome {
                    Ok(_) => ContainerImageAvailabilityResult::Success,
                    Err(_) => ContainerImageAvailabilityResult::Failure,
                },
                size_bytes,
                time,
            }
        };
        ContainerImageAvailabilityResponse { images: self.images.iter().map(entry).collect() }
    }

    /// Whether all images can be had.
    pub fn all_available(&self) -> bool {
        self.images.iter().all(|finding| finding.outcome.is_ok())
    }
}

/// Millions of bytes a second.
pub(crate) fn rate(bytes: u64, seconds: f64) -> f64 {
    // Exact up to 2^53 bytes.
    #[allow(clippy::cast_precision_loss)]
    let megabytes = bytes as f64 / 1e6;
    if seconds > 0.0 { megabytes / seconds } else { 0.0 }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
