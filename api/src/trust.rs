//! Verification of servers' certificates.
//!
//! rustls refuses a server whose certificate may sign others, like every one from `openssl req -x509`, even if that certificate is
//! itself trusted. Go programs such as Ignition accept it.

use crate::der::{CertificateParts, OBJECT, SEQUENCE, elements, expect};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme, StreamOwned,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::{
    collections::HashSet,
    io::{Read, Write},
    sync::{Arc, OnceLock},
};
use ureq::{
    Error,
    tls::{RootCerts, TlsConfig},
    unversioned::transport::{
        Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport, TransportAdapter,
    },
};

/// RFC 5280, section 4.2.1.12.
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];
const SERVER_USAGE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

/// Accepts what rustls accepts, and a server's certificate that equals one of `roots` byte for byte.
pub fn verifier<'a>(roots: impl IntoIterator<Item = CertificateDer<'a>>) -> Arc<dyn ServerCertVerifier> {
    let provider = Arc::new(ring::default_provider());
    let pinned: HashSet<Vec<u8>> = roots.into_iter().map(|root| root.to_vec()).collect();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(pinned.iter().map(|root| CertificateDer::from(root.as_slice())));
    // rustls requires at least one.
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build().ok();
    Arc::new(Verifier { chains, pinned, provider })
}

#[derive(Debug)]
struct Verifier {
    chains: Option<Arc<WebPkiServerVerifier>>,
    pinned: HashSet<Vec<u8>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let chain = match &self.chains {
            Some(chains) => chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        if chain.is_err() && self.pinned.contains(end_entity.as_ref()) {
            return check_pinned(end_entity, server_name, now).map(|()| ServerCertVerified::assertion());
        }
        chain
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Checks name, time and purpose of a certificate that is trusted itself.
fn check_pinned(certificate: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), TlsError> {
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    let parts = CertificateParts::parse(certificate).ok_or(CertificateError::BadEncoding)?;
    let seconds = |time: time::OffsetDateTime| u64::try_from(time.unix_timestamp()).unwrap_or(0);
    let time = |seconds: u64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let (not_before, not_after) = (seconds(parts.not_before), seconds(parts.not_after));
    if now.as_secs() < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before: time(not_before) }.into());
    }
    if now.as_secs() > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after: time(not_after) }.into());
    }
    let Some(usages) = parts.extension(EXTENDED_KEY_USAGE) else { return Ok(()) };
    let (usages, _) = expect(usages, SEQUENCE).ok_or(CertificateError::BadEncoding)?;
    let is_for_servers =
        elements(usages).any(|(tag, usage)| tag == OBJECT && (usage == SERVER_USAGE || usage == ANY_USAGE));
    if is_for_servers { Ok(()) } else { Err(CertificateError::InvalidPurpose.into()) }
}

/// Like ureq's, with our verifier if certificates are checked.
#[derive(Debug, Default)]
pub(crate) struct TlsConnector {
    unchecked: RustlsConnector,
    /// Created on first use. A client's configuration does not change.
    config: OnceLock<Arc<ClientConfig>>,
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Box::new(transport)));
        }
        let tls = details.config.tls_config();
        if tls.disable_verification() {
            let secured = self.unchecked.connect(details, Some(transport))?;
            return Ok(secured.map(|transport| Box::new(transport) as Box<dyn Transport>));
        }
        let config = match self.config.get() {
            Some(config) => config.clone(),
            None => {
                let config = Arc::new(client_config(tls)?);
                self.config.get_or_init(|| config).clone()
            }
        };
        let host = details.uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::Tls("the host is not a DNS name"))?;
        let mut connection = ClientConnection::new(config, name)?;
        let mut socket = TransportAdapter::new(Box::new(transport) as Box<dyn Transport>, details.current_time.clone());
        socket.set_timeout(details.timeout);
        connection.complete_io(&mut socket)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Box::new(Secured { buffers, stream: StreamOwned::new(connection, socket) })))
    }
}

fn client_config(tls: &TlsConfig) -> Result<ClientConfig, Error> {
    let RootCerts::Specific(roots) = tls.root_certs() else { return Err(Error::Tls("no certificates are named")) };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier(roots.iter().map(|root| CertificateDer::from(root.der()))));
    let Some(identity) = tls.client_cert() else { return Ok(builder.with_no_client_auth()) };
    let chain = identity.certs().iter().map(|certificate| CertificateDer::from(certificate.der().to_vec())).collect();
    let key = PrivateKeyDer::try_from(identity.private_key().der()).map_err(|_| Error::Tls("the key is not a key"))?;
    Ok(builder.with_client_auth_cert(chain, key.clone_key())?)
}

struct Secured {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl std::fmt::Debug for Secured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secured").field("inner", &self.stream.sock.inner()).finish()
    }
}

impl Transport for Secured {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let input = self.buffers.input_append_buf();
        let amount = self.stream.read(input)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
