//! HTTPS: a given certificate, or one from our own CA, which hosts trust.

use crate::auth::keys::{pem, write_new};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use time::OffsetDateTime;
use tokio_rustls::TlsAcceptor;

const CA: &str = "tls-ca.pem";
const CA_KEY: &str = "tls-ca-key.pem";
const CERTIFICATE: &str = "tls-cert.pem";
const KEY: &str = "tls-key.pem";
/// Backdating, for clients whose clocks are behind.
const BACKDATED: time::Duration = time::Duration::days(2);
/// The CA outlives the machines that trust it.
const CA_VALID: time::Duration = time::Duration::days(30 * 365);
const VALID: time::Duration = time::Duration::days(825);
/// A certificate with less time left is renewed at the next start.
const RENEWED_BEFORE: Duration = Duration::from_secs(400 * 24 * 3600);

/// A certificate that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read or written.
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} has no PEM certificate", path.display())]
    NoCertificate { path: PathBuf },
    #[error("{} has no PEM private key", path.display())]
    NoKey { path: PathBuf },
    #[error("cannot serve certificate {} with key {}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("cannot create a certificate for {names}")]
    Make {
        /// The intended names.
        names: String,
        source: rcgen::Error,
    },
}

/// The server's certificate, and what hosts must trust for it.
#[derive(Clone)]
pub struct Tls {
    pub acceptor: TlsAcceptor,
    /// CA certificates for hosts, PEM; `None` if they trust its CA already.
    pub ca_pem: Option<String>,
}

impl Tls {
    /// With a certificate, its chain, and its key. Hosts will trust `ca`.
    pub fn given(certificate: &Path, key: &Path, ca: Option<&Path>) -> Result<Self, TlsError> {
        let ca_pem = ca.map(read_ca).transpose()?;
        Ok(Self { acceptor: acceptor(certificate, key)?, ca_pem })
    }

    /// With a certificate from our own CA for `names`, host names and addresses. Both are stored in `directory`; the certificate
    /// is renewed when it doesn't fit or expires, the CA never.
    pub fn with_local_authority(directory: &Path, names: &[String]) -> Result<Self, TlsError> {
        let at = |name: &str| directory.join(name);
        if !at(CA).exists() || !at(CA_KEY).exists() {
            make_ca(&at(CA), &at(CA_KEY), names)?;
        }
        let ca_pem = read_ca(&at(CA))?;
        if !fits(&at(CERTIFICATE), &at(KEY), &at(CA), names) {
            make(directory, names)?;
            tracing::info!(names = names.join(" "), "created a certificate");
        }
        Ok(Self { acceptor: acceptor(&at(CERTIFICATE), &at(KEY))?, ca_pem: Some(ca_pem) })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::File { path: path.into(), source })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| TlsError::NoCertificate { path: path.into() })
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| TlsError::NoKey { path: path.into() })
}

/// The certificates in a file, without anything else in it.
fn read_ca(path: &Path) -> Result<String, TlsError> {
    Ok(certificates(path)?.iter().map(|certificate| pem("CERTIFICATE", certificate)).collect())
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let (chain, private) = (certificates(certificate)?, private_key(key)?);
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|source| TlsError::Pair { certificate: certificate.into(), key: key.into(), source })?;
    let mut config = config;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Whether clients that trust the CA accept the certificate for all of `names`, now and for a while.
fn fits(certificate: &Path, key: &Path, ca: &Path, names: &[String]) -> bool {
    let verifier = || {
        let mut roots = RootCertStore::empty();
        roots.add(certificates(ca).ok()?.into_iter().next()?).ok()?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()
    };
    let (Some(verifier), Ok(chain), Ok(_)) = (verifier(), certificates(certificate), acceptor(certificate, key)) else {
        return false;
    };
    let Some((own, others)) = chain.split_first() else { return false };
    let now = UnixTime::now();
    let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + RENEWED_BEFORE);
    names.iter().all(|name| {
        let Ok(name) = ServerName::try_from(name.as_str()) else { return false };
        [now, later].into_iter().all(|time| verifier.verify_server_cert(own, others, &name, &[], time).is_ok())
    })
}

fn ca_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    // The CAs of two services must have different names.
    let digest: String = key.public_key_raw().iter().rev().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name.push(DnType::CommonName, format!("Landfall service {digest}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - BACKDATED, now + CA_VALID);
    params
}

fn failed(names: &[String]) -> impl Fn(rcgen::Error) -> TlsError {
    let names = names.join(", ");
    move |source| TlsError::Make { names: names.clone(), source }
}

fn store(path: &Path, label: &str, der: &[u8]) -> Result<(), TlsError> {
    write_new(path, pem(label, der).as_bytes()).map_err(|source| TlsError::File { path: path.into(), source })
}

fn make_ca(ca: &Path, ca_key: &Path, names: &[String]) -> Result<(), TlsError> {
    let key = KeyPair::generate().map_err(failed(names))?;
    let certificate = ca_params(&key).self_signed(&key).map_err(failed(names))?;
    store(ca_key, "PRIVATE KEY", key.serialized_der())?;
    store(ca, "CERTIFICATE", certificate.der())
}

fn make(directory: &Path, names: &[String]) -> Result<(), TlsError> {
    let path = directory.join(CA_KEY);
    let ca_key = private_key(&path)?;
    let PrivateKeyDer::Pkcs8(ca_key) = ca_key else { return Err(TlsError::NoKey { path }) };
    let ca_key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(ca_key.secret_pkcs8_der())).map_err(failed(names))?;
    let issuer = Issuer::new(ca_params(&ca_key), ca_key);
    let key = KeyPair::generate().map_err(failed(names))?;
    let mut params = CertificateParams::new(names.to_vec()).map_err(failed(names))?;
    params.distinguished_name.push(DnType::CommonName, "landfall serve");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - BACKDATED, now + VALID);
    let certificate = params.signed_by(&key, &issuer).map_err(failed(names))?;
    // A crash between the two leaves a mismatched pair, which is detected and recreated.
    store(&directory.join(KEY), "PRIVATE KEY", key.serialized_der())?;
    store(&directory.join(CERTIFICATE), "CERTIFICATE", certificate.der())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_reused_while_it_fits() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let file = |name: &str| fs::read_to_string(state.join(name)).unwrap();
        let one = names(&["127.0.0.1", "rack.example.com", "::1"]);
        let first = Tls::with_local_authority(state, &one).unwrap();
        let (ca, certificate) = (file(CA), file(CERTIFICATE));
        assert_eq!(first.ca_pem.as_deref(), Some(ca.as_str()));
        Tls::with_local_authority(state, &one).unwrap();
        Tls::with_local_authority(state, &names(&["rack.example.com"])).unwrap();
        assert_eq!(file(CERTIFICATE), certificate, "it fits fewer as well");
        Tls::with_local_authority(state, &names(&["10.0.0.5"])).unwrap();
        assert_ne!(file(CERTIFICATE), certificate, "another address");
        assert_eq!(file(CA), ca, "what hosts trust stays");
        // A key that isn't the certificate's.
        let certificate = file(CERTIFICATE);
        fs::write(state.join(KEY), pem("PRIVATE KEY", KeyPair::generate().unwrap().serialized_der())).unwrap();
        Tls::with_local_authority(state, &names(&["10.0.0.5"])).unwrap();
        assert_ne!(file(CERTIFICATE), certificate);

        let given = |certificate: &str, key: &str| Tls::given(&state.join(certificate), &state.join(key), None);
        assert!(given(CERTIFICATE, KEY).unwrap().ca_pem.is_none());
        assert!(matches!(given(CERTIFICATE, CA_KEY), Err(TlsError::Pair { .. })));
        assert!(matches!(given(KEY, KEY), Err(TlsError::NoCertificate { .. })));
        assert!(matches!(given(CERTIFICATE, CERTIFICATE), Err(TlsError::NoKey { .. })));
        assert!(matches!(given("gone", KEY), Err(TlsError::File { .. })));
    }
}
