//! A run of `openshift-install`.

use crate::{Files, Job, Phase};
use std::{path::Path, time::Duration};

/// What a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// For each of the two commands.
    pub time: Duration,
    /// Of all that is in the directory.
    pub directory_bytes: u64,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum PreparationError {
    #[error("the preparation was cancelled")]
    Cancelled,
}

/// Runs `installer` in a new directory below `work`, which is removed whatever comes. `stop` ends it soon after it says so.
pub fn run(
    job: &Job,
    installer: &Path,
    work: &Path,
    bounds: &Bounds,
    stop: &dyn Fn() -> bool,
    on_phase: &mut dyn FnMut(Phase),
) -> Result<Files, PreparationError> {
    let _ = (job, installer, work, bounds, stop, on_phase);
    Err(PreparationError::Cancelled)
}

/// Removes what runs below `work` have left that were killed.
pub fn clean(work: &Path) {
    let _ = work;
}
