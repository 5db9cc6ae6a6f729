//! The node's own programs, run within its root:
//!
//! - `rpm-ostree cleanup`, since only it knows which deployments are in use, and it holds their lock;
//! - `zipl` on s390x, which knows the boot records of DASD and SCSI disks.

use super::HostError;
use assist::Place;
use std::{
    fs::OpenOptions,
    io::{self, Read},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

const MAX_SAID_CHARS: usize = 1000;
/// What is read of its log; the rest is thrown away.
const MAX_SAID_BYTES: u64 = 1 << 20;
const LOOK: Duration = Duration::from_millis(50);

/// Frees the space of the rollback deployment, whose kernel is on the boot file system too.
pub(super) fn rpm_ostree_cleanup(root: &Path) -> Result<(), HostError> {
    let mut command = Command::new("rpm-ostree");
    command.args(["cleanup", "--os=rhcos", "-r"]);
    run("rpm-ostree", &command, Place { root: Some(root.to_owned()), ..Place::default() })
}

/// Its /boot is made writable for this one process.
pub(super) fn zipl(root: &Path, options: &str) -> Result<(), HostError> {
    let mut command = Command::new("zipl");
    command.args(["-V", "-t", "/boot", "-i", "/discovery/vmlinuz", "-r", "/discovery/initrd", "-P", options]);
    run("zipl", &command, Place { root: Some(root.to_owned()), writable_boot: true, ..Place::default() })
}

fn run(program: &'static str, command: &Command, place: Place) -> Result<(), HostError> {
    let start = |source| HostError::Start { program, source };
    let null = OpenOptions::new().write(true).open("/dev/null").map_err(start)?;
    let (reader, writer) = io::pipe().map_err(start)?;
    let mut child = assist::start(command, place, [null.into(), writer.into()]).map_err(start)?;
    let mut said = Vec::new();
    (&reader).take(MAX_SAID_BYTES).read_to_end(&mut said).map_err(start)?;
    io::copy(&mut &reader, &mut io::sink()).map_err(start)?;
    let status = loop {
        match child.try_wait().map_err(start)? {
            Some(status) => break status,
            None => thread::sleep(LOOK),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let excess = said.chars().count().saturating_sub(MAX_SAID_CHARS);
    let said = said.trim().chars().skip(excess).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Err(HostError::Failed { program, status: status.to_string(), said })
}
