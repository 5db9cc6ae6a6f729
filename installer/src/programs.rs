//! Running the host's own programs: bounded output, an end when the installation is cancelled, and an error that says in one
//! line what went wrong.

use assist::Place;
use kernel::{
    Cancel,
    outputs::{Keep, Outputs},
};
use std::{
    ffi::OsStr,
    fmt, io,
    process::{Command, ExitStatus},
    time::Duration,
};

/// How much of a program's output is retained: its end.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// How much of a failed program's output is shown (docs/compatibility.md#host-programs).
const SHOWN_BYTES: usize = 200;
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
    /// Make file systems: their formats are their own tools'.
    MkfsExt4,
    MkfsXfs,
    MkfsBtrfs,
    MkfsFat,
    Mkswap,
    /// Makes RAID arrays.
    Mdadm,
    /// Makes and opens encrypted devices.
    Cryptsetup,
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
            Self::MkfsExt4 => "mkfs.ext4",
            Self::MkfsXfs => "mkfs.xfs",
            Self::MkfsBtrfs => "mkfs.btrfs",
            Self::MkfsFat => "mkfs.fat",
            Self::Mkswap => "mkswap",
            Self::Mdadm => "mdadm",
            Self::Cryptsetup => "cryptsetup",
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
    let (mut outputs, ends) = Outputs::merged(Keep::End(MAX_OUTPUT_BYTES)).map_err(start)?;
    let mut command = Command::new(program.path());
    command.args(args).envs(environment.iter().map(|(name, value)| (name, value)));
    let place = Place { own_group: true, ..Place::default() };
    let mut child = assist::start(&command, place, ends).map_err(start)?;
    // A background process may hold the pipe open: it is not waited for.
    let ended = outputs.follow(Duration::ZERO, || child.try_wait(), |_| cancel.is_cancelled());
    let status = match ended {
        Ok(Some(status)) => status,
        ended => {
            let _ = child.end(false, GRACE);
            return Err(ended.map_or_else(start, |_| ProgramError::Cancelled { program }));
        }
    };
    let [output] = outputs.texts();
    let output = output.trim().to_owned();
    if status.success() {
        return Ok(output);
    }
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    Err(ProgramError::Failed { program, args: words.join(" "), status: Status(status), tail: tail(&output) })
}

/// From the first `Error` on, when there is one. Of more than is shown, the end, with the first line before it: programs that
/// show how they are called say there what was wrong.
fn tail(output: &str) -> String {
    let from = output.find("Error").and_then(|at| output.get(at..)).unwrap_or(output);
    let mut start = from.len().saturating_sub(SHOWN_BYTES);
    while !from.is_char_boundary(start) {
        start += 1;
    }
    let end = from.get(start..).unwrap_or_default();
    let first = from.lines().next().unwrap_or_default();
    if start == 0 || first.len() > start {
        return end.to_owned();
    }
    let first: String = first.chars().take(SHOWN_BYTES).collect();
    format!("{first} ... {end}")
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
    fn a_failure_is_reported_in_the_real_installers_words() {
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
    fn the_first_line_is_shown_before_a_long_end() {
        let usage =
            format!("Filesystem must be larger than 300MB.\nUsage: mkfs.xfs\n{}\n<num> is xxx", "options\n".repeat(90));
        let shown = tail(&usage);
        assert!(
            shown.starts_with("Filesystem must be larger than 300MB. ... ") && shown.ends_with("<num> is xxx"),
            "{shown}"
        );
        assert_eq!(tail("first\nlast"), "first\nlast", "what is short is shown as it is");
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
                let has_begun = testkit::wait::comes(|| file.exists());
                clone.cancel();
                assert!(has_begun);
            }
        });
        let script = format!("sleep 600 & echo $! >{0}.draft; mv {0}.draft {0}; wait", file.display());
        assert!(matches!(shell(&script, &cancel), Err(ProgramError::Cancelled { .. })));
        thread.join().unwrap();
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let gone = || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
        assert!(testkit::wait::comes(gone), "{pid} still runs");
    }
}
