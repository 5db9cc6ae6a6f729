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
    /// The state directory can't be made or synced.
    #[error("cannot use the state directory {}", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error(
        "{} is in use by another process: one state directory serves one service; stop the other or choose another --state-dir",
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
    /// It is empty, but other files show that it was not.
    #[error(
        "{} {state} beside {}: a service was here whose records are gone. Bring them back with `landfall serve restore`, or move \
         these files away to start anew", path.display(), beside.join(", ")
    )]
    Lost {
        path: PathBuf,
        state: &'static str,
        /// What else is in the state directory.
        beside: Vec<String>,
    },
    /// Not a store, or not a single record can be read.
    #[error(
        "{} holds no record that can be read: {reason}. Bring them back with `landfall serve restore`, or move the file away to \
         start anew", path.display()
    )]
    Unreadable {
        path: PathBuf,
        /// What it is, or why not.
        reason: String,
    },
    /// There is no process in which to try the database.
    #[error("cannot start a process that looks at {}", path.display())]
    Process { path: PathBuf, source: std::io::Error },
    /// Rows are not in order, or not as many as there should be.
    #[error("the {0} table is damaged")]
    Order(&'static str),
    #[error(transparent)]
    Room(#[from] NoRoom),
    #[error("the database failed")]
    Database(#[source] Box<redb::Error>),
    /// The commit that several changes shared failed; none of them was made.
    #[error("the change could not be written")]
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
