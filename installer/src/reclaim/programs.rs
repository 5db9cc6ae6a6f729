//! The node's own programs, run within its root:
//!
//! - `rpm-ostree cleanup`, since only it knows which deployments are in use, and it holds their lock;
//! - `zipl` on s390x, which knows the boot records of DASD and SCSI disks.

use super::HostError;
use assist::Place;
use kernel::outputs::{Keep, Outputs};
use std::{path::Path, process::Command, time::Duration};

const MAX_SAID_CHARS: usize = 1000;
/// What is read of its log; the rest is thrown away.
const MAX_SAID_BYTES: usize = 1 << 20;

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
    let (mut outputs, ends) = Outputs::errors(Keep::Start(MAX_SAID_BYTES)).map_err(start)?;
    let mut child = assist::start(command, place, ends).map_err(start)?;
    let status = outputs.follow(Duration::MAX, || child.try_wait(), |_| false).map_err(start)?;
    let Some(status) = status.filter(|status| !status.success()) else { return Ok(()) };
    let [output] = outputs.texts();
    let excess = output.chars().count().saturating_sub(MAX_SAID_CHARS);
    let output = output.trim().chars().skip(excess).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Err(HostError::Failed { program, status: status.to_string(), output })
}
