//! What can go wrong with a machine, shown with the end of its console.

use crate::{qmp::QmpError, serial::Marker};
use std::{fmt, io, path::PathBuf, time::Duration};

/// What went wrong with a machine. Each says where its console log is.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    #[error("{vm}: {what} {}: {hint}", path.display())]
    Missing {
        vm: String,
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        hint: String,
        source: io::Error,
    },
    /// QEMU didn't start.
    #[error("{vm}: cannot start {qemu}; is {package} installed?")]
    Spawn { vm: String, qemu: &'static str, package: &'static str, source: io::Error },
    /// A file of ours could not be made.
    #[error("{vm}: cannot prepare {}", path.display())]
    Prepare { vm: String, path: PathBuf, source: io::Error },
    #[error("{vm}: the control socket failed{}", .state)]
    Control { vm: String, state: Box<ConsoleState>, source: QmpError },
    #[error("{vm}: '{wanted}' was not seen on the console within {} s{state}", limit.as_secs())]
    NoMarker {
        vm: String,
        /// What was waited for.
        wanted: String,
        limit: Duration,
        state: Box<ConsoleState>,
    },
    /// QEMU ended while the machine was still needed. An exit status of 0 is not a success: guests that panic give it too.
    #[error("{vm}: QEMU ended ({status}){state}")]
    Ended { vm: String, status: String, state: Box<ConsoleState> },
    #[error("{vm}: the guest panicked: {line}{state}")]
    Panicked { vm: String, line: String, state: Box<ConsoleState> },
}

/// The console's last lines and where the whole is; the second half of error messages.
pub struct ConsoleState {
    pub(super) log: PathBuf,
    pub(super) tail: Vec<String>,
    pub(super) markers: Vec<Marker>,
    pub(super) qemu: String,
}

/// As text too, since a test's `unwrap` prints this.
impl fmt::Debug for ConsoleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ConsoleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.qemu.is_empty() {
            write!(f, "\n  QEMU said: {}", self.qemu.replace('\n', "\n             "))?;
        }
        match self.markers.last() {
            Some(marker) => write!(f, "\n  last marker, at {:.1} s: {}", marker.at.as_secs_f64(), marker.text)?,
            None => f.write_str("\n  no marker was seen")?,
        }
        f.write_str("\n  console ends:")?;
        for line in &self.tail {
            write!(f, "\n    {line}")?;
        }
        write!(f, "\n  whole console: {}", self.log.display())
    }
}
