//! Options of `landfall serve` about callers, keys and certificates.

use crate::addresses::names;
use crate::auth::{Auth, keys::SigningKey};
use crate::http::tls::Tls;
use anyhow::bail;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where the certificate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TlsKind {
    /// Our own CA.
    SelfSigned,
}

/// How callers are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AuthKind {
    /// Not at all.
    None,
    /// By this service's tokens.
    Local,
}

/// How callers are authenticated, and what encrypts.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Access and TLS")]
pub(crate) struct AccessArgs {
    /// Authentication: none, or local for tokens signed with this service's key. Agents have theirs in their ISO;
    /// `landfall serve token` prints users' tokens
    #[arg(long, value_enum, value_name = "KIND", default_value_t = AuthKind::None, env = "LANDFALL_AUTH")]
    pub(super) auth: AuthKind,

    /// Private key that signs tokens, PEM, curve P-256. Default: a key created in the state directory
    #[arg(long, value_name = "FILE")]
    pub(super) auth_key: Option<PathBuf>,

    /// Key that encrypts records on disk, 32 bytes. Default: a key created in the state directory; then a copy of the store's
    /// file alone reveals no secret, but a copy of the directory does
    #[arg(long, value_name = "FILE")]
    pub(super) secrets_key: Option<PathBuf>,

    /// Serve HTTPS with a certificate from this service's own CA, for the host of --url and the address listened on. Both are
    /// stored in the state directory; hosts trust the CA, which is tls-ca.pem there
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["tls_cert", "tls_key"])]
    pub(super) tls: Option<TlsKind>,

    /// Serve HTTPS with this certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,

    /// CA certificates with which hosts verify --tls-cert, PEM, if they don't trust its CA already
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_ca: Option<PathBuf>,
}

impl AccessArgs {
    /// Whether the service has a certificate.
    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some() || self.tls_cert.is_some()
    }

    pub(super) fn auth(&self, state: &Path) -> anyhow::Result<Auth> {
        Ok(match (self.auth, &self.auth_key) {
            (AuthKind::None, None) => Auth::None,
            (AuthKind::None, Some(_)) => bail!("--auth-key needs --auth local"),
            (AuthKind::Local, Some(path)) => Auth::Local(Arc::new(SigningKey::read(path)?)),
            (AuthKind::Local, None) => Auth::Local(Arc::new(SigningKey::load_or_create(state)?)),
        })
    }

    /// The certificate for `url` and the address listened on, if there is to be one.
    pub(super) fn certificate(&self, state: &Path, url: &str, address: SocketAddr) -> anyhow::Result<Option<Tls>> {
        Ok(match (self.tls, &self.tls_cert, &self.tls_key) {
            (Some(TlsKind::SelfSigned), ..) => Some(Tls::with_local_authority(state, &names(url, address))?),
            (None, Some(certificate), Some(key)) => Some(Tls::given(certificate, key, self.tls_ca.as_deref())?),
            _ => None,
        })
    }
}
