//! The HTTP server of the tests: it gives the answers it is made with, byte for byte, and keeps what it was asked.
//!
//! A connection stays open until the client closes it, or until an answer that has `Connection: close` in its head or another length
//! than it announces.

pub use rustls::ServerConfig;
use rustls::{ServerConnection, StreamOwned};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// How long a connection waits for its next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The request line and the headers as they came, with the empty line at their end.
    pub head: String,
    /// Without the marks of chunks.
    pub body: Vec<u8>,
    /// The number of its connection, from 0.
    pub connection: usize,
    /// How many came before it for the same target.
    pub earlier: usize,
}

impl Request {
    /// The next request of a connection; none at its end.
    ///
    /// # Errors
    /// Where the connection breaks, a length is not a number, or the bytes are not UTF-8.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        // A client that tries TLS first is not waited for.
        if reader.fill_buf()?.first().is_some_and(|first| !first.is_ascii_alphabetic()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
        let mut request = Self { head, body: Vec::new(), connection: 0, earlier: 0 };
        if request.header("transfer-encoding").is_some() {
            request.body = read_chunks(reader)?;
        } else if let Some(length) = request.header("content-length") {
            request.body = vec![0; length.parse().map_err(|_| io::Error::other("the length is not a number"))?];
            reader.read_exact(&mut request.body)?;
        }
        Ok(Some(request))
    }

    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// Path and query; a whole URL from the client of a proxy.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// Names as they came.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.lines().skip(1).filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim()))
    }

    /// The value of the first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The first byte of the range that it asks for.
    pub fn range_start(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.split('-').next()?.parse().ok()
    }
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).map_err(|_| io::Error::other("a chunk without a size"))?;
        if u64::try_from(reader.by_ref().take(length).read_to_end(&mut body)?).is_ok_and(|read| read < length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // And the end of its line.
        reader.read_exact(&mut [0; 2])?;
        if length == 0 {
            return Ok(body);
        }
    }
}

/// An answer that ends its connection. `headers` are whole lines.
pub fn reply(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    cut(status, headers, body.len(), body)
}

/// The same, with another length than that of what comes.
pub fn cut(status: &str, headers: &str, announced: usize, body: impl AsRef<[u8]>) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {announced}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body.as_ref()].concat()
}

pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    reply("200 OK", "", body)
}

/// `data` from a range's start on, of which all before `end` comes; with an `ETag` that it stays the same by.
pub fn resumed(request: &Request, data: &[u8], end: usize) -> Vec<u8> {
    let (start, total) = (request.range_start().unwrap_or(0), data.len());
    let (status, range) = match start {
        0 => ("200 OK", String::new()),
        _ => ("206 Partial Content", format!("Content-Range: bytes {start}-{}/{total}\r\n", total - 1)),
    };
    cut(status, &format!("ETag: \"1\"\r\n{range}"), total - start, &data[start.min(end)..end])
}

type Answer = dyn Fn(&Request) -> Vec<u8> + Send + Sync;

/// On the loopback unless it is given a listener. It ends when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    is_tls: bool,
    requests: Arc<Mutex<Vec<Request>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::on(loopback(), None, answer)
    }

    pub fn with_tls(config: Arc<ServerConfig>, answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::on(loopback(), Some(config), answer)
    }

    pub fn on(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let answer: Arc<Answer> = Arc::new(answer);
        Self::run(listener, tls, move |connection| {
            let answer = answer.clone();
            // A client may hang up at any time.
            thread::spawn(move || connection.serve(&*answer).ok());
            true
        })
    }

    /// Answers each connection with the next of these, and is gone after the last.
    pub fn in_order(replies: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::in_order_on(loopback(), replies)
    }

    pub fn in_order_on(listener: TcpListener, replies: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut replies = replies.into_iter().collect::<Vec<_>>().into_iter();
        Self::run(listener, None, move |connection| {
            if let Some(reply) = replies.next() {
                let _ = connection.serve(&|_| reply.clone());
            }
            replies.len() > 0
        })
    }

    /// Does `work` for one connection after another, as long as it says so.
    fn run(
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        mut work: impl FnMut(Connection) -> bool + Send + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (requests, is_over) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::new(AtomicBool::new(false)));
        let (is_tls, log, ended) = (tls.is_some(), requests.clone(), is_over.clone());
        let serve = move || {
            for (number, stream) in listener.incoming().enumerate() {
                let stream = stream.unwrap();
                if ended.load(Ordering::Relaxed)
                    || !work(Connection { stream, number, tls: tls.clone(), log: log.clone() })
                {
                    return;
                }
            }
        };
        Self { address, is_tls, requests, is_over, thread: Some(thread::spawn(serve)) }
    }

    /// `path` begins with a slash, or is empty.
    pub fn url(&self, path: &str) -> String {
        format!("http{}://{}{path}", if self.is_tls { "s" } else { "" }, self.address)
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The same, once all that it answers in order is answered.
    pub fn finish(mut self) -> Vec<Request> {
        self.thread.take().unwrap().join().unwrap();
        self.requests()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        // In a network namespace nobody wakes it; it ends with the process.
        if self.address.ip().is_loopback() {
            let _ = thread.join();
        }
    }
}

fn loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

struct Connection {
    stream: TcpStream,
    number: usize,
    tls: Option<Arc<ServerConfig>>,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Connection {
    fn serve(self, answer: &dyn Fn(&Request) -> Vec<u8>) -> io::Result<()> {
        self.stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
        let Some(config) = self.tls else { return converse(self.stream, self.number, &self.log, answer).map(drop) };
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = converse(StreamOwned::new(connection, self.stream), self.number, &self.log, answer)?;
        stream.conn.send_close_notify();
        stream.flush()
    }
}

fn converse<S: Read + Write>(
    stream: S,
    connection: usize,
    log: &Mutex<Vec<Request>>,
    answer: &dyn Fn(&Request) -> Vec<u8>,
) -> io::Result<S> {
    let mut reader = BufReader::new(stream);
    while let Some(mut request) = Request::read(&mut reader)? {
        request.connection = connection;
        {
            let mut log = log.lock().unwrap();
            request.earlier = log.iter().filter(|known| known.target() == request.target()).count();
            log.push(request.clone());
        }
        let reply = answer(&request);
        reader.get_mut().write_all(&reply)?;
        reader.get_mut().flush()?;
        if ends_connection(&reply) {
            break;
        }
    }
    Ok(reader.into_inner())
}

/// Whether an answer says so, or leaves the client no other way to know its end.
fn ends_connection(reply: &[u8]) -> bool {
    let Some(end) = reply.windows(4).position(|end| end == b"\r\n\r\n") else { return true };
    let head = String::from_utf8_lossy(&reply[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    head.contains("connection: close") || length.is_some_and(|length| length != reply.len() - end - 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests_are_read_whole() {
        let server = Server::start(|request| ok(&request.body));
        let chunked = "PUT /a?b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        assert!(ask(server.address, chunked).ends_with("\r\n\r\nhello"));
        let counted = "PUT /a?b HTTP/1.1\r\ncontent-length:  2\r\nRange: bytes=12-\r\n\r\nhi";
        assert!(ask(server.address, counted).ends_with("\r\n\r\nhi"));
        let requests = server.requests();
        assert_eq!((requests[0].connection, requests[1].connection, requests[1].earlier), (0, 1, 1));
        assert_eq!((requests[1].method(), requests[1].target(), requests[1].path()), ("PUT", "/a?b", "/a"));
        assert_eq!((requests[1].range_start(), requests[0].range_start()), (Some(12), None));
    }

    #[test]
    fn a_connection_stays_unless_an_answer_ends_it() {
        let server = Server::start(|request| match request.path() {
            "/last" => ok("b"),
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na".to_vec(),
        });
        let answer = ask(server.address, "GET /first HTTP/1.1\r\n\r\nGET /last HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    }

    #[test]
    fn after_the_last_answer_nobody_is_there() {
        let server = Server::in_order([ok("a"), reply("404 No", "", "")]);
        let address = server.address;
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").ends_with('a'));
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 No\r\n"));
        assert_eq!(server.finish().len(), 2);
        // A child that another test's thread forked meanwhile has the listener until it is replaced by its program.
        assert!(wait::comes(|| TcpStream::connect(address).is_err()), "{address} still listens");
    }
}
