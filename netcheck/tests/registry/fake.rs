//! A server that answers as configured, one request per connection.

use super::Authority;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{self, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, sleep},
    time::Duration,
};
use testkit::net::Host;
use testkit::tls::server_config_of_files;

const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// No client is served for longer, so that no thread outlives its test by much.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// With its query.
    pub path: String,
    pub authorization: Option<String>,
}

pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Before each quarter of the body.
    pub pause: Option<Duration>,
    /// Nothing, until the other side gives up.
    pub silent: bool,
}

impl Answer {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.into(), pause: None, silent: false }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::ok("") }
    }

    pub(crate) fn hang() -> Self {
        Self { silent: true, ..Self::ok("") }
    }
}

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

/// The server; ends when dropped.
pub(crate) struct FakeRegistry {
    seen: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl FakeRegistry {
    /// Listens on all addresses, with TLS where there is an authority.
    pub(crate) fn start(
        host: &Host,
        port: u16,
        authority: Option<&Authority>,
        handler: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = host.namespace.enter(|| TcpListener::bind(("0.0.0.0", port))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let tls =
            authority.map(|authority| server_config_of_files(&authority.server_certificate, &authority.server_key));
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (handler, log, ended): (Arc<Handler>, _, _) = (Arc::new(handler), seen.clone(), stop.clone());
        let acceptor = thread::spawn(move || {
            let mut connections = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    sleep(POLL_INTERVAL);
                    continue;
                };
                let (handler, log, ended, tls) = (handler.clone(), log.clone(), ended.clone(), tls.clone());
                // A client that hangs up is not a fault of the server.
                connections.push(thread::spawn(move || drop(serve(stream, tls, &*handler, &log, &ended))));
            }
            for connection in connections {
                connection.join().unwrap();
            }
        });
        Self { seen, stop, acceptor: Some(acceptor) }
    }

    /// What has come so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.acceptor.take().unwrap().join();
        assert!(joined.is_ok() || thread::panicking(), "a handler panicked");
    }
}

fn serve(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    handler: &Handler,
    log: &Mutex<Vec<Request>>,
    ended: &AtomicBool,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SOCKET_TIMEOUT))?;
    stream.set_write_timeout(Some(SOCKET_TIMEOUT))?;
    match tls {
        None => talk(stream, handler, log, ended),
        Some(tls) => {
            let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
            talk(StreamOwned::new(connection, stream), handler, log, ended)
        }
    }
}

fn talk(stream: impl Read + Write, handler: &Handler, log: &Mutex<Vec<Request>>, ended: &AtomicBool) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let Some(request) = testkit::http::Request::read(&mut stream)? else { return Ok(()) };
    let request = Request {
        path: request.target().to_owned(),
        authorization: request.header("authorization").map(str::to_owned),
    };
    log.lock().unwrap().push(request.clone());
    let answer = handler(&request);
    while answer.silent && !ended.load(Ordering::Relaxed) {
        sleep(POLL_INTERVAL);
    }
    if answer.silent {
        return Ok(());
    }
    let stream = stream.get_mut();
    let mut head =
        format!("HTTP/1.1 {} x\r\nContent-Length: {}\r\nConnection: close\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    for quarter in answer.body.chunks(answer.body.len().div_ceil(4).max(1)) {
        sleep(answer.pause.unwrap_or_default());
        stream.write_all(quarter)?;
        stream.flush()?;
    }
    stream.flush()
}
