//! Running the host's own programs: bounded output, an end when the installation is cancelled, and an error that says in one
//! line what went wrong.

use crate::cancel::Cancel;
use assist::{Child, Place};
use std::{
    ffi::OsStr,
    fmt,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::Signal,
};

/// Of what a program writes, the end is kept.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Of what a failed program wrote last, people get to see so much (docs/compatibility.md#host-programs).
const SHOWN_BYTES: usize = 200;
const LOOK_MS: u16 = 50;
/// Between SIGTERM and SIGKILL; the whole installation has five seconds (docs/compatibility.md#installer-command-line).
const GRACE: Duration = Duration::from_secs(2);

/// The host's programs that an installation may need: what only the host itself can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// systemd's.
    Systemctl,
    /// systemd's.
    Hostnamectl,
    /// Deploys systems from container images.
    Ostree,
    /// Changes kernel arguments of deployments.
    RpmOstree,
    /// Sets the boot list of POWER's firmware.
    Bootlist,
    /// The live system's shell, for the one script that moves a root file system's contents away and back.
    Shell,
}

impl Program {
    /// As it is found.
    pub fn path(self) -> &'static str {
        match self {
            Self::Systemctl => "systemctl",
            Self::Hostnamectl => "hostnamectl",
            Self::Ostree => "ostree",
            Self::RpmOstree => "rpm-ostree",
            Self::Bootlist => "/usr/sbin/bootlist",
            Self::Shell => "/bin/sh",
        }
    }
}

/// Why a program did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("cannot start the host's {}", program.path())]
    Start { program: Program, source: io::Error },
    /// It failed. The words are the ones that people look for (docs/compatibility.md#host-programs).
    #[error("failed executing {} {args}, Error {status}, LastOutput \"... {tail}\"", program.path())]
    Failed {
        program: Program,
        /// Its arguments, blanks between them.
        args: String,
        /// Such as `exit status: 1`.
        status: Status,
        /// What it wrote last.
        tail: String,
    },
    #[error("cancelled while {} was running", program.path())]
    Cancelled { program: Program },
}

/// How a program ended, in the real installer's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(ExitStatus);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(code) => write!(f, "exit status {code}"),
            None => self.0.fmt(f),
        }
    }
}

/// Runs it to its end. Returns what it wrote to both standard streams, merged, trimmed.
pub(crate) fn run(
    program: Program,
    args: &[&OsStr],
    environment: &[(String, String)],
    cancel: &Cancel,
) -> Result<String, ProgramError> {
    let start = |source| ProgramError::Start { program, source };
    let (mut reader, writer) = io::pipe().map_err(start)?;
    let mut command = Command::new(program.path());
    command.args(args).envs(environment.iter().map(|(name, value)| (name, value)));
    let outputs = [writer.try_clone().map_err(start)?.into(), writer.into()];
    let place = Place { own_group: true, ..Place::default() };
    let mut child = assist::start(&command, place, outputs).map_err(start)?;
    let result = follow(&mut child, &mut reader, cancel);
    let (status, output) = match result {
        Ok(Some(ended)) => ended,
        Ok(None) => {
            end(&mut child);
            return Err(ProgramError::Cancelled { program });
        }
        Err(source) => {
            end(&mut child);
            return Err(start(source));
        }
    };
    let output = String::from_utf8_lossy(&output).trim().to_owned();
    if status.success() {
        return Ok(output);
    }
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    Err(ProgramError::Failed { program, args: words.join(" "), status: Status(status), tail: tail(&output) })
}

/// What it wrote, and how it ended; `None` once cancelled. A background process of its own may keep the pipe open: it is not
/// waited for.
fn follow(
    child: &mut Child,
    reader: &mut io::PipeReader,
    cancel: &Cancel,
) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    set_nonblocking(reader.as_fd().try_clone_to_owned()?)?;
    let mut output = Vec::new();
    let mut open = true;
    loop {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        if open {
            wait(reader)?;
            open = drain(reader, &mut output)?;
        } else {
            std::thread::sleep(Duration::from_millis(LOOK_MS.into()));
        }
        if let Some(status) = child.try_wait()? {
            drain(reader, &mut output)?;
            return Ok(Some((status, output)));
        }
    }
}

fn set_nonblocking(fd: OwnedFd) -> io::Result<()> {
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop).map_err(io::Error::from)
}

fn wait(reader: &io::PipeReader) -> io::Result<()> {
    let mut fds = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::from(LOOK_MS)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Takes what is there. Whether more may come.
fn drain(reader: &mut io::PipeReader, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut chunk = [0; 16 << 10];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(len) => {
                output.extend_from_slice(chunk.get(..len).unwrap_or_default());
                // Twice as much at most is ever there, and each byte is moved once on average.
                if output.len() > 2 * MAX_OUTPUT_BYTES {
                    output.drain(..output.len() - MAX_OUTPUT_BYTES);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Asks it, and all it started, to end; after a while makes them.
fn end(child: &mut Child) {
    let _ = child.signal_group(Signal::SIGTERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS.into()));
    }
    let _ = child.signal_group(Signal::SIGKILL);
    // So that it leaves no zombie behind. One that hangs at a device does not end even now.
    for _ in 0..GRACE.as_millis() / u128::from(LOOK_MS) {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS.into()));
    }
}

/// From the first `Error` on, when there is one, and of that the end.
fn tail(output: &str) -> String {
    let from = output.find("Error").and_then(|at| output.get(at..)).unwrap_or(output);
    let mut start = from.len().saturating_sub(SHOWN_BYTES);
    while !from.is_char_boundary(start) {
        start += 1;
    }
    from.get(start..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, cancel: &Cancel) -> Result<String, ProgramError> {
        run(Program::Shell, &["-c".as_ref(), script.as_ref()], &[("SAID".into(), "so".into())], cancel)
    }

    #[test]
    fn both_streams_come_back_in_their_order() {
        let cancel = Cancel::default();
        assert_eq!(shell("echo a; echo b >&2; echo $SAID", &cancel).unwrap(), "a\nb\nso");
        assert_eq!(shell("sleep 60 & echo left", &cancel).unwrap(), "left", "what it leaves behind is not waited for");
        let long =
            shell("i=0; while [ $i -lt 40 ]; do printf '%0100000d' 0; i=$((i+1)); done; echo end", &cancel).unwrap();
        assert!(long.len() <= 2 * MAX_OUTPUT_BYTES && long.ends_with("end"), "{}", long.len());
    }

    #[test]
    fn a_failure_is_told_in_the_real_installers_words() {
        let error = shell("echo fine; echo 'Error: no such unit'; exit 3", &Cancel::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed executing /bin/sh -c echo fine; echo 'Error: no such unit'; exit 3, Error exit status 3, LastOutput \
             \"... Error: no such unit\""
        );
        assert!(shell("kill -9 $$", &Cancel::default()).unwrap_err().to_string().contains("signal: 9"));
        assert_eq!(tail(&format!("{}é{}", "x".repeat(300), "y".repeat(199))), "y".repeat(199), "whole characters");
    }

    #[test]
    fn cancelling_ends_it_and_what_it_started() {
        let cancel = Cancel::default();
        let clone = cancel.clone();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let thread = std::thread::spawn({
            let file = file.clone();
            move || {
                while !file.exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                clone.cancel();
            }
        });
        let began = Instant::now();
        let script = format!("sleep 600 & echo $! >{0}.draft; mv {0}.draft {0}; wait", file.display());
        assert!(matches!(shell(&script, &cancel), Err(ProgramError::Cancelled { .. })));
        assert!(began.elapsed() < Duration::from_secs(30));
        thread.join().unwrap();
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let gone = || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
        let end = Instant::now() + Duration::from_secs(10);
        while !gone() {
            assert!(Instant::now() < end, "{pid} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
