//! The one place with `unsafe`: forks, what a program does before it is executed, and descriptors that came over a socket.
#![allow(unsafe_code)]

use nix::{
    mount::MsFlags,
    sys::{
        prctl::set_pdeathsig,
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
        socket::{ControlMessageOwned, RecvMsg},
    },
    unistd::{ForkResult, Pid},
};
use std::{
    ffi::CString,
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            process::{CommandExt, parent_id},
        },
    },
    path::Path,
    process::Command,
};

/// Forks a process that is killed when the calling thread ends. Gives `None` there.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
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

/// Ends this process and leaves alone what it shares with the one that forked it, such as buffered output.
pub(crate) fn exit() -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(0) }
}

extern "C" fn nothing(_: libc::c_int) {}

/// Has signals that would end this process do nothing. Unlike ignoring them, this is not passed on to programs.
pub(crate) fn outlive_signals() {
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the handler does nothing.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// Has `command`'s program get SIGTERM when the thread that starts it ends.
pub(crate) fn end_with_this_thread(command: &mut Command) {
    let us = std::process::id();
    let prepare = move || {
        set_pdeathsig(Signal::SIGTERM)?;
        // We may have ended before that took effect.
        if parent_id() == us { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called: prctl and getppid are, and making an error
    // from a number does not allocate.
    unsafe { command.pre_exec(prepare) };
}

/// Makes `command` run with `root` as its root directory; with `writable_boot` also with a mount table of its own, where /boot can
/// be written to.
pub(crate) fn run_in_root(command: &mut Command, root: &Path, writable_boot: bool) {
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

/// All that came with a message; each is closed when it is dropped.
pub(crate) fn descriptors<S>(message: &RecvMsg<'_, '_, S>) -> io::Result<Vec<OwnedFd>> {
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: the kernel has just made these for us, and nobody else knows of them.
            descriptors.extend(raw.into_iter().map(|raw| unsafe { OwnedFd::from_raw_fd(raw) }));
        }
    }
    Ok(descriptors)
}

/// `None` where a flag is not known.
pub(crate) fn mount_flags(flags: u64) -> Option<MsFlags> {
    MsFlags::from_bits(flags)
}
