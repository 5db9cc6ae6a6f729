//! Which runs there are.

use api::ClusterId;
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Clusters whose files are being made.
#[derive(Debug, Default)]
pub(crate) struct Preparations {
    running: Mutex<BTreeSet<ClusterId>>,
}

impl Preparations {
    pub(super) fn running(&self) -> MutexGuard<'_, BTreeSet<ClusterId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
