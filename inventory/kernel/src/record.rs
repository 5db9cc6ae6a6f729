//! What was read of a machine, so that a capture contains exactly that.

use crate::order::Gather;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The file of a capture that lists the files that could not be read, and why: a line each, errno and path.
pub const REFUSED: &str = "/landfall/refused";

/// An entry of the tree that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// Its target, word by word.
    Link(PathBuf),
    /// A regular file that was seen but never read.
    Unread,
    /// A regular file that was read.
    File(Vec<u8>),
    /// A file that could not be read: its errno.
    Refused(i32),
    /// Device nodes and the like, which a capture leaves out.
    Special,
}

/// Everything that was looked at, by its path without links.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<BTreeMap<PathBuf, Kind>>);

impl Recorder {
    /// Something was seen on the way.
    pub fn entry(&self, path: &Path, kind: Kind) {
        self.lock().entry(path.to_owned()).or_insert(kind);
    }

    /// A file was read, or could not be.
    pub fn file(&self, path: &Path, read: &io::Result<Vec<u8>>) {
        let kind = match read {
            Ok(bytes) => Kind::File(bytes.clone()),
            Err(error) => error.raw_os_error().map_or(Kind::Unread, Kind::Refused),
        };
        self.lock().insert(path.to_owned(), kind);
    }

    /// The kernel or a device answered, or did not; `path` is where the answer is looked for on a replay.
    pub fn answer(&self, path: &Path, answer: &io::Result<Vec<u8>>) {
        let kind = match answer {
            Ok(bytes) => Kind::File(bytes.clone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => Kind::Refused(error.raw_os_error().unwrap_or(match error.kind() {
                io::ErrorKind::TimedOut => libc::ETIMEDOUT,
                io::ErrorKind::Unsupported => libc::EOPNOTSUPP,
                io::ErrorKind::ResourceBusy => libc::EBUSY,
                _ => libc::EIO,
            })),
        };
        let mut entries = self.lock();
        for directory in path.ancestors().skip(1).filter(|directory| directory.parent().is_some()) {
            entries.insert(directory.to_owned(), Kind::Directory);
        }
        entries.insert(path.to_owned(), kind);
    }

    /// All entries by path, parents first, as they are put into an archive: with the list of refused files, without what an
    /// archive can't hold.
    pub fn into_entries(self) -> BTreeMap<PathBuf, Kind> {
        let entries = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let line = |(path, kind): (&PathBuf, &Kind)| match kind {
            Kind::Refused(errno) => Some(format!("{errno} {}\n", path.display())),
            _ => None,
        };
        let refused: String = entries.iter().filter_map(line).collect();
        let recorder = Self(Mutex::new(entries));
        if !refused.is_empty() {
            recorder.answer(Path::new(REFUSED), &Ok(refused.into_bytes()));
        }
        let mut entries = recorder.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, kind| *kind != Kind::Special);
        entries
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Kind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files a captured machine refused to read, with their errno.
pub fn parse_refused(text: &str) -> BTreeMap<PathBuf, i32> {
    let line = |line: &str| {
        let (errno, path) = line.split_once(' ')?;
        Some((PathBuf::from(path), errno.parse().ok()?))
    };
    text.lines().filter_map(line).gather()
}
