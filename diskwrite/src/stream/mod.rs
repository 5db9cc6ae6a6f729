//! The image on its way from the source to the writer: `source` → taps → decoders → blocks, each stage on threads of its own.
//!
//! One thread reads the source, sequentially whatever it is. Packed bytes go in shared chunks to the taps and to the decoder;
//! a raw image is read straight into the writer's blocks and passes the taps on its way. Nothing is copied between.
//!
//! Memory, all of it handed out by two pools: [`BLOCKS`] blocks (32 MiB) and [`CHUNKS`] chunks (8 MiB), to which a decoder adds
//! its window: 32 KiB of gzip, up to 128 MiB of zstd as the image was packed (8 MiB at level 10 and below), xz's dictionary
//! (8 MiB by default, 64 MiB of `xz -9`). So an image with a window of up to 8 MiB keeps the process below 64 MiB. For xz of
//! several blocks that tell their sizes there is a decoder for each core and there are more chunks, as far as 320 MiB go.

pub(crate) mod chunk;
mod read;
mod taps;
mod watch;
pub(crate) mod xz;

use crate::buffer::{Block, Buffer, Pool, Waited};
use crate::decode::{DecodeError, Format};
use crate::ends::HEAD_BYTES;
use crate::event::Waits;
use crate::options::{InstallOptions, Source};
use crate::source::{self, OnRetry, Opened, Retry, SourceError};
use crate::verify::Tap;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use watch::Watch;

/// Large enough that a write costs more than its system call, on any disk.
const BLOCK_BYTES: usize = 4 << 20;
/// One being filled, some being written, and slack for jitter on either side.
const BLOCKS: usize = 8;
/// Read from the source at once, unless it is raw. The first holds a raw image's head.
const CHUNK_BYTES: usize = HEAD_BYTES;
/// One being filled, one with the taps, one being unpacked, and slack.
const CHUNKS: usize = 8;
/// What the process takes besides chunks and decoders: blocks, and 16 MiB for code, stacks, and heads.
const FIXED_BYTES: u64 = 48 << 20;
/// How long an idle writer waits before it looks around.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(100);
/// A thread that must stop gets this long; one that hangs in a read is abandoned.
const STOP_TIME: Duration = Duration::from_millis(500);

/// Messages from the threads to the writer.
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

/// What all threads of the pipeline share.
struct Flow {
    blocks: Pool<Buffer>,
    chunks: Pool<Vec<u8>>,
    watch: Watch,
    used: AtomicU64,
    raw: AtomicBool,
    closed: AtomicBool,
    source_waited: Waited,
    decode_waited: Waited,
    write_waited: Waited,
}

impl Flow {
    fn new() -> Self {
        Self {
            blocks: Pool::new(BLOCKS),
            chunks: Pool::new(CHUNKS),
            watch: Watch::new(),
            used: AtomicU64::new(0),
            raw: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            source_waited: Waited::default(),
            decode_waited: Waited::default(),
            write_waited: Waited::default(),
        }
    }

    fn add_used(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn set_used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.blocks.close();
        self.chunks.close();
    }
}

/// The way of an open image to the writer.
struct Output {
    flow: Arc<Flow>,
    send: SyncSender<Message>,
    format: Format,
    total: Option<u64>,
}

impl Output {
    /// An empty block.
    fn buffer(&self) -> Result<Buffer, DecodeError> {
        let waited = if self.format == Format::Raw { &self.flow.source_waited } else { &self.flow.decode_waited };
        self.flow.blocks.take(|| Buffer::new(BLOCK_BYTES), waited).ok_or_else(gone)
    }

    fn opened(&self, head: Buffer) -> Result<(), DecodeError> {
        self.send(Message::Opened { format: self.format, total: self.total, head })
    }

    fn send(&self, message: Message) -> Result<(), DecodeError> {
        self.send.send(message).map_err(|_| gone())
    }

    /// The first failure counts; later ones are dropped.
    fn failed(&self, error: DecodeError) {
        let _ = self.send.send(Message::Failed(error));
    }
}

/// For a thread that ends because another has: the writer has stopped, or has the reason why it must.
fn gone() -> DecodeError {
    DecodeError::Source(SourceError::Cancelled { offset: 0 })
}

/// What becomes of a packed source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// The image in it.
    Unpacked,
    /// Nothing.
    AsItComes,
}

/// The running pipeline as seen from the writer.
pub(crate) struct Pump {
    messages: Receiver<Message>,
    flow: Arc<Flow>,
    thread: Option<JoinHandle<()>>,
    /// How long the source may give nothing, if it does not see to that itself, and its name.
    stall: Option<(Duration, String)>,
}

impl Pump {
    /// Starts reading. The image counts as complete only once all `taps` have agreed.
    pub(crate) fn start(options: &InstallOptions, taps: Vec<Box<dyn Tap>>) -> Result<Self, DecodeError> {
        Self::start_as(options, taps, Packing::Unpacked)
    }

    /// As [`start`](Self::start), of a source that may stay packed.
    pub(crate) fn start_as(
        options: &InstallOptions,
        taps: Vec<Box<dyn Tap>>,
        packing: Packing,
    ) -> Result<Self, DecodeError> {
        let stall = match &options.source {
            Source::Url(_) => None,
            local => Some((options.stall_timeout, local.to_string())),
        };
        let options = options.clone();
        Self::over(move |on_retry| source::open(&options, on_retry), stall, taps, packing)
    }

    /// Starts reading what `open` opens.
    fn over(
        open: impl FnOnce(OnRetry) -> Result<Opened, SourceError> + Send + 'static,
        stall: Option<(Duration, String)>,
        taps: Vec<Box<dyn Tap>>,
        packing: Packing,
    ) -> Result<Self, DecodeError> {
        let (send, messages) = sync_channel(BLOCKS);
        let flow = Arc::new(Flow::new());
        let shared = flow.clone();
        let run = move || {
            let last = match read::read(open, taps, packing, &shared, &send) {
                Ok(image_bytes) => Message::End { image_bytes },
                Err(error) => Message::Failed(error),
            };
            // Without a receiver the error is of no interest.
            let _ = send.send(last);
        };
        let thread = thread::Builder::new().name("source".into()).spawn(run);
        let thread = thread.map_err(|_| DecodeError::Thread("can't be started"))?;
        Ok(Self { messages, flow, thread: Some(thread), stall })
    }

    /// The next message; None after `patience` without one.
    pub(crate) fn next(&self, patience: Duration) -> Option<Message> {
        match self.flow.write_waited.during(|| self.messages.recv_timeout(patience)) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => self.stalled().map(|error| Message::Failed(error.into())),
            Err(RecvTimeoutError::Disconnected) => Some(Message::Failed(DecodeError::Thread("died"))),
        }
    }

    fn stalled(&self) -> Option<SourceError> {
        let (timeout, name) = self.stall.as_ref()?;
        let silent = self.flow.watch.silent().filter(|silent| silent >= timeout)?;
        Some(SourceError::Silent { name: name.clone(), offset: self.flow.watch.offset(), silent })
    }

    /// Returns a written block for reuse.
    pub(crate) fn give_back(&self, block: Buffer) {
        // Those that hold one page only are not the pool's.
        if block.capacity() == BLOCK_BYTES {
            self.flow.blocks.give(block);
        }
    }

    /// Bytes of the source unpacked so far.
    pub(crate) fn source_bytes(&self) -> u64 {
        self.flow.used.load(Ordering::Relaxed)
    }

    /// How long each stage has waited for the others so far.
    pub(crate) fn waits(&self) -> Waits {
        let decodes = !self.flow.raw.load(Ordering::Relaxed);
        Waits {
            source: self.flow.source_waited.total(),
            decode: decodes.then(|| self.flow.decode_waited.total()),
            write: self.flow.write_waited.total(),
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // With the queue and the pools gone the threads stop at their next block.
        let (_, closed) = sync_channel(0);
        drop(std::mem::replace(&mut self.messages, closed));
        self.flow.close();
        let until = Instant::now() + STOP_TIME;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        if !thread.is_finished() {
            tracing::debug!("the thread that reads the source hangs in a read; not waiting for it");
        } else if thread.join().is_err() {
            tracing::error!("the thread that reads the source panicked");
        }
    }
}

/// Unpacks a source and discards it, as fast as any writer could; returns the size of the image in bytes. For
/// the bench.
pub fn decode(source: Source) -> Result<u64, DecodeError> {
    let pump = Pump::start(&InstallOptions { source, ..Default::default() }, Vec::new())?;
    loop {
        match pump.next(LOOK_AROUND) {
            Some(Message::Block(block)) => pump.give_back(block.data),
            Some(Message::End { image_bytes }) => return Ok(image_bytes),
            Some(Message::Failed(error)) => return Err(error),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
