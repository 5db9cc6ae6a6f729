//! Where the bytes come from: a file, standard input, or a server that may go away for a while.

mod http;
pub(crate) use http::is_https_only;
pub(crate) mod osmet;

use crate::options::{InstallOptions, Source};
use api::http::HttpConfigError;
use osmet::{OsmetError, OsmetReader};
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};

/// Why the source gives no (more) bytes.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file can't be opened.
    #[error("cannot open the image {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read {name} at byte {offset}")]
    Read {
        /// The file, or `stdin`.
        name: String,
        offset: u64,
        source: io::Error,
    },
    /// The file ended before the size it had when it was opened, or the server's answer before the length it announced.
    #[error("{name} ended at byte {found} of {expected}")]
    Short {
        name: String,
        /// Announced size in bytes.
        expected: u64,
        found: u64,
    },
    /// HTTP can't be set up.
    #[error(transparent)]
    Config(#[from] HttpConfigError),
    /// Not a URL that can be fetched.
    #[error("'{url}' is not an image URL: it must start with http:// or https:// and name a host")]
    Url {
        /// As given, without secrets.
        url: String,
    },
    #[error("{url}: the server answered {status} at byte {offset}")]
    Status {
        /// Without secrets.
        url: String,
        status: u16,
        /// Bytes that came before.
        offset: u64,
    },
    /// The server can't be reached, or the connection broke.
    #[error("{url}: the connection failed at byte {offset}")]
    Transport {
        /// Without secrets.
        url: String,
        /// Bytes that came before.
        offset: u64,
        source: Box<ureq::Error>,
    },
    #[error("{url}: the reply broke off at byte {offset}")]
    Body {
        /// Without secrets.
        url: String,
        /// Bytes that came before.
        offset: u64,
        source: io::Error,
    },
    /// The server kept failing for too long.
    #[error("no data from {url} for {} s, after byte {offset}{}", silent.as_secs(), expected_size(total))]
    Stalled {
        /// Without secrets.
        url: String,
        /// Bytes that came before.
        offset: u64,
        /// Announced size in bytes.
        total: Option<u64>,
        /// How long nothing came.
        silent: Duration,
        source: Box<SourceError>,
    },
    /// A file or pipe delivers nothing, and does not end.
    #[error("{name} has stalled: no data for {} s, after byte {offset}", silent.as_secs())]
    Silent {
        /// The file, or `stdin`.
        name: String,
        /// Bytes that came before.
        offset: u64,
        /// How long nothing came.
        silent: Duration,
    },
    /// The server has another file than the one begun with.
    #[error("{url} changed on the server while it was downloaded: {what} differs at byte {offset}")]
    Changed {
        /// Without secrets.
        url: String,
        /// What gave it away.
        what: &'static str,
        /// Bytes that came before.
        offset: u64,
    },
    /// The image inside the live system can't be had.
    #[error(transparent)]
    Osmet(#[from] OsmetError),
    #[error("cancelled at byte {offset}")]
    Cancelled {
        /// Bytes that came before.
        offset: u64,
    },
}

fn expected_size(total: &Option<u64>) -> String {
    total.map(|total| format!(" of {total}")).unwrap_or_default()
}

/// A failure after which the request is repeated.
#[derive(Debug)]
pub(crate) struct Retry {
    pub error: String,
    pub wait: Duration,
    pub offset: u64,
}

/// Called for each; whether to try again at all.
pub(crate) type OnRetry = Box<dyn FnMut(Retry) -> bool + Send>;

/// An open source.
pub(crate) struct Opened {
    /// Fails with a [`SourceError`] inside the [`io::Error`].
    pub reader: Box<dyn Read + Send>,
    /// How many bytes it will give.
    pub total: Option<u64>,
}

/// Opens the source; of a server this waits for the answer's head, patiently.
pub(crate) fn open(options: &InstallOptions, on_retry: OnRetry) -> Result<Opened, SourceError> {
    match &options.source {
        Source::File(path) => {
            let error = |source| SourceError::Open { path: path.clone(), source };
            let file = File::open(path).map_err(error)?;
            let meta = file.metadata().map_err(error)?;
            if meta.is_dir() {
                return Err(error(io::ErrorKind::IsADirectory.into()));
            }
            let total = meta.is_file().then_some(meta.len());
            let name = path.display().to_string();
            Ok(Opened { reader: Box::new(Local { inner: file, name, offset: 0, total }), total })
        }
        Source::Stdin => {
            let local = Local { inner: io::stdin(), name: "stdin".into(), offset: 0, total: None };
            Ok(Opened { reader: Box::new(local), total: None })
        }
        Source::Url(url) => {
            let reader = http::HttpReader::open(url, options, on_retry)?;
            let total = reader.total();
            Ok(Opened { reader: Box::new(reader), total })
        }
        Source::Osmet(osmet) => {
            let reader = OsmetReader::open(osmet)?;
            let total = Some(reader.size_bytes());
            Ok(Opened { reader: Box::new(reader), total })
        }
    }
}

impl Read for OsmetReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.next(buf).map_err(|error| io::Error::other(SourceError::from(error)))
    }
}

/// A file or standard input.
struct Local<R> {
    inner: R,
    name: String,
    offset: u64,
    total: Option<u64>,
}

impl<R: Read> Read for Local<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buf) {
                Ok(0) if !buf.is_empty() => {
                    let Some(expected) = self.total.filter(|total| *total > self.offset) else { return Ok(0) };
                    let error = SourceError::Short { name: self.name.clone(), expected, found: self.offset };
                    return Err(io::Error::other(error));
                }
                Ok(count) => {
                    self.offset += u64::try_from(count).map_err(io::Error::other)?;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let error = SourceError::Read { name: self.name.clone(), offset: self.offset, source };
                    return Err(io::Error::other(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_file(path: &std::path::Path) -> Result<Opened, SourceError> {
        let options = InstallOptions { source: Source::File(path.to_owned()), ..Default::default() };
        open(&options, Box::new(|_| true))
    }

    #[test]
    fn file_that_shrinks_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, [1; 100]).unwrap();
        let mut opened = open_file(&path).unwrap();
        assert_eq!(opened.total, Some(100));
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(40).unwrap();
        let error = opened.reader.read_to_end(&mut Vec::new()).unwrap_err();
        let error = error.into_inner().unwrap().downcast::<SourceError>().unwrap();
        assert!(matches!(*error, SourceError::Short { expected: 100, found: 40, .. }), "{error}");
    }

    #[test]
    fn directory_is_no_image() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(open_file(dir.path()), Err(SourceError::Open { .. })));
        assert!(matches!(open_file(&dir.path().join("no")), Err(SourceError::Open { .. })));
    }
}
