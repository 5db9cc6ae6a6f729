//! A reverse proxy that fails on demand.

use crate::{authority::Authority, client::kubeconfig, lock};
use nix::sys::socket::{MsgFlags, recv};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use testkit::http::{Request, ServerConfig, reply};

/// How often a thread that waits looks whether it still should.
const PULSE: Duration = Duration::from_millis(50);

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is passed on.
    Pass,
    /// It is refused with this status, and not passed on.
    Status(u16),
    /// It is passed on later.
    Delay(Duration),
    /// The connection is closed, the request not passed on.
    Drop,
    /// The request is passed on, and the connection closed when its reply comes.
    LoseReply,
    /// Nothing happens, as long as the client waits.
    Hang,
}

/// A request that came to the proxy.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub body: Vec<u8>,
    /// Of the reply that was passed on; none before it came, and where a fault kept it back.
    pub status: Option<u16>,
    number: u64,
}

/// By method, path and query.
type Faults = dyn Fn(&str, &str, &str) -> Fault + Send + Sync;

/// The sockets of a request in flight.
struct Flight {
    number: u64,
    is_watch: bool,
    client: TcpStream,
    target: TcpStream,
}

struct Inner {
    address: SocketAddr,
    target: SocketAddr,
    /// Of the proxy, and of its client of the target.
    tls: Option<(Arc<ServerConfig>, Arc<ClientConfig>)>,
    faults: Mutex<Arc<Faults>>,
    requests: Mutex<Vec<Recorded>>,
    next: Mutex<u64>,
    flights: Mutex<Vec<Flight>>,
    is_blackhole: AtomicBool,
    is_over: AtomicBool,
}

/// The proxy. It ends when it is dropped, with all connections.
pub struct FaultProxy {
    inner: Arc<Inner>,
    ca_pem: String,
}

impl FaultProxy {
    /// In front of an HTTPS server, whose authority is `ca_pem`; the proxy has its own authority.
    pub fn https(target_url: &str, ca_pem: &str) -> Self {
        let authority = Authority::new("fault proxy");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
        Self::start(target_url, Some((authority.server_config(), client)), authority.pem().to_owned())
    }

    /// In front of a plain HTTP server.
    pub fn http(target_url: &str) -> Self {
        Self::start(target_url, None, String::new())
    }

    fn start(target_url: &str, tls: Option<(Arc<ServerConfig>, Arc<ClientConfig>)>, ca_pem: String) -> Self {
        let (_, target) = target_url.split_once("://").unwrap();
        let target = target.trim_end_matches('/').replace("localhost", "127.0.0.1").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inner = Arc::new(Inner {
            address: listener.local_addr().unwrap(),
            target,
            tls,
            faults: Mutex::new(Arc::new(|_, _, _| Fault::Pass)),
            requests: Mutex::default(),
            next: Mutex::new(0),
            flights: Mutex::default(),
            is_blackhole: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let serving = inner.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if serving.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (serving, Ok(client)) = (serving.clone(), client) else { continue };
                // Heads and bodies are small writes, which would wait for one another's acknowledgement.
                let _ = client.set_nodelay(true);
                thread::spawn(move || {
                    // Either side may hang up at any time.
                    let _ = serving.serve(&client);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { inner, ca_pem }
    }

    /// Where clients go instead of the target.
    pub fn url(&self) -> String {
        format!("http{}://{}", if self.inner.tls.is_some() { "s" } else { "" }, self.inner.address)
    }

    /// The certificate of the proxy's authority; empty without TLS.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A kubeconfig of the user whose token this is, through the proxy.
    pub fn kubeconfig(&self, token: &str) -> String {
        kubeconfig(&self.url(), &self.ca_pem, token)
    }

    /// What becomes of each request from now on, by its method, path, and query without the question mark.
    pub fn set_faults(&self, faults: impl Fn(&str, &str, &str) -> Fault + Send + Sync + 'static) {
        *lock(&self.inner.faults) = Arc::new(faults);
    }

    /// No faults from now on; requests that hang still do.
    pub fn pass(&self) {
        self.set_faults(|_, _, _| Fault::Pass);
    }

    /// Closes the streams of all watches in flight, and says how many there were.
    pub fn cut_watches(&self) -> usize {
        let flights = lock(&self.inner.flights);
        let watches: Vec<_> = flights.iter().filter(|flight| flight.is_watch).collect();
        watches.iter().for_each(|watch| watch.cut());
        watches.len()
    }

    /// While it is on, connections are accepted and nothing passes in either direction, as behind a firewall that drops packets. What was
    /// underway continues when it is off.
    pub fn blackhole(&self, is_on: bool) {
        self.inner.is_blackhole.store(is_on, Ordering::Relaxed);
    }

    /// The requests since the start or the last [`FaultProxy::clear`].
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.inner.requests).clone()
    }

    /// Forgets the requests.
    pub fn clear(&self) {
        lock(&self.inner.requests).clear();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.inner.is_over.store(true, Ordering::Relaxed);
        lock(&self.inner.flights).iter().for_each(Flight::cut);
        let _ = TcpStream::connect(self.inner.address);
    }
}

impl Flight {
    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.target.shutdown(Shutdown::Both);
    }
}

/// How a client knows that a reply is over.
#[derive(PartialEq, Eq)]
enum End {
    Length(usize),
    Chunk,
    Close,
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Whether a client that waits for a reply has closed the connection, or says that it will.
fn has_left(client: &TcpStream) -> bool {
    let state = recv(client.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
    state != Err(nix::Error::EAGAIN)
}

impl Inner {
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        self.while_blackhole(client)?;
        let stream: Box<dyn Stream> = match &self.tls {
            Some((config, _)) => {
                let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(connection, client.try_clone()?))
            }
            None => Box::new(client.try_clone()?),
        };
        let mut stream = BufReader::new(stream);
        while let Some(request) = Request::read(&mut stream)? {
            if !self.handle(client, stream.get_mut(), &request)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether the connection stays open.
    fn handle(&self, client: &TcpStream, stream: &mut dyn Stream, request: &Request) -> io::Result<bool> {
        let number = self.record(request);
        self.while_blackhole(client)?;
        let query = request.target().split_once('?').map_or("", |(_, query)| query);
        let faults = lock(&self.faults).clone();
        let fault = faults(request.method(), request.path(), query);
        match fault {
            Fault::Pass | Fault::LoseReply => {}
            Fault::Delay(duration) => thread::sleep(duration),
            Fault::Drop => return Ok(false),
            Fault::Hang => return self.wait_while(client, || true).map(|()| false),
            Fault::Status(status) => {
                self.note(number, status);
                stream.write_all(&refusal(status))?;
                return stream.flush().map(|()| false);
            }
        }
        let target = TcpStream::connect(self.target)?;
        let is_watch = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true"));
        let flight = Flight { number, is_watch, client: client.try_clone()?, target: target.try_clone()? };
        lock(&self.flights).push(flight);
        let passed = self.pass_on(client, stream, request, number, target, fault);
        lock(&self.flights).retain(|flight| flight.number != number);
        passed
    }

    fn pass_on(
        &self,
        client: &TcpStream,
        stream: &mut dyn Stream,
        request: &Request,
        number: u64,
        target: TcpStream,
        fault: Fault,
    ) -> io::Result<bool> {
        target.set_nodelay(true)?;
        target.set_read_timeout(Some(PULSE))?;
        let mut target: Box<dyn Stream> = match &self.tls {
            Some((_, config)) => {
                let name = ServerName::IpAddress(self.target.ip().into());
                let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(connection, target))
            }
            None => Box::new(target),
        };
        write_patiently(&mut target, &forwarded(request))?;
        let mut target = BufReader::new(Patient { target, inner: self, client });
        let (mut head, mut end) = (String::new(), End::Close);
        loop {
            let start = head.len();
            if target.read_line(&mut head)? == 0 {
                return Ok(false);
            }
            let line = head[start..].to_ascii_lowercase();
            if line.starts_with("connection:") {
                head.truncate(start);
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                end = End::Length(length.trim().parse().map_err(io::Error::other)?);
            } else if line.starts_with("transfer-encoding:") {
                end = End::Chunk;
            }
            if line == "\r\n" {
                break;
            }
        }
        if fault == Fault::LoseReply {
            return Ok(false);
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        if matches!(status, 204 | 304) || request.method() == "HEAD" {
            end = End::Length(0);
        } else if end == End::Close {
            head.insert_str(head.len() - 2, "Connection: close\r\n");
        }
        self.while_blackhole(client)?;
        self.note(number, status);
        stream.write_all(head.as_bytes())?;
        stream.flush()?;
        // As it comes: a watch's events are seen at once.
        let (mut total, mut last) = (0, Vec::new());
        while end != End::Length(total) && !(end == End::Chunk && last.ends_with(LAST_CHUNK)) {
            let bytes = target.fill_buf()?;
            if bytes.is_empty() {
                // What the target breaks off must end for the client too.
                return Ok(false);
            }
            self.while_blackhole(client)?;
            stream.write_all(bytes)?;
            stream.flush()?;
            let length = bytes.len();
            total += length;
            last.extend_from_slice(&bytes[length.saturating_sub(LAST_CHUNK.len())..]);
            last.drain(..last.len().saturating_sub(LAST_CHUNK.len()));
            target.consume(length);
        }
        Ok(true)
    }

    fn while_blackhole(&self, client: &TcpStream) -> io::Result<()> {
        if !self.is_blackhole.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A client may have begun its handshake: what it has sent doesn't say that it left.
        while self.is_blackhole.load(Ordering::Relaxed) {
            if self.is_over.load(Ordering::Relaxed) || client.take_error()?.is_some() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            thread::sleep(PULSE);
        }
        Ok(())
    }

    /// Fails when the client has left or the proxy ends.
    fn wait_while(&self, client: &TcpStream, waits: impl Fn() -> bool) -> io::Result<()> {
        while waits() {
            if self.is_over.load(Ordering::Relaxed) || has_left(client) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            thread::sleep(PULSE);
        }
        Ok(())
    }

    fn record(&self, request: &Request) -> u64 {
        let number = {
            let mut next = lock(&self.next);
            *next += 1;
            *next
        };
        let (method, target) = (request.method().to_owned(), request.target().to_owned());
        lock(&self.requests).push(Recorded { method, target, body: request.body.clone(), status: None, number });
        number
    }

    fn note(&self, number: u64, status: u16) {
        if let Some(request) = lock(&self.requests).iter_mut().find(|request| request.number == number) {
            request.status = Some(status);
        }
    }
}

/// The target's connection, read without a limit of time for as long as the client waits.
struct Patient<'a> {
    target: Box<dyn Stream>,
    inner: &'a Inner,
    client: &'a TcpStream,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.target.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.inner.is_over.load(Ordering::Relaxed) || has_left(self.client) {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
                // Servers close without a word of TLS.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
        }
    }
}

/// A handshake reads too, and its time limit is short.
fn write_patiently(target: &mut Box<dyn Stream>, mut bytes: &[u8]) -> io::Result<()> {
    loop {
        match if bytes.is_empty() { target.flush().map(|()| 0) } else { target.write(bytes) } {
            Ok(_) if bytes.is_empty() => return Ok(()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// The request, on a connection for it alone.
fn forwarded(request: &Request) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", request.method(), request.target());
    let own = ["connection", "content-length", "transfer-encoding", "expect"];
    for (name, value) in request.headers().filter(|(name, _)| !own.iter().any(|own| name.eq_ignore_ascii_case(own))) {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", request.body.len());
    [head.as_bytes(), &request.body].concat()
}

fn refusal(status: u16) -> Vec<u8> {
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"a fault of the test","code":{status}}}"#
    );
    reply(&format!("{status} Fault"), "Content-Type: application/json\r\n", body)
}
