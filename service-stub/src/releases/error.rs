//! What is wrong with a catalogue, and what is not in it.

use std::{io, path::PathBuf};
use thiserror::Error;

/// A catalogue that can't be used.
#[derive(Debug, Error)]
pub enum CatalogueError {
    /// The file can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is larger than any list of releases.
    #[error("{} has more than {}", path.display(), kernel::units::binary(*limit))]
    TooLarge {
        path: PathBuf,
        /// How much is read.
        limit: u64,
    },
    /// It is not the JSON that is expected.
    #[error("{} is not {expected}", path.display())]
    Json {
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// Where it isn't.
        #[source]
        source: serde_json::Error,
    },
    #[error("{} has {count} entries, more than {limit}", path.display())]
    TooMany {
        path: PathBuf,
        count: usize,
        /// How many are taken.
        limit: usize,
    },
    /// One entry can't be used.
    #[error("{}, entry {index}: {why}", path.display())]
    Entry {
        path: PathBuf,
        /// Which, from 1.
        index: usize,
        why: String,
    },
}

/// What was asked for and is not listed, in the words clients know.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotListed {
    /// Neither a minor release nor a full version.
    #[error(
        "invalid openshiftVersion '{0}'. Expected format: 'major.minor' or 'major.minor.patch', optionally followed by a prerelease identifier"
    )]
    Version(String),
    /// No release has this version for this architecture.
    #[error("no release image found for openshiftVersion: '{version}' and CPU architecture '{architecture}'")]
    Release { version: String, architecture: String },
    #[error("version '{0}' is ignored")]
    Ignored(String),
    /// All releases of a minor version are ignored.
    #[error("no matching release image found")]
    NoneMatching,
    #[error("failed to get release image by URL {url} during cluster registration: version '{version}' is ignored")]
    ImageIgnored { url: String, version: String },
    /// No release has this image.
    #[error(
        "failed to get release image by URL {0} during cluster registration: error occurred while trying to retrieve release image with url '{0}' from the db: record not found"
    )]
    Image(String),
    /// The release with this image is for one architecture.
    #[error("release image URL {0} does not support requested CPU architecture multi")]
    ImageOfOne(String),
    /// The release with this image is for others.
    #[error(
        "Requested CPU architecture {architecture} is not supported for release image URL {url}. Supported architectures in release image: [{others}]"
    )]
    ImageArchitecture {
        url: String,
        architecture: String,
        /// Its own, with blanks between them.
        others: String,
    },
    /// No OS image has this architecture.
    #[error("The requested CPU architecture ({0}) isn't specified in OS images list")]
    OsArchitecture(String),
    /// No OS image is for this version.
    #[error(
        "The requested OS image for version ({version}){} isn't specified in OS images list",
        of_stream(architecture, stream)
    )]
    OsImage { version: String, architecture: String, stream: String },
    /// No OS image at all.
    #[error("No OS images are available")]
    NoOsImages,
    /// A version without a minor release.
    #[error("invalid version")]
    Malformed,
    #[error("RHCOS CPU architecture should be single arch")]
    HostsOfSeveral,
    /// No release of that minor version runs on such a host.
    #[error(
        "The requested RHCOS version ({minor}, arch: {architecture}) does not have a matching OpenShift release image. {}",
        advice(architecture, others)
    )]
    HostRelease {
        minor: String,
        architecture: String,
        /// Versions with such a release, a comma list.
        others: String,
    },
}

fn of_stream(architecture: &str, stream: &str) -> String {
    match stream {
        "" => format!(" and CPU architecture ({architecture})"),
        stream => format!(", CPU architecture ({architecture}) and OS stream ({stream})"),
    }
}

fn advice(architecture: &str, others: &str) -> String {
    if others.is_empty() {
        return format!("There are no OCP versions available in release images for arch {architecture}.");
    }
    format!(
        "These are the OCP versions for which a matching release image has been found for arch {architecture} please review your release images or choose your OCP version to match one of these: {others}"
    )
}
