//! One image: what is stored if it is whole, else a download that continues where the last one broke off.

use super::check::{self, CheckError};
use super::files::{Place, Record, digest};
use crate::media::LiveIso;
use crate::media_probe;
use crate::releases::OsImage;
use crate::store::room::{self, NoRoom};
use api::Secret;
use api::download::{Download, DownloadError, DownloadOptions, Received};
use api::http::{HttpConfigError, build, configuration, public_url};
use api::proxy::ProxyVariables;
use kernel::Cancel;
use kernel::units::binary;
use std::{
    fs::File,
    io,
    path::PathBuf,
    slice,
    time::{Duration, Instant},
};
use ureq::http::{HeaderName, HeaderValue};

/// An image that brings a release along has tens of gigabytes.
const MAX_BYTES: u64 = 256 << 30;
/// Free space is looked at after this much.
const LOOK_BYTES: u64 = 64 << 20;
/// Time between two lines of progress in the log.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// How patient downloads are.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Pause after the first failure; each further one doubles it.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// Time in which some data must arrive.
    pub silence: Duration,
    /// Time in which `least_bytes` must arrive.
    pub window: Duration,
    pub least_bytes: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(300),
            silence: Duration::from_secs(30),
            window: Duration::from_secs(60),
            least_bytes: 256 << 10,
        }
    }
}

impl Pace {
    /// The pause after so many failures before the last.
    pub(super) fn pause(&self, tries: u32) -> Duration {
        self.first_pause.saturating_mul(1 << tries.min(16)).min(self.longest_pause)
    }
}

/// How images are reached, and what is left of the disk.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub query: Vec<(String, Secret)>,
    /// CA certificates besides the system's, PEM.
    pub ca: Option<PathBuf>,
    /// Downloads leave this much of the file system free.
    pub reserve_bytes: u64,
    /// Hosts get no agent but that in the ISO.
    pub warns_without_agent: bool,
    pub pace: Pace,
}

impl Access {
    pub(super) fn agent(&self) -> Result<ureq::Agent, HttpConfigError> {
        Ok(build(configuration(self.ca.as_slice(), false)?, ProxyVariables::from_env()))
    }
}

/// Why there is no image yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpConfigError),
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error("{url} came without a length: list its sha256")]
    NoLength { url: String },
    #[error("the SHA-256 of {url} is {found}, not {expected}")]
    Digest { url: String, found: String, expected: String },
    #[error("{url} is not a live ISO for this entry")]
    Check { url: String, source: Box<CheckError> },
    #[error("cannot store the download in {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl FetchError {
    /// Another attempt soon would load the same for nothing.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Self::NoLength { .. } | Self::Digest { .. } | Self::Check { .. })
    }
}

/// Why a download is ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the service stops")]
    Cancelled,
    #[error("only {} arrived in {} s", binary(*bytes), window.as_secs())]
    Slow { bytes: u64, window: Duration },
}

/// The image: what is stored, else what is downloaded.
pub(super) fn obtain(
    image: &OsImage,
    place: &Place,
    access: &Access,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<LiveIso, FetchError> {
    if let Some(iso) = stored(image, place, cancel) {
        return Ok(iso);
    }
    download(image, place, access, cancel, progress)?;
    let iso = check::open(&place.iso(), image)
        .map_err(|source| FetchError::Check { url: public_url(&image.url), source: Box::new(source) })
        // It would be the same the next time.
        .inspect_err(|_| drop(place.remove_stored()))?;
    if access.warns_without_agent && !image.offline {
        for fault in media_probe::agent_faults(slice::from_ref(&place.iso()), &[], false) {
            tracing::warn!("{fault}");
        }
    }
    Ok(iso)
}

/// The file of an earlier run, if it is what was recorded then and what is listed now. Any other is removed.
fn stored(image: &OsImage, place: &Place, cancel: &Cancel) -> Option<LiveIso> {
    let file = File::open(place.iso()).ok()?;
    let fault = match place.record() {
        None => "it has no record".to_owned(),
        Some(record) if !file.metadata().is_ok_and(|metadata| metadata.len() == record.bytes) => {
            "its length is not the recorded one".to_owned()
        }
        Some(record) if !is_listed(image, &record.sha256) => "another SHA-256 is listed".to_owned(),
        Some(record) => match digest(&file, || go_on(cancel)) {
            Ok(found) if found == record.sha256 => match check::open(&place.iso(), image) {
                Ok(iso) => return Some(iso),
                Err(error) => crate::text::chain(&error),
            },
            Ok(_) => "its SHA-256 is not the recorded one".to_owned(),
            Err(_) if cancel.is_cancelled() => return None,
            Err(error) => error.to_string(),
        },
    };
    tracing::warn!(file = %place.iso().display(), fault, "the stored OS image is downloaded again");
    drop(place.remove_stored());
    None
}

fn is_listed(image: &OsImage, digest: &str) -> bool {
    image.sha256.is_empty() || image.sha256.eq_ignore_ascii_case(digest)
}

fn go_on(cancel: &Cancel) -> io::Result<()> {
    if cancel.is_cancelled() { Err(io::Error::other(Ended::Cancelled)) } else { Ok(()) }
}

fn download(
    image: &OsImage,
    place: &Place,
    access: &Access,
    cancel: &Cancel,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), FetchError> {
    let url = public_url(&image.url);
    let write = |source| FetchError::Write { path: place.part(), source };
    let open = File::options().read(true).append(true).create(true).open(place.part());
    let file = open.map_err(write)?;
    let options = DownloadOptions {
        silence: Some(access.pace.silence),
        headers: access.headers.clone(),
        query: access.query.clone(),
        // Nothing but the server's certificate speaks for the image.
        https_only: image.sha256.is_empty() && image.url.starts_with("https://"),
        ..DownloadOptions::new(MAX_BYTES)
    };
    let download = Download::new(access.agent()?, &image.url, file, options);
    let mut download = download.with_validator(place.validator());
    let mut watch = Watch { place, access, cancel, window: None, looked: None, reported: Instant::now() };
    let attempted = download.attempt(&mut |received| {
        watch.see(received)?;
        progress(received.bytes, received.total);
        Ok(())
    });
    if download.validator().is_none() {
        place.note(None).map_err(write)?;
    }
    let (bytes, was_announced) = attempted?;
    let refuse = |error| {
        drop(place.remove_unfinished());
        Err(error)
    };
    if !was_announced && image.sha256.is_empty() {
        return refuse(FetchError::NoLength { url });
    }
    drop(download.into_file());
    let file = File::open(place.part()).map_err(write)?;
    let sha256 = digest(&file, || go_on(cancel)).map_err(write)?;
    if !is_listed(image, &sha256) {
        return refuse(FetchError::Digest { url, found: sha256, expected: image.sha256.to_ascii_lowercase() });
    }
    tracing::info!(url, bytes, sha256, "downloaded an OS image");
    place.finish(&Record { source: url, bytes, sha256 }).map_err(write)
}

/// What looks at a download while it runs.
struct Watch<'a> {
    place: &'a Place,
    access: &'a Access,
    cancel: &'a Cancel,
    /// Start of the present window, and what there was then.
    window: Option<(Instant, u64)>,
    /// How much there was when free space was looked at.
    looked: Option<u64>,
    reported: Instant,
}

impl Watch<'_> {
    fn see(&mut self, received: Received<'_>) -> io::Result<()> {
        go_on(self.cancel)?;
        let (bytes, now) = (received.bytes, Instant::now());
        if self.looked.is_none() {
            self.place.note(received.validator)?;
        }
        if self.looked.is_none_or(|looked| bytes - looked >= LOOK_BYTES) {
            let missing = received.total.unwrap_or(bytes).saturating_sub(bytes);
            let needed = missing.saturating_add(self.access.reserve_bytes);
            room::check(self.place.directory(), needed).map_err(|error: NoRoom| io::Error::other(error))?;
            self.looked = Some(bytes);
        }
        let pace = &self.access.pace;
        let (since, before) = *self.window.get_or_insert((now, bytes));
        if now.duration_since(since) >= pace.window {
            let arrived = bytes.saturating_sub(before);
            if arrived < pace.least_bytes && received.total != Some(bytes) {
                return Err(io::Error::other(Ended::Slow { bytes: arrived, window: pace.window }));
            }
            self.window = Some((now, bytes));
        }
        if now.duration_since(self.reported) >= REPORT_EVERY {
            let total = received.total.map(binary);
            tracing::info!(file = %self.place.part().display(), received = binary(bytes), total, "downloading an OS image");
            self.reported = now;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pace = Pace::default();
        assert_eq!([0, 1, 2, 5, 6, 40].map(|tries| pace.pause(tries).as_secs()), [5, 10, 20, 160, 300, 300]);
    }
}
