//! The node's own programs, run within its root:
//!
//! - `rpm-ostree cleanup`, since only it knows which deployments are in use, and it holds their lock;
//! - `zipl` on s390x, which knows the boot records of DASD and SCSI disks.

use super::HostError;
use crate::sys;
use std::{
    path::Path,
    process::{Command, Stdio},
};

const MAX_SAID_CHARS: usize = 1000;

/// Frees the space of the rollback deployment, whose kernel is on the boot file system too.
pub(super) fn rpm_ostree_cleanup(root: &Path) -> Result<(), HostError> {
    let mut command = Command::new("rpm-ostree");
    command.args(["cleanup", "--os=rhcos", "-r"]);
    sys::run_in_root(&mut command, root, false);
    run("rpm-ostree", command)
}

/// Its /boot is made writable for this one process.
pub(super) fn zipl(root: &Path, options: &str) -> Result<(), HostError> {
    let mut command = Command::new("zipl");
    command.args(["-V", "-t", "/boot", "-i", "/discovery/vmlinuz", "-r", "/discovery/initrd", "-P", options]);
    sys::run_in_root(&mut command, root, true);
    run("zipl", command)
}

fn run(program: &'static str, mut command: Command) -> Result<(), HostError> {
    let output = command.stdin(Stdio::null()).output().map_err(|source| HostError::Start { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let excess = said.chars().count().saturating_sub(MAX_SAID_CHARS);
    let said = said.trim().chars().skip(excess).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Err(HostError::Failed { program, status: output.status.to_string(), said })
}
