//! A relay between the programs: passes bytes on as they come, and keeps them.

use super::message::{self, Message, ParseError};
use crate::net::Namespace;
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Kept of each direction of a connection; what comes after is passed on, and makes the record useless.
const MAX_RECORD_BYTES: usize = 32 << 20;
const MAX_CONNECTIONS: usize = 10_000;

/// Bytes of one direction.
#[derive(Default)]
struct Direction {
    bytes: Vec<u8>,
    /// Where each read began, and when.
    marks: Vec<(usize, Instant)>,
    closed: bool,
    overflown: bool,
}

impl Direction {
    fn keep(&mut self, part: &[u8]) {
        if self.bytes.len() + part.len() > MAX_RECORD_BYTES {
            self.overflown = true;
        } else {
            self.marks.push((self.bytes.len(), Instant::now()));
            self.bytes.extend(part);
        }
    }

    fn time_at(&self, offset: usize) -> Instant {
        let next = self.marks.partition_point(|(start, _)| *start <= offset);
        self.marks[next - 1].1
    }
}

#[derive(Default)]
struct Connection {
    to_service: Mutex<Direction>,
    to_client: Mutex<Direction>,
}

/// Listens in a namespace until dropped.
pub(crate) struct Relay {
    pub address: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
    ended: Arc<AtomicBool>,
    namespace: String,
}

/// A request with its response, if there is one yet.
pub(crate) struct Pair {
    pub at: Instant,
    pub request: Message,
    pub response: Option<Message>,
}

impl Relay {
    /// Between clients of `listen` and the service at `service`, both in the same namespace.
    pub(crate) fn start(namespace: &Namespace, listen: SocketAddr, service: SocketAddr) -> Self {
        let connections = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (listener, name) = (namespace.enter(|| TcpListener::bind(listen).unwrap()), namespace.0.clone());
        let address = listener.local_addr().unwrap();
        let (all, end, inside) = (connections.clone(), ended.clone(), name.clone());
        thread::spawn(move || {
            // A thread of its own may stay in the namespace for good.
            crate::net::enter_for_good(&inside);
            for client in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(service)) else { continue };
                let connection = Arc::new(Connection::default());
                let mut all = all.lock().unwrap();
                assert!(all.len() < MAX_CONNECTIONS, "more than {MAX_CONNECTIONS} connections");
                all.push(connection.clone());
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let other = connection.clone();
                thread::spawn(move || pass(from, to, &other.to_service));
                thread::spawn(move || pass(server, client, &connection.to_client));
            }
        });
        Self { address, connections, ended, namespace: name }
    }

    /// Everything so far, by the time of the requests.
    pub(crate) fn pairs(&self) -> Result<Vec<Pair>, ParseError> {
        let mut pairs = Vec::new();
        for connection in self.connections.lock().unwrap().iter() {
            let (to_service, to_client) = (connection.to_service.lock().unwrap(), connection.to_client.lock().unwrap());
            assert!(!to_service.overflown && !to_client.overflown, "a connection has too many bytes for the record");
            let requests = message::requests(&to_service.bytes)?;
            let methods: Vec<&str> =
                requests.iter().map(|request| request.first_line.split(' ').next().unwrap()).collect();
            let mut responses = message::responses(&to_client.bytes, &methods, to_client.closed)?.into_iter();
            for request in requests.clone() {
                let at = to_service.time_at(request.offset);
                pairs.push(Pair { at, request, response: responses.next() });
            }
        }
        pairs.sort_by_key(|pair| pair.at);
        Ok(pairs)
    }

    /// The first bytes that each client has sent.
    pub(crate) fn beginnings(&self, length: usize) -> Vec<Vec<u8>> {
        let all = self.connections.lock().unwrap();
        all.iter().map(|one| one.to_service.lock().unwrap().bytes.iter().take(length).copied().collect()).collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let address = self.address;
        crate::net::in_namespace(&self.namespace, || {
            let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        });
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, record: &Mutex<Direction>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).unwrap_or(0);
        if length == 0 {
            record.lock().unwrap().closed = true;
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        record.lock().unwrap().keep(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            let _ = from.shutdown(Shutdown::Both);
            return;
        }
    }
}
