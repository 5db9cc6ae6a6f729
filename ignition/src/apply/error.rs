//! Why a config can't be applied.

use crate::fetch::FetchError;
use serde::Serialize;
use std::io;

/// Why a config can't be applied. What was done before stays done.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Not a directory that can be used.
    #[error("{} can't be opened as the root to apply to", path.display())]
    Root { path: std::path::PathBuf, source: io::Error },
    /// The config asks for more than files.
    #[error("not applied, because this is not supported here:\n{}", list(what))]
    Unsupported { what: Vec<Unsupported> },
    /// An entry's path can't be written to.
    #[error("{at}: {doing} {path} below the root failed")]
    Path {
        at: String,
        /// What was being done.
        doing: &'static str,
        /// Path below the root.
        path: String,
        source: io::Error,
    },
    /// Two entries are the same once links are followed.
    #[error("{at}: leads to {path} below the root, and so does {other}")]
    SamePlace {
        at: String,
        other: String,
        /// Path below the root.
        path: String,
    },
    /// Something else exists there, and may not be replaced.
    #[error("{at}: {path} below the root exists already, {found}; set overwrite to replace it")]
    Exists {
        at: String,
        /// Path below the root.
        path: String,
        found: &'static str,
    },
    /// A name that is missing in the root's own files.
    #[error("{at}: no {kind} named {name} in {file} below the root")]
    UnknownOwner {
        at: String,
        kind: &'static str,
        name: String,
        /// Where it was looked for.
        file: &'static str,
    },
    /// A number that is not valid for an owner or permission bits.
    #[error("{at}: {found} is not {what}")]
    Number {
        at: String,
        /// What it is meant to be.
        what: &'static str,
        found: i64,
    },
    #[error("{at}: could not get the contents of {path} below the root")]
    Fetch {
        at: String,
        /// Path below the root.
        path: String,
        source: Box<FetchError>,
    },
    /// A user or group can't be created as requested.
    #[error("{at}: {message}")]
    Account {
        at: String,
        /// What is wrong, and with what.
        message: String,
    },
}

/// Something the config asks for that is not done here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// Where in the config.
    pub at: String,
    /// What it would take.
    pub why: &'static str,
}

fn list(what: &[Unsupported]) -> String {
    let lines: Vec<_> = what.iter().map(|what| format!("  {}: {}", what.at, what.why)).collect();
    lines.join("\n")
}
