//! Work in a process of its own, and what a fork needs.
#![allow(unsafe_code)]

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::{ForkResult, Pid, fork, pipe2},
};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    panic::{self, AssertUnwindSafe},
};

/// Has the work done by a process of its own, which gets one end of a pipe and ends after it. Gives the process and the other
/// end, which never makes its reader wait.
pub fn apart(work: impl FnOnce(File)) -> io::Result<(Pid, OwnedFd)> {
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // SAFETY: this process may have other threads, so the child has whatever locks they held. Both C libraries hold their
    // allocators' over a fork; the work writes no log, and the child never returns from here.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok((child, ours)),
        ForkResult::Child => {
            close_all_but(theirs.as_raw_fd());
            // To unwind would be to go on as the parent.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| work(File::from(theirs))));
            // SAFETY: runs nothing of ours.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Leaves a child nothing of its parent but one descriptor: nobody who waits for the end of the parent's output shall wait
/// for the child's too, nor for another child's pipe.
fn close_all_but(kept: RawFd) {
    // SAFETY: the child is alone with its descriptors, and ends without using any other.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..3 {
            if standard != kept && (null < 0 || libc::dup2(null, standard) < 0) {
                libc::close(standard);
            }
        }
        let close_range = |first: RawFd, last: libc::c_uint| {
            let Ok(first) = libc::c_uint::try_from(first.max(3)) else { return };
            if first <= last && libc::syscall(libc::SYS_close_range, first, last, 0) < 0 {
                // Kernels before 5.9.
                for descriptor in first..=last.min(1023) {
                    libc::close(RawFd::try_from(descriptor).unwrap_or(-1));
                }
            }
        };
        close_range(3, libc::c_uint::try_from(kept.saturating_sub(1)).unwrap_or(0));
        close_range(kept.saturating_add(1), libc::c_uint::MAX);
    }
}
