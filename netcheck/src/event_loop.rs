//! The one event loop a check runs on: on the caller's thread, so in its network namespace and with its capabilities.

use std::io;
use tokio::{runtime, task::LocalSet};

/// Runs `work` to its end. Not to be called from within another event loop.
pub(crate) fn run<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(LocalSet::new().block_on(&runtime, work))
}
