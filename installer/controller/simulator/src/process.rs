//! Servers as child processes that end with the process that started them, also where it leaves no time for destructors: a test's statics
//! are never dropped.

use crate::{await_some, lock};
use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    log: PathBuf,
}

impl Process {
    /// Starts it with what it says appended to `log`.
    pub(crate) fn start(program: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>, log: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log).unwrap();
        // The kernel kills it when the thread that started it ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "SIGKILL", "--"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let (started, child) = mpsc::channel();
        thread::spawn(move || {
            let child = command.spawn().map(|child| Arc::new(Mutex::new(child)));
            let Ok(child) = child.map_err(|error| started.send(Err(error))) else { return };
            let _ = started.send(Ok(child.clone()));
            while matches!(lock(&child).try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let child = child.recv().unwrap().unwrap_or_else(|error| panic!("cannot run setpriv: {error}"));
        Self { child, log: log.to_owned() }
    }

    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        lock(&self.child).try_wait().unwrap()
    }

    /// Waits until `ready` says so; whether it did before the process ended.
    pub(crate) fn await_ready(&self, ready: impl Fn() -> bool) -> bool {
        let what = format!("{} in {}", "a server that gets ready", self.log.display());
        await_some(&what, || if ready() { Some(true) } else { self.ended().map(|_| false) })
    }

    /// What it said last.
    pub(crate) fn output(&self) -> String {
        let all = String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned();
        let skipped = all.lines().count().saturating_sub(20);
        all.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}
