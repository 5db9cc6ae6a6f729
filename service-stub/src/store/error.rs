//! Errors of the store.

use super::layout::FORMAT;
use super::room::NoRoom;
use super::seal::SealError;
use crate::http::Refusal;
use axum::http::StatusCode;
use redb::DatabaseError;
use std::{path::PathBuf, sync::Arc};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The state directory can't be created or synced.
    #[error("cannot use the state directory {}", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error(
        "{} is in use by another process: stop it, or choose another --state-dir",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error("{} has format version {found}, this program reads version {FORMAT}", path.display())]
    Format { path: PathBuf, found: u64 },
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: Box<DatabaseError> },
    /// Its records can't be sealed or opened.
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("the {kind} record {key} is damaged")]
    Record { kind: &'static str, key: String, source: serde_json::Error },
    /// It is empty, but other files show that it had records.
    #[error(
        "{} {state}, but other files of a service remain ({}): its records are lost. Restore a backup with `landfall serve restore`, or move \
         these files away to start anew", path.display(), beside.join(", ")
    )]
    Lost {
        path: PathBuf,
        state: &'static str,
        /// What else is in the state directory.
        beside: Vec<String>,
    },
    /// Not a store, or no record can be read.
    #[error(
        "{} has no readable record: {reason}. Restore a backup with `landfall serve restore`, or move the file away to \
         start anew", path.display()
    )]
    Unreadable {
        path: PathBuf,
        /// What it is, or why no record can be read.
        reason: String,
    },
    /// No process could be started to inspect the database.
    #[error("cannot start a process to inspect {}", path.display())]
    Process { path: PathBuf, source: std::io::Error },
    /// Rows are out of order or missing.
    #[error("the {0} table is damaged")]
    Order(&'static str),
    #[error(transparent)]
    Room(#[from] NoRoom),
    #[error("the database failed")]
    Database(#[source] Box<redb::Error>),
    /// The shared commit of several changes failed; none of them was made.
    #[error("cannot write the change")]
    Commit(#[source] Arc<StoreError>),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::Database(Box::new(error.into()))
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Room(full) => full.into(),
            error => Self::internal(&error),
        }
    }
}

impl From<NoRoom> for Refusal {
    fn from(full: NoRoom) -> Self {
        Self::Request(StatusCode::INSUFFICIENT_STORAGE, full.to_string())
    }
}
