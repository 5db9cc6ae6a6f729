//! A certificate authority for servers on the loopback.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use std::{fs, path::Path, sync::Arc};
use testkit::{http::ServerConfig, tls};

/// Of the authority of an API server.
pub(crate) const NAME: &str = "simulator";

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A key, and a certificate for it, of `127.0.0.1`, `localhost` and other names.
pub(crate) struct Identity {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let params = params(name);
        let (certificate, key) = tls::self_signed(&params);
        Self { pem: tls::pem(&certificate), issuer: Issuer::new(params, key) }
    }

    /// The one whose certificate and key are in this directory, where another process put them.
    pub(crate) fn of_files(directory: &Path) -> Self {
        let key = PrivatePkcs8KeyDer::from_pem_file(directory.join("ca.key")).unwrap();
        let issuer = Issuer::new(params(NAME), KeyPair::try_from(&key).unwrap());
        Self { pem: fs::read_to_string(directory.join("ca.crt")).unwrap(), issuer }
    }

    pub(crate) fn key_der(&self) -> &[u8] {
        self.issuer.key().serialized_der()
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// `names` are those of the loopback elsewhere.
    pub(crate) fn issue(&self, names: &[&str]) -> Identity {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost", "127.0.0.1"].iter().chain(names);
        let params = CertificateParams::new(names.map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        Identity { certificate: params.signed_by(&key, &self.issuer).unwrap(), key }
    }

    /// What a server needs to be trusted by those who trust this authority.
    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        let identity = self.issue(&[]);
        tls::server_config(&identity.certificate, &identity.key)
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// PEM of DER: rcgen is built without.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    // Some readers take no longer lines (RFC 7468).
    let lines: Vec<_> = encoded.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    let encoded = lines.join("\n");
    format!("-----BEGIN {label}-----\n{encoded}\n-----END {label}-----\n")
}
