//! A service that can be made to do anything a service, or what stands before it, was ever seen to do.

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

pub const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
pub const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
const LOOK: Duration = Duration::from_millis(10);
const HUGE_BYTES: usize = 1 << 30;

/// What it does with every request.
#[derive(Clone, Debug)]
pub enum Mode {
    Healthy,
    /// Nobody listens.
    Refuse,
    /// These bytes, and the connection is closed.
    Raw(String),
    /// The head, and then so many bytes at a time, with a pause after each, until the other side has enough or 1 GiB is out.
    Endless {
        head: &'static str,
        bytes: usize,
        pause: Duration,
    },
    /// Not a byte.
    Hang,
}

/// A certificate and its key.
pub type Identity = Arc<ServerConfig>;

struct State {
    mode: Mutex<(u64, Mode)>,
    identity: Mutex<Option<Identity>>,
    instructions: Mutex<Value>,
    /// By step id.
    replies: Mutex<BTreeMap<String, Value>>,
    polls: AtomicU64,
    requests: AtomicU64,
    connections: AtomicU64,
    end: AtomicBool,
}

pub struct Service {
    pub address: SocketAddr,
    state: Arc<State>,
}

pub fn identity(certificate: &Path, key: &Path) -> Identity {
    let chain = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap).collect();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap())
}

impl Service {
    pub fn start(mode: Mode, identity: Option<Identity>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            mode: Mutex::new((0, mode)),
            identity: Mutex::new(identity),
            instructions: Mutex::new(Value::Null),
            replies: Mutex::default(),
            polls: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            end: AtomicBool::new(false),
        });
        let shared = state.clone();
        thread::spawn(move || listen(listener, address, &shared));
        Self { address, state }
    }

    pub fn set(&self, mode: Mode) {
        let mut current = self.state.mode.lock().unwrap();
        *current = (current.0 + 1, mode);
    }

    pub fn present(&self, identity: Identity) {
        *self.state.identity.lock().unwrap() = Some(identity);
        // Connections that are open go on with what they know.
        let mode = self.state.mode.lock().unwrap().1.clone();
        self.set(mode);
    }

    /// Hands out one step in every poll, until it is answered.
    pub fn instruct(&self, step: Value) {
        *self.state.instructions.lock().unwrap() = json!([step]);
    }

    pub fn reply(&self, step_id: &str) -> Option<Value> {
        self.state.replies.lock().unwrap().get(step_id).cloned()
    }

    /// Polls that were answered well.
    pub fn polls(&self) -> u64 {
        self.state.polls.load(SeqCst)
    }

    /// Requests and connections of any kind.
    pub fn asked(&self) -> u64 {
        self.state.requests.load(SeqCst) + self.state.connections.load(SeqCst)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.state.end.store(true, SeqCst);
        self.set(Mode::Refuse);
    }
}

fn listen(listener: TcpListener, address: SocketAddr, state: &Arc<State>) {
    let mut listener = Some(listener);
    while !state.end.load(SeqCst) {
        let refuses = matches!(state.mode.lock().unwrap().1, Mode::Refuse);
        match (&listener, refuses) {
            (Some(_), true) => listener = None,
            (None, true) => thread::sleep(LOOK),
            (None, false) => listener = TcpListener::bind(address).ok(),
            (Some(open), false) => {
                open.set_nonblocking(true).unwrap();
                let Ok((stream, _)) = open.accept() else {
                    thread::sleep(LOOK);
                    continue;
                };
                state.connections.fetch_add(1, SeqCst);
                let state = state.clone();
                thread::spawn(move || converse(stream, &state));
            }
        }
    }
}

fn converse(stream: TcpStream, state: &State) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let generation = state.mode.lock().unwrap().0;
    let identity = state.identity.lock().unwrap().clone();
    match identity {
        Some(identity) => {
            let session = ServerConnection::new(identity).map_err(io::Error::other)?;
            serve(StreamOwned::new(session, stream), generation, state)
        }
        None => serve(stream, generation, state),
    }
}

fn serve(stream: impl Read + Write, generation: u64, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let request = line.clone();
        let mut length = 0;
        while stream.read_line(&mut line)? > 2 {
            if let Some(value) = line.lines().last().unwrap().to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        state.requests.fetch_add(1, SeqCst);
        let mut waited = false;
        let (now, mode) = loop {
            let (now, mode) = state.mode.lock().unwrap().clone();
            match mode {
                Mode::Hang if !state.end.load(SeqCst) => {
                    waited = true;
                    thread::sleep(LOOK);
                }
                mode => break (now, mode),
            }
        };
        // One that waited gets what is to be had by now; of the others those that know the state before go.
        if now != generation && !waited {
            return Ok(());
        }
        match mode {
            Mode::Healthy => answer(&request, &body, stream.get_mut(), state)?,
            Mode::Refuse | Mode::Hang => return Ok(()),
            Mode::Raw(bytes) => return stream.get_mut().write_all(bytes.as_bytes()),
            Mode::Endless { head, bytes, pause } => {
                return pour(stream.get_mut(), head, bytes, pause, now, state);
            }
        }
    }
}

fn pour(
    stream: &mut impl Write,
    head: &str,
    bytes: usize,
    pause: Duration,
    generation: u64,
    state: &State,
) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n")?;
    let piece = vec![b' '; bytes];
    for _ in 0..HUGE_BYTES / bytes {
        if state.mode.lock().unwrap().0 != generation {
            break;
        }
        stream.write_all(&piece)?;
        stream.flush()?;
        thread::sleep(pause);
    }
    Ok(())
}

fn answer(request: &str, body: &[u8], stream: &mut impl Write, state: &State) -> io::Result<()> {
    let path = request.split(['?', ' ']).nth(1).unwrap_or_default();
    let (status, value) = if request.starts_with("POST") && path.ends_with("/hosts") {
        let args = json!({"agent_version": "r.io/agent:1", "host_id": HOST, "infra_env_id": INFRA_ENV}).to_string();
        (201, json!({"id": HOST, "next_step_runner_command": {"args": [args]}}))
    } else if request.starts_with("GET") && path.ends_with("/instructions") {
        state.polls.fetch_add(1, SeqCst);
        let steps = state.instructions.lock().unwrap().clone();
        (200, json!({"instructions": steps, "next_instruction_seconds": 1, "post_step_action": "continue"}))
    } else {
        if let Ok(reply) = serde_json::from_slice::<Value>(body) {
            *state.instructions.lock().unwrap() = Value::Null;
            state.replies.lock().unwrap().insert(reply["step_id"].as_str().unwrap_or_default().to_owned(), reply);
        }
        (204, Value::Null)
    };
    let text = if status == 204 { String::new() } else { value.to_string() };
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", text.len()) };
    let answer = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{length}\r\n{text}");
    stream.write_all(answer.as_bytes())?;
    stream.flush()
}

/// Waits for `done`; says what did not come.
pub fn wait(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        thread::sleep(LOOK);
    }
}
