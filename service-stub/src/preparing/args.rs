//! How install-time files are made.

use crate::model::ClusterRecord;
use preparation::cache::{Installers, ReleaseRequest};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How the service makes install-time files.
#[derive(clap::Args, Debug)]
pub(crate) struct GenerationArgs {
    /// Make the install-time files of each cluster, with the openshift-install that its release image contains. Each cluster has a control
    /// plane then
    #[arg(help_heading = "Clusters", long, conflicts_with = "cluster_files", group = "control_plane")]
    pub(crate) generate: bool,

    /// Whom the cluster's telemetry names as the one who installed it
    #[arg(
        help_heading = "Clusters",
        long,
        value_name = "NAME",
        default_value = "assisted-installer",
        env = "INSTALL_INVOKER"
    )]
    invoker: String,

    /// Directory of keys and certificates that sign those of clusters, instead of new ones
    #[arg(
        help_heading = "Clusters",
        long,
        value_name = "DIR",
        env = "EPHEMERAL_INSTALLER_CLUSTER_TLS_CERTS_OVERRIDE_DIR"
    )]
    signers: Option<PathBuf>,

    /// Minutes that each of the two commands of openshift-install may take for a cluster
    #[arg(help_heading = "Clusters", long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    generation_time: u64,
}

impl GenerationArgs {
    /// What they ask for; `None` if nothing is made.
    pub(crate) fn read(self) -> Option<Generation> {
        self.generate.then(|| Generation {
            installers: Arc::new(Installers(PathBuf::new())),
            invoker: self.invoker,
            signers: self.signers,
            time: Duration::from_secs(self.generation_time * 60),
        })
    }
}

/// What runs of `openshift-install` have in common.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Where the program of each release comes from.
    pub installers: Arc<Installers>,
    /// Whom telemetry names.
    pub invoker: String,
    /// Keys and certificates to use instead of new ones.
    pub signers: Option<PathBuf>,
    /// For each command of a run.
    pub time: Duration,
}

impl Generation {
    /// What is asked of the programs for a cluster.
    pub(super) fn request(&self, record: &ClusterRecord, image: &str) -> ReleaseRequest {
        ReleaseRequest {
            image: image.to_owned(),
            version: record.cluster.openshift_version.clone(),
            architecture: record.cluster.cpu_architecture.clone(),
            pull_secret: record.pull_secret.clone(),
        }
    }
}
