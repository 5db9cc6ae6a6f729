//! Why a bootstrap host can't continue.

use crate::{kube::KubeError, programs::ProgramError};
use api::ClientError;
use ignition::{ParseError, TranslateError, apply::ApplyError, fetch::FetchError};
use std::{io, path::PathBuf};

/// Why a bootstrap host can't continue. None contains secrets.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The service did not give a file.
    #[error("cannot get {what} from the service")]
    Download { what: &'static str, source: ClientError },
    #[error("the service's reply for {what} ({len} bytes) is not an Ignition config")]
    NotIgnition { what: &'static str, len: usize, source: ParseError },
    #[error("{what} is not a valid Ignition config: {summary}")]
    Invalid { what: &'static str, summary: String },
    #[error("bootstrap.ign has no file {path}: images can't be pulled without it")]
    NoCredentials { path: &'static str },
    /// Credentials that can't be read.
    #[error("{path} in bootstrap.ign can't be read")]
    Credentials { path: &'static str, source: Box<FetchError> },
    /// A file of this host.
    #[error("{doing} {} failed", path.display())]
    File {
        /// What was being done, `writing`.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The config can't be carried out.
    #[error("cannot apply bootstrap.ign to this system (attempt {attempt} of {attempts})")]
    Apply { attempt: u32, attempts: u32, source: Box<ApplyError> },
    #[error("cannot make an SSH key: the system has no random numbers")]
    Key,
    /// One of the host's programs.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A unit that must run does not.
    #[error("{unit} has failed; see journalctl -u {unit}")]
    UnitFailed { unit: &'static str },
    /// No client for the cluster.
    #[error("{path} is missing although node-image-overlay.service has run: the bootstrap's scripts need it")]
    NoOc { path: &'static str },
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// No config for the single node.
    #[error("the bootstrap control plane has ended without making {}", path.display())]
    NoMasterIgnition {
        /// Where it should be.
        path: PathBuf,
        source: io::Error,
    },
    /// The single node's configs don't go together.
    #[error("{what} can't be used for this host")]
    Merge {
        /// Which of them, or both.
        what: &'static str,
        source: TranslateError,
    },
    #[error("cannot start the thread that watches hosts being configured")]
    Thread { source: io::Error },
    /// SIGINT or SIGTERM.
    #[error("cancelled by a signal while {0}")]
    Cancelled(&'static str),
}
