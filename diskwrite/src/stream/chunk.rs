//! Packed bytes on their way from the source to all who need them, in memory that goes round.

use crate::buffer::SLICE;
use crate::source::SourceError;
use crate::stream::{CHUNK_BYTES, Flow};
use std::{
    io::{self, BufRead, Read},
    mem,
    ops::Deref,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
};

/// A piece of the source. Its memory is free again when the last who holds it lets go.
pub(super) struct Chunk {
    bytes: Vec<u8>,
    flow: Arc<Flow>,
}

impl Chunk {
    /// Waits for memory and reads into it until it is full or the source ends; None once it is no longer wanted.
    pub(super) fn read(flow: &Arc<Flow>, source: &mut dyn Read) -> Option<io::Result<Self>> {
        let mut bytes = flow.chunks.take(|| Vec::with_capacity(CHUNK_BYTES), &flow.source_waited)?;
        bytes.resize(CHUNK_BYTES, 0);
        let result = flow.watch.fill(source, &mut bytes);
        bytes.truncate(*result.as_ref().unwrap_or(&0));
        let chunk = Self { bytes, flow: flow.clone() };
        Some(result.map(|_| chunk))
    }
}

impl Deref for Chunk {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.flow.chunks.give(mem::take(&mut self.bytes));
    }
}

/// The source's bytes as a decoder takes them. Ends where the source does.
pub(super) struct Feed {
    chunks: Receiver<Result<Arc<Chunk>, SourceError>>,
    flow: Arc<Flow>,
    chunk: Option<Arc<Chunk>>,
    at: usize,
}

impl Feed {
    pub(super) fn new(chunks: Receiver<Result<Arc<Chunk>, SourceError>>, flow: Arc<Flow>) -> Self {
        Self { chunks, flow, chunk: None, at: 0 }
    }

    /// Waits for the next chunk; None after the last.
    pub(super) fn next_chunk(&mut self) -> io::Result<Option<Arc<Chunk>>> {
        let next = match self.chunks.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => loop {
                if self.flow.is_closed() {
                    return Err(io::Error::other(SourceError::Cancelled { offset: 0 }));
                }
                match self.flow.decode_waited.during(|| self.chunks.recv_timeout(SLICE)) {
                    Ok(next) => break next,
                    Err(RecvTimeoutError::Disconnected) => return Ok(None),
                    Err(RecvTimeoutError::Timeout) => {}
                }
            },
        };
        next.map(Some).map_err(io::Error::other)
    }
}

impl BufRead for Feed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.chunk.as_ref().is_none_or(|chunk| self.at >= chunk.len()) {
            // The old one is let go before there is a wait for a new one.
            self.chunk = None;
            self.chunk = self.next_chunk()?;
            self.at = 0;
        }
        Ok(self.chunk.as_ref().and_then(|chunk| chunk.get(self.at..)).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at = self.at.saturating_add(amount);
        self.flow.add_used(u64::try_from(amount).unwrap_or(0));
    }
}

impl Read for Feed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buf)?;
        self.consume(count);
        Ok(count)
    }
}
