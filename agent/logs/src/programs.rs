//! The programs that gathering logs runs, in their own groups. Missing ones are not run.

use assist::{Child, HostProgram, Place};
use kernel::outputs::{Keep, Outputs};
use nix::sys::signal::Signal;
use std::{
    io,
    os::fd::OwnedFd,
    path::Path,
    process::{Command, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

pub(super) const LVM: [HostProgram; 3] = [HostProgram::Pvdisplay, HostProgram::Vgdisplay, HostProgram::Lvdisplay];

/// LVM's answer may take this long, a device that doesn't answer included.
const LVM_LIMIT: Duration = Duration::from_secs(30);
const MAX_OUTPUT: usize = 4 << 20;
const LOOK: Duration = Duration::from_millis(50);
/// How long a killed program is waited for.
const DYING: Duration = Duration::from_secs(5);

/// What runs.
static RUNNING: Mutex<Vec<Arc<Mutex<Child>>>> = Mutex::new(Vec::new());

/// Ends all that was started.
pub(super) fn end_all() {
    for child in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        kill(&child);
    }
}

fn kill(child: &Mutex<Child>) {
    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).signal_group(Signal::SIGKILL);
}

/// A running program and all it starts; ended when dropped.
pub(super) struct Running(Arc<Mutex<Child>>);

impl Running {
    /// Starts `command` in its own group.
    pub(crate) fn start(command: &Command, outputs: [OwnedFd; 2]) -> io::Result<Self> {
        let child = assist::start(command, Place { own_group: true, ..Place::default() }, outputs)?;
        let child = Arc::new(Mutex::new(child));
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push(child.clone());
        Ok(Self(child))
    }

    /// Whether it has ended, and how.
    pub(crate) fn ended(&self) -> io::Result<Option<ExitStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).try_wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.ended() {
            kill(&self.0);
            // One that is blocked by a device does not end even now.
            for _ in 0..DYING.as_millis() / LOOK.as_millis() {
                if !matches!(self.ended(), Ok(None)) {
                    break;
                }
                thread::sleep(LOOK);
            }
        }
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}

/// What one of [`LVM`] prints with `-v`: its errors, then its output; and what went wrong.
pub(super) fn lvm(root: &Path, program: HostProgram) -> (String, Option<String>) {
    let path = Path::new(program.path());
    if root != Path::new("/") || !path.exists() {
        return (format!("{} is missing on this host\n", path.display()), None);
    }
    match output(Command::new(path).arg("-v"), LVM_LIMIT) {
        Ok((output, errors, code)) => {
            let failed = code != Some(0) || !errors.trim().is_empty();
            let code = code.map_or("killed".to_owned(), |code| code.to_string());
            let failure = failed.then(|| format!("{} failed: {code} {}", path.display(), errors.trim_end()));
            (format!("{errors}{output}"), failure)
        }
        Err(error) => (String::new(), Some(format!("{} failed: {error}", path.display()))),
    }
}

/// Output, errors and exit code.
fn output(command: &Command, limit: Duration) -> io::Result<(String, String, Option<i32>)> {
    let (mut outputs, ends) = Outputs::apart([Keep::Start(MAX_OUTPUT); 2])?;
    let running = Running::start(command, ends)?;
    let start = Instant::now();
    let status = outputs.follow(Duration::ZERO, || running.ended(), |_| start.elapsed() > limit)?;
    // What it started must not hold the pipes open.
    kill(&running.0);
    drop(running);
    outputs.finish(DYING)?;
    let [out, err] = outputs.texts();
    match status {
        Some(status) => Ok((out, err, status.code())),
        None => Err(io::Error::other(format!("it took longer than {} s", limit.as_secs()))),
    }
}
