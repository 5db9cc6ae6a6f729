//! What is wrong with a catalogue, and what is not in it.

use std::{io, path::PathBuf};
use thiserror::Error;

/// A catalogue that can't be used.
#[derive(Debug, Error)]
pub enum CatalogueError {
    /// The file can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is larger than any list of releases.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How much is read.
        limit: u64,
    },
    /// It is not the JSON that is expected.
    #[error("{} is not {expected}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// Where it isn't.
        #[source]
        source: serde_json::Error,
    },
    /// It has too many entries.
    #[error("{} has {count} entries, more than {limit}", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
        /// How many are taken.
        limit: usize,
    },
    /// One entry can't be used.
    #[error("{}, entry {index}: {why}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// Which, from 1.
        index: usize,
        /// What is wrong with it.
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
    Release {
        /// As asked for.
        version: String,
        /// As asked for.
        architecture: String,
    },
    /// No OS image has this architecture.
    #[error("The requested CPU architecture ({0}) isn't specified in OS images list")]
    OsArchitecture(String),
    /// No OS image is for this version.
    #[error(
        "The requested OS image for version ({version}) and CPU architecture ({architecture}) isn't specified in OS images list"
    )]
    OsImage {
        /// As asked for.
        version: String,
        /// As asked for.
        architecture: String,
    },
    /// No OS image at all.
    #[error("No OS images are available")]
    NoOsImages,
    /// A version without a minor release.
    #[error("invalid version")]
    Malformed,
    /// A host has one architecture.
    #[error("RHCOS CPU architecture should be single arch")]
    HostsOfSeveral,
    /// No release of that minor version runs on such a host.
    #[error(
        "The requested RHCOS version ({minor}, arch: {architecture}) does not have a matching OpenShift release image. {}",
        advice(architecture, others)
    )]
    HostRelease {
        /// The minor release.
        minor: String,
        /// As asked for.
        architecture: String,
        /// Versions with such a release, a comma list.
        others: String,
    },
}

fn advice(architecture: &str, others: &str) -> String {
    if others.is_empty() {
        return format!("There are no OCP versions available in release images for arch {architecture}.");
    }
    format!(
        "These are the OCP versions for which a matching release image has been found for arch {architecture} please review your release images or choose your OCP version to match one of these: {others}"
    )
}
