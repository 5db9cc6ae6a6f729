//! Turns an installed node back into a discovered host: puts the discovery system's kernel beside the node's own, in its boot
//! file system, with a loader entry that comes first, and reboots into it (docs/compatibility.md#reclaim-steps).
//!
//! The node's root is mounted somewhere, `/host` in the container that the service starts for this; nothing else is written.

pub mod cli;
mod entry;
mod flow;
mod host;
mod programs;

pub use entry::{Architecture, EntryError, loader_entry, zipl_options};
pub use flow::{Pace, ReclaimError, download, reboot};
pub use host::{Host, HostError, NodeHost};

/// What is reported to the service on success.
pub const DOWNLOADED: &str = "Successfully downloaded boot artifacts";
