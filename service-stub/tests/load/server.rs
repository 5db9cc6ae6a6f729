//! The service as a process of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

/// The program of `make test`, else the one that `cargo test --workspace` builds beside the tests.
fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("LANDFALL_BIN").filter(|program| !program.is_empty()) {
        return program.into();
    }
    let program = std::env::current_exe().unwrap().parent().unwrap().with_file_name("landfall");
    assert!(program.is_file(), "{} is missing: cargo build --bin landfall, or set LANDFALL_BIN", program.display());
    program
}

/// The service on a state directory; port 0 takes a free one.
pub(crate) fn command(state: &Path, port: u16, poll_interval: u64) -> Command {
    command_with(state, port, poll_interval, &[])
}

/// The same with further arguments.
pub(crate) fn command_with(state: &Path, port: u16, poll_interval: u64, more: &[String]) -> Command {
    let mut arguments = vec![
        format!("--listen=127.0.0.1:{port}"),
        format!("--poll-interval={poll_interval}"),
        "--agent-binary=/dev/null".to_owned(),
        format!("--state-dir={}", state.display()),
    ];
    arguments.extend_from_slice(more);
    let mut command = Command::new(program());
    command.arg("serve").args(arguments);
    command.env("RUST_LOG", "error").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) struct Served {
    child: Child,
    pub address: String,
    _stdout: BufReader<ChildStdout>,
}

impl Served {
    pub(crate) fn start(state: &Path, port: u16, poll_interval: u64) -> Self {
        Self::start_with(state, port, poll_interval, &[])
    }

    /// The same with further arguments.
    pub(crate) fn start_with(state: &Path, port: u16, poll_interval: u64, more: &[String]) -> Self {
        let mut child = command_with(state, port, poll_interval, more).stderr(Stdio::inherit()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "the service must say where it listens");
            if let Some((_, url)) = line.trim_end().split_once("listening on http://") {
                break url.to_owned();
            }
        };
        Self { child, address, _stdout: stdout }
    }

    pub(crate) fn kill(&mut self) {
        testkit::process::kill_with_worker(&mut self.child);
        assert_eq!(self.child.wait().unwrap().signal(), Some(9), "it ran until it was killed");
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
        self.child.wait().unwrap()
    }

    pub(crate) fn usage(&self) -> Usage {
        let worker = testkit::process::worker(self.child.id()).unwrap();
        let read = |name: &str| fs::read_to_string(format!("/proc/{worker}/{name}")).unwrap();
        let status = read("status");
        let kib = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let stat = read("stat");
        let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
        Usage {
            rss_kib: kib("VmRSS:"),
            peak_kib: kib("VmHWM:"),
            ticks: ticks.map(|ticks| ticks.parse::<u32>().unwrap()).sum(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// What a process takes.
pub(crate) struct Usage {
    pub rss_kib: u64,
    pub peak_kib: u64,
    /// Of 10 ms.
    ticks: u32,
}

impl Usage {
    pub(crate) fn since(&self, before: &Self, elapsed: Duration) -> String {
        let cpu = f64::from(self.ticks - before.ticks) / 100.0 / elapsed.as_secs_f64();
        format!("RSS {} MiB, at most {} MiB; {:.0} % of a core", self.rss_kib >> 10, self.peak_kib >> 10, cpu * 100.0)
    }
}

/// Of all files below, in bytes.
pub(crate) fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().unwrap().len() }).sum()
}
