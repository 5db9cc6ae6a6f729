//! A signal handler that announces the end of a service to systemd (sd_notify(3)).
#![allow(unsafe_code)]

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::{
    io,
    os::{
        fd::{AsRawFd, IntoRawFd},
        unix::net::UnixDatagram,
    },
    sync::atomic::{AtomicI32, Ordering},
};

/// A duplicate of the notification socket that stays open; -1 before there is one.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
const MESSAGE: &[u8] = b"STOPPING=1";

/// From now on `signal` first tells systemd that the agent stops; then it ends the process as usual, at once: nothing
/// needs saving.
pub fn announce_stop(signal: Signal, socket: &UnixDatagram) -> io::Result<()> {
    if SOCKET.load(Ordering::Relaxed) < 0 {
        let socket = socket.try_clone()?;
        let fd = socket.as_raw_fd();
        if SOCKET.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let _ = socket.into_raw_fd();
        }
    }
    // The handler is gone when it is entered, so that the signal it raises has its usual effect.
    let action = SigAction::new(SigHandler::Handler(stopping), SaFlags::SA_RESETHAND, SigSet::empty());
    // SAFETY: the handler calls only async-signal-safe functions, send and raise, and touches no memory but an atomic and
    // constants.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

extern "C" fn stopping(signal: libc::c_int) {
    let socket = SOCKET.load(Ordering::Relaxed);
    // SAFETY: the message is a constant of the given length; a closed descriptor causes an error, which is ignored.
    unsafe {
        libc::send(socket, MESSAGE.as_ptr().cast(), MESSAGE.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::{
        sys::wait::{WaitStatus, waitpid},
        unistd::{ForkResult, fork},
    };

    #[test]
    fn a_signal_is_announced_and_still_ends_the_process() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        // SAFETY: the child of a threaded test calls only system calls and functions that don't allocate.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let _ = announce_stop(Signal::SIGTERM, &theirs);
                let _ = nix::sys::signal::raise(Signal::SIGTERM);
                // SAFETY: ends the process without running anything of ours.
                unsafe { libc::_exit(7) }
            }
            ForkResult::Parent { child } => {
                let mut buffer = [0; 64];
                let len = ours.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..len], MESSAGE);
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Signaled(child, Signal::SIGTERM, false));
            }
        }
    }
}
