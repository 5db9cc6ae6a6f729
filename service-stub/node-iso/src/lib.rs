//! `landfall node-iso`: an ISO that adds nodes to a cluster which exists (docs/compatibility.md#adding-nodes).
//!
//! Parse ([`facts`] reads what the cluster says of itself, and the service's reader of plans checks it), then plan (what the ISO has, in
//! [`image`]), then apply: the ISO is written. On a node that boots it, `landfall serve --rendezvous` does the rest.

mod cli;
pub mod facts;
pub mod image;

pub use cli::NodeIso;
