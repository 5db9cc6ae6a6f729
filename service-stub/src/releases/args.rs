//! Options of `landfall serve` about releases.

use super::{Catalogue, CatalogueError, Listing, sources};
use serde_json::Value;

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

    /// Sources of lists of releases, a JSON list. This service reports them in /v2/release-sources and fetches nothing from them:
    /// releases are those of --release-images
    #[arg(long, value_name = "FILE", env = "RELEASE_SOURCES", hide_env_values = true)]
    pub(crate) release_sources: Option<Listing>,

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

    /// The sources of releases, of which nothing is fetched.
    pub(crate) fn sources(&self) -> Result<Vec<Value>, CatalogueError> {
        let sources = given(&self.release_sources).map(sources).transpose()?.unwrap_or_default();
        if !sources.is_empty() {
            tracing::warn!("nothing is fetched from release sources: list releases with --release-images");
        }
        Ok(sources)
    }
}

/// A list that is not an empty text, as deployments set variables.
fn given(list: &Option<Listing>) -> Option<&Listing> {
    list.as_ref().filter(|list| !matches!(list, Listing::File(path) if path.as_os_str().is_empty()))
}
