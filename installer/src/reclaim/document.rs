//! What `landfall reclaim` reads: the service's request, how to fetch, and what may be done.

use api::http::HttpConfig;
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Real documents have a kilobyte.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

/// The document around a request of type `R`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document<R> {
    /// As the service sent it.
    pub request: R,
    /// PEM bundle trusted in addition to the system's roots.
    #[serde(default)]
    pub ca_cert: Option<PathBuf>,
    /// Skip certificate verification.
    #[serde(default)]
    pub insecure: bool,
    /// Whether the machine may be rebooted.
    #[serde(default)]
    pub reboot: bool,
}

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("cannot read the reclaim request from {from}")]
    Read {
        /// A path, or `standard input`.
        from: String,
        source: io::Error,
    },
    /// Not the document, or too large for one.
    #[error("the reclaim request from {from} is not a document with 'request'")]
    Decode {
        /// A path, or `standard input`.
        from: String,
        source: serde_json::Error,
    },
}

impl<R: DeserializeOwned> Document<R> {
    /// Reads the document from `path`, or from standard input when it is `-`.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        let (reader, from): (Box<dyn Read>, _) = if path == Path::new("-") {
            (Box::new(io::stdin().lock()), "standard input".to_owned())
        } else {
            let from = path.display().to_string();
            match File::open(path) {
                Ok(file) => (Box::new(file), from),
                Err(source) => return Err(DocumentError::Read { from, source }),
            }
        };
        let mut text = Vec::new();
        match reader.take(MAX_DOCUMENT_BYTES).read_to_end(&mut text) {
            Ok(_) => serde_json::from_slice(&text).map_err(|source| DocumentError::Decode { from, source }),
            Err(source) => Err(DocumentError::Read { from, source }),
        }
    }

    /// TLS settings.
    pub fn http(&self) -> HttpConfig {
        HttpConfig { ca_cert: self.ca_cert.clone(), insecure: self.insecure, proxies: None }
    }
}
