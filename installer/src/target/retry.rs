//! Attempts of one step.

use super::{Pace, TargetError};
use crate::cancel::Cancel;
use std::error::Error;

const ATTEMPTS: u32 = 3;

/// Does it up to three times: udev may hold the disk for a moment, a registry may be slow.
pub(super) fn thrice<T, E: Into<TargetError>>(
    pace: &Pace,
    cancel: &Cancel,
    mut step: impl FnMut() -> Result<T, E>,
) -> Result<T, TargetError> {
    let mut attempt = 1;
    loop {
        if cancel.is_cancelled() {
            return Err(TargetError::Cancelled);
        }
        let error = match step() {
            Ok(done) => return Ok(done),
            Err(error) => error.into(),
        };
        if attempt >= ATTEMPTS || matches!(error, TargetError::Cancelled) {
            return Err(error);
        }
        tracing::warn!(error = &error as &dyn Error, attempt, "trying again");
        if cancel.sleep(pace.retry) {
            return Err(TargetError::Cancelled);
        }
        attempt += 1;
    }
}
