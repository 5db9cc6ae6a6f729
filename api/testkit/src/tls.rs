//! Certificates, as files and as a server have them.

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
};
use std::{path::Path, sync::Arc};

/// What `openssl req -x509` makes: signed by itself, may sign others, and says nothing of what it is for.
pub fn self_signing() -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

pub fn self_signed(params: &CertificateParams) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
}

pub fn pem(certificate: &Certificate) -> String {
    let encoded: String = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate.der());
    format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n")
}

pub fn server_config(certificate: &Certificate, key: &KeyPair) -> Arc<ServerConfig> {
    let key = PrivatePkcs8KeyDer::from(key.serialized_der().to_vec());
    serving(vec![certificate.der().clone()], key.into())
}

/// Of a certificate's chain and its key, both PEM.
pub fn server_config_of_files(chain: &Path, key: &Path) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(chain).unwrap().map(Result::unwrap).collect();
    serving(chain, PrivateKeyDer::from_pem_file(key).unwrap())
}

fn serving(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(config.with_single_cert(chain, key).unwrap())
}
