//! The one place with system calls that need `unsafe`: a reboot that outlives the process that asks for it, flags of
//! files.
#![allow(unsafe_code)]

use std::{fs::File, io, os::fd::AsRawFd, time::Duration};

/// systemd's "start reboot.target" is SIGRTMIN+5 (systemd(1), Signals). The C library of the host decides what SIGRTMIN
/// is, and that is glibc, which keeps 32 and 33: 34 + 5. musl, which this program may be built with, would say 35 + 5,
/// and that is kexec.
const SYSTEMD_REBOOT: libc::c_int = 39;
/// An orderly shutdown stops every service, each with 90 s to comply; only then is it stuck.
const ORDERLY_SHUTDOWN: Duration = Duration::from_secs(600);

/// Leaves behind a process that sleeps for `delay` and then reboots the machine: by systemd when it is PID 1, else, or
/// when systemd does not manage, by reboot(2). The caller can report its end meanwhile.
pub(crate) fn reboot_later(delay: Duration, systemd: bool) -> io::Result<()> {
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

/// `FS_IMMUTABLE_FL` of linux/fs.h.
const IMMUTABLE: libc::c_int = 0x10;

mod ioctl {
    // FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of linux/fs.h: their numbers are made with the size of a long, and the kernel reads and
    // writes an int.
    nix::ioctl_read_bad!(get_flags, nix::request_code_read!(b'f', 1, size_of::<libc::c_long>()), libc::c_int);
    nix::ioctl_write_ptr_bad!(set_flags, nix::request_code_write!(b'f', 2, size_of::<libc::c_long>()), libc::c_int);
}

/// Lets a file be changed that was protected against root too (`chattr -i`). Where there are no such flags, none is set.
pub(crate) fn clear_immutable(file: &File) -> io::Result<()> {
    let mut flags: libc::c_int = 0;
    // SAFETY: the descriptor is open and the kernel writes one int to a live int.
    if unsafe { ioctl::get_flags(file.as_raw_fd(), &raw mut flags) }.is_err() || flags & IMMUTABLE == 0 {
        return Ok(());
    }
    let flags = flags & !IMMUTABLE;
    // SAFETY: the descriptor is open and the kernel reads one int from a live int.
    unsafe { ioctl::set_flags(file.as_raw_fd(), &raw const flags) }.map(drop).map_err(io::Error::from)
}
