//! The thread that opens, reads and unpacks the source, and the bounded queue between it and the writer.

use crate::buffer::{Block, Buffer, Pool};
use crate::decode::{DecodeError, Decoder};
use crate::event::Format;
use crate::options::InstallOptions;
use crate::source::{self, Retry, SourceError};
use crate::verify::Tap;
use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The start of the image that is held back, and the unit of alignment of all else.
pub(crate) const HEAD_BYTES: usize = 1 << 20;
/// Large enough that a write costs more than its system call, on any disk.
const BLOCK_BYTES: usize = 4 << 20;
/// One being filled, one being written, and some slack for jitter on either side; 32 MiB in all.
const BLOCKS: usize = 8;
/// How long an idle writer waits before it looks around.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(100);
/// A thread that is told to stop gets this long; one that hangs in a read is left behind.
const STOP_TIME: Duration = Duration::from_millis(500);

/// What the thread tells the writer.
pub(crate) enum Message {
    /// First of all. The head is shorter than [`HEAD_BYTES`] only if the image is.
    Opened { format: Format, total: Option<u64>, head: Buffer },
    /// A piece of the image beyond its head.
    Block(Block),
    /// The source failed for now.
    Retrying(Retry),
    /// The image is complete, and what vouches for it is good.
    End {
        /// Unpacked size.
        image_bytes: u64,
    },
    /// There will be no more.
    Failed(DecodeError),
}

/// The running thread as seen from the writer.
pub(crate) struct Pump {
    messages: Receiver<Message>,
    give_back: Sender<Buffer>,
    thread: Option<JoinHandle<()>>,
    used: Arc<AtomicU64>,
}

impl Pump {
    /// Starts reading. The image counts as complete only once all `taps` have agreed.
    pub fn start(options: &InstallOptions, taps: Vec<Box<dyn Tap>>) -> Result<Self, DecodeError> {
        let (pool, give_back) = Pool::new(BLOCKS, BLOCK_BYTES);
        let (send, messages) = sync_channel(BLOCKS);
        let used = Arc::new(AtomicU64::new(0));
        let (options, counter) = (options.clone(), used.clone());
        let run = move || {
            let last = match pump(&options, taps, pool, &send, counter) {
                Ok(image_bytes) => Message::End { image_bytes },
                Err(error) => Message::Failed(error),
            };
            // If nobody listens any more, nobody wants to know.
            let _ = send.send(last);
        };
        let thread = thread::Builder::new().name("decode".into()).spawn(run);
        let thread = thread.map_err(|_| DecodeError::Thread("can't be started"))?;
        Ok(Self { messages, give_back, thread: Some(thread), used })
    }

    /// The next message; None after `patience` without one.
    pub fn next(&self, patience: Duration) -> Option<Message> {
        match self.messages.recv_timeout(patience) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Message::Failed(DecodeError::Thread("died"))),
        }
    }

    /// Returns a written block for reuse.
    pub fn give_back(&self, block: Buffer) {
        // The thread may have ended; then the block is just freed.
        let _ = self.give_back.send(block);
    }

    /// Bytes of the source unpacked so far.
    pub fn source_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // With the queue gone the thread stops at its next block.
        let (_, closed) = sync_channel(0);
        drop(std::mem::replace(&mut self.messages, closed));
        let (unused, _) = std::sync::mpsc::channel();
        drop(std::mem::replace(&mut self.give_back, unused));
        let until = Instant::now() + STOP_TIME;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        if !thread.is_finished() {
            tracing::debug!("the decoding thread hangs in a read and is left behind");
        } else if thread.join().is_err() {
            tracing::error!("the decoding thread panicked");
        }
    }
}

/// Shows the taps what it reads.
struct Tapped<R> {
    inner: R,
    taps: Vec<Box<dyn Tap>>,
}

impl<R: Read> Read for Tapped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buf)?;
        let bytes = buf.get(..count).unwrap_or_default();
        self.taps.iter_mut().for_each(|tap| tap.update(bytes));
        Ok(count)
    }
}

fn pump(
    options: &InstallOptions,
    taps: Vec<Box<dyn Tap>>,
    mut pool: Pool,
    send: &SyncSender<Message>,
    used: Arc<AtomicU64>,
) -> Result<u64, DecodeError> {
    let gone = || DecodeError::Source(SourceError::Cancelled { offset: 0 });
    let retries = send.clone();
    let on_retry = Box::new(move |retry| {
        let _ = retries.send(Message::Retrying(retry));
    });
    let opened = source::open(options, on_retry)?;
    let mut decoder = Decoder::new(Tapped { inner: opened.reader, taps }, used)?;
    let mut head = Buffer::new(HEAD_BYTES);
    let head_len = decoder.fill(head.whole())?;
    head.set_len(head_len);
    let message = Message::Opened { format: decoder.format(), total: opened.total, head };
    send.send(message).map_err(|_| gone())?;
    let mut offset = u64::try_from(head_len).unwrap_or(u64::MAX);
    loop {
        let mut data = pool.take().ok_or_else(gone)?;
        let len = decoder.fill(data.whole())?;
        data.set_len(len);
        let last = len < BLOCK_BYTES;
        if len > 0 {
            send.send(Message::Block(Block { offset, data })).map_err(|_| gone())?;
            offset = offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        }
        if last {
            decoder.into_source().taps.into_iter().try_for_each(|tap| tap.finish())?;
            return Ok(offset);
        }
    }
}
