//! A service for tests: a plain HTTP/1.1 server that records what it is asked and answers as the test says.
#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A test that waits longer hangs; nothing is measured by it.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Below `/api/assisted-install`, without the query.
    pub path: String,
    pub query: String,
    /// Names as sent.
    pub headers: Vec<(String, String)>,
    /// Text where it is no JSON.
    pub body: Value,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn ends_with(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path.ends_with(path)
    }
}

pub enum Answer {
    Status(u16),
    Json(u16, Value),
    Text(u16, &'static str),
    /// Not HTTP at all.
    Garbage,
    /// Close without a word.
    HangUp,
}

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<Request>>,
    changed: Condvar,
}

pub struct FakeService {
    pub url: String,
    log: Arc<Log>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeService {
    pub fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), handler)
    }

    pub fn on(listener: TcpListener, handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (log, stop) = (Arc::new(Log::default()), Arc::new(AtomicBool::new(false)));
        let handler: Arc<Handler> = Arc::new(handler);
        let (log2, stop2) = (log.clone(), stop.clone());
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop2.load(Ordering::Relaxed) {
                    return;
                }
                let (log, handler) = (log2.clone(), handler.clone());
                thread::spawn(move || {
                    let _ = serve(stream?, &log, &*handler);
                    Ok::<_, std::io::Error>(())
                });
            }
        });
        Self { url, log, stop, thread: Some(thread) }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.log.requests.lock().unwrap().clone()
    }

    /// Waits until `enough` says so and returns what came by then.
    pub fn wait_for(&self, what: &str, enough: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let end = Instant::now() + PATIENCE;
        let mut requests = self.log.requests.lock().unwrap();
        while !enough(&requests) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never came: {what}; came: {requests:#?}");
            requests = self.log.changed.wait_timeout(requests, left).unwrap().0;
        }
        requests.clone()
    }

    /// Bodies of the progress reports, in order, as `stage` or `stage: info`.
    pub fn progress(&self) -> Vec<String> {
        let requests = self.requests();
        let reports = requests.iter().filter(|r| r.ends_with("PUT", "/progress"));
        reports
            .map(|r| match (&r.body["current_stage"], &r.body["progress_info"]) {
                (Value::String(stage), Value::String(info)) => format!("{stage}: {info}"),
                (Value::String(stage), Value::Null) => stage.clone(),
                other => panic!("odd report {other:?}"),
            })
            .collect()
    }
}

impl Drop for FakeService {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(stream: TcpStream, log: &Log, handler: &Handler) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let (method, target) =
            (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let header = |wanted| headers.iter().find(|(name, _): &&(String, String)| name.eq_ignore_ascii_case(wanted));
        let mut body = vec![0; header("content-length").map_or(0, |(_, value)| value.parse().unwrap())];
        reader.read_exact(&mut body)?;
        if header("transfer-encoding").is_some() {
            body = read_chunks(&mut reader)?;
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let path = path.strip_prefix("/api/assisted-install").unwrap_or(path).to_owned();
        let body = match serde_json::from_slice(&body) {
            Ok(body) => body,
            Err(_) if body.is_empty() => Value::Null,
            Err(_) => String::from_utf8_lossy(&body).into(),
        };
        let request = Request { method, path, query: query.to_owned(), headers, body };
        let answer = handler(&request);
        log.requests.lock().unwrap().push(request);
        log.changed.notify_all();
        let (status, kind, text) = match answer {
            Answer::Status(status) => (status, "application/json", String::new()),
            Answer::Json(status, value) => (status, "application/json", value.to_string()),
            Answer::Text(status, text) => (status, "text/html", text.to_owned()),
            Answer::Garbage => return stream.write_all(b"\x16\x03\x01 what?\r\n\r\n"),
            Answer::HangUp => return Ok(()),
        };
        // 204 has no body and so no length.
        let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", text.len()) };
        // In one piece: the kernel holds the second of two small ones back until the first is acknowledged, which takes 40 ms.
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{length}\r\n{text}");
        stream.write_all(answer.as_bytes())?;
    }
}

fn read_chunks(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).unwrap()];
        reader.read_exact(&mut chunk)?;
        // And the end of its line.
        reader.read_exact(&mut [0; 2])?;
        if chunk.is_empty() {
            return Ok(body);
        }
        body.extend(chunk);
    }
}

/// The recorded traffic, when it is there.
pub fn wire() -> Option<std::path::PathBuf> {
    // Beside the workspace, of which the manifest may be a member's.
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = ["../shared/data/wire", "../../shared/data/wire"].map(|path| manifest.join(path));
    let found = path.into_iter().find(|path| path.is_dir());
    if found.is_none() {
        eprintln!(
            "skipped the comparison with recorded traffic: there is no shared/data/wire beside {}",
            manifest.display()
        );
    }
    found
}

/// A recorded exchange.
pub fn recorded(path: impl AsRef<std::path::Path>) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Names of recorded headers in lower case without those of Go's client and ours that say nothing.
pub fn recorded_headers(exchange: &Value) -> Vec<String> {
    let headers = exchange["request"]["headers"].as_array().unwrap();
    header_names(headers.iter().map(|pair| pair[0].as_str().unwrap()))
}

pub fn header_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let ignored = ["host", "user-agent", "content-length", "accept-encoding", "connection"];
    let mut names: Vec<_> = names.map(str::to_lowercase).filter(|name| !ignored.contains(&name.as_str())).collect();
    names.sort();
    names
}

/// Keys of an object, sorted.
pub fn keys(value: &Value) -> Vec<String> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}
