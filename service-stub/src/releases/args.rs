//! Options of `landfall serve` about releases.

use super::{Catalogue, CatalogueError, Listing, ReleaseSources};
use crate::state::limits::go_seconds;
use std::time::Duration;

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
    /// "version":"BUILD", "os_stream":"rhel-10", "default_os_stream":true, "type":"full-iso", "sha256":"DIGEST"}]. Infra-envs and
    /// clusters of other versions and architectures are refused. Without this option there is no such check. A URL that is a path
    /// or begins with file:// is a live ISO of this machine, which hosts of that version, architecture and stream boot. Others are
    /// downloaded once into the state directory, unless --iso names an ISO of that architecture for all versions, which hosts of
    /// these entries boot then. The list itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "OS_IMAGES", hide_env_values = true)]
    pub(crate) os_images: Option<Listing>,

    /// Versions that are not offered although --release-images lists them, a JSON list: ["4.20","4.21.3"]. The list itself may
    /// stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "IGNORED_OPENSHIFT_VERSIONS", hide_env_values = true)]
    pub(crate) ignored_openshift_versions: Option<Listing>,

    /// Channels whose releases are offered beside those of --release-images, a JSON list: [{"openshift_version":"4.22",
    /// "multi_cpu_architectures":["x86_64","arm64"], "upgrade_channels":[{"cpu_architecture":"x86_64", "channels":["stable"]}]}].
    /// They are fetched from --release-graph-url. The list itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "RELEASE_SOURCES", hide_env_values = true)]
    pub(crate) release_sources: Option<Listing>,

    /// Update service that knows which versions are in a channel
    #[arg(long, value_name = "URL", env = "OCM_BASE_URL", default_value = "https://api.openshift.com")]
    pub(crate) release_graph_url: String,

    /// Where the support levels of minor releases are listed
    #[arg(
        long,
        value_name = "URL",
        env = "RED_HAT_PRODUCT_LIFE_CYCLE_DATA_API_BASE_URL",
        default_value = "https://access.redhat.com/product-life-cycles/api/v2/products"
    )]
    pub(crate) release_levels_url: String,

    /// Time between two fetches of --release-sources
    #[arg(long, value_name = "TIME", env = "OPENSHIFT_RELEASE_SYNCER_INTERVAL", default_value = "30m", value_parser = interval)]
    pub(crate) release_sources_interval: Duration,

    /// Images that gather a cluster's logs, by version and architecture: {"4.22-x86_64":{"ocp":"IMAGE"}}. Passed in install
    /// requests. The object itself may stand in place of the file's name
    #[arg(long, value_name = "FILE", env = "MUST_GATHER_IMAGES", hide_env_values = true)]
    pub(crate) must_gather_images: Option<Listing>,
}

impl CatalogueArgs {
    /// The catalogue in the lists, if any.
    pub(crate) fn read(&self) -> Result<Option<Catalogue>, CatalogueError> {
        let mut catalogue =
            Catalogue::read(given(&self.release_images), given(&self.os_images), given(&self.must_gather_images))?;
        if let (Some(catalogue), Some(versions)) = (&mut catalogue, given(&self.ignored_openshift_versions)) {
            catalogue.ignore(versions)?;
        }
        Ok(catalogue)
    }

    /// The sources of releases; empty without any.
    pub(crate) fn sources(&self) -> Result<ReleaseSources, CatalogueError> {
        let (graph_url, levels_url) = (&self.release_graph_url, &self.release_levels_url);
        ReleaseSources::read(given(&self.release_sources), graph_url, levels_url, self.release_sources_interval)
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = go_seconds(text).and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map(Duration::from_secs).ok_or_else(|| "write a duration such as 30m or 1h30m".to_owned())
}

/// A list that is not an empty text, as deployments set variables.
fn given(list: &Option<Listing>) -> Option<&Listing> {
    list.as_ref().filter(|list| !matches!(list, Listing::File(path) if path.as_os_str().is_empty()))
}
