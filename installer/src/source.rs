//! Which image: the one named, the one inside the live system, or a stream's newest (docs/compatibility.md#image-source).

use crate::streams::{self, STREAM_BASE_URL, StreamQuery};
use diskwrite::{InstallOptions, SignatureAt, Source};
use std::path::{Path, PathBuf};

/// The stream if nothing else is specified.
const STREAM: &str = "stable";
/// Where a live system describes the images inside it.
const OSMET_DIR: &str = "/run/coreos-installer/osmet";
/// The two sector sizes there are images for, in bytes.
const SECTOR: u32 = 512;
const LARGE_SECTOR: u32 = 4096;

/// What was specified of it; by default nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// A file, or `-` for standard input.
    pub image_file: Option<&'a PathBuf>,
    /// http or https.
    pub image_url: Option<&'a str>,
    /// The one inside the live system or none.
    pub offline: bool,
    /// A stream's newest.
    pub stream: Option<&'a str>,
    /// As the kernel names it; this machine's when not said.
    pub architecture: Option<&'a str>,
    /// Base URL of the streams' metadata.
    pub stream_base_url: Option<&'a str>,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChoiceError {
    #[error(
        "cannot perform offline install; metadata missing: no file in {OSMET_DIR} describes an image for this disk and \
         architecture"
    )]
    NoOfflineImage,
}

/// Sets the image in `options`, whose disk must be set, and for one of a stream what vouches for it. Returns what
/// coreos-installer prints about it.
pub(crate) fn choose(choice: &Choice, options: &mut InstallOptions) -> anyhow::Result<String> {
    if let Some(source) = named(choice) {
        let origin = match &source {
            Source::Url(_) => format!("Downloading image from {source}\nDownloading signature from {source}.sig"),
            _ => format!("Copying image from {source}\nReading signature from {source}.sig"),
        };
        options.source = source;
        return Ok(origin);
    }
    // Looks at the disk and all else that is asked for, before anything is fetched.
    let disk_sector = diskwrite::plan(options)?.disk.sector_bytes;
    let sector_bytes = if disk_sector == LARGE_SECTOR { LARGE_SECTOR } else { SECTOR };
    let architecture = choice.architecture.unwrap_or(std::env::consts::ARCH);
    if choice.offline || choice.stream.is_none() {
        if let Some(image) = diskwrite::osmet(Path::new(OSMET_DIR), architecture, sector_bytes)? {
            let origin = format!("Installing {image}");
            options.source = Source::Osmet(image);
            return Ok(origin);
        }
        if choice.offline {
            return Err(ChoiceError::NoOfflineImage.into());
        }
    }
    let query = StreamQuery {
        base_url: choice.stream_base_url.unwrap_or(STREAM_BASE_URL),
        stream: choice.stream.unwrap_or(STREAM),
        architecture,
        sector_bytes,
        retries: options.retries,
    };
    let image = streams::resolve(&options.http, &query, &options.cancel)?;
    let trust = &mut options.trust;
    trust.signature = trust.signature.take().or(image.signature_url.map(SignatureAt::Url));
    // What the caller says of the sum stands.
    if trust.sha256_sums.is_none() && trust.sha256.is_none() {
        trust.published_sha256 = image.sha256;
    }
    options.source = Source::Url(image.image_url);
    Ok(image.description)
}

fn named(choice: &Choice) -> Option<Source> {
    match (choice.image_file, choice.image_url) {
        (Some(path), _) if path == Path::new("-") => Some(Source::Stdin),
        (Some(path), _) => Some(Source::File(path.clone())),
        (None, Some(url)) => Some(Source::Url(url.to_owned())),
        (None, None) => None,
    }
}
