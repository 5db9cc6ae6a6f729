//! The directory with a program for each release. It is emptied at every start.

use super::{
    error::ExtractError,
    patience::{LOOK_EVERY, pause},
    sizes::Capacity,
};
use kernel::clock::Clock;
use netcheck::image::reference::Digest;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};
use tempfile::NamedTempFile;
use uuid::Uuid;

/// While the cache is full.
const RETRY: Duration = Duration::from_secs(30);
/// A program that is not complete yet.
const PARTIAL: &str = ".partial-";
/// A caller's own name of a program.
const LINK: &str = "ln_";

type Running = BTreeMap<PathBuf, Arc<Extraction>>;
type Shared<T> = Result<T, Arc<ExtractError>>;

/// Programs by release image.
#[derive(Debug)]
pub struct InstallerCache {
    directory: PathBuf,
    limit: Option<Capacity>,
    clock: Clock,
    /// By the file that they make. Held while files are linked or removed, never during an extraction.
    running: Mutex<Running>,
    ended: Condvar,
    evictions: Mutex<Evictions>,
}

/// How often the space for a release was not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evictions {
    /// At least one other program was removed.
    pub removed: u64,
    /// All were in use.
    pub in_vain: u64,
}

/// One that several requests may wait for.
#[derive(Debug, Default)]
struct Extraction {
    outcome: OnceLock<Shared<()>>,
}

/// A program that stays as long as this does.
#[derive(Debug)]
pub struct InstallerGuard {
    path: PathBuf,
    is_link: bool,
    /// The time of its extraction; None if it was there.
    extraction: Option<Duration>,
}

enum Claim<'a> {
    Hit(InstallerGuard),
    Running(Arc<Extraction>),
    Full,
    Ours(Lead<'a>),
}

impl InstallerCache {
    /// Empties `directory`, which is created if missing.
    pub(super) fn open(directory: &Path, limit: Option<Capacity>, clock: Clock) -> io::Result<Self> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => DirBuilder::new().recursive(true).mode(0o700).create(directory)?,
        }
        let (running, ended, evictions) = (Mutex::default(), Condvar::new(), Mutex::default());
        Ok(Self { directory: directory.to_owned(), limit, clock, running, ended, evictions })
    }

    /// The program of a release, from the directory or from `extract`, which makes the file that it is given. Of several requests for the
    /// same release one extracts, the others wait for it; other releases do not wait.
    pub(super) fn get(
        &self,
        image: &str,
        program: &str,
        extract: &dyn Fn(&Path) -> Result<(), ExtractError>,
        stop: &dyn Fn() -> bool,
    ) -> Shared<InstallerGuard> {
        let target = self.directory.join(directory_name(image)).join(program);
        while !stop() {
            match self.claim(&target)? {
                Claim::Hit(guard) => return Ok(guard),
                Claim::Ours(lead) => return lead.run(extract),
                Claim::Running(extraction) => self.wait(&extraction, stop)?,
                Claim::Full => {
                    tracing::warn!(image, retry = ?RETRY, "the cache of openshift-install is full of programs in use; waiting");
                    pause(&self.clock, RETRY, stop)?;
                }
            }
        }
        Err(ExtractError::Cancelled.into())
    }

    pub(super) fn evictions(&self) -> Evictions {
        *self.evictions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim(&self, target: &Path) -> Shared<Claim<'_>> {
        let mut running = self.lock();
        if let Some(extraction) = running.get(target) {
            return Ok(Claim::Running(extraction.clone()));
        }
        if fs::symlink_metadata(target).is_ok_and(|found| found.is_file()) {
            return Ok(Claim::Hit(link(target, None)?));
        }
        if let Some(limit) = self.limit
            && !self.make_room(limit, running.len()).map_err(|source| store_error(&self.directory, source))?
        {
            return Ok(Claim::Full);
        }
        let extraction = Arc::<Extraction>::default();
        running.insert(target.to_owned(), extraction.clone());
        Ok(Claim::Ours(Lead { cache: self, target: target.to_owned(), extraction }))
    }

    /// Waits for another request's extraction. Its failure is ours too, unless the other's credentials may be the reason.
    fn wait(&self, extraction: &Extraction, stop: &dyn Fn() -> bool) -> Shared<()> {
        let mut running = self.lock();
        loop {
            match extraction.outcome.get() {
                Some(Err(error)) if !error.is_personal() => return Err(error.clone()),
                Some(_) => return Ok(()),
                None if stop() => return Err(ExtractError::Cancelled.into()),
                None => {
                    let waited = self.ended.wait_timeout(running, LOOK_EVERY);
                    running = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Removes programs that are not in use, the longest unused first, until a release fits beside those that are being extracted. False
    /// if it does not fit.
    fn make_room(&self, limit: Capacity, extractions: usize) -> io::Result<bool> {
        let mut programs = Vec::new();
        let mut seen = BTreeSet::new();
        let reserved =
            u64::try_from(extractions).unwrap_or(u64::MAX).saturating_add(1).saturating_mul(limit.release_bytes);
        let mut needed = reserved;
        for directory in fs::read_dir(&self.directory)? {
            let directory = directory?.path();
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                // A caller's link may be gone meanwhile.
                let Ok(found) = entry.metadata() else { continue };
                // Space for a partial one is reserved.
                if !found.is_file() || name.as_encoded_bytes().starts_with(PARTIAL.as_bytes()) {
                    continue;
                }
                if seen.insert(found.ino()) {
                    needed = needed.saturating_add(found.len());
                }
                if found.nlink() == 1 && !name.as_encoded_bytes().starts_with(LINK.as_bytes()) {
                    programs.push((found.modified()?, entry.path(), directory.clone(), found.len()));
                }
            }
        }
        if needed <= limit.bytes {
            return Ok(true);
        }
        let mut removed = false;
        programs.sort();
        for (_, path, directory, bytes) in programs {
            if needed <= limit.bytes {
                break;
            }
            fs::remove_file(&path)?;
            tracing::info!(path = %path.display(), "removed a cached openshift-install to make room");
            // Another program of the release may be in it.
            let _ = fs::remove_dir(directory);
            needed = needed.saturating_sub(bytes);
            removed = true;
        }
        let mut evictions = self.evictions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = if removed { &mut evictions.removed } else { &mut evictions.in_vain };
        *count = count.saturating_add(1);
        Ok(needed <= limit.bytes)
    }

    /// Makes the file: complete and on the disk, or not at all.
    fn create(&self, target: &Path, extract: &dyn Fn(&Path) -> Result<(), ExtractError>) -> Result<(), ExtractError> {
        let directory = target.parent().unwrap_or(&self.directory);
        let partial = {
            // Else the directory could be removed as an empty one.
            let _running = self.lock();
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|source| store_error(directory, source))?;
            NamedTempFile::with_prefix_in(PARTIAL, directory).map_err(|source| store_error(directory, source))?
        };
        extract(partial.path())?;
        accept(partial, target, directory).map_err(|source| store_error(target, source))
    }
}

/// Gives a complete program its name.
fn accept(partial: NamedTempFile, target: &Path, directory: &Path) -> io::Result<()> {
    // By name: the extraction may have put another file in its place.
    let file = File::open(partial.path())?;
    file.set_permissions(Permissions::from_mode(0o700))?;
    file.sync_all()?;
    partial.persist(target).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// No part of a hostile name becomes part of a path.
fn directory_name(image: &str) -> String {
    Digest::compute(image.as_bytes()).to_string().replace(':', "-")
}

fn store_error(path: &Path, source: io::Error) -> ExtractError {
    ExtractError::Store { path: path.to_owned(), source }
}

/// A name of the caller's own for a program, which was used now.
fn link(target: &Path, extraction: Option<Duration>) -> Result<InstallerGuard, ExtractError> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let path = target.with_file_name(format!("{LINK}{}_{name}", Uuid::new_v4()));
    let used = File::open(target).and_then(|file| file.set_modified(SystemTime::now()));
    used.and_then(|()| fs::hard_link(target, &path)).map_err(|source| store_error(&path, source))?;
    Ok(InstallerGuard { path, is_link: true, extraction })
}

/// The request that extracts for all.
struct Lead<'a> {
    cache: &'a InstallerCache,
    target: PathBuf,
    extraction: Arc<Extraction>,
}

impl Lead<'_> {
    fn run(self, extract: &dyn Fn(&Path) -> Result<(), ExtractError>) -> Shared<InstallerGuard> {
        let start = self.cache.clock.now();
        let created = self.cache.create(&self.target, extract);
        let took = self.cache.clock.now().saturating_duration_since(start);
        // Linked before any other request sees the file, which could be removed otherwise.
        let _running = self.cache.lock();
        let result = created.and_then(|()| link(&self.target, Some(took))).map_err(Arc::new);
        let _ = self.extraction.outcome.set(result.as_ref().map(|_| ()).map_err(Arc::clone));
        result
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        // Without an outcome a panic came in between.
        let _ = self.extraction.outcome.set(Err(ExtractError::Cancelled.into()));
        let mut running = self.cache.lock();
        running.remove(&self.target);
        if let Some(directory) = self.target.parent() {
            // Only an empty one.
            let _ = fs::remove_dir(directory);
        }
        self.cache.ended.notify_all();
    }
}

impl InstallerGuard {
    /// A program that is not ours to remove.
    pub(super) fn given(path: &Path) -> Self {
        Self { path: path.to_owned(), is_link: false, extraction: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was in the cache, where another request's extraction counts too; None if it was given.
    pub fn was_cached(&self) -> Option<bool> {
        self.is_link.then_some(self.extraction.is_none())
    }

    /// How long its extraction took; None if it was cached or given.
    pub fn extraction(&self) -> Option<Duration> {
        self.extraction
    }
}

impl Drop for InstallerGuard {
    fn drop(&mut self) {
        if !self.is_link {
            return;
        }
        // Its pages are many, and are needed again only if another request has it too.
        if let Ok(file) = File::open(&self.path)
            && file.metadata().is_ok_and(|found| found.nlink() <= 2)
        {
            let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove a link to openshift-install");
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
