//! The archive as a reader: it is made while it is sent.

use super::{archive, item::Item};
use std::{
    io::{self, PipeReader, Read},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// The result of making the archive; none while that continues.
type Outcome = Arc<Mutex<Option<io::Result<()>>>>;

/// Reads an archive that a thread writes at the other end of a pipe. That thread ends with the pipe.
#[derive(Debug)]
pub(super) struct ArchiveReader {
    pipe: PipeReader,
    outcome: Outcome,
}

impl ArchiveReader {
    /// Starts to make the archive.
    pub(crate) fn start(directory: String, items: Vec<Item>) -> io::Result<Self> {
        let (pipe, writer) = io::pipe()?;
        let outcome = Outcome::default();
        let theirs = outcome.clone();
        let make = move || {
            // Buffered, so that the pipe gets more than a few bytes at a time.
            let mut writer = io::BufWriter::with_capacity(32 << 10, writer);
            let made = archive::write(&directory, &items, &mut writer).map(drop);
            // Before the pipe closes: its reader then knows how it ended.
            *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        };
        thread::Builder::new().name("archive".into()).spawn(make)?;
        Ok(Self { pipe, outcome })
    }
}

impl Read for ArchiveReader {
    /// The end is only the end when the archive was made whole.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.pipe.read(buffer)? {
            0 if !buffer.is_empty() => {
                let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
                match outcome.take() {
                    Some(Ok(())) => {
                        // For further reads.
                        *outcome = Some(Ok(()));
                        Ok(0)
                    }
                    Some(Err(error)) => Err(error),
                    None => Err(io::Error::other("the archive is incomplete")),
                }
            }
            count => Ok(count),
        }
    }
}
