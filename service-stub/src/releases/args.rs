//! Options of `landfall serve` about releases.

use super::{Catalogue, CatalogueError};
use std::path::PathBuf;

/// Releases for clusters.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Versions")]
pub(crate) struct CatalogueArgs {
    /// Version to offer for new clusters. May be repeated: the last is the default. Other versions are accepted as well
    #[arg(long = "openshift-version", value_name = "VERSION", conflicts_with = "release_images")]
    pub(crate) openshift_versions: Vec<String>,

    /// Release images to offer, a JSON list: [{"openshift_version":"4.22","cpu_architecture":"x86_64",
    /// "cpu_architectures":["x86_64"], "url":"IMAGE", "version":"4.22.9", "default":true, "support_level":"production"}]. A
    /// cluster that requests 4.22 gets the latest of them; other versions and architectures are refused. Without this option any
    /// version is accepted as it is written
    #[arg(long, value_name = "FILE")]
    pub(crate) release_images: Option<PathBuf>,

    /// OS images that hosts boot, a JSON list: [{"openshift_version":"4.22","cpu_architecture":"x86_64","url":"URL",
    /// "version":"BUILD"}]. Infra-envs and clusters of other versions and architectures are refused. Without this option there
    /// is no such check; hosts boot --iso either way
    #[arg(long, value_name = "FILE")]
    pub(crate) os_images: Option<PathBuf>,

    /// Images that gather a cluster's logs, by version and architecture: {"4.22-x86_64":{"ocp":"IMAGE"}}. Passed in install
    /// requests
    #[arg(long, value_name = "FILE")]
    pub(crate) must_gather_images: Option<PathBuf>,
}

impl CatalogueArgs {
    /// The catalogue in the files, if any.
    pub(crate) fn read(&self) -> Result<Option<Catalogue>, CatalogueError> {
        Catalogue::read(self.release_images.as_deref(), self.os_images.as_deref(), self.must_gather_images.as_deref())
    }
}
