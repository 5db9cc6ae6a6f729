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
pub(crate) mod usage;

pub(crate) use architecture::Architecture;
pub(crate) use check::{Incompatible, check};
pub(crate) use documents::{architectures, check_query, detailed_levels, levels};
pub(crate) use facts::ClusterFacts;
pub(crate) use feature::Feature;
pub(crate) use row::{Level, Platform, Query};
