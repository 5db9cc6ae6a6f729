use super::*;
use std::{
    cell::{Cell, RefCell},
    net::TcpListener,
};

/// What comes of an attempt, after so many milliseconds.
type Script = Result<u64, (u64, io::ErrorKind)>;

/// Addresses that do what a test says. No clock runs.
struct Scripted {
    now: Cell<Instant>,
    started: Instant,
    script: Vec<Option<Script>>,
    /// When each was started.
    log: RefCell<Vec<u64>>,
    open: Cell<usize>,
}

struct Attempt<'a> {
    index: usize,
    since: Instant,
    script: Option<Script>,
    scripted: &'a Scripted,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.scripted.open.set(self.scripted.open.get() - 1);
    }
}

impl Attempt<'_> {
    fn over_at(&self) -> Option<Instant> {
        let ms = match self.script? {
            Ok(ms) | Err((ms, _)) => ms,
        };
        Some(self.since + Duration::from_millis(ms))
    }
}

impl<'a> Dial for &'a Scripted {
    type Attempt = Attempt<'a>;
    type Connection = usize;

    fn now(&self) -> Instant {
        self.now.get()
    }

    fn start(&self, address: SocketAddr) -> io::Result<Attempt<'a>> {
        let index = usize::from(address.port());
        self.log.borrow_mut().push(self.elapsed_ms());
        if let Some(Err((0, kind))) = self.script[index] {
            return Err(kind.into());
        }
        self.open.set(self.open.get() + 1);
        Ok(Attempt { index, since: self.now.get(), script: self.script[index], scripted: self })
    }

    fn finish(&self, attempt: Attempt<'a>) -> io::Result<Result<usize, Attempt<'a>>> {
        match attempt.script {
            _ if attempt.over_at().is_none_or(|at| at > self.now.get()) => Ok(Err(attempt)),
            Some(Err((_, kind))) => Err(kind.into()),
            _ => Ok(Ok(attempt.index)),
        }
    }

    fn wait(&self, attempts: &[&Attempt], until: Instant) {
        assert!(until > self.now.get(), "to wait for nothing is to spin");
        let next = attempts.iter().filter_map(|attempt| attempt.over_at()).min();
        self.now.set(next.unwrap_or(until).min(until));
    }
}

impl Scripted {
    fn new(script: &[Option<Script>]) -> Self {
        let now = Instant::now();
        let (log, open) = (RefCell::default(), Cell::default());
        Self { now: Cell::new(now), started: now, script: script.to_vec(), log, open }
    }

    fn elapsed_ms(&self) -> u64 {
        (self.now.get() - self.started).as_millis().try_into().unwrap()
    }

    /// Which address took the connection, or why none did. Its port tells addresses apart.
    fn race(&self, limit_s: u64) -> Result<usize, String> {
        let addresses: Vec<SocketAddr> =
            (0..self.script.len()).map(|port| ([10, 0, 0, 1], u16::try_from(port).unwrap()).into()).collect();
        let raced = race(&self, &addresses, Duration::from_secs(limit_s)).map_err(|error| error.to_string());
        assert_eq!(self.open.get(), 0, "nothing is left behind");
        raced
    }
}

const SILENT: Option<Script> = None;
const fn takes(ms: u64) -> Option<Script> {
    Some(Ok(ms))
}
const fn refuses(ms: u64) -> Option<Script> {
    Some(Err((ms, io::ErrorKind::ConnectionRefused)))
}

#[test]
fn the_next_address_is_tried_while_the_last_is_silent() {
    for (script, winner, started_ms, elapsed_ms) in [
        (&[takes(200), takes(1)][..], 0, &[0][..], 200),
        (&[SILENT, takes(1)], 1, &[0, 250], 251),
        (&[SILENT, SILENT, takes(10), takes(1)], 2, &[0, 250, 500], 510),
        // The first one was only slow.
        (&[takes(300), takes(1000)], 0, &[0, 250], 300),
        // Who refuses is not waited for.
        (&[refuses(20), takes(1)], 1, &[0, 20], 21),
        (&[refuses(0), refuses(0), takes(1)], 2, &[0, 0, 0], 1),
        (&[SILENT, refuses(30), takes(1)], 2, &[0, 250, 280], 281),
    ] {
        let scripted = Scripted::new(script);
        assert_eq!(scripted.race(30), Ok(winner), "{script:?}");
        assert_eq!((scripted.log.borrow().as_slice(), scripted.elapsed_ms()), (started_ms, elapsed_ms), "{script:?}");
    }
}

#[test]
fn all_of_it_takes_no_longer_than_it_may() {
    let scripted = Scripted::new(&[SILENT; 16]);
    let error = scripted.race(2).unwrap_err();
    assert!(
        error.starts_with("cannot connect to 10.0.0.1:0: no answer in 2.0 s; 10.0.0.1:1: no answer in 1.8 s; "),
        "{error}"
    );
    assert_eq!((scripted.elapsed_ms(), scripted.log.borrow().len()), (2000, 8), "the others had no time left");
}

#[test]
fn every_address_s_reason_is_reported() {
    let scripted = Scripted::new(&[refuses(0), SILENT, refuses(5)]);
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    let expected =
        format!("cannot connect to 10.0.0.1:0: {refused}; 10.0.0.1:1: no answer in 2.0 s; 10.0.0.1:2: {refused}");
    assert_eq!(scripted.race(2), Err(expected));
    assert_eq!(Scripted::new(&[]).race(2), Err("cannot connect".to_owned()));
}

#[test]
fn a_real_connection_blocks_and_a_refusal_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = listener.local_addr().unwrap();
    let held = testkit::port::Held::default();
    let nowhere = held.address();
    let mut stream = connect(&[nowhere, there], testkit::wait::LIMIT).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), there);
    let server = std::thread::spawn(move || io::Write::write_all(&mut listener.accept().unwrap().0, b"x").unwrap());
    io::Read::read_exact(&mut stream, &mut [0]).unwrap();
    server.join().unwrap();
    let error = connect(&[nowhere], testkit::wait::LIMIT).unwrap_err();
    assert_eq!((error.kind(), error.is_timeout()), (io::ErrorKind::ConnectionRefused, false));
    assert_eq!(error.to_string(), format!("cannot connect to {nowhere}: Connection refused (os error 111)"));
}
