//! What a run needs, and what comes of it.

use crate::edit::NodeSettings;
use api::{ClusterId, Secret};
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

/// The folder of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Folder {
    Manifests,
    Openshift,
}

impl Folder {
    /// Its name, in the API and in the directory of a run.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manifests => "manifests",
            Self::Openshift => "openshift",
        }
    }
}

/// Who made a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The service, from the cluster's settings.
    System,
    User,
}

/// A manifest that is added to those of `openshift-install`, or replaces one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub folder: Folder,
    /// A plain file name.
    pub file: String,
    pub content: Vec<u8>,
    pub source: Source,
}

/// The files of a cluster by name, as clients know them: `bootstrap.ign`, `kubeconfig-noingress` and so on.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A run.
#[derive(Clone, Debug)]
pub struct Job {
    pub cluster: ClusterId,
    /// JSON text.
    pub install_config: Secret,
    /// Full version, as `4.22.9`.
    pub openshift_version: String,
    /// The image that the cluster is installed from; empty for the installer's own.
    pub release_image: String,
    /// Whom telemetry names as the one who runs `openshift-install`.
    pub invoker: String,
    /// The bootstrap host's address, where the installer has to know it.
    pub bootstrap_address: Option<IpAddr>,
    /// `baremetal`, `none`, `vsphere`, `nutanix` or `external`.
    pub platform: String,
    /// How many hosts are workers.
    pub workers: usize,
    pub manifests: Vec<Manifest>,
    /// A directory of keys and certificates to use instead of new ones.
    pub signers: Option<PathBuf>,
    pub nodes: NodeSettings,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `openshift-install create manifests` runs.
    Manifests,
    /// The service's and the user's manifests are put in.
    Additions,
    /// `openshift-install create ignition-configs` runs, or its command for a single node.
    Ignition,
    /// The Ignition files are edited.
    Edits,
}
