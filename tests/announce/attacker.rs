//! A host of the segment that tells everybody the rack's service is here.

use mdns_sd::{ServiceDaemon, ServiceInfo};
use rustls::{ServerConnection, StreamOwned};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};
use testkit::{net::Host, tls::server_config_of_files};

const PORT: u16 = 8090;
/// No agent's: the attacker asked with it itself.
const OLD_NONCE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const PATH: &str = "/landfall/rendezvous";

/// What it answers to the question of where the rendezvous is.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// Its own words, with the infra-env that is asked for.
    Lie(String),
    /// What the service at this address answered earlier.
    Replay(String),
    /// What the service at this address answers now. So with every other request.
    Relay(String),
}

pub(crate) struct Attacker {
    requests: Arc<Mutex<Vec<String>>>,
    daemon: ServiceDaemon,
}

impl Attacker {
    pub(crate) fn begin(host: &Host, address: &str, play: &Play) -> Self {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let daemon = host.namespace.enter(|| {
            let (noted, play) = (requests.clone(), prepared(play));
            let listener = TcpListener::bind((address, PORT)).unwrap();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    serve(stream.unwrap(), &play, &noted);
                }
            });
            let daemon = ServiceDaemon::new().unwrap();
            let url = format!("http://{address}:{PORT}");
            let properties = [("url", url.as_str())];
            let info = ServiceInfo::new("_landfall._tcp.local.", "rack", "rack.local.", address, PORT, &properties[..]);
            daemon.register(info.unwrap()).unwrap();
            daemon
        });
        Self { requests, daemon }
    }

    /// Heads of the requests it got.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Nothing but the question came here, and no token with it.
    pub(crate) fn assert_got_nothing(&self) {
        assert_got_nothing(&self.requests());
    }
}

pub(crate) fn assert_got_nothing(requests: &[String]) {
    for request in requests {
        let lower = request.to_lowercase();
        let asks = lower.starts_with("get /landfall/rendezvous");
        assert!(asks && !lower.contains("x-secret-key"), "the attacker got this of the agent:\n{request}");
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.daemon.shutdown();
    }
}

/// A host that has the service's address: it ends TLS with a certificate of its own in `directory`, and passes all on to the service.
/// Returns the heads of what it can read.
pub(crate) fn intercept(host: &Host, address: &str, genuine: &str, directory: &Path) -> Arc<Mutex<Vec<String>>> {
    let (key, certificate) = (directory.join("evil-key.pem"), directory.join("evil.pem"));
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    make.args([
        "-subj",
        "/CN=rack",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-addext",
        &format!("subjectAltName=IP:{address}"),
        "-keyout",
    ])
    .arg(&key);
    assert!(make.arg("-out").arg(&certificate).stderr(Stdio::null()).status().unwrap().success());
    let config = server_config_of_files(&certificate, &key);
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let (noted, play) = (requests.clone(), Prepared::Intercept(genuine.to_owned()));
    host.namespace.enter(move || {
        let listener = TcpListener::bind((address, PORT)).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(config.clone()).unwrap();
                serve(StreamOwned::new(connection, stream.unwrap()), &play, &noted);
            }
        });
    });
    requests
}

enum Prepared {
    Body(String),
    Relay(String),
    Intercept(String),
}

fn prepared(play: &Play) -> Prepared {
    match play {
        Play::Lie(infra_env) => Prepared::Body(format!("{{\"cluster_id\": null, \"infra_env_id\": \"{infra_env}\"}}")),
        Play::Replay(genuine) => {
            let request = format!("GET {PATH}?nonce={OLD_NONCE} HTTP/1.1\r\nHost: {genuine}\r\n\r\n");
            let answer = String::from_utf8(passed_on(genuine, &request, &[])).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            Prepared::Body(answer.split_once("\r\n\r\n").unwrap().1.to_owned())
        }
        Play::Relay(genuine) => Prepared::Relay(genuine.clone()),
    }
}

fn serve(mut stream: impl Read + Write, play: &Prepared, noted: &Mutex<Vec<String>>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let head_len = loop {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_len]).into_owned();
    noted.lock().unwrap().push(head.clone());
    let answer = match play {
        Prepared::Body(body) if head.contains(PATH) => {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
                .into_bytes()
        }
        Prepared::Body(_) => b"HTTP/1.1 503 Later\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec(),
        Prepared::Relay(genuine) | Prepared::Intercept(genuine) => {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            let mut body = bytes[head_len..].to_vec();
            while body.len() < length.unwrap_or(0) {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => body.extend_from_slice(&piece[..count]),
                }
            }
            match play {
                Prepared::Intercept(_) => passed_on_by_tls(genuine, &head),
                _ => passed_on(genuine, &head, &body),
            }
        }
    };
    // The agent may have gone.
    let _ = stream.write_all(&answer);
}

/// What the service at `genuine` answers to a request.
fn passed_on(genuine: &str, head: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let Ok(mut stream) = TcpStream::connect(genuine) else { return answer };
    let (line, headers) = head.split_once("\r\n").unwrap();
    let _ = stream.write_all(format!("{line}\r\nConnection: close\r\n{headers}").as_bytes());
    let _ = stream.write_all(body);
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// As [`passed_on`], without a body, over HTTPS.
fn passed_on_by_tls(genuine: &str, head: &str) -> Vec<u8> {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-quiet", "-connect", genuine]);
    let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    let request = format!("{line}\r\nConnection: close\r\n{headers}");
    let _ = client.stdin.as_ref().unwrap().write_all(request.as_bytes());
    client.wait_with_output().unwrap().stdout
}
