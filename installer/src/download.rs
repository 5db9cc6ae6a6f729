//! `landfall download` and `landfall list-stream`, which are also coreos-installer's: what is said is what its readers look for
//! (docs/compatibility.md#coreos-installer-commands).

use crate::cli::values::FetchRetries;
use crate::display::Display;
use crate::streams::{self, Metadata, STREAM_BASE_URL, StreamError};
use anyhow::{Context, anyhow, bail};
use api::http::{HttpConfig, public_url};
use diskwrite::{
    Copy, CopyError, DecodeError, InstallOptions, Packing, Signature, SignatureAt, Source, SourceError, Trust,
    VerifyError,
};
use kernel::Cancel;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};
use ureq::http::StatusCode;

/// Endings of what `--decompress` unpacks, and of what looks like it and isn't: an archive stays what it is.
const PACKED: [&str; 2] = [".gz", ".xz"];
const ARCHIVES: [&str; 2] = [".tar.gz", ".tar.xz"];
/// The file of an image that is named by its URL.
const DISK: &str = "disk";

/// Groups of options in the help.
const SERVER: &str = "Server";
const VERIFY: &str = "Verification";

/// Fetch an image that CoreOS systems are installed from
///
/// The image is a stream's or, with --image-url, any other. Its signature is checked. A good existing file is not fetched
/// again.
#[derive(Debug, clap::Args)]
pub struct Download {
    /// Stream whose newest release is fetched: stable, testing, next or another
    #[arg(short, long, value_name = "name", default_value = "stable")]
    stream: String,
    /// Processor architecture of the machines that will boot it
    #[arg(short, long, value_name = "name", default_value = std::env::consts::ARCH)]
    architecture: String,
    /// Kind of machine that the image is for, such as metal or qemu
    #[arg(short, long, value_name = "name", default_value = "metal")]
    platform: String,
    /// Form of the image, such as raw.xz, 4k.raw.xz, iso or pxe
    #[arg(short, long, value_name = "name", default_value = "raw.xz")]
    format: String,
    /// Address of an image that is not in a stream
    #[arg(short = 'u', long, value_name = "URL", value_parser = url)]
    image_url: Option<String>,
    /// Directory for the files
    #[arg(short = 'C', long, value_name = "path", default_value = ".")]
    directory: PathBuf,
    /// Unpack a .gz or .xz image; its signature is checked but not stored
    #[arg(short, long)]
    decompress: bool,
    /// Accept an image without a signature; a bad signature is always refused
    #[arg(help_heading = VERIFY, long)]
    insecure: bool,
    /// Base URL of the streams' metadata [default: Fedora's server]
    #[arg(help_heading = SERVER, long, value_name = "URL", value_parser = url)]
    stream_base_url: Option<String>,
    /// How often to retry a server that does not answer, or 'infinite'
    #[arg(help_heading = SERVER, long, value_name = "N", default_value_t)]
    fetch_retries: FetchRetries,
    /// PEM bundle trusted for https in addition to the system's roots
    #[arg(help_heading = SERVER, long, value_name = "PATH")]
    cacert: Option<PathBuf>,
    /// OpenPGP keys to trust besides those of Fedora and Red Hat; may be repeated
    ///
    /// Keys of Fedora and Red Hat are built in and read from /etc/pki/rpm-gpg. The log (-v) shows the signing key's owner and
    /// fingerprint.
    #[arg(help_heading = VERIFY, long, value_name = "PATH")]
    keyring: Vec<PathBuf>,
    /// Trust only the keys of --keyring
    #[arg(help_heading = VERIFY, long, requires = "keyring")]
    keyring_only: bool,
}

/// Print the images of a stream: architecture, platform, format
#[derive(Debug, clap::Args)]
pub struct ListStream {
    /// The stream: stable, testing, next or another
    #[arg(short, long, value_name = "name", default_value = "stable")]
    stream: String,
    /// Base URL of the streams' metadata [default: Fedora's server]
    #[arg(long, value_name = "URL", value_parser = url)]
    stream_base_url: Option<String>,
    /// PEM bundle trusted for https in addition to the system's roots
    #[arg(long, value_name = "PATH")]
    cacert: Option<PathBuf>,
}

/// One file to be fetched.
struct Image {
    name: String,
    url: String,
    options: InstallOptions,
    signature: Option<Signature>,
}

impl ListStream {
    pub fn run(self) -> anyhow::Result<()> {
        let url = metadata_url(self.stream_base_url.as_deref(), &self.stream)?;
        let metadata = metadata(&http(self.cacert), &url, FetchRetries::default())?;
        Ok(io::stdout().write_all(table(&metadata.list()).as_bytes())?)
    }
}

/// The rows below their headings, each column but the last as wide as its widest.
fn table(rows: &[[&str; 3]]) -> String {
    let rows = [["Architecture", "Platform", "Format"]].iter().chain(rows);
    kernel::columns(&rows.map(|row| row.map(str::to_owned)).collect::<Vec<_>>(), &[], "  ")
}

impl Download {
    pub fn run(self) -> anyhow::Result<()> {
        let mut images = match &self.image_url {
            Some(url) => {
                let source = Source::Url(url.clone());
                let public = public_url(url);
                note(&format!("Downloading image from {public}\nDownloading signature from {public}.sig"));
                vec![self.image(DISK, url, Trust::default(), source)]
            }
            None => self.of_stream()?,
        };
        if images.is_empty() {
            bail!("no artifacts found");
        }
        for image in &mut images {
            match diskwrite::signature(&image.options) {
                Ok(signature) => image.signature = Some(signature),
                Err(why) => {
                    tracing::info!("no signature of {}: {why}", image.name);
                    note("Failed to fetch signature: fetching signature URL");
                }
            }
        }
        images.iter().try_for_each(|image| self.fetch(image))
    }

    fn image(&self, name: &str, url: &str, trust: Trust, source: Source) -> Image {
        let (keyrings, keyrings_only) = (self.keyring.clone(), self.keyring_only);
        let trust = Trust { required: !self.insecure, keyrings, keyrings_only, ..trust };
        let (retries, http) = (self.fetch_retries.into(), http(self.cacert.clone()));
        let options = InstallOptions { source, trust, retries, http, ..InstallOptions::default() };
        Image { name: name.to_owned(), url: url.to_owned(), options, signature: None }
    }

    fn of_stream(&self) -> anyhow::Result<Vec<Image>> {
        let Self { architecture, platform, format, stream, .. } = self;
        let url = metadata_url(self.stream_base_url.as_deref(), stream)?;
        note(&format!(
            "Downloading {architecture} {platform} image ({format}) and signature referenced from {}",
            public_url(&url)
        ));
        let metadata = metadata(&http(self.cacert.clone()), &url, self.fetch_retries)?;
        let artifacts = metadata.artifacts(architecture, platform, format).with_context(|| {
            format!(
                "couldn't find architecture {architecture}, platform {platform}, format {format} in stream metadata"
            )
        })?;
        let each = artifacts.iter().map(|(name, artifact)| {
            let sum = |text: &str| {
                diskwrite::parse_sha256(text)
                    .with_context(|| format!("stream {stream}: '{text}' is not a SHA-256 in hexadecimal"))
            };
            let signature = artifact.signature.clone().filter(|url| !url.is_empty()).map(SignatureAt::Url);
            let sha256 = artifact.sha256.as_deref().map(sum).transpose()?;
            let url = &artifact.location;
            Ok(self.image(
                name,
                url,
                Trust { signature, published_sha256: sha256, ..Trust::default() },
                Source::Url(url.clone()),
            ))
        });
        each.collect()
    }

    /// Fetches one file, unless it exists, and prints its path.
    fn fetch(&self, image: &Image) -> anyhow::Result<()> {
        let signature = image.signature.as_ref();
        if signature.is_none() && !self.insecure {
            bail!("--insecure not specified and signature not found");
        }
        let path = self.directory.join(file_name(&image.url, self.decompress));
        let mut signature_path = path.clone().into_os_string();
        signature_path.push(".sig");
        if signature.is_none_or(|signature| !is_there(image, &path, Path::new(&signature_path), signature)) {
            self.write(image, &path)?;
            if let (Some(signature), false) = (signature, self.decompress) {
                fs::write(&signature_path, &signature.bytes).context("writing signature data")?;
            }
        }
        Ok(writeln!(io::stdout(), "{}", path.display())?)
    }

    fn write(&self, image: &Image, path: &Path) -> anyhow::Result<()> {
        let packing = if self.decompress && is_packed(&image.url) { Packing::Unpacked } else { Packing::AsItComes };
        let unsigned = || {
            if image.signature.is_none() {
                note("Signature not found; skipping verification as requested");
            }
        };
        let copy = match Copy::open(&image.options, image.signature.as_ref(), packing) {
            Ok(copy) => copy,
            Err(error) => {
                if not_given(&error).is_none() {
                    unsigned();
                }
                return Err(in_its_words(error, "decoding first MiB of image"));
            }
        };
        unsigned();
        let file = File::create(path).with_context(|| format!("opening {}", path.display()))?;
        let mut display = Display::of_download(&image.name);
        let result = copy.write(Some(&file), &mut |event| display.show(event));
        display.close();
        result.map(drop).map_err(|error| {
            // It is useless, but looks like an image.
            let _ = fs::remove_file(path);
            in_its_words(error, "decoding and writing image")
        })
    }
}

/// Whether an earlier run left the same, which its signature vouches for still.
fn is_there(image: &Image, path: &Path, signature_path: &Path, signature: &Signature) -> bool {
    let same = fs::read(signature_path).is_ok_and(|bytes| bytes == signature.bytes);
    let options = InstallOptions { source: Source::File(path.to_owned()), ..image.options.clone() };
    same && Copy::open(&options, Some(signature), Packing::AsItComes)
        .and_then(|copy| copy.write(None, &mut |_| ()))
        .is_ok()
}

/// The last part of the URL's path, without what tells how it is packed if it is to be unpacked.
fn file_name(url: &str, unpack: bool) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let after_scheme = path.split_once("://").map_or(path, |(_, rest)| rest);
    let name = after_scheme.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default();
    if !unpack || !is_packed(name) {
        return name;
    }
    PACKED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

fn is_packed(url: &str) -> bool {
    let name = url.split(['?', '#']).next().unwrap_or_default();
    let ends = |endings: [&str; 2]| endings.iter().any(|ending| name.ends_with(ending));
    ends(PACKED) && !ends(ARCHIVES)
}

fn metadata_url(base_url: Option<&str>, stream: &str) -> anyhow::Result<String> {
    Ok(streams::metadata_url(base_url.unwrap_or(STREAM_BASE_URL), stream)?)
}

fn http(ca_cert: Option<PathBuf>) -> HttpConfig {
    HttpConfig { ca_cert, ..HttpConfig::default() }
}

fn metadata(http: &HttpConfig, url: &str, retries: FetchRetries) -> anyhow::Result<Metadata> {
    let never = Cancel::default();
    streams::metadata(http, url, retries.into(), &never).map_err(|error| match error {
        StreamError::Status { url, status } => answered(&url, status).context("fetching stream metadata"),
        StreamError::Transport { url, source } => unanswered(&url, *source).context("fetching stream metadata"),
        StreamError::Json { source, .. } => anyhow::Error::new(source).context("decoding stream metadata"),
        error => error.into(),
    })
}

/// An image that the server doesn't even begin to give.
fn not_given(error: &CopyError) -> Option<()> {
    let CopyError::Source(DecodeError::Source(source)) = error else { return None };
    matches!(source, SourceError::Status { offset: 0, .. } | SourceError::Transport { offset: 0, .. }).then_some(())
}

fn in_its_words(error: CopyError, doing: &'static str) -> anyhow::Error {
    match error {
        CopyError::Source(DecodeError::Source(SourceError::Status { url, status, offset: 0 })) => {
            answered(&url, status).context("fetching image URL")
        }
        CopyError::Source(DecodeError::Source(SourceError::Transport { url, offset: 0, source })) => {
            unanswered(&url, *source).context("fetching image URL")
        }
        CopyError::Source(error @ DecodeError::Trailing { .. }) => {
            anyhow::Error::new(error).context("found trailing data after compressed stream").context(doing)
        }
        // A wrong sum has nothing to do with signatures.
        CopyError::Source(DecodeError::Verify(error)) | CopyError::Verify(error)
            if !matches!(error, VerifyError::Sha256 { .. }) =>
        {
            anyhow::Error::new(error).context("GPG verification failure")
        }
        error => anyhow::Error::new(error).context(doing),
    }
}

/// A refusal, in the words of the program's HTTP library.
fn answered(url: &str, code: u16) -> anyhow::Error {
    let side = if code < 500 { "client" } else { "server" };
    let reason = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
    let status = reason.map_or_else(|| code.to_string(), |reason| format!("{code} {reason}"));
    let text = match code {
        // It would have asked again.
        408 | 429 | 500 | 502..=504 => format!("HTTP {status}"),
        _ => format!("HTTP status {side} error ({status}) for url ({url})"),
    };
    anyhow!(text).context(format!("fetching '{url}'"))
}

/// As [`answered`], of a server that doesn't.
fn unanswered(url: &str, error: ureq::Error) -> anyhow::Error {
    anyhow::Error::new(error)
        .context(format!("error sending request for url ({url})"))
        .context(format!("fetching '{url}'"))
}

/// A URL at least has a scheme.
fn url(text: &str) -> Result<String, &'static str> {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme).unwrap_or_default();
    let plain = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if plain && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) {
        Ok(text.to_owned())
    } else {
        Err("relative URL without a base")
    }
}

/// Not eprintln, which panics if the reader is gone.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_called_as_its_url_says() {
        for (url, packed, unpacked) in [
            ("http://h/a/disk.raw.xz", "disk.raw.xz", "disk.raw"),
            ("http://h/disk.raw.gz?a=b/c#d/e", "disk.raw.gz", "disk.raw"),
            ("http://h/disk.tar.gz", "disk.tar.gz", "disk.tar.gz"),
            ("http://h/disk.tar.xz", "disk.tar.xz", "disk.tar.xz"),
            ("http://h/disk.TAR.gz", "disk.TAR.gz", "disk.TAR"),
            ("http://h/disk.raw.zst", "disk.raw.zst", "disk.raw.zst"),
            ("http://h/", "", ""),
            ("http://h.xz", "", ""),
        ] {
            assert_eq!((file_name(url, false), file_name(url, true)), (packed, unpacked), "{url}");
        }
    }

    #[test]
    fn a_table_is_as_wide_as_its_widest() {
        assert_eq!(table(&[]), "Architecture  Platform  Format\n");
        let rows = [["x86_64", "a-long-platform", "raw.xz"], ["m", "metal", "iso"]];
        let expected = "Architecture  Platform         Format\n\
                        x86_64        a-long-platform  raw.xz\n\
                        m             metal            iso\n";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn a_url_has_a_scheme() {
        for (text, good) in [("http://h", true), ("ftp://h", true), ("nonsense", false), ("1:x", false), (":", false)] {
            assert_eq!(url(text).is_ok(), good, "{text}");
        }
    }
}
