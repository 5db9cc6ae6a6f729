//! A service that can be made to do anything a service, or what stands before it, was ever seen to do.

use fake_service::{Answer, Reply, Request};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{self, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};
use testkit::port::Held;

pub(crate) const HOST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
pub(crate) const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
const LOOK: Duration = Duration::from_millis(10);
const HUGE_BYTES: usize = 1 << 30;

/// What it does with every request.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
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
pub(crate) type Identity = Arc<ServerConfig>;

/// What it says while it is healthy.
#[derive(Default)]
struct Script {
    instructions: Mutex<Value>,
    /// By step id.
    replies: Mutex<BTreeMap<String, Value>>,
    polls: AtomicU64,
}

struct State {
    mode: Mutex<(u64, Mode)>,
    identity: Mutex<Option<Identity>>,
    script: Arc<Script>,
    healthy: fake_service::Service,
    requests: AtomicU64,
    connections: AtomicU64,
    end: AtomicBool,
}

pub(crate) struct Service {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl Service {
    pub(crate) fn start(mode: Mode, identity: Option<Identity>) -> Self {
        let port = Held::default();
        let address = port.address();
        let listener = TcpListener::bind(address).unwrap();
        let script = Arc::<Script>::default();
        let told = script.clone();
        let state = Arc::new(State {
            mode: Mutex::new((0, mode)),
            identity: Mutex::new(identity),
            script,
            healthy: fake_service::Service::new(move |request| answer(request, &told)),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            end: AtomicBool::new(false),
        });
        let shared = state.clone();
        thread::spawn(move || listen(listener, &port, &shared));
        Self { address, state }
    }

    pub(crate) fn set(&self, mode: Mode) {
        let mut current = self.state.mode.lock().unwrap();
        *current = (current.0 + 1, mode);
    }

    pub(crate) fn present(&self, identity: Identity) {
        *self.state.identity.lock().unwrap() = Some(identity);
        // Connections that are open go on with what they know.
        let mode = self.state.mode.lock().unwrap().1.clone();
        self.set(mode);
    }

    /// Hands out one step in every poll, until it is answered.
    pub(crate) fn instruct(&self, step: Value) {
        *self.state.script.instructions.lock().unwrap() = json!([step]);
    }

    pub(crate) fn reply(&self, step_id: &str) -> Option<Value> {
        self.state.script.replies.lock().unwrap().get(step_id).cloned()
    }

    /// Polls that were answered well.
    pub(crate) fn polls(&self) -> u64 {
        self.state.script.polls.load(SeqCst)
    }

    /// Requests and connections of any kind.
    pub(crate) fn asked(&self) -> u64 {
        self.state.requests.load(SeqCst) + self.state.connections.load(SeqCst)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.state.end.store(true, SeqCst);
        self.set(Mode::Refuse);
        let violations = self.state.healthy.take_violations();
        assert!(thread::panicking() || violations.is_empty(), "{violations:#?}");
    }
}

/// Nobody else gets the port while this does not listen.
fn listen(listener: TcpListener, port: &Held, state: &Arc<State>) {
    let mut listener = Some(listener);
    while !state.end.load(SeqCst) {
        let refuses = matches!(state.mode.lock().unwrap().1, Mode::Refuse);
        match (&listener, refuses) {
            (Some(_), true) => listener = None,
            (None, true) => thread::sleep(LOOK),
            (None, false) => listener = TcpListener::bind(port.address()).ok(),
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
        let Some(request) = Request::read(&mut stream)? else { return Ok(()) };
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
            Mode::Healthy => {
                let Reply::Whole(bytes) = state.healthy.respond(request) else { return Ok(()) };
                stream.get_mut().write_all(&bytes)?;
                stream.get_mut().flush()?;
            }
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

fn answer(request: &Request, script: &Script) -> Answer {
    if request.ends_with("POST", "/hosts") {
        let args = json!({"agent_version": "r.io/agent:1", "host_id": HOST, "infra_env_id": INFRA_ENV}).to_string();
        return Answer::Json(201, json!({"id": HOST, "next_step_runner_command": {"args": [args]}}));
    }
    if request.ends_with("GET", "/instructions") {
        script.polls.fetch_add(1, SeqCst);
        let steps = script.instructions.lock().unwrap().clone();
        let poll = json!({"instructions": steps, "next_instruction_seconds": 1, "post_step_action": "continue"});
        return Answer::Json(200, poll);
    }
    if let Some(id) = request.body["step_id"].as_str() {
        // A step that was handed out twice replies twice; the next one is not to be taken back then.
        let mut instructions = script.instructions.lock().unwrap();
        if instructions[0]["step_id"] == id {
            *instructions = Value::Null;
        }
        script.replies.lock().unwrap().insert(id.to_owned(), request.body.clone());
    }
    Answer::Done
}
