//! As much of HTTP over TLS as the stand-ins serve: one request for each connection, and no body of it.

use super::Settings;
use anyhow::{Context, Result, anyhow};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

const MAX_HEAD_BYTES: u64 = 16 << 10;
/// Handshakes are slow under emulation.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(super) struct Request {
    pub(super) path: String,
    pub(super) user_agent: String,
    pub(super) accept: String,
    pub(super) from: SocketAddr,
}

/// What is answered: status, type and body.
pub(super) type Answer = (u16, &'static str, Vec<u8>);

/// Settings of a server.
pub(super) fn server(settings: &Settings) -> Result<Arc<ServerConfig>> {
    let [certificate, key] = &settings.server;
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
    Ok(Arc::new(config.with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?))
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
    let (first, headers) = read_head(BufReader::new(stream))?;
    let target = first.split(' ').nth(1).context("no request line")?;
    let header = |name: &str| {
        let header = headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    Ok(Request {
        path: target.split('?').next().unwrap_or_default().to_owned(),
        user_agent: header("user-agent"),
        accept: header("accept"),
        from,
    })
}

fn read_head(reader: impl BufRead) -> Result<(String, Vec<(String, String)>)> {
    let mut lines = reader.take(MAX_HEAD_BYTES).lines();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::Role;
    use std::net::Ipv4Addr;

    #[test]
    fn who_trusts_the_authority_is_answered() {
        let (certificate, key) = testkit::tls::self_signed(&testkit::tls::self_signing());
        let authority = testkit::tls::pem(&certificate);
        let key = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, key.serialized_der());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Settings {
            role: Role::Master,
            address: Ipv4Addr::LOCALHOST,
            replicas: 1,
            files_url: String::new(),
            api: address,
            server: [authority.clone(), format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n")],
            authority,
            token: String::new(),
            kubelet_port: 0,
            service_url: String::new(),
        };
        serve(listener, server(&settings).unwrap(), |request| {
            (if request.path == "/gone" { 404 } else { 200 }, "text/plain", request.path.clone().into_bytes())
        });
        let client = settings.administrator();
        assert_eq!(client.text("/a?b=c").unwrap(), "/a");
        assert_eq!(client.text("/gone").unwrap_err().status(), Some(404));
    }
}
