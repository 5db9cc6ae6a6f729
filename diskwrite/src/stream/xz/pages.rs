//! Where the output of several decoders meets: the image's head, and pages that two blocks share.

use crate::buffer::{ALIGN, Block, Buffer, lock};
use crate::decode::DecodeError;
use crate::ends::HEAD_BYTES;
use crate::stream::{Message, Output, gone};
use std::{
    collections::BTreeMap,
    mem,
    sync::{Condvar, Mutex, PoisonError},
};

/// A piece of the image that is gathered from several sides.
struct Gathered {
    buffer: Buffer,
    filled: usize,
}

impl Gathered {
    fn new(capacity: usize) -> Self {
        Self { buffer: Buffer::new(capacity), filled: 0 }
    }

    fn add(&mut self, at: usize, bytes: &[u8]) -> bool {
        if let Some(room) = self.buffer.whole().get_mut(at..at.saturating_add(bytes.len())) {
            room.copy_from_slice(bytes);
            self.filled += bytes.len();
        }
        self.filled == self.buffer.capacity()
    }

    fn into_buffer(mut self) -> Buffer {
        self.buffer.set_len(self.filled);
        self.buffer
    }
}

struct State {
    /// None once it was sent.
    head: Option<Gathered>,
    /// By their offset; at most two for each block being unpacked.
    pages: BTreeMap<u64, Gathered>,
    closed: bool,
}

/// The one way of all decoders' output to the writer.
pub(super) struct Pages<'a> {
    state: Mutex<State>,
    changed: Condvar,
    output: &'a Output,
}

impl<'a> Pages<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        let state = State { head: Some(Gathered::new(HEAD_BYTES)), pages: BTreeMap::new(), closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), output }
    }

    /// Adds a piece that ends where its page, or the head, ends, or before.
    fn add(&self, offset: u64, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut state = lock(&self.state);
        let full = match (&mut state.head, usize::try_from(offset)) {
            (Some(head), Ok(at)) if at < HEAD_BYTES => {
                if head.add(at, bytes) {
                    self.open(&mut state)?;
                }
                return Ok(());
            }
            _ => {
                let page = offset - offset % PAGE;
                let at = usize::try_from(offset % PAGE).unwrap_or(ALIGN);
                let gathered = state.pages.entry(page).or_insert_with(|| Gathered::new(ALIGN));
                if gathered.add(at, bytes) { state.pages.remove_entry(&page) } else { None }
            }
        };
        drop(state);
        match full {
            Some((offset, page)) => self.send(Block { offset, data: page.into_buffer() }),
            None => Ok(()),
        }
    }

    /// Sends the head, after which blocks may follow.
    fn open(&self, state: &mut State) -> Result<(), DecodeError> {
        let head = state.head.take();
        let result = head.map_or(Ok(()), |head| self.output.opened(head.into_buffer()));
        self.changed.notify_all();
        result
    }

    /// Sends a block, once the head was sent.
    fn send(&self, block: Block) -> Result<(), DecodeError> {
        let mut state = lock(&self.state);
        while state.head.is_some() && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return Err(gone());
        }
        drop(state);
        self.output.send(Message::Block(block))
    }

    /// After an error: all others fail from here on, for no reason of their own. Whether this error was the first.
    pub(super) fn close(&self) -> bool {
        let first = !mem::replace(&mut lock(&self.state).closed, true);
        self.changed.notify_all();
        first
    }

    /// Sends what is left when all is unpacked: the image's last piece, or all of a small image.
    pub(super) fn finish(&self) -> Result<(), DecodeError> {
        let mut state = lock(&self.state);
        self.open(&mut state)?;
        let pages = mem::take(&mut state.pages);
        drop(state);
        for (offset, page) in pages {
            self.send(Block { offset, data: page.into_buffer() })?;
        }
        Ok(())
    }
}

/// [`ALIGN`] as an offset.
const PAGE: u64 = 4096;
/// Pieces for the head are gathered in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// Takes one block's output, from `offset` on.
pub(super) struct Outlet<'a> {
    pages: &'a Pages<'a>,
    /// Where in the image the next byte goes, but for what is filled of the buffer.
    offset: u64,
    buffer: Option<Buffer>,
    filled: usize,
    step: Vec<u8>,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(pages: &'a Pages<'a>, offset: u64) -> Self {
        Self { pages, offset, buffer: None, filled: 0, step: Vec::new() }
    }

    /// Room for at least one byte more.
    pub(super) fn room(&mut self) -> Result<&mut [u8], DecodeError> {
        let step = match usize::try_from(self.offset) {
            Ok(offset) if offset < HEAD_BYTES => STEP_BYTES.min(HEAD_BYTES - offset),
            _ if !self.offset.is_multiple_of(PAGE) => usize::try_from(PAGE - self.offset % PAGE).unwrap_or(ALIGN),
            _ => {
                if self.buffer.is_none() {
                    self.buffer = Some(self.pages.output.buffer()?);
                }
                return Ok(self.buffer.as_mut().and_then(|b| b.whole().get_mut(self.filled..)).unwrap_or_default());
            }
        };
        self.step.resize(step, 0);
        Ok(&mut self.step)
    }

    /// Says how much of the room was used.
    pub(super) fn advance(&mut self, count: usize) -> Result<(), DecodeError> {
        match &self.buffer {
            Some(buffer) => {
                self.filled += count;
                if self.filled == buffer.capacity() {
                    self.flush()?;
                }
            }
            None if count > 0 => {
                self.pages.add(self.offset, self.step.get(..count).unwrap_or_default())?;
                self.offset = self.offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            }
            None => {}
        }
        Ok(())
    }

    /// Sends what there is: whole pages at once, the rest when the next block has completed its page.
    pub(super) fn flush(&mut self) -> Result<(), DecodeError> {
        let Some(mut data) = self.buffer.take() else { return Ok(()) };
        let filled = mem::take(&mut self.filled);
        let rest = filled % ALIGN;
        let whole = filled - rest;
        let offset = self.offset;
        let rest_offset = offset.saturating_add(u64::try_from(whole).unwrap_or(u64::MAX));
        if rest > 0 {
            self.pages.add(rest_offset, data.whole().get(whole..filled).unwrap_or_default())?;
        }
        self.offset = rest_offset.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX));
        if whole == 0 {
            self.pages.output.flow.blocks.give(data);
            return Ok(());
        }
        data.set_len(whole);
        self.pages.send(Block { offset, data })
    }
}
