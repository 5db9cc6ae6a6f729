//! The one HTTP client set-up: TLS roots, proxies from the environment, names, time limits.

pub use crate::url::public_url;

use crate::{proxy::ProxyVariables, through};
use rustls::crypto::ring;
use std::{
    path::PathBuf,
    sync::{Arc, Once},
    time::Duration,
};
use ureq::{
    config::ConfigBuilder,
    tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsConfigBuilder, parse_pem},
    typestate::AgentScope,
};

/// How to reach servers.
#[derive(Clone, Debug, Default)]
pub struct HttpConfig {
    /// PEM bundle trusted in addition to the system's roots.
    pub ca_cert: Option<PathBuf>,
    /// Skip certificate verification; `ca_cert` is then not read.
    pub insecure: bool,
    /// The proxies to use; those of the environment if `None`.
    pub proxies: Option<ProxyVariables>,
}

/// Why the client could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum HttpConfigError {
    /// The bundle can't be read.
    #[error("cannot read the CA bundle {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the CA bundle {} has no PEM certificate", path.display())]
    NoCertificate { path: PathBuf },
}

/// The host's trusted certificates, as a container sees them: of Fedora and its derivatives, of Debian.
const HOST_BUNDLES: [&str; 2] =
    ["/proc/1/root/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/proc/1/root/etc/ssl/certs/ca-certificates.crt"];

/// Time limit for connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// An agent without limits after connecting; callers limit the rest by what they fetch.
///
/// Statuses are not errors, proxies are those of the environment by the rules of [`crate::proxy`].
pub fn agent(config: &HttpConfig) -> Result<ureq::Agent, HttpConfigError> {
    let proxies = config.proxies.clone().unwrap_or_else(ProxyVariables::from_env);
    Ok(build(configuration(config.ca_cert.as_slice(), config.insecure)?, proxies))
}

/// A client that fetches each URL, including redirect targets, through the proxy that `proxies` choose for it.
pub fn build(configuration: ConfigBuilder<AgentScope>, proxies: ProxyVariables) -> ureq::Agent {
    through::agent(configuration.build(), proxies)
}

/// The configuration of [`agent`], for callers with their own limits; [`build`] makes a client of it. `ca_certs` are PEM bundles
/// trusted in addition to the system's roots, and not read if `insecure` accepts any certificate.
pub fn configuration(ca_certs: &[PathBuf], insecure: bool) -> Result<ConfigBuilder<AgentScope>, HttpConfigError> {
    if insecure {
        return Ok(builder(tls().disable_verification(true).build()));
    }
    let mut bundles = Vec::with_capacity(ca_certs.len());
    for path in ca_certs {
        let pem = std::fs::read(path).map_err(|source| HttpConfigError::Read { path: path.clone(), source })?;
        if !has_certificate(&pem) {
            return Err(HttpConfigError::NoCertificate { path: path.clone() });
        }
        bundles.push(pem);
    }
    Ok(configuration_trusting(bundles.iter().map(Vec::as_slice)))
}

/// As [`configuration`], for PEM bundles in memory. Anything in them that is not a certificate is ignored.
pub fn configuration_trusting<'a>(bundles: impl IntoIterator<Item = &'a [u8]>) -> ConfigBuilder<AgentScope> {
    let mut roots = system_roots();
    roots.extend(bundles.into_iter().flat_map(certificates));
    builder(tls().root_certs(RootCerts::new_with_certs(&roots)).build())
}

/// The certificates this system trusts. In a container without any they are the host's, if its files are visible (in a privileged
/// container with the host's PID namespace). Without any only https fails.
fn system_roots() -> Vec<Certificate<'static>> {
    static LOGGED: Once = Once::new();
    let system = rustls_native_certs::load_native_certs().certs;
    if !system.is_empty() {
        return system.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    }
    let host_roots = HOST_BUNDLES.iter().find_map(|path| {
        let roots: Vec<_> = certificates(&std::fs::read(path).ok()?).collect();
        (!roots.is_empty()).then_some(roots)
    });
    LOGGED.call_once(|| match &host_roots {
        Some(roots) => {
            tracing::info!(count = roots.len(), "this container has no CA certificates: trusting the host's")
        }
        None => tracing::info!("this system has no CA certificates: https needs the server's CA (--cacert)"),
    });
    host_roots.unwrap_or_default()
}

/// Whether there is a certificate in `pem`.
pub fn has_certificate(pem: &[u8]) -> bool {
    certificates(pem).next().is_some()
}

/// As [`agent`], but it trusts only the certificates in `pem`, and uses no proxies. `None` if there are none.
pub fn agent_trusting_only(pem: &[u8]) -> Option<ureq::Agent> {
    let roots: Vec<_> = certificates(pem).collect();
    let tls = tls().root_certs(RootCerts::new_with_certs(&roots)).build();
    (!roots.is_empty()).then(|| build(builder(tls), ProxyVariables::default()))
}

/// The client's certificate and its key.
#[derive(Clone)]
pub struct Identity(ClientCert);

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(*****)")
    }
}

impl Identity {
    /// From PEM text. `None` unless it has a certificate and a key that fits.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Option<Self> {
        let chain: Vec<_> = certificates(certificate).collect();
        let key = PrivateKey::from_pem(key).ok()?;
        // ureq panics on what rustls refuses.
        let der = rustls::pki_types::PrivateKeyDer::try_from(key.der()).ok()?;
        let ders = chain.iter().map(|certificate| certificate.der().to_vec().into()).collect();
        let usable = rustls::sign::CertifiedKey::from_der(ders, der.clone_key(), &ring::default_provider());
        (!chain.is_empty() && usable.is_ok()).then(|| Self(ClientCert::new_with_certs(&chain, key)))
    }
}

/// As [`configuration`], for a server that authenticates its clients: trusts only the certificates in `ca` if given, else the
/// system's, any if `insecure`, and presents `identity`. `None` if `ca` is given but has no certificate.
pub fn configuration_as(
    identity: Option<Identity>,
    ca: Option<&[u8]>,
    insecure: bool,
) -> Option<ConfigBuilder<AgentScope>> {
    let tls = tls().client_cert(identity.map(|identity| identity.0));
    let roots = match ca {
        _ if insecure => return Some(builder(tls.disable_verification(true).build())),
        Some(pem) => certificates(pem).collect(),
        None => system_roots(),
    };
    let is_usable = ca.is_none() || !roots.is_empty();
    is_usable.then(|| builder(tls.root_certs(RootCerts::new_with_certs(&roots)).build()))
}

fn tls() -> TlsConfigBuilder {
    TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
}

fn certificates(pem: &[u8]) -> impl Iterator<Item = Certificate<'static>> + '_ {
    parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    })
}

fn builder(tls: TlsConfig) -> ConfigBuilder<AgentScope> {
    ureq::Agent::config_builder()
        // ureq has its own rules for the environment's variables.
        .proxy(None)
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .user_agent(concat!("landfall/", env!("CARGO_PKG_VERSION")))
}
