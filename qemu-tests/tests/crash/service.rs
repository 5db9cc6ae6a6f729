//! The service of one host, and the server of its image: takes every report, and says what it was asked, before it answers.

use qemu_tests::uplink::HOST;
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

pub const CLUSTER: &str = "11111111-2222-3333-4444-555555555555";
pub const INFRA_ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
pub const HOST_ID: &str = "aaaaaaaa-0000-0000-0000-000000000001";
/// Long enough for an interruption at a request to come before its answer.
const THINKING: Duration = Duration::from_millis(60);
const CHUNK: usize = 64 << 10;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    asked: Condvar,
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

/// Goes on until the process ends.
pub struct Service {
    port: u16,
    shared: Arc<Shared>,
}

impl Service {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let server = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = server.clone();
                // A machine that is switched off hangs up.
                thread::spawn(move || serve(stream, &shared).ok());
            }
        });
        Self { port, shared }
    }

    /// As a machine reaches it.
    pub fn url(&self) -> String {
        format!("http://{HOST}:{}", self.port)
    }

    /// What is installed from now on.
    pub fn offer(&self, image: &Arc<Vec<u8>>, config: &str, bytes_per_second: u64) {
        let (image, config) = (image.clone(), config.to_owned());
        *self.shared.state.lock().unwrap() = State { image, config, bytes_per_second, ..State::default() };
    }

    /// Bytes of the image that left since the last offer.
    pub fn sent_bytes(&self) -> u64 {
        self.shared.state.lock().unwrap().sent_bytes
    }

    /// What was asked for since the last offer.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().requests.clone()
    }

    /// Whether this was asked for since the last offer, or is within `limit`.
    pub fn is_asked(&self, what: &str, limit: Duration) -> bool {
        let state = self.shared.state.lock().unwrap();
        let missing = |state: &mut State| !state.requests.iter().any(|request| request.starts_with(what));
        !self.shared.asked.wait_timeout_while(state, limit, missing).unwrap().1.timed_out()
    }
}

/// What a request is called here.
fn name(method: &str, path: &str, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match method {
        "GET" if path.ends_with("/downloads/ignition") => "config".into(),
        "GET" if path == "/image.raw" => "image".into(),
        "PUT" if path.ends_with("/progress") => {
            format!("report {}", body["current_stage"].as_str().unwrap_or_default())
        }
        "PUT" if path.ends_with("/logs-progress") => {
            format!("logs {}", body["logs_state"].as_str().unwrap_or_default())
        }
        _ => format!("{method} {path}"),
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let path = target.split('?').next().unwrap_or_default();
    let (mut length, mut first, mut chunked) = (0, 0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        // A header may be empty.
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "transfer-encoding" => chunked = true,
            "range" => first = value.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    while chunked && read_chunk(&mut reader, &mut body)? > 0 {}
    let name = name(&method, path, &body);
    let (image, config, rate) = {
        let mut state = shared.state.lock().unwrap();
        state.requests.push(name.clone());
        shared.asked.notify_all();
        (state.image.clone(), state.config.clone(), state.bytes_per_second)
    };
    thread::sleep(THINKING);
    match name.as_str() {
        "config" => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{config}", config.len())
        }
        "image" => send_image(&mut stream, &image, first, rate, shared),
        // Nobody signed the image.
        _ if method == "GET" => write!(stream, "HTTP/1.1 404 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        _ => write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"),
    }
}

/// Its length; none ends the body.
fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<usize> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
    reader.take(u64::try_from(length).unwrap()).read_to_end(body)?;
    reader.read_exact(&mut [0; 2])?;
    Ok(length)
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
