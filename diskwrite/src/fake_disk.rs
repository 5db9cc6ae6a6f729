//! A disk in memory for tests: it completes requests in any order, cuts them short, refuses them, fails, or loses power.

use crate::request::{Answer, Request, Target, Work};
use std::io;

/// What came to a disk, in order.
pub(crate) enum Op {
    /// From now on the disk may have stored this.
    Start { id: usize, at: usize, data: Vec<u8> },
    /// So much of it is in the disk's cache.
    Done { id: usize, len: usize },
    /// What is in the cache is on the medium.
    Sync,
}

/// The medium after the power went when `log` had come this far: of what was not done before the last flush, the disk had
/// stored what `stored` has a bit for.
pub(crate) fn after_power_loss(log: &[Op], medium: &mut [u8], stored: u32) {
    let flushed = log.iter().rposition(|op| matches!(op, Op::Sync)).unwrap_or(0);
    let safe = |id: usize| {
        let done = log[..flushed].iter().find_map(|op| match op {
            Op::Done { id: done, len } if *done == id => Some(*len),
            _ => None,
        });
        done.unwrap_or(0)
    };
    for op in log {
        let Op::Start { id, at, data } = op else { continue };
        let all = stored.rotate_right(u32::try_from(id % 32).unwrap()) & 1 == 1;
        let len = if all { data.len() } else { safe(*id) };
        medium[*at..at + len].copy_from_slice(&data[..len]);
    }
}

/// Each request may be cut short, and from one on everything fails.
pub(crate) struct FakeDisk {
    pub bytes: Vec<u8>,
    pub log: Vec<Op>,
    pub ops: usize,
    pub fail_from: usize,
    pub fails: usize,
    pub error: i32,
    pub short_every: usize,
    /// Whether it zeroes ranges.
    pub zero_range: bool,
    /// While set, requests are refused with EINVAL.
    pub picky: bool,
    /// Most requests there were at a time.
    pub most: usize,
    pub zero_requests: Vec<(u64, usize)>,
    under_way: Vec<(usize, Request)>,
    order: fastrand::Rng,
    next_id: usize,
    failed: bool,
}

impl FakeDisk {
    pub(crate) fn new(len: usize, seed: u64) -> Self {
        // Old tables everywhere, to see them go.
        let mut bytes = vec![0xEE; len];
        bytes[510..520].copy_from_slice(b"\x55\xAAEFI PART");
        bytes[len - 512..len - 504].copy_from_slice(b"EFI PART");
        Self {
            bytes,
            log: Vec::new(),
            ops: 0,
            fail_from: usize::MAX,
            fails: usize::MAX,
            error: libc::EIO,
            short_every: usize::MAX,
            zero_range: true,
            picky: false,
            most: 0,
            zero_requests: Vec::new(),
            under_way: Vec::new(),
            order: fastrand::Rng::with_seed(seed),
            next_id: 0,
            failed: false,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    fn op(&mut self) -> io::Result<()> {
        self.ops += 1;
        if self.ops >= self.fail_from && self.fails > 0 {
            self.fails -= 1;
            return Err(io::Error::from_raw_os_error(self.error));
        }
        Ok(())
    }

    fn complete(&mut self, id: usize, request: &mut Request) -> io::Result<usize> {
        if self.picky {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let (at, remaining) = (usize::try_from(request.position()).unwrap(), request.remaining());
        let short = self.ops % self.short_every == self.short_every - 1;
        let result = self.op();
        let zero = matches!(request.work, Work::Zero(_));
        // A request that fails may still have changed some of what it was meant to.
        let half = (remaining / 2).next_multiple_of(512).min(remaining);
        let len = if result.is_err() || short && !zero { half } else { remaining };
        match &mut request.work {
            Work::Write(..) => self.bytes[at..at + len].copy_from_slice(&request.source()[..len]),
            Work::Zero(_) => self.bytes[at..at + len].fill(0),
            Work::Read(_) => request.destination()[..len].copy_from_slice(&self.bytes[at..at + len]),
        }
        result?;
        self.log.push(Op::Done { id, len });
        Ok(len)
    }
}

impl Target for &mut FakeDisk {
    fn start(&mut self, request: Request) {
        assert!(!self.failed || self.under_way.is_empty(), "started after a failure");
        self.failed = false;
        let id = self.next_id;
        self.next_id += 1;
        let at = usize::try_from(request.position()).unwrap();
        match &request.work {
            Work::Write(..) => self.log.push(Op::Start { id, at, data: request.source().to_vec() }),
            Work::Zero(_) if self.zero_range => {
                self.zero_requests.push((request.position(), request.remaining()));
                self.log.push(Op::Start { id, at, data: vec![0; request.remaining()] });
            }
            Work::Zero(_) | Work::Read(_) => {}
        }
        self.under_way.push((id, request));
        self.most = self.most.max(self.under_way.len());
    }

    fn next(&mut self) -> Option<Answer> {
        let index = self.order.usize(..self.under_way.len().max(1));
        if self.under_way.is_empty() {
            return None;
        }
        let (id, mut request) = self.under_way.swap_remove(index);
        if matches!(request.work, Work::Zero(_)) && !self.zero_range {
            return Some(Answer { request, result: Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)) });
        }
        let result = self.complete(id, &mut request);
        self.failed |= matches!(&result, Err(error) if error.raw_os_error() == Some(libc::EIO));
        self.failed &= !matches!(request.work, Work::Zero(_));
        Some(Answer { request, result })
    }

    fn sync(&mut self) -> io::Result<()> {
        assert!(self.under_way.is_empty(), "flushed while something is under way");
        self.op()?;
        self.log.push(Op::Sync);
        Ok(())
    }

    fn leave_direct(&mut self) -> io::Result<()> {
        self.picky = false;
        Ok(())
    }

    fn forget_cache(&mut self) {}
}
