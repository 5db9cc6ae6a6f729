//! The programs of others that gathering logs runs, all of them, by name. LVM's metadata is only told in full by its own tools; and the
//! cluster's gather scripts are the cluster's, shipped by its bootstrap. Where they are not there, nothing is run.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// LVM's own, of the host: title of their part of `mount.logs`, and name.
pub(super) const LVM: [&str; 3] = ["pvdisplay", "vgdisplay", "lvdisplay"];
/// Where hosts have them.
const LVM_DIRECTORY: &str = "/usr/sbin";
/// Asks other hosts for what Open vSwitch says.
pub(super) const OVS_GATHER: &str = "/usr/local/bin/ovs-installer-gather.sh";
/// Makes `/root/log-bundle-ID.tar.gz`.
pub(super) const GATHER: &str = "/usr/local/bin/installer-gather.sh";

/// LVM's answer may take this long, a device that doesn't answer included.
const LVM_LIMIT: Duration = Duration::from_secs(30);
const MAX_OUTPUT: u64 = 4 << 20;
const LOOK: Duration = Duration::from_millis(50);

/// Process groups of what runs.
static RUNNING: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Ends all that was started.
pub(super) fn end_all() {
    for group in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        kill(group);
    }
}

fn kill(group: i32) {
    let group = nix::unistd::Pid::from_raw(group);
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
}

/// A running program and all it starts; ended when dropped.
pub(super) struct Running {
    child: Child,
    group: i32,
}

impl Running {
    /// Starts `command` in a group of its own.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.stdin(Stdio::null()).process_group(0).spawn()?;
        let group = i32::try_from(child.id()).map_err(io::Error::other)?;
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push(group);
        Ok(Self { child, group })
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill(self.group);
            let _ = self.child.wait();
        }
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|group| *group != self.group);
    }
}

/// What one of [`LVM`] prints with `-v`: its errors, then its output; and what went wrong.
pub(super) fn lvm(root: &Path, name: &str) -> (String, Option<String>) {
    let path = Path::new(LVM_DIRECTORY).join(name);
    if root != Path::new("/") || !path.exists() {
        return (format!("there is no {} on this host\n", path.display()), None);
    }
    match output(Command::new(&path).arg("-v"), LVM_LIMIT) {
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
fn output(command: &mut Command, limit: Duration) -> io::Result<(String, String, Option<i32>)> {
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
                let _ = io::copy(&mut pipe, &mut io::sink());
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(running.child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = read(running.child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let start = Instant::now();
    let status = loop {
        match running.ended()? {
            Some(status) => break Some(status),
            None if start.elapsed() > limit => break None,
            None => thread::sleep(LOOK),
        }
    };
    // What it started must not hold the pipes open.
    kill(running.group);
    drop(running);
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    match status {
        Some(status) => Ok((out, err, status.code())),
        None => Err(io::Error::other(format!("it took longer than {} s", limit.as_secs()))),
    }
}
