//! A disk of the machine: direct I/O, with several requests in flight where the kernel has io_uring.

use super::medium::{Block, Medium};
use crate::{load::Run, result::wide};
use diskwrite::{ClaimedDisk, DiskError};
use kernel::queue::{Answer, Buffer, Request, Ring, Work};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::{fs::File, io, ops::Range, os::unix::fs::FileTypeExt, path::Path, sync::Arc, time::Instant};

/// One request. Large enough for the throughput of any disk, small enough for its latency to say something.
const BLOCK_BYTES: u64 = 1 << 20;
const DEPTH: usize = 8;
/// A request that the kernel interrupts, or has no memory for, is started so often again.
const TRIES: u32 = 100;

/// An open disk.
pub(super) struct Device {
    file: File,
    size_bytes: u64,
    sector_bytes: u64,
    /// Claimed as long as it is written.
    _claimed: Option<ClaimedDisk>,
    /// Buffers of requests that came back.
    spare: Vec<Buffer>,
}

impl Device {
    /// For reading, also while it is in use.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.file_type().is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a disk"));
        }
        let (size_bytes, sector_bytes) = (kernel::disk::size_bytes(&file)?, kernel::disk::sector_bytes(&file)?.into());
        Self::new(file, size_bytes, sector_bytes, None)
    }

    /// For writing: disks in use are refused.
    pub(super) fn claim(path: &Path) -> Result<Self, ClaimError> {
        let claimed = ClaimedDisk::open(path)?;
        let (size_bytes, sector_bytes) = (claimed.geometry().size_bytes, claimed.geometry().sector_bytes.into());
        let file = claimed.file()?.try_clone()?;
        Ok(Self::new(file, size_bytes, sector_bytes, Some(claimed))?)
    }

    fn new(file: File, size_bytes: u64, sector_bytes: u64, claimed: Option<ClaimedDisk>) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
        if let Err(error) = fcntl(&file, FcntlArg::F_SETFL(flags | OFlag::O_DIRECT)) {
            tracing::warn!(%error, "no direct I/O: what is read may come from the page cache");
        }
        Ok(Self { file, size_bytes, sector_bytes, _claimed: claimed, spare: Vec::new() })
    }

    /// Carries out a range. `make` makes the work of a block of a buffer.
    fn transfer(
        &mut self,
        range: Range<u64>,
        run: &Run,
        make: &mut dyn FnMut(u64, Buffer) -> Work,
        each: &mut dyn FnMut(Block<'_>),
    ) {
        let mut ring = Ring::new(&self.file, DEPTH).ok();
        let depth = if ring.is_some() { DEPTH } else { 1 };
        let mut waiting: Option<Request> = None;
        let mut begun: Vec<(u64, Instant)> = Vec::new();
        let mut next = range.start;
        loop {
            while begun.len() < depth && next < range.end && !run.is_over() {
                let len = BLOCK_BYTES.min(range.end - next);
                let mut buffer =
                    self.spare.pop().unwrap_or_else(|| Buffer::new(usize::try_from(BLOCK_BYTES).unwrap_or(0)));
                buffer.set_len(usize::try_from(len).unwrap_or(0));
                let request = Request::new(next, make(next, buffer));
                begun.push((next, run.now()));
                match &mut ring {
                    Some(ring) => ring.start(request),
                    None => waiting = Some(request),
                }
                next += len;
            }
            let here = |mut request: Request| Answer { result: request.run(&self.file), request };
            let answer = match &mut ring {
                Some(ring) => ring.next(),
                None => waiting.take().map(here),
            };
            let Some(Answer { mut request, result }) = answer else { break };
            let error = match result {
                Ok(0) => Some(io::ErrorKind::UnexpectedEof.into()),
                Ok(done) => {
                    request.done += done;
                    None
                }
                Err(error) if is_passing(&error) && request.tries < TRIES => {
                    request.tries += 1;
                    None
                }
                Err(error) => Some(error),
            };
            if error.is_none() && request.remaining() > 0 {
                match &mut ring {
                    Some(ring) => ring.start(request),
                    None => waiting = Some(request),
                }
                continue;
            }
            let place = begun.iter().position(|(offset, _)| *offset == request.offset);
            let since = place.map(|place| begun.swap_remove(place).1);
            let took = since.map(|since| run.now().duration_since(since)).unwrap_or_default();
            let (offset, len) = (request.offset, wide(request.len_bytes()));
            match request.work {
                Work::Read(buffer) => {
                    each(Block { offset, len, took, result: error.map_or(Ok(&buffer), Err) });
                    self.spare.push(buffer);
                }
                Work::Write(data, _) => {
                    each(Block { offset, len, took, result: error.map_or(Ok(&[]), Err) });
                    self.spare.extend(Arc::into_inner(data));
                }
                Work::Zero(_) => {}
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Why a disk is not written to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("cannot prepare the disk")]
    Prepare(#[from] io::Error),
}

impl Medium for Device {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn sector_bytes(&self) -> u64 {
        self.sector_bytes.max(512)
    }

    fn read(&mut self, range: Range<u64>, run: &Run, each: &mut dyn FnMut(Block<'_>)) -> io::Result<()> {
        self.transfer(range, run, &mut |_, buffer| Work::Read(buffer), each);
        Ok(())
    }

    fn write(
        &mut self,
        range: Range<u64>,
        run: &Run,
        make: &mut dyn FnMut(u64, &mut [u8]),
        each: &mut dyn FnMut(Block<'_>),
    ) -> io::Result<()> {
        let mut filled = |offset, mut buffer: Buffer| {
            make(offset, &mut buffer);
            let len = buffer.len();
            Work::Write(Arc::new(buffer), 0..len)
        };
        self.transfer(range, run, &mut filled, each);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}
