//! The one event loop a check runs on: on the caller's thread, so in its network namespace and with its capabilities.

use std::{io, os::fd::OwnedFd};
use tokio::{io::unix::AsyncFd, runtime, task::LocalSet};

/// Runs `work` to its end. Not to be called from within another event loop.
pub(crate) fn run<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(LocalSet::new().block_on(&runtime, work))
}

/// Hands a non-blocking socket to the event loop.
#[allow(unsafe_code)] // tokio's, which no crate below this one has
pub(crate) fn watch(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open, always the same descriptor, and closed only when it is dropped.
    unsafe { AsyncFd::register(socket) }.map_err(io::Error::from)
}
