//! Features of clusters: on which versions, processor architectures and platforms each is supported, and which of them
//! exclude each other.
//!
//! `table` holds the rules. From them come the published support levels, the refusals in [`check`] and the list of
//! features that a cluster uses.

mod architecture;
mod check;
mod documents;
mod facts;
mod feature;
mod row;
mod table;
#[cfg(test)]
mod tests;
pub mod usage;

pub use architecture::Architecture;
pub use check::{Incompatible, check};
pub use documents::{architectures, check_query, detailed_levels, levels};
pub use facts::ClusterFacts;
pub use feature::Feature;
pub use row::{Level, Platform, Query};
