//! Forks, and the preparation of a child between fork and exec.
#![allow(unsafe_code)]

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::{
        prctl::set_pdeathsig,
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
    },
    unistd::{ForkResult, Pid, pipe2},
};
use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::{
            ffi::OsStrExt,
            process::{CommandExt, parent_id},
        },
    },
    panic::{self, AssertUnwindSafe},
    path::Path,
    process::Command,
    time::Duration,
};

/// systemd's "start reboot.target" is SIGRTMIN+5 (systemd(1), Signals). The C library of the host decides what SIGRTMIN
/// is, and that is glibc, which keeps 32 and 33: 34 + 5. musl, which this program may be built with, would say 35 + 5,
/// and that is kexec.
const SYSTEMD_REBOOT: libc::c_int = 39;
/// An orderly shutdown stops every service, each with 90 s to comply; only then is it stuck.
const ORDERLY_SHUTDOWN: Duration = Duration::from_secs(600);

/// Runs `work` in a forked process, which gets the writing end of a pipe. Returns the process and the reading end, which is
/// non-blocking.
pub fn apart(work: impl FnOnce(File)) -> io::Result<(Pid, OwnedFd)> {
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // SAFETY: this process may have other threads, so the child has whatever locks they held. Both C libraries hold their
    // allocators' over a fork; the work writes no log, and the child never returns from here.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok((child, ours)),
        ForkResult::Child => {
            close_all_but(theirs.as_raw_fd(), crate::megaraid::prepared());
            // Unwinding would continue as the parent.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| work(File::from(theirs))));
            // SAFETY: runs nothing of ours.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Closes all descriptors that a child has from its parent but these: a reader that waits for the end of the parent's output must not
/// wait for the child too, nor a reader of another child's pipe.
fn close_all_but(pipe: RawFd, device: Option<RawFd>) {
    let mut left_open = [pipe, device.unwrap_or(pipe)];
    left_open.sort_unstable();
    // SAFETY: the child is alone with its descriptors, and ends without using any other.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..3 {
            if !left_open.contains(&standard) && (null < 0 || libc::dup2(null, standard) < 0) {
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
        let mut first = 3;
        for descriptor in left_open {
            if let Ok(last) = libc::c_uint::try_from(descriptor.saturating_sub(1)) {
                close_range(first, last);
            }
            first = descriptor.saturating_add(1);
        }
        close_range(first, libc::c_uint::MAX);
    }
}

/// Forks a process that is killed when the calling thread ends. Returns `None` in that process.
pub fn fork() -> io::Result<Option<Pid>> {
    let us = std::process::id();
    // SAFETY: the process has one thread, as its documentation asks for, so the child has all of a process.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Some(child)),
        ForkResult::Child => {
            // We may have ended before that took effect.
            if set_pdeathsig(Signal::SIGKILL).is_err() || parent_id() != us {
                exit()
            }
            Ok(None)
        }
    }
}

/// Ends this process without touching what it shares with its parent, such as buffered output.
pub fn exit() -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(0) }
}

extern "C" fn nothing(_: libc::c_int) {}

/// Makes signals that would end this process do nothing. Unlike ignored signals, this is not inherited by programs.
pub fn outlive_signals() {
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the handler does nothing.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// Sends `command`'s program this signal when the thread that starts it ends.
pub fn end_with_this_thread(command: &mut Command, signal: Signal) {
    let us = std::process::id();
    let prepare = move || {
        set_pdeathsig(signal)?;
        // We may have ended before that took effect.
        if parent_id() == us { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called: prctl and getppid are, and making an error
    // from a number does not allocate.
    unsafe { command.pre_exec(prepare) };
}

/// Makes `command` run with `root` as its root directory; with `writable_boot` also with its own mount table, where /boot
/// is writable.
pub fn run_in_root(command: &mut Command, root: &Path, writable_boot: bool) {
    let root = CString::new(root.as_os_str().as_bytes());
    let prepare = move || {
        let Ok(root) = &root else { return Err(io::ErrorKind::InvalidInput.into()) };
        // SAFETY: all pointers are to strings that outlive the calls, or null where the kernel ignores them.
        unsafe {
            done(libc::chroot(root.as_ptr()))?;
            done(libc::chdir(c"/".as_ptr()))?;
            if writable_boot {
                let none = std::ptr::null::<libc::c_void>();
                done(libc::unshare(libc::CLONE_NEWNS))?;
                // Without this the change would reach the node's other mount tables.
                let private = libc::MS_REC | libc::MS_PRIVATE;
                done(libc::mount(none.cast(), c"/".as_ptr(), none.cast(), private, none))?;
                done(libc::mount(none.cast(), c"/boot".as_ptr(), none.cast(), libc::MS_REMOUNT, none))?;
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called: these are bare system calls, and making an
    // error from a number or a kind allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts a process that sleeps for `delay` and then reboots the machine: by systemd when it is PID 1, else, or when
/// systemd does not manage to, by reboot(2). The caller can report its end meanwhile.
pub fn reboot_later(delay: Duration, systemd: bool) -> io::Result<()> {
    let wait = timespec(delay);
    let patience = timespec(ORDERLY_SHUTDOWN);
    // SAFETY: the child of a threaded process may call only async-signal-safe functions until it ends: everything in
    // `detach` and below is, and it ends in _exit.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            detach();
            sleep(wait);
            if systemd {
                // SAFETY: kill takes two integers.
                unsafe { libc::kill(1, SYSTEMD_REBOOT) };
                sleep(patience);
            }
            // SAFETY: none of these touches memory of ours.
            unsafe {
                libc::sync();
                libc::reboot(libc::RB_AUTOBOOT);
                libc::_exit(1)
            }
        }
        _ => Ok(()),
    }
}

/// Starts a process that sleeps for `delay` and then does `work`. The caller can report its end meanwhile.
pub fn later(delay: Duration, work: impl FnOnce()) -> io::Result<()> {
    let wait = timespec(delay);
    // SAFETY: as in `apart`.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { .. } => Ok(()),
        ForkResult::Child => {
            detach();
            sleep(wait);
            let _ = panic::catch_unwind(AssertUnwindSafe(work));
            exit()
        }
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    // SAFETY: all zero is a valid timespec.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // Always fits: a day at most comes here. Its type isn't named, as that differs between libraries.
    time.tv_sec = duration.as_secs().try_into().unwrap_or(86_400);
    time
}

/// Own session, no shared pipes (the reader of ours must see their end), and SIGTERM ends it: PID 1's shutdown then
/// doesn't wait for this process.
fn detach() {
    // SAFETY: integers and pointers to locals or literals that outlive the calls.
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null >= 0 {
            for fd in 0..=2 {
                libc::dup2(null, fd);
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

fn sleep(duration: libc::timespec) {
    let mut left = duration;
    // SAFETY: both pointers are to a live timespec; it is updated with what is left when a signal interrupts.
    while unsafe { libc::nanosleep(&raw const left, &raw mut left) } != 0 {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn another_process_does_what_is_to_be_done_later() {
        let dir = tempfile::tempdir().unwrap();
        let (draft, file) = (dir.path().join("draft"), dir.path().join("id"));
        let write = || drop(fs::write(&draft, std::process::id().to_string()).and_then(|()| fs::rename(&draft, &file)));
        later(Duration::ZERO, write).unwrap();
        let id = testkit::wait::found(|| fs::read_to_string(&file).ok()).expect("nothing was done");
        assert_ne!(id, std::process::id().to_string());
    }
}
