//! How install-time files are made.

use crate::model::ClusterRecord;
use crate::releases::Catalogue;
use anyhow::bail;
use kernel::clock::Clock;
use netcheck::image::ImageOptions;
use preparation::cache::{ExtractionBounds, InstallerArgs, Installers, ReleaseRequest};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How the service makes install-time files.
#[derive(clap::Args, Debug)]
pub(crate) struct GenerationArgs {
    /// Make the install-time files of each cluster, with the openshift-install that its release image contains. Each cluster has a control
    /// plane then
    #[arg(help_heading = "Files of clusters", long, conflicts_with = "cluster_files", group = "control_plane")]
    pub(crate) generate: bool,

    /// Whom the cluster's telemetry names as the one who installed it
    #[arg(
        help_heading = "Files of clusters",
        long,
        value_name = "NAME",
        default_value = "assisted-installer",
        env = "INSTALL_INVOKER"
    )]
    invoker: String,

    /// Directory of keys and certificates that sign those of clusters, instead of new ones
    #[arg(
        help_heading = "Files of clusters",
        long,
        value_name = "DIR",
        env = "EPHEMERAL_INSTALLER_CLUSTER_TLS_CERTS_OVERRIDE_DIR"
    )]
    signers: Option<PathBuf>,

    /// Minutes that each of the two commands of openshift-install may take for a cluster
    #[arg(help_heading = "Files of clusters", long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    generation_time: u64,

    #[command(flatten)]
    installers: InstallerArgs,
}

impl GenerationArgs {
    /// What they ask for; `None` if nothing is made. The state directory must not be in use by another service.
    pub(crate) fn open(self, state: &Path, options: ImageOptions) -> anyhow::Result<Option<Generation>> {
        if !self.generate {
            if self.installers.is_given() {
                bail!("--openshift-install and --oc need --generate");
            }
            return Ok(None);
        }
        let architecture = options.architecture.clone();
        let bounds = ExtractionBounds::default();
        let installers = Installers::open(&self.installers, state, options, bounds, Clock::default())?;
        Ok(Some(Generation {
            installers: Arc::new(installers),
            architecture,
            invoker: self.invoker,
            signers: self.signers,
            time: Duration::from_secs(self.generation_time * 60),
        }))
    }
}

/// What runs of `openshift-install` have in common.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Where the program of each release comes from.
    pub installers: Arc<Installers>,
    /// This machine's, as registries name it.
    pub architecture: String,
    /// Whom telemetry names.
    pub invoker: String,
    /// Keys and certificates to use instead of new ones.
    pub signers: Option<PathBuf>,
    /// For each command of a run.
    pub time: Duration,
}

impl Generation {
    /// What is asked of the programs for a cluster.
    pub(super) fn request(&self, record: &ClusterRecord, image: &str, catalogue: Option<&Catalogue>) -> ReleaseRequest {
        let (version, own) = (&record.cluster.openshift_version, &self.architecture);
        let own_image = catalogue.and_then(|catalogue| catalogue.release(version, own).ok());
        ReleaseRequest {
            image: image.to_owned(),
            version: record.cluster.openshift_version.clone(),
            own_image: own_image.map(|release| release.url.clone()),
            architecture: record.cluster.cpu_architecture.clone(),
            pull_secret: record.pull_secret.clone(),
        }
    }
}
