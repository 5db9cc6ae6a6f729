//! Takes a program out of a release image, by the registry's HTTP API.

use super::{
    elf,
    error::ExtractError,
    layer::{self, LayerBounds, LayerError, Place, Verdict},
    placeholders::{self, Values},
    program::{self, Component},
    references::References,
};
use api::Secret;
use netcheck::image::{
    ImageOptions,
    auth::{self, Credentials},
    file::Image,
    manifest::Descriptor,
    reference::{Digest, Name},
};
use nix::sys::statvfs::fstatvfs;
use std::{
    fs::File,
    path::Path,
    time::{Duration, Instant},
};

/// Symbolic and hard links in turn.
const MAX_LINKS: usize = 8;
/// Left free for everything else that is stored beside the program.
const SPARE_BYTES: u64 = 64 << 20;

/// What an extraction may take.
#[derive(Clone, Copy, Debug)]
pub struct ExtractionBounds {
    pub layers: usize,
    /// Of a layer as it is stored.
    pub layer_bytes: u64,
    /// Of a layer once it is unpacked.
    pub unpacked_bytes: u64,
    pub file_bytes: u64,
    /// For a try as a whole.
    pub time: Duration,
}

impl Default for ExtractionBounds {
    fn default() -> Self {
        Self {
            layers: 64,
            layer_bytes: 4 << 30,
            unpacked_bytes: 16 << 30,
            file_bytes: 2 << 30,
            time: Duration::from_secs(3600),
        }
    }
}

/// A program of a release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The release image.
    pub image: &'a str,
    /// The release's, as the API names it.
    pub architecture: &'a str,
    pub version: &'a str,
    pub pull_secret: &'a Secret,
    pub program: &'static str,
}

/// Writes the program to `path`, an existing file.
pub(super) fn extract(
    wanted: &Wanted<'_>,
    options: &ImageOptions,
    bounds: &ExtractionBounds,
    path: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), ExtractError> {
    let login = auth::parse(wanted.pull_secret.expose().as_bytes())?;
    let options =
        ImageOptions { credentials: Credentials::from_file("the cluster's pull secret", login), ..options.clone() };
    let own = options.architecture.as_str();
    let component = program::component(wanted.program, wanted.architecture, own)?;
    let deadline = Instant::now() + bounds.time;

    let release = Image::find(wanted.image, &options, deadline)?;
    let references = References::read(&release, &options, deadline)?;
    let tag = component.tag;
    let name = references.image(tag)?.ok_or(ExtractError::NoComponent { tag })?;
    if !matches!(name.parse(), Ok(Name::Full(reference)) if reference.version.digest.is_some()) {
        return Err(ExtractError::Unpinned { tag, image: name });
    }
    if stop() {
        return Err(ExtractError::Cancelled);
    }

    let store = |source| ExtractError::Store { path: path.to_owned(), source };
    let file = File::options().read(true).write(true).open(path).map_err(store)?;
    let image = Image::find(&name, &options, deadline)?;
    Search { image: &image, component: &component, options: &options, bounds, deadline, file: &file, path, stop }
        .run()?;
    elf::check(&file, own)?;
    placeholders::fill(&file, &values(wanted, &release, &references, own)?)?;
    Ok(())
}

/// What the program will say of its release: the image by digest under the name that it was asked for, not that of a mirror.
fn values(wanted: &Wanted<'_>, release: &Image, references: &References, own: &str) -> Result<Values, ExtractError> {
    let name = wanted.image.parse().map_err(|source| ExtractError::Name { image: wanted.image.to_owned(), source })?;
    let repository = match name {
        Name::Full(reference) => format!("{}/{}", reference.registry, reference.repository),
        Name::Short { path, .. } => path,
    };
    let version = match references.version() {
        "" => wanted.version,
        version => version,
    };
    // Only the name of an index stands for more than one image.
    let architecture = if release.named == release.digest {
        let architecture = program::go_architecture(wanted.architecture);
        format!("linux/{}", if matches!(architecture, "" | "multi") { own } else { architecture })
    } else {
        format!("multi (linux/{own})")
    };
    Ok(Values { image: format!("{repository}@{}", release.named), version: version.to_owned(), architecture })
}

struct Search<'a> {
    image: &'a Image,
    component: &'a Component,
    options: &'a ImageOptions,
    bounds: &'a ExtractionBounds,
    deadline: Instant,
    file: &'a File,
    path: &'a Path,
    stop: &'a dyn Fn() -> bool,
}

impl Search<'_> {
    /// Later layers win. A link is followed from the last layer on, where it is symbolic, since any layer may have what it leads to.
    fn run(&self) -> Result<(), ExtractError> {
        let Component { tag, path } = self.component;
        let layers: Vec<_> = self.image.layers().collect();
        if layers.len() > self.bounds.layers {
            return Err(ExtractError::Layers { tag, layers: layers.len(), limit: self.bounds.layers });
        }
        let absent = |place: &Place| ExtractError::Absent { tag, path: place.text() };
        let opened = self.image.open(self.options, self.deadline, self.stop)?;
        let mut wanted = Place::parse(path.as_bytes()).ok_or(ExtractError::NoComponent { tag })?;
        // From the last to the first.
        let mut left = layers.as_slice();
        let mut links = 0;
        while let Some((layer, below)) = left.split_last() {
            let verdict = self.search(&opened, layer, &wanted)?;
            (left, wanted) = match verdict {
                Verdict::File => return Ok(()),
                Verdict::Hidden => return Err(absent(&wanted)),
                Verdict::Nothing => (below, wanted),
                Verdict::Symlink(place) => (layers.as_slice(), place),
                Verdict::Hardlink(place) => (left, place),
            };
            links += usize::from(left.len() > below.len());
            if links > MAX_LINKS {
                return Err(ExtractError::Links { path: path.clone(), limit: MAX_LINKS });
            }
        }
        Err(absent(&wanted))
    }

    fn search(
        &self,
        opened: &netcheck::image::file::Layers<'_>,
        layer: &Descriptor,
        wanted: &Place,
    ) -> Result<Verdict, ExtractError> {
        let (digest, limit_bytes) = (&layer.digest, self.bounds.layer_bytes);
        if layer.size_bytes > limit_bytes {
            let digest = digest.clone();
            return Err(ExtractError::LayerSize { digest, size_bytes: layer.size_bytes, limit_bytes });
        }
        let bounds = LayerBounds { unpacked_bytes: self.bounds.unpacked_bytes, file_bytes: self.bounds.file_bytes };
        let free_bytes = || free_bytes(self.file).saturating_sub(SPARE_BYTES);
        let read = |body: &mut dyn std::io::Read| layer::search(body, wanted, bounds, self.file, &free_bytes);
        let fetched = opened.fetch(layer, read);
        if (self.stop)() {
            return Err(ExtractError::Cancelled);
        }
        fetched?.map_err(|error| self.fault(digest, error))
    }

    fn fault(&self, digest: &Digest, error: LayerError) -> ExtractError {
        match error {
            LayerError::NoSpace { needed_bytes, free_bytes } => {
                let directory = self.path.parent().unwrap_or(self.path).to_owned();
                ExtractError::NoSpace { directory, needed_bytes, free_bytes }
            }
            LayerError::Write(source) => ExtractError::Store { path: self.path.to_owned(), source },
            source => ExtractError::Layer { digest: digest.clone(), source },
        }
    }
}

/// What a file's file system has for us; all if it can't be asked.
pub(super) fn free_bytes(file: &File) -> u64 {
    fstatvfs(file).map_or(u64::MAX, |found| found.blocks_available().saturating_mul(found.fragment_size()))
}
