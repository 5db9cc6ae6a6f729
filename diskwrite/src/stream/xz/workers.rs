//! Unpacks the blocks of an xz stream side by side, in the memory stated at [`crate::stream`].

use super::pages::{Outlet, Pages};
use super::split::{Part, Splitter};
use super::{XzError, format::BlockHeader};
use crate::buffer::{SLICE, lock};
use crate::decode::Format;
use crate::decode::{DecodeError, classify};
use crate::memory::available_bytes;
use crate::stream::chunk::{Chunk, Feed};
use crate::stream::{BLOCKS, CHUNK_BYTES, CHUNKS, FIXED_BYTES, Output, gone};
use liblzma::stream::{Action, Status, Stream};
use std::{
    io,
    ops::Range,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, Scope, ScopedJoinHandle},
};

/// What a decoder needs besides its dictionary; liblzma takes 40 KiB.
const DECODER_BYTES: u64 = 2 << 20;
/// `xz -9` makes 64 MiB; so much is given to a stream whatever the machine has.
const DICT_BYTES: u64 = 192 << 20;
/// As much as `xz` makes.
const MAX_DICT_BYTES: u64 = 1536 << 20;
/// Left to the rest of the system by a stream that needs more than [`DICT_BYTES`].
const SPARED_BYTES: u64 = 256 << 20;
/// The whole process, at most, unless a single dictionary takes more.
const PEAK_BYTES: u64 = 320 << 20;
/// Packed data held at most: at the next block's start while the last but one is unpacked.
const HELD_BYTES: u64 = 128 << 20;
/// The least of packed data to be held, so that reading continues while blocks are unpacked.
const LEAST_HELD_BYTES: u64 = 64 << 20;

/// Some bytes of a block.
enum Piece {
    Header(Vec<u8>),
    Packed(Arc<Chunk>, Range<usize>),
    /// The block is complete, and unpacks to so many bytes.
    End(u64),
}

/// A block to be unpacked. If its pieces stop before [`Piece::End`], another thread knows why.
struct Job {
    /// Where in the image it goes, and where in the stream it was.
    offset: u64,
    packed_offset: u64,
    pieces: Receiver<Piece>,
}

/// Unpacks all that `feed` gives; returns the size of the image. Fails if any worker does.
pub(in crate::stream) fn unpack(feed: &mut Feed, output: &Output) -> Result<u64, DecodeError> {
    let pages = Pages::new(output);
    thread::scope(|scope| {
        let result = Stage { scope, output, pages: &pages, splitter: Splitter::default(), workers: None }.run(feed);
        result.map_err(|error| if pages.close() { error } else { gone() })
    })
}

/// The threads that unpack blocks with dictionaries of up to `dict_bytes`.
struct Workers<'scope> {
    dict_bytes: u64,
    /// Chunks they are worth once there is a second block.
    ahead: usize,
    jobs: SyncSender<Job>,
    threads: Vec<ScopedJoinHandle<'scope, Result<(), DecodeError>>>,
}

impl Workers<'_> {
    /// Waits for all jobs to be done.
    fn finish(self) -> Result<(), DecodeError> {
        drop(self.jobs);
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or(Err(DecodeError::Thread("died")));
        self.threads.into_iter().map(join).fold(Ok(()), Result::and)
    }
}

struct Stage<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    output: &'env Output,
    pages: &'env Pages<'env>,
    splitter: Splitter,
    workers: Option<Workers<'scope>>,
}

impl<'scope, 'env> Stage<'scope, 'env> {
    fn run(mut self, feed: &mut Feed) -> Result<u64, DecodeError> {
        let (mut packed, mut unpacked) = (0u64, 0u64);
        let mut block: Option<Sender<Piece>> = None;
        while let Some(chunk) = feed.next_chunk().map_err(|error| classify(error, Format::Xz, packed))? {
            let mut at = 0;
            while at < chunk.len() {
                if self.splitter.is_done() {
                    return Err(DecodeError::Trailing { format: Format::Xz, offset: packed });
                }
                let rest = chunk.get(at..).unwrap_or_default();
                let (used, part) = self.splitter.next(rest).map_err(|error| corrupt(error, packed))?;
                if let Some(block) = &block {
                    // A worker that is gone has said why.
                    block.send(Piece::Packed(chunk.clone(), at..at + used)).map_err(|_| gone())?;
                }
                packed = packed.saturating_add(bytes(used));
                at += used;
                match part {
                    Some(Part::Start(header)) => {
                        let (send, pieces) = channel();
                        let held = self.splitter.held().to_vec();
                        let packed_offset = packed.saturating_sub(bytes(held.len()));
                        // There is a receiver yet.
                        let _ = send.send(Piece::Header(held));
                        self.assign(Job { offset: unpacked, packed_offset, pieces }, &header)?;
                        block = Some(send);
                    }
                    Some(Part::End(size)) => {
                        if let Some(block) = block.take() {
                            block.send(Piece::End(size)).map_err(|_| gone())?;
                        }
                        unpacked = unpacked.checked_add(size).ok_or_else(|| corrupt(XzError::Size, packed))?;
                    }
                    Some(Part::Done) | None => {}
                }
            }
        }
        if !self.splitter.is_done() {
            return Err(DecodeError::Truncated { format: Format::Xz, offset: packed });
        }
        self.workers.take().map_or(Ok(()), Workers::finish)?;
        self.pages.finish()?;
        self.output.flow.set_used(packed);
        Ok(unpacked)
    }

    /// Gives the job to the next free worker, and makes workers for the first or when the dictionary grows.
    fn assign(&mut self, job: Job, header: &BlockHeader) -> Result<(), DecodeError> {
        let is_first = self.workers.is_none();
        if self.workers.as_ref().is_none_or(|workers| workers.dict_bytes < header.dict_bytes) {
            // The old ones' memory must be free before the new ones take theirs.
            self.workers.take().map_or(Ok(()), Workers::finish)?;
            let limit = dictionary_limit(available_bytes());
            if header.dict_bytes > limit {
                let error = XzError::Memory { needed: header.dict_bytes, limit };
                return Err(corrupt(error, job.packed_offset));
            }
            if header.dict_bytes > DICT_BYTES {
                tracing::info!(dictionary_mib = header.dict_bytes >> 20, "unpacking this image takes a lot of memory");
            }
            self.workers = Some(self.hire(header)?);
        }
        let Some(workers) = &self.workers else { return Err(gone()) };
        if !is_first {
            self.output.flow.chunks.resize(workers.ahead);
        }
        workers.jobs.send(job).map_err(|_| gone())
    }

    fn hire(&self, header: &BlockHeader) -> Result<Workers<'scope>, DecodeError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let plan = Plan::new(header, self.output.total, cores);
        self.output.flow.chunks.resize(plan.chunks);
        let ahead = plan.ahead;
        let (jobs, queue) = sync_channel(plan.workers);
        let queue = Arc::new(Mutex::new(queue));
        let (pages, output, stream_header) = (self.pages, self.output, self.splitter.stream_header());
        let dict_bytes = header.dict_bytes;
        let spawn = |_| {
            let queue = queue.clone();
            let run = move || work(&queue, &stream_header, dict_bytes, pages, output);
            let thread = thread::Builder::new().name("unpack".into()).spawn_scoped(self.scope, run);
            thread.map_err(|_| DecodeError::Thread("can't be started"))
        };
        let threads = (0..plan.workers).map(spawn).collect::<Result<_, _>>()?;
        Ok(Workers { dict_bytes, ahead, jobs, threads })
    }
}

/// How the memory is shared out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub workers: usize,
    /// Packed data that may be held while this block is the only one known of.
    pub chunks: usize,
    /// The same once there is another.
    pub ahead: usize,
}

impl Plan {
    /// For blocks like this one of a stream of `total` bytes, on so many cores.
    pub(super) fn new(header: &BlockHeader, total: Option<u64>, cores: usize) -> Self {
        // Only a block that tells its size, and is by far not all there is, is most likely followed by others; else reading
        // far ahead may gain nothing.
        let followed = match (header.packed_bytes, total) {
            (Some(packed), Some(total)) => packed.saturating_add(1024) < total,
            _ => false,
        };
        let worker_bytes = header.dict_bytes.saturating_add(DECODER_BYTES);
        let room = PEAK_BYTES.saturating_sub(FIXED_BYTES);
        let fit = room.saturating_sub(LEAST_HELD_BYTES) / worker_bytes;
        let workers = usize::try_from(fit).unwrap_or(usize::MAX).min(BLOCKS - 2).clamp(1, cores.max(1));
        let remaining = room.saturating_sub(worker_bytes.saturating_mul(u64::try_from(workers).unwrap_or(u64::MAX)));
        let ahead = usize::try_from(remaining.min(HELD_BYTES) / bytes(CHUNK_BYTES)).unwrap_or(usize::MAX).max(CHUNKS);
        Self { workers, chunks: if followed { ahead } else { CHUNKS }, ahead }
    }
}

/// The largest dictionary a stream may ask for where so much memory is available.
pub(super) fn dictionary_limit(available_bytes: Option<u64>) -> u64 {
    let taken = SPARED_BYTES + FIXED_BYTES + bytes(CHUNKS * CHUNK_BYTES) + DECODER_BYTES;
    available_bytes.unwrap_or(0).saturating_sub(taken).clamp(DICT_BYTES, MAX_DICT_BYTES)
}

fn corrupt(error: impl Into<Box<dyn std::error::Error + Send + Sync>>, offset: u64) -> DecodeError {
    DecodeError::Corrupt { format: Format::Xz, offset, source: io::Error::new(io::ErrorKind::InvalidData, error) }
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// One worker's life. A failure is reported to the writer at once: the stage may be waiting for the source.
fn work(
    queue: &Mutex<Receiver<Job>>,
    stream_header: &[u8],
    dict_bytes: u64,
    pages: &Pages<'_>,
    output: &Output,
) -> Result<(), DecodeError> {
    let mut decoder = None;
    loop {
        let job = lock(queue).recv();
        let Ok(job) = job else { return Ok(()) };
        let result = match &mut decoder {
            Some(decoder) => Ok(decoder),
            None => Unpacker::new(stream_header, dict_bytes).map(|new| decoder.insert(new)),
        };
        if let Err(error) = result.and_then(|decoder| decoder.block(&job, pages, output)) {
            if pages.close() {
                output.failed(error);
            }
            return Err(gone());
        }
    }
}

/// liblzma's decoder of a whole stream, which is given a stream's header and then some of its blocks, one after the other,
/// and never the index. So one dictionary serves many blocks, and the blocks' headers, sizes and checks are liblzma's to check.
struct Unpacker(Stream);

impl Unpacker {
    fn new(stream_header: &[u8], dict_bytes: u64) -> Result<Self, DecodeError> {
        let setup = |error: liblzma::stream::Error| DecodeError::Setup { format: Format::Xz, source: error.into() };
        let mut stream = Stream::new_stream_decoder(dict_bytes.saturating_add(DECODER_BYTES), 0).map_err(setup)?;
        stream.process(stream_header, &mut [], Action::Run).map_err(|error| corrupt(io::Error::from(error), 0))?;
        Ok(Self(stream))
    }

    fn block(&mut self, job: &Job, pages: &Pages<'_>, output: &Output) -> Result<(), DecodeError> {
        let waited = &output.flow.decode_waited;
        let mut outlet = Outlet::new(pages, job.offset);
        let (mut packed, mut unpacked) = (job.packed_offset, 0u64);
        loop {
            let piece = match job.pieces.try_recv() {
                Ok(piece) => Some(piece),
                Err(_) => loop {
                    match waited.during(|| job.pieces.recv_timeout(SLICE)) {
                        Ok(piece) => break Some(piece),
                        Err(RecvTimeoutError::Disconnected) => break None,
                        Err(RecvTimeoutError::Timeout) => {}
                    }
                },
            };
            let input = match &piece {
                None => return Ok(()),
                Some(Piece::Header(header)) => header.as_slice(),
                Some(Piece::Packed(chunk, range)) => chunk.get(range.clone()).unwrap_or_default(),
                Some(Piece::End(size)) => {
                    if unpacked != *size {
                        return Err(corrupt(format!("a block has {unpacked} bytes, not {size}"), packed));
                    }
                    return outlet.flush();
                }
            };
            unpacked = unpacked.saturating_add(self.feed(input, &mut outlet, packed)?);
            packed = packed.saturating_add(bytes(input.len()));
            output.flow.add_used(bytes(input.len()));
        }
    }

    /// Unpacks all of `input`, which is at `packed` in the stream; returns how many bytes came of it.
    fn feed(&mut self, mut input: &[u8], outlet: &mut Outlet<'_>, mut packed: u64) -> Result<u64, DecodeError> {
        let start = self.0.total_out();
        loop {
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            let room = outlet.room()?;
            let room_bytes = room.len();
            let status =
                self.0.process(input, room, Action::Run).map_err(|error| corrupt(io::Error::from(error), packed))?;
            let used = self.0.total_in() - before_in;
            let count = usize::try_from(self.0.total_out() - before_out).unwrap_or(room_bytes);
            packed = packed.saturating_add(used);
            input = input.get(usize::try_from(used).unwrap_or(usize::MAX)..).unwrap_or_default();
            outlet.advance(count)?;
            match status {
                Status::StreamEnd => return Err(corrupt("a block holds an index", packed)),
                // There may be more within, as long as it fills the room.
                _ if count == room_bytes => {}
                _ if input.is_empty() => return Ok(self.0.total_out() - start),
                Status::MemNeeded => return Err(corrupt("a block makes no progress", packed)),
                _ => {}
            }
        }
    }
}
