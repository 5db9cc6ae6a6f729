//! What tests of the controller run against: a real API server of Kubernetes with its store, a proxy that fails on demand in front of it or of
//! a service, and in place of nodes and operators a simulation that makes the objects they would make, when a test says so.
//!
//! There are no controllers of Kubernetes: no namespace is emptied when it is deleted, no owner reference is followed, no certificate is
//! issued, no pod runs.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod authority;
mod client;
mod cluster;
mod crds;
pub mod keeper;
mod kubelet;
mod life;
mod process;
mod proxy;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientError};
pub use cluster::{
    Cluster,
    certificates::{self, CertificateRequest, NODE_BOOTSTRAPPER, NODE_BOOTSTRAPPER_GROUPS},
    nodes::{NodeState, numbered_ip, numbered_node},
    operators::Condition,
};
pub use crds::{RESOURCES, Resource, crds};
pub use kubelet::Kubelet;
pub use life::Life;
pub use proxy::{Fault, FaultProxy, Recorded};
pub use server::{ApiServer, Shared};

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A test that waits longer hangs; nothing is measured by it.
pub const PATIENCE: Duration = testkit::wait::LIMIT;

/// A panic in one test must not become a panic in another.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks again and again until there is an answer.
///
/// # Panics
/// After [`PATIENCE`], with what was waited for.
pub fn await_some<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    testkit::wait::found(ask).unwrap_or_else(|| panic!("waited in vain: {what}"))
}
