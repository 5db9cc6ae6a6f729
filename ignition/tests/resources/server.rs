//! HTTP servers of our own, in threads that end with them.

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// What a client asked for.
pub struct Request {
    /// Path, or a whole URL from the client of a proxy.
    pub target: String,
    /// All before the empty line.
    pub head: String,
    /// How many came before it for the same target.
    pub earlier: usize,
}

impl Request {
    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// A header's values, joined.
    pub fn header(&self, name: &str) -> String {
        let pairs = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let values: Vec<_> = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect();
        values.join("|")
    }
}

type Answer = dyn Fn(&Request) -> Vec<u8> + Send + Sync;

pub struct Server {
    pub address: SocketAddr,
    is_tls: bool,
    requests: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::serve(None, Arc::new(answer))
    }

    pub fn start_tls(
        certificates: &Certificates,
        answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Some(certificates.server.clone()), Arc::new(answer))
    }

    fn serve(tls: Option<Arc<ServerConfig>>, answer: Arc<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let is_tls = tls.is_some();
        let thread = {
            let (requests, is_over) = (requests.clone(), is_over.clone());
            thread::spawn(move || {
                for stream in listener.incoming() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let stream = stream.unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                    match &tls {
                        Some(tls) => {
                            let connection = ServerConnection::new(tls.clone()).unwrap();
                            exchange(StreamOwned::new(connection, stream), &requests, &*answer);
                        }
                        None => exchange(stream, &requests, &*answer),
                    }
                }
            })
        };
        Self { address, is_tls, requests, is_over, thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", if self.is_tls { "https" } else { "http" }, self.address)
    }

    /// The targets asked for so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A client that doesn't like what it sees hangs up at any time.
fn exchange(mut stream: impl Read + Write, requests: &Mutex<Vec<String>>, answer: &Answer) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    let earlier = {
        let mut requests = requests.lock().unwrap();
        requests.push(target.clone());
        requests.iter().filter(|known| **known == target).count() - 1
    };
    let _ = stream.write_all(&answer(&Request { target, head, earlier }));
    let _ = stream.flush();
}

/// A response of this status line, with these header lines.
pub fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    response("200 OK", "", body.as_ref())
}

pub fn redirect(to: &str) -> Vec<u8> {
    response("302 Found", &format!("Location: {to}\r\n"), b"over there")
}

/// A CA, another one, and a server whose certificate is the first one's.
pub struct Certificates {
    pub ca_pem: String,
    pub other_ca_pem: String,
    server: Arc<ServerConfig>,
}

impl Certificates {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let openssl = |arguments: &str| {
            let output = Command::new("openssl").args(arguments.split(' ')).current_dir(&directory).output().unwrap();
            assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
        for name in ["ca", "other"] {
            openssl(&format!("req -x509 {key} -subj /CN={name} -keyout {name}.key -out {name}.crt"));
        }
        openssl(&format!(
            "req -x509 {key} -subj /CN=server -addext subjectAltName=IP:127.0.0.1 \
             -addext basicConstraints=critical,CA:FALSE -CA ca.crt -CAkey ca.key -keyout server.key -out server.crt"
        ));
        let read = |name: &str| fs::read_to_string(Path::new(directory.path()).join(name)).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(read("server.crt").as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(read("server.key").as_bytes()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Self { ca_pem: read("ca.crt"), other_ca_pem: read("other.crt"), server: Arc::new(server) }
    }
}
