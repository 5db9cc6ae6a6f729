//! From a cluster's settings to its install-time files: `openshift-install` runs twice in its own directory, with the manifests put in
//! between, and what it makes of the Ignition files is edited for the hosts.
//!
//! Nothing here knows the service's records: a [`Job`] holds all that a run needs, and a run returns files.

pub mod cache;
mod directory;
pub mod edit;
mod job;
pub mod manifests;
pub mod run;

pub use directory::{DirectoryError, clean};
pub use edit::{Node, NodeSettings, Vip, Vips};
pub use job::{Files, Folder, Job, Manifest, Phase, Source};
pub use manifests::{ManifestError, PatchError};
pub use run::{Bounds, PreparationError, ProgramError, run};
