//! Connects to the service once as a client does, and records what it sees: connection, tunnel, certificate, answer.
//!
//! The service's credentials are never sent, so it is harmless to continue with an untrusted certificate: the answer behind
//! it still has a date.

use super::{
    handshake::{Roots, TlsFacts, handshake},
    proxy::Tunnel,
    target::Target,
};
use crate::codec::{
    http::{Response, could_be},
    text::printable,
};
use api::proxy::ProxyServer;
use resolve::AttemptFailure;
use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};
use time::OffsetDateTime;

/// Answers to what we ask are shorter; a body is not read further.
const MAX_RESPONSE_BYTES: usize = 256 << 10;
/// A name with more addresses is tried at the first ones only.
const MAX_ADDRESSES: usize = 4;
/// Bytes shown of what is not HTTP.
const SAID_CHARS: usize = 60;
const USER_AGENT: &str = concat!("landfall/", env!("CARGO_PKG_VERSION"));

/// Why there is no TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectFailure {
    pub address: SocketAddr,
    pub kind: ConnectError,
}

/// What the kernel says of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectError {
    Refused,
    TimedOut(Duration),
    Other(String),
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address;
        match &self.kind {
            ConnectError::Refused => write!(f, "{address} refuses the connection"),
            ConnectError::TimedOut(limit) => write!(f, "{address} does not answer within {:.0} s", limit.as_secs_f32()),
            ConnectError::Other(reason) => write!(f, "no connection to {address}: {reason}"),
        }
    }
}

/// What the service said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Response(Response),
    NotHttp(String),
    Silent,
}

/// All that was seen on the way. `None` was not reached.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub connection: Option<ConnectFailure>,
    pub tunnel: Option<Tunnel>,
    pub tls: Option<TlsFacts>,
    pub answer: Option<Answer>,
    /// The answer's `Date` and our clock when it came.
    pub date: Option<(OffsetDateTime, OffsetDateTime)>,
}

pub(super) struct Way<'a> {
    pub target: &'a Target,
    pub proxy: Option<&'a ProxyServer>,
    /// Of the proxy if there is one, else of the service.
    pub addresses: &'a [IpAddr],
    pub roots: Roots,
    pub path: &'a str,
    /// For each of: connection, tunnel, handshake, answer.
    pub timeout: Duration,
}

/// Makes the connection. Takes at most five times its timeout.
pub(super) fn walk(way: &Way<'_>) -> Walk {
    let mut walk = Walk::default();
    let port = way.proxy.map_or(way.target.endpoint.port, |proxy| proxy.endpoint.port);
    let tcp = match connect(way.addresses, port, way.timeout) {
        Ok(tcp) => tcp,
        Err(failure) => {
            match way.proxy {
                Some(_) => walk.tunnel = Some(Tunnel::NoConnection(failure)),
                None => walk.connection = Some(failure),
            }
            return walk;
        }
    };
    let mut stream: Box<dyn Stream> = Box::new(Timed::new(tcp, way.timeout));
    if let Some(proxy) = way.proxy {
        let through = enter(stream, proxy, way)
            .and_then(|stream| if way.target.is_https { dig(stream, proxy, way) } else { Ok(stream) });
        match through {
            Ok(through) => stream = through,
            Err(tunnel) => {
                walk.tunnel = Some(tunnel);
                return walk;
            }
        }
        walk.tunnel = Some(Tunnel::Open);
    }
    if way.target.is_https {
        let (facts, encrypted) = handshake(stream, &way.target.endpoint, &way.roots, way.timeout);
        walk.tls = Some(facts);
        match encrypted {
            Some(encrypted) => stream = encrypted,
            None => return walk,
        }
    }
    stream.restart(way.timeout);
    let Target { endpoint, prefix, .. } = way.target;
    let asked = way.proxy.filter(|_| !way.target.is_https);
    let (origin, authorization) = match asked {
        Some(proxy) => (format!("http://{endpoint}"), authorization(proxy)),
        None => Default::default(),
    };
    let request = format!(
        "GET {origin}{prefix}{} HTTP/1.1\r\nHost: {endpoint}\r\nUser-Agent: {USER_AGENT}\r\nAccept: application/json\r\n\
         {authorization}Connection: close\r\n\r\n",
        way.path
    );
    let answer = exchange(&mut *stream, &request);
    if asked.is_some() {
        let tunnel = Tunnel::from(&answer);
        let is_open = tunnel == Tunnel::Open;
        walk.tunnel = Some(tunnel);
        if !is_open {
            return walk;
        }
    }
    if let Answer::Response(response) = &answer {
        let date = response.header("date").and_then(parse_date);
        walk.date = date.map(|date| (date, OffsetDateTime::now_utc()));
    }
    walk.answer = Some(answer);
    walk
}

/// `Sat, 21 Nov 2026 22:46:48 GMT`.
fn parse_date(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &time::format_description::well_known::Rfc2822).ok()
}

/// A TCP connection as the client makes it; the failure is that of the address it tries first.
pub(super) fn connect(addresses: &[IpAddr], port: u16, timeout: Duration) -> Result<TcpStream, ConnectFailure> {
    let addresses: Vec<_> = addresses.iter().take(MAX_ADDRESSES).map(|ip| SocketAddr::new(*ip, port)).collect();
    let failure = match resolve::connect(&addresses, timeout) {
        Ok(stream) => return Ok(stream),
        Err(error) => error.failures.into_iter().next(),
    };
    let Some((address, failure)) = failure else {
        let address = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port);
        return Err(ConnectFailure { address, kind: ConnectError::Other("it has no address".to_owned()) });
    };
    let kind = match failure {
        AttemptFailure::Silent(_) => ConnectError::TimedOut(timeout),
        AttemptFailure::Refused(error) => match error.kind() {
            ErrorKind::ConnectionRefused => ConnectError::Refused,
            ErrorKind::TimedOut => ConnectError::TimedOut(timeout),
            _ => ConnectError::Other(error.to_string()),
        },
    };
    Err(ConnectFailure { address, kind })
}

/// Bytes both ways, within a time.
pub(super) trait Stream: Read + Write {
    /// From now on.
    fn restart(&mut self, timeout: Duration);
}

struct Timed {
    tcp: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn new(tcp: TcpStream, timeout: Duration) -> Self {
        Self { tcp, deadline: Instant::now() + timeout }
    }

    fn remaining(&self) -> io::Result<Option<Duration>> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(remaining)) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(self.remaining()?)?;
        self.tcp.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(self.remaining()?)?;
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

impl Stream for Timed {
    fn restart(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }
}

/// TLS with the proxy itself, where it wants that.
fn enter(stream: Box<dyn Stream>, proxy: &ProxyServer, way: &Way<'_>) -> Result<Box<dyn Stream>, Tunnel> {
    if !proxy.is_https {
        return Ok(stream);
    }
    let (facts, encrypted) = handshake(stream, &proxy.endpoint, &way.roots, way.timeout);
    let distrust = facts.distrust.map(|error| rustls::Error::InvalidCertificate(error).to_string());
    match (encrypted, distrust.or(facts.failure.map(|failure| failure.to_string()))) {
        (Some(encrypted), None) => Ok(encrypted),
        (_, reason) => Err(Tunnel::NoTls(reason.unwrap_or_default())),
    }
}

/// A header line, or nothing.
fn authorization(proxy: &ProxyServer) -> String {
    let line = |value: &api::Secret| format!("Proxy-Authorization: {}\r\n", value.expose());
    proxy.authorization.as_ref().map(line).unwrap_or_default()
}

/// Asks the proxy for a connection to the service.
fn dig(mut stream: Box<dyn Stream>, proxy: &ProxyServer, way: &Way<'_>) -> Result<Box<dyn Stream>, Tunnel> {
    stream.restart(way.timeout);
    let endpoint = &way.target.endpoint;
    let authorization = authorization(proxy);
    let request = format!(
        "CONNECT {endpoint} HTTP/1.1\r\nHost: {endpoint}\r\nUser-Agent: {USER_AGENT}\r\nProxy-Connection: Keep-Alive\r\n\
         {authorization}\r\n"
    );
    match exchange_head(&mut *stream, &request) {
        Answer::Response(response) if (200..300).contains(&response.status) => {
            stream.restart(way.timeout);
            Ok(stream)
        }
        Answer::Response(response) => Err(Tunnel::Refused(response.status)),
        Answer::NotHttp(text) => Err(Tunnel::NotHttp(text)),
        Answer::Silent => Err(Tunnel::Silent),
    }
}

/// Sends a request and reads the response as far as it comes.
fn exchange(stream: &mut dyn Stream, request: &str) -> Answer {
    receive(stream, request, |response| response.is_complete)
}

/// The same of the response's head only, and not a byte more: what follows belongs to the tunnel.
fn exchange_head(stream: &mut dyn Stream, request: &str) -> Answer {
    receive(stream, request, |_| true)
}

fn receive(stream: &mut dyn Stream, request: &str, is_enough: impl Fn(&Response) -> bool) -> Answer {
    // A server that refuses at once may end the connection before it has read us; its answer still counts.
    let sent = stream.write_all(request.as_bytes()).and_then(|()| stream.flush());
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    // Reading single bytes until the head is complete leaves what follows in the stream.
    let mut piece = 1;
    while bytes.len() < MAX_RESPONSE_BYTES {
        let read = stream.read(buffer.get_mut(..piece).unwrap_or_default());
        match read {
            Ok(0) | Err(_) => break,
            Ok(length) => bytes.extend_from_slice(buffer.get(..length).unwrap_or_default()),
        }
        if !could_be(&bytes) {
            break;
        }
        if piece > 1 || bytes.ends_with(b"\r\n\r\n") {
            piece = buffer.len();
            if Response::parse(&bytes).is_some_and(|response| is_enough(&response)) {
                break;
            }
        }
    }
    if let Some(response) = Response::parse(&bytes) {
        return Answer::Response(response);
    }
    if bytes.is_empty() || sent.is_err() {
        return Answer::Silent;
    }
    // The rest usually arrives with the same packet.
    let _ = stream.read(&mut buffer).map(|length| bytes.extend_from_slice(buffer.get(..length).unwrap_or_default()));
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Answer::NotHttp(printable(line).chars().take(SAID_CHARS).collect())
}
