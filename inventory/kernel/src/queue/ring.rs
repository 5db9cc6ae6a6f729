//! Requests carried out by io_uring.
#![allow(unsafe_code)]

use super::{Answer, Request, Work, zero_range};
use io_uring::{IoUring, Probe, opcode, types::Fd};
use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    thread,
    time::Duration,
};

/// Between two looks at a ring that can no longer be waited on.
const POLL: Duration = Duration::from_millis(1);
/// Tries of io_uring_enter to find memory, every `POLL`, before a request fails.
const ENTER_TRIES: u32 = 1000;
/// `IORING_ENTER_GETEVENTS` of linux/io_uring.h.
const GETEVENTS: u32 = 1;
/// Of the request that shows that the ring works.
const PROBE: u64 = u64::MAX;

/// A queue of the kernel's, over one file.
pub struct Ring<'a> {
    ring: IoUring,
    file: BorrowedFd<'a>,
    /// Requests the kernel has, by the number it gives back with the result. Their memory stays where it is until then.
    slots: Vec<Option<Request>>,
    under_way: usize,
    /// Could not be started.
    unstarted: VecDeque<Answer>,
    /// The queue holds an entry that must never be taken.
    broken: bool,
}

impl<'a> Ring<'a> {
    /// For `depth` requests at a time. Fails where the kernel is too old, has it disabled (`kernel.io_uring_disabled`), or
    /// a filter forbids any of the calls: all are made once.
    pub fn new(file: &'a File, depth: usize) -> io::Result<Self> {
        let ring = IoUring::new(u32::try_from(depth).map_err(io::Error::other)?)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fallocate::CODE];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let slots = (0..depth).map(|_| None).collect();
        let mut ring =
            Self { ring, file: file.as_fd(), slots, under_way: 0, unstarted: VecDeque::new(), broken: false };
        let nop = opcode::Nop::new().build().user_data(PROBE);
        // SAFETY: the entry points to no memory.
        unsafe { ring.ring.submission().push(&nop) }.map_err(io::Error::other)?;
        ring.ring.submit_and_wait(1)?;
        let answer = ring.ring.completion().next();
        match answer {
            Some(entry) if entry.user_data() == PROBE && entry.result() >= 0 => Ok(ring),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Starts a request, which comes back with [`next`](Self::next) even if it can't be started.
    pub fn start(&mut self, request: Request) {
        if let Err((request, error)) = self.try_start(request) {
            self.unstarted.push_back(Answer { request, result: Err(error) });
        }
    }

    fn try_start(&mut self, request: Request) -> Result<(), (Request, io::Error)> {
        let free = self.slots.iter_mut().enumerate().find(|(_, slot)| slot.is_none());
        let (Some((number, slot)), Ok(left)) = (free, u32::try_from(request.remaining())) else {
            return Err((request, io::Error::other("more requests, or a longer one, than the ring was made for")));
        };
        let Ok(number) = u64::try_from(number) else { return Err((request, io::ErrorKind::Unsupported.into())) };
        if self.broken {
            return Err((request, io::Error::other("io_uring accepted no more requests")));
        }
        let request = slot.insert(request);
        let (fd, position) = (Fd(self.file.as_raw_fd()), request.position());
        let entry = match &request.work {
            Work::Write(..) => opcode::Write::new(fd, request.source().as_ptr(), left).offset(position).build(),
            Work::Read(_) => opcode::Read::new(fd, request.destination().as_mut_ptr(), left).offset(position).build(),
            Work::Zero(_) => opcode::Fallocate::new(fd, left.into()).offset(position).mode(zero_range().bits()).build(),
        };
        let entry = entry.user_data(number);
        // SAFETY: source and destination are `left` bytes long, and a buffer's memory stays where it is. The slot keeps
        // the request, and nothing touches it, until the kernel has given it back, which Drop waits for; what it writes is
        // shared, but only read. The descriptor is borrowed for as long as the ring lives.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        let started = pushed.map_err(io::Error::other).and_then(|()| self.submit());
        match started {
            Ok(()) => {
                self.under_way += 1;
                Ok(())
            }
            Err(error) => {
                // The entry stays in the queue and points to memory that is given back here: nothing may be taken from
                // the queue any more.
                self.broken = true;
                let request = usize::try_from(number).ok().and_then(|number| self.slots.get_mut(number)?.take());
                request.map_or(Ok(()), |request| Err((request, error)))
            }
        }
    }

    /// Makes the kernel take the entry. After an error it has not.
    fn submit(&mut self) -> io::Result<()> {
        let mut tries = 0;
        loop {
            let error = match self.ring.submit() {
                Ok(_) if self.ring.submission().is_empty() => return Ok(()),
                Ok(_) => io::Error::from_raw_os_error(libc::EAGAIN),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::EBUSY) if tries < ENTER_TRIES => {
                    tries += 1;
                    thread::sleep(POLL);
                }
                _ => return Err(error),
            }
        }
    }
}

impl Iterator for Ring<'_> {
    type Item = Answer;

    /// Waits for any request to complete; None when none is pending.
    fn next(&mut self) -> Option<Answer> {
        if let Some(answer) = self.unstarted.pop_front() {
            return Some(answer);
        }
        while self.under_way > 0 {
            if let Some(entry) = self.ring.completion().next() {
                let slot = usize::try_from(entry.user_data()).ok().and_then(|number| self.slots.get_mut(number));
                let Some(request) = slot.and_then(Option::take) else { continue };
                self.under_way -= 1;
                let result = match usize::try_from(entry.result()) {
                    // The result for a zeroed range is not a count.
                    Ok(_) if matches!(request.work, Work::Zero(_)) => Ok(request.remaining()),
                    Ok(count) => Ok(count),
                    Err(_) => Err(io::Error::from_raw_os_error(entry.result().saturating_neg())),
                };
                return Some(Answer { request, result });
            }
            // SAFETY: nothing is submitted, and no argument is given.
            let waited = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 1, GETEVENTS, None) };
            if waited.is_err_and(|error| error.raw_os_error() != Some(libc::EINTR)) {
                // What the kernel has taken ends all the same, and its memory must not go before.
                thread::sleep(POLL);
            }
        }
        None
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}
