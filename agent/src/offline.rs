//! A host without a service: what it would report, as lines of JSON in a file or on a port of the hypervisor.

use crate::{
    child,
    confine::Named,
    ourselves,
    settings::Limits,
    steps::{REPORT, Run},
};
use anyhow::Context;
use api::{HostId, StepType, Timestamp};
use kernel::Cancel;
use serde::Serialize;
use serde_json::Value;
use std::{
    borrow::Cow,
    fs::{self, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

/// The port a hypervisor gives: `-device virtserialport,name=org.landfall.agent`.
const PORT: &str = "/dev/virtio-ports/org.landfall.agent";
const SCHEMA_VERSION: u32 = 1;
const DEADLINE: Duration = Duration::from_secs(300);
/// How long a port may accept nothing.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Write what the agent would report to a file or a virtio-serial port, without a service
///
/// One JSON document per line: {"schema_version": 1, "host_id", "at", "kind", "exit_code", "document", "error"}. The kinds are
/// `inventory` (as the service gets it), `report` (as `landfall report --json` has it) and `ntp` (chronyd's sources of time). If
/// the exit code is not 0, document is null and error gives the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  everything was written
  1  a document is missing, as its line says, or nothing could be written
  2  wrong usage

Examples:
  landfall agent offline                 # to the port org.landfall.agent
  landfall agent offline --to /mnt/usb   # as HOST_ID.jsonl in a directory
  landfall agent offline --to - | jq -c '{kind, exit_code}'")]
pub struct Offline {
    /// File, directory, port, or '-' for standard output
    #[arg(long, value_name = "PATH", default_value = PORT)]
    to: PathBuf,
}

#[derive(Debug, Serialize)]
struct Line {
    schema_version: u32,
    host_id: HostId,
    at: Timestamp,
    kind: &'static str,
    exit_code: i64,
    document: Option<Value>,
    error: String,
}

impl Offline {
    /// Runs the command as host `host_id`.
    pub fn run(self, host_id: HostId) -> anyhow::Result<ExitCode> {
        let lines: Vec<_> = children().into_iter().map(|(kind, step, run)| line(host_id, kind, &step, &run)).collect();
        let mut text = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        write(&self.to, host_id, &text).with_context(|| format!("cannot write to {}", self.to.display()))?;
        let ok = lines.iter().all(|line| line.exit_code == 0);
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What is found out, each with the step whose privileges it has.
fn children() -> [(&'static str, StepType, Run); 3] {
    let run = |args: &[&'static str], stdin: &str, action: Option<&'static str>| Run {
        args: args.iter().map(|&arg| Cow::from(arg)).collect(),
        stdin: stdin.as_bytes().to_vec(),
        deadline: Some(DEADLINE),
        dies_with_agent: true,
        answers_on_stderr: false,
        named: Named { action: action.map(Cow::from), ..Named::default() },
    };
    [
        ("inventory", StepType::Inventory, run(&["inventory"], "", None)),
        ("report", StepType::Certify, run(&["report", "--json"], "", Some(REPORT))),
        (
            "ntp",
            StepType::NtpSynchronizer,
            run(&["netcheck", "ntp", "--request", "-", "--json"], r#"{"ntp_source":""}"#, None),
        ),
    ]
}

fn line(host_id: HostId, kind: &'static str, step: &StepType, run: &Run) -> Line {
    let outcome = child::run(Path::new(ourselves::PROGRAM), run, step, kind, Limits::default(), &Cancel::default());
    let (mut exit_code, mut error) = (outcome.exit_code, outcome.error);
    let document = match serde_json::from_slice(outcome.output.as_bytes()) {
        Ok(document) if exit_code == 0 => Some(document),
        Err(cause) if exit_code == 0 => {
            (exit_code, error) = (-1, format!("its output is not JSON: {cause}"));
            None
        }
        _ => None,
    };
    Line { schema_version: SCHEMA_VERSION, host_id, at: Timestamp::now(), kind, exit_code, document, error }
}

fn write(to: &Path, host_id: HostId, text: &[u8]) -> io::Result<()> {
    if to == Path::new("-") {
        return io::stdout().write_all(text);
    }
    if to.is_dir() {
        return replace(&to.join(format!("{host_id}.jsonl")), text);
    }
    match fs::metadata(to) {
        Ok(file) if file.file_type().is_char_device() => {
            let port = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(to)?;
            write_port(port, text, PATIENCE)
        }
        Ok(file) if !file.is_file() => Err(io::Error::other("it is neither a file, a directory nor a port")),
        Err(error) if error.kind() == ErrorKind::NotFound && to.starts_with("/dev") => Err(error),
        _ => replace(to, text),
    }
}

/// All of it or nothing.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A name that is certainly not taken.
    let mut draft = tempfile::NamedTempFile::new_in(directory)?;
    draft.write_all(text)?;
    draft.as_file().set_permissions(Permissions::from_mode(0o644))?;
    draft.as_file().sync_all()?;
    draft.persist(path).map(drop).map_err(|error| error.error)
}

/// A port takes as much as its reader has room for; without one it takes nothing.
fn write_port(mut port: impl Write, mut text: &[u8], patience: Duration) -> io::Result<()> {
    let mut last = Instant::now();
    while !text.is_empty() {
        match port.write(text) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => {
                text = text.get(len..).unwrap_or_default();
                last = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if last.elapsed() >= patience {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no process reads at its other end"));
                }
                thread::sleep(LOOK);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";

    #[test]
    fn a_directory_gets_a_file_named_after_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let host: HostId = HOST.parse().unwrap();
        write(dir.path(), host, b"1\n").unwrap();
        write(dir.path(), host, b"2\n").unwrap();
        assert_eq!(fs::read(dir.path().join(format!("{HOST}.jsonl"))).unwrap(), b"2\n");
        let file = dir.path().join("file.jsonl");
        write(&file, host, b"3\n").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"3\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no draft is left");
        let no_port = write(Path::new("/dev/virtio-ports/landfall-none"), host, b"");
        assert_eq!(no_port.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_slow_port_gets_all_and_one_without_a_reader_is_given_up() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let text = vec![b'x'; 2 << 20];
        let reader = thread::spawn(move || io::copy(&mut { theirs }, &mut io::sink()).unwrap());
        write_port(ours, &text, testkit::wait::LIMIT).unwrap();
        assert_eq!(reader.join().unwrap(), 2 << 20);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let error = write_port(ours, &text, Duration::from_millis(60)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
