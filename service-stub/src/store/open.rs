//! Opening a store: when it may start empty, and how a damaged one is salvaged.

use super::Store;
use super::error::StoreError;
use super::file::DatabaseFile;
use super::layout::{CACHE_BYTES, FILE, FORMAT, META};
use super::salvage::{self, Damage};
use super::seal::{self, Seal};
use crate::auth::keys;
use crate::cluster_files::prepared;
use crate::text::chain;
use kernel::attempt::{Attempt, attempt};
use redb::{Database, DatabaseError, ReadableDatabase, TableHandle};
use serde::{Deserialize, Serialize};
use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
    time::Duration,
};

/// Files that exist only beside a store with records.
const BESIDE: [&str; 7] =
    [seal::FILE, "tls-ca.pem", "tls-ca-key.pem", "tls-key.pem", "logs", "manifests", prepared::DIRECTORY];

/// For the largest stores on the slowest disks.
pub(super) const PATIENCE: Duration = Duration::from_secs(3600);
/// What the inspecting process writes once it has opened the database.
const OPENED: &[u8] = b"opened\n";

/// The condition of a store's file.
pub(super) enum Health {
    /// Every page is as it was written.
    Good,
    /// It is still empty.
    New,
    /// It is damaged; whether it can be opened at all.
    Damaged(bool, String),
}

/// The result of an inspection, as the inspecting process reports it.
#[derive(Serialize, Deserialize)]
enum Look {
    /// Another process has it.
    Locked,
    /// Its pages are as they were written, or not; its tables.
    Opened(bool, Vec<String>),
    /// Why not.
    Failed(String),
}

impl Store {
    /// Opens the store in `directory`, creating it if missing (mode 0700: it holds pull secrets).
    ///
    /// Records are encrypted with a key beside it, created if missing.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_sealed(directory, None)
    }

    /// The same with the key in another file, which can be outside of copies of the directory.
    ///
    /// A damaged store is renamed and replaced by what can be read of it.
    pub(crate) fn open_sealed(directory: &Path, key: Option<&Path>) -> Result<Self, StoreError> {
        let at = |source| StoreError::Directory { path: directory.into(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at)?;
        let path = directory.join(FILE);
        refuse_lost(directory, &path)?;
        let health = inspect(&path)?;
        if matches!(health, Health::New) {
            refuse_beside(directory, &path, "is empty", &BESIDE)?;
            begin(&path)?;
        }
        let seal = key.map_or_else(|| Seal::load_or_create(directory), Seal::read)?;
        let mut damage = Vec::new();
        if let Health::Damaged(is_open, reason) = health {
            damage = rescue(&path, is_open, reason, &seal)?;
        }
        let name = path.clone();
        let database = DatabaseFile::open(Box::new(move || open_file(&name)))?;
        // The file's name must survive a crash as well as its content.
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(at)?;
        let mut store = Self::over(database, directory, seal)?;
        store.damage.splice(..0, damage);
        Ok(store)
    }
}

/// Whether a service runs with the store in this directory.
pub(crate) fn is_in_use(directory: &Path) -> bool {
    let file = File::open(directory.join(FILE));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn create(path: &Path) -> Result<File, StoreError> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    file.map_err(|source| StoreError::Directory { path: path.into(), source })
}

pub(super) fn open_file(path: &Path) -> Result<Database, StoreError> {
    let file = create(path)?;
    Database::builder().set_cache_size(CACHE_BYTES).create_file(file).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::Locked { path: path.into() },
        error => StoreError::Open { path: path.into(), source: Box::new(error) },
    })
}

/// A missing or empty store is a new service's, unless files exist that only a service with records creates. A key that signs
/// tokens may exist first.
fn refuse_lost(directory: &Path, path: &Path) -> Result<(), StoreError> {
    match path.metadata() {
        Ok(found) if found.len() > 0 => Ok(()),
        Ok(_) => {
            refuse_beside(directory, path, "is empty", &BESIDE)?;
            refuse_beside(directory, path, "is empty", &[keys::FILE])
        }
        Err(_) => refuse_beside(directory, path, "is missing", &BESIDE),
    }
}

fn refuse_beside(directory: &Path, path: &Path, state: &'static str, names: &[&str]) -> Result<(), StoreError> {
    let there = names.iter().filter(|name| directory.join(name).exists());
    let beside: Vec<String> = there.map(|name| (*name).to_owned()).collect();
    if beside.is_empty() { Ok(()) } else { Err(StoreError::Lost { path: path.into(), state, beside }) }
}

/// Inspects every page. A store in use gives an error.
///
/// The library panics at some damage, so another process inspects it: what that finds good will not end this one.
pub(super) fn inspect(path: &Path) -> Result<Health, StoreError> {
    create(path)?;
    let looked = attempt(PATIENCE, |out| {
        let look = match open_file(path) {
            Err(StoreError::Locked { .. }) => Look::Locked,
            Err(error) => Look::Failed(chain(&error)),
            Ok(database) => {
                out.write_all(OPENED)?;
                look(database).unwrap_or_else(|error| Look::Failed(chain(&error)))
            }
        };
        out.write_all(&serde_json::to_vec(&look)?)
    });
    let Attempt { output, failure } = looked.map_err(|source| StoreError::Process { path: path.into(), source })?;
    let (is_open, output) = match output.strip_prefix(OPENED) {
        Some(rest) => (true, rest),
        None => (false, &output[..]),
    };
    let failed = |error: serde_json::Error| Look::Failed(failure.unwrap_or_else(|| error.to_string()));
    Ok(match serde_json::from_slice(output).unwrap_or_else(failed) {
        Look::Locked => return Err(StoreError::Locked { path: path.into() }),
        Look::Failed(reason) => Health::Damaged(is_open, reason),
        Look::Opened(false, _) => Health::Damaged(true, "page checksums are wrong".to_owned()),
        Look::Opened(true, tables) if tables.iter().any(|table| table == META.name()) => Health::Good,
        Look::Opened(true, tables) if tables.is_empty() => Health::New,
        Look::Opened(true, tables) => {
            let reason = format!("it is another program's database, with the tables {}", tables.join(", "));
            return Err(StoreError::Unreadable { path: path.into(), reason });
        }
    })
}

fn look(mut database: Database) -> Result<Look, StoreError> {
    let is_good = database.check_integrity()?;
    let transaction = database.begin_read()?;
    let tables = transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
    Ok(Look::Opened(is_good, tables))
}

/// Marks it as a store before its key exists: an empty store beside a key then means lost records.
fn begin(path: &Path) -> Result<(), StoreError> {
    let database = open_file(path)?;
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("format", FORMAT)?;
    transaction.commit()?;
    Ok(())
}

/// Replaces a damaged store by one of all that can be read.
fn rescue(path: &Path, is_open: bool, reason: String, seal: &Seal) -> Result<Vec<Damage>, StoreError> {
    let found = salvage::salvage(path, is_open, seal)?;
    if found.rows.is_empty() {
        return Err(StoreError::Unreadable { path: path.into(), reason });
    }
    let records = found.rows.len();
    let old = salvage::replace(path, found.rows, "damaged")?;
    let mut damage = vec![Damage {
        kind: "file",
        key: path.display().to_string(),
        reason: format!("{reason}; {records} records were recovered, and the damaged file is now {}", old.display()),
    }];
    damage.extend(found.damage);
    for damage in &damage {
        tracing::error!(kind = damage.kind, key = damage.key, reason = damage.reason, "the store was damaged");
    }
    Ok(damage)
}
