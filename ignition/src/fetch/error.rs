//! Why a resource did not come.

use crate::data_url::DataUrlError;
use api::BodyError;
use std::{fmt, io, time::Duration};

/// Why a resource did not come, and which.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch {resource}")]
pub struct FetchError {
    /// Its URL, without what may be secret in it.
    pub resource: String,
    pub source: FetchFault,
}

/// Why a resource did not come. Neither its bytes nor a query string are ever shown.
#[derive(Debug, thiserror::Error)]
pub enum FetchFault {
    /// Not a URL.
    #[error("unable to parse url")]
    Url,
    /// A place that only Ignition supports, or nothing does.
    #[error("{scheme}: URLs are not supported here; use http:, https: or data:")]
    Scheme {
        /// What stands before the colon.
        scheme: String,
    },
    /// It would need the network.
    #[error("it is on the network, which must not be used")]
    Offline,
    /// A `data:` URL that can't be read.
    #[error(transparent)]
    Data(#[from] DataUrlError),
    /// A header that no request can have.
    #[error("unable to parse HTTP header '{name}': a name is letters, digits and dashes, a value one line of text")]
    Header { name: String },
    #[error("the request failed: {0}")]
    Transport(WithoutUrl<ureq::Error>),
    #[error("{0}")]
    Body(BodyError),
    #[error("resource not found (HTTP status 404)")]
    NotFound,
    /// Neither success nor a redirect.
    #[error("failed to fetch resource (HTTP status {status})")]
    Status { status: u16 },
    /// A redirect that leads nowhere.
    #[error("the server redirects to what is not an http: or https: URL")]
    Redirect,
    #[error("stopped after {count} redirects")]
    Redirects {
        /// As many as were followed.
        count: u32,
    },
    /// The config's total time is up.
    #[error("not received after {} s, the limit set by timeouts.httpTotal", after.as_secs())]
    Total {
        after: Duration,
        /// What went wrong last.
        #[source]
        last: Option<Box<FetchFault>>,
    },
    #[error("it has more than {limit_bytes} bytes{}", if *unpacked { " unpacked" } else { "" })]
    TooLarge {
        limit_bytes: u64,
        /// Whether it is what it unpacks to that is too large.
        unpacked: bool,
    },
    /// Packed in another way than with gzip.
    #[error("invalid compression method '{method}': only gzip is supported")]
    Compression {
        /// What is asked for.
        method: String,
    },
    #[error("it can't be unpacked as gzip")]
    Gzip(#[source] io::Error),
    /// Not a valid hash.
    #[error("its verification hash is not valid: expected sha512- or sha256- and hexadecimal digits")]
    Hash,
    /// Other bytes than expected.
    #[error("hash verification failed (calculated {calculated} but expected {expected})")]
    Mismatch {
        /// In hexadecimal.
        calculated: String,
        /// In hexadecimal.
        expected: String,
    },
    #[error("it contains no PEM certificate")]
    NoCertificate,
}

impl FetchFault {
    /// Whether it may pass, as Ignition sees it: everything between us and the server, and the server's own faults. An
    /// untrusted certificate is not.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Transport(WithoutUrl(error)) => match error {
                ureq::Error::Io(error) => error.kind() != io::ErrorKind::InvalidData,
                ureq::Error::Timeout(_)
                | ureq::Error::HostNotFound
                | ureq::Error::ConnectionFailed
                | ureq::Error::ConnectProxyFailed(_)
                | ureq::Error::Protocol(_) => true,
                _ => false,
            },
            Self::Body(_) => true,
            Self::Status { status } => *status >= 500,
            _ => false,
        }
    }
}

/// An HTTP client's error, without the URL that it may quote.
#[derive(Debug)]
pub struct WithoutUrl<E>(pub(super) E);

impl fmt::Display for WithoutUrl<ureq::Error> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ureq::Error::BadUri(_) => f.write_str("bad URI"),
            error => error.fmt(f),
        }
    }
}
