//! Requests under way to a disk: how many, and what is done with one that comes back short, interrupted or refused.

use crate::buffer::Buffer;
use crate::request::{Answer, Request, Target, Work};
use std::{collections::VecDeque, io, sync::Arc, thread, time::Duration};

/// Enough of a few MiB each to keep any disk busy. The memory is the caller's, and bounded by its pool.
pub(crate) const DEPTH: usize = 16;
/// No more than this is written, hashed or read back at once; also the smallest range that an error can name.
pub(crate) const RUN_BYTES: usize = 4 << 20;
/// Zeros written at once where the kernel has no better way.
const ZERO_BYTES: usize = 1 << 20;
/// A disk or kernel out of memory for requests gets this long to find some: ten seconds in all.
const AGAIN_TRIES: u32 = 1000;
const AGAIN_PAUSE: Duration = Duration::from_millis(10);

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Byte of the disk of what was not done.
    pub offset: u64,
    /// Bytes not done.
    pub len: u64,
    pub kind: Kind,
    pub source: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Read,
    Zero,
}

impl Failed {
    fn new(request: &Request, source: io::Error) -> Self {
        let kind = match request.work {
            Work::Write(..) => Kind::Write,
            Work::Read(_) => Kind::Read,
            Work::Zero(_) => Kind::Zero,
        };
        Self { offset: request.position(), len: bytes(request.remaining()), kind, source }
    }
}

/// Keeps up to [`DEPTH`] requests under way. Any error it returns means that none is under way any more and that what
/// waited was dropped; the next request starts afresh.
pub(crate) struct Flight<T> {
    target: T,
    under_way: usize,
    /// To be started, or started again, before anything new.
    waiting: VecDeque<Request>,
    ended: VecDeque<Request>,
    failed: Option<Failed>,
    /// Whether the kernel zeroes ranges.
    zero_range: bool,
    zeros: Option<Arc<Buffer>>,
    written: u64,
}

impl<T: Target> Flight<T> {
    pub(crate) fn new(target: T) -> Self {
        Self {
            target,
            under_way: 0,
            waiting: VecDeque::new(),
            ended: VecDeque::new(),
            failed: None,
            zero_range: true,
            zeros: None,
            written: 0,
        }
    }

    /// Starts a request once there is room.
    pub(crate) fn push(&mut self, request: Request) -> Result<(), Failed> {
        self.waiting.push_back(request);
        self.start_waiting();
        while !self.waiting.is_empty() {
            self.wait()?;
        }
        self.check()
    }

    /// Whether none is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Waits for one request to come back; false if none is under way.
    pub(crate) fn wait(&mut self) -> Result<bool, Failed> {
        let waited = self.take_one();
        self.check()?;
        Ok(waited)
    }

    /// Waits until none is under way.
    pub(crate) fn settle(&mut self) -> Result<(), Failed> {
        while self.wait()? {}
        Ok(())
    }

    /// A request that was done in full.
    pub(crate) fn ended(&mut self) -> Option<Request> {
        self.ended.pop_front()
    }

    /// Bytes written or zeroed so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Waits until all that was asked for is done and on the medium. The outer error is the flush's.
    pub(crate) fn sync(&mut self) -> io::Result<Result<(), Failed>> {
        match self.settle() {
            Ok(()) => self.target.sync().map(Ok),
            Err(failed) => Ok(Err(failed)),
        }
    }

    /// Makes reads come from the disk, as far as the kernel lets us.
    pub(crate) fn forget_cache(&mut self) {
        self.target.forget_cache();
    }

    /// The failure, after waiting for all that is still under way: its memory must not be reused before.
    fn check(&mut self) -> Result<(), Failed> {
        if self.failed.is_some() {
            while self.take_one() {}
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn take_one(&mut self) -> bool {
        if self.under_way == 0 {
            return false;
        }
        let Some(Answer { mut request, result }) = self.target.next() else {
            self.under_way = 0;
            let missing = Request::new(0, Work::Zero(0));
            self.fail(&missing, io::Error::other("requests were lost"));
            return false;
        };
        self.under_way -= 1;
        match result {
            Ok(0) if request.remaining() > 0 => {
                let kind = match request.work {
                    Work::Read(_) => io::ErrorKind::UnexpectedEof,
                    _ => io::ErrorKind::WriteZero,
                };
                self.fail(&request, kind.into());
            }
            Ok(count) => {
                let count = count.min(request.remaining());
                request.done = request.done.saturating_add(count);
                if !matches!(request.work, Work::Read(_)) {
                    self.written = self.written.saturating_add(bytes(count));
                }
                if request.remaining() == 0 { self.ended.push_back(request) } else { self.waiting.push_front(request) }
            }
            Err(error) => self.refused(request, error),
        }
        self.start_waiting();
        true
    }

    fn refused(&mut self, mut request: Request, error: io::Error) {
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) if request.tries < AGAIN_TRIES => {
                request.tries += 1;
                thread::sleep(AGAIN_PAUSE);
            }
            _ if matches!(request.work, Work::Zero(_)) => {
                tracing::debug!(%error, offset = request.position(), "the kernel cannot zero ranges, writing zeros");
                self.zero_range = false;
            }
            // Some drivers want more alignment than a page, or a short write left an odd rest. A few requests may have
            // been under way when the first was refused.
            Some(libc::EINVAL) if request.tries == 0 => {
                tracing::debug!(
                    offset = request.position(),
                    len = request.remaining(),
                    "request refused, trying the page cache"
                );
                if let Err(error) = self.target.leave_direct() {
                    return self.fail(&request, error);
                }
                request.tries = AGAIN_TRIES;
            }
            _ => return self.fail(&request, error),
        }
        self.waiting.push_front(request);
    }

    fn fail(&mut self, request: &Request, error: io::Error) {
        self.waiting.clear();
        if self.failed.is_none() {
            self.failed = Some(Failed::new(request, error));
        }
    }

    fn start_waiting(&mut self) {
        if self.failed.is_some() {
            self.waiting.clear();
        }
        while self.under_way < DEPTH {
            let Some(request) = self.waiting.pop_front() else { return };
            let request = match request.work {
                Work::Zero(_) if !self.zero_range => self.plain_zeros(request),
                _ => request,
            };
            self.target.start(request);
            self.under_way += 1;
        }
    }

    /// A write of zeros for the start of what is to be zeroed; the rest waits.
    fn plain_zeros(&mut self, mut request: Request) -> Request {
        let zeros = self.zeros.get_or_insert_with(|| {
            let mut zeros = Buffer::new(ZERO_BYTES);
            zeros.set_len(ZERO_BYTES);
            Arc::new(zeros)
        });
        let count = request.remaining().min(zeros.len());
        let write = Request::new(request.position(), Work::Write(zeros.clone(), 0..count));
        request.done = request.done.saturating_add(count);
        if request.remaining() > 0 {
            self.waiting.push_front(request);
        }
        write
    }
}

/// A length as a number of bytes on a disk.
pub(crate) fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
