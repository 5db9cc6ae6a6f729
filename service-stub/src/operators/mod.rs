//! Operators that can be added to a cluster, and the bundles they come in.
//!
//! What is known of an operator is what monitoring it takes: its subscription and how long it may need. Its manifests and its
//! requirements are not here.

mod bundles;
mod selection;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use bundles::{bundle, bundles};
pub(crate) use selection::{BundleChoice, OperatorChoice, Target, chosen_bundles, select};
pub(crate) use table::{OPERATORS, find, installs};
