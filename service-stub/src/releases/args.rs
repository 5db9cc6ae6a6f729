//! Options of `landfall serve` about releases.

use super::{Catalogue, CatalogueError};
use std::path::PathBuf;

/// What clusters may be made of.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct CatalogueArgs {
    /// Version that pages and scripts are offered for new clusters. May be given several times: the last is the default. Any
    /// other version is taken as well
    #[arg(long = "openshift-version", value_name = "VERSION", conflicts_with = "release_images")]
    pub(crate) openshift_versions: Vec<String>,

    /// Release images that can be installed, a JSON list: [{"openshift_version":"4.22","cpu_architecture":"x86_64",
    /// "cpu_architectures":["x86_64"], "url":"IMAGE", "version":"4.22.9", "default":true, "support_level":"production"}]. A
    /// cluster that asks for 4.22 gets the latest of them, and other versions and architectures are refused. Without it any
    /// version is taken as it is written
    #[arg(long, value_name = "FILE")]
    pub(crate) release_images: Option<PathBuf>,

    /// OS images that hosts boot, a JSON list: [{"openshift_version":"4.22","cpu_architecture":"x86_64","url":"URL",
    /// "version":"BUILD"}]. Infra-envs and clusters of versions and architectures without one are refused. Without it there is
    /// no such check; what hosts boot is --iso either way
    #[arg(long, value_name = "FILE")]
    pub(crate) os_images: Option<PathBuf>,

    /// Images that gather a cluster's logs, by version and architecture: {"4.22-x86_64":{"ocp":"IMAGE"}}. They go into install
    /// requests
    #[arg(long, value_name = "FILE")]
    pub(crate) must_gather_images: Option<PathBuf>,
}

impl CatalogueArgs {
    /// The catalogue in the files, if there are any.
    pub(crate) fn read(&self) -> Result<Option<Catalogue>, CatalogueError> {
        Catalogue::read(self.release_images.as_deref(), self.os_images.as_deref(), self.must_gather_images.as_deref())
    }
}
