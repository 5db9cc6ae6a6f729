//! A service for tests, as strict as the real one: what a client sends is held against the declarations of endpoints and the
//! description of their bodies, and a client that does what the real service refuses is refused in its words. Each such request
//! fails the test at its end, also where the client takes the refusal well. Answers are what the test says, in turn with nulls
//! for all that may be null, with all left out that may be, and with everything spelled out.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod answer;
mod check;
mod description;
mod http;
mod pace;
pub mod recorded;

pub use answer::{Answer, Reply};
pub use http::Request;

use answer::Turns;
use description::Description;
use pace::Pace;
use std::{
    io::{BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A test that waits longer hangs; nothing is measured by it.
pub const PATIENCE: Duration = testkit::wait::LIMIT;

/// What a test has requests answered with.
pub type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

/// A service without a network: requests in, replies out.
pub struct Service {
    handler: Box<Handler>,
    description: Description,
    requests: Mutex<Vec<Request>>,
    changed: Condvar,
    violations: Mutex<Vec<String>>,
    turns: Mutex<Turns>,
    pace: Mutex<Pace>,
}

/// A panic in a test must not hide behind another.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// A service that answers as `handler` says.
    pub fn new(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            handler: Box::new(handler),
            description: Description::new(),
            requests: Mutex::default(),
            changed: Condvar::new(),
            violations: Mutex::default(),
            turns: Mutex::default(),
            pace: Mutex::default(),
        }
    }

    /// Checks, notes and answers a request. What is not below the API's path is the handler's alone.
    pub fn respond(&self, request: Request) -> Reply {
        let checked = check::check(&request, &self.description);
        let reply = match checked {
            Ok(()) => {
                if let Err(haste) = lock(&self.pace).check(&request) {
                    self.note(&request, &haste);
                }
                self.answer(&request)
            }
            Err(refusal) => {
                self.note(&request, &refusal.message);
                refusal.reply()
            }
        };
        lock(&self.requests).push(request);
        self.changed.notify_all();
        reply
    }

    fn answer(&self, request: &Request) -> Reply {
        let answer = (self.handler)(request);
        if let Some(endpoint) = request.endpoint {
            if let Err(fault) = answer.check(endpoint) {
                self.note(request, &fault);
            }
            let turn = lock(&self.turns).next(endpoint);
            return answer.reply(Some((endpoint, &self.description, turn)));
        }
        answer.reply(None)
    }

    fn note(&self, request: &Request, what: &str) {
        let violation = format!("{} {}: {what}", request.method, request.target());
        let mut violations = lock(&self.violations);
        // Some clients ask again for ever.
        if !violations.contains(&violation) {
            violations.push(violation);
        }
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }

    /// What the real service would not have taken, for tests that mean to send it; the test then does not fail by it.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.violations))
    }

    /// Waits until `enough` says so and returns what came by then.
    pub fn wait_for(&self, what: &str, enough: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let end = Instant::now() + PATIENCE;
        let mut requests = lock(&self.requests);
        while !enough(&requests) {
            let left = end.saturating_duration_since(Instant::now());
            let violations = lock(&self.violations);
            assert!(!left.is_zero(), "never came: {what}; came: {requests:#?}; of it wrong: {violations:#?}");
            drop(violations);
            requests = self.changed.wait_timeout(requests, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        requests.clone()
    }

    /// Bodies of the progress reports, in order, as `stage` or `stage: info`.
    pub fn progress(&self) -> Vec<String> {
        let requests = self.requests();
        let reports = requests.iter().filter(|request| request.ends_with("PUT", "/progress"));
        reports
            .map(|report| match (report.body["current_stage"].as_str(), report.body["progress_info"].as_str()) {
                (Some(stage), Some(info)) => format!("{stage}: {info}"),
                (Some(stage), None) => stage.to_owned(),
                _ => panic!("odd report {}", report.body),
            })
            .collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let violations = std::mem::take(&mut *lock(&self.violations));
        // A second panic would end the process before the first is told.
        if !thread::panicking() {
            assert!(violations.is_empty(), "the real service would not have it so:\n{}", violations.join("\n"));
        }
    }
}

/// A service on a port of the loopback, or where a test listens.
pub struct FakeService {
    pub url: String,
    service: Option<Arc<Service>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeService {
    /// Listens on a free port of the loopback.
    pub fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), handler)
    }

    /// Serves `listener`.
    pub fn on(listener: TcpListener, handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (service, stop) = (Arc::new(Service::new(handler)), Arc::new(AtomicBool::new(false)));
        // Connections may stay open when the test is over: they must not keep the service, whose end is the test's verdict.
        let (served, stopped) = (Arc::downgrade(&service), stop.clone());
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let served = served.clone();
                thread::spawn(move || {
                    let stream = stream?;
                    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
                    while let Some(request) = Request::read(&mut reader)? {
                        let Some(service) = served.upgrade() else { break };
                        match service.respond(request) {
                            Reply::Whole(bytes) => writer.write_all(&bytes)?,
                            Reply::Last(bytes) => return writer.write_all(&bytes),
                        }
                    }
                    Ok::<_, std::io::Error>(())
                });
            }
        });
        Self { url, service: Some(service), stop, thread: Some(thread) }
    }
}

impl std::ops::Deref for FakeService {
    type Target = Service;

    fn deref(&self) -> &Service {
        self.service.as_ref().unwrap()
    }
}

impl Drop for FakeService {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // A connection may hold it for the moment of an answer, and its thread's panic would go unheard.
        let violations = self.take_violations();
        drop(self.service.take());
        if !thread::panicking() {
            assert!(violations.is_empty(), "the real service would not have it so:\n{}", violations.join("\n"));
        }
    }
}
