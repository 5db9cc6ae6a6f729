//! Children that die with this process, however it dies.
#![allow(unsafe_code)]

use nix::sys::{prctl, signal::Signal};
use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::{
        OnceLock,
        mpsc::{Sender, channel},
    },
};

type Job = (Command, Sender<io::Result<Child>>);

/// Starts `command` in its own process group, to be killed by the kernel when this process ends.
///
/// The kernel ties a child to the *thread* that started it (prctl(2), `PR_SET_PDEATHSIG`), and test threads come and go:
/// so one thread that lives as long as the process starts them all.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || {
            for (command, answer) in queue {
                // The answer is not awaited only if the caller's thread was torn down.
                let _ = answer.send(spawn_here(command));
            }
        });
        jobs
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    let (answer, child) = channel();
    spawner.send((command, answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn spawn_here(mut command: Command) -> io::Result<Child> {
    let parent = nix::unistd::getpid();
    command.process_group(0);
    // SAFETY: between fork and exec only prctl(2) and getppid(2) run; both are async-signal-safe and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the line above; then no signal would ever come.
            if nix::unistd::getppid() == parent { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
    }
    command.spawn()
}
