//! A certificate as a file and as a server have it.

use rcgen::{Certificate, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::sync::Arc;

pub fn pem(certificate: &Certificate) -> String {
    let encoded: String = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate.der());
    format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n")
}

pub fn server_config(certificate: &Certificate, key: &KeyPair) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialized_der().to_vec()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    Arc::new(config.unwrap())
}
