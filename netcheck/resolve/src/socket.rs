//! Sockets that do not wait, and waiting for many of them at once.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage},
};
use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::fd::{AsRawFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

/// Begins to connect; [`is_connected`] gives the result.
pub(crate) fn start_connecting(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, SockType::Stream, flags, None)?;
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => Ok(socket.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether the connection is there; the error is why it never will be.
pub(crate) fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// What to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Readiness {
    Readable,
    Writable,
}

/// Until one of `sockets` is ready, or until then; sometimes less long.
pub(crate) fn wait<'fd>(sockets: impl Iterator<Item = (BorrowedFd<'fd>, Readiness)>, until: Instant) {
    let mut fds: Vec<PollFd> = sockets
        .map(|(fd, readiness)| match readiness {
            Readiness::Readable => PollFd::new(fd, PollFlags::POLLIN),
            Readiness::Writable => PollFd::new(fd, PollFlags::POLLOUT),
        })
        .collect();
    let remaining = until.saturating_duration_since(Instant::now());
    // Rounded up: a wait of nothing would be one of many.
    let timeout = PollTimeout::try_from(remaining + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    if poll(&mut fds, timeout).is_err() {
        // A signal, or no memory: look again, but not at once.
        thread::sleep(remaining.min(Duration::from_millis(1)));
    }
}
