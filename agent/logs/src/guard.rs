//! Ends the program in time, or on a signal, and leaves nothing behind.

use super::EXIT_LATE;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use std::{
    fs, io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Starts a thread that on SIGTERM or SIGINT, or after `limit`, removes `cleanup` and ends the program. Signals are blocked in the
/// calling thread and those it starts.
pub(super) fn watch(cleanup: Vec<PathBuf>, limit: Duration) -> io::Result<()> {
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    signals.thread_block()?;
    let descriptor = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;
    let watch = move || {
        let start = Instant::now();
        let signalled = loop {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                break false;
            }
            let timeout = PollTimeout::try_from(left.min(Duration::from_secs(600))).unwrap_or(PollTimeout::MAX);
            if let Ok(1..) = poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], timeout) {
                break true;
            }
        };
        super::programs::end_all();
        cleanup.iter().for_each(|path| remove(path));
        if signalled {
            tracing::warn!("ended by a signal, removed all files");
            std::process::exit(128 + libc::SIGTERM);
        }
        tracing::error!("gathering and sending took longer than {} s", limit.as_secs());
        std::process::exit(EXIT_LATE.into());
    };
    thread::Builder::new().name("watch".into()).spawn(watch).map(drop)
}

/// Removes a file, or a directory with all in it.
pub(super) fn remove(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove this, remove it by hand");
    }
}
