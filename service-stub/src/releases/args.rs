//! Options of `landfall serve` about releases.

use super::{Catalogue, CatalogueError, Listing};

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
    /// version is accepted as it is written. The list itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "RELEASE_IMAGES", hide_env_values = true)]
    pub(crate) release_images: Option<Listing>,

    /// OS images that hosts boot, a JSON list: [{"openshift_version":"4.22","cpu_architecture":"x86_64","url":"URL",
    /// "version":"BUILD", "os_stream":"rhel-10", "default_os_stream":true, "type":"full-iso"}]. Infra-envs and clusters of other
    /// versions and architectures are refused. Without this option there is no such check. A URL that is a path or begins with
    /// file:// is a live ISO of this machine, which hosts of that version, architecture and stream boot; nothing is downloaded, and
    /// hosts of other entries boot --iso. The list itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "OS_IMAGES", hide_env_values = true)]
    pub(crate) os_images: Option<Listing>,

    /// Images that gather a cluster's logs, by version and architecture: {"4.22-x86_64":{"ocp":"IMAGE"}}. Passed in install
    /// requests. The object itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "MUST_GATHER_IMAGES", hide_env_values = true)]
    pub(crate) must_gather_images: Option<Listing>,
}

impl CatalogueArgs {
    /// The catalogue in the lists, if any.
    pub(crate) fn read(&self) -> Result<Option<Catalogue>, CatalogueError> {
        Catalogue::read(self.release_images.as_ref(), self.os_images.as_ref(), self.must_gather_images.as_ref())
    }
}
