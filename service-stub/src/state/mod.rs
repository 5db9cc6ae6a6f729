//! State machines of hosts and clusters: pure functions from facts to the next state (docs/compatibility.md#host-states).

pub mod cluster;
#[cfg(test)]
mod coverage;
pub(crate) mod document;
pub(crate) mod facts;
pub mod host;
pub mod limits;
mod names;
pub mod progress;
pub mod table;

pub(crate) use facts::{ClusterChecks, HostChecks, InventoryState, Outcome};
pub use names::{ClusterState, HostState};
