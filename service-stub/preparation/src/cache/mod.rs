//! `openshift-install` of each release: given by the operator, or taken out of its release image once and cached.

mod args;
mod elf;
mod error;
mod given;
mod layer;
mod native;
mod oc;
mod patience;
mod placeholders;
mod program;
pub mod references;
mod sizes;
mod store;

pub use args::InstallerArgs;
pub use elf::ElfError;
pub use error::{ExtractError, InstallerError};
pub use given::{GivenError, GivenInstaller, GivenInstallers};
pub use layer::LayerError;
pub use native::ExtractionBounds;
pub use placeholders::PlaceholderError;
pub use sizes::{CapacityError, InstallerCacheArgs, Size, SizeError};
pub use store::{Evictions, InstallerCache, InstallerGuard};

use api::Secret;
use kernel::clock::Clock;
use native::Wanted;
use netcheck::image::ImageOptions;
use oc::Oc;
use std::{io, path::Path, sync::Arc};

/// The directory of the cache, below the service's state directory.
const DIRECTORY: &str = "installer-cache";

/// A release whose program is wanted.
#[derive(Clone, Debug)]
pub struct ReleaseRequest {
    /// The image that the cluster is installed from.
    pub image: String,
    /// Full version, as `4.22.9`.
    pub version: String,
    /// The release's: `x86_64`, `arm64`, … or `multi`.
    pub architecture: String,
    /// The same version's release image for this machine's architecture, if that is another one and the image is known.
    pub own_image: Option<String>,
    /// The cluster's credentials for registries.
    pub pull_secret: Secret,
}

/// Where programs come from.
#[derive(Debug)]
pub struct Installers {
    given: GivenInstallers,
    cache: InstallerCache,
    release_bytes: u64,
    options: ImageOptions,
    bounds: ExtractionBounds,
    /// Extracts in our place.
    oc: Option<Oc>,
    fips_host: bool,
    clock: Clock,
}

/// Why no programs can be had at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    #[error(transparent)]
    Given(#[from] ExtractError),
    #[error("cannot empty the cache of openshift-install, {}", path.display())]
    Cache { path: std::path::PathBuf, source: io::Error },
}

impl Installers {
    /// Empties the cache below the state directory. `options` are the registries of this machine; credentials come with each request.
    pub fn open(
        args: &InstallerArgs,
        state_directory: &Path,
        options: ImageOptions,
        bounds: ExtractionBounds,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let given = args.given();
        given.check()?;
        let directory = state_directory.join(DIRECTORY);
        let cache = InstallerCache::open(&directory, args.cache.limit()?, clock.clone());
        let cache = cache.map_err(|source| OpenError::Cache { path: directory, source })?;
        let oc = args.oc.clone().map(|program| Oc {
            program,
            mirrors: oc::mirrors(&options.registries),
            release_mirror: args.oc_release_image_mirror.clone(),
            time: bounds.time,
        });
        Ok(Self {
            given,
            cache,
            release_bytes: args.cache.max_release_size.0,
            options,
            bounds,
            oc,
            fips_host: program::host_is_fips(),
            clock,
        })
    }

    /// The program of a release, which stays as long as the guard does. Waits for an extraction, or for space in the cache, until
    /// `stop` says that the request is over. Other requests may wait for this one's `stop` to answer.
    pub fn get(&self, request: &ReleaseRequest, stop: &dyn Fn() -> bool) -> Result<InstallerGuard, InstallerError> {
        let result = match self.given.find(&request.version) {
            Some(path) => given::check(path).map(|()| InstallerGuard::given(path)).map_err(Arc::new),
            None => self.extracted(request, stop),
        };
        result.map_err(|source| match *source {
            ExtractError::Cancelled => InstallerError::Cancelled,
            _ => InstallerError::Release { image: request.image.clone(), source },
        })
    }

    /// How often the cache was full.
    pub fn evictions(&self) -> Evictions {
        self.cache.evictions()
    }

    fn extracted(
        &self,
        request: &ReleaseRequest,
        stop: &dyn Fn() -> bool,
    ) -> Result<InstallerGuard, Arc<ExtractError>> {
        let own = self.options.architecture.as_str();
        let foreign = program::is_foreign(&request.architecture, own);
        let (image, architecture) = match request.own_image.as_deref().filter(|_| foreign) {
            Some(image) => (image, own),
            None => (request.image.as_str(), request.architecture.as_str()),
        };
        let wanted = Wanted {
            image,
            architecture,
            version: &request.version,
            pull_secret: &request.pull_secret,
            program: program::name(&request.version, self.fips_host),
        };
        let extract = |path: &Path| {
            patience::persist(&self.clock, stop, &|| match &self.oc {
                Some(oc) => oc.extract(&wanted, self.release_bytes, path, stop),
                None => native::extract(&wanted, &self.options, &self.bounds, path, stop),
            })
        };
        self.cache.get(image, wanted.program, &extract, stop)
    }
}
