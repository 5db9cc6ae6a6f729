//! The service of one host, and the server of its image: accepts every report, and announces each request before it answers.

use api::endpoint::Produces;
use fake_service::{Answer, Reply, Request};
use qemu_tests::uplink::HOST;
use std::{
    io::{self, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

pub(crate) const CLUSTER: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
pub(crate) const HOST_ID: &str = "aaaaaaaa-0000-0000-0000-000000000001";
/// Long enough for an interruption at a request to come before its answer.
const THINKING: Duration = Duration::from_millis(60);
const CHUNK: usize = 64 << 10;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    asked: Condvar,
}

impl Shared {
    /// Notes a request, and gives what is on offer.
    fn note(&self, request: &Request) -> State {
        let mut state = self.state.lock().unwrap();
        state.requests.push(name(request));
        self.asked.notify_all();
        let (image, config, bytes_per_second) = (state.image.clone(), state.config.clone(), state.bytes_per_second);
        State { image, config, bytes_per_second, ..State::default() }
    }
}

#[derive(Default)]
struct State {
    image: Arc<Vec<u8>>,
    config: String,
    bytes_per_second: u64,
    /// Since the last offer.
    requests: Vec<String>,
    /// Of the image, likewise.
    sent_bytes: u64,
}

/// Runs until the process ends.
pub(crate) struct Service {
    port: u16,
    shared: Arc<Shared>,
    api: Arc<fake_service::Service>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let answers = shared.clone();
        let api = Arc::new(fake_service::Service::new(move |request| answer(request, &answers)));
        let server = (shared.clone(), api.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, api) = server.clone();
                // A machine that is switched off hangs up.
                thread::spawn(move || serve(stream, &shared, &api).ok());
            }
        });
        Self { port, shared, api }
    }

    /// As a machine reaches it.
    pub(crate) fn url(&self) -> String {
        format!("http://{HOST}:{}", self.port)
    }

    /// What is installed from now on. Until now no request may have been one that the real service would refuse.
    pub(crate) fn offer(&self, image: &Arc<Vec<u8>>, config: &str, bytes_per_second: u64) {
        assert_eq!(self.api.take_violations(), [""; 0]);
        let (image, config) = (image.clone(), config.to_owned());
        *self.shared.state.lock().unwrap() = State { image, config, bytes_per_second, ..State::default() };
    }

    /// Bytes of the image that left since the last offer.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.shared.state.lock().unwrap().sent_bytes
    }

    /// What was asked for since the last offer.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().requests.clone()
    }

    /// Whether this was asked for since the last offer, or is within `limit`.
    pub(crate) fn is_asked(&self, what: &str, limit: Duration) -> bool {
        let state = self.shared.state.lock().unwrap();
        let missing = |state: &mut State| !state.requests.iter().any(|request| request.starts_with(what));
        !self.shared.asked.wait_timeout_while(state, limit, missing).unwrap().1.timed_out()
    }
}

/// What a request is called here.
fn name(request: &Request) -> String {
    let path = &request.path;
    match request.method.as_str() {
        "GET" if path.ends_with("/downloads/ignition") => "config".into(),
        "GET" if path == "/image.raw" => "image".into(),
        "PUT" if path.ends_with("/logs-progress") => {
            format!("logs {}", request.body["logs_state"].as_str().unwrap_or_default())
        }
        "PUT" if path.ends_with("/progress") => {
            format!("report {}", request.body["current_stage"].as_str().unwrap_or_default())
        }
        method => format!("{method} {path}"),
    }
}

/// What the host asks of its service.
fn answer(request: &Request, shared: &Shared) -> Answer {
    let config = shared.note(request).config;
    thread::sleep(THINKING);
    match request.endpoint {
        // Answers of the fake outlive it; a test has a few of these.
        Some(endpoint) if endpoint.produces == Produces::File => Answer::Text(200, config.leak()),
        Some(_) => Answer::Done,
        // The image has no signature.
        None => Answer::Status(404),
    }
}

fn serve(stream: TcpStream, shared: &Shared, api: &fake_service::Service) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(request) = Request::read(&mut reader)? {
        if !request.is_of_api && name(&request) == "image" {
            let State { image, bytes_per_second, .. } = shared.note(&request);
            thread::sleep(THINKING);
            let range = request.header("range").unwrap_or_default();
            let first = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap_or(0);
            return send_image(&mut stream, &image, first, bytes_per_second, shared);
        }
        match api.respond(request) {
            Reply::Whole(bytes) => stream.write_all(&bytes)?,
            Reply::Last(bytes) => return stream.write_all(&bytes),
        }
    }
    Ok(())
}

fn send_image(stream: &mut TcpStream, image: &[u8], first: usize, rate: u64, shared: &Shared) -> io::Result<()> {
    let rest = &image[first..];
    let status = if first == 0 { "200 OK" } else { "206 Partial Content" };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nConnection: close\r\nETag: \"{:x}\"\r\nAccept-Ranges: bytes\r\nContent-Length: {}\r\n\
         Content-Range: bytes {first}-{}/{}\r\n\r\n",
        image.len(),
        rest.len(),
        image.len() - 1,
        image.len()
    )?;
    let (began, mut sent) = (Instant::now(), 0_u64);
    for chunk in rest.chunks(CHUNK) {
        stream.write_all(chunk)?;
        let len = u64::try_from(chunk.len()).unwrap();
        sent += len;
        shared.state.lock().unwrap().sent_bytes += len;
        let due = Duration::from_micros(sent * 1_000_000 / rate.max(1));
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    Ok(())
}
