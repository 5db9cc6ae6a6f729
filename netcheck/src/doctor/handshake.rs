//! Speaks TLS and records the other side's certificate, trusted or not.

use super::{target::Endpoint, wire::Stream};
use crate::codec::http::could_be;
use api::http::HttpConfig;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use time::OffsetDateTime;

const ALPN: &[u8] = b"http/1.1";

/// What TLS came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TlsFacts {
    /// As the server sent it, its own certificate first; empty if the handshake did not get so far.
    pub chain: Vec<Vec<u8>>,
    /// What rustls has against the certificate.
    pub distrust: Option<CertificateError>,
    /// Why the handshake failed otherwise.
    pub failure: Option<TlsFailure>,
    /// Our clock at that moment.
    pub now: OffsetDateTime,
}

/// Why there is no TLS, certificates aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TlsFailure {
    /// The other side answers in HTTP.
    PlainHttp,
    /// It speaks, but not TLS.
    NotTls,
    /// It ends the connection.
    Closed,
    /// It says nothing.
    TimedOut(Duration),
    Other(String),
}

#[derive(Clone, Debug)]
pub(super) struct Roots {
    verifier: Arc<dyn ServerCertVerifier>,
}

/// Why the CA bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    #[error("cannot read the CA bundle {}", path.display())]
    Read { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("the CA bundle {} contains no PEM certificate", path.display())]
    Empty { path: PathBuf },
}

impl Roots {
    /// The system's, and those of the bundle unless certificates are ignored anyway.
    pub(super) fn load(config: &HttpConfig) -> Result<Self, RootsError> {
        let mut roots = rustls_native_certs::load_native_certs().certs;
        if let Some(path) = config.ca_cert.as_ref().filter(|_| !config.insecure) {
            let read = |source| RootsError::Read { path: path.clone(), source };
            let bundle: Vec<_> =
                CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<_, _>>).map_err(read)?;
            if RootCertStore::empty().add_parsable_certificates(bundle.iter().cloned()).0 == 0 {
                return Err(RootsError::Empty { path: path.clone() });
            }
            roots.extend(bundle);
        }
        Ok(Self { verifier: api::trust::verifier(roots) })
    }
}

impl Stream for StreamOwned<ClientConnection, Box<dyn Stream>> {
    fn restart(&mut self, timeout: Duration) {
        self.sock.restart(timeout);
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Speaks TLS within the time limit, and records the certificate, trusted or not.
pub(super) fn handshake(
    stream: Box<dyn Stream>,
    endpoint: &Endpoint,
    roots: &Roots,
    timeout: Duration,
) -> (TlsFacts, Option<Box<dyn Stream>>) {
    let mut stream = stream;
    stream.restart(timeout);
    let mut facts = TlsFacts { chain: Vec::new(), distrust: None, failure: None, now: OffsetDateTime::now_utc() };
    let fail = |reason: &dyn fmt::Display| Some(TlsFailure::Other(reason.to_string()));
    let provider = Arc::new(ring::default_provider());
    let witness = Arc::new(Witness::new(roots, &provider));
    let name = match ServerName::try_from(endpoint.host.clone()) {
        Ok(name) => name,
        Err(error) => {
            facts.failure = fail(&error);
            return (facts, None);
        }
    };
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let connection = config.and_then(|config| {
        let verifier: Arc<dyn ServerCertVerifier> = witness.clone();
        let mut config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        ClientConnection::new(Arc::new(config), name)
    });
    let connection = match connection {
        Ok(connection) => connection,
        Err(error) => {
            facts.failure = fail(&error);
            return (facts, None);
        }
    };
    let mut recorder = Recorder { stream, first: Vec::new() };
    let mut connection = connection;
    let outcome = loop {
        if !connection.is_handshaking() {
            break Ok(());
        }
        if let Err(error) = connection.complete_io(&mut recorder) {
            break Err(error);
        }
    };
    let seen = std::mem::take(&mut *witness.seen.lock().unwrap_or_else(PoisonError::into_inner));
    (facts.chain, facts.distrust) = (seen.chain, seen.distrust);
    match outcome {
        Ok(()) => (facts, Some(Box::new(StreamOwned::new(connection, recorder.stream)))),
        Err(error) => {
            facts.failure = Some(tls_failure(&error, &recorder.first, timeout));
            (facts, None)
        }
    }
}

fn tls_failure(error: &io::Error, first: &[u8], timeout: Duration) -> TlsFailure {
    // Records begin with their type, 20 to 24, and version 3.
    let is_record = matches!(first, [20..=24, 3, ..] | [20..=24] | []);
    if first.len() >= 5 && could_be(first) {
        TlsFailure::PlainHttp
    } else if !is_record {
        TlsFailure::NotTls
    } else if is_timeout(error) {
        TlsFailure::TimedOut(timeout)
    } else if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) {
        TlsFailure::Closed
    } else {
        TlsFailure::Other(error.to_string())
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainHttp => f.write_str("the other side speaks plain HTTP"),
            Self::NotTls => f.write_str("the other side speaks a protocol other than TLS"),
            Self::Closed => f.write_str("the other side ended the connection"),
            Self::TimedOut(limit) => write!(f, "the other side sent nothing within {:.0} s", limit.as_secs_f32()),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

/// Keeps the first bytes that come in.
struct Recorder {
    stream: Box<dyn Stream>,
    first: Vec<u8>,
}

impl Read for Recorder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(buffer)?;
        let room = 16usize.saturating_sub(self.first.len());
        self.first.extend(buffer.iter().take(length.min(room)));
        Ok(length)
    }
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[derive(Debug, Default)]
struct Seen {
    chain: Vec<Vec<u8>>,
    distrust: Option<CertificateError>,
}

/// Accepts every certificate, and records it with the real verifier's verdict.
#[derive(Debug)]
struct Witness {
    real: Arc<dyn ServerCertVerifier>,
    provider: Arc<CryptoProvider>,
    seen: Mutex<Seen>,
}

impl Witness {
    fn new(roots: &Roots, provider: &Arc<CryptoProvider>) -> Self {
        Self { real: roots.verifier.clone(), provider: provider.clone(), seen: Mutex::default() }
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let distrust = match self.real.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Ok(_) => None,
            Err(rustls::Error::InvalidCertificate(error)) => Some(error),
            Err(_) => Some(CertificateError::BadEncoding),
        };
        let chain = std::iter::once(end_entity).chain(intermediates).map(|der| der.to_vec()).collect();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen { chain, distrust };
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
