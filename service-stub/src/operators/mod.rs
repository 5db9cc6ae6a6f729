//! Operators that can be added to a cluster, and the bundles they come in.
//!
//! `table` has what is known of each: how it is installed, what it takes of hosts, what it asks of hosts and clusters. The checks
//! that judge by these rules are in [`crate::check`].

mod bundles;
mod manifests;
mod requirements;
mod rules;
mod selection;
mod situation;
mod subscription;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use bundles::{bundle, bundles};
pub(crate) use manifests::manifests;
pub(crate) use requirements::{amount, preflight, total};
pub(crate) use rules::{Amount, ClusterRule, HostRule};
pub(crate) use selection::{BundleChoice, OperatorChoice, Target, chosen_bundles, not_carried, select};
pub(crate) use situation::{MACHINES_POOL_GIB, Machine, Roles, STORAGE_HOSTS, Situation, StorageMode};
pub(crate) use table::{OPERATORS, Operator, find, installs};
