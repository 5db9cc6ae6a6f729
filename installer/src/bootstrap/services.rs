//! systemd's units, by systemctl.

use super::BootstrapError;
use crate::{
    host::Host,
    programs::{Program, ProgramError},
};
use kernel::Cancel;
use std::{ffi::OsStr, time::Duration};

pub(super) fn systemctl(host: &dyn Host, args: &[&str], cancel: &Cancel) -> Result<String, ProgramError> {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    host.run(Program::Systemctl, &args, cancel)
}

/// `active`, `inactive`, `failed`, `activating`, …
///
/// `is-active` would say the same, but with an exit status like that of systemctl's own failure.
pub(super) fn state(host: &dyn Host, unit: &str, cancel: &Cancel) -> Result<String, ProgramError> {
    systemctl(host, &["show", "-P", "ActiveState", unit], cancel)
}

/// Waits for ever until a unit's state is `wanted`; `failed` decides what that state means. A failed
/// request is repeated.
pub(super) fn wait_for_state(
    host: &dyn Host,
    unit: &'static str,
    wanted: &str,
    failed: Failed,
    poll: Duration,
    cancel: &Cancel,
) -> Result<(), BootstrapError> {
    let mut last = String::new();
    loop {
        match state(host, unit, cancel) {
            Ok(state) if state == wanted => return Ok(()),
            Ok(state) if state == "failed" && failed == Failed::IsFatal => {
                return Err(BootstrapError::UnitFailed { unit });
            }
            Ok(state) if state != last => {
                tracing::info!(unit, state, wanted, "waiting for a unit");
                last = state;
            }
            Ok(_) => {}
            Err(error @ ProgramError::Cancelled { .. }) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(
                    unit,
                    error = &error as &dyn std::error::Error,
                    "cannot get a unit's state, trying again"
                )
            }
        }
        if cancel.sleep(poll) {
            return Err(BootstrapError::Cancelled("waiting for a unit"));
        }
    }
}

/// What it means that a unit has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// It will not be started again.
    IsFatal,
    /// It may be started again.
    MayPass,
}
