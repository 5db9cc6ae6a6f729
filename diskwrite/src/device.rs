//! A disk as a target: direct I/O where the disk takes it, by io_uring where the kernel lets us, else by threads.

use crate::flight::DEPTH;
use crate::request::{Answer, Request, Target};
use crate::threads::Threads;
use kernel::queue::Ring;
use nix::fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise};
use std::{fs::File, io};

pub(crate) struct Device<'a> {
    file: &'a File,
    direct: bool,
    engine: Engine<'a>,
}

enum Engine<'a> {
    Ring(Ring<'a>),
    Threads(Threads),
}

impl<'a> Device<'a> {
    /// Switches the descriptor to direct I/O if it can.
    pub(crate) fn new(file: &'a File) -> io::Result<Self> {
        Self::with_ring(file).or_else(|error| {
            tracing::debug!(%error, "no io_uring, using threads");
            Self::with_threads(file)
        })
    }

    /// With io_uring, or not at all.
    pub(crate) fn with_ring(file: &'a File) -> io::Result<Self> {
        Ok(Self::with(file, Engine::Ring(Ring::new(file, DEPTH)?)))
    }

    /// Without io_uring.
    pub(crate) fn with_threads(file: &'a File) -> io::Result<Self> {
        Ok(Self::with(file, Engine::Threads(Threads::new(file)?)))
    }

    fn with(file: &'a File, engine: Engine<'a>) -> Self {
        let mut device = Self { file, direct: false, engine };
        device.direct = device.set_direct(true).inspect_err(|error| tracing::debug!(%error, "no direct I/O")).is_ok();
        device
    }

    fn set_direct(&self, on: bool) -> nix::Result<()> {
        let mut flags = OFlag::from_bits_retain(fcntl(self.file, FcntlArg::F_GETFL)?);
        flags.set(OFlag::O_DIRECT, on);
        fcntl(self.file, FcntlArg::F_SETFL(flags)).map(drop)
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        while self.next().is_some() {}
        // The next user of the descriptor may not have aligned memory.
        let _ = self.leave_direct();
    }
}

impl Target for Device<'_> {
    fn start(&mut self, request: Request) {
        match &mut self.engine {
            Engine::Ring(ring) => ring.start(request),
            Engine::Threads(threads) => threads.start(request),
        }
    }

    fn next(&mut self) -> Option<Answer> {
        match &mut self.engine {
            Engine::Ring(ring) => ring.next(),
            Engine::Threads(threads) => threads.next(),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn leave_direct(&mut self) -> io::Result<()> {
        if self.direct {
            self.set_direct(false)?;
            self.direct = false;
        }
        Ok(())
    }

    /// The clean pages, which all are after a flush, are dropped, also where reads are direct: a driver may refuse those.
    fn forget_cache(&mut self) {
        if let Err(error) = posix_fadvise(self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED) {
            tracing::debug!(%error, "cannot drop the page cache");
        }
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
