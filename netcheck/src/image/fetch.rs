//! Fetches one image from one place: its manifest, then every byte of it, verified and thrown away.

use super::{
    ImageOptions, Progress,
    client::Client,
    error::{FetchError, Subject},
    manifest::{self, Descriptor, Manifest},
    reference::{Digest, Version},
};
use api::BodyFault;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeSet,
    io::Read,
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use ureq::http::header;

/// As registries limit them.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// An index of an index exists in the wild; more does not.
const MAX_INDEXES: usize = 3;
/// Layers at a time, as podman does.
const CONNECTIONS: usize = 3;
const CHUNK_BYTES: usize = 64 << 10;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Walks from a tag or digest to the configuration and layers of the image for our architecture, each once.
pub(super) fn find_parts(
    client: &Client<'_>,
    version: &Version,
    options: &ImageOptions,
) -> Result<Vec<Descriptor>, FetchError> {
    find_image(client, version, options).map(|found| found.parts)
}

/// An image that a tag or digest leads to.
pub(super) struct Found {
    /// Of the index or manifest that has the tag or digest.
    pub named: Digest,
    /// Of the image's manifest.
    pub digest: Digest,
    pub parts: Vec<Descriptor>,
}

/// The same, with the digests on the way.
pub(super) fn find_image(client: &Client<'_>, version: &Version, options: &ImageOptions) -> Result<Found, FetchError> {
    let mut selector = version.selector().to_owned();
    let mut first = None;
    for _ in 0..=MAX_INDEXES {
        let (digest, manifest) = client.persist(|| read_manifest(client, &selector))?;
        let named = first.get_or_insert_with(|| digest.clone());
        match manifest {
            Manifest::Image(parts) => {
                let mut seen = BTreeSet::new();
                let parts = parts.into_iter().filter(|part| seen.insert(part.digest.clone())).collect();
                return Ok(Found { named: named.clone(), digest, parts });
            }
            Manifest::Index(variants) => match manifest::choose(&variants, &options.architecture) {
                Some(variant) => selector = variant.digest.to_string(),
                None => return Err(FetchError::Architecture { architecture: options.architecture.clone() }),
            },
        }
    }
    Err(FetchError::Nested { limit: MAX_INDEXES })
}

fn read_manifest(client: &Client<'_>, selector: &str) -> Result<(Digest, Manifest), FetchError> {
    let subject = || Subject::Manifest(selector.to_owned());
    let mut response = client.manifest(selector, manifest::ACCEPT)?;
    let body = api::read_body(&mut response, MAX_MANIFEST_BYTES).map_err(|error| match error.cause {
        BodyFault::TooLong { limit_bytes } => FetchError::TooLong { subject: subject(), limit_bytes },
        BodyFault::Broken(error) => client.broken(subject(), error),
    })?;
    let found = Digest::compute(&body);
    if selector.contains(':') && found.to_string() != selector {
        return Err(FetchError::Damaged { subject: subject(), found });
    }
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let manifest =
        manifest::parse(content_type, &body).map_err(|source| FetchError::Manifest { subject: subject(), source })?;
    Ok((found, manifest))
}

/// Fetches `parts`, a few at a time, and verifies them. Gives the bytes that they have.
pub(super) fn fetch_parts(
    client: &Client<'_>,
    name: &str,
    parts: &[&Descriptor],
    progress: &dyn Fn(&Progress<'_>),
) -> Result<u64, FetchError> {
    let start = Instant::now();
    let total_bytes = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.size_bytes));
    let (fetched_bytes, next, stop) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let (results, done) = mpsc::channel();
    let worker = |results: mpsc::Sender<Result<(), FetchError>>| {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = client.persist(|| fetch_part(client, part, &fetched_bytes, &stop));
            let failed = result.is_err();
            // After a failure the receiver is gone.
            let _ = results.send(result);
            if failed || stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS.min(parts.len()) {
            let results = results.clone();
            scope.spawn(move || worker(results));
        }
        drop(results);
        let report = || {
            let fetched_bytes = fetched_bytes.load(Ordering::Relaxed);
            progress(&Progress { name, fetched_bytes, total_bytes, elapsed: start.elapsed() });
        };
        loop {
            match done.recv_timeout(PROGRESS_INTERVAL) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                Err(RecvTimeoutError::Timeout) => report(),
                Err(RecvTimeoutError::Disconnected) => {
                    report();
                    return Ok(fetched_bytes.load(Ordering::Relaxed));
                }
            }
        }
    })
}

fn fetch_part(
    client: &Client<'_>,
    part: &Descriptor,
    fetched_bytes: &AtomicU64,
    stop: &AtomicBool,
) -> Result<(), FetchError> {
    let mut seen_bytes = 0;
    let result = read_part(client, part, stop, |bytes| {
        seen_bytes += bytes;
        fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
        seen_bytes
    });
    if result.is_err() {
        fetched_bytes.fetch_sub(seen_bytes, Ordering::Relaxed);
    }
    result
}

fn read_part(
    client: &Client<'_>,
    part: &Descriptor,
    stop: &AtomicBool,
    mut count: impl FnMut(u64) -> u64,
) -> Result<(), FetchError> {
    let subject = || Subject::Blob(part.digest.clone());
    let mut body = client.blob(&part.digest)?.into_body().into_reader();
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut found_bytes = 0;
    loop {
        let length = body.read(&mut chunk).map_err(|error| client.broken(subject(), error))?;
        if length == 0 {
            break;
        }
        found_bytes = count(u64::try_from(length).expect("a chunk's length fits"));
        hasher.update(&chunk[..length]);
        // Another part has failed: what is missing of this one does not matter.
        if found_bytes > part.size_bytes || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if found_bytes != part.size_bytes {
        return Err(FetchError::Size { subject: subject(), expected_bytes: part.size_bytes, found_bytes });
    }
    let found = Digest::finish(hasher);
    if found != part.digest {
        return Err(FetchError::Damaged { subject: subject(), found });
    }
    Ok(())
}
