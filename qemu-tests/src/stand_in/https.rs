//! As much of HTTP over TLS as the stand-ins speak: one request for each connection.

use super::Settings;
use anyhow::{Context, Result, anyhow, ensure};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

const MAX_HEAD_BYTES: u64 = 16 << 10;
const MAX_BODY_BYTES: u64 = 8 << 20;
/// Handshakes are slow under emulation.
const TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) user_agent: String,
    pub(super) accept: String,
    pub(super) body: Vec<u8>,
    pub(super) from: SocketAddr,
}

/// What is answered: status, type and body.
pub(super) type Answer = (u16, &'static str, Vec<u8>);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(settings: &Settings) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(settings.authority.as_bytes())?)?;
    Ok(Arc::new(roots))
}

fn identity(pem: &[String; 2]) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    Ok((vec![CertificateDer::from_pem_slice(pem[0].as_bytes())?], PrivateKeyDer::from_pem_slice(pem[1].as_bytes())?))
}

/// Settings of a server; `known` admits only clients with a certificate of ours.
pub(super) fn server(settings: &Settings, known: bool) -> Result<Arc<ServerConfig>> {
    let (chain, key) = identity(&settings.server)?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match known {
        true => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots(settings)?, provider()).build()?;
            builder.with_client_cert_verifier(verifier)
        }
        false => builder.with_no_client_auth(),
    };
    Ok(Arc::new(builder.with_single_cert(chain, key)?))
}

/// Serves each connection on its own thread, for as long as the process runs.
pub(super) fn serve(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (config, answer) = (config.clone(), answer.clone());
            thread::spawn(move || {
                if let Err(error) = serve_one(connection, config, &*answer) {
                    eprintln!("a connection failed: {error:#}");
                }
            });
        }
    });
}

fn serve_one(connection: TcpStream, config: Arc<ServerConfig>, answer: &dyn Fn(&Request) -> Answer) -> Result<()> {
    let from = connection.peer_addr()?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let mut stream = StreamOwned::new(ServerConnection::new(config)?, connection);
    let request = read_request(&mut stream, from)?;
    let (status, kind, body) = answer(&request);
    let head = format!(
        "HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(())
}

fn read_request(stream: &mut impl Read, from: SocketAddr) -> Result<Request> {
    let mut reader = BufReader::new(stream);
    let (first, headers) = read_head(&mut reader)?;
    let mut words = first.split(' ');
    let (method, target) = words.next().zip(words.next()).context("no request line")?;
    let header = |name: &str| {
        headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    };
    let body = read_body(&mut reader, header("content-length").parse().unwrap_or(0))?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Ok(Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: pairs.map(|(name, value)| (name.to_owned(), decode(value))).collect(),
        user_agent: header("user-agent"),
        accept: header("accept"),
        body,
        from,
    })
}

fn read_head(reader: &mut impl BufRead) -> Result<(String, Vec<(String, String)>)> {
    let mut lines = reader.by_ref().take(MAX_HEAD_BYTES).lines();
    let first = lines.next().context("closed before a request")??;
    let mut headers = Vec::new();
    for line in lines {
        let line = line?;
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => return Ok((first, headers)),
        }
    }
    Err(anyhow!("the headers do not end"))
}

fn read_body(reader: &mut impl Read, len: u64) -> Result<Vec<u8>> {
    ensure!(len <= MAX_BODY_BYTES, "a body of {len} bytes");
    let mut body = Vec::new();
    reader.take(len).read_to_end(&mut body)?;
    Ok(body)
}

/// Percent-encoding undone.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let escaped = more.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        (rest, _) = match escaped.filter(|_| *first == b'%') {
            Some(byte) => (&more[2..], bytes.push(byte)),
            None => (more, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asks the API at `server`, as an admitted client. A status other than 2xx is an error, except those in `expected`.
pub(super) fn ask(
    settings: &Settings,
    server: SocketAddr,
    method: &str,
    path: &str,
    body: &[u8],
    expected: &[u16],
) -> Result<Vec<u8>> {
    let (chain, key) = identity(&settings.client)?;
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots(settings)?).with_client_auth_cert(chain, key)?;
    let connection = TcpStream::connect_timeout(&server, CONNECT_TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let name = ServerName::IpAddress(IpAddr::from(server.ip()));
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name)?, connection);
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)?;
    stream.flush()?;
    let mut reader = BufReader::new(stream);
    let (first, headers) = read_head(&mut reader)?;
    let len = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let len = len.and_then(|(_, value)| value.parse().ok()).context("the answer has no length")?;
    let body = read_body(&mut reader, len)?;
    ensure!(u64::try_from(body.len()).is_ok_and(|got| got == len), io::Error::from(io::ErrorKind::UnexpectedEof));
    let status: u16 = first.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status line")?;
    ensure!(
        (200..300).contains(&status) || expected.contains(&status),
        "{method} {path}: {status} {}",
        String::from_utf8_lossy(&body)
    );
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::{Role, cluster_files::certificate};
    use std::net::Ipv4Addr;

    #[test]
    fn only_who_has_a_certificate_is_answered() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name, address| certificate(directory.path(), name, address).unwrap();
        let [authority, _] = make("authority", None);
        let loopback = Some(Ipv4Addr::LOCALHOST);
        let settings = Settings {
            role: Role::Master,
            address: Ipv4Addr::LOCALHOST,
            replicas: 1,
            files_url: String::new(),
            authority,
            server: make("server", loopback),
            client: make("client", loopback),
            objects: None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server_at = listener.local_addr().unwrap();
        serve(listener, server(&settings, true).unwrap(), |request| {
            let query = &request.query[0];
            let said = format!("{} {} {}={} ", request.method, request.path, query.0, query.1);
            (if request.path == "/gone" { 404 } else { 200 }, "text/plain", [said.as_bytes(), &request.body].concat())
        });
        let ask = |settings: &Settings, path: &str| ask(settings, server_at, "POST", path, b"body", &[]);
        assert_eq!(ask(&settings, "/a?b=c%2Fd%").unwrap(), b"POST /a b=c/d% body");
        assert!(ask(&settings, "/gone?x=y").unwrap_err().to_string().contains("404"));
        let stranger = tempfile::tempdir().unwrap();
        certificate(stranger.path(), "authority", None).unwrap();
        let client = certificate(stranger.path(), "client", loopback).unwrap();
        assert!(ask(&Settings { client, ..settings }, "/a?b=c").is_err());
    }
}
