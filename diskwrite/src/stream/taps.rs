//! The thread on which the taps look at what passes.

use super::Message;
use super::chunk::Chunk;
use crate::buffer::Block;
use crate::decode::DecodeError;
use crate::verify::{Tap, VerifyError};
use std::{
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

/// What passes the taps.
enum Passing {
    /// Others hold it too.
    Chunk(Arc<Chunk>),
    /// Goes on to the writer.
    Block(Block),
}

/// The way to the thread, and what it comes to.
type Line = (SyncSender<Passing>, JoinHandle<Result<(), VerifyError>>);

/// All taps; of none there is no thread.
pub(super) struct Taps {
    line: Option<Line>,
    writer: SyncSender<Message>,
}

impl Taps {
    pub(super) fn start(mut taps: Vec<Box<dyn Tap>>, writer: &SyncSender<Message>) -> Result<Self, DecodeError> {
        if taps.is_empty() {
            return Ok(Self { line: None, writer: writer.clone() });
        }
        // What is in the queue is bounded by the pools.
        let (send, passing) = sync_channel(super::CHUNKS);
        let next = writer.clone();
        let run = move || {
            for piece in passing {
                let bytes = match &piece {
                    Passing::Chunk(chunk) => chunk,
                    Passing::Block(block) => &*block.data,
                };
                taps.iter_mut().for_each(|tap| tap.update(bytes));
                if let Passing::Block(block) = piece
                    && next.send(Message::Block(block)).is_err()
                {
                    break;
                }
            }
            taps.into_iter().try_for_each(|tap| tap.finish())
        };
        let thread = thread::Builder::new().name("taps".into()).spawn(run);
        let thread = thread.map_err(|_| DecodeError::Thread("can't be started"))?;
        Ok(Self { line: Some((send, thread)), writer: writer.clone() })
    }

    pub(super) fn chunk(&self, chunk: &Arc<Chunk>) -> Result<(), DecodeError> {
        match &self.line {
            Some((send, _)) => send.send(Passing::Chunk(chunk.clone())).map_err(|_| DecodeError::Thread("died")),
            None => Ok(()),
        }
    }

    pub(super) fn block(&self, block: Block) -> Result<(), DecodeError> {
        match &self.line {
            Some((send, _)) => send.send(Passing::Block(block)).map_err(|_| super::gone()),
            None => self.writer.send(Message::Block(block)).map_err(|_| super::gone()),
        }
    }

    /// After the last byte: waits for what the taps say. Nothing may be given to them once one failed to come.
    pub(super) fn finish(self) -> Result<(), DecodeError> {
        let Some((send, thread)) = self.line else { return Ok(()) };
        drop(send);
        Ok(thread.join().map_err(|_| DecodeError::Thread("died"))??)
    }
}
