//! Why there is no program for a release.

use super::{elf::ElfError, layer::LayerError, placeholders::PlaceholderError, references::ReferencesError};
use netcheck::image::{
    FetchError, Phase,
    auth::AuthFault,
    file::FileError,
    reference::{Digest, ReferenceError},
};
use std::{io, path::PathBuf, sync::Arc};

/// Why a release has no program.
#[derive(Debug, thiserror::Error)]
pub enum InstallerError {
    #[error("the wait for openshift-install was cancelled")]
    Cancelled,
    #[error("failed to get installer path for release {image}")]
    Release {
        image: String,
        /// Several requests may have waited for the same extraction.
        source: Arc<ExtractError>,
    },
}

/// Why a program can't be taken out of a release image.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    #[error("it was cancelled")]
    Cancelled,
    /// A file that the operator named.
    #[error("{} is not a program that can be run", path.display())]
    Given { path: PathBuf },
    #[error("the cluster's pull secret is invalid")]
    PullSecret(#[from] AuthFault),
    #[error("'{image}' is not an image name")]
    Name { image: String, source: ReferenceError },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the release image is not usable")]
    References(#[from] ReferencesError),
    #[error("the release image names no image '{tag}', which has the program")]
    NoComponent { tag: &'static str },
    /// A tag could lead to anything.
    #[error("the release image names '{tag}' without a digest: {image}")]
    Unpinned { tag: &'static str, image: String },
    #[error(
        "the release is for {release}, and its {program} does not run on this {own} machine: name one with --openshift-install, \
         or list the release image for {own} too"
    )]
    Foreign { release: String, own: String, program: &'static str },
    #[error("the image '{tag}' has {layers} layers, more than {limit}")]
    Layers { tag: &'static str, layers: usize, limit: usize },
    #[error("layer {digest} has {size_bytes} bytes, more than {limit_bytes}")]
    LayerSize { digest: Digest, size_bytes: u64, limit_bytes: u64 },
    #[error("layer {digest} can't be used")]
    Layer { digest: Digest, source: LayerError },
    #[error("the image '{tag}' has no file {path}")]
    Absent { tag: &'static str, path: String },
    #[error("{path} leads to more than {limit} links in turn")]
    Links { path: String, limit: usize },
    #[error(transparent)]
    Placeholder(#[from] PlaceholderError),
    #[error("the program in the image can't be used")]
    Elf(#[from] ElfError),
    #[error("no space in {}: {needed_bytes} bytes are needed, {free_bytes} are free", directory.display())]
    NoSpace { directory: PathBuf, needed_bytes: u64, free_bytes: u64 },
    #[error("cannot store {}", path.display())]
    Store { path: PathBuf, source: io::Error },
    #[error("cannot run {}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("command '{command}' was ended after {limit_s} s")]
    Slow { command: String, limit_s: u64 },
    #[error("command '{command}' exited with non-zero exit code {code}: {stdout}\n{stderr}")]
    Command { command: String, code: i32, stdout: String, stderr: String },
}

impl ExtractError {
    /// Whether the same extraction may succeed for another request, which has other credentials or time.
    pub(super) fn is_personal(&self) -> bool {
        match self {
            Self::Cancelled | Self::PullSecret(_) | Self::Command { .. } => true,
            Self::File(error) | Self::References(ReferencesError::File(error)) => {
                matches!(error, FileError::Fetch { source, .. } if source.phase() == Phase::Auth)
            }
            _ => false,
        }
    }

    /// Whether another try may do better.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::File(error) | Self::References(ReferencesError::File(error)) => {
                matches!(error, FileError::Fetch { source, .. } if fetch_may_pass(source))
            }
            // Its reasons are known to the command alone.
            Self::Command { .. } => true,
            _ => false,
        }
    }
}

fn fetch_may_pass(error: &FetchError) -> bool {
    match error {
        // A connection that ended early.
        FetchError::Size { expected_bytes, found_bytes, .. } => found_bytes < expected_bytes,
        FetchError::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
        FetchError::Name { .. }
        | FetchError::Connect { .. }
        | FetchError::Tls { .. }
        | FetchError::Stalled { .. }
        | FetchError::Transport { .. } => true,
        _ => false,
    }
}
