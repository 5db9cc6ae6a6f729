//! Why an image could not be fetched from one place, and what to do about it.

use super::{
    manifest::ManifestError,
    reference::{Digest, shorten},
};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Whether it is allowed and time is left.
    Policy,
    /// The registry's name.
    Name,
    Connect,
    /// The registry's certificate.
    Certificate,
    Auth,
    Manifest,
    /// Its layers and configuration.
    Layer,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Policy => "policy",
            Self::Name => "name",
            Self::Connect => "connect",
            Self::Certificate => "certificate",
            Self::Auth => "auth",
            Self::Manifest => "manifest",
            Self::Layer => "layer",
        })
    }
}

/// What was being fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The answer to the first request.
    Api,
    /// A token from this URL.
    Token(String),
    /// A manifest by tag or digest.
    Manifest(String),
    /// A layer or a configuration.
    Blob(Digest),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api => f.write_str("the registry's API"),
            Self::Token(realm) => write!(f, "a token from {realm}"),
            Self::Manifest(selector) => write!(f, "manifest {selector}"),
            Self::Blob(digest) => write!(f, "layer {digest}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("registries.conf blocks it")]
    Blocked,
    /// The deadline of the whole request has come.
    #[error("the time limit for all images was reached while fetching {subject}")]
    Deadline {
        /// What was being fetched.
        subject: Subject,
    },
    /// A CA bundle can't be used.
    #[error("cannot set up a connection")]
    Trust { source: api::http::HttpConfigError },
    /// The name has no address that is known here.
    #[error("the name in {authority} cannot be resolved")]
    Name {
        /// `host[:port]`.
        authority: String,
        source: ureq::Error,
    },
    #[error("cannot connect to {authority}")]
    Connect {
        /// `host[:port]`.
        authority: String,
        source: ureq::Error,
    },
    /// The certificate is not good.
    #[error("the certificate of {authority} is not trusted")]
    Certificate {
        /// `host[:port]`.
        authority: String,
        source: rustls::Error,
    },
    /// TLS failed otherwise; often the other side does not speak it.
    #[error("{authority} does not complete a TLS handshake")]
    Tls {
        /// `host[:port]`.
        authority: String,
        source: rustls::Error,
    },
    /// Nothing came for too long.
    #[error("no data for {} s while fetching {subject}", after.as_secs())]
    Stalled {
        /// What was being fetched.
        subject: Subject,
        after: Duration,
    },
    /// The connection broke, or no HTTP.
    #[error("cannot fetch {subject}")]
    Transport {
        /// What was being fetched.
        subject: Subject,
        source: ureq::Error,
    },
    /// A redirect leads out of TLS, or nowhere.
    #[error("the registry redirects {subject} to {url}, which is not an https URL")]
    Redirect {
        /// What was being fetched.
        subject: Subject,
        /// Where to, without what may be secret in it.
        url: String,
    },
    /// The registry wants credentials, and there are none.
    #[error("{authority} requires credentials{}, and there are none for it{}", quoted(said_text), listed(files))]
    NoCredentials {
        /// `host[:port]`.
        authority: String,
        /// Files that were looked into.
        files: Vec<PathBuf>,
        said_text: String,
    },
    /// It does not take ours.
    #[error("{authority} refuses the credentials of user '{user}' from {} (status {status}{})", file.display(), quoted(said_text))]
    Refused {
        /// `host[:port]`.
        authority: String,
        user: String,
        /// Where they are from.
        file: PathBuf,
        status: u16,
        said_text: String,
    },
    /// The registry wants something that we have not.
    #[error("{authority} answers 401 without a supported challenge (Basic or Bearer)")]
    Challenge {
        /// `host[:port]`.
        authority: String,
    },
    /// Credentials would be sent in the clear.
    #[error("the registry's token server {realm} is not an https URL: no credentials are sent there")]
    Realm {
        /// As received, shortened.
        realm: String,
    },
    /// The token server's answer is not a token.
    #[error("the answer of {realm} contains no token")]
    Token {
        /// URL of the token server.
        realm: String,
    },
    #[error("the answer for {subject} is status {status}{}", quoted(said_text))]
    Status {
        /// What was being fetched.
        subject: Subject,
        status: u16,
        said_text: String,
    },
    /// Not a manifest that we support.
    #[error("{subject} cannot be used")]
    Manifest { subject: Subject, source: ManifestError },
    #[error("the image is not built for linux/{architecture}")]
    Architecture { architecture: String },
    #[error("image indexes are nested more than {limit} deep")]
    Nested { limit: usize },
    #[error("{subject} is longer than {limit_bytes} bytes")]
    TooLong {
        /// What was being fetched.
        subject: Subject,
        limit_bytes: u64,
    },
    /// More or less than announced.
    #[error("{subject} has {found_bytes} bytes, its descriptor says {expected_bytes}")]
    Size {
        /// What was being fetched.
        subject: Subject,
        expected_bytes: u64,
        /// As seen; where it is more, reading ended there.
        found_bytes: u64,
    },
    #[error("{subject} is corrupt: its digest is {found}")]
    Damaged {
        /// What was being fetched.
        subject: Subject,
        /// Digest of what came.
        found: Digest,
    },
}

fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(", it says: {text}") }
}

fn listed(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    if names.is_empty() {
        "; no file with credentials was found".to_owned()
    } else {
        format!(" in {}", names.join(", "))
    }
}

impl FetchError {
    /// Tells apart what went wrong below HTTP.
    pub(super) fn transport(authority: &str, subject: Subject, stall: Duration, error: ureq::Error) -> Self {
        use ureq::{Error, Timeout};
        let authority = authority.to_owned();
        match error {
            _ if api::lookup_error(&error).is_some() => Self::Name { authority, source: error },
            Error::Timeout(Timeout::Global) => Self::Deadline { subject },
            Error::Timeout(Timeout::PerRead) => Self::Stalled { subject, after: stall },
            Error::Timeout(Timeout::Connect | Timeout::Resolve)
            | Error::ConnectionFailed
            | Error::ConnectProxyFailed(_) => Self::Connect { authority, source: error },
            // These quote the whole URL.
            Error::RequireHttpsOnly(url) | Error::BadUri(url) => {
                Self::Redirect { subject, url: shorten(&api::http::public_url(&url)) }
            }
            Error::Rustls(source) => Self::tls(authority, source),
            Error::Io(source) => {
                let tls = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).cloned();
                match (tls, source.kind()) {
                    (Some(tls), _) => Self::tls(authority, tls),
                    (
                        None,
                        io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::HostUnreachable
                        | io::ErrorKind::NetworkUnreachable
                        | io::ErrorKind::TimedOut,
                    ) => Self::Connect { authority, source: Error::Io(source) },
                    (None, _) => Self::Transport { subject, source: Error::Io(source) },
                }
            }
            source => Self::Transport { subject, source },
        }
    }

    fn tls(authority: String, source: rustls::Error) -> Self {
        match source {
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
                Self::Certificate { authority, source }
            }
            source => Self::Tls { authority, source },
        }
    }

    /// How far it got.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Blocked | Self::Trust { .. } => Phase::Policy,
            Self::Name { .. } => Phase::Name,
            Self::Connect { .. } | Self::Tls { .. } => Phase::Connect,
            Self::Certificate { .. } => Phase::Certificate,
            Self::NoCredentials { .. }
            | Self::Refused { .. }
            | Self::Challenge { .. }
            | Self::Realm { .. }
            | Self::Token { .. } => Phase::Auth,
            Self::Architecture { .. } | Self::Nested { .. } => Phase::Manifest,
            Self::Deadline { subject }
            | Self::Stalled { subject, .. }
            | Self::Transport { subject, .. }
            | Self::Redirect { subject, .. }
            | Self::Status { subject, .. }
            | Self::Manifest { subject, .. }
            | Self::TooLong { subject, .. }
            | Self::Size { subject, .. }
            | Self::Damaged { subject, .. } => match subject {
                Subject::Api => Phase::Connect,
                Subject::Token(_) => Phase::Auth,
                Subject::Manifest(_) => Phase::Manifest,
                Subject::Blob(_) => Phase::Layer,
            },
        }
    }

    /// Whether another try may do better.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            // Who does not even answer with a manifest is left for the next place.
            Self::Stalled { subject, .. } => matches!(subject, Subject::Blob(_)),
            Self::Status { status, .. } => matches!(status, 429 | 500 | 502 | 503 | 504),
            Self::Transport { source: ureq::Error::Io(error), .. } => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            ),
            _ => false,
        }
    }

    /// Whether the other side does not speak TLS as it should, so that plain HTTP may be tried where that is allowed.
    pub(super) fn is_below_http(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Tls { .. } | Self::Transport { .. })
    }

    /// What to do next.
    pub fn advice(&self, certificates: &Path) -> String {
        match self {
            Self::Blocked => "unblock it in registries.conf, or repair one of its mirrors".to_owned(),
            Self::Deadline { .. } => "allow more time, or find out why the network is slow".to_owned(),
            Self::Trust { .. } => "correct the file".to_owned(),
            Self::Name { .. } => "check the name, and the host's DNS servers (landfall netcheck dns)".to_owned(),
            Self::Connect { .. } => {
                "check that the registry runs, and check firewalls, routes and proxies on the way".to_owned()
            }
            Self::Tls { .. } => {
                "if the registry speaks plain HTTP only, it needs 'insecure = true' in registries.conf".to_owned()
            }
            Self::Certificate { authority, .. } => format!(
                "put the CA into {}/ca.crt, or check its host name and this host's clock",
                certificates.join(authority).display()
            ),
            Self::NoCredentials { authority, .. } => {
                format!(
                    "add {authority} to the pull secret (--authfile); a repository that does not exist may look the same"
                )
            }
            Self::Refused { .. } => {
                "renew these credentials, or give the user read access to the repository".to_owned()
            }
            Self::Challenge { .. } | Self::Realm { .. } | Self::Token { .. } => {
                "correct the registry's authentication".to_owned()
            }
            Self::Status { status: 404, subject: Subject::Manifest(_), .. } => {
                "check the name and the tag; on a mirror, mirror the image".to_owned()
            }
            Self::Status { status: 404, .. } => {
                "the registry has lost a part of the image: push or mirror it again".to_owned()
            }
            Self::Stalled { .. } | Self::Transport { .. } | Self::Redirect { .. } | Self::Status { .. } => {
                "look at the registry's log, and at proxies on the way".to_owned()
            }
            Self::Manifest { .. } | Self::Architecture { .. } | Self::Nested { .. } | Self::TooLong { .. } => {
                "use an image for this machine's architecture".to_owned()
            }
            Self::Size { .. } | Self::Damaged { .. } => {
                "push or mirror the image again, and check caches on the way".to_owned()
            }
        }
    }
}
