//! The database file, which is reopened after a failure: redb refuses all changes after a failed write, and a full disk may not
//! stay full.

use super::error::StoreError;
use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};
use std::sync::{PoisonError, RwLock};

type Open = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// The file, open or to be opened.
pub(crate) struct DatabaseFile {
    open: Open,
    database: RwLock<Option<Database>>,
}

impl DatabaseFile {
    /// Opens it with `open`, which also reopens it.
    pub(crate) fn open(open: Open) -> Result<Self, StoreError> {
        let database = RwLock::new(Some(open()?));
        Ok(Self { open, database })
    }

    pub(crate) fn begin_write(&self) -> Result<WriteTransaction, StoreError> {
        self.with(|database| Ok(database.begin_write()?))
    }

    pub(crate) fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        self.with(|database| Ok(database.begin_read()?))
    }

    /// Closes it; the next use reopens it.
    pub(crate) fn close(&self) {
        drop(self.database.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(database) = &*self.database.read().unwrap_or_else(PoisonError::into_inner) {
            return work(database);
        }
        let mut place = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = match place.take() {
            Some(database) => database,
            None => (self.open)()?,
        };
        work(place.insert(database))
    }
}
