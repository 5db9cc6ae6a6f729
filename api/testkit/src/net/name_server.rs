//! A name server that does what a test says, over UDP and TCP.

use super::Namespace;
use crate::wait;
use hickory_proto::{
    op::{Message, MessageType, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata},
};
use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, sleep},
    time::Duration,
};

/// How long it takes until a server sees that it is to end.
const TICK: Duration = Duration::from_millis(20);

/// What is done with a question.
pub enum Deed {
    Drop,
    Answer(Vec<u8>),
    /// After some time, in which other questions are answered.
    Late(Duration, Vec<u8>),
    /// From a port that was not asked, and then what is true.
    Forged {
        forged: Vec<u8>,
        truth: Vec<u8>,
    },
}

pub struct Query {
    pub tcp: bool,
    pub name: String,
    pub kind: RecordType,
    message: Message,
}

impl Query {
    pub fn parse(bytes: &[u8], tcp: bool) -> Option<Self> {
        let message = Message::from_vec(bytes).ok()?;
        let query = message.queries().first()?;
        let (name, kind) = (query.name().to_ascii(), query.query_type());
        Some(Self { tcp, name, kind, message })
    }

    pub fn is_v4(&self) -> bool {
        self.kind == RecordType::A
    }

    pub fn with(&self, code: ResponseCode, records: &[(&str, RData)]) -> Vec<u8> {
        let mut message = self.message.clone();
        message.set_message_type(MessageType::Response).set_recursion_available(true).set_response_code(code);
        let record =
            |(name, data): &(&str, RData)| Record::from_rdata(Name::from_ascii(name).unwrap(), 1, data.clone());
        message.add_answers(records.iter().map(record));
        message.to_vec().unwrap()
    }

    pub fn code(&self, code: ResponseCode) -> Deed {
        Deed::Answer(self.with(code, &[]))
    }

    /// The name has these addresses.
    pub fn addresses(&self, addresses: &[&str]) -> Vec<u8> {
        let records: Vec<_> = addresses.iter().map(|address| (self.name.as_str(), data(address))).collect();
        self.with(ResponseCode::NoError, &records)
    }

    /// An answer that says it is not all.
    pub fn truncated(&self) -> Deed {
        let mut bytes = self.with(ResponseCode::NoError, &[]);
        bytes[2] |= 0x02;
        Deed::Answer(bytes)
    }
}

pub fn data(address: &str) -> RData {
    match address.parse().unwrap() {
        IpAddr::V4(address) => RData::A(rdata::A(address)),
        IpAddr::V6(address) => RData::AAAA(rdata::AAAA(address)),
    }
}

pub fn alias(target: &str) -> RData {
    RData::CNAME(rdata::CNAME(Name::from_ascii(target).unwrap()))
}

type Handler = dyn Fn(&Query) -> Deed + Send + Sync;

/// Runs until it is dropped.
pub struct NameServer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    log: Mutex<Vec<String>>,
    handler: Box<Handler>,
}

impl NameServer {
    /// At port 53 of `address`.
    pub fn start(
        namespace: &Namespace,
        address: &str,
        handler: impl Fn(&Query) -> Deed + Send + Sync + 'static,
    ) -> Self {
        let address = SocketAddr::new(address.parse().unwrap(), 53);
        // Sockets stay in the namespace they were made in.
        let (udp, other, tcp) = namespace.enter(|| {
            let other = UdpSocket::bind((address.ip(), 0)).unwrap();
            (UdpSocket::bind(address).unwrap(), other, TcpListener::bind(address).unwrap())
        });
        udp.set_read_timeout(Some(TICK)).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let shared =
            Arc::new(Shared { stop: AtomicBool::new(false), log: Mutex::default(), handler: Box::new(handler) });
        let (one, two) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            thread::spawn(move || serve_datagrams(&one, &udp, &other)),
            thread::spawn(move || serve_connections(&two, &tcp)),
        ];
        Self { shared, threads }
    }

    /// The questions, sorted, once so many have come: a client that has its answer may have asked for more.
    pub fn questions_of(&self, count: usize) -> Vec<String> {
        let _ = wait::comes(|| self.shared.log.lock().unwrap().len() >= count);
        self.questions()
    }

    /// The questions so far, sorted: two that are asked at once come in any order.
    pub fn questions(&self) -> Vec<String> {
        let mut log = self.shared.log.lock().unwrap().clone();
        log.sort();
        log
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn handle(&self, bytes: &[u8], tcp: bool) -> Deed {
        let Some(query) = Query::parse(bytes, tcp) else { return Deed::Drop };
        let over = if tcp { "tcp " } else { "" };
        self.log.lock().unwrap().push(format!("{over}{} {}", query.kind, query.name));
        (self.handler)(&query)
    }

    /// Less long when all is over.
    fn pass(&self, time: Duration) {
        for _ in 0..time.as_millis() / TICK.as_millis() {
            if self.is_over() {
                return;
            }
            sleep(TICK);
        }
    }
}

fn serve_datagrams(shared: &Shared, udp: &UdpSocket, other: &UdpSocket) {
    thread::scope(|scope| {
        let mut bytes = [0; 4096];
        while !shared.is_over() {
            let Ok((len, client)) = udp.recv_from(&mut bytes) else { continue };
            match shared.handle(&bytes[..len], false) {
                Deed::Drop => {}
                Deed::Answer(answer) => drop(udp.send_to(&answer, client)),
                Deed::Late(time, answer) => {
                    scope.spawn(move || {
                        shared.pass(time);
                        let _ = udp.send_to(&answer, client);
                    });
                }
                Deed::Forged { forged, truth } => {
                    let _ = other.send_to(&forged, client);
                    let _ = udp.send_to(&truth, client);
                }
            }
        }
    });
}

fn serve_connections(shared: &Shared, tcp: &TcpListener) {
    while !shared.is_over() {
        let mut stream = match tcp.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sleep(TICK);
                continue;
            }
            Err(error) => panic!("no connection: {error}"),
        };
        stream.set_nonblocking(false).unwrap();
        let mut len = [0; 2];
        if stream.read_exact(&mut len).is_err() {
            continue;
        }
        let mut bytes = vec![0; u16::from_be_bytes(len).into()];
        if stream.read_exact(&mut bytes).is_ok()
            && let Deed::Answer(answer) = shared.handle(&bytes, true)
        {
            let len = u16::try_from(answer.len()).unwrap().to_be_bytes();
            let _ = stream.write_all(&[&len[..], &answer].concat());
        }
    }
}
