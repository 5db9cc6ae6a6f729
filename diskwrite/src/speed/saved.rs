//! What was on the disk where the measurement writes: held in memory, and put back whatever happens.

use super::SpeedError;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// A disk that has failed once often takes the next command.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// What the measurement writes to.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub path: &'a Path,
    pub file: &'a File,
    pub is_disk: bool,
}

impl Target<'_> {
    /// Writes out and drops what the page cache holds of it, as fio does before it starts.
    pub(super) fn drop_cache(&self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.is_disk {
            kernel::disk::drop_cache(self.file)
        } else {
            posix_fadvise(self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).map_err(io::Error::from)
        }
    }
}

/// The contents from byte 0 on. They go back when this is dropped, if [`restore`](Self::restore) was not called: also while
/// a panic unwinds.
pub(crate) struct Saved<'a> {
    target: &'a Target<'a>,
    content: Vec<u8>,
    /// Of a regular file that was shorter.
    file_len: Option<u64>,
    done: bool,
}

impl<'a> Saved<'a> {
    /// Reads `len` bytes, or as many as a regular file has.
    pub(super) fn read(target: &'a Target<'a>, len: u64) -> Result<Self, SpeedError> {
        let error = |source| SpeedError::Save { path: target.path.to_owned(), source };
        let file_len = if target.is_disk { None } else { Some(target.file.metadata().map_err(error)?.len()) };
        let len = usize::try_from(file_len.map_or(len, |file| file.min(len))).map_err(io::Error::other);
        let mut content = vec![0; len.map_err(error)?];
        target.file.read_exact_at(&mut content, 0).map_err(error)?;
        Ok(Self { target, content, file_len, done: false })
    }

    /// Puts the contents back, flushes, and compares what can be read then.
    pub(super) fn restore(mut self) -> Result<(), SpeedError> {
        self.done = true;
        self.put_back()
    }

    fn put_back(&self) -> Result<(), SpeedError> {
        let mut tries = TRIES;
        loop {
            match self.try_once() {
                Ok(()) => return Ok(()),
                Err(error) if tries > 1 => {
                    tracing::warn!(%error, "putting the contents back failed, trying again");
                    tries -= 1;
                    thread::sleep(PAUSE);
                }
                Err(source) => {
                    let saved_in = self.rescue();
                    let (path, bytes) = (self.target.path.to_owned(), self.content.len());
                    return Err(SpeedError::Restore { path, bytes, saved_in, source });
                }
            }
        }
    }

    fn try_once(&self) -> io::Result<()> {
        let file = self.target.file;
        file.write_all_at(&self.content, 0)?;
        if let Some(len) = self.file_len {
            file.set_len(len)?;
        }
        self.target.drop_cache()?;
        let mut found = vec![0; self.content.len()];
        file.read_exact_at(&mut found, 0)?;
        if found == self.content {
            Ok(())
        } else {
            Err(io::Error::other("the contents read back differ from those put back"))
        }
    }

    /// The last resort: a file to put back by hand.
    fn rescue(&self) -> Option<PathBuf> {
        let named = tempfile::Builder::new().prefix("landfall-disk-speed-").suffix(".saved").tempfile();
        let (file, path) = named.ok()?.keep().ok()?;
        file.write_all_at(&self.content, 0).and_then(|()| file.sync_all()).ok()?;
        Some(path)
    }
}

impl Drop for Saved<'_> {
    fn drop(&mut self) {
        if !self.done
            && let Err(error) = self.put_back()
        {
            tracing::error!(error = %kernel::in_full(&error), "the contents are lost");
        }
    }
}
