//! The one place with `unsafe`: what a child does between fork and exec.
#![allow(unsafe_code)]

use nix::sys::{prctl::set_pdeathsig, signal::Signal};
use std::{
    io,
    os::unix::process::{CommandExt, parent_id},
    process::Command,
};

/// Gives the child a session, and so a process group, of its own: a terminal's or a group's signals meant for us don't
/// reach it, and one kill reaches all it starts. With `dies_with_us` it gets SIGTERM when the thread that started it ends.
pub(crate) fn isolate(command: &mut Command, dies_with_us: bool) {
    let us = std::process::id();
    let prepare = move || {
        nix::unistd::setsid()?;
        if dies_with_us {
            set_pdeathsig(Signal::SIGTERM)?;
            // We may have ended before that took effect.
            if parent_id() != us {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called: setsid, prctl and getppid are, and
    // neither they nor making an error from a number allocates.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::process::ExitStatusExt, process::Child, thread};

    /// Starts a sleeper in a thread that ends at once, as the agent would.
    fn orphan(dies_with_us: bool) -> Child {
        let start = move || {
            let mut command = Command::new("sleep");
            isolate(command.arg("1000"), dies_with_us);
            command.spawn().unwrap()
        };
        thread::spawn(start).join().unwrap()
    }

    #[test]
    fn a_step_ends_with_who_started_it_and_an_installation_does_not() {
        assert_eq!(orphan(true).wait().unwrap().signal(), Some(libc::SIGTERM));
        let mut installation = orphan(false);
        assert!(installation.try_wait().unwrap().is_none());
        installation.kill().unwrap();
        assert_eq!(installation.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
