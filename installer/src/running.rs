//! The one installation of a role that may run on a host: who does it, and how it is stopped.
//!
//! A lock file holds it. The kernel lets the lock go with its last holder, however that ends, so nothing needs cleaning up.

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::{Pid, getpgid},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// More than a process id and a time take.
const MAX_FILE_BYTES: u64 = 64;
const LOOK: Duration = Duration::from_millis(20);
/// How long a killed process may take to end.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// What is wrong with the lock, or with its holder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunningError {
    #[error("cannot lock {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    /// The process may not be signalled.
    #[error("cannot stop the installation, process {pid}")]
    Signal { pid: i32, source: Errno },
    #[error(
        "the installation, process {pid}, does not end even when killed; a device probably blocks it in the kernel"
    )]
    Stuck { pid: i32 },
}

/// Held while an installation runs; dropping it releases it, unless a process that was forked meanwhile holds it too.
#[derive(Debug)]
pub(crate) struct InstallLock(#[allow(dead_code)] Flock<File>);

/// What came of stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// No installation was running.
    Nothing,
    /// It has ended, and the disk is in the order in which cancelling leaves it.
    Ended { pid: i32 },
    /// It had to be killed. A disk that it was writing can't boot: its first MiB is written last.
    Killed { pid: i32 },
    /// It is complete, and the host about to reboot.
    Complete,
}

/// Takes the lock file at `path` for this process; `None` when another has it.
pub(crate) fn lock(path: &Path) -> Result<Option<InstallLock>, RunningError> {
    let error = |source| RunningError::Lock { path: path.to_owned(), source };
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(error)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            write_holder(&mut lock).map_err(error)?;
            Ok(Some(InstallLock(lock)))
        }
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(error(errno.into())),
    }
}

/// The start time tells a process from a later one with the same id.
fn write_holder(file: &mut File) -> io::Result<()> {
    let pid = nix::unistd::getpid().as_raw();
    let started = start_time(pid).ok_or_else(|| io::Error::other("cannot read /proc/self/stat"))?;
    file.set_len(0)?;
    file.write_all(format!("{pid} {started}\n").as_bytes())
}

/// When a process started, in clock ticks after the boot: field 22 of proc(5)'s stat. `None` when there is no such process.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// Stops the installation whose lock file is at `path`: SIGTERM, at which it leaves the disk in order, and after `grace`
/// SIGKILL, both also to what it has started.
pub(crate) fn stop(path: &Path, grace: Duration) -> Result<Stopped, RunningError> {
    let error = |source| RunningError::Lock { path: path.to_owned(), source };
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Stopped::Nothing),
        Err(cause) => return Err(error(cause)),
    };
    let mut holder = String::new();
    (&file).take(MAX_FILE_BYTES).read_to_string(&mut holder).map_err(error)?;
    let Some(mut file) = held(file).map_err(error)? else { return Ok(Stopped::Nothing) };
    let Some(pid) = holder_pid(&holder) else { return Ok(Stopped::Complete) };
    for (signal, grace) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, KILL_GRACE)] {
        match signal_all(pid, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(source) => return Err(RunningError::Signal { pid, source }),
        }
        let start = Instant::now();
        while start.elapsed() < grace {
            thread::sleep(LOOK);
            match held(file).map_err(error)? {
                None if signal == Signal::SIGTERM => return Ok(Stopped::Ended { pid }),
                None => return Ok(Stopped::Killed { pid }),
                Some(still) => file = still,
            }
        }
    }
    Err(RunningError::Stuck { pid })
}

/// Gives the file back while another process has it locked.
fn held(file: File) -> io::Result<Option<File>> {
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        // Dropped, and so unlocked again.
        Ok(_) => Ok(None),
        Err((file, Errno::EWOULDBLOCK)) => Ok(Some(file)),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// The process the lock file names, if that is still the one it was.
fn holder_pid(text: &str) -> Option<i32> {
    let (pid, started) = text.trim_end().split_once(' ')?;
    let pid: i32 = pid.parse().ok().filter(|&pid| pid > 1)?;
    (start_time(pid) == started.parse().ok()).then_some(pid)
}

/// The agent's child leads its own group; an installation started by hand may share one with a shell.
fn signal_all(pid: i32, signal: Signal) -> Result<(), Errno> {
    let process = Pid::from_raw(pid);
    let leads = getpgid(Some(process)) == Ok(process);
    kill(if leads { Pid::from_raw(-pid) } else { process }, signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::process::CommandExt,
        process::{Child, Command},
    };

    #[test]
    fn the_lock_is_held_once_and_says_by_whom() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = lock(&path).unwrap().unwrap();
        assert!(lock(&path).unwrap().is_none());
        assert_eq!(holder_pid(&fs::read_to_string(&path).unwrap()), i32::try_from(std::process::id()).ok());
        drop(first);
        assert!(lock(&path).unwrap().is_some());
    }

    #[test]
    fn a_process_of_the_same_number_is_not_taken_for_the_holder() {
        let pid = std::process::id();
        let started = start_time(i32::try_from(pid).unwrap()).unwrap();
        for text in ["", "x", "1 0", "-1 5", "99999999 5", &format!("{pid} {}", started + 1), &format!("{pid}")] {
            assert_eq!(holder_pid(text), None, "{text}");
        }
    }

    /// A holder in its own process.
    fn holder(path: &Path, script: &str) -> Child {
        let mut command = Command::new("flock");
        command.arg("-n").arg(path).args(["/bin/sh", "-c", script]).process_group(0);
        let child = command.spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(testkit::wait::comes(|| path.with_extension("ready").exists()));
        fs::write(path, format!("{pid} {}\n", start_time(pid).unwrap())).unwrap();
        child
    }

    #[test]
    fn an_installation_is_stopped_gently_and_then_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(stop(&path, Duration::ZERO).unwrap(), Stopped::Nothing);
        drop(lock(&path).unwrap());
        assert_eq!(stop(&path, Duration::ZERO).unwrap(), Stopped::Nothing);

        let ready = path.with_extension("ready").display().to_string();
        let mut gentle = holder(&path, &format!("touch {ready}; sleep 1000"));
        let pid = i32::try_from(gentle.id()).unwrap();
        assert_eq!(stop(&path, testkit::wait::LIMIT).unwrap(), Stopped::Ended { pid });
        gentle.wait().unwrap();

        fs::remove_file(&ready).unwrap();
        let mut deaf = holder(&path, &format!("trap '' TERM; touch {ready}; while :; do sleep 1; done"));
        let pid = i32::try_from(deaf.id()).unwrap();
        assert_eq!(stop(&path, Duration::from_millis(300)).unwrap(), Stopped::Killed { pid });
        deaf.wait().unwrap();

        // The holder's child waits to reboot; the holder itself has ended.
        let _lock = lock(&path).unwrap().unwrap();
        fs::write(&path, format!("{pid} 5\n")).unwrap();
        assert_eq!(stop(&path, Duration::ZERO).unwrap(), Stopped::Complete);
    }
}
