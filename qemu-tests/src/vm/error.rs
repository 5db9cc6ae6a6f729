//! What can go wrong with a machine, told with the end of its console.

use crate::{accel::QEMU, qmp::QmpError, serial::Marker};
use std::{fmt, io, path::PathBuf, time::Duration};

/// What went wrong with a machine. Each says where its console log is.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// The host lacks something.
    #[error("{vm}: {what} {}: {hint}", path.display())]
    Missing {
        /// Machine.
        vm: String,
        /// What is missing.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// QEMU didn't start.
    #[error("{vm}: cannot start {QEMU}; is qemu-system-x86 installed?")]
    Spawn {
        /// Machine.
        vm: String,
        /// Cause.
        source: io::Error,
    },
    /// A file of ours could not be made.
    #[error("{vm}: cannot prepare {}", path.display())]
    Prepare {
        /// Machine.
        vm: String,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The control socket failed.
    #[error("{vm}: the control socket failed{}", .state)]
    Control {
        /// Machine.
        vm: String,
        /// Console and log.
        state: Box<ConsoleState>,
        /// Cause.
        source: QmpError,
    },
    /// The marker didn't come.
    #[error("{vm}: '{wanted}' was not seen on the console within {} s{state}", limit.as_secs())]
    NoMarker {
        /// Machine.
        vm: String,
        /// What was waited for.
        wanted: String,
        /// For how long.
        limit: Duration,
        /// Console and log.
        state: Box<ConsoleState>,
    },
    /// QEMU ended while the machine was still needed. An exit status of 0 is no success: guests that panic give it too.
    #[error("{vm}: QEMU ended ({status}){state}")]
    Ended {
        /// Machine.
        vm: String,
        /// Its exit status.
        status: String,
        /// Console and log.
        state: Box<ConsoleState>,
    },
    /// The guest's kernel panicked.
    #[error("{vm}: the guest panicked: {line}{state}")]
    Panicked {
        /// Machine.
        vm: String,
        /// The console line.
        line: String,
        /// Console and log.
        state: Box<ConsoleState>,
    },
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
