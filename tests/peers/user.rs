//! What a user asks of a service, without going through the relay.

use crate::{
    net::Namespace,
    wire::message::{self, Message},
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

const MAX_ANSWER_BYTES: u64 = 64 << 20;

#[derive(Clone)]
pub(crate) struct Api {
    namespace: String,
    address: SocketAddr,
    token: Option<String>,
    tls: Option<Arc<ClientConfig>>,
}

/// Trusts this certificate's issuer and nobody else.
fn trusting(certificate: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_slice_iter(certificate) {
        roots.add(one.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Api {
    pub(crate) fn new(
        namespace: &Namespace,
        address: SocketAddr,
        token: Option<String>,
        certificate: Option<&[u8]>,
    ) -> Self {
        Self { namespace: namespace.0.clone(), address, token, tls: certificate.map(trusting) }
    }

    fn ask(&self, method: &str, path: &str, accept: &str, body: &[u8]) -> std::io::Result<Option<Message>> {
        let token = self.token.as_ref().map_or(String::new(), |token| format!("X-Secret-Key: {token}\r\n"));
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let (address, length) = (self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept: {accept}\r\n{kind}{token}Content-Length: {length}\r\n\r\n"
        );
        let plain = crate::net::in_namespace(&self.namespace, || TcpStream::connect(address))?;
        plain.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some(config) => {
                let name = ServerName::from(address.ip());
                let session = ClientConnection::new(config.clone(), name).map_err(std::io::Error::other)?;
                Box::new(StreamOwned::new(session, plain))
            }
            None => Box::new(plain),
        };
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut bytes = Vec::new();
        match stream.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes) {
            // Go ends a connection without TLS's own word for it.
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(error),
            _ => {}
        }
        Ok(message::responses(&bytes, &[method], true).unwrap().into_iter().next())
    }

    pub(crate) fn answers(&self) -> bool {
        let answer = self.ask("GET", "/ready", "*/*", b"");
        answer.is_ok_and(|answer| answer.is_some_and(|answer| answer.status() == Some(200)))
    }

    /// Below `/api/assisted-install/v2`; status and body.
    pub(crate) fn try_request(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map_or(Vec::new(), |body| body.to_string().into_bytes());
        let path = format!("/api/assisted-install/v2{path}");
        let answer = self.ask(method, &path, "application/json", &body).unwrap();
        let answer = answer.unwrap_or_else(|| panic!("no answer to {method} {path}"));
        let body = serde_json::from_slice(&answer.body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&answer.body).into_owned()));
        (answer.status().unwrap(), body)
    }

    /// One that must succeed.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.try_request(method, path, body.clone());
        assert!((200..300).contains(&status), "{method} {path} {body:?}: {status} {answer}");
        answer
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.request("GET", path, None)
    }

    /// The bytes of a file.
    pub(crate) fn file(&self, path: &str) -> (u16, Vec<u8>) {
        let path = format!("/api/assisted-install/v2{path}");
        let answer = self.ask("GET", &path, "application/octet-stream", b"").unwrap().unwrap();
        (answer.status().unwrap(), answer.body)
    }

    /// Asks again until `enough` says so; panics when it never does.
    pub(crate) fn await_state(
        &self,
        what: &str,
        path: &str,
        patience: Duration,
        enough: impl Fn(&Value) -> bool,
    ) -> Value {
        let end = Instant::now() + patience;
        loop {
            let state = self.get(path);
            if enough(&state) {
                return state;
            }
            assert!(Instant::now() < end, "never came: {what}; at last {}", summary(&state));
            thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Of hosts and clusters what people look at first.
fn summary(state: &Value) -> String {
    let one = |state: &Value| {
        let words = ["status", "status_info", "progress"].map(|name| state[name].to_string());
        format!("{} {}", words.join(" "), failures(&state["validations_info"]).join("; "))
    };
    match state {
        Value::Array(all) => all.iter().map(one).collect::<Vec<_>>().join("\n"),
        state => one(state),
    }
}

/// Validations that do not succeed, with what they say.
pub(crate) fn failures(validations: &Value) -> Vec<String> {
    let groups: Value = serde_json::from_str(validations.as_str().unwrap_or("{}")).unwrap_or_default();
    let all = groups.as_object().into_iter().flatten().flat_map(|(_, group)| group.as_array().into_iter().flatten());
    let failed = all.filter(|one| !["success", "disabled"].contains(&one["status"].as_str().unwrap_or_default()));
    failed.map(|one| format!("{} {}: {}", one["id"], one["status"], one["message"])).collect()
}
