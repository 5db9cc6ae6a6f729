//! Takes the agent's program out of an image, without a container engine: the one file, from the one layer that has it.

use super::{
    ImageOptions,
    client::Client,
    error::{FetchError, Subject},
    fetch,
    manifest::Descriptor,
    reference::{Digest, Name, ReferenceError},
    registries::ResolveError,
};
use api::image::{AGENT_LABEL, AGENT_PATH};
use flate2::read::GzDecoder;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A program larger than this is not ours.
const MAX_PROGRAM_BYTES: u64 = 256 << 20;
/// What all files of the layer before it may have.
const MAX_LAYER_BYTES: u64 = 1 << 30;
/// Configurations have a few KiB.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Not the name of an image.
    #[error("not a valid image name")]
    Name(#[from] ReferenceError),
    #[error("no registry for this name")]
    Resolve(#[from] ResolveError),
    /// From no place; this is the last.
    #[error("the image can't be fetched")]
    Fetch(#[from] FetchError),
    /// There is no place to fetch it from.
    #[error("no registry is configured for it")]
    Nowhere,
    /// Its configuration says nothing, or too much.
    #[error("the image's configuration can't be read")]
    Config { source: serde_json::Error },
    /// The label is there and the program is not.
    #[error("the image has the label {AGENT_LABEL} but no {AGENT_PATH}")]
    Absent,
    #[error("{AGENT_PATH} in the image is larger than {} MiB", MAX_PROGRAM_BYTES >> 20)]
    TooLong,
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A layer can't be unpacked.
    #[error("layer {digest} can't be unpacked")]
    Layer { digest: Digest, source: io::Error },
}

#[derive(Deserialize)]
struct Configuration {
    config: Option<Labels>,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(rename = "Labels")]
    labels: Option<HashMap<String, String>>,
}

/// Puts this project's agent in the image `name` at `to`, mode 0700, and gives its version; `None` where the image is not
/// labelled as one of ours. What is at `to` is replaced only by a program that was verified.
pub fn take(name: &str, options: &ImageOptions, timeout: Duration, to: &Path) -> Result<Option<String>, ProgramError> {
    let name: Name = name.parse()?;
    let deadline = Instant::now() + timeout;
    let mut last = ProgramError::Nowhere;
    for endpoint in options.registries.endpoints(&name)? {
        if endpoint.blocked {
            last = FetchError::Blocked.into();
            continue;
        }
        let client = Client::new(&endpoint, options, deadline)?;
        match fetch::find_parts(&client, &endpoint.reference.version, options) {
            Ok(parts) => return take_from(&client, &parts, to),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn take_from(client: &Client<'_>, parts: &[Descriptor], to: &Path) -> Result<Option<String>, ProgramError> {
    let Some((config, layers)) = parts.split_first() else { return Err(ProgramError::Absent) };
    let Some(version) = version(&read_config(client, config)?)? else { return Ok(None) };
    // A later layer hides what an earlier one has.
    for layer in layers.iter().rev() {
        let draft = Draft::new(to)?;
        if unpack(client, layer, &draft)? {
            draft.put(to)?;
            return Ok(Some(version));
        }
    }
    Err(ProgramError::Absent)
}

fn read_config(client: &Client<'_>, config: &Descriptor) -> Result<Vec<u8>, ProgramError> {
    let subject = || Subject::Blob(config.digest.clone());
    let mut bytes = Vec::new();
    let body = client.blob(&config.digest)?.into_body().into_reader();
    let read = body.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| client.broken(subject(), error))?;
    let found = Digest::compute(&bytes);
    if found != config.digest {
        return Err(FetchError::Damaged { subject: subject(), found }.into());
    }
    Ok(bytes)
}

fn version(config: &[u8]) -> Result<Option<String>, ProgramError> {
    let config: Configuration = serde_json::from_slice(config).map_err(|source| ProgramError::Config { source })?;
    Ok(config.config.and_then(|config| config.labels).and_then(|mut labels| labels.remove(AGENT_LABEL)))
}

/// Whether the layer has the program, which is in the draft then; all of the layer was read and verified.
fn unpack(client: &Client<'_>, layer: &Descriptor, draft: &Draft) -> Result<bool, ProgramError> {
    let subject = || Subject::Blob(layer.digest.clone());
    let body = client.blob(&layer.digest)?.into_body().into_reader();
    let mut hashed = Hashed { inner: body.take(layer.size_bytes.saturating_add(1)), hash: Sha256::new() };
    let found = find(&mut hashed, draft).map_err(|error| match error {
        FindError::TooLong => ProgramError::TooLong,
        FindError::Io(source) => ProgramError::Layer { digest: layer.digest.clone(), source },
        FindError::Write(source) => ProgramError::Write { path: draft.path.clone(), source },
    });
    // Its digest tells more than that it can't be unpacked.
    io::copy(&mut hashed, &mut io::sink()).map_err(|error| client.broken(subject(), error))?;
    let digest = Digest::finish(hashed.hash);
    if digest != layer.digest {
        return Err(FetchError::Damaged { subject: subject(), found: digest }.into());
    }
    found
}

#[derive(Debug)]
enum FindError {
    TooLong,
    Io(io::Error),
    Write(io::Error),
}

fn find(layer: &mut dyn Read, draft: &Draft) -> Result<bool, FindError> {
    let mut archive = tar::Archive::new(GzDecoder::new(layer).take(MAX_LAYER_BYTES));
    for entry in archive.entries().map_err(FindError::Io)? {
        let mut entry = entry.map_err(FindError::Io)?;
        let is_wanted = {
            let path = entry.path().map_err(FindError::Io)?;
            let path = path.strip_prefix("/").or_else(|_| path.strip_prefix("./")).unwrap_or(&path);
            path == Path::new(AGENT_PATH.trim_start_matches('/'))
        };
        if !is_wanted || !entry.header().entry_type().is_file() {
            continue;
        }
        if entry.size() > MAX_PROGRAM_BYTES {
            return Err(FindError::TooLong);
        }
        let size = entry.size();
        let copied = io::copy(&mut entry, &mut &draft.file).map_err(FindError::Write)?;
        return if copied == size { Ok(true) } else { Err(FindError::Io(io::ErrorKind::UnexpectedEof.into())) };
    }
    Ok(false)
}

struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// A temporary file, removed unless it is moved into place.
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    fn new(to: &Path) -> Result<Self, ProgramError> {
        let path = to.with_extension("draft");
        let failed = |source| ProgramError::Write { path: path.clone(), source };
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path).map_err(failed)?;
        Ok(Self { path, file })
    }

    fn put(self, to: &Path) -> Result<(), ProgramError> {
        fs::rename(&self.path, to).map_err(|source| ProgramError::Write { path: to.to_owned(), source })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone already where it was put in its place.
        let _ = fs::remove_file(&self.path);
    }
}
